"""Running: results, cache, lazy inputs, events, failure, cancelling, files and the record."""

from __future__ import annotations

import gc
import json
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cost import within

from pipegraph.graphs.load import load
from pipegraph.runtime.errors import Cancelled, NoSuchRun, RunError, RunFinished
from pipegraph.runtime.events import Event, EventLog
from pipegraph.runtime.plan import Settings
from pipegraph.runtime.run import Result, Runner

Go = Callable[..., Result]
Calls = Counter[str]


def test_values_flow(go: Go) -> None:
    nodes = {
        "a": ("Add", {"a": 40}),
        "d": ("Divide", {"a": ["a", "INT"], "b": 7}),
        "r": ("Add", {"a": ["d", "remainder"], "b": ["d", 0]}),
        "h": ("Half", {"value": ["r", 0]}),
    }
    assert go(nodes, "h")["out"] == 5.5  # 41 = 5 * 7 + 6; a whole number becomes a float on its way


def test_a_second_run_calls_nothing(go: Go, calls: Calls) -> None:
    nodes = {"a": ("Add", {"a": 1}), "b": ("Same", {"value": ["a", 0]}), "c": ("Same", {"value": ["b", 0]})}
    assert go(nodes, "c")["out"] == 2 and calls == {"Add": 1, "Same": 2}
    again = go(nodes, "c")
    assert again["out"] == 2 and calls == {"Add": 1, "Same": 2}
    assert again.cached == ["c"] and again.timings == {}


def test_only_the_changed_cone_runs(go: Go, calls: Calls) -> None:
    nodes: dict[str, Any] = {
        "a": ("Add", {"a": 1}),
        "b": ("Add", {"a": 5}),
        "c": ("Add", {"a": ["a", 0], "b": ["b", 0]}),
    }
    go(nodes, "c")
    result = go({**nodes, "b": ("Add", {"a": 6})}, "c")
    assert (result["out"], [*result.timings], result.cached) == (9, ["b", "c"], ["a"])


def test_equal_nodes_run_once(go: Go, calls: Calls) -> None:
    nodes = {"a": ("Add", {"a": 1}), "b": ("Add", {"a": 1}), "c": ("Add", {"a": ["a", 0], "b": ["b", 0]})}
    assert go(nodes, "c")["out"] == 4 and calls["Add"] == 2


def test_volatile_nodes_and_what_reads_them_run_each_time(go: Go, calls: Calls) -> None:
    nodes = {
        "n": ("Now", {}),
        "a": ("Same", {"value": ["n", 0]}),
        "b": ("Add", {"a": 1}),
        "c": ("Same", {"value": ["b", 0]}),
    }
    document = {
        "pipegraph": 1,
        "nodes": {k: {"class_type": t, "inputs": i} for k, (t, i) in nodes.items()},
        "outputs": {"x": ["a", 0], "y": ["c", 0]},
    }
    one, two = go(document), go(document)
    assert one["x"] != two["x"] and calls == {"Now": 2, "Same": 3, "Add": 1}


def test_only_the_chosen_side_runs(go: Go, calls: Calls) -> None:
    nodes = {
        "y": ("Add", {"a": ["x", 0]}),
        "x": ("Add", {"a": 1}),
        "n": ("Fail", {"value": 1}),
        "s": ("Switch", {"which": True, "yes": ["y", 0], "no": ["n", 0]}),
    }
    assert go(nodes, "s")["out"] == 3 and calls == {"Add": 2}
    assert go({**nodes, "s": ("Switch", {"which": False, "yes": ["y", 0], "no": 8})}, "s")["out"] == 8


def test_lazy_inputs_are_checked_and_taken_from_the_cache(go: Go, calls: Calls) -> None:
    go({"a": ("Add", {"a": 1})}, "a")
    result = go({"a": ("Add", {"a": 1}), "s": ("Switch", {"which": True, "yes": ["a", 0]})}, "s")
    assert result["out"] == 2 and result.cached == ["a"] and calls["Add"] == 1


def test_the_plan_lists_what_lazy_inputs_may_ask_for(go: Go) -> None:
    nodes = {
        "y": ("Add", {"a": ["x", 0]}),
        "x": ("Add", {"a": 1}),
        "s": ("Switch", {"which": True, "yes": ["y", 0], "no": 8}),
        "t": ("Add", {"a": ["s", 0]}),
    }
    plan = go(nodes, "t").events.since(0)[0].data
    assert (sorted(plan["todo"]), sorted(plan["maybe"])) == (["s", "t"], ["x", "y"])
    plan = go(nodes, "t").events.since(0)[0].data
    assert plan["todo"] == plan["maybe"] == []


def test_a_tower_of_lazy_nodes(go: Go) -> None:
    nodes: dict[str, Any] = {"0": ("Add", {"a": 0, "b": 0})}
    for i in range(1, 3000):
        nodes[str(i)] = ("Switch", {"which": i % 2 == 0, "yes": [str(i - 1), 0], "no": [str(i - 1), 0]})
    assert go(nodes, "2999")["out"] == 0


def test_depth_width_and_ladders_take_linear_time(go: Go, calls: Calls) -> None:
    deep: dict[str, Any] = {"0": ("Add", {"a": 0})}
    ladder: dict[str, Any] = {"0": ("Add", {"a": 0})}
    for i in range(1, 5000):
        deep[str(i)] = ("Add", {"a": [str(i - 1), 0]})
    for i in range(1, 31):
        ladder[str(i)] = ("Add", {"a": [str(i - 1), 0], "b": [str(i - 1), 0]})
    with within(120):
        assert go(deep, "4999")["out"] == 5000
        assert go(ladder, "30")["out"] == 2**30
        assert calls["Add"] == 5030  # the first node of the ladder is the chain's
        wide = {str(i): ("Add", {"a": i}) for i in range(1, 10_000)}
        document = {
            "pipegraph": 1,
            "nodes": {k: {"class_type": t, "inputs": i} for k, (t, i) in wide.items()},
            "outputs": {k: [k, 0] for k in wide},
        }
        assert len(go(document).outputs) == 9999


def test_events_tell_the_run(go: Go) -> None:
    events: list[Event] = []
    nodes = {"s": ("Steps", {"total": 2}), "w": ("Save", {"text": ["s", 0], "temporary": True})}
    result = go(nodes, on_event=events.append)
    kinds = [e.kind for e in events]
    steps = ["progress", "preview", "text"] * 2
    assert kinds == ["plan", "started", *steps, "finished", "started", "warning", "saved", "finished", "done"]
    assert [e.number for e in events] == [*range(1, len(events) + 1)]
    assert result.events.since(0)[-1] == events[-1] and result.events.since(10) == events[10:]
    assert all(json.dumps(e.as_dict()) for e in events)
    assert events[2].as_dict() | {"at": 0} == {
        "event": "progress",
        "number": 3,
        "run": result.run_id,
        "at": 0,
        "node": "s",
        "title": "Steps",
        "done": 1,
        "total": 2,
        "unit": "it",
    }
    assert events[0].data["todo"] == ["s", "w"] and events[-1].data["status"] == "done"
    assert [e.kind for e in go({"s": ("Steps", {"total": 2})}, "s").events.since(0)] == ["plan", "cached", "done"]


def test_events_can_be_followed_from_another_thread(go: Go, runner: Runner) -> None:
    seen: list[int] = []
    reader = threading.Thread(target=lambda: seen.extend(e.number for e in runner.events("it").follow(timeout=20)))

    def listen(event: Event) -> None:
        if event.kind == "started":
            reader.start()

    result = go({"s": ("Steps", {"total": 20, "pause": 0.002})}, "s", on_event=listen, run_id="it")
    reader.join(20)
    assert seen == [*range(1, len(result.events.since()) + 1)]
    assert runner.events("it") is result.events
    assert [e.number for e in result.events.follow(60)] == seen[60:]
    with pytest.raises(NoSuchRun):
        runner.events("other")


def test_only_the_last_preview_is_kept(go: Go) -> None:
    events = go({"s": ("Steps", {"total": 5})}, "s").events.since()
    assert [bool(e.data) for e in events if e.kind == "preview"] == [False] * 4 + [True]


def test_a_failing_node_is_told_once(go: Go, calls: Calls) -> None:
    events: list[Event] = []
    nodes = {"a": ("Add", {"a": 1}), "f": ("Fail", {"value": ["a", 0]}), "b": ("Half", {"value": ["f", 0]})}
    with pytest.raises(RunError) as caught:
        go(nodes, "b", on_event=events.append)
    problem = caught.value.problem
    assert (problem.code, problem.node, problem.title) == ("node_failed", "f", "Fail")
    assert problem.message == "ValueError: no luck" and problem.got == "value=2, how='raise'"
    assert isinstance(caught.value.__cause__, ValueError)
    assert [e.kind for e in events][-2:] == ["failed", "done"] and events[-1].data["status"] == "failed"
    with pytest.raises(RunError):
        go(nodes, "b")
    assert calls["Fail"] == 2 and calls["Add"] == 1  # a failure is not cached, what came before it is


@pytest.mark.parametrize("how", ["memory", "torch"])
def test_lack_of_memory_has_a_hint(go: Go, how: str) -> None:
    with pytest.raises(RunError, match="smaller size"):
        go({"f": ("Fail", {"value": 1, "how": how})}, "f")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("exit", "SystemExit: 3"),
        ("own base", "Beside: beside Exception"),
        ("mute", r"Mute: \(its message cannot be shown\)"),
    ],
)
def test_whatever_a_node_raises_ends_its_run_only(go: Go, how: str, message: str) -> None:
    with pytest.raises(RunError, match=message):
        go({"f": ("Fail", {"value": 1, "how": how})}, "f")


def test_a_result_of_the_wrong_type(go: Go) -> None:
    with pytest.raises(RunError, match="output FLOAT must be FLOAT; the node returned 'text'"):
        go({"f": ("Fail", {"value": 1, "how": "wrong"})}, "f")


def test_values_that_come_over_links_keep_the_limits(go: Go) -> None:
    with pytest.raises(RunError, match='input "b": out of range; got 0; wanted at least 1'):
        go({"a": ("Add", {"a": 0, "b": 0}), "d": ("Divide", {"a": 1, "b": ["a", 0]})}, "d")
    with pytest.raises(RunError, match='input "a": wrong type'):
        go({"s": ("Same", {"value": "x"}), "d": ("Divide", {"a": ["s", 0]})}, "d")


def test_what_was_said_is_said_again_of_cached_results(go: Go, calls: Calls) -> None:
    """Also of nodes before the one that is cached, and not of the side of a switch that was not used."""
    nodes = {
        "y": ("Doubt", {"value": 1}),
        "n": ("Doubt", {"value": 2}),
        "a": ("Add", {"a": ["y", 0]}),
        "s": ("Switch", {"which": True, "yes": ["a", 0], "no": ["n", 0]}),
    }
    go({"n": nodes["n"]}, "n")
    first = go(nodes, "s")
    assert first.warnings == ["1 was not used whole"] and first.notes == {"y": {"used": 1}}
    again = go(nodes, "s")
    assert again.cached == ["s"] and calls["Add"] == 1
    assert again.warnings == first.warnings and again.notes == first.notes
    assert [e.kind for e in again.events.since(0)] == ["plan", "cached", "warning", "done"]


def test_unsound_results_are_said_and_not_cached(go: Go, calls: Calls) -> None:
    nodes = {"d": ("Draw", {"seed": 1, "tiled": True})}
    assert "NaN" in go(nodes, "d").warnings[0]
    go(nodes, "d")
    assert calls["Draw"] == 2
    with pytest.raises(RunError, match="the node returned nan"):
        go({"f": ("Fail", {"value": 1, "how": "nan"})}, "f")


def test_values_of_a_failed_run_are_freed(go: Go, runner: Runner) -> None:
    alive: list[weakref.ref[Any]] = []

    def listen(event: Event) -> None:
        if event.kind == "finished" and event.node == "p":
            gc.collect()
            found = [o for o in gc.get_objects() if type(o).__name__ == "Pixels"]
            alive.extend(weakref.ref(o) for o in found)
            del found

    nodes = {
        "p": ("Draw", {"seed": 1}),
        "s": ("Same", {"value": ["p", 0]}),
        "f": ("Fail", {"value": ["s", 0]}),
    }
    try:
        go(nodes, "f", on_event=listen)
    except RunError as e:
        kept = e  # somebody keeps the error
    assert alive and kept
    runner.cache.clear()
    gc.collect()
    assert all(ref() is None for ref in alive)


def test_cancel_lands_within_one_step(go: Go, runner: Runner, calls: Calls, tmp_path: Path) -> None:
    def listen(event: Event) -> None:
        if event.kind == "progress" and event.data["done"] == 3:
            runner.cancel("mine")

    nodes = {"s": ("Steps", {"total": 100}), "w": ("Save", {"text": ["s", 0]})}
    events: list[Event] = []
    with pytest.raises(Cancelled):
        go(nodes, on_event=lambda e: (events.append(e), listen(e)), run_id="mine")  # type: ignore[func-returns-value]
    assert calls["step"] == 3 and calls["Save"] == 0
    assert events[-1].data["status"] == "cancelled" and not (tmp_path / "out").exists()
    assert go(nodes).files and calls["step"] == 103  # the next run works, and nothing half done was cached


def test_a_cancel_between_two_nodes_runs_no_further_one(go: Go, runner: Runner, calls: Calls) -> None:
    def listen(event: Event) -> None:
        if event.kind == "finished":
            runner.cancel("mine")

    with pytest.raises(Cancelled):
        go({"a": ("Add", {"a": 1}), "b": ("Add", {"a": ["a", 0]})}, "b", on_event=listen, run_id="mine")
    assert calls == {"Add": 1}


def test_following_ends_when_nothing_comes_in_time() -> None:
    log = EventLog("it")
    assert list(log.follow(timeout=0.01)) == []
    log.emit("started", "a")
    assert [event.node for event in log.follow(timeout=0.01)] == ["a"]


def test_cancel_from_another_thread_touches_one_run_only(go: Go, runner: Runner) -> None:
    started = threading.Event()

    def slow(name: str, total: int) -> None:
        try:
            go({"s": ("Steps", {"total": total, "pause": 0.002})}, "s", run_id=name, on_event=lambda e: started.set())
            ended.append(name)
        except Cancelled:
            cancelled.append(name)

    ended: list[str] = []
    cancelled: list[str] = []
    threads = [threading.Thread(target=slow, args=a) for a in (("one", 5000), ("two", 50))]
    for thread in threads:
        thread.start()
    started.wait(10)
    while "one" not in runner.running:
        time.sleep(0.001)
    runner.cancel("one")
    for thread in threads:
        thread.join(30)
    assert (ended, cancelled) == (["two"], ["one"])
    for name in ("one", "two"):
        with pytest.raises(RunFinished):
            runner.cancel(name)
    with pytest.raises(NoSuchRun) as caught:
        runner.cancel("three")
    assert type(caught.value) is NoSuchRun
    with pytest.raises(ValueError, match="used already"):
        go({"a": ("Add", {"a": 1})}, "a", run_id="two")


def test_ctrl_c_is_a_cancel(go: Go) -> None:
    def listen(event: Event) -> None:
        if event.kind == "progress":
            raise KeyboardInterrupt

    with pytest.raises(Cancelled):
        go({"s": ("Steps", {"total": 3})}, "s", on_event=listen)


def test_a_listener_that_fails_ends_the_run_and_is_no_failure_of_a_node(go: Go, calls: Calls) -> None:
    def listen(event: Event) -> None:
        if event.kind == "progress":
            raise BrokenPipeError("nobody reads")

    with pytest.raises(BrokenPipeError, match="nobody reads"):
        go({"s": ("Steps", {"total": 30})}, "s", on_event=listen)
    assert calls["step"] == 1


def test_auto_over_a_link_fails_clearly(go: Go) -> None:
    nodes = {"s": ("Same", {"value": "auto"}), "d": ("Draw", {"seed": 1, "steps": ["s", 0]})}
    with pytest.raises(RunError, match="must be in the graph"):
        go(nodes, "d")


def test_writers_run_each_time(go: Go, calls: Calls, tmp_path: Path) -> None:
    nodes = {"a": ("Add", {"a": 1}), "w": ("Save", {"text": ["a", 0], "name": "sub/x_%n_.txt"})}
    one, two = go(nodes), go(nodes)
    assert [p.name for p in (*one.files, *two.files)] == ["x_00001_.txt", "x_00002_.txt"]
    assert calls == {"Add": 1, "Save": 2} and two.cached == ["a"]
    assert (tmp_path / "out/sub/x_00002_.txt").read_text() == "2"


def test_temporary_files_are_no_results(go: Go, tmp_path: Path) -> None:
    result = go({"w": ("Save", {"text": "x", "temporary": True})})
    assert result.files == [] and not (tmp_path / "out").exists()
    assert [p.name for p in (tmp_path / "cache/temp").iterdir()] == ["out_00001.txt"]


def test_a_file_name_that_leaves_the_folder_fails_the_node(go: Go, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="output folder"):
        go({"w": ("Save", {"text": "x", "name": "../x_%n.txt"})})
    assert not [*tmp_path.rglob("x_*")]


def test_the_context(go: Go) -> None:
    result = go({"w": ("Where", {})}, "w", settings=Settings(device="cuda:1", dtype="bf16"))
    assert result["out"] == "w cuda:1 bf16 ['pipegraph', 'prompt']"


GRAPH = {
    "pipegraph": 1,
    "inputs": {
        "seed": {"type": "INT", "default": None},
        "steps": {"type": "INT", "default": "auto"},
        "model": {"type": "STRING", "default": "small"},
    },
    "nodes": {
        "m": {"class_type": "Load", "inputs": {"model_name": {"$input": "model"}}},
        "d": {
            "class_type": "Draw",
            "inputs": {"seed": {"$input": "seed"}, "steps": {"$input": "steps"}, "model": ["m", "MODEL"]},
        },
        "c": {"class_type": "Count", "inputs": {"image": ["d", "IMAGE"]}},
        "w": {"class_type": "Save", "inputs": {"text": ["c", 0]}},
    },
}


def test_the_record(go: Go) -> None:
    result = go(GRAPH)
    record = json.loads(json.dumps(result.record, allow_nan=False))
    seed = record["inputs"]["seed"]
    assert record["seeds"] == {"seed": seed} and isinstance(seed, int)
    assert record["inputs"] == {"seed": seed, "steps": "auto", "model": "small"}
    assert record["resolved"] == [{"node": "d", "input": "steps", "key": "steps", "value": 4, "source": "m"}]
    assert record["notes"] == {"w": {"length": 1}}
    assert record["settings"] == {"device": "cpu", "dtype": "auto", "kernels": {}, "quantize": ""}
    assert record["run"]["files"] == [str(result.files[0])] and record["run"]["timings"].keys() == {"m", "d", "c", "w"}
    assert record["run"]["peak_memory"] > 1e6 and "python" in record["versions"]


def test_what_is_in_a_picture_makes_it_again(go: Go, calls: Calls) -> None:
    result = go(GRAPH)
    reproduce = result.record
    again = go({"pipegraph": 1, **reproduce["graph"]})
    assert again.record["inputs"] == reproduce["inputs"] and calls["Draw"] == 1
    assert again.record["graph"] == reproduce["graph"]


def test_the_api_form_in_a_picture_is_filled_in(go: Go, calls: Calls) -> None:
    from pipegraph.runtime.record import metadata

    result = go(GRAPH)
    texts = metadata(result.plan)
    assert texts["prompt"]["d"]["inputs"] == {"seed": result.record["inputs"]["seed"], "steps": 4, "model": ["m", 0]}
    assert load(texts["prompt"]).form == "api" and "workflow" not in texts
    assert metadata(go(texts["pipegraph"]["graph"]).plan) == texts
