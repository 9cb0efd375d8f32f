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
    from pipegraph.models.llm.conversation import Conversation

GRAPH: Final = "chat.json"
"""The ready-made graph whose inputs the options are."""
COMMANDS: Final = {
    "/image PATH": "show a picture with the next message, to a model that sees",
    "/reset": "forget the chat so far",
    "/help": "list these commands",
    "/quit": "leave; so does Ctrl-D. Ctrl-C stops an answer",
}
PROMPT: Final = "> "
ANSWERED, FAILED = 0, 1


@click.command()
@click.option(
    "--model", metavar="NAME", help="A model that chats: a name of `pipegraph models`, a folder or a GGUF file."
)
@click.option("--system", metavar="TEXT", help="What the model is told first.")
@click.option("--max-tokens", type=int, help="An answer ends after so many tokens at the latest.  [default: 256]")
@click.option("--temperature", type=float, help="0 takes the likeliest token each time (default).")
@click.option("--top-p", type=float, help="Draw among the fewest likeliest tokens with this probability; default: 1.")
@click.option("--seed", type=int, help="Same seed and same messages, same answers; default: 0.")
@click.option("--thinking", type=click.Choice(["auto", "on", "off"]), help="Whether the model thinks first.")
@click.option("--device", help="cpu, cuda, cuda:1, ...; auto: a GPU if there is one (default).")
@click.option("--dtype", type=click.Choice(["auto", "fp32", "fp16", "bf16"]), help="Numbers of the network.")
@click.option("--quantize", type=click.Choice(["none", "q8", "w4"]), help="Keep weights in 8 or 4 bits.")
@click.pass_context
def command(ctx: click.Context, /, device: str | None, dtype: str | None, quantize: str | None, **inputs: Any) -> None:
    """Talk with a language model. The chat stays in memory; what was read is not read again.

    \b
    pipegraph models add smollm2 && pipegraph chat --model smollm2
    echo "What is a lighthouse?" | pipegraph chat --model smollm2      each line is a message

    Answers go to stdout, all else to stderr. Lines that begin with / are commands; /help lists them.
    """
    from pipegraph.quiet import quiet

    quiet()
    given = {name: value for name, value in inputs.items() if value is not None}
    given["model"] = given.get("model") or _default_model()
    workflow = _workflow(given["model"], device=device, dtype=dtype, quantize=quantize)
    workflow.check(**given)  # before torch is imported
    chat = Chat(_conversation(workflow, given), interactive=sys.stdin.isatty())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ctx.exit(chat.run())


def _default_model() -> str:
    """The only model of the user's that may chat; what ships writes prompts for pictures."""
    from pipegraph.models import paths
    from pipegraph.models.llm.load import KIND

    found = [name for name in paths.names(KIND) if not name.startswith("embedded/")]
    if len(found) == 1:
        return found[0]
    some = "several: " + ", ".join(found) if found else "none here; the one that ships only writes prompts for pictures"
    hint = "name one with --model" if found else "fetch one (98 MB) with `pipegraph models add smollm2`"
    raise GraphError([Problem(code="no_model", message=f"of models that chat there are {some}", hint=hint)])


def _workflow(model: str, **settings: str | None) -> Workflow:
    from pipegraph.api import load

    path = Path(model).expanduser()
    return load(GRAPH, allow=[path] if path.exists() else [], **settings)  # type: ignore[arg-type]


def _conversation(workflow: Workflow, given: dict[str, Any]) -> Conversation:
    """The model, loaded, and the settings of its answers; what is not given is as in the graph."""
    from pipegraph.access import Access, granted
    from pipegraph.models.llm.conversation import Conversation
    from pipegraph.models.llm.load import load_llm
    from pipegraph.models.llm.sampling import SamplingParams
    from pipegraph.models.loading.place import Place

    settings = workflow.settings()
    place = Place.of(settings.device, settings.dtype)
    values = workflow.inputs | given
    try:
        with granted(Access.to(*workflow.allow)):
            llm = load_llm(values["model"], place.device, place.dtype, quantize=settings.quantize)
        params = SamplingParams(**{key: values[key] for key in ("temperature", "top_p", "max_tokens", "seed")})
        thinking = {"auto": None, "on": True, "off": False}[values["thinking"]]
        made = Conversation(llm, params, system=values["system"], thinking=thinking)
    except (LookupError, ValueError) as e:
        raise GraphError([Problem(code="no_model", message=str(e.args[0] if e.args else e))]) from e
    for remark in llm.tokenizer.remarks if llm.tokenizer else ():
        _warn(remark)
    if params.idle:
        _warn(f"temperature is 0, so no token is drawn: {', '.join(params.idle)} does nothing")
    return made


class Chat:
    """Messages in, answers out, until the input ends."""

    def __init__(self, conversation: Conversation, interactive: bool) -> None:
        self.conversation, self.interactive = conversation, interactive

    def run(self) -> int:
        """The exit code. In a pipe the first message that fails ends the chat."""
        if self.interactive:
            echo(f"{self.conversation.llm.name}. /help lists the commands, /quit leaves.", err=True)
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
            import readline  # noqa: F401  # input() then lets the line be edited, and remembers earlier ones
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
                for command, what in COMMANDS.items():
                    echo(f"  {command:<12} {what}", err=True)
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
        said = "".join(pieces)
        if not said.endswith("\n"):
            write("\n")
        for remark in answer.remarks:
            _warn(remark)
        if answer.finish == "length":
            count = answer.stats.reply_tokens
            _warn(f"the answer is cut after {count} tokens: --max-tokens is reached, or memory or context are full")
        elif answer.finish == "interrupted":
            echo("stopped" if said else "stopped; the message is forgotten", err=True)

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
