"""Mutation testing: change one thing in the source at a time and see whether a test fails.

Mutants are drawn by a hash of what they change, so that the same ones come again when other code has changed. They run
in a copy of the checkout, each in a fork of a process that has imported torch; results are kept there, and a run that
was stopped goes on. A mutant that nobody could notice is listed, with the reason, in scripts/equivalent_mutants.toml.
"""

from __future__ import annotations

import argparse
import ast
import filecmp
import hashlib
import importlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDERS: Final = ("graphs", "runtime", "kernels", "models/sampling", "models/adapters", "models/llm", "nodes")
LEFT_OUT: Final = re.compile(r"kernels/(triton/|testing_cases\.py)|kernels/\S+ \S*(triton|tma)")
"""What no CPU runs, and cases that are tests themselves; by the start of a mutant's name."""
TESTS: Final = {
    "graphs": ("tests/graphs",),
    "runtime": ("tests/runtime",),
    "kernels": ("tests/kernels",),
    "models/sampling": ("tests/sampling",),
    "models/adapters": ("tests/adapters",),
    "models/llm": ("tests/llm",),
    "nodes": ("tests/nodes", "tests/sampling", "tests/models"),
    "nodes/llm": ("tests/llm",),
    "nodes/lora": ("tests/adapters",),
    "nodes/text_generate": ("tests/llm",),
    "nodes/video": ("tests/video",),
}
"""Start of a file's path -> where its tests are; the longest that fits counts."""
IMPORTED: Final = "torch numpy scipy.linalg PIL.Image av numba safetensors.torch tokenizers transformers pytest"
"""What is imported once, before forking: most of the time that a small test takes."""
OPTIONS: Final = "-x -q -p no:randomly -p no:cacheprovider -W ignore::pytest.PytestAssertRewriteWarning"
MEMORY: Final = 8 << 30
"""Bytes of memory that a mutant may take."""
SWAPPED: Final = {
    "+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "*", "**": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&",
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "is not": "is",
    "in": "not in", "not in": "in", "and": "or", "or": "and",
    "min": "max", "max": "min", "any": "all", "all": "any",
}  # fmt: skip
OPERATOR: Final = re.compile(rb"[-+*/%<>&|=!]+|is not|not in|is|in|and|or")
SYMMETRIC: Final = ("min", "max", "isinstance", "issubclass", "hasattr", "getattr")
"""Calls whose first two arguments are not swapped: that changes nothing, or fails at once."""


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
            found = OPERATOR.search(self.code, start, end)
            if found and b"#" not in self.code[start:end]:
                old = found[0].decode()
                short = old if old in SWAPPED else old.rstrip("=")  # of an assignment: +=
                if short in SWAPPED:
                    yield found.start(), found.start() + len(short), SWAPPED[short].encode()

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
            if isinstance(argument, ast.keyword) and argument.arg:
                yield self.span(before)[1], self.span(argument)[1], b""


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below that are run: no annotations, decorators, error messages or f-strings (wording)."""
    match node:
        case ast.JoinedStr() | ast.Raise() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            pass
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from [*node.args.defaults, *filter(None, node.args.kw_defaults), *node.body]
        case ast.ClassDef():
            yield from node.body
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
    found, seen = [], Counter[str]()
    for start, end, text, function in sorted(changes):
        line = code[code.rfind(b"\n", 0, start) + 1 :].partition(b"\n")[0].decode().strip()
        old, new = (" ".join(part.decode().split()) or "nothing" for part in (code[start:end], text))
        if old != new:
            name = f"{file} {function or 'module'} | {line} | {old} -> {new}"
            seen[name] += 1
            found.append(Mutant(file, f"{name} | {seen[name]}", start, end, text))
    return found


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


def tests_of(root: Path, file: str) -> list[str]:
    """The test files for a source file: those that speak of it first."""
    folders = TESTS[max((start for start in TESTS if file.startswith(start)), key=len)]
    tests = sorted(test for folder in folders for test in (root / folder).rglob("test_*.py"))
    tests.sort(key=lambda test: -len(re.findall(rf"\b{Path(file).stem}\b", test.read_text())))
    return [test.relative_to(root).as_posix() for test in tests]


def equivalent() -> dict[str, str]:
    """Name of a mutant that nobody could notice -> why."""
    listed = tomllib.loads(Path(__file__).with_name("equivalent_mutants.toml").read_text())
    return {entry["mutant"]: entry["why"] for entry in listed.get("equivalent", [])}


def copy_to(tree: Path) -> None:
    """Copy what git does not ignore; bytecode goes by the source's hash, as mutants come within a second."""
    command = ["git", "ls-files", "-coz", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    names = {name for name in listed if name and (ROOT / name).is_file()}
    for path in tree.rglob("*"):
        if path.is_file() and path.relative_to(tree).as_posix() not in names and "__pycache__" not in path.parts:
            path.unlink()
    for name in names:
        source, target = ROOT / name, tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or not filecmp.cmp(source, target):
            shutil.copy2(source, target)
    compile_all = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash"]
    subprocess.run([*compile_all, *{name.partition("/")[0] for name in names if "/" in name}], cwd=tree, check=True)


class Runner:
    """Runs tests in a copy of the checkout, each time in a fork."""

    def __init__(self, work: Path) -> None:
        self.tree, self.log = work / "tree", work / "log.txt"
        self.limits: dict[tuple[str, ...], int] = {}
        copy_to(self.tree)
        os.environ |= {"PYTHONPATH": str(self.tree / "src"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        sys.path.insert(0, str(self.tree / "src"))
        sys.dont_write_bytecode = True
        for name in IMPORTED.split():
            importlib.import_module(name)

    def outcome(self, tests: Sequence[str], seconds: int) -> tuple[str, str]:
        """What tests say of the copy as it is (survived, killed, timed out), and the test that failed."""
        child = os.fork()
        if not child:
            self.child(tests, seconds)
        deadline = time.monotonic() + 10 * seconds
        while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
            time.sleep(0.05)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        status = ended[1] if ended[0] else os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
            return "timed out", ""
        failed = re.findall(r"^(?:FAILED|ERROR) (.*)", self.log.read_text(errors="replace"), re.MULTILINE)
        return ("killed" if status else "survived"), (failed or [""])[-1][:200]

    def child(self, tests: Sequence[str], seconds: int) -> None:
        """Run tests; there is no way back."""
        import pytest

        os.setsid()
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(self.tree)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        code = 3
        try:
            code = int(pytest.main([*OPTIONS.split(), *tests]))
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(code)

    def limit(self, tests: Sequence[str]) -> int:
        """Seconds of the processor that tests may take: they pass without a mutant, which is tried once."""
        key = tuple(sorted(tests))
        if key not in self.limits:
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            outcome, failed = self.outcome(tests, 900)
            if outcome != "survived":
                raise SystemExit(f"tests fail without a mutant: {failed or outcome}; see {self.log}")
            self.limits[key] = 30 + 3 * int(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before)
        return self.limits[key]

    def run(self, mutant: Mutant) -> dict[str, str]:
        """Put a mutant in its place, run its tests, put back what was there."""
        tests, path = tests_of(self.tree, mutant.file), self.tree / mutant.file
        seconds, code, stat = self.limit(tests), path.read_bytes(), path.stat()
        try:
            path.write_bytes(code[: mutant.start] + mutant.text + code[mutant.end :])
            outcome, failed = self.outcome(tests, seconds)
        finally:
            path.write_bytes(code)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        return {"outcome": outcome, "failed": failed}


def report(drawn: Sequence[Mutant], results: dict[str, dict[str, str]]) -> str:
    """A table by folder, and the mutants that survived."""
    excused, survivors = equivalent(), []
    lines = [
        f"{'folder':16} {'mutants':>8} {'killed':>8} {'timed out':>10} {'survived':>9} {'equivalent':>11} {'share':>7}"
    ]
    for folder in [*dict.fromkeys(mutant.folder for mutant in drawn), ""]:
        names = [m.name for m in drawn if m.folder.startswith(folder) and (m.name in results or m.name in excused)]
        count = Counter("equivalent" if n in excused else results[n]["outcome"] for n in names)
        survivors += [n for n in names if folder and n not in excused and results[n]["outcome"] == "survived"]
        caught, real = count["killed"] + count["timed out"], len(names) - count["equivalent"]
        lines.append(
            f"{folder or 'all':16} {len(names):8} {count['killed']:8} {count['timed out']:10} {count['survived']:9}"
            f" {count['equivalent']:11} {caught / max(real, 1):7.1%}"
        )
    return "\n".join([*lines, *sorted(survivors)])


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=300, help="how many mutants (300)")
    parser.add_argument("--seed", type=int, default=0, help="others with another seed (0)")
    parser.add_argument("--only", action="append", choices=FOLDERS, help="of this folder only; may be repeated")
    parser.add_argument(
        "--word", default="", help="only mutants whose names hold this: a file, a function, an operator"
    )
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no mutant after so long; a later run goes on")
    parser.add_argument("--again", action="store_true", help="run those that survived again, for new tests")
    parser.add_argument("--report", action="store_true", help="only say how it stands")
    default = Path(tempfile.gettempdir(), "pipegraph-mutants")
    parser.add_argument("--work", type=Path, default=default, help=f"folder of the copy and results ({default})")
    args = parser.parse_args(words)
    start, kept = time.monotonic(), args.work / "results.json"
    results: dict[str, dict[str, str]] = json.loads(kept.read_text()) if kept.exists() else {}
    drawn = draw(ROOT, args.count, args.seed, args.only or FOLDERS, args.word)
    if not args.report:
        runner = Runner(args.work)
        for mutant in drawn:
            known = results.get(mutant.name, {}).get("outcome", "")
            if mutant.name in equivalent() or (known and not (args.again and known == "survived")):
                continue
            if time.monotonic() - start > 60 * args.minutes:
                break
            results[mutant.name] = runner.run(mutant)
            print(f"{results[mutant.name]['outcome']:9} {mutant.name}", flush=True)
            kept.write_text(json.dumps(results, indent=1))
    print(report(drawn, results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
