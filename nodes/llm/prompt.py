"""Load a language model; chat templates, tokenizing, grammars and parsing of replies."""

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
SeenImage = Annotated[Image, Needs("pictures", "reads text only, no images")]
Thinking = Literal["auto", "on", "off"]
SWITCH = {"auto": None, "on": True, "off": False}
"""The values of a THINKING input."""


def _abilities(llm_name: str) -> Mapping[str, Any]:
    """Abilities of a model, for nodes that need them."""
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
        device: Device to run on.
        quantize: Quantize linear layers to 8 or 4 bits; layers that are quantized in the file stay as they are.
        packed: For GGUF files: `fast` repacks 4- and 8-bit weights, with the same values, for fast decoding; `mapped`
            leaves them memory-mapped in the file: less memory, slower replies.
    """
    from pipegraph.models.loading.place import Place
    from pipegraph.models.quantize import noted

    place = Place.of("cpu" if device == "cpu" else ctx.device, ctx.dtype)
    wanted = ctx.quantize if quantize == "default" else quantize
    with loading(ctx):
        llm = load.load_llm(llm_name, place.device, place.dtype, quantize=wanted, mapped=packed == "mapped")
    for remark in llm.tokenizer.remarks if llm.tokenizer else ():
        ctx.warn(remark)
    if packed_weights := noted({"llm": llm.loaded.network}):
        ctx.note("weights", packed_weights)
    return llm


@outputs
class Counted:
    """Tokens and how many they are."""

    tokens: Tokens
    count: int


@node("Tokenize", category="llm/text")
def tokenize(llm: LLM, text: LongText, control_tokens: bool = False) -> Counted:
    """Encode text as tokens.

    Args:
        llm: Language model whose tokenizer is used.
        text: A prompt. The model's BOS token is put before it.
        control_tokens: The text comes from a chat template: parse control tokens in it, and add no BOS token.
    """
    from pipegraph.models.llm.tokens import Tokens as Values

    ids = _tokenizer(llm).encode(text, control=control_tokens)
    return Counted(Values((ids,)), len(ids))


@node("Detokenize", category="llm/text", output="text")
def detokenize(llm: LLM, tokens: Tokens, control_tokens: bool = False) -> str:
    """Decode tokens to text; several sequences are separated by an empty line.

    Args:
        llm: Language model whose tokenizer is used.
        tokens: Tokens to decode.
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
    """Render a chat with the model's template, up to where the model answers.

    Images are in `tokens` only; in `text` each is one placeholder. `thinking_begun` is true if the template opens the
    thinking of the reply, for ParseReply.

    Args:
        llm: Language model whose template is used.
        message: User message, or a whole chat as a JSON list of `{"role": ..., "content": ...}`.
        system: System prompt; if it is empty, some templates use their own.
        tools: Functions that the model may call, a JSON list of schemas.
        thinking: Whether the model thinks before it answers; auto leaves it to the template.
        date: Date for templates that show one. It is an input, so that the same graph gives the same tokens.
        image: Images for a vision-language model, in batch order: where the chat has parts `{"type": "image"}`, else
            at the beginning of its last user turn.
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
    """The chat of a node's inputs, and its tokens; remarks become warnings.

    Raises:
        ValueError: the chat, the tools or the day cannot be read, or the model reads no images.
    """
    from datetime import date as day

    from pipegraph.models.llm.chat.template import DAY, ChatError, messages_of, misread, write_chat
    from pipegraph.models.llm.network.vision import check_vision, shown

    images = [] if image is None else list(image)
    if images:
        check_vision(llm)

    try:
        today = day.fromisoformat(date) if date else DAY
    except ValueError as e:
        raise ChatError(f"the date is written like 2026-01-31, not {date!r}") from e
    chat = write_chat(
        _tokenizer(llm),
        messages_of(message, system, len(images)),
        tools=_tools(tools),
        thinking=SWITCH[thinking],
        day=today,
        sees=llm.vision is not None,
    )
    for remark in filter(None, [misread(message), *chat.remarks]):
        ctx.warn(remark)
    return chat, shown(llm, chat.ids, images)


def _tools(text: str) -> list[Any]:
    import json

    from pipegraph.models.llm.chat.template import ChatError

    try:
        tools = json.loads(text) if text.strip() else []
    except ValueError as e:
        raise ChatError(f"the tools are no JSON: {e}") from e
    return tools if isinstance(tools, list) else [tools]


def _tokenizer(llm: LLM) -> Any:
    if llm.tokenizer is None:
        raise ValueError(f"{llm.loaded.name} has no tokenizer")
    return llm.tokenizer


@node("StructuredOutput", category="llm", output="grammar")
def structured_output(kind: Literal["json", "regex", "choices", "grammar"], form: LongText) -> Grammar:
    """Compile a grammar that replies have to follow.

    Args:
        kind: `json`: a JSON schema. `regex`: an expression that the whole reply matches. `choices`: one of some texts.
            `grammar`: a grammar in Lark's notation, which begins at `start`.
        form: The schema, expression, choices (one a line, or a JSON list) or grammar.
    """
    from pipegraph.models.llm.decode.structured import Grammar as Value

    return Value.of(kind, form)


@outputs
class Parsed:
    """The parts of a reply."""

    answer: str
    thinking: str
    tool_calls: str


@node("ParseReply", category="llm/text")
def parse_reply(text: str, ctx: RunContext, thinking_begun: bool = False, tools: LongText = "") -> Parsed:
    """Parse a reply into thinking, answer and tool calls (a JSON list).

    Args:
        text: The reply.
        thinking_begun: The prompt ended inside thinking, so the reply starts with it: connect ChatTemplate's or
            TextGenerate's output. Otherwise an end tag counts only after a start tag.
        tools: Functions that the model may call, as in ChatTemplate. Parameters between tags get the types of their
            schemas; without schemas they are strings.
    """
    import json

    from pipegraph.models.llm.chat.reply import parse_reply
    from pipegraph.models.llm.chat.template import checked_tools

    parsed = parse_reply(text, thinking=thinking_begun, tools=checked_tools(_tools(tools)))
    for problem in parsed.problems:
        ctx.warn(problem)
    calls = json.dumps([call.as_dict() for call in parsed.tool_calls], ensure_ascii=False)
    return Parsed(parsed.answer, parsed.thinking, calls)
