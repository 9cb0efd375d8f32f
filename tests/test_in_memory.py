"""Pictures in memory as inputs of a graph."""

from __future__ import annotations

import enum
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import pipegraph as pg
from pipegraph.folders import memory_inputs
from pipegraph.in_memory import KEEP_SECONDS, stored
from pipegraph.models import paths
from pipegraph.models.media.image_read import read_picture

LOAD: dict[str, Any] = {
    "pipegraph": 1,
    "inputs": {"image": {"type": "STRING"}, "text": {"type": "STRING", "default": ""}},
    "nodes": {
        "load": {"class_type": "LoadImage", "inputs": {"image": {"$input": "image"}}},
        "show": {"class_type": "PreviewAny", "inputs": {"source": {"$input": "text"}}},
        "save": {"class_type": "SaveImage", "inputs": {"images": ["load", "IMAGE"]}},
    },
    "outputs": {"image": ["load", "IMAGE"], "mask": ["load", "MASK"]},
}
GENERATOR = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEGRAPH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def bytes_of(*shape: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return GENERATOR.integers(0, 256, shape, np.uint8)


def picture(channels: int, *, high: int, count: int = 1) -> tuple[np.ndarray[Any, Any], torch.Tensor, torch.Tensor]:
    """Random levels [B, H, W, C], and the colours and mask that they are."""
    levels = GENERATOR.integers(0, high + 1, (count, 6, 5, channels)).astype(np.uint16 if high > 255 else np.uint8)
    values = torch.from_numpy(levels.astype(np.float32) / np.float32(high))
    colours = values[..., :3] if channels >= 3 else values[..., :1].expand(-1, -1, -1, 3)
    return levels, colours, 1 - values[..., -1] if channels in (2, 4) else torch.zeros(values.shape[:3])


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize(("high", "count"), [(255, 1), (255, 3), (65535, 1)])
def test_levels_come_in_as_they_are(channels: int, high: int, count: int) -> None:
    levels, colours, mask = picture(channels, high=high, count=count)
    as_floats = torch.from_numpy(levels.astype(np.float32) / np.float32(high))
    for value in (levels, as_floats, as_floats.numpy().astype(np.float64)):
        got_colours, got_mask = read_picture(paths.resolve("input", stored(value)))
        assert torch.equal(got_colours, colours)
        torch.testing.assert_close(got_mask, mask, rtol=0, atol=6e-8)
    assert len([*memory_inputs().iterdir()]) == 1, "the same levels are one file"


def test_equal_frames_of_a_batch_stay_apart() -> None:
    batch = np.repeat(bytes_of(1, 4, 4, 4), 3, axis=0)
    batch[2, ..., 3] ^= 1
    colours, mask = read_picture(paths.resolve("input", stored(batch)))
    assert len(colours) == 3 and torch.equal(mask[0], mask[1]) and not torch.equal(mask[1], mask[2])


def test_other_floats_are_rounded_to_16_bits() -> None:
    values = torch.rand(7, 9, 3, generator=torch.Generator().manual_seed(1))
    colours, _ = read_picture(paths.resolve("input", stored(values)))
    assert 0 < float((colours[0] - values).abs().max()) <= 1 / 131070 + 6e-8
    half = values.to(torch.bfloat16)
    assert torch.allclose(read_picture(paths.resolve("input", stored(half)))[0][0], half.float(), rtol=0, atol=1e-5)


def images() -> list[Any]:
    rgb = Image.fromarray(bytes_of(5, 6, 3))
    palette = rgb.quantize(8)
    see_through = palette.copy()
    see_through.info["transparency"] = 2
    gray16 = Image.fromarray(GENERATOR.integers(0, 65536, (5, 6), np.uint16))
    modes = [rgb.convert(mode) for mode in ("L", "RGBA", "LA", "1")]
    every = [rgb, *modes, palette, see_through, gray16]
    return [pytest.param(image, id=f"{image.mode}{'-clear' * bool(image.info)}") for image in every]


@pytest.mark.parametrize("image", images())
def test_a_pil_image_is_what_its_file_is(image: Image.Image, tmp_path: Path) -> None:
    image.save(file := tmp_path / "x.png")
    for got, wanted in zip(read_picture(paths.resolve("input", stored(image))), read_picture(file), strict=True):
        assert torch.equal(got, wanted)


def test_a_pil_image_is_turned_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(bytes_of(5, 8, 3)).save(file := tmp_path / "x.png", exif=exif)
    with Image.open(file) as image:
        got, _ = read_picture(paths.resolve("input", stored(image)))
    assert got.shape[1:3] == (8, 5) and torch.equal(got, read_picture(file)[0])


def test_pictures_are_inputs_of_graphs_and_of_nodes() -> None:
    levels, colours, _ = picture(3, high=255)
    workflow = pg.load(LOAD)
    result = workflow.run(image=torch.from_numpy(levels))
    assert torch.equal(result["image"], colours)
    other = workflow.run({"load.image": 1 - colours}, image="nowhere.png")
    torch.testing.assert_close(other["image"], 1 - colours, rtol=0, atol=1e-5)
    assert workflow.run(image=Image.fromarray(levels[0])).cached == ["load"], "it is the same picture"


def test_a_picture_made_from_one_in_memory_is_run_again() -> None:
    levels, colours, _ = picture(3, high=255)
    first = pg.load(LOAD).run(image=levels)
    again = pg.load(first.files[0]).run()
    assert torch.equal(again["image"], colours)
    assert again.files[0].read_bytes() == first.files[0].read_bytes() and not again.warnings
    name = first.record["inputs"]["image"]
    assert name.startswith("memory/") and name not in paths.names("input"), "nobody else's list shows it"
    (memory_inputs() / name.removeprefix("memory/")).unlink()
    with pytest.raises(pg.GraphError, match=r"was given in memory .* 7 days"):
        pg.load(first.files[0]).run()


BAD = [
    pytest.param(np.zeros((3, 8, 8), np.float32), r"shape of a picture; got float32 \[3, 8, 8\].*permute", id="first"),
    pytest.param(np.zeros((1, 3, 8, 8), np.uint8), r"\[1, 3, 8, 8\].*Channels come last", id="batch-first"),
    pytest.param(np.zeros(8, np.uint8), "shape of a picture", id="row"),
    pytest.param(np.zeros((0, 4, 3), np.uint8), "shape of a picture", id="empty"),
    pytest.param(np.broadcast_to(np.uint8(1), (20_000, 20_000)), "too large", id="large"),
    pytest.param(np.full((4, 4), np.nan), "NaN or infinite", id="nan"),
    pytest.param(np.full((4, 4), np.inf, np.float32), "NaN or infinite", id="infinite"),
    pytest.param(np.full((4, 4), -0.1), r"outside of 0..1; got -0.1..-0.1.*Clip", id="negative"),
    pytest.param(np.full((4, 4), 255.0), r"outside of 0..1; got 255..255.*Divide by 255", id="bytes"),
    pytest.param(np.zeros((4, 4), np.int64), r"got int64; wanted uint8, uint16.*astype", id="int64"),
    pytest.param(np.zeros((4, 4), np.complex64), "got complex64", id="complex"),
    pytest.param(torch.rand(2, 4, 4, 3), "batch in memory .* 8 bits.*one by one", id="deep-batch"),
]


@pytest.mark.parametrize(("value", "words"), BAD)
def test_what_is_no_picture_is_told_before_anything_runs(value: Any, words: str) -> None:
    events: list[Any] = []
    with pytest.raises(pg.GraphError, match=words) as error:
        pg.load(LOAD, on_event=events.append).run({"save.filename_prefix": "../out"}, image=value)
    assert {p.code for p in error.value.problems} == {"bad_picture", "bad_file_name"}, "all at once"
    assert error.value.problems[0].input == "image" and not events and not memory_inputs().exists()


@pytest.mark.parametrize("node", ["LoadVideo", "LoadAudio", "CheckpointLoaderSimple"])
def test_a_picture_where_another_file_is_named(node: str) -> None:
    [name] = [n for n in ("file", "audio", "ckpt_name") if n in pg.api.catalog()[node].inputs]
    graph = {"pipegraph": 1, "nodes": {"x": {"class_type": node, "inputs": {name: "a"}}}, "outputs": {"y": ["x", 0]}}
    with pytest.raises(pg.GraphError, match="it takes no picture"):
        pg.load(graph).run({f"x.{name}": bytes_of(4, 4, 3)})


def test_a_picture_where_no_file_is_named() -> None:
    with pytest.raises(pg.GraphError) as error:
        value = bytes_of(2, 2)
        pg.load(LOAD).run({"save.images": value, "nope.x": value}, image=value, text=value, imgae=value)
    found = [(p.code, p.input) for p in error.value.problems]
    assert sorted(found) == [
        ("bad_picture", "save.images"),
        ("bad_picture", "text"),
        ("unknown_override", ""),
        ("unknown_run_input", "imgae"),
    ]


def test_a_cache_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("PIPEGRAPH_CACHE", str(tmp_path / "file"))
    with pytest.raises(pg.GraphError, match=r"cannot be kept in .*file.inputs: Not a directory"):
        pg.load(LOAD).run(image=bytes_of(2, 2))


def test_old_pictures_go_when_a_new_one_comes() -> None:
    old, used = stored(bytes_of(2, 2)), stored(bytes_of(2, 3))
    folder, long_ago = memory_inputs(), time.time() - KEEP_SECONDS - 60
    for name in (old, used):
        os.utime(folder / name.removeprefix("memory/"), (long_ago, long_ago))
    levels = np.asarray(Image.open(folder / used.removeprefix("memory/")))
    assert stored(levels) == used, "given again: it is kept"
    new = stored(bytes_of(3, 3))
    assert {f"memory/{path.name}" for path in folder.iterdir()} == {used, new}


class Word(enum.StrEnum):
    HI = "hi"


class Number(enum.IntEnum):
    TWO = 2


@pytest.mark.parametrize(
    ("kind", "value", "plain"),
    [
        ("FLOAT", np.float32(0.5), 0.5),
        ("FLOAT", np.float64(0.5), 0.5),
        ("FLOAT", torch.tensor(0.5), 0.5),
        ("INT", np.int64(3), 3),
        ("INT", torch.tensor(3), 3),
        ("INT", Number.TWO, 2),
        ("BOOLEAN", np.bool_(True), True),
        ("STRING", np.str_("hi"), "hi"),
        ("STRING", Word.HI, "hi"),
    ],
)
def test_single_values_of_other_libraries_are_plain_values(kind: str, value: Any, plain: Any) -> None:
    node = {"class_type": "PreviewAny", "inputs": {"source": {"$input": "x"}}}
    graph = {"pipegraph": 1, "inputs": {"x": {"type": kind}}, "nodes": {"a": node}}
    checked = pg.load(graph).check(x=value)
    assert checked.inputs == {"x": plain} and type(checked.inputs["x"]) is type(plain)
    json.dumps(checked.inputs)
