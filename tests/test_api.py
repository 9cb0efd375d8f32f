"""The Python face: what ``import pipegraph`` gives."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import pipegraph as pg
from pipegraph.runtime.events import Event

TEXT = {
    "pipegraph": 1,
    "inputs": {"text": {"type": "STRING", "default": "hello"}},
    "nodes": {
        "a": {"class_type": "PrimitiveString", "inputs": {"value": {"$input": "text"}}},
        "b": {"class_type": "StringConcatenate", "inputs": {"string_a": ["a", 0], "string_b": "!", "delimiter": ""}},
    },
    "outputs": {"text": ["b", 0]},
}
LOOP = '''
import time
import pipegraph as pg
from collections.abc import Generator

@pg.node("Wait", category="test", effect="volatile")
def wait(seconds: float) -> Generator[pg.NodeEvent, None, float]:
    """Wait, a hundredth of a second at a time.

    Args:
        seconds: How long.
    """
    for i in range(int(seconds * 100)):
        time.sleep(0.01)
        yield pg.Progress(i + 1, int(seconds * 100))
    return seconds

@pg.node("Size", category="test")
def size(name: str) -> str:
    """Tell a text.

    Args:
        name: It.
    """
    return name
'''


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    path = tmp_path / "pack.py"
    path.write_text(LOOP)
    return path


def test_importing_is_free() -> None:
    code = "import sys; before = {*sys.modules}; import pipegraph; print(*({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pipegraph" in done.stdout.split()
    assert not {"click", "torch", "pipegraph.runtime", "pipegraph.api"} & set(done.stdout.split())


def test_every_public_name_is_there() -> None:
    for name in pg.__all__:
        assert getattr(pg, name).__module__.startswith("pipegraph.") or name == "NodeEvent"
    assert pg.__version__.count(".") == 2
    assert set(pg.__all__) < set(dir(pg))
    with pytest.raises(AttributeError, match="nothing_here"):
        pg.nothing_here  # noqa: B018


def test_run_gives_outputs_record_and_timings() -> None:
    workflow = pg.load(TEXT)
    assert workflow.inputs == {"text": "hello"}
    result = workflow.run(text="bye")
    assert result["text"] == "bye!"
    assert result.record["inputs"] == {"text": "bye"}
    assert not result.files


def test_the_second_run_is_cached_and_another_input_is_not() -> None:
    workflow = pg.load(TEXT)
    workflow.run(text="one")
    assert workflow.run(text="one").timings == {}
    assert set(workflow.run(text="two").timings) == {"a", "b"}


def test_overrides_reach_any_input() -> None:
    assert pg.load(TEXT).run({"b.delimiter": "-"}, text="x")["text"] == "x-!"


def test_all_problems_at_once() -> None:
    with pytest.raises(pg.GraphError) as caught:
        pg.load(TEXT).run({"c.x": 1}, txt="x", text=3)
    assert {p.code for p in caught.value.problems} == {"unknown_run_input", "unknown_override", "wrong_type"}


def test_loading_tells_everything_too() -> None:
    nodes = {"a": {"class_type": "Nope"}, "e": {"class_type": "SaveImage", "inputs": {"images": [1, 2, 3]}}}
    with pytest.raises(pg.GraphError) as caught:
        pg.load({"pipegraph": 1, "inputs": {"text": {"type": "STRING"}}, "nodes": nodes})
    assert {p.code for p in caught.value.problems} == {"bad_link", "unknown_node", "unused_graph_input"}


def test_calls_that_are_easily_made(pack: Path) -> None:
    import numpy as np

    graph = {
        "pipegraph": 1,
        "inputs": {"n": {"type": "INT"}},
        "nodes": {"n": {"class_type": "PrimitiveInt", "inputs": {"value": {"$input": "n"}}}},
        "outputs": {"n": ["n", 0]},
    }
    workflow = pg.load(graph, nodes=str(pack))
    assert "Wait" in workflow.catalog.entries and "Wait" in pg.load(graph, nodes=pack).catalog.entries
    assert type(workflow.run(n=np.int64(7))["n"]) is int
    assert workflow.run({"n.value": np.uint8(8)}, n=1)["n"] == 8
    for wrong in (np.float64(7.5), np.array(7.5), np.array([1])):
        with pytest.raises(pg.GraphError, match=r"whole number|takes no picture"):
            workflow.run(n=wrong)
    with pytest.raises(TypeError, match=r"by name \(n\)"):
        workflow.run("a red fox")  # type: ignore[arg-type]


def test_settings_are_checked() -> None:
    with pytest.raises(pg.GraphError, match="fp32"):
        pg.load(TEXT, dtype="fp8")
    with pytest.raises(pg.GraphError, match="cuda:99"):
        pg.load(TEXT, device="cuda:99").run()


def test_kernels_that_are_asked_for_are_recorded() -> None:
    assert pg.load(TEXT, kernels="attention=torch").run().record["settings"]["kernels"] == {"attention": "torch"}


def test_a_path_may_lie_anywhere_and_a_text_may_not(tmp_path: Path) -> None:
    from PIL import Image

    path = tmp_path / "far" / "away.png"
    path.parent.mkdir()
    Image.new("RGB", (8, 8), "red").save(path)
    graph = {
        "pipegraph": 1,
        "inputs": {"image": {"type": "STRING"}},
        "nodes": {"load": {"class_type": "LoadImage", "inputs": {"image": {"$input": "image"}}}},
        "outputs": {"image": ["load", 0]},
    }
    with pytest.raises(pg.GraphError, match=r"away\.png"):
        pg.load(graph).run(image=str(path))
    assert tuple(pg.load(graph).run(image=path)["image"].shape) == (1, 8, 8, 3)


def test_cancel_from_another_thread(pack: Path) -> None:
    waiting = threading.Event()

    def told(event: Event) -> None:
        if event.kind == "progress":
            waiting.set()

    graph = {
        "pipegraph": 1,
        "nodes": {"w": {"class_type": "Wait", "inputs": {"seconds": 60.0}}},
        "outputs": {"x": ["w", 0]},
    }
    workflow = pg.load(graph, nodes=[pack], on_event=told)

    def stop() -> None:
        waiting.wait(10)
        workflow.cancel()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(pg.Cancelled):
        workflow.run()
    thread.join()
    assert workflow.run({"w.seconds": 0.01})["x"] == 0.01  # the next run is not harmed


def test_a_cancel_while_planning_is_not_lost(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = {
        "pipegraph": 1,
        "nodes": {"w": {"class_type": "Wait", "inputs": {"seconds": 0.02}}},
        "outputs": {"x": ["w", 0]},
    }
    for moment in ("check", "settings", "event"):
        workflow = pg.load(graph, nodes=[pack])

        def stop(event: Event, workflow: pg.Workflow = workflow) -> None:
            if event.kind == "plan":
                workflow.cancel()

        if moment == "event":
            workflow.on_event = stop
        else:
            real = getattr(workflow, moment)

            def cancel_then(*given: object, real=real, workflow=workflow, **named: object) -> object:  # type: ignore[no-untyped-def]
                workflow.cancel()
                return real(*given, **named)

            monkeypatch.setattr(workflow, moment, cancel_then)
        with pytest.raises(pg.Cancelled):
            workflow.run()
        monkeypatch.undo()
        workflow.on_event = None
        assert workflow.run()["x"] == 0.02


READ = {
    "pipegraph": 1,
    "inputs": {"image": {"type": "STRING"}},
    "nodes": {"load": {"class_type": "LoadImage", "inputs": {"image": {"$input": "image"}}}},
    "outputs": {"image": ["load", "IMAGE"]},
}


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A picture in a folder that is none of inputs."""
    from PIL import Image

    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    Image.new("RGB", (16, 16), "red").save(tmp_path / "elsewhere" / "picture.png")
    return tmp_path / "elsewhere" / "picture.png"


def test_a_path_may_be_read_by_the_run_it_was_given_to_and_no_other(outside: Path) -> None:
    workflow = pg.load(READ)
    assert workflow.run(image=outside)["image"].shape == (1, 16, 16, 3)
    assert pg.load(READ, allow=[outside.parent]).run(image=str(outside))["image"].shape == (1, 16, 16, 3)
    with pytest.raises(pg.GraphError) as there:
        workflow.run(image=str(outside))
    with pytest.raises(pg.GraphError) as absent:
        workflow.run(image=str(outside.with_name("absent.png")))
    assert str(there.value) == str(absent.value).replace("absent.png", "picture.png")


def test_a_path_that_comes_over_a_link_may_be_read_too(outside: Path) -> None:
    text = {"class_type": "PrimitiveString", "inputs": {"value": {"$input": "image"}}}
    linked = {"class_type": "LoadImage", "inputs": {"image": ["text", 0]}}
    graph = READ | {"nodes": {"text": text, "load": linked}}
    assert pg.load(graph).run(image=outside)["image"].shape == (1, 16, 16, 3)
    with pytest.raises(pg.RunError, match="no file"):
        pg.load(graph).run(image=str(outside))


def test_runs_at_the_same_time_do_not_share_what_they_may_read(outside: Path) -> None:
    read, refused = threading.Barrier(2), list[bool]()

    def run(image: str | Path) -> None:
        for _ in range(20):
            read.wait(10)
            try:
                pg.load(READ).run(image=image)
                refused.append(False)
            except pg.GraphError:
                refused.append(True)

    threads = [threading.Thread(target=run, args=(image,)) for image in (outside, str(outside))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused.count(True) == refused.count(False) == 20


def test_what_was_checked_is_what_is_read(outside: Path) -> None:
    """A link that leads elsewhere after the check changes nothing."""
    from PIL import Image

    Image.new("RGB", (8, 8), "blue").save("small.png")
    Path("link.png").symlink_to("small.png")

    def swap(event: Event) -> None:
        if event.kind == "plan":
            Path("link.png").unlink()
            Path("link.png").symlink_to(outside)

    assert pg.load(READ, on_event=swap).run(image="link.png")["image"].shape == (1, 8, 8, 3)


UNWATCHED = '''
import pipegraph as pg
from pathlib import Path

@pg.node("ReadText", category="test", output="text")
def read_text(path: str, note: str = "") -> str:
    """Read a file whose name is declared as plain text.

    Args:
        path: Its name.
        note: Nothing.
    """
    return Path(path).read_text()
'''


def test_a_file_that_a_node_takes_as_plain_text_is_read_anew_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "pack.py").write_text(UNWATCHED)
    file = tmp_path / "a.txt"
    graph = {"a": {"class_type": "ReadText", "inputs": {"path": str(file), "note": "no/file"}}}
    nodes = {"pipegraph": 1, "nodes": graph, "outputs": {"text": ["a", 0]}}
    workflow = pg.load(nodes, nodes=tmp_path / "pack.py")
    for text in ("first", "second"):
        file.write_text(text)
        result = workflow.run()
        (warning,) = result.warnings
        assert result["text"] == text
        assert 'its input "path" is declared as plain text and names a file' in warning and "FileInput" in warning


def test_loading_and_hashing_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipegraph import api
    from pipegraph.models.loading import filling

    monkeypatch.setenv("PIPEGRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(filling, "_REPORT_SECONDS", 0)
    monkeypatch.setattr(api, "HASHED_BYTES", 1_000_000)
    events: list[Event] = []
    graph = {
        "pipegraph": 1,
        "nodes": {"v": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "embedded/flux-tiny"}}},
        "outputs": {"v": ["v", "VAE"]},
    }
    pg.load(graph, on_event=events.append).run()
    hashed = [event.data for event in events if event.kind == "hashing"]
    assert hashed and all(data["path"].is_file() and data["bytes"] > 1_000_000 for data in hashed)
    loaded = [event.data for event in events if event.kind == "progress" and event.data["unit"] == "MB"]
    assert loaded and all(0 <= data["done"] <= data["total"] for data in loaded)
    assert [event.kind for event in events].index("hashing") < [event.kind for event in events].index("plan")
