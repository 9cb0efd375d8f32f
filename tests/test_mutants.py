"""Mutation testing (scripts/mutants): which mutants there are, which are drawn, and that a handful runs."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "mutants.py"
sys.path.append(str(SCRIPT.parent))

import mutants  # noqa: E402
import mutations  # noqa: E402

SOURCE = '''
"""Docs: 1 + 1."""
@lru_cache(maxsize=5)
def f(x: Annotated[int, Ge(0)] = 3, *, y: int = 4) -> Literal[1]:
    """More docs."""
    if x < y and not (x) == -y:
        raise ValueError(f"{x + 1} is not {y}", 7)
    total: float = 0.5
    for i in range(x, y):
        total += g(i, x, scale=2) * (
            y
        )
        if i is not None:
            continue
    print(total)
    return [min(a, 1) for a, _ in zip(x, y, strict=True) if a]
'''
EXPECTED = """
3 -> 4
4 -> 5
x < y and not (x) == -y -> not (x < y and not (x) == -y)
< -> <=
and -> or
not (x) == -y -> (x) == -y
== -> !=
-y -> y
raise ValueError(f"{x + 1} is not {y}", 7) -> pass
0.5 -> 1.5
x, y -> y, x
total += g(i, x, scale=2) * ( y ) -> pass
+ -> -
* -> /
i, x -> x, i
, scale=2 -> nothing
2 -> 3
i is not None -> not (i is not None)
is not -> is
continue -> break
print(total) -> pass
[min(a, 1) for a, _ in zip(x, y, strict=True) if a] -> None
x, y -> y, x
min -> max
1 -> 2
a -> True
"""


def names(source: str, file: str = "graphs/x.py") -> list[str]:
    return [mutant.name for mutant in mutations.mutants_of(file, source.encode())]


def test_every_kind_of_change_once_and_none_of_wording_and_types() -> None:
    changes = [name.split(" | ")[-2] for name in names(SOURCE)]
    assert sorted(changes) == sorted(EXPECTED.strip().splitlines())


def test_every_mutant_is_another_program() -> None:
    code = SOURCE.encode()
    trees = {
        ast.dump(ast.parse(code[: m.start] + m.text + code[m.end :])) for m in mutations.mutants_of("graphs/x.py", code)
    }
    assert len(trees - {ast.dump(ast.parse(code))}) == len(EXPECTED.strip().splitlines())


def test_a_name_stays_when_other_code_changes() -> None:
    assert set(names(SOURCE)) < set(names("import os\nLIMIT = 3\n" + SOURCE))
    twice = [name for name in names("def f(x):\n    return x\\\n  + 1 + 1 + 1\n") if "+ -> -" in name]
    assert len(set(twice)) == len(twice) == 3


def write(root: Path, **files: str) -> None:
    (root / "graphs").mkdir(exist_ok=True)
    for name, text in files.items():
        (root / "graphs" / f"{name}.py").write_text(text)


def test_the_same_are_drawn_when_other_files_change(tmp_path: Path) -> None:
    write(tmp_path, a=SOURCE)
    first = mutations.draw(tmp_path, 9, 0, ["graphs"])
    assert len(first) == 9 and first == mutations.draw(tmp_path, 9, 0, ["graphs"])
    assert first != mutations.draw(tmp_path, 9, 1, ["graphs"])
    write(tmp_path, b="LIMIT = 3\n")
    assert len(set(first) & set(mutations.draw(tmp_path, 9, 0, ["graphs"]))) >= 8
    assert len(mutations.draw(tmp_path, 99, 0, ["graphs"], "a.py f")) == len(names(SOURCE))


def test_every_folder_has_tests() -> None:
    for start, folders in mutants.TESTS.items():
        assert all((ROOT / folder).is_dir() for folder in folders)
        assert start.startswith(mutations.FOLDERS) and ((ROOT / start).is_dir() or list(ROOT.glob(f"{start}*.py")))
    assert {mutants.folders_of(f"{folder}/x.py") for folder in mutations.FOLDERS} <= set(mutants.TESTS.values())
    assert mutants.folders_of("nodes/video/wan.py") == ("tests/video",)


def test_what_no_cpu_runs_is_left_out(tmp_path: Path) -> None:
    for folder in ("backends/triton", "proof"):
        (tmp_path / "kernels" / folder).mkdir(parents=True)
    for file in ("backends/triton/norms.py", "proof/cases.py", "linear.py"):
        (tmp_path / "kernels" / file).write_text("A = 1\ndef _refuses_triton(s):\n    return 2\n")
    drawn = mutations.draw(tmp_path, 99, 0, ["kernels"])
    assert [mutant.name for mutant in drawn] == ["kernels/linear.py module | A = 1 | 1 -> 2 | 1"]


def test_listed_mutants_are_there_and_have_a_reason() -> None:
    listed = mutants.equivalent()
    files = {name.split()[0] for name in listed}
    known = {mutant.name for file in files for mutant in mutations.mutants_of(file, (ROOT / file).read_bytes())}
    assert not listed.keys() - known, "not there any more: take them out of scripts/equivalent_mutants.toml"
    assert all(len(why) > 20 for why in listed.values())


def test_the_report_counts_by_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path, a=SOURCE)
    drawn = mutations.draw(tmp_path, 5, 0, ["graphs"])
    outcomes = ("killed", "survived", "timed out", "survived")
    results = {mutant.name: {"outcome": outcome} for mutant, outcome in zip(drawn, outcomes, strict=False)}
    monkeypatch.setattr(mutants, "equivalent", lambda: {drawn[1].name: "nobody sees it"})
    _, graphs, whole, *survivors = mutants.report(drawn, results).splitlines()
    assert graphs.split() == ["graphs", "4", "1", "1", "1", "1", "66.7%"]
    assert whole.split()[1:] == graphs.split()[1:] and survivors == [drawn[3].name]


TESTS = """
import pytest, threading
from graphs.x import Rule, decorated, once, outer

@decorated
def function(): pass

@pytest.fixture(scope="module")
def rule(): return Rule(2)

def test_first(rule): assert rule.holds(3)
def test_second(rule): assert not rule.holds(2)
def test_inner(): assert outer() == [1, 2]
def test_thread():
    thread = threading.Thread(target=once)
    thread.start()
    thread.join()
"""
REACHED = """
class Rule:
    def __init__(self, n):
        self.n = n
    def holds(self, x):
        return x > self.n
def once():
    return 1
def decorated(function):
    return function
def outer():
    def inner(x):
        return x + 1
    return [inner(x) for x in (0, 1)]
"""


def test_which_tests_reach_a_function(tmp_path: Path) -> None:
    write(tmp_path, x=REACHED)
    (tmp_path / "test_x.py").write_text(TESTS)
    code = (
        "import pytest, sys, json, pathlib, mutants\n"
        "plugin = mutants.Reached(pathlib.Path.cwd())\n"
        "assert not pytest.main(['-q', '-p', 'no:randomly', '-p', 'no:cacheprovider', '.'], [plugin])\n"
        "print(json.dumps(plugin.by_function()))\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{SCRIPT.parent}{os.pathsep}{tmp_path}"}
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    reached = {
        name: {test.rpartition("test_")[2] for test in tests}
        for name, tests in json.loads(out.splitlines()[-1]).items()
    }
    assert reached["graphs/x.py Rule.__init__"] >= {"first", "second"}, "a fixture of the file counts for all tests"
    assert reached["graphs/x.py Rule.holds"] == {"first", "second"}
    assert reached["graphs/x.py outer"] == reached["graphs/x.py outer.inner"] == {"inner"}
    assert reached["graphs/x.py once"] == {"thread"}
    assert reached["graphs/x.py decorated"] == {"first", "second", "inner", "thread"}, "called by the file's import"


@pytest.mark.slow
def test_a_handful_runs_in_a_copy_and_is_not_run_again(tmp_path: Path) -> None:
    def run(*words: str) -> str:
        command = [sys.executable, str(SCRIPT), "--only", "graphs", "--work", str(tmp_path), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def state() -> str:
        command = ["git", "status", "--porcelain", "--untracked-files=all"]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    before = state()
    first = run("--count", "3")
    assert first.count("\nkilled ") + first.startswith("killed ") >= 1
    results = json.loads((tmp_path / "results.json").read_text())
    assert len(results) == 3 and all(result["outcome"] in ("killed", "survived") for result in results.values())
    again = run("--count", "3")
    assert again.startswith("folder") and again in first
    assert state() == before
