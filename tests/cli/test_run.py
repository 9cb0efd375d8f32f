"""``pipegraph run``: what is printed where, exit codes, files, making a picture again."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from .conftest import Call
from .test_validate import TEXT

Write = Callable[..., Path]
ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "custom_node"
SLOW_NODE = '''
import time
from collections.abc import Generator
import pipegraph as pg

@pg.node("Sleep", category="test", effect="volatile")
def sleep(steps: int) -> Generator[pg.NodeEvent, None, int]:
    """Sleep for a tenth of a second a step.

    Args:
        steps: How many.
    """
    for i in range(steps):
        time.sleep(0.1)
        yield pg.Progress(i + 1, steps)
    return steps

@pg.node("Fail", category="test")
def fail(text: str) -> str:
    """Fail.

    Args:
        text: What to say.
    """
    raise ValueError(text)

@pg.node("Leave", category="test")
def leave(seconds: float) -> float:
    """Leave a thread that sleeps.

    Args:
        seconds: How long.
    """
    import threading
    threading.Thread(target=time.sleep, args=(seconds,), name="sleeper").start()
    return seconds
'''


def sleeping(steps: int) -> dict[str, object]:
    return {
        "nodes": {"zz": {"class_type": "Sleep", "inputs": {"steps": steps}}},
        "outputs": {"steps": ["zz", 0]},
    }


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    Image.linear_gradient("L").resize((40, 30)).convert("RGB").save(path)
    return path


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    path = tmp_path / "pack.py"
    path.write_text(SLOW_NODE)
    return path


def vignette(call: Call, picture: Path, *more: str):  # type: ignore[no-untyped-def]
    return call("run", EXAMPLE / "graph.json", "--nodes", EXAMPLE, "--image", picture, *more)


def test_texts_go_to_stdout_and_progress_to_stderr(call: Call, write: Write) -> None:
    done = call("run", write(TEXT), "--text", "good morning")
    assert (done.code, done.out) == (0, "good morning\n")
    assert "nodes to run" in done.err and "done in" in done.err


@pytest.mark.parametrize("text", ["fox " * 200, "x" * 5000, "~nobody here", "a/\n" * 90])
def test_a_text_that_can_be_no_path_is_a_text(call: Call, write: Write, text: str) -> None:
    done = call("run", write(TEXT), "--text", text, "--times", "1")
    assert (done.code, done.out) == (0, text + "\n")


def test_bytes_that_are_no_text_are_refused(call: Call, write: Write) -> None:
    done = call("run", write(TEXT), "--text", "fox \udcff")
    assert done.code == 2 and "error[bad_text]" in done.err


def test_saved_paths_go_to_stdout(call: Call, picture: Path) -> None:
    done = vignette(call, picture, "--out", "pictures", "--strength", "1")
    (path,) = done.out.splitlines()
    assert done.code == 0
    with Image.open(path) as made:
        assert made.size == (40, 30)
        assert made.getpixel((0, 29)) == (0, 0, 0)
        assert made.getpixel((20, 29)) != (0, 0, 0)
    assert [str(p) for p in Path("pictures").iterdir()] == [path]


def test_json_prints_events_and_nothing_else(call: Call, picture: Path) -> None:
    done = vignette(call, picture, "--json", "--record")
    events = done.json
    kinds = [e["event"] for e in events]
    assert (done.code, done.err) == (0, "")
    assert kinds[0] == "plan" and kinds[-2:] == ["done", "record"]
    assert [e["number"] for e in events[:-1]] == [*range(1, len(events))]
    (saved,) = [e for e in events if e["event"] == "saved"]
    record = json.loads(Path(events[-1]["path"]).read_text())
    assert record["run"]["files"] == [saved["path"]]
    assert record["inputs"]["strength"] == 0.8 and record["versions"]["pipegraph"]
    assert Path(events[-1]["path"]).parent == Path(saved["path"]).parent


def test_a_picture_makes_itself_again(call: Call, picture: Path) -> None:
    (first,) = vignette(call, picture, "--strength", "0.3").out.splitlines()
    again = call("run", first, "--nodes", EXAMPLE, "--out", "again")
    (second,) = again.out.splitlines()
    assert again.code == 0
    assert Path(first).read_bytes() == Path(second).read_bytes()
    changed = call("run", first, "--nodes", EXAMPLE, "--strength", "0.9", "--out", "again")
    assert Path(changed.out.strip()).read_bytes() != Path(first).read_bytes()


def test_a_picture_whose_source_is_gone_says_what_to_give(call: Call, picture: Path) -> None:
    (first,) = vignette(call, picture).out.splitlines()
    picture.unlink()
    done = call("run", first, "--nodes", EXAMPLE)
    assert done.code == 2 and "error[unknown_file]" in done.err and "--image PATH" in done.err


def test_help_lists_the_inputs_of_the_graph(call: Call, write: Write) -> None:
    done = call("run", write(TEXT), "--help")
    assert done.code == 0
    assert "--text STRING" in done.out and "--times INT" in done.out and "default: 2" in done.out


def test_a_wrong_graph_runs_nothing(call: Call, picture: Path) -> None:
    done = vignette(call, picture, "--strength", "7", "--set", "save.filename_prefi=x")
    assert done.code == 2 and not done.out and not Path("output").exists()
    assert "error[out_of_range]" in done.err and "error[unknown_input]" in done.err


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("--device", "cuda:99", "bad_device"),
        ("--device", "gpu", "bad_device"),
        ("--kernels", "attention=x", "bad_kernels"),
    ],
)
def test_settings_this_machine_does_not_have(call: Call, write: Write, option: str, value: str, code: str) -> None:
    done = call("run", write(TEXT), option, value)
    assert done.code == 2 and f"error[{code}]" in done.err and value in done.err


def test_where_to_save_is_tried_before_anything_runs(call: Call, picture: Path) -> None:
    for out in ("/dev/null", "/proc/nothing", picture):
        done = vignette(call, picture, "--out", str(out))
        assert done.code == 2 and not done.out and "error[bad_out]" in done.err and str(out) in done.err
    for prefix in ("../../evil", "/tmp/evil", "a/./b", "x" * 300, "%n%n", "a\nb", "a\x1bb", "-x", "a/-b", "\x9bx"):
        done = vignette(call, picture, "--set", f"save.filename_prefix={prefix}")
        assert done.code == 2 and "error[bad_file_name]" in done.err and not Path("output").exists()
    assert vignette(call, picture, "--set", "save.filename_prefix=a/%date:yyyy-MM-dd%/b").code == 0


def test_a_run_that_gives_nothing_says_so(call: Call, write: Write) -> None:
    nodes = {"picture": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8}}}
    outputs = {"image": ["picture", 0]}
    done = call("run", write({"nodes": nodes, "outputs": outputs}))
    assert (done.code, done.out) == (0, "") and "SaveImage" in done.err
    nodes["show"] = {"class_type": "PreviewImage", "inputs": {"images": ["picture", 0]}}
    done = call("run", write({"nodes": nodes}))
    shown = [line.removeprefix("preview ") for line in done.err.splitlines() if line.startswith("preview ")]
    assert (done.code, done.out) == (0, "") and "warning" not in done.err and Path(*shown).is_file()


def test_a_node_that_fails(call: Call, write: Write, pack: Path) -> None:
    graph = write({"nodes": {"f": {"class_type": "Fail", "inputs": {"text": "no good"}}}, "outputs": {"x": ["f", 0]}})
    done = call("run", graph, "--nodes", pack)
    assert done.code == 1
    assert 'node "f"' in done.err and "no good" in done.err and f"{pack}:25" in done.err
    as_json = call("run", graph, "--nodes", pack, "--json")
    assert as_json.code == 1
    assert [e["event"] for e in as_json.json][-2:] == ["failed", "done"]
    assert as_json.json[-1]["status"] == "failed"


def start(graph: Path, pack: Path, *more: str) -> subprocess.Popen[str]:
    """A run in a process of its own that has taken its first step."""
    command = [sys.executable, "-m", "pipegraph", "run", str(graph), "--nodes", str(pack), "--json", *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=graph.parent)
    assert process.stdout
    for line in process.stdout:
        if json.loads(line)["event"] == "progress":
            return process
    raise AssertionError(process.communicate()[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_within_a_step(write: Write, pack: Path, number: signal.Signals) -> None:
    process = start(write(sleeping(600)), pack)
    began = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert time.monotonic() - began < 5
    assert json.loads(out.splitlines()[-1])["status"] == "cancelled"
    assert err == "interrupted\n"


def test_a_terminal_gets_bars_and_the_saved_paths(call: Call, write: Write, pack: Path) -> None:
    main, other = pty.openpty()
    command = [sys.executable, "-m", "pipegraph", "run", str(write(sleeping(5))), "--nodes", str(pack)]
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, stdout=other, stderr=other, stdin=other, env=env) as process:
        os.close(other)
        shown = b""
        while chunk := _read(main):
            shown += chunk
    assert process.returncode == 0
    text = shown.decode()
    assert "5/5" in text and "it/s" in text and "1/1 nodes" in text and "done in" in text


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, 65536)
    except OSError:  # the other side is closed
        return b""


def test_nodes_that_a_lazy_input_asks_for_are_counted(call: Call, write: Write, pack: Path) -> None:
    nodes = {
        "late": {"class_type": "Sleep", "inputs": {"steps": 1}},
        "switch": {"class_type": "ComfySwitchNode", "inputs": {"switch": True, "on_true": ["late", 0], "on_false": 1}},
        "last": {"class_type": "Sleep", "inputs": {"steps": ["switch", 0]}},
    }
    done = call("run", write({"nodes": nodes, "outputs": {"x": ["last", 0]}}), "--nodes", pack)
    assert done.code == 0, done.err
    assert "2 to 3 nodes to run" in done.err and "[3/3]" in done.err


@pytest.mark.parametrize(("stream", "more"), [("stdout", ["--json"]), ("stdout", []), ("stderr", [])])
def test_a_reader_that_goes_away_does_not_end_the_run(
    write: Write, pack: Path, tmp_path: Path, stream: str, more: list[str]
) -> None:
    nodes = {
        "wait": {"class_type": "Sleep", "inputs": {"steps": 2}},
        "say": {"class_type": "PreviewAny", "inputs": {"source": ["wait", 0]}},
        "late": {"class_type": "Sleep", "inputs": {"steps": 1}},
        "picture": {"class_type": "EmptyImage", "inputs": {"width": ["late", 0], "height": 8}},
        "save": {"class_type": "SaveImage", "inputs": {"images": ["picture", 0]}},
    }
    out = tmp_path / "made"
    read, written = os.pipe()
    os.close(read)  # nobody reads from the start
    command = [sys.executable, "-m", "pipegraph", "run", write({"nodes": nodes}), "--nodes", pack, "--out", out, *more]
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, stream: written}
    done = subprocess.run(command, **streams, timeout=60)  # type: ignore[call-overload]
    os.close(written)
    assert done.returncode == 0, done.stderr
    assert [path.suffix for path in out.iterdir()] == [".png"]


@pytest.mark.parametrize("seconds, ended", [(0.2, False), (600.0, True)])
def test_threads_that_a_node_leaves_do_not_hold_the_exit(tmp_path: Path, seconds: float, ended: bool) -> None:
    (tmp_path / "pack.py").write_text(SLOW_NODE)
    graph = {
        "pipegraph": 1,
        "nodes": {"a": {"class_type": "Leave", "inputs": {"seconds": seconds}}},
        "outputs": {"x": ["a", 0]},
    }
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    code = "from pipegraph import cli; cli.THREAD_SECONDS = 0.5; cli.main()"
    command = [sys.executable, "-c", code, "run", "graph.json", "--nodes", "pack.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert ("a node left running threads (sleeper): they were ended" in done.stderr) == ended
