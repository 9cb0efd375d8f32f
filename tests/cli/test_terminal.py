"""Control characters of graphs, files and nodes are shown on a terminal, and not obeyed."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipegraph.graphs.errors import Problem, visible

from .conftest import Call

EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\x7f\x08"
"""Set the window's title, clear the screen, colours by a C1 code, delete, backspace."""
RAW = re.compile(rb"\x1b\]|\x1b\[2J|\x07|\x08|\x7f|\xc2\x9b")
FAIL = '''
from pipegraph.runtime.node import RunContext, node

@node("Evil", category="test", output_node=True)
def evil(text: str, ctx: RunContext, fail: bool = False) -> str:
    """Warn of a text, and fail with it.

    Args:
        text: It.
        fail: Whether to fail.
    """
    ctx.warn(text)
    if fail:
        raise ValueError(text)
    return text
'''


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    path = tmp_path / "pack.py"
    path.write_text(FAIL)
    return path


def on_a_terminal(*args: str | Path, cwd: Path) -> bytes:
    """What a command writes to a terminal."""
    main, other = pty.openpty()
    command = [sys.executable, "-m", "pipegraph", *args]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    shown = b""
    with subprocess.Popen(command, stdin=other, stdout=other, stderr=other, cwd=cwd, env=env) as process:
        os.close(other)
        while True:
            try:
                chunk = os.read(main, 65536)
            except OSError:  # the other side is closed
                break
            shown += chunk
    os.close(main)
    assert process.returncode in (0, 1, 2)
    return shown


@pytest.mark.parametrize("fail", [False, True])
def test_what_a_run_tells(write: Callable[..., Path], pack: Path, tmp_path: Path, fail: bool) -> None:
    nodes = {
        f"id{EVIL}": {"class_type": "Evil", "title": f"Node{EVIL}", "inputs": {"text": f"text{EVIL}", "fail": fail}},
        "show": {"class_type": "PreviewAny", "inputs": {"source": [f"id{EVIL}", 0]}},
    }
    shown = on_a_terminal("run", write({"nodes": nodes}), "--nodes", pack, cwd=tmp_path)
    assert b"text\\x1b]0;title\\x07\\x1b[2J" in shown and not RAW.search(shown)


@pytest.mark.parametrize(
    "document",
    [
        {"nodes": {f"id{EVIL}": {"class_type": f"Nope{EVIL}", "title": f"Title{EVIL}", "inputs": {f"in{EVIL}": [1]}}}},
        {"nodes": {"a": {"class_type": "LoadImage", "inputs": {"image": f"x{EVIL}.png"}}}},
        {"nodes": {}, f"key{EVIL}": 1},
    ],
)
def test_what_is_wrong_with_a_graph(document: dict[str, Any], write: Callable[..., Path], tmp_path: Path) -> None:
    path = write(document, f"graph{EVIL}.json")
    shown = on_a_terminal("validate", path, cwd=tmp_path)
    assert b"error" in shown and not RAW.search(shown)
    assert not RAW.search(on_a_terminal("validate", path, "--json", cwd=tmp_path))
    assert not RAW.search(on_a_terminal("validate", path, f"--x{EVIL}", "1", cwd=tmp_path))


def test_names_of_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    (tmp_path / "loras").mkdir()
    (tmp_path / f"loras/evil{EVIL}.safetensors").write_bytes(b"x")
    shown = on_a_terminal("models", cwd=tmp_path)
    assert b"evil\\x1b]0" in shown and not RAW.search(shown)


def test_a_pipe_gets_the_text_itself(call: Call, write: Callable[..., Path], pack: Path) -> None:
    nodes = {
        "a": {"class_type": "Evil", "inputs": {"text": f"text{EVIL}"}},
        "show": {"class_type": "PreviewAny", "inputs": {"source": ["a", 0]}},
    }
    done = call("run", write({"nodes": nodes}), "--nodes", pack)
    assert done.out == f"text{EVIL}\n"
    assert not RAW.search(done.err.encode()) and "text\\x1b]0;title\\x07" in done.err
    for line in call("run", write({"nodes": nodes}), "--nodes", pack, "--json").out.splitlines():
        assert line.isascii() and line.isprintable() and json.loads(line)


def test_a_name_cannot_make_a_line_of_its_own() -> None:
    problem = Problem(code="x", message="first\nsecond", node="a\nerror[fake] b", title="t\nu", input="i\tj")
    assert str(problem) == 'node "a\\nerror[fake] b" (t\\nu), input "i\\tj": first\nsecond'
    assert visible("a\tb\nc\rd") == "a\tb\nc\\rd"
