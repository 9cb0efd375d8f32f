r"""Prompt weights as ComfyUI has them: ``(word:1.2)`` weights by 1.2, ``(word)`` by 1.1; ``\(`` is a parenthesis."""

from __future__ import annotations

import re


def shortened(text: str, length: int) -> str:
    """The text, cut with an ellipsis."""
    return text if len(text) <= length else text[:length] + "…"


def embeddings(text: str) -> list[str]:
    """The textual inversions that a prompt names as ComfyUI does: ``embedding:NAME``, each once."""
    return list(dict.fromkeys(re.findall(r"(?<![^\s(,])embedding:[^\s,():]+", text)))


def weight_faults(text: str) -> list[str]:
    """What of a prompt looks like a weight and is read as text, as sentences.

    That is a parenthesis that is not closed and holds a colon and a number, and a closed one whose part after the last
    colon should be a number and is none.
    """
    faults, starts = [], list[int]()
    for part in re.finditer(r"\\[()\\]|[()]", text):
        if part[0] == "(":
            starts.append(part.end())
        elif part[0] == ")" and starts:
            group = text[starts.pop() : part.start()]
            weight = re.search(r":\s*([^:\s()]*)\s*$", group)
            if weight and _NEARLY.fullmatch(weight[1]) and not _WEIGHT.fullmatch(weight[1]):
                fault = f'"{weight[1]}" is no number' if weight[1] else "there is no number behind the colon"
                faults.append(f'"({shortened(group, 60)})": {fault}; it is read as text, and weighs 1.1')
    for start in starts:
        if re.match(r"[^()]*:\s*[+-]?[\d.]", text[start:]):
            faults.append(
                f'"({shortened(text[start:].strip(), 60)}": its parenthesis is not closed; it is read as text'
            )
    return faults


_WEIGHT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)")
_NEARLY = re.compile(r"(?i)[+-]?(?:nan|inf(?:inity)?|[\d.,]+(?:e[+-]?\d+|f|x|%)?|)")


def weighted(text: str) -> list[tuple[str, float]]:
    """Split a prompt into texts and their weights; parentheses that do not pair are text."""
    # A group is its pieces (text, factor, fixed); a fixed factor is not multiplied by outer groups.
    groups: list[list[tuple[str, float, bool]]] = [[]]
    for part in re.findall(r"\\[()\\]|[()]|[^()\\]+|\\", text):
        if part == "(":
            groups.append([])
        elif part == ")" and len(groups) > 1:
            group = groups.pop()
            groups[-1] += _weighed(group)
        else:
            groups[-1].append((part[1] if re.fullmatch(r"\\[()\\]", part) else part, 1.0, False))
    while len(groups) > 1:
        group = groups.pop()
        groups[-1] += [("(", 1.0, False), *group]
    merged: list[tuple[str, float]] = []
    for piece, factor, _ in (p for p in groups[0] if p[0]):
        if merged and merged[-1][1] == factor:
            merged[-1] = (merged[-1][0] + piece, factor)
        else:
            merged.append((piece, factor))
    return merged or [("", 1.0)]


def _weighed(group: list[tuple[str, float, bool]]) -> list[tuple[str, float, bool]]:
    """The pieces of a closed group: 1.1 times, or the number after its last colon."""
    ends = re.fullmatch(rf"(.*):\s*({_WEIGHT.pattern})\s*", group[-1][0], re.S) if group else None
    if ends and not group[-1][2]:
        group = [*group[:-1], (ends[1], group[-1][1], False)]
        return [(t, f if fixed else f * float(ends[2]), True) for t, f, fixed in group]
    return [(t, f if fixed else f * 1.1, fixed) for t, f, fixed in group]
