"""Values of widgets in files of ComfyUI's editor: by name, by position, from primitives and from links."""

from __future__ import annotations

from typing import Any

import pytest

from pipegraph.graphs.editor.naming import Slot, align, with_gap
from pipegraph.graphs.schema import BAD, Link

from .editor_files import file, graph, inputs, node

SOCKETS = ("model MODEL", "positive CONDITIONING", "negative CONDITIONING", "latent_image LATENT")
SAMPLE = {"seed": 7, "steps": 20, "cfg": 8.0, "sampler_name": "euler", "scheduler": "simple", "denoise": 0.5}


@pytest.mark.parametrize("control", [["fixed"], ["randomize"], ["increment"], ["decrement"], []])
def test_values_by_position_and_what_becomes_of_the_seed(control: list[str]) -> None:
    values = [7, *control, 20, 8.0, "euler", "simple", 0.5]
    assert inputs(file([node(3, "KSampler", SOCKETS, widgets_values=values)]))["3"] == SAMPLE


def test_values_by_name_win_over_positions() -> None:
    by_name = {**SAMPLE, "control_after_generate": "fixed"}
    sampler = node(3, "KSampler", SOCKETS, widgets_values=[1, "fixed", 2], widgets_values_named=by_name)
    assert inputs(file([sampler]))["3"] == SAMPLE


def test_values_may_be_an_object() -> None:
    assert inputs(file([node(3, "KSampler", widgets_values=dict(SAMPLE))]))["3"] == SAMPLE


def test_the_files_own_list_of_widgets_wins_over_the_order_of_our_inputs() -> None:
    """The node had another order when the file was written; both orders would be legal values."""
    sockets = ["height INT *", "width INT *", "batch_size INT *"]
    values = inputs(file([node(1, "EmptyLatentImage", sockets, widgets_values=[512, 768, 2])]))["1"]
    assert values == {"height": 512, "width": 768, "batch_size": 2}


def test_a_widget_turned_into_an_input_takes_what_is_linked() -> None:
    nodes = [
        node(1, "PrimitiveInt", out=["INT"], widgets_values=[30, "fixed"]),
        node(3, "KSampler", [*SOCKETS, "steps INT * 9"], widgets_values=[7, "fixed", 20, 8.0, "euler", "simple", 0.5]),
    ]
    flat = inputs(file(nodes, ["9 1 0 3 4 INT"]))
    assert flat["1"] == {"value": 30}
    assert flat["3"] == {**SAMPLE, "steps": Link("1", 0)}


def test_a_choice_that_brings_inputs_of_its_own() -> None:
    resize = node(1, "ResizeImageMaskNode", widgets_values=["scale dimensions", 640, 480, "center", "area"])
    assert inputs(file([resize]))["1"] == {
        "resize_type": "scale dimensions",
        "resize_type.width": 640,
        "resize_type.height": 480,
        "resize_type.crop": "center",
        "scale_method": "area",
    }


def test_an_input_that_is_newer_than_the_file_takes_its_default_aloud() -> None:
    old = node(1, "ResizeImageMaskNode", widgets_values=["scale total pixels", 1, "lanczos"])
    flat = graph(file([old]))
    assert not flat.problems
    assert flat.nodes["1"].inputs == {
        "resize_type": "scale total pixels",
        "resize_type.megapixels": 1,
        "scale_method": "lanczos",
    }
    assert flat.editor
    (note,) = flat.editor.notes
    assert (note.code, note.node, note.title) == ("default_counts", "1", "ResizeImageMaskNode")
    assert "resize_type.multiple" in note.message


@pytest.mark.parametrize(
    "values",
    [
        [7, "fixed", "20", 8.0, "euler", "simple", 1],
        [7, "fixed", 20, 8.0, "euler", "simple", 1, "more"],
    ],
)
def test_values_that_do_not_fit_are_an_error_and_no_guess(values: list[Any]) -> None:
    flat = graph(file([node(3, "KSampler", SOCKETS, title="Sample it", widgets_values=values)]))
    (problem,) = flat.problems
    assert (problem.code, problem.node, problem.title) == ("unnamed_values", "3", "Sample it")
    assert problem.input == "seed" and "7" in problem.got and "sampler_name" in problem.wanted


SEED, FLAG = Slot("seed", "INT", seed=True), Slot("new_flag", "BOOLEAN")
STEPS, CFG = Slot("steps", "INT"), Slot("cfg", "FLOAT")


def test_a_new_input_in_the_middle_is_known_by_the_types() -> None:
    values = [7, "fixed", 20, 8.0]
    assert align(values, [SEED, FLAG, STEPS, CFG], whole=False) is None
    assert with_gap(values, [SEED, FLAG, STEPS, CFG]) == {"seed": 7, "steps": 20, "cfg": 8.0}


def test_a_new_input_that_could_stand_in_two_places_is_not_guessed() -> None:
    slots = [SEED, STEPS, Slot("size", "INT"), Slot("name", "STRING")]
    assert with_gap([7, 20, "x"], slots) is None


@pytest.mark.parametrize(
    ("type", "values", "named"),
    [
        ("LoadImage", ["cat.png", "image"], {"image": "cat.png"}),
        ("LoadAudio", ["a.mp3", None, ""], {"audio": "a.mp3"}),
        ("PrimitiveInt", [5, "increment"], {"value": 5}),
        ("RandomNoise", [12, "randomize"], {"noise_seed": 12}),
        ("PreviewAny", ["what it showed", None, False], {}),
        ("SaveImage", ["pictures/a"], {"filename_prefix": "pictures/a"}),
    ],
)
def test_what_forms_leave_behind_is_no_value(type: str, values: list[Any], named: dict[str, Any]) -> None:
    assert inputs(file([node(1, type, widgets_values=values)]))["1"] == named


def test_names_of_the_form_are_no_inputs() -> None:
    loaded = node(1, "LoadImage", widgets_values_named={"image": "cat.png", "upload": "image"})
    number = node(2, "PrimitiveInt", widgets_values_named={"value": 3, "fixed": "fixed"})
    assert inputs(file([loaded, number])) == {"1": {"image": "cat.png"}, "2": {"value": 3}}


def test_a_list_is_a_value_and_no_link() -> None:
    values = inputs(file([node(1, "Unknown", widgets_values_named={"curve": ["1", 0], "box": {"x": 1}})]))["1"]
    assert values == {"curve": ["1", 0], "box": {"x": 1}}


def test_inputs_that_grow() -> None:
    nodes = [
        node(1, "LoadImage", out=["IMAGE", "MASK"], widgets_values=["a.png", "image"]),
        node(2, "LoadImage", out=["IMAGE", "MASK"], widgets_values=["b.png", "image"]),
        node(3, "BatchImagesNode", ["images.image0 IMAGE 1", "images.image1 IMAGE 2", "images.image2 IMAGE"]),
    ]
    flat = inputs(file(nodes, ["1 1 0 3 0 IMAGE", "2 2 0 3 1 IMAGE"]))
    assert flat["3"] == {"images.image0": Link("1", 0), "images.image1": Link("2", 0)}


@pytest.mark.parametrize("values", [[25, "fixed"], [25]])
def test_a_primitive_gives_its_value_to_every_widget_it_is_linked_to(values: list[Any]) -> None:
    nodes = [
        node(1, "PrimitiveNode", out=["INT"], widgets_values=values),
        node(2, "EmptyLatentImage", ["width INT * 1"], widgets_values=[512, 768, 1]),
        node(3, "EmptyLatentImage", ["height INT * 2"], widgets_values=[512, 768, 1]),
    ]
    flat = inputs(file(nodes, ["1 1 0 2 0 INT", "2 1 0 3 0 INT"]))
    assert flat == {
        "2": {"width": 25, "height": 768, "batch_size": 1},
        "3": {"width": 512, "height": 25, "batch_size": 1},
    }


def test_options_that_a_user_adds_to_a_list() -> None:
    combo = node(1, "CustomCombo", widgets_values=["add", 1, "screen", "add", ""])
    values = inputs(file([combo]))["1"]
    assert values == {"choice": "add", "index": 1, "option1": "screen", "option2": "add", "option3": ""}


def test_values_that_cannot_be_named_make_no_second_error() -> None:
    flat = graph(file([node(1, "PrimitiveInt", out=["INT"], widgets_values=["a", "b"])]))
    assert [problem.code for problem in flat.problems] == ["unnamed_values"]
    assert flat.nodes["1"].inputs == {"value": BAD}


def test_of_two_values_that_by_position_counts_as_the_editor_shows_it() -> None:
    names = {"unet_name": "old.safetensors", "weight_dtype": "default"}
    loader = node(1, "UNETLoader", [], ["MODEL"], widgets_values=["new.safetensors", "default"])
    flat = graph(file([{**loader, "widgets_values_named": names}]))
    assert flat.nodes["1"].inputs == {"unet_name": "new.safetensors", "weight_dtype": "default"}
    assert flat.editor
    (note,) = flat.editor.notes
    assert (note.code, note.node, note.input, note.got) == ("two_values", "1", "unet_name", "'new.safetensors'")


def test_names_in_another_order_than_the_positions_win() -> None:
    names = {"weight_dtype": 1, "unet_name": "a.safetensors"}
    loader = node(1, "Unheard", widgets_values=["a.safetensors", 1], widgets_values_named=names)
    assert inputs(file([loader]))["1"] == names


@pytest.mark.parametrize("text", ["a {red|blue} car", "a car // not blue", "a /* red */ car"])
def test_a_prompt_that_the_editor_would_change_is_told(text: str) -> None:
    flat = graph(file([node(1, "CLIPTextEncode", ["clip CLIP"], widgets_values=[text])]))
    assert flat.nodes["1"].inputs == {"text": text}
    assert flat.editor
    assert [(note.code, note.node, note.input) for note in flat.editor.notes] == [("dynamic_prompt", "1", "text")]


@pytest.mark.parametrize("text", ["a (red:1.2) car", "{json: 1}", "see http://x.org", "a \\{red|blue} car"])
def test_other_prompts_are_not(text: str) -> None:
    flat = graph(file([node(1, "CLIPTextEncode", ["clip CLIP"], widgets_values=[text])]))
    assert flat.editor
    assert not flat.editor.notes
