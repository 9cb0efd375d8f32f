"""Mutants of the source: what may be changed in a file, one thing at a time, and which changes are drawn.

They are drawn by a hash of what they change, so that the same ones come again when other code has changed.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

FOLDERS: Final = ("graphs", "runtime", "kernels", "models/sampling", "models/adapters", "models/llm", "nodes")
LEFT_OUT: Final = re.compile(r"kernels/(backends/triton/|proof/cases\.py)|kernels/\S+ \S*(triton|tma)")
"""What no CPU runs, and cases that are tests themselves; by the start of a mutant's name."""
SWAPPED: Final = {
    "+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "*", "**": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&",
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "is not": "is",
    "in": "not in", "not in": "in", "and": "or", "or": "and",
    "min": "max", "max": "min", "any": "all", "all": "any",
}  # fmt: skip
OPERATOR: Final = re.compile(rb"[-+*/%<>&|=!]+|is not|not in|is|in|and|or")
SYMMETRIC: Final = ("min", "max", "isinstance", "issubclass", "hasattr", "getattr")
"""Calls whose first two arguments are not swapped: that changes nothing, or fails at once."""

NEUTRAL: Final = (None, "strict", "device")
"""Options that are not left out: ``**options``, checks of our own logic, and what takes another device to notice."""


@dataclass(frozen=True)
class Mutant:
    """One change of a file: ``text`` in the place of the bytes from ``start`` to ``end``."""

    file: str
    name: str
    """File, function, line of code, what becomes what, which of several such: the same as long as these are."""
    start: int
    end: int
    text: bytes

    @property
    def folder(self) -> str:
        return next(folder for folder in FOLDERS if self.file.startswith(f"{folder}/"))


class Source:
    """The bytes of a file and where the nodes of its tree stand in them."""

    def __init__(self, code: bytes) -> None:
        self.code = code
        self.lines = [0]
        for line in code.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))

    def span(self, node: Any) -> tuple[int, int]:
        first, last = self.lines[node.lineno - 1], self.lines[node.end_lineno - 1]
        return first + node.col_offset, last + node.end_col_offset

    def of(self, node: ast.AST) -> bytes:
        return self.code[slice(*self.span(node))]

    def operators(self, *operands: ast.AST) -> Iterator[tuple[int, int, bytes]]:
        """Another operator between each two operands."""
        for left, right in pairwise(operands):
            start, end = self.span(left)[1], self.span(right)[0]
            match = OPERATOR.search(self.code, start, end)
            if match and b"#" not in self.code[start:end]:
                old = match[0].decode()
                short = old if old in SWAPPED else old.rstrip("=")  # of an assignment: +=
                if short in SWAPPED:
                    yield match.start(), match.start() + len(short), SWAPPED[short].encode()

    def changes(self, node: ast.AST) -> Iterator[tuple[int, int, bytes]]:
        """What may be changed at a node: start, end and the new text."""
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case ast.BinOp(left=left, right=right):
                yield from self.operators(left, right)
            case ast.BoolOp(values=values):
                yield from self.operators(*values)
            case ast.Compare(left=left, comparators=more):
                yield from self.operators(left, *more)
            case ast.AugAssign(target=target, value=value):
                yield *self.span(node), b"pass"
                yield from self.operators(target, value)
            case ast.Raise() | ast.Expr(value=ast.Call()):
                yield *self.span(node), b"pass"
            case ast.Break() | ast.Continue():
                yield *self.span(node), b"continue" if isinstance(node, ast.Break) else b"break"
            case ast.Return(value=ast.expr() as value):
                yield *self.span(value), b"None"
            case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
                yield *self.span(test), b"not (" + self.of(test) + b")"
            case ast.comprehension(ifs=conditions):
                for condition in conditions:
                    yield *self.span(condition), b"True"
            case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
                yield *self.span(node), self.of(operand)
            case ast.Constant(value=bool() as value):
                yield *self.span(node), str(not value).encode()
            case ast.Constant(value=int() | float() as value):
                yield *self.span(node), repr(value + 1).encode()
            case ast.Call():
                yield from self.calls(node)

    def calls(self, node: ast.Call) -> Iterator[tuple[int, int, bytes]]:
        """Another function, the first two arguments swapped, or an option left out."""
        end = self.span(node.func)[1]
        name = self.of(node.func).decode().rpartition(".")[2]
        if name in SWAPPED:
            yield end - len(name), end, SWAPPED[name].encode()
        if len(node.args) > 1 and name not in SYMMETRIC and not any(isinstance(a, ast.Starred) for a in node.args[:2]):
            (start, stop), (again, end) = map(self.span, node.args[:2])
            yield start, end, self.code[again:end] + self.code[stop:again] + self.code[start:stop]
        arguments: list[Any] = sorted([*node.args, *node.keywords], key=self.span)
        for before, argument in pairwise(arguments):
            if isinstance(argument, ast.keyword) and argument.arg not in NEUTRAL:
                yield self.span(before)[1], self.span(argument)[1], b""


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below that are run: no annotations, decorators, wording (errors, f-strings), ``strict=True``."""
    match node:
        case ast.JoinedStr() | ast.Raise() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            pass
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]
        case ast.ClassDef():
            yield from node.body
        case ast.keyword(arg="strict"):
            pass
        case ast.AnnAssign():
            yield from [node.value] if node.value else []
        case _:
            yield from ast.iter_child_nodes(node)


def mutants_of(file: str, code: bytes) -> list[Mutant]:
    """All mutants of a file."""
    source, changes = Source(code), set[tuple[int, int, bytes, str]]()

    def walk(node: ast.AST, function: str) -> None:
        changes.update((*change, function) for change in source.changes(node))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            function = f"{function}.{node.name}".strip(".")
        for part in parts(node):
            walk(part, function)

    walk(ast.parse(code), "")
    mutants, counts = [], Counter[str]()
    for start, end, text, function in sorted(changes):
        line = code[code.rfind(b"\n", 0, start) + 1 :].partition(b"\n")[0].decode().strip()
        old, new = (" ".join(part.decode().split()) or "nothing" for part in (code[start:end], text))
        if old != new:
            name = f"{file} {function or 'module'} | {line} | {old} -> {new}"
            counts[name] += 1
            mutants.append(Mutant(file, f"{name} | {counts[name]}", start, end, text))
    return mutants


def draw(root: Path, count: int, seed: int, folders: Sequence[str] = FOLDERS, word: str = "") -> list[Mutant]:
    """``count`` mutants, as many of each folder, whose names hold ``word``."""
    drawn = []
    for folder in folders:
        files = [path.relative_to(root).as_posix() for path in (root / folder).rglob("*.py")]
        mutants = [m for file in files for m in mutants_of(file, (root / file).read_bytes())]
        mutants = [m for m in mutants if word in m.name and not LEFT_OUT.match(m.name)]
        mutants.sort(key=lambda mutant: hashlib.sha256(f"{seed} {mutant.name}".encode()).digest())
        drawn += mutants[: -(-count // len(folders))]
    return drawn
