"""``pipegraph chat``: talk with a language model, turn after turn."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pipegraph.generators import finish
from pipegraph.graphs.errors import nearest
from pipegraph.runtime.errors import GraphError, Problem

from .show import echo, problems, write

if TYPE_CHECKING:
    from pipegraph.api import Workflow
    from pipegraph.models.llm.chat.conversation import Conversation

GRAPH: Final = "chat.json"
"""The ready-made graph whose inputs are the options."""
COMMANDS: Final = {
    "/image PATH": "show an image with the next message, to a vision-language model",
    "/reset": "clear the chat",
    "/help": "list these commands",
    "/quit": "leave; so does Ctrl-D. Ctrl-C stops an answer",
}
PROMPT: Final = "> "
ANSWERED, FAILED = 0, 1


@click.command()
@click.option("--model", metavar="NAME", help="Chat model: a name of `pipegraph models`, a folder or a GGUF file.")
@click.option("--system", metavar="TEXT", help="System prompt.")
@click.option("--max-tokens", type=int, help="Longest answer in tokens.  [default: 256]")
@click.option("--temperature", type=float, help="0 is greedy (default).")
@click.option(
    "--top-p", type=float, help="Sample from the smallest set of tokens with this total probability; default: 1."
)
@click.option("--seed", type=int, help="Seed of sampling; default: 0.")
@click.option("--thinking", type=click.Choice(["auto", "on", "off"]), help="Thinking before answers.")
@click.option("--device", help="cpu, cuda, cuda:1, ...; auto: a GPU if there is one (default).")
@click.option("--dtype", type=click.Choice(["auto", "fp32", "fp16", "bf16"]), help="Dtype of the network.")
@click.option("--quantize", type=click.Choice(["none", "q8", "w4"]), help="Quantize weights to 8 or 4 bits.")
@click.pass_context
def command(ctx: click.Context, /, device: str | None, dtype: str | None, quantize: str | None, **inputs: Any) -> None:
    """Talk with a language model. The chat stays in the KV cache: earlier messages are not read again.

    \b
    pipegraph models add smollm2 && pipegraph chat --model smollm2
    echo "What is a lighthouse?" | pipegraph chat --model smollm2      each line is a message

    Answers go to stdout, all else to stderr. Lines that begin with / are commands; /help lists them.
    """
    from pipegraph.quiet import quiet

    quiet()
    values = {name: value for name, value in inputs.items() if value is not None}
    values["model"] = values.get("model") or _default_model()
    workflow = _workflow(values["model"], device=device, dtype=dtype, quantize=quantize)
    workflow.check(**values)  # before torch is imported
    chat = Chat(_conversation(workflow, values), interactive=sys.stdin.isatty())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ctx.exit(chat.run())


def _default_model() -> str:
    """The user's only chat model; the shipped model writes prompts for images."""
    from pipegraph.models import paths
    from pipegraph.models.llm.load import KIND

    names = [name for name in paths.names(KIND) if not name.startswith("embedded/")]
    if len(names) == 1:
        return names[0]
    available = "several: " + ", ".join(names) if names else "none; the shipped one only writes prompts for images"
    hint = "name one with --model" if names else "fetch one (98 MB) with `pipegraph models add smollm2`"
    raise GraphError([Problem(code="no_model", message=f"chat models: {available}", hint=hint)])


def _workflow(model: str, **settings: str | None) -> Workflow:
    from pipegraph.api import load

    path = Path(model).expanduser()
    return load(GRAPH, allow=[path] if path.exists() else [], **settings)  # type: ignore[arg-type]


def _conversation(workflow: Workflow, inputs: dict[str, Any]) -> Conversation:
    """Load the model, with settings from ``inputs`` and the graph."""
    from pipegraph.access import Access, granted
    from pipegraph.models.llm.chat.conversation import Conversation
    from pipegraph.models.llm.decode.sampling import SamplingParams
    from pipegraph.models.llm.load import load_llm
    from pipegraph.models.loading.place import Place

    settings = workflow.settings()
    place = Place.of(settings.device, settings.dtype)
    values = workflow.inputs | inputs
    try:
        with granted(Access.to(*workflow.allow)):
            llm = load_llm(values["model"], place.device, place.dtype, quantize=settings.quantize)
        params = SamplingParams(**{key: values[key] for key in ("temperature", "top_p", "max_tokens", "seed")})
        thinking = {"auto": None, "on": True, "off": False}[values["thinking"]]
        conversation = Conversation(llm, params, system=values["system"], thinking=thinking)
    except (LookupError, ValueError) as e:
        raise GraphError([Problem(code="no_model", message=str(e.args[0] if e.args else e))]) from e
    for remark in llm.tokenizer.remarks if llm.tokenizer else ():
        _warn(remark)
    if params.idle:
        _warn(f"temperature is 0, so no token is sampled: {', '.join(params.idle)} does nothing")
    return conversation


class Chat:
    """Messages in, answers out, until the input ends."""

    def __init__(self, conversation: Conversation, interactive: bool) -> None:
        self.conversation, self.interactive = conversation, interactive

    def run(self) -> int:
        """Run the chat; returns the exit code. In a pipe the first failure ends it."""
        if self.interactive:
            echo(f"{self.conversation.llm.loaded.name}. /help lists the commands, /quit leaves.", err=True)
        for line in self._lines():
            try:
                if line.startswith("/") and "/" not in (word := line[1:].split(" ")[0]) and word:
                    if word in ("quit", "exit"):
                        break
                    self._command(word, line[1 + len(word) :].strip())
                else:
                    self._answer(line)
            except ValueError as e:
                problems([Problem(code="bad_message", message=str(e))])
                if not self.interactive:
                    return FAILED
        return ANSWERED

    def _lines(self) -> Iterator[str]:
        """Messages and commands; Ctrl-C drops the line that is being typed."""
        if self.interactive:
            import readline  # noqa: F401  # line editing and history for input()
        while True:
            try:
                line = self._line()
                line.encode()
            except EOFError:
                if self.interactive:
                    echo("", err=True)
                return
            except UnicodeError as e:
                raise GraphError([Problem(code="no_text", message=f"standard input is no UTF-8 text: {e}")]) from e
            except KeyboardInterrupt:
                if not self.interactive:
                    raise
                echo("\n/quit or Ctrl-D leaves", err=True)
                continue
            if line.strip():
                yield line.strip()

    def _line(self) -> str:
        if not self.interactive:
            return input()
        if sys.stdout.isatty():
            return input(PROMPT)
        click.echo(PROMPT, nl=False, err=True)  # stdout holds answers
        return input()

    def _command(self, name: str, argument: str) -> None:
        match name:
            case "help":
                for command, text in COMMANDS.items():
                    echo(f"  {command:<12} {text}", err=True)
            case "reset":
                self.conversation.reset()
                echo("the chat begins anew", err=True)
            case "image" if argument:
                self._show(argument)
            case _:
                known = [key[1:].split(" ")[0] for key in COMMANDS]
                hint = "it needs a path" if name == "image" else nearest(name, known) or "/help lists the commands"
                raise ValueError(f"no such command: /{name} {argument}".rstrip() + f"; {hint}")

    def _show(self, path: str) -> None:
        from pipegraph.models.media.image_read import read_picture

        self.conversation.show([])  # says so if the model cannot see
        pixels, _ = read_picture(Path(path.strip("'\"")).expanduser())
        self.conversation.show([*pixels])
        echo(f"{path} is shown with the next message", err=True)

    def _answer(self, message: str) -> None:
        pieces: list[str] = []

        def show(piece: str) -> None:
            pieces.append(piece)
            if piece:
                write(piece)

        with self._stopped_by_ctrl_c():
            answer = finish(self.conversation.say(message), show)
        text = "".join(pieces)
        if not text.endswith("\n"):
            write("\n")
        for remark in answer.remarks:
            _warn(remark)
        if answer.finish == "length":
            count = answer.stats.reply_tokens
            _warn(f"the answer is cut after {count} tokens: --max-tokens is reached, or memory or context are full")
        elif answer.finish == "interrupted":
            echo("stopped" if text else "stopped; the message is forgotten", err=True)

    @contextmanager
    def _stopped_by_ctrl_c(self) -> Iterator[None]:
        """Ctrl-C ends the answer; a second one ends the chat, and so does the first in a pipe."""
        asked = False

        def stop(number: int, frame: Any) -> None:
            nonlocal asked
            if asked or not self.interactive:
                raise KeyboardInterrupt
            asked = True
            self.conversation.stop()

        before: Callable[..., Any] | int | None = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _warn(text: str) -> None:
    echo(f"{click.style('warning', fg='yellow')}: {text}", err=True)
