"""Plain values and text."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from pipegraph.runtime.node import Multiline, node


@node("PrimitiveInt", category="utils/primitive")
def primitive_int(value: Annotated[int, Ge(-(2**63)), Le(2**64 - 1)]) -> int:
    """A whole number.

    Args:
        value: The number.
    """
    return value


@node("PrimitiveFloat", category="utils/primitive")
def primitive_float(value: float) -> float:
    """A number.

    Args:
        value: The number.
    """
    return value


@node("PrimitiveString", category="utils/primitive")
def primitive_string(value: str) -> str:
    """A line of text.

    Args:
        value: The text.
    """
    return value


@node("PrimitiveStringMultiline", category="utils/primitive")
def primitive_string_multiline(value: Annotated[str, Multiline()]) -> str:
    """Text of several lines.

    Args:
        value: The text.
    """
    return value


@node("PrimitiveBoolean", category="utils/primitive")
def primitive_boolean(value: bool) -> bool:
    """Yes or no.

    Args:
        value: true or false.
    """
    return value


@node("StringConcatenate", category="utils/string")
def string_concatenate(
    string_a: Annotated[str, Multiline()], string_b: Annotated[str, Multiline()], delimiter: str = ""
) -> str:
    """Join two texts.

    Args:
        string_a: First text.
        string_b: Second text.
        delimiter: Text between them.
    """
    return f"{string_a}{delimiter}{string_b}"


@node("StringReplace", category="utils/string")
def string_replace(
    string: Annotated[str, Multiline()], find: Annotated[str, Multiline()], replace: Annotated[str, Multiline()]
) -> str:
    """Replace every occurrence of a text in another one.

    Args:
        string: Text to change.
        find: Text to replace; nothing changes if it is empty.
        replace: Replacement.
    """
    return string.replace(find, replace) if find else string
