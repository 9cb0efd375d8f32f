"""Check values against ports: exact JSON types and two safe coercions, the same for files, calls and links."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pipegraph.graphs.errors import closest, shown

from . import files
from .spec import Port, broken_limit, range_of

PLAIN: Final = frozenset(("INT", "FLOAT", "STRING", "BOOLEAN", "COMBO"))
_WANTED: Final = {
    "INT": "a whole number",
    "FLOAT": "a number",
    "STRING": "text",
    "BOOLEAN": "true or false",
    "COMBO": "one of the names in its list",
}
_INT: Final = re.compile(r"-?(0|[1-9][0-9]{0,99})")
_FLOAT: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


class Misfit(Exception):
    """A value does not fit a port: what the problem says of it, but for the place."""

    def __init__(
        self,
        code: str,
        message: str,
        wanted: str = "",
        *,
        names: Sequence[str] = (),
        mend: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.wanted, self.names, self.mend = code, message, wanted, names, mend or {}


def is_plain(port: Port) -> bool:
    """Whether the port takes only numbers, strings or booleans."""
    return port.type in PLAIN or all(t in PLAIN for t in port.type.split(","))


def unlimited(port: Port) -> type | None:
    """The Python type of a port without limits, or None."""
    limits = (port.minimum, port.maximum, port.above, port.below, port.multiple_of, port.choices)
    if port.seed or any(limit is not None for limit in (*limits, port.file, port.file_name, port.auto)):
        return None
    return {"INT": int, "STRING": str, "BOOLEAN": bool}.get(port.type)


def convert(kind: str, value: Any, *, text: bool = False) -> Any:
    """``value`` as the plain type ``kind``, or Misfit.

    Safe coercions: text that is a JSON number of that kind ("20" for an INT), and a whole number for a FLOAT.
    ``text`` allows "true" and "false" for a BOOLEAN, as from a command line.
    """
    have = type(value)
    if have is str and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        raise Misfit("bad_text", "half of a surrogate pair, or a byte that is no UTF-8, is no character", "text")
    if kind == "INT":
        if have is int:
            return value
        if have is str and _INT.fullmatch(value):
            return int(value)
    elif kind == "FLOAT":
        if (have is str and _FLOAT.fullmatch(value)) or have is int:
            try:
                value, have = float(value), float
            except OverflowError:
                value = math.inf
        if have is float:
            if math.isfinite(value):
                return value
            raise Misfit("out_of_range", "the number is not finite", _WANTED[kind])
    elif kind == "BOOLEAN":
        if have is bool:
            return value
        if text and value in ("true", "false"):
            return value == "true"
    elif have is str or (kind == "COMBO" and have in (int, float, bool)):
        return value
    raise Misfit("wrong_type", "wrong type", _WANTED[kind], mend={"types": [kind]})


def fit(port: Port, value: Any, choices: Sequence[Any] | None = None, *, text: bool = False) -> Any:
    """``value`` converted for ``port``, or Misfit.

    Args:
        port: The input.
        value: A JSON value, or a value from a link.
        choices: The legal values of a COMBO, if known.
        text: The value comes from a command line, where everything is text.
    """
    if value is None:
        if port.nullable or port.seed:
            return None
        raise Misfit("wrong_type", "a value is needed", _wanted(port), mend={"types": port.type.split(",")})
    if type(value) is str:
        if port.auto and value == "auto":
            return value
        if port.seed and value == "random":
            return None
        if text and value == "null" and port.nullable and port.type != "STRING":
            return None
    value = _typed(port, value, text)
    if port.file and type(value) is not str:
        raise Misfit("wrong_type", "wrong type", "the name of a file")
    if choices is not None:
        return _chosen(value, choices)
    limit = broken_limit(port, value)
    if limit:
        raise Misfit("out_of_range", "out of range", limit, mend=range_of(port, value))
    if port.file_name:
        try:
            files.check_name(port.file_name.example(value))
        except ValueError as e:
            raise Misfit("bad_file_name", str(e), "a name inside the output folder") from None
    return value


def _typed(port: Port, value: Any, text: bool) -> Any:
    kind = port.type
    if kind in PLAIN:
        return convert(kind, value, text=text)
    kinds = kind.split(",")
    if "*" in kinds:
        return value
    for kind in kinds:
        if kind in PLAIN:
            try:
                return convert(kind, value, text=text)
            except Misfit:
                continue
    raise Misfit("wrong_type", "wrong type", _wanted(port), mend={"types": kinds})


def _chosen(value: Any, choices: Sequence[Any]) -> Any:
    for choice in choices:
        if value == choice and type(value) is type(choice):
            return choice
    if not choices:
        raise Misfit("not_in_list", "there is nothing to choose from")
    listed = ", ".join(map(repr, choices[:12])) + (f", … ({len(choices)} in all)" if len(choices) > 12 else "")
    names = closest(value, [c for c in choices if isinstance(c, str)]) if isinstance(value, str) else []
    mend = {"choices": [*choices]}
    raise Misfit("not_in_list", f"{shown(value)} is not in the list", f"one of {listed}", names=names, mend=mend)


def _wanted(port: Port) -> str:
    words = [_WANTED.get(kind, f"a link to an output of type {kind}") for kind in port.type.split(",")]
    return " or ".join(words)
