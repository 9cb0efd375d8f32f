"""Plans: order, keys, merging, recommendations, and when values are dropped."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pipegraph as pg
from pipegraph.graphs.errors import GraphError
from pipegraph.graphs.load import load
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check
from pipegraph.runtime.hashes import FileHashes
from pipegraph.runtime.order import sort
from pipegraph.runtime.plan import Plan, Settings, plan

Make = Callable[..., Plan]


@pytest.fixture
def planned(catalog: Catalog, short: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setenv("PIPEGRAPH_CACHE", str(tmp_path / "cache"))

    def make(nodes: Any, end: str | None = None, settings: Settings | None = None, **inputs: Any) -> Plan:
        document = nodes if "pipegraph" in nodes else short(nodes, end)
        return plan(check(load(document), catalog, inputs), settings)

    return make


def key(found: Plan, id: str) -> str:
    return found.steps[found.step_of[id]].key


def test_only_what_an_output_needs_is_planned(planned: Make) -> None:
    found = planned({"a": ("Add", {"a": 1}), "b": ("Add", {"a": ["a", 0]}), "c": ("Add", {"a": ["b", 0]})}, "b")
    assert [s.node.id for s in found.steps] == ["a", "b"]


def test_keys_depend_on_content_not_on_names_or_order(planned: Make) -> None:
    one = planned({"a": ("Add", {"a": 1, "b": 2}), "b": ("Add", {"a": ["a", 0]})}, "b")
    two = planned({"y": ("Add", {"a": ["x", "INT"]}), "x": ("Add", {"b": 2, "a": 1})}, "y")
    assert key(one, "b") == key(two, "y") and key(one, "a") == key(two, "x")


@pytest.mark.parametrize(
    ("nodes", "other"),
    [
        ({"a": ("Add", {"a": 1})}, {"a": ("Add", {"a": 2})}),
        ({"a": ("Same", {"value": 1})}, {"a": ("Same", {"value": 1.0})}),
        ({"a": ("Same", {"value": 1})}, {"a": ("Same", {"value": True})}),
        ({"a": ("Same", {"value": 1})}, {"a": ("Same", {"value": "1"})}),
        ({"a": ("Add", {"a": ["d", 0]})}, {"a": ("Add", {"a": ["d", 1]})}),
        ({"a": ("Divide", {"a": 7})}, {"a": ("Add", {"a": 7})}),
    ],
)
def test_what_differs_has_another_key(planned: Make, nodes: dict[str, Any], other: dict[str, Any]) -> None:
    source = {"d": ("Divide", {"a": 9})}
    assert key(planned({**source, **nodes}, "a"), "a") != key(planned({**source, **other}, "a"), "a")


def test_settings_are_part_of_keys(planned: Make) -> None:
    nodes = {"a": ("Add", {"a": 1})}
    devices = [Settings(), Settings(device="cuda:0"), Settings(device="cuda:1")]
    settings = [*devices, Settings(dtype="bf16"), Settings(kernels={"attention": "torch"})]
    assert len({key(planned(nodes, "a", s), "a") for s in settings}) == 5


def test_a_seed_does_not_touch_what_is_before_it(planned: Make) -> None:
    def nodes(seed: int) -> dict[str, Any]:
        return {"m": ("Load", {"model_name": "small"}), "d": ("Draw", {"seed": seed, "model": ["m", 0]})}

    one, two = planned(nodes(1), "d"), planned(nodes(2), "d")
    assert key(one, "m") == key(two, "m") and key(one, "d") != key(two, "d")


def test_equal_subgraphs_are_one(planned: Make) -> None:
    nodes = {
        "a": ("Add", {"a": 1}),
        "b": ("Add", {"a": 1, "b": 1}),
        "c": ("Add", {"a": ["a", 0]}),
        "d": ("Add", {"a": ["b", 0]}),
        "e": ("Add", {"a": ["c", 0], "b": ["d", 0]}),
        "s": ("Save", {"text": ["e", 0]}),
        "t": ("Save", {"text": ["e", 0]}),
        "n": ("Now", {}),
        "o": ("Now", {}),
        "p": ("Add", {"a": ["n", 0], "b": ["o", 0]}),
        "q": ("Save", {"text": ["p", 0]}),
    }
    found = planned(nodes)
    assert found.merged == {"b": "a", "d": "c"}  # not what writes, and not what is never the same
    assert not found.steps[found.step_of["p"]].cacheable


def test_files_count_by_content(planned: Make, tmp_path: Path) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("same")
    two.write_text("same")
    first = planned({"r": ("Read", {"path": str(one)})}, "r")
    assert first.steps[0].files["path"] == FileHashes().file(two)
    one.write_text("new")
    assert key(planned({"r": ("Read", {"path": str(one)})}, "r"), "r") != key(first, "r")


def test_a_file_name_over_a_link_is_never_cached(planned: Make, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("x")
    found = planned({"s": ("Same", {"value": str(file)}), "r": ("Read", {"path": ["s", 0]})}, "r")
    assert [s.cacheable for s in found.steps] == [True, False]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file(planned: Make, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("x")
    file.chmod(0)
    with pytest.raises(GraphError) as caught:
        planned({"r": ("Read", {"path": str(file)})}, "r")
    assert [p.code for p in caught.value.problems] == ["unreadable_file"]


def auto(*models: str, linked: bool = True, **draw: Any) -> dict[str, Any]:
    nodes: dict[str, Any] = {f"m{i}": ("Load", {"model_name": name}) for i, name in enumerate(models)}
    inputs = {"seed": 1, "steps": "auto", **draw, **({"model": ["m0", 0]} if linked else {})}
    return {**nodes, "d": ("Draw", inputs), **{f"s{i}": ("Save", {"text": [f"m{i}", 0]}) for i in range(len(models))}}


def test_auto_takes_the_model_upstream(planned: Make) -> None:
    found = planned(auto("small", "large", cfg="auto"), "d")
    values = found.steps[found.step_of["d"]].values
    assert (values["steps"], values["cfg"]) == (4, 1.5)
    assert [(r.node, r.input, r.value, r.source) for r in found.resolved] == [
        ("d", "steps", 4, "m0"),
        ("d", "cfg", 1.5, "m0"),
    ]
    assert key(found, "d") == key(planned(auto("small", "large", steps=4, cfg=1.5), "d"), "d")


def test_auto_takes_any_model_of_the_graph_if_none_is_upstream(planned: Make) -> None:
    found = planned(auto("large", "none", linked=False, cfg="auto"), "d")
    values = found.steps[found.step_of["d"]].values
    assert (values["steps"], values["cfg"]) == (20, 3.0) and type(values["cfg"]) is float


def test_auto_of_a_node_without_a_model_is_told_by_what_reads_from_it(planned: Make) -> None:
    nodes = {
        "m0": ("Load", {"model_name": "small"}),
        "m1": ("Load", {"model_name": "large"}),
        "empty": ("Draw", {"seed": 1, "steps": "auto"}),
        "on": ("Same", {"value": ["empty", 0]}),
        "near": ("Pair", {"a": ["on", 0], "b": ["m1", 0]}),
        "far": ("Pair", {"a": ["near", 0], "b": ["m0", 0]}),
    }
    assert [(r.node, r.value, r.source) for r in planned(nodes, "far").resolved] == [("empty", 20, "m1")]


def test_auto_takes_the_model_that_is_linked_before_those_farther_up(planned: Make) -> None:
    nodes = {
        "m0": ("Load", {"model_name": "small"}),
        "m1": ("Load", {"model_name": "large"}),
        "far": ("Same", {"value": ["m0", 0]}),
        "near": ("Pair", {"a": ["far", 0], "b": ["m1", 0], "steps": "auto"}),
    }
    assert [(r.value, r.source) for r in planned(nodes, "near").resolved] == [(20, "m1")]


@pytest.mark.parametrize(
    ("nodes", "code"),
    [
        (auto("small", "large", linked=False), "conflicting_recommendations"),
        (auto("odd"), "bad_recommendation"),
        (auto("unheard-of"), "no_recommendation"),
    ],
)
def test_auto_without_an_answer(planned: Make, nodes: dict[str, Any], code: str) -> None:
    with pytest.raises(GraphError) as caught:
        planned(nodes, "d")
    assert code in [p.code for p in caught.value.problems]


def test_auto_falls_back_to_the_default_of_the_node(planned: Make) -> None:
    found = planned(auto("none"), "d")
    assert [(r.value, r.source) for r in found.resolved] == [(20, "default")]


def test_auto_is_refused_where_it_means_nothing(planned: Make) -> None:
    with pytest.raises(GraphError):
        planned({"a": ("Add", {"a": "auto"})}, "a")


def test_values_are_dropped_after_their_last_use(planned: Make) -> None:
    nodes = {
        "a": ("Add", {"a": 1}),
        "b": ("Add", {"a": ["a", 0]}),
        "c": ("Add", {"a": ["b", 0]}),
        "d": ("Add", {"a": ["c", 0], "b": ["a", 0]}),
    }
    found = planned(nodes, "d")
    names = [[found.steps[i].node.id for i in group] for group in found.frees]
    assert [sorted(n) for n in names] == [[], [], ["b"], ["a", "c"]]


def test_what_runs_on_demand_keeps_its_inputs(planned: Make) -> None:
    nodes = {
        "a": ("Add", {"a": 1}),
        "b": ("Add", {"a": ["a", 0]}),
        "c": ("Add", {"a": 5}),
        "s": ("Switch", {"which": True, "yes": ["b", 0], "no": ["c", 0]}),
        "e": ("Add", {"a": ["s", 0]}),
    }
    found = planned(nodes, "e")
    at = found.step_of
    assert {at["a"], at["b"], at["c"]} <= set(found.frees[at["s"]])


def test_what_a_sampler_leaves_open_is_its_own_models_to_say() -> None:
    """Not that of the model that painted the first picture, which lies upstream of its latent."""
    found = {(r.node, r.input): r.source for r in pg.load("video_from_image.json").plan().resolved}
    assert found["image_sample", "steps"] == "image_checkpoint"
    assert {found["sample", name] for name in ("steps", "cfg", "sampler_name", "scheduler")} == {"checkpoint"}


def test_roots_are_sorted_once_and_unknown_ones_left_out() -> None:
    sources = {"a": ["b", "gone"], "b": [], "c": ["a"]}
    assert sort(sources, ["c", "gone", "a", "c"]) == (["b", "a", "c"], [])
    assert sort({"a": ["b"], "b": ["a"]}, [])[1] in ([["a", "b", "a"]], [["b", "a", "b"]])
