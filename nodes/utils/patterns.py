"""Find and replace text by regular expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import Doc, Linked, Multiline, node

SECONDS: Final = 10.0
"""How long one search may take: some patterns never end on some texts."""

Text = Annotated[str, Multiline(), Doc("Text to search.")]
Pattern = Annotated[str, Multiline(), Doc("Regular expression, as in Python.")]
CaseInsensitive = Annotated[bool, Doc("Capital and small letters are the same.")]
ByLine = Annotated[bool, Doc("^ and $ match at each line, not only at the ends of the text.")]
DotAll = Annotated[bool, Doc("A dot matches line breaks, too.")]


def _compiled(pattern: str, case_insensitive: bool = False, multiline: bool = False, dotall: bool = False) -> Any:
    """A compiled pattern; ValueError if it is wrong."""
    import regex

    flags = regex.VERSION0
    flags |= regex.IGNORECASE * case_insensitive | regex.MULTILINE * multiline | regex.DOTALL * dotall
    try:
        return regex.compile(pattern, flags)
    except regex.error as e:
        raise ValueError(f"the regular expression {pattern!r} is wrong: {e}") from e


def _check(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    if "regex_pattern" not in linked:
        try:
            _compiled(values["regex_pattern"])
        except ValueError as e:
            yield "regex_pattern", str(e)


def _in_time(run: Any, *arguments: Any, **options: Any) -> Any:
    """Run a search that must end in time."""
    try:
        return run(*arguments, **options, timeout=SECONDS)
    except TimeoutError as e:
        raise ValueError(f"the regular expression takes longer than {SECONDS:g} s on this text: simplify it") from e


@node("RegexMatch", category="utils/string", title="Match Text", output="matches", check=_check)
def regex_match(
    string: Text,
    regex_pattern: Pattern,
    case_insensitive: CaseInsensitive = True,
    multiline: ByLine = False,
    dotall: DotAll = False,
) -> bool:
    """Whether a regular expression matches anywhere in a text."""
    pattern = _compiled(regex_pattern, case_insensitive, multiline, dotall)
    return _in_time(pattern.search, string) is not None


@node("RegexExtract", category="utils/string", title="Extract Text", check=_check)
def regex_extract(
    string: Text,
    regex_pattern: Pattern,
    mode: Literal["First Match", "All Matches", "First Group", "All Groups"] = "First Match",
    case_insensitive: CaseInsensitive = True,
    multiline: ByLine = False,
    dotall: DotAll = False,
    group_index: Annotated[int, Ge(0), Le(100)] = 1,
) -> str:
    """Extract what a regular expression matches; several results stand on lines of their own, none is an empty text.

    Args:
        mode: The first match or all of them, or a group of the first match or of all. All Matches of an expression
            with groups gives the first group of each.
        group_index: Which group; 0 is the whole match.
    """
    pattern = _compiled(regex_pattern, case_insensitive, multiline, dotall)
    if mode == "First Match":
        group = 0
    elif mode == "All Matches":
        group = min(1, pattern.groups)
    else:
        group = group_index
    if group > pattern.groups:
        return ""
    if mode in ("First Match", "First Group"):
        first = _in_time(pattern.search, string)
        return (first.group(group) or "") if first else ""
    groups = _in_time(lambda text, timeout: [m.group(group) for m in pattern.finditer(text, timeout=timeout)], string)
    return "\n".join(text or "" for text in groups if text is not None or mode == "All Matches")


@node("RegexReplace", category="utils/string", title="Replace Text (Regex)", check=_check)
def regex_replace(
    string: Text,
    regex_pattern: Pattern,
    replace: Annotated[str, Multiline()],
    case_insensitive: CaseInsensitive = True,
    multiline: ByLine = False,
    dotall: DotAll = False,
    count: Annotated[int, Ge(0), Le(100)] = 0,
) -> str:
    r"""Replace what a regular expression matches.

    Args:
        replace: New text; `\1` is the first group.
        count: Matches to replace at most; 0 is all.
    """
    import regex

    pattern = _compiled(regex_pattern, case_insensitive, multiline, dotall)
    try:
        changed: str = _in_time(pattern.sub, replace, string, count=count)
    except (regex.error, IndexError) as e:
        raise ValueError(f"the replacement {replace!r} is wrong: {e}") from e
    return changed
