"""What only whole processes show: no torch is imported, kill -9 leaves nothing under a final name, Ctrl-C ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipegraph.runtime.files import sweep

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
NODES = '''
from __future__ import annotations

import os
import time
from collections.abc import Generator

from pipegraph.runtime import files
from pipegraph.runtime.node import NodeEvent, Progress, RunContext, Saved, node


@node("Slow", category="test", effect="writes", output_node=True)
def slow(ctx: RunContext, seconds: float = 60.0) -> Generator[NodeEvent, None, None]:
    """Save three files, slowly.

    Args:
        seconds: How long writing takes.
    """
    yield Saved(ctx.write("first_%n.txt", b"whole"))
    sync = os.fsync

    def wait(fd: int) -> None:
        print("writing", flush=True)
        time.sleep(seconds)
        sync(fd)

    files.os.fsync = wait
    yield Saved(ctx.write("sub/second_%n.txt", b"half" * 1000))
    files.os.fsync = sync


@node("Steps", category="test", output_node=True)
def steps() -> Generator[NodeEvent, None, int]:
    """Work for a long time."""
    for i in range(10_000):
        time.sleep(0.01)
        print("step", flush=True)
        yield Progress(i, 10_000)
    return 1
'''
RUN = """
import sys
from pathlib import Path
from pipegraph.graphs.load import load
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check
from pipegraph.runtime.errors import Cancelled
from pipegraph.runtime.plan import plan
from pipegraph.runtime.run import Runner

folder, kind, seconds = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
inputs = {"seconds": seconds} if kind == "Slow" else {}
graph = load({"a": {"class_type": kind, "inputs": inputs}})
planned = plan(check(graph, Catalog.load([folder / "pack.py"])))
try:
    Runner().run(planned, output_dir=folder / "out")
except Cancelled:
    sys.exit(130)
"""


def start(folder: Path, kind: str, seconds: float = 60.0) -> subprocess.Popen[str]:
    (folder / "pack.py").write_text(NODES)
    environment = {**ENVIRONMENT, "PIPEGRAPH_CACHE": str(folder / "cache")}
    command = [sys.executable, "-c", RUN, str(folder), kind, str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_kill_leaves_nothing_under_a_final_name_and_is_swept(tmp_path: Path) -> None:
    with start(tmp_path, "Slow") as process:
        assert process.stdout and process.stdout.readline() == "writing\n"
        process.kill()
    assert process.returncode == -signal.SIGKILL
    found = names(tmp_path / "out")
    assert len(found) == 2 and found[0].startswith(f".pipegraph-{process.pid}-") and found[1] == "first_00001.txt"
    with start(tmp_path, "Slow", 0.0) as process:
        assert process.wait(60) == 0
    assert names(tmp_path / "out") == ["first_00001.txt", "first_00002.txt", "sub/second_00001.txt"]
    assert sweep(tmp_path / "out") == []


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_within_a_step(tmp_path: Path) -> None:
    with start(tmp_path, "Steps") as process:
        assert process.stdout and process.stdout.readline() == "step\n"
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        assert process.wait(30) == 130
        assert time.monotonic() - began < 10  # a hundred seconds were left
    assert names(tmp_path / "out") == []


def test_the_engine_imports_no_tensor_library(tmp_path: Path) -> None:
    code = """
import sys
sys.argv = ["x", sys.argv[1], "Slow", "0"]
heavy = {"torch", "numpy", "diffusers", "transformers", "networkx", "scipy", "PIL"}
exec(sys.stdin.read())
print(sorted(heavy & sys.modules.keys()))
"""
    (tmp_path / "pack.py").write_text(NODES)
    environment = {**ENVIRONMENT, "PIPEGRAPH_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, input=RUN, capture_output=True, text=True, env=environment, timeout=120)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
