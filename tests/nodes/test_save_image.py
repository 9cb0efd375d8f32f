"""SaveImage and PreviewImage: what is written, and the graph inside it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from pipegraph.graphs.picture import read_metadata
from pipegraph.nodes.image.files import _file_name, load_image, metadata, preview_image, save_image
from pipegraph.runtime.node import NodeSpec, Saved

from .conftest import STRICT

Drain = Callable[[Any], tuple[list[Any], Any]]
NOW = datetime(2026, 1, 2, 3, 4, 5)


def test_ports_are_those_of_comfyui() -> None:
    spec: NodeSpec = save_image.node_spec  # type: ignore[attr-defined]
    assert list(spec.inputs) == ["images", "filename_prefix", "format"]  # the last one is ours
    assert spec.output_node and spec.effect == "writes"
    assert spec.inputs["filename_prefix"].default == "ComfyUI" and spec.context == "ctx"
    assert [(n, p.type) for n, p in spec.outputs.items()] == [("images", "IMAGE")]


def test_round_trip_of_every_8_bit_value(context: Any, drain: Drain, monkeypatch: pytest.MonkeyPatch) -> None:
    levels = torch.arange(256).reshape(1, 16, 16, 1).expand(1, 16, 16, 3) / 255
    (event,), images = drain(save_image(levels, context, "a/b"))
    assert event == Saved(context.output_dir / "a" / "b_00001_.png") and images is levels
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(context.output_dir))
    torch.testing.assert_close(load_image("a/b_00001_.png", STRICT).IMAGE, levels, rtol=0, atol=0)


def test_rounding_and_clipping(context: Any, drain: Drain) -> None:
    values = torch.tensor([0.5, 0.4999 / 255, 0.5001 / 255, -3.0, 1.5]).reshape(1, 1, 5, 1)
    (event,), _ = drain(save_image(values, context))
    with Image.open(event.path) as picture:
        assert picture.mode == "L" and np.asarray(picture).tolist() == [[128, 0, 1, 0, 255]]


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (2, "LA"), (3, "RGB"), (4, "RGBA")])
def test_channels(context: Any, drain: Drain, channels: int, mode: str) -> None:
    pixels = torch.rand(1, 3, 5, channels, generator=torch.Generator().manual_seed(0))
    (event,), _ = drain(save_image(pixels, context))
    with Image.open(event.path) as picture:
        assert picture.mode == mode and picture.size == (5, 3)
        wanted = (pixels[0].double() * 255).round().numpy()
        assert np.abs(np.asarray(picture).reshape(wanted.shape) - wanted).max() == 0


def test_channels_that_no_png_has(context: Any, drain: Drain) -> None:
    with pytest.raises(ValueError, match="5"):
        drain(save_image(torch.zeros(1, 2, 2, 5), context))


def test_a_batch_gets_counters(context: Any, drain: Drain) -> None:
    batch = torch.zeros(3, 2, 2, 3)
    events, _ = drain(save_image(batch, context, "x"))
    events += drain(save_image(batch[:1], context, "x"))[0]
    assert [e.path.name for e in events] == [f"x_{n:05}_.png" for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_values_that_are_not_finite_fail_but_good_pictures_are_kept(context: Any, drain: Drain, bad: float) -> None:
    batch = torch.zeros(3, 2, 2, 3)
    batch[1, 0, 0, 0] = bad
    with pytest.raises(ValueError, match=r"1 of 3 .*batch index 1\)"):
        drain(save_image(batch, context, "x"))
    assert len(list(context.output_dir.glob("*.png"))) == 2


def test_an_empty_batch_fails(context: Any, drain: Drain) -> None:
    with pytest.raises(ValueError, match="empty"):
        drain(save_image(torch.zeros(0, 2, 2, 3), context))


def test_previews_go_to_the_temporary_folder(context: Any, drain: Drain) -> None:
    (event,), _ = drain(preview_image(torch.zeros(1, 2, 2, 3), context))
    assert event.temporary and event.path.parent == context.temp_dir
    assert not context.output_dir.exists()


GRAPH: dict[str, dict[str, Any]] = {
    "prompt": {"1": {"class_type": "CLIPTextEncode", "inputs": {"text": '猫🐈 "x" \n 0 \u202e'}}},
    "workflow": {"nodes": [], "title": "é"},
    "pipegraph": {"graph": {"pipegraph": 1, "nodes": {}}, "inputs": {"seed": 2**64 - 1}},
}


@pytest.mark.parametrize("size", [0, 2 * 2**20])
def test_the_graph_comes_back(context: Any, drain: Drain, size: int) -> None:
    context.reproduce = {**GRAPH, "workflow": {"title": "é", "long": "🐈x" * (size // 2)}}
    (event,), _ = drain(save_image(torch.zeros(1, 2, 2, 3), context))
    found = read_metadata(event.path)
    assert {key: json.loads(text) for key, text in found.items()} == context.reproduce
    with Image.open(event.path) as picture:  # as ComfyUI reads it, large ones too
        assert {k: json.loads(v) for k, v in picture.text.items()} == context.reproduce  # type: ignore[attr-defined]


def test_parts_that_are_missing_are_left_out(context: Any, drain: Drain) -> None:
    context.reproduce = {"prompt": GRAPH["prompt"], "workflow": None}
    (event,), _ = drain(save_image(torch.zeros(1, 2, 2, 3), context))
    assert list(read_metadata(event.path)) == ["prompt"]


def test_numbers_that_are_not_json_are_refused(context: Any, drain: Drain) -> None:
    context.reproduce = {"prompt": {"1": {"is_changed": float("nan")}}}
    with pytest.raises(ValueError, match="JSON compliant"):
        drain(save_image(torch.zeros(1, 2, 2, 3), context))
    assert not context.output_dir.exists()


def test_each_picture_of_a_batch_knows_which_it_is(context: Any, drain: Drain) -> None:
    context.reproduce = GRAPH
    events, _ = drain(save_image(torch.zeros(2, 2, 2, 3), context))
    parts = [json.loads(read_metadata(e.path)["pipegraph"]) for e in events]
    assert [(p["batch_index"], p["batch_size"]) for p in parts] == [(0, 2), (1, 2)]
    assert parts[1]["graph"] == {"pipegraph": 1, "nodes": {}}
    assert "batch_index" not in GRAPH["pipegraph"] and "batch_index" not in metadata(GRAPH, 0, 1)["pipegraph"]


def test_the_same_picture_gives_the_same_bytes(context: Any, drain: Drain) -> None:
    context.reproduce = GRAPH
    pixels = torch.rand(1, 9, 9, 3, generator=torch.Generator().manual_seed(0))
    first, second = (drain(save_image(pixels, context))[0][0].path for _ in range(2))
    assert first != second and first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize(
    ("prefix", "name"),
    [
        ("ComfyUI", "ComfyUI_%n_.png"),
        ("a/%width%x%height%", "a/640x480_%n_.png"),
        ("%year%-%month%-%day% %hour%.%minute%.%second%", "2026-01-02 03.04.05_%n_.png"),
        ("%date:yyyy-MM-dd%/%date:hhmmss%", "2026-01-02/030405_%n_.png"),
        ("b%batch_num%", "b7_%n_.png"),
        ("%n-x", "%n-x.png"),
        ("%unknown%", "%unknown%_%n_.png"),
    ],
)
def test_placeholders_of_the_prefix(prefix: str, name: str) -> None:
    assert _file_name(prefix, 640, 480, 7, NOW) == name


@pytest.mark.parametrize("prefix", ["../x", "/etc/x", "a/../../x", "..\\x", "x\0"])
def test_a_prefix_does_not_leave_the_folder(context: Any, drain: Drain, prefix: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="output folder"):
        drain(save_image(torch.zeros(1, 2, 2, 3), context, prefix))
    assert not list(tmp_path.rglob("*.png"))
