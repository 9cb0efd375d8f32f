"""The scripts set up what they need once, hand arguments on as they are, and say what is wrong."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FAKE_PYTHON = """#!/bin/sh
# Stands for an interpreter: notes its calls; makes an "environment" whose commands print their arguments.
printf '%s\\n' "$*" >>"$LOG"
[ "$*" = "${FAIL:-}" ] && exit 1
case "$2" in
  venv) mkdir -p "$3/bin" && cp "$0" "$3/bin/python"
        printf '#!/bin/sh\\npwd\\nfor a in "$@"; do echo "<$a>"; done\\n' >"$3/bin/pipegraph"
        chmod +x "$3/bin/pipegraph" ;;
  pip) exit "${PIP_STATUS:-0}" ;;
esac
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    python = tmp_path / "python"
    python.write_text(FAKE_PYTHON)
    python.chmod(python.stat().st_mode | stat.S_IEXEC)
    made = {"PYTHON": str(python), "PIPEGRAPH_VENV": str(tmp_path / "a venv"), "LOG": str(tmp_path / "log")}
    return {**os.environ, **made}


def script(name: str, env: dict[str, str], cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(ROOT / "scripts" / name), *args], env=env, cwd=cwd, capture_output=True, text=True)


def calls(env: dict[str, str]) -> list[str]:
    return Path(env["LOG"]).read_text().splitlines()


def test_run_sets_up_once_and_hands_arguments_on(env: dict[str, str], tmp_path: Path) -> None:
    args = ("flux.json", "--prompt", "a 'red'  apple $HOME *", "")
    first = script("run", env, tmp_path, *args)
    assert first.stdout.splitlines() == [str(tmp_path), "<run>", *(f"<{a}>" for a in args)]
    assert "setting up" in first.stderr
    installed = [c for c in calls(env) if c.startswith("-m pip install")]
    assert len(installed) == 1 and f"-c {ROOT}/scripts/constraints.txt -e {ROOT}[dev]" in installed[0]
    before = len(calls(env))
    second = script("run", env, tmp_path, *args)
    assert (second.stdout, second.stderr) == (first.stdout, "")
    assert len(calls(env)) == before


def test_a_changed_environment_is_made_again(env: dict[str, str], tmp_path: Path) -> None:
    script("run", env, tmp_path)
    (Path(env["PIPEGRAPH_VENV"]) / "stamp").write_text("of another time")
    assert "setting up" in script("run", env, tmp_path).stderr


def test_a_failed_install_runs_nothing_and_is_tried_again(env: dict[str, str], tmp_path: Path) -> None:
    failed = script("run", {**env, "PIP_STATUS": "1"}, tmp_path)
    assert failed.returncode == 1 and not failed.stdout
    assert "nothing was run" in failed.stderr
    assert script("run", env, tmp_path).stdout


def test_an_old_interpreter_is_refused(env: dict[str, str], tmp_path: Path) -> None:
    done = script("run", {**env, "PYTHON": "false"}, tmp_path)
    assert done.returncode == 1
    assert "Python 3.11" in done.stderr and not (tmp_path / "a venv").exists()


def test_test_runs_lint_types_and_tests_in_the_checkout(env: dict[str, str], tmp_path: Path) -> None:
    script("test", env, tmp_path, "tests/cli", "-k", "json")
    assert [c for c in calls(env) if not c.startswith(("-c", "-m venv", "-m pip"))] == [
        "-m ruff check .",
        "-m ruff format --check .",
        "-m mypy",
        "-m pytest tests/cli -k json",
    ]


def test_test_without_arguments_interprets_and_compiles_kernels_too(env: dict[str, str], tmp_path: Path) -> None:
    assert script("test", env, tmp_path).returncode == 0
    ran = [c for c in calls(env) if c.startswith("-m pytest")]
    assert ran == ["-m pytest -n 2", "-m pytest -n 2 tests/interpreter", "-m pytest -n 2 tests/aot"]


@pytest.mark.parametrize("part", ["-m ruff check .", "-m mypy", "-m pytest -n 2", "-m pytest -n 2 tests/interpreter"])
def test_any_failure_ends_the_script(env: dict[str, str], tmp_path: Path, part: str) -> None:
    env["FAIL"] = part
    assert script("test", env, tmp_path).returncode == 1
    assert not [c for c in calls(env) if c == "-m pytest -n 2 tests/aot"]


def test_every_pin_is_exact_and_covers_what_is_required() -> None:
    import tomllib

    lines = [x for x in (ROOT / "scripts" / "constraints.txt").read_text().splitlines() if not x.startswith("#")]
    pins = {line.split("==")[0].lower().replace("_", "-") for line in lines}
    assert all(line.count("==") == 1 and "+" not in line for line in lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = {w.split(">=")[0].split("[")[0].lower() for w in wanted}
    assert names <= pins
