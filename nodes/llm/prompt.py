"""Load a language model, and text to tokens and back: chats, forms of replies, replies taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pipegraph.models import paths
from pipegraph.models.llm import load
from pipegraph.models.loading.headers import with_sound_headers
from pipegraph.runtime.node import FileInput, Multiline, Needs, RunContext, node, outputs

from ..utils.progress import loading
from ..wire import LLM, Grammar, Image, Tokens


def _files(name: str) -> list[Path]:
    return with_sound_headers(load.files_of(name))


LLMName = Annotated[str, FileInput(_files, lambda: paths.names(load.KIND))]
LongText = Annotated[str, Multiline()]
SeenImage = Annotated[Image, Needs("pictures", "reads text only and can be shown no picture")]
Thinking = Literal["auto", "on", "off"]
SWITCH = {"auto": None, "on": True, "off": False}
"""The values of a THINKING input."""


def _abilities(llm_name: str) -> Mapping[str, Any]:
    """What a model can do, for nodes that need it."""
    return load.abilities(llm_name)


@node("LoadLLM", category="llm", title="Load LLM", output="llm", recommend=_abilities)
def load_llm(
    llm_name: LLMName,
    ctx: RunContext,
    device: Literal["default", "cpu"] = "default",
    quantize: Literal["default", "q8", "w4"] = "default",
    packed: Literal["fast", "mapped"] = "fast",
) -> LLM:
    """Load a language model with its tokenizer and chat template.

    Args:
        llm_name: A folder in transformers' layout, a GGUF file, `org/name` in the local hub cache, or `embedded/...`.
        device: Where it computes.
        quantize: Keep weights of linear layers in 8 or 4 bits; those that are packed already stay as they are.
        packed: Of a GGUF file: `fast` brings 4- and 8-bit weights, with the same values, into the order in which one
            token is computed fastest; `mapped` leaves them in the file, for less memory and slower replies.
    """
    from pipegraph.models.loading.place import Place
    from pipegraph.models.quantize import noted

    place = Place.of("cpu" if device == "cpu" else ctx.device, ctx.dtype)
    wanted = ctx.quantize if quantize == "default" else quantize
    with loading(ctx):
        llm = load.load_llm(llm_name, place.device, place.dtype, quantize=wanted, mapped=packed == "mapped")
    for remark in llm.tokenizer.remarks if llm.tokenizer else ():
        ctx.warn(remark)
    if found := noted({"llm": llm.network}):
        ctx.note("weights", found)
    return llm


@outputs
class Counted:
    """Tokens and how many they are."""

    tokens: Tokens
    count: int


@node("Tokenize", category="llm/text")
def tokenize(llm: LLM, text: LongText, control_tokens: bool = False) -> Counted:
    """Turn a text into tokens.

    Args:
        llm: Whose tokenizer is used.
        text: A prompt. The token that the model wants before a text is put before it.
        control_tokens: The text comes from a chat template: what looks like a control token in it is one, and nothing
            is put before it.
    """
    from pipegraph.models.llm.llm import Tokens as Values

    ids = _tokenizer(llm).encode(text, control=control_tokens)
    return Counted(Values((ids,)), len(ids))


@node("Detokenize", category="llm/text", output="text")
def detokenize(llm: LLM, tokens: Tokens, control_tokens: bool = False) -> str:
    """Turn tokens into text; several sequences become texts with an empty line between them.

    Args:
        llm: Whose tokenizer is used.
        tokens: What to read.
        control_tokens: Write control tokens, too.
    """
    tokenizer = _tokenizer(llm)
    return "\n\n".join(tokenizer.decode(ids, control=control_tokens) for ids in tokens)


@outputs
class Written:
    """A chat as text and as tokens."""

    text: str
    tokens: Tokens
    thinking_begun: bool


@node("ChatTemplate", category="llm/text")
def chat_template(
    ctx: RunContext,
    llm: LLM,
    message: LongText,
    system: LongText = "",
    tools: LongText = "",
    thinking: Thinking = "auto",
    date: str = "2026-01-01",
    image: SeenImage | None = None,
) -> Written:
    """Write a chat as the model's own template wants it, up to where the model is to answer.

    Pictures are in `tokens` only: the places that they take there are one placeholder each in `text`. `thinking_begun`
    says whether the template has begun the thinking of the reply, for ParseReply.

    Args:
        llm: Whose template is used.
        message: What the user says, or a whole chat as a JSON list of `{"role": ..., "content": ...}`.
        system: What the model is told first; some templates have a text of their own for it if this is empty.
        tools: Functions that the model may call, a JSON list of schemas.
        thinking: Whether the model thinks before it answers; auto leaves it to the template.
        date: The day that templates may name. It is given, so that the same graph gives the same tokens.
        image: Pictures that a vision-language model is shown, in the order of the batch: where the chat has parts
            `{"type": "image"}`, else at the beginning of its last user turn.
    """
    chat, tokens = written_chat(ctx, llm, message, system, tools, thinking, date, image)
    return Written(chat.text, tokens, chat.begins_thinking)


def written_chat(
    ctx: RunContext,
    llm: LLM,
    message: str,
    system: str,
    tools: str = "",
    thinking: Thinking = "auto",
    date: str = "",
    image: Any = None,
) -> tuple[Any, Any]:
    """The chat that a node's inputs stand for, and its tokens; what is to be said about it is said.

    Raises:
        ValueError: the chat, the tools or the day cannot be read, or the model reads no pictures.
    """
    from datetime import date as day

    from pipegraph.models.llm.chat import DAY, ChatError, messages_of, misread, write_chat
    from pipegraph.models.llm.vision import check_sight, shown

    pictures = [] if image is None else list(image)
    if pictures:
        check_sight(llm)

    try:
        told = day.fromisoformat(date) if date else DAY
    except ValueError as e:
        raise ChatError(f"the date is written like 2026-01-31, not {date!r}") from e
    chat = write_chat(
        _tokenizer(llm),
        messages_of(message, system, len(pictures)),
        tools=_tools(tools),
        thinking=SWITCH[thinking],
        day=told,
        sees=llm.vision is not None,
    )
    for remark in filter(None, [misread(message), *chat.remarks]):
        ctx.warn(remark)
    return chat, shown(llm, chat.ids, pictures)


def _tools(text: str) -> list[Any]:
    import json

    from pipegraph.models.llm.chat import ChatError

    try:
        found = json.loads(text) if text.strip() else []
    except ValueError as e:
        raise ChatError(f"the tools are no JSON: {e}") from e
    return found if isinstance(found, list) else [found]


def _tokenizer(llm: LLM) -> Any:
    if llm.tokenizer is None:
        raise ValueError(f"{llm.name} has no tokenizer")
    return llm.tokenizer


@node("StructuredOutput", category="llm", output="grammar")
def structured_output(kind: Literal["json", "regex", "choices", "grammar"], form: LongText) -> Grammar:
    """Make a form that replies have to keep to; a broken one is refused.

    Args:
        kind: `json`: a JSON schema. `regex`: an expression that the whole reply matches. `choices`: one of some texts.
            `grammar`: a grammar in Lark's notation, which begins at `start`.
        form: The schema, expression, choices (one a line, or a JSON list) or grammar.
    """
    from pipegraph.models.llm.structured import Grammar as Value

    return Value.of(kind, form)


@outputs
class Parsed:
    """A reply taken apart."""

    answer: str
    thinking: str
    tool_calls: str


@node("ParseReply", category="llm/text")
def parse_reply(text: str, ctx: RunContext, thinking_begun: bool = False, tools: LongText = "") -> Parsed:
    """Take a reply apart: what the model thought, what it answers, and the tools it calls (a JSON list).

    Args:
        text: What the model wrote.
        thinking_begun: The prompt ended inside thinking, so that all is thinking up to its end: link ChatTemplate's or
            TextGenerate's output. Without it an end of thinking counts only behind a beginning.
        tools: Functions that the model may call, as ChatTemplate has them. Parameters between tags are of the types
            that their schemas say; without schemas they are texts.
    """
    import json

    from pipegraph.models.llm.chat import checked_tools
    from pipegraph.models.llm.reply import parse_reply

    parsed = parse_reply(text, thinking=thinking_begun, tools=checked_tools(_tools(tools)))
    for problem in parsed.problems:
        ctx.warn(problem)
    calls = json.dumps([call.as_dict() for call in parsed.tool_calls], ensure_ascii=False)
    return Parsed(parsed.answer, parsed.thinking, calls)
