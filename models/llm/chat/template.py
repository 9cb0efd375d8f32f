"""Chats rendered by a model's own template.

The template comes with the model and runs in transformers' sandbox. It gets plain JSON values and a fixed date instead
of the clock, so that the same chat always gives the same tokens.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

from ..tokenizer import Tokenizer, free_mark
from .reply import begins_thinking

ROLES: Final = ("system", "developer", "user", "assistant", "tool")
SWITCHES: Final = ("enable_thinking", "thinking")
"""Names of the thinking switch in templates."""
_THOUGHTS: Final = ("reasoning_content", "thinking", "reasoning")
"""Fields of an assistant's thinking; templates read one of the first two."""
_FIELDS: Final = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", *_THOUGHTS})
"""Fields a turn may have in all chats."""
DAY: Final = date(2026, 1, 1)
"""Default date for templates."""

MOST_CHARACTERS: Final = 1 << 24
MOST_SECONDS: Final = 20.0
"""Limits of a template's output and time."""

Message = Mapping[str, Any]


class ChatError(ValueError):
    """A chat that cannot be rendered; names the turn, from 1."""


@dataclass(frozen=True, slots=True)
class Chat:
    """A rendered chat."""

    text: str
    ids: tuple[int, ...]
    """May differ from the ids of ``text``: control tokens that users spelled are text."""
    remarks: tuple[str, ...] = ()
    """Warnings for the user."""

    @property
    def begins_thinking(self) -> bool:
        """Whether the template has opened thinking."""
        return begins_thinking(self.text)


def messages_of(text: str, system: str = "", pictures: int = 0) -> list[Message]:
    """Messages from a JSON list of them, or from the plain text of one user turn.

    Args:
        text: The user's text, or the list.
        system: System prompt.
        pictures: Number of image placeholders. If the list has none, they come first in its last user turn.
    """
    messages: list[Message] = [{"role": "user", "content": text}]
    if text.lstrip().startswith("[") and isinstance(listed := _json(text), list) and _are_messages(listed):
        messages = listed
    if pictures and not any(part.get("type") == "image" for m in messages for part in _parts(m.get("content"))):
        last = max((i for i, m in enumerate(messages) if m["role"] == "user"), default=-1)
        if last < 0:
            raise ChatError("there is a picture, but no user turn that could show it")
        shown = [{"type": "image"}] * pictures + _parts(messages[last].get("content"))
        messages = [*messages[:last], {**messages[last], "content": shown}, *messages[last + 1 :]]
    if system:
        if messages and messages[0].get("role") == "system":
            raise ChatError("turn 1 is a system turn, and another system text is given; keep one of them")
        messages = [{"role": "system", "content": system}, *messages]
    return messages


def _are_messages(value: Sequence[Any]) -> bool:
    return any(isinstance(m, dict) and "role" in m for m in value)


def misread(text: str) -> str:
    """Warning for text that looks like a JSON list of messages but is not valid JSON; else empty."""
    if not (text.lstrip().startswith("[") and '"role"' in text):
        return ""
    try:
        json.loads(text)
    except ValueError as e:
        return f"the message looks like a chat in JSON, and is sent as it is, for it cannot be read as one: {e}"
    return ""


def _parts(content: Any) -> list[dict[str, Any]]:
    """The parts of a turn's content; ``_content`` reports anything else."""
    if isinstance(content, list):
        return [part for part in content if isinstance(part, dict)]
    return [{"type": "text", "text": content}] if isinstance(content, str) else []


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def write_chat(
    tokenizer: Tokenizer,
    messages: Sequence[Message],
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    thinking: bool | None = None,
    reply: bool = True,
    day: date = DAY,
    sees: bool = False,
) -> Chat:
    """Render a chat to text and tokens.

    Args:
        tokenizer: The model's tokenizer, with its template.
        messages: Turns of ``role`` and ``content`` (a text, or a list of ``{"type": "text", "text": ...}``); an
            assistant's may have ``tool_calls`` and ``reasoning_content``.
        tools: JSON schemas of functions, bare or as ``{"type": "function", "function": {...}}``.
        thinking: Whether the model thinks before it answers; None leaves it to the template.
        reply: Add the generation prompt.
        day: Date for templates that write it.
        sees: The model reads images: a content may have parts ``{"type": "image"}``, one placeholder each.

    Raises:
        ChatError: a turn is invalid or the template refuses it, or there is no template.
    """
    template = tokenizer.chat_template
    if not template:
        raise ChatError("this model has no chat template; write the prompt yourself and use Tokenize")
    checked = [_checked(m, n, sees) for n, m in enumerate(messages, 1)]
    if not checked:
        raise ChatError("a chat needs a turn; the list of messages is empty")
    schemas = checked_tools(tools)
    whole = json.dumps([checked, schemas], ensure_ascii=False)
    mark = free_mark([whole])
    guarded = [_guarded(m, tokenizer, mark, special_only=m["role"] == "assistant") for m in checked]
    options = {
        "tools": _guarded(schemas, tokenizer, mark) or None,
        "add_generation_prompt": reply,
        "strftime_now": day.strftime,
        **({} if thinking is None else dict.fromkeys(SWITCHES, thinking)),
        **{f"{name}_token": getattr(tokenizer.fast, f"{name}_token") or "" for name in ("bos", "eos", "unk", "pad")},
    }
    marked = _render(template, guarded, options)
    plain = options | {"tools": schemas or None}
    remarks = _unused(template, thinking, day, checked) + _left_out(template, checked, plain, free_mark([whole, mark]))
    return Chat(marked.replace(mark, ""), tokenizer.encode_marked(marked, mark), tuple(remarks))


def _render(template: str, messages: list[dict[str, Any]], options: Mapping[str, Any]) -> str:
    """The rendered text; if the template fails, the error names the first turn that makes it fail."""
    from jinja2 import TemplateError

    write = _compiled(template)
    try:
        return write(messages=messages, **options)
    except ChatError:
        raise
    except (TemplateError, TypeError, ValueError, KeyError, AttributeError, ArithmeticError, RecursionError) as e:
        turn, why = len(messages), str(e) or type(e).__name__
        for count in range(1, len(messages)):
            try:
                write(messages=messages[:count], **options)
            except Exception as first:
                if str(first) == str(e):
                    turn = count
                    break
        role = messages[turn - 1]["role"]
        raise ChatError(f"the model's chat template refuses turn {turn} ({role}): {why}") from e


def _compiled(template: str) -> Callable[..., str]:
    from jinja2 import TemplateSyntaxError
    from transformers.utils import chat_template_utils

    try:
        compiled = chat_template_utils._compile_jinja_template(template)
    except TemplateSyntaxError as e:
        raise ChatError(f"the model's chat template is broken at line {e.lineno}: {e.message}") from e

    def write(**values: Any) -> str:
        pieces, size, end = [], 0, time.monotonic() + MOST_SECONDS
        for piece in compiled.generate(**values):
            pieces.append(piece)
            size += len(piece)
            if size > MOST_CHARACTERS or time.monotonic() > end:
                raise ChatError(f"the model's chat template does not end: it has written {size} characters")
        return "".join(pieces)

    return write


def _checked(message: Any, turn: int, sees: bool) -> dict[str, Any]:
    """A turn as plain JSON values, in the form that templates expect."""
    if not isinstance(message, Mapping):
        raise ChatError(f'turn {turn} is no object with "role" and "content": {str(message)[:60]!r}')
    role = message.get("role")
    if role not in ROLES:
        raise ChatError(f"turn {turn} has the role {role!r}; roles are {', '.join(ROLES)}")
    try:
        plain: dict[str, Any] = json.loads(json.dumps(dict(message)))
    except (TypeError, ValueError) as e:
        raise ChatError(f"turn {turn} ({role}) holds what is no JSON: {e}") from e
    plain["content"] = _content(plain.get("content"), turn, role, bool(plain.get("tool_calls")), sees)
    if thought := next((v for name in _THOUGHTS if (v := plain.get(name))), None):
        plain |= dict.fromkeys(_THOUGHTS[:2], thought)
    if calls := plain.get("tool_calls"):
        plain["tool_calls"] = [_call(call, turn) for call in calls]
    return plain


def _content(content: Any, turn: int, role: str, calls: bool, sees: bool) -> str | list[dict[str, Any]]:
    """A text; for a model that reads images, a list of parts, as their templates expect."""
    if content is None and calls:
        content = ""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if sees else content
    if isinstance(content, list) and all(isinstance(p, dict) for p in content):
        known = ("text", "image") if sees else ("text",)
        if other := [p.get("type") for p in content if p.get("type") not in known]:
            reads = "texts and pictures" if sees else "text only"
            raise ChatError(f"turn {turn} ({role}) holds a part of type {other[0]!r}; this model reads {reads}")
        if empty := [p for p in content if p["type"] == "text" and not isinstance(p.get("text"), str)]:
            raise ChatError(f'turn {turn} ({role}) holds a part without a "text": {str(empty[0])[:60]}')
        if sees:
            return [{"type": "image"} if p["type"] == "image" else p for p in content]
        return "".join(p["text"] for p in content)
    raise ChatError(f"turn {turn} ({role}) has no text as its content, but {str(content)[:60]!r}")


def _call(call: Any, turn: int) -> dict[str, Any]:
    """A tool call with its arguments as an object, which is what templates expect."""
    inner = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        raise ChatError(f'turn {turn} (assistant) has a tool call without a "name": {str(call)[:60]!r}')
    arguments = inner.get("arguments", {})
    if isinstance(arguments, str) and isinstance(read := _json(arguments), dict):
        arguments = read
    rest = {"id": call["id"]} if "id" in call else {}
    return {"type": "function", "function": {"name": inner["name"], "arguments": arguments}, **rest}


def checked_tools(tools: Sequence[Any]) -> list[dict[str, Any]]:
    """Tools as ``{"type": "function", "function": {"name", "description", "parameters"}}``.

    Raises:
        ChatError: a tool is not a schema of a function.
    """
    return [_tool(t, n) for n, t in enumerate(tools, 1)]


def _tool(tool: Any, number: int) -> dict[str, Any]:
    """A tool in the form {"type": "function", "function": {...}}."""
    inner = tool.get("function", tool) if isinstance(tool, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        raise ChatError(f'tool {number} is no JSON schema of a function: it needs a "name"')
    whole = {"description": "", "parameters": {"type": "object", "properties": {}}, **inner}
    takes = whole["parameters"]
    if not isinstance(takes, Mapping) or not isinstance(takes.get("properties", {}), Mapping):
        raise ChatError(f'tool {number} ({inner["name"]}): "parameters" is no JSON schema of an object')
    plain: dict[str, Any] = json.loads(json.dumps({"type": "function", "function": whole}))
    return plain


def can_switch_thinking(template: str | None) -> bool:
    """Whether a template has a switch for thinking."""
    return any(re.search(rf"\b{name}\b", template or "") for name in SWITCHES)


def _unused(template: str, thinking: bool | None, day: date, messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Warnings for settings and fields of turns that a template ignores."""
    remarks = []
    if thinking is not None and not can_switch_thinking(template):
        remarks.append("the chat template of this model has no switch for thinking; it is left as it is")
    if day != DAY and "strftime_now" not in template:
        remarks.append(f"the chat template of this model names no day; {day} is left out")
    for n, m in enumerate(messages, 1):
        other = [k for k, v in m.items() if v and k not in _FIELDS and not re.search(rf"\b{re.escape(k)}\b", template)]
        remarks += [f"the chat template of this model does not read {key!r} of turn {n} ({m['role']})" for key in other]
    return remarks


def _left_out(template: str, messages: list[dict[str, Any]], options: Mapping[str, Any], sign: str) -> list[str]:
    """Warnings for parts of a chat that the template drops: it renders the chat with markers, and some are missing.

    No warnings if the template fails on the markers.
    """
    signs: dict[str, str] = {}

    def signed(value: Any, label: str) -> Any:
        return _with_sign(value, signs.setdefault(label, f"{sign}{len(signs)}{sign}"))

    tools = options["tools"] and signed(options["tools"], "the tools")
    turns = []
    for n, m in enumerate(messages, 1):
        parts = {"content": f"the text of turn {n} ({m['role']})", "tool_calls": f"the tool calls of turn {n}"}
        turns.append({**m, **{key: signed(m[key], label) for key, label in parts.items() if m.get(key)}})
    try:
        text = _compiled(template)(messages=turns, **{**options, "tools": tools})
    except Exception:
        return []
    missed = [label for label, s in signs.items() if s not in text and json.dumps(s)[1:-1] not in text]
    return [f"the chat template of this model leaves out {label}" for label in missed]


def _with_sign(value: Any, sign: str) -> Any:
    """A content with a marker at its end; calls or tools with it in their names."""
    if isinstance(value, str):
        return value + sign
    if "function" in value[0]:
        return [{**v, "function": {**v["function"], "name": v["function"]["name"] + sign}} for v in value]
    return [*value, {"type": "text", "text": sign}]


def _guarded(value: Any, tokenizer: Tokenizer, mark: str, special_only: bool = False) -> Any:
    """A value with marks in the control tokens that its texts spell; field names are not changed."""
    if isinstance(value, str):
        return tokenizer.guard(value, mark, special_only)
    if isinstance(value, dict):
        return {k: v if k in ("role", "type") else _guarded(v, tokenizer, mark, special_only) for k, v in value.items()}
    if isinstance(value, list):
        return [_guarded(v, tokenizer, mark, special_only) for v in value]
    return value
