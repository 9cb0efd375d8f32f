"""Bounding boxes: read in every form, as elements of a prompt, drawn, and for cutting."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

import pipegraph as pg
from pipegraph.graphs.errors import GraphError
from pipegraph.models.media.boxes import Box, read_boxes
from pipegraph.nodes.image.boxes import create_bounding_boxes, draw_bboxes, image_crop_v2, primitive_bounding_box
from pipegraph.nodes.image.compare import image_compare

from .conftest import Strict

DRAWN = {"x": 512, "y": 288, "width": 224, "height": 225, "metadata": {"type": "obj", "desc": "earring", "palette": []}}
WRITTEN = {"type": "text", "bbox": [100, 0, 50, 500], "text": "Hi", "desc": "a sign", "color_palette": ["#F00", "no"]}


def test_every_form_is_read() -> None:
    box = Box(512, 288, 224, 225, desc="earring")
    for value in (DRAWN, [DRAWN], [[DRAWN], []], json.dumps([DRAWN])):
        assert read_boxes(value, 1360, 752) == [box]
    assert read_boxes([WRITTEN], 1000, 2000) == [Box(0, 100, 500, 100, "Hi", "a sign", ("#ff0000",))]
    assert read_boxes(None, 1, 1) == read_boxes("", 1, 1) == read_boxes([], 1, 1) == []
    flipped = read_boxes({"x": 10, "y": 10, "width": -4, "height": 2}, 20, 20)
    assert flipped == [Box(6, 10, 4, 2)]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("{", "the boxes are no JSON"),
        (7, "boxes are a list, got int"),
        ([7], "a box is an object, got 7"),
        ([{"x": 1}], "a box has x, y, width and height"),
        ([{"bbox": [1, 2, 3]}], r"a bbox is \[top, left, bottom, right\]"),
        ([{"bbox": [1, 2, 3, "4"]}], "the sides of a box are finite numbers"),
        ([{"x": 0, "y": 0, "width": 1e9, "height": 1}], "finite numbers"),
    ],
)
def test_what_is_no_box_is_told(value: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_boxes(value, 100, 100)


def test_drawn_boxes_become_elements_and_a_preview() -> None:
    made = create_bounding_boxes(None, None, 1360, 752, [DRAWN])
    assert made.bboxes == [[{"x": 512, "y": 288, "width": 224, "height": 225}]]
    assert made.elements == [{"type": "obj", "bbox": [383, 376, 682, 541], "desc": "earring"}]
    assert made.preview.shape == (1, 566, 1024, 3)
    frame = made.preview[0, 288 * 566 // 752 : 300, 470]  # the upper edge, 2 pixels wide
    assert frame.max() > 0.5 and made.preview[0, 0].max() < 0.2
    coloured = create_bounding_boxes(torch.ones(1, 64, 128, 3), [WRITTEN], 128, 64)
    assert coloured.elements[0]["color_palette"] == ["#ff0000"] and coloured.elements[0]["text"] == "Hi"
    assert coloured.preview.shape == (1, 64, 128, 3)
    assert torch.allclose(coloured.preview[0, 40, 100], torch.tensor(63 / 255), atol=0.01), "the background is dark"
    assert bool((coloured.preview[..., 0] == 1).any() and (coloured.preview[..., 1] == 0).any()), "a red frame"
    assert create_bounding_boxes().elements == []


def test_what_comes_in_counts_until_it_was_drawn_over() -> None:
    def result(incoming: Any, drawn: Any, last: Any) -> list[str]:
        return [e["desc"] for e in create_bounding_boxes(None, incoming, 1000, 2000, drawn, last).elements]

    assert result([WRITTEN], [DRAWN], []) == ["a sign"]
    assert result([WRITTEN], [DRAWN], [WRITTEN]) == ["earring"]
    assert result(None, [DRAWN], [WRITTEN]) == ["earring"]


def test_detections_are_drawn() -> None:
    boxes = [{"x": 2.0, "y": 3.0, "width": 20, "height": 10, "label": "cat", "score": 0.9}]
    made = draw_bboxes(boxes, torch.zeros(2, 32, 40, 3))
    assert made.shape == (2, 32, 40, 3) and torch.equal(made[0], made[1])
    assert made[0, 3, 2:23].min(0).values.max() > 0.5 and made[0, 20:].max() == 0
    assert draw_bboxes([boxes, []]).shape == (2, 13, 22, 3)
    assert draw_bboxes(boxes[0]).shape == (1, 13, 22, 3) and draw_bboxes([]).shape == (1, 640, 640, 3)
    with pytest.raises(ValueError, match="3 lists of boxes for 2 images"):
        draw_bboxes([[], [], []], torch.zeros(2, 8, 8, 3))


def test_cut_by_a_box() -> None:
    image = torch.rand(1, 20, 30, 3, generator=torch.Generator().manual_seed(1))
    assert torch.equal(image_crop_v2(image, primitive_bounding_box(2, 3, 10, 5)), image[:, 3:8, 2:12])
    assert torch.equal(image_crop_v2(image, {"x": 28, "y": 99}), image[:, 19:, 28:])
    for region, said in (
        ([], "by one rectangle, got 0"),
        ({"width": 0}, "nothing is left"),
        ({"x": -3}, "nothing is left"),
    ):
        with pytest.raises(ValueError, match=said):
            image_crop_v2(image, region)


def test_a_graph_writes_a_box_as_a_value() -> None:
    nodes = {
        "1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 32}},
        "2": {
            "class_type": "ImageCropV2",
            "inputs": {"image": ["1", 0], "crop_region": {"x": 0, "y": 4, "width": 8, "height": 9}, "x": 0, "y": 0},
        },
        "3": {"class_type": "CustomCombo", "inputs": {"choice": "b", "index": 1, "option1": "a", "option2": "b"}},
        "4": {"class_type": "ImageCompare", "inputs": {"image_a": ["2", 0], "compare_view": {"before": "x"}}},
        "5": {"class_type": "PreviewAny", "inputs": {"source": ["3", 0]}},
    }
    pg.load({"pipegraph": 1, "nodes": nodes}).check()
    nodes["3"]["inputs"]["index"] = 0  # type: ignore[index]
    outputs = {"index": ["3", 1], "cut": ["2", 0]}
    result = pg.load({"pipegraph": 1, "nodes": nodes, "outputs": outputs}, save=False).run()
    assert result["index"] == 1, "by the list of options, not the number beside it"
    assert result["cut"].shape == (1, 9, 8, 3)
    nodes["3"]["inputs"]["other"] = "c"  # type: ignore[index]
    with pytest.raises(GraphError) as caught:
        pg.load({"pipegraph": 1, "nodes": nodes}).check()
    assert [p.code for p in caught.value.problems] == ["unknown_input"]


def test_images_to_compare_are_shown(context: Strict, drain: Callable[..., Any]) -> None:
    events, result = drain(image_compare(context, torch.zeros(2, 4, 4, 3), torch.ones(1, 4, 4, 3)))
    assert [e.path.name.rpartition("_0")[0] for e in events] == ["compare_a", "compare_a", "compare_b"]
    assert all(e.temporary for e in events) and result is None
    assert drain(image_compare(context)) == ([], None)
