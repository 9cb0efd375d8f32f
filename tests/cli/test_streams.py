"""Whatever the console is, a run is made to its end, and stdout holds results only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACK = '''
import os
import sys
import pipegraph as pg

@pg.node("Talk", category="test", effect="volatile")
def talk(text: str) -> str:
    """Print on stdout in all ways.

    Args:
        text: What to print.
    """
    print(text)
    sys.stdout.write("written\\n")
    os.write(1, b"written without Python\\n")
    return text
'''
TEXT = "\u65e5\u672c\u8a9e \u2603"
GRAPH = {
    "pipegraph": 1,
    "nodes": {
        "talk": {"class_type": "Talk", "inputs": {"text": TEXT}},
        "show": {"class_type": "PreviewAny", "inputs": {"source": ["talk", 0]}},
        "empty": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "color": 0}},
        "save": {"class_type": "SaveImage", "inputs": {"images": ["empty", 0], "filename_prefix": "x"}},
    },
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "pack.py").write_text(PACK)
    (tmp_path / "graph.json").write_text(json.dumps(GRAPH))
    return tmp_path


def run(folder: Path, *args: str, shell: str = "", **settings: str) -> subprocess.CompletedProcess[bytes]:
    """``pipegraph run graph.json`` in a process of its own; ``shell`` is appended to the command."""
    command = [sys.executable, "-m", "pipegraph", "run", "graph.json", "--nodes", "pack.py", *args]
    line = " ".join(command) + f" {shell}"
    return subprocess.run(line, shell=True, cwd=folder, env={**os.environ, **settings}, capture_output=True)


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "latin-1", "utf-8"])
def test_a_console_that_cannot_encode_does_not_end_the_run(folder: Path, encoding: str) -> None:
    done = run(folder, PYTHONIOENCODING=encoding)
    assert done.returncode == 0, done.stderr
    shown = TEXT.encode(encoding, "backslashreplace").decode(encoding)
    assert done.stdout.decode(encoding).splitlines() == [shown, str(Path("output/x_00001_.png"))]
    assert done.stderr.decode(encoding).count(shown) == 1 and b"written without Python" in done.stderr


def test_what_nodes_print_does_not_stand_between_events(folder: Path) -> None:
    done = run(folder, "--json", PYTHONIOENCODING="cp1252")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and events[-1]["event"] == "done"
    assert [e["text"] for e in events if e["event"] == "text"] == [TEXT]
    assert done.stderr.count(b"written") == 2


@pytest.mark.parametrize("closed", ["2>&-", ">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_end_the_run(folder: Path, closed: str) -> None:
    assert run(folder, shell=closed).returncode == 0
    assert (folder / "output/x_00001_.png").is_file()


def test_in_a_program_stdout_is_what_it_was(folder: Path) -> None:
    code = "from pipegraph.cli import main\ntry:\n    main(['run', 'graph.json', '--nodes', 'pack.py'])\n"
    code += "except SystemExit:\n    pass\n"
    done = subprocess.run([sys.executable, "-c", code + "print('after')"], cwd=folder, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "after" and "written without Python" in done.stderr
