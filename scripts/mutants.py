"""Mutation testing: change one thing in the source at a time and see whether a test fails.

Mutants run in a copy of the checkout, each in a fork of a process that has imported torch, and only against the tests
that reach the changed function. Results are kept in the folder of the copy, and a run that was stopped goes on. A
mutant that nobody could notice is listed, with the reason, in scripts/equivalent_mutants.toml.
"""

from __future__ import annotations

import argparse
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
import threading
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest
from mutations import FOLDERS, Mutant, draw

ROOT: Final = Path(__file__).resolve().parents[1]
TESTS: Final = {
    "graphs": ("tests/graphs",),
    "runtime": ("tests/runtime",),
    "kernels": ("tests/kernels",),
    "models/sampling": ("tests/sampling",),
    "models/adapters": ("tests/adapters",),
    "models/llm": ("tests/llm",),
    "nodes": ("tests/nodes", "tests/sampling", "tests/models"),
    "nodes/llm": ("tests/llm",),
    "nodes/loaders/lora": ("tests/adapters",),
    "nodes/video": ("tests/video",),
}
"""Start of a file's path -> where its tests are; the longest that fits counts."""
DECLARED: Final = "tests/cli/test_listing.py::test_the_page_of_nodes_is_up_to_date"
"""Also for each mutant of a node: defaults and limits are used when a file is imported, which no test is noted for."""
IMPORTED: Final = "torch numpy scipy.linalg PIL.Image av numba safetensors.torch tokenizers transformers pytest"
"""Modules that are imported once, before forking: most of the time of a small test."""
OPTIONS: Final = "-x -q -p no:randomly -p no:cacheprovider -W ignore::pytest.PytestAssertRewriteWarning"
SECONDS: Final = 90
"""CPU seconds for the tests of a mutant."""
MANY: Final = 100
"""If more tests reach a function, their files are run whole."""
MEMORY: Final = 8 << 30
"""Memory limit of a mutant in bytes."""


def folders_of(file: str) -> tuple[str, ...]:
    """Where the tests of a source file are."""
    return TESTS[max((start for start in TESTS if file.startswith(start)), key=len)]


def equivalent() -> dict[str, str]:
    """Name of a mutant that nobody could notice -> why."""
    listed = tomllib.loads(Path(__file__).with_name("equivalent_mutants.toml").read_text(encoding="utf-8"))
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


class Reached:
    """A plugin of pytest that notes which functions of the source each test reaches: ``file function`` -> tests.

    What a file runs when it is imported, as a decorator does, or in a fixture of the whole file counts for all tests
    of it.
    """

    def __init__(self, tree: Path) -> None:
        self.root = f"{tree}/"
        self.tests: dict[str, set[str]] = {}
        self.shared: dict[str, set[str]] = {}
        self.files: dict[str, list[str]] = {}
        self.now: set[str] = set()

    def note(self, frame: Any, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(self.root):
            name = re.sub(r"\.<(?:locals|listcomp|dictcomp|setcomp|genexpr|lambda)>", "", frame.f_code.co_qualname)
            self.now.add(f"{frame.f_code.co_filename.removeprefix(self.root)} {name}")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.files.setdefault(item.nodeid.partition("::")[0], []).append(item.nodeid)
        with self.noting(self.tests.setdefault(item.nodeid, set())):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, object, object]:
        if not isinstance(collector, pytest.Module):
            return (yield)
        with self.noting(self.shared.setdefault(collector.nodeid, set())):
            return (yield)

    @contextmanager
    def noting(self, functions: set[str]) -> Iterator[None]:
        """Add the functions that are called meanwhile."""
        self.now = functions
        threading.setprofile(self.note)
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Generator[None, object, object]:
        before = self.now
        if fixturedef.scope != "function":
            self.now = self.shared.setdefault(request.node.nodeid.partition("::")[0], set())
        try:
            return (yield)
        finally:
            self.now = before

    def by_function(self) -> dict[str, list[str]]:
        functions: dict[str, list[str]] = {}
        for file, tests in self.files.items():
            for test in tests:
                for function in self.tests[test] | self.shared.get(file, set()) | self.shared.get("", set()):
                    functions.setdefault(function, []).append(test)
        return functions


class Runner:
    """Runs tests in a copy of the checkout, each time in a fork."""

    def __init__(self, work: Path) -> None:
        self.tree, self.work, self.log = work / "tree", work, work / "log.txt"
        self.known: dict[tuple[str, ...], dict[str, list[str]]] = {}
        copy_to(self.tree)
        os.environ |= {"PYTHONPATH": str(self.tree / "src"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        sys.path.insert(0, str(self.tree / "src"))
        sys.dont_write_bytecode = True
        for name in IMPORTED.split():
            importlib.import_module(name)

    def outcome(self, tests: Sequence[str], seconds: int, reached: Path | None = None) -> tuple[str, str]:
        """What tests say of the copy as it is (survived, killed, timed out), and the test that failed."""
        child = os.fork()
        if not child:
            self.child(tests, seconds, reached)
        deadline = time.monotonic() + 10 * seconds
        while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
            time.sleep(0.05)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        status = ended[1] if ended[0] else os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL):
            return "timed out", ""
        failed = re.findall(
            r"^(?:FAILED|ERROR) (.*)", self.log.read_text(errors="replace", encoding="utf-8"), re.MULTILINE
        )
        return ("killed" if status else "survived"), (failed or [""])[-1][:200]

    def child(self, tests: Sequence[str], seconds: int, reached: Path | None) -> None:
        """Run tests; there is no way back."""
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell runs in the background
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(self.tree)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        code, plugin = 3, Reached(self.tree)
        try:
            code = int(pytest.main([*OPTIONS.split(), *tests], [plugin] if reached else []))
            if reached and not code:
                modules = [
                    name for name, m in sys.modules.items() if "site-packages" in (getattr(m, "__file__", "") or "")
                ]
                reached.write_text(json.dumps({"tests": plugin.by_function(), "modules": modules}), encoding="utf-8")
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        os._exit(code)

    def reached(self, folders: Sequence[str]) -> dict[str, list[str]]:
        """The tests of folders by the functions that they reach, found by running them; kept until a file changes."""
        files = sorted(self.tree.rglob("*.py"))
        state = repr([folders, *((str(f), f.stat().st_size, f.stat().st_mtime_ns) for f in files)])
        cache_file = self.work / f"reached-{hashlib.sha256(state.encode()).hexdigest()[:16]}.json"
        if not cache_file.exists():
            outcome, failed = self.outcome(folders, 1800, cache_file)
            if outcome != "survived":
                raise SystemExit(f"tests fail without a mutant: {failed or outcome}; see {self.log}")
        stored = json.loads(cache_file.read_text(encoding="utf-8"))
        for name in stored["modules"]:  # import once, before forking
            with suppress(Exception):
                importlib.import_module(name)
        tests: dict[str, list[str]] = stored["tests"]
        return tests

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that reach the function of a mutant, or the file; those in files that are called like it first."""
        folders = folders_of(mutant.file)
        if folders not in self.known:
            self.known[folders] = self.reached(folders)
        known, stem = self.known[folders], Path(mutant.file).stem
        within = [tests for function, tests in known.items() if function.startswith(f"{mutant.file} ")]
        tests = known.get(mutant.name.partition(" |")[0]) or sorted({test for tests in within for test in tests})
        if len(tests) > MANY:
            tests = list(dict.fromkeys(test.partition("::")[0] for test in tests))
        tests = sorted(tests, key=lambda test: stem not in test.partition("::")[0])
        return [*tests, DECLARED] if mutant.file.startswith("nodes/") else tests

    def run(self, mutant: Mutant) -> dict[str, str]:
        """Put a mutant in its place, run its tests, put back what was there."""
        tests, path = self.tests(mutant), self.tree / mutant.file
        if not tests:
            return {"outcome": "survived", "failed": "", "tests": "none"}
        code, stat = path.read_bytes(), path.stat()
        try:
            path.write_bytes(code[: mutant.start] + mutant.text + code[mutant.end :])
            outcome, failed = self.outcome(tests, SECONDS)
        finally:
            path.write_bytes(code)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        return {"outcome": outcome, "failed": failed, "tests": str(len(tests))}


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
    start, results_file = time.monotonic(), args.work / "results.json"
    results: dict[str, dict[str, str]] = (
        json.loads(results_file.read_text(encoding="utf-8")) if results_file.exists() else {}
    )
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
            results_file.write_text(json.dumps(results, indent=1), encoding="utf-8")
    print(report(drawn, results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
