"""Everything that is wrong with a graph is found at once, before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.cost import within

from pipegraph.graphs.errors import GraphError, Problem
from pipegraph.graphs.load import load
from pipegraph.limits import PROBLEMS
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check
from pipegraph.runtime.check_nodes import compatible
from pipegraph.runtime.checked import CheckedGraph

Short = Callable[..., dict[str, Any]]


@pytest.fixture
def problems(catalog: Catalog, short: Short) -> Callable[..., list[Problem]]:
    def find(nodes: dict[str, Any], given: dict[str, Any] | None = None, **more: Any) -> list[Problem]:
        document = {**short(nodes), **more}
        overrides = document.pop("overrides", None)
        with pytest.raises(GraphError) as caught:
            check(load(document), catalog, given, overrides=overrides)
        return [*caught.value.problems]

    return find


@pytest.fixture
def checked(catalog: Catalog, short: Short) -> Callable[..., CheckedGraph]:
    def make(nodes: dict[str, Any], given: dict[str, Any] | None = None, **more: Any) -> CheckedGraph:
        document = {**short(nodes), **more}
        overrides = document.pop("overrides", None)
        return check(load(document), catalog, given, overrides=overrides)

    return make


END = {"end": ("Save", {"text": "x"})}
Find = Callable[..., list[Problem]]
Make = Callable[..., CheckedGraph]


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("", "wrong_type"),
        (None, "wrong_type"),
        ("None", "wrong_type"),
        ("20.0", "wrong_type"),
        ("1_0", "wrong_type"),
        (" 20", "wrong_type"),
        ("٣", "wrong_type"),
        (20.9, "wrong_type"),
        (20.0, "wrong_type"),
        (True, "wrong_type"),
        ([1], "wrong_type"),
        ({"a": 1}, "wrong_type"),
        (101, "out_of_range"),
        (0, "out_of_range"),
        ("101", "out_of_range"),
    ],
)
def test_a_whole_number_is_exact(problems: Find, value: Any, code: str) -> None:
    given = {"__value__": value} if isinstance(value, list) else value
    (problem,) = problems({"d": ("Divide", {"a": 1, "b": given}), **END})
    assert (problem.code, problem.node, problem.input) == (code, "d", "b")
    assert problem.wanted and problem.got


@pytest.mark.parametrize(("value", "want"), [("20", 20), (1, 1), (100, 100)])
def test_safe_whole_numbers(checked: Make, value: Any, want: int) -> None:
    found = checked({"d": ("Divide", {"a": 1, "b": value}), **END}).nodes["d"].values["b"]
    assert found == want and type(found) is int


@pytest.mark.parametrize(("value", "want"), [(2, 2.0), ("2.5", 2.5), ("-1e3", -1000.0), (0.1, 0.1)])
def test_safe_numbers(checked: Make, value: Any, want: float) -> None:
    found = checked({"h": ("Half", {"value": value}), **END}).nodes["h"].values["value"]
    assert found == want and type(found) is float


@pytest.mark.parametrize("value", ["1_0", "0x1", "nan", "inf", "", True, None, "1e999", 10**400])
def test_numbers_that_are_none(problems: Find, value: Any) -> None:
    assert problems({"h": ("Half", {"value": value}), **END})[0].code in ("wrong_type", "out_of_range")


@pytest.mark.parametrize("value", ["true", "false", 0, 1, None, ""])
def test_true_and_false_are_exact(problems: Find, value: Any) -> None:
    (problem,) = problems({"d": ("Draw", {"seed": 1, "tiled": value}), **END})
    assert (problem.code, problem.wanted) == ("wrong_type", "true or false")


def test_texts_are_texts(problems: Find) -> None:
    assert problems({"l": ("Load", {"model_name": 5}), **END})[0].code == "wrong_type"


@pytest.mark.parametrize(("name", "value", "hint"), [("name", "heunn", '"heun"'), ("mode", "FAST", '"fast"')])
def test_names_of_a_list(problems: Find, name: str, value: str, hint: str) -> None:
    (problem,) = problems({"d": ("Draw", {"seed": 1, name: value}), **END})
    assert problem.code == "not_in_list" and hint in problem.hint and hint.strip('"') in problem.wanted


def test_unknown_names_have_the_nearest(problems: Find) -> None:
    nodes = {
        "a": ("divid", {}),
        "b": ("Add", {"a": 1, "c": 2}),
        "c": ("Add", {"a": ["aa", 0]}),
        "d": ("Count", {"image": ["e", "IMAEG"]}),
        "e": ("Draw", {"seed": 0}),
        "f": ("Add", {"a": ["b", 1]}),
        "g": ("Add", {"a": ["b", -1]}),
    }
    found = {p.node: (p.code, p.hint) for p in problems(nodes)}
    assert found == {
        "a": ("unknown_node", 'Did you mean "Divide"?'),
        "b": ("unknown_input", "Its inputs: a, b."),
        "c": ("unknown_source", 'Did you mean "a"?'),
        "d": ("unknown_output", 'Did you mean "IMAGE"?'),
        "f": ("unknown_output", "Its outputs: INT."),
        "g": ("unknown_output", "Its outputs: INT."),
    }


def test_missing_and_ill_typed_links(problems: Find) -> None:
    nodes = {
        "a": ("Add", {}),
        "b": ("Count", {"image": ["a", 0]}),
        "c": ("Count", {"image": "a.png"}),
        "d": ("Add", {"a": ["e", 0]}),
        "e": ("Half", {"value": 1}),
    }
    found = [(p.node, p.input, p.code, p.got, p.wanted) for p in problems(nodes, outputs={"x": ["d", 0]})]
    assert found == [
        ("a", "a", "missing_input", "", "INT"),
        ("b", "image", "wrong_type", "INT", "IMAGE"),
        ("c", "image", "wrong_type", "'a.png'", "a link to an output of type IMAGE"),
        ("d", "a", "wrong_type", "FLOAT", "INT"),
    ]


def test_files_are_looked_for(problems: Find, checked: Make, tmp_path: Path) -> None:
    (problem,) = problems({"r": ("Read", {"path": "ther.txt"}), **END})
    assert problem.code == "unknown_file" and "current folder" in problem.message and '"there.txt"' in problem.hint
    file = tmp_path / "a.txt"
    file.write_text("x")
    assert checked({"r": ("Read", {"path": str(file)}), **END}).nodes["r"].files == {"path": (file,)}


def test_rings_are_printed_once_each(problems: Find) -> None:
    nodes = {
        "a": ("Add", {"a": ["b", 0]}),
        "b": ("Add", {"a": ["a", 0]}),
        "self": ("Add", {"a": ["self", 0], "b": ["a", 0]}),
        "c": ("Add", {"a": ["self", 0]}),
        "l": ("Switch", {"which": True, "yes": ["m", 0]}),
        "m": ("Same", {"value": ["l", 0]}),
        **END,
    }
    found = [p.message for p in problems(nodes) if p.code == "cycle"]
    assert found == [
        "the nodes form a ring: a -> b -> a",
        "the nodes form a ring: l -> m -> l",
        "the nodes form a ring: self -> self",
    ]


def test_a_deep_ring(problems: Find) -> None:
    nodes = {str(i): ("Add", {"a": [str((i + 1) % 5000), 0]}) for i in range(5000)}
    (problem,) = problems(nodes, outputs={"x": ["0", 0]})
    assert problem.code == "cycle" and "…" in problem.message and len(problem.message) < 200


def test_no_outputs(problems: Find) -> None:
    assert [p.code for p in problems({"a": ("Add", {"a": 1})})] == ["no_outputs"]
    assert [p.code for p in problems({})] == ["no_outputs"]


def test_outputs_of_the_graph_exist(problems: Find) -> None:
    outputs = {"x": ["b", 0], "y": ["a", "INTT"], "z": ["a", 3], "w": ["a", "INT"]}
    found = [(p.code, p.place) for p in problems({"a": ("Add", {"a": 1})}, outputs=outputs)]
    assert found == [("unknown_source", "outputs.x"), ("unknown_output", "outputs.y"), ("unknown_output", "outputs.z")]


INPUTS = {
    "n": {"type": "INT", "default": 3, "min": 1, "max": 9},
    "text": {"type": "STRING"},
    "loud": {"type": "BOOLEAN", "default": False},
    "size": {"type": "COMBO", "default": "small", "choices": ["small", "large"]},
}
USES = {
    "a": ("Add", {"a": {"$input": "n"}}),
    "s": ("Same", {"value": {"$input": "text"}}),
    "t": ("Draw", {"seed": 1, "tiled": {"$input": "loud"}}),
    "l": ("Load", {"model_name": {"$input": "size"}}),
    **END,
}


def test_graph_inputs_are_converted(checked: Make) -> None:
    given = {"n": "7", "text": "7", "loud": "true", "size": "large"}
    assert checked(USES, given, inputs=INPUTS).inputs == {"n": 7, "text": "7", "loud": True, "size": "large"}
    assert checked(USES, {"text": ""}, inputs=INPUTS).inputs == {"n": 3, "text": "", "loud": False, "size": "small"}


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({}, "missing_graph_input"),
        ({"text": "x", "n": "0"}, "out_of_range"),
        ({"text": "x", "n": 10}, "out_of_range"),
        ({"text": "x", "n": "3.5"}, "wrong_type"),
        ({"text": 5}, "wrong_type"),
        ({"text": "x", "loud": "yes"}, "wrong_type"),
        ({"text": "x", "size": "smal"}, "not_in_list"),
        ({"text": "x", "texts": "y"}, "unknown_run_input"),
    ],
)
def test_wrong_graph_inputs(problems: Find, given: dict[str, Any], code: str) -> None:
    assert [p.code for p in problems(USES, given, inputs=INPUTS)] == [code]


def test_references_to_graph_inputs(problems: Find) -> None:
    nodes = {"a": ("Add", {"a": {"$input": "m"}}), **END}
    found = [(p.code, p.node or p.place) for p in problems(nodes, inputs={"n": {"type": "INT", "default": 1}})]
    assert found == [("unknown_graph_input", "a"), ("unused_graph_input", "inputs.n")]


def test_a_graph_input_must_fit_each_input_it_feeds(problems: Find) -> None:
    nodes = {"d": ("Divide", {"a": 1, "b": {"$input": "n"}}), **END}
    (problem,) = problems(nodes, {"n": "500"}, inputs={"n": {"type": "INT", "default": 1}})
    assert (problem.code, problem.node) == ("out_of_range", "d") and '"n"' in problem.hint


def test_seeds_are_drawn_once(checked: Make) -> None:
    nodes = {
        "a": ("Draw", {"seed": {"$input": "seed"}}),
        "b": ("Draw", {"seed": {"$input": "seed"}, "steps": 5}),
        "c": ("Draw", {"seed": None}),
        **END,
    }
    inputs = {"seed": {"type": "INT", "default": None}}
    for given in ({}, {"seed": "random"}, {"seed": None}):
        found = checked(nodes, given, inputs=inputs)
        assert found.nodes["a"].values["seed"] == found.nodes["b"].values["seed"] == found.inputs["seed"]
        assert found.seeds == {"seed": found.inputs["seed"], "c.seed": found.nodes["c"].values["seed"]}
        assert found.graph.nodes["c"].inputs["seed"] == found.seeds["c.seed"]
        assert found.seeds["seed"] != found.seeds["c.seed"]
    assert checked(nodes, {"seed": "7"}, inputs=inputs).seeds.keys() == {"c.seed"}


def test_overrides(checked: Make, problems: Find) -> None:
    nodes = {
        "a.b": ("Draw", {"seed": 1, "steps": 5}),
        "h": ("Half", {"value": ["i", 0]}),
        "i": ("Half", {"value": 1}),
        **END,
    }
    found = checked(nodes, overrides={"a.b.steps": "9", "a.b.tiled": "true", "h.value": "4"})
    assert (found.nodes["a.b"].values["steps"], found.nodes["a.b"].values["tiled"]) == (9, True)
    assert found.nodes["h"].links == [] and found.graph.nodes["h"].inputs["value"] == 4.0
    bad = {"x.steps": 1, "steps": 1, "a.b.step": 1, "a.b.steps": "0"}
    found_bad = [p.code for p in problems(nodes, overrides=bad)]
    assert sorted(found_bad) == ["out_of_range", "unknown_input", "unknown_override", "unknown_override"]


def test_order_and_titles(checked: Make) -> None:
    nodes = {"c": ("Add", {"a": ["b", 0]}), "b": ("Add", {"a": ["a", "INT"]}), "a": ("Add", {"a": 1}), **END}
    found = checked(nodes)
    assert [*found.nodes] == ["end", "a", "b", "c"]
    assert found.nodes["a"].title == "Add" and found.roots == ("end",)


@pytest.mark.parametrize(
    ("source", "target", "fits"),
    [
        ("IMAGE", "IMAGE", True),
        ("IMAGE", "MASK", False),
        ("*", "IMAGE", True),
        ("IMAGE", "*", True),
        ("IMAGE,MASK", "MASK,LATENT", True),
        ("INT", "FLOAT", True),
        ("FLOAT", "INT", False),
        ("BOOLEAN", "INT", False),
        ("STRING", "COMBO", True),
        ("INT", "STRING", False),
    ],
)
def test_which_types_fit(source: str, target: str, fits: bool) -> None:
    assert compatible(source, target) is fits


def test_very_many_faults_are_counted_in_little_time(catalog: Catalog, short: Short) -> None:
    count = 40_000
    nodes = {f"n{i}": ("Add", {"a": [f"m{i}", 0]}) if i % 2 else ("Addd", {}) for i in range(count)}
    with within(200):
        with pytest.raises(GraphError) as caught:
            check(load(short(nodes)), catalog)
    assert (len(caught.value.problems), caught.value.unlisted) == (PROBLEMS, count - PROBLEMS)
    assert str(caught.value).endswith(f"... and {count - PROBLEMS:,} more problems")


def test_faults_of_a_file_are_counted_with_the_others(catalog: Catalog) -> None:
    nodes = {str(i): {"class_type": "Nope", "inputs": {"x": [1]}} for i in range(PROBLEMS)}
    graph = load({"pipegraph": 1, "nodes": nodes}, partial=True)
    with pytest.raises(GraphError) as caught:
        check(graph, catalog)
    assert {p.code for p in caught.value.problems} == {"bad_link"} and caught.value.unlisted == PROBLEMS


def test_names_of_any_length_make_no_long_message(catalog: Catalog, short: Short) -> None:
    with pytest.raises(GraphError) as caught:
        check(load(short({"a": ("Add" * 1_000_000, {}), "b": ("Add", {"x" * 1_000_000: 1})})), catalog)
    assert len(str(caught.value)) < 20_000


def test_every_fault_in_one_answer(problems: Find) -> None:
    nodes = {
        "unknown": ("Nope", {}),
        "extra": ("Add", {"a": 1, "zz": 1}),
        "missing": ("Add", {}),
        "type": ("Add", {"a": "x"}),
        "range": ("Divide", {"a": 1, "b": 0}),
        "list": ("Draw", {"seed": 0, "name": "x"}),
        "source": ("Add", {"a": ["gone", 0]}),
        "output": ("Add", {"a": ["extra", 9]}),
        "file": ("Read", {"path": "/nowhere"}),
        "ring": ("Add", {"a": ["ring", 0]}),
        "ref": ("Add", {"a": {"$input": "gone"}}),
    }
    inputs = {"unused": {"type": "INT", "default": 1}, "needed": {"type": "INT"}}
    found = problems(nodes, {"other": 1}, inputs=inputs, outputs={"x": ["gone", 0]}, overrides={"no.such": 1})
    assert {p.code for p in found} == {
        "unknown_node",
        "unknown_input",
        "missing_input",
        "wrong_type",
        "out_of_range",
        "not_in_list",
        "unknown_source",
        "unknown_output",
        "unknown_file",
        "cycle",
        "unknown_graph_input",
        "unused_graph_input",
        "missing_graph_input",
        "unknown_run_input",
        "unknown_override",
    }
    assert all(str(p) and p.as_dict()["code"] == p.code for p in found)


def test_faults_of_the_file_do_not_hide_others(catalog: Catalog) -> None:
    document = {
        "pipegraph": 1,
        "inputs": {"n": {"type": "INTEGER", "default": 1}, "m": {"type": "INT", "min": "low"}},
        "nodes": {
            "a": {"class_type": "Nope", "inputs": {}},
            "b": {"class_type": "Add", "inputs": {"a": [1, 2, 3], "b": 1.5}},
            "c": {"inputs": {}},
            "d": {"class_type": "Add", "inputs": {"a": ["c", 0], "b": {"$input": "n"}, "x": 1}},
            "e": {"class_type": "Add", "inputs": {"a": {"$input": "m"}, "b": {"$input": 3}}},
        },
        "outputs": {"out": ["b", 0], "none": 3},
    }
    graph = load(document, partial=True)
    with pytest.raises(GraphError) as caught:
        check(graph, catalog)
    codes = [p.code for p in caught.value.problems]
    assert codes[: len(graph.problems)] == [p.code for p in graph.problems] and len(graph.problems) == 6
    assert codes[len(graph.problems) :] == ["unknown_node", "wrong_type", "unknown_input"]
    with pytest.raises(GraphError):
        load(document)


def test_halves_of_surrogate_pairs_are_no_text(problems: Find) -> None:
    nodes = {
        "a": ("Load", {"model_name": "small\udcff"}),
        "b": ("Load", {"model_name": {"$input": "name"}}),
        "end": ("Save", {"text": "x", "name": "\ud800%n"}),
    }
    found = problems(nodes, {"name": "\udcff"}, inputs={"name": {"type": "STRING"}})
    assert [p.code for p in found] == ["bad_text"] * 3
    assert [p.code for p in problems(END, overrides={"end.name": "\udcff%n"})] == ["bad_text"]


def test_problems_come_in_the_order_of_the_file(problems: Find) -> None:
    names = [f"input_{i}" for i in range(20)]
    found = problems(
        END, dict.fromkeys(["z", "y", "x", "w"], 1), inputs={n: {"type": "INT", "default": 1} for n in names}
    )
    assert [p.input for p in found[:4]] == ["z", "y", "x", "w"]
    assert [p.place for p in found[4:]] == [f"inputs.{n}" for n in names]


@pytest.mark.parametrize(
    ("port", "given", "code"),
    [
        ({"type": "STRING", "default": 5}, {}, "wrong_type"),
        ({"type": "STRING", "default": 5}, {"x": "text"}, "wrong_type"),  # the default is wrong though it is not used
        ({"type": "INT", "default": 9, "max": 5}, {"x": 1}, "out_of_range"),
        ({"type": "COMBO", "default": True, "choices": ["a"]}, {}, "not_in_list"),
        ({"type": "COMBO", "choices": ["a"]}, {"x": True}, "not_in_list"),
        ({"type": "STRING", "default": "b", "choices": ["a"]}, {}, "not_in_list"),
        ({"type": "FLOAT", "default": "nan"}, {}, "wrong_type"),
    ],
)
def test_graph_inputs_are_held_to_their_declaration(
    problems: Find, port: dict[str, Any], given: dict[str, Any], code: str
) -> None:
    nodes = {"a": ("Show", {"value": {"$input": "x"}})}
    assert code in [p.code for p in problems(nodes, given, inputs={"x": port})]


@pytest.mark.parametrize("name", [True, 1.5, 0, None])
def test_the_name_of_a_file_is_text(problems: Find, name: Any) -> None:
    (problem,) = [p for p in problems({**END, "a": ("Read", {"path": name})}) if p.node == "a"]
    assert problem.code == "wrong_type"


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        ("KSamler", 'Did you mean "KSampler"'),
        ("loadimage", 'Did you mean "LoadImage"'),
        ("EmptyLatent", 'Did you mean "EmptyLatentImage"'),
        ("IPAdapterAdvanced", "no node of ComfyUI's core but of the pack ComfyUI_IPAdapter_plus"),
        ("VHS_VideoCombine", "pack ComfyUI-VideoHelperSuite"),
        ("FaceDetailer", "pack ComfyUI-Impact-Pack"),
        ("DWPreprocessor", "pack comfyui_controlnet_aux"),
        ("FantasyNode", "`pipegraph nodes` lists what there is"),
    ],
)
def test_an_unknown_node_gets_no_name_that_is_hardly_like_it(kind: str, hint: str) -> None:
    with pytest.raises(GraphError) as caught:
        check(load({"a": {"class_type": kind, "inputs": {}}}), Catalog.load())
    (problem,) = (p for p in caught.value.problems if p.code == "unknown_node")
    assert hint in problem.hint and ("Did you mean" in problem.hint) == ("Did you mean" in hint)
