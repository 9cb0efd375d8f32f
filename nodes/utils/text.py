"""Change and measure text."""

from __future__ import annotations

import re
import string as strings
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal

from pipegraph.runtime.node import Grows, Linked, Multiline, Wire, node

from .logic import describe

Text = Annotated[str, Multiline()]
Values = Annotated[Mapping[str, Any], Wire("*"), Grows(tuple(strings.ascii_lowercase))]
_WIDEST: Final = 10_000
"""Most characters that one field of a format may be padded to."""


class _Formatter(strings.Formatter):
    """``str.format`` without attributes and items of values, and without endless padding."""

    def get_field(self, field_name: str, args: Any, kwargs: Mapping[str, Any]) -> Any:
        if re.search(r"[.\[]", field_name):
            raise ValueError(f"{{{field_name}}} looks inside a value: write the name alone, e.g. {{{field_name[:1]}}}")
        if field_name not in kwargs:
            connected = ", ".join(kwargs) or "none"
            raise ValueError(f"the text has {{{field_name}}}, which is no value; connected are: {connected}")
        return kwargs[field_name], field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        if any(int(number) > _WIDEST for number in re.findall(r"\d{1,9}", format_spec)):
            raise ValueError(f"`{format_spec}` pads to more than {_WIDEST} characters")
        try:
            return format(value, format_spec)
        except (TypeError, ValueError, OverflowError) as e:
            raise ValueError(f"`{format_spec}` does not fit {value!r}: {e}") from e


def _fields(text: str) -> list[str]:
    """Names of the fields of a format string; ValueError if it is none."""
    return [name for _, name, _, _ in strings.Formatter().parse(text) if name is not None]


def _check(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    if "f_string" in linked:
        return
    try:
        _fields(values["f_string"])
    except ValueError as e:
        yield "f_string", f"braces do not match ({e}); {{{{ and }}}} are braces themselves"


@node("StringFormat", category="utils/string", title="Format Text", check=_check)
def string_format(*, values: Values, f_string: Text = "{a}") -> str:
    """Put values into a text: `{a}` becomes the value `a`, `{b:.2f}` the number `b` with two decimals.

    The forms are those of Python's `str.format`, without a look inside of values. Values that are no text, number or
    boolean are described.

    Args:
        values: `values.a` to `values.z`.
        f_string: The text; {{ and }} are braces.
    """
    plain = {k: v if isinstance(v, str | int | float) else describe(v) for k, v in values.items()}
    return _Formatter().vformat(f_string, (), plain)


@node("StringSubstring", category="utils/string", title="Substring")
def string_substring(string: Text, start: int = 0, end: int = 0) -> str:
    """Cut a part out of a text.

    Args:
        string: Text to cut.
        start: First character, from 0; negative from the end.
        end: The character after the last; negative from the end.
    """
    return string[start:end]


@node("StringLength", category="utils/string", title="Text Length", output="length")
def string_length(string: Text) -> int:
    """Count the characters of a text.

    Args:
        string: Text to measure.
    """
    return len(string)


@node("CaseConverter", category="utils/string", title="Convert Text Case")
def case_converter(
    string: Text, mode: Literal["UPPERCASE", "lowercase", "Capitalize", "Title Case"] = "UPPERCASE"
) -> str:
    """Write a text in capital or small letters.

    Args:
        string: Text to change.
        mode: Capitalize changes the first letter of the text, Title Case that of each word; the rest becomes small.
    """
    change = {"UPPERCASE": str.upper, "lowercase": str.lower, "Capitalize": str.capitalize, "Title Case": str.title}
    return change[mode](string)


@node("StringTrim", category="utils/string", title="Trim Text")
def string_trim(string: Text, mode: Literal["Both", "Left", "Right"] = "Both") -> str:
    """Remove white space at the ends of a text.

    Args:
        string: Text to trim.
        mode: At which end.
    """
    return {"Both": str.strip, "Left": str.lstrip, "Right": str.rstrip}[mode](string)


@node("StringContains", category="utils/string", title="Contains Text", output="contains")
def string_contains(string: Text, substring: Text, case_sensitive: bool = True) -> bool:
    """Whether a text contains another one.

    Args:
        string: Text to search.
        substring: Text to find.
        case_sensitive: Capital and small letters differ.
    """
    return substring in string if case_sensitive else substring.lower() in string.lower()


@node("StringCompare", category="utils/string", title="Compare Text")
def string_compare(
    string_a: Text,
    string_b: Text,
    mode: Literal["Starts With", "Ends With", "Equal"] = "Starts With",
    case_sensitive: bool = True,
) -> bool:
    """Compare two texts.

    Args:
        string_a: Text to examine.
        string_b: Its expected start, end or whole.
        mode: Kind of comparison.
        case_sensitive: Capital and small letters differ.
    """
    a, b = (string_a, string_b) if case_sensitive else (string_a.lower(), string_b.lower())
    return {"Starts With": a.startswith(b), "Ends With": a.endswith(b), "Equal": a == b}[mode]
