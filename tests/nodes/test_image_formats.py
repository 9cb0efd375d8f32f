"""Images in every format: read back within its exact quantization, with the graph where the format can hold it."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from pipegraph.graphs.errors import GraphError
from pipegraph.graphs.load import load, loads
from pipegraph.graphs.picture import read_metadata
from pipegraph.models.media.color import hlg_to_linear, linear_to_srgb, srgb_to_linear
from pipegraph.models.media.exr import read_exr, to_exr
from pipegraph.models.media.image_write import encode
from pipegraph.nodes.image.files import load_image, save_image
from pipegraph.nodes.image.save import _check, save_image_advanced

from ..context import Context

GRAPH = {"prompt": {"1": {"class_type": "EmptyImage", "inputs": {"width": 8}}}, "workflow": {"nodes": [], "é": "猫"}}
Drain = Callable[..., tuple[list[Any], Any]]
FORMATS = ["png", "png 16-bit", "jpeg", "webp", "avif", "tiff", "exr"]


def noise(channels: int = 3, height: int = 37, width: int = 21, seed: int = 0) -> Tensor:
    """Values of all sizes, black and white among them; 37 lines are three blocks of EXR."""
    image = torch.rand(1, height, width, channels, generator=torch.Generator().manual_seed(seed))
    image[0, 0, 0], image[0, 0, 1] = 0, 1
    return image


def saved(context: Context, drain: Drain, image: Tensor, format: Any, **settings: Any) -> Path:
    if settings:
        events, _ = drain(save_image_advanced(image, context, "x", format, **settings))
    else:
        events, _ = drain(save_image(image, context, "x", format))
    (event,) = events
    path: Path = event.path
    return path


@pytest.fixture
def told(tmp_path: Path) -> Context:
    return Context(tmp_path / "output", tmp_path / "temp", GRAPH)


@pytest.fixture
def again(inputs: Path, told: Context) -> Callable[[Path], Any]:
    """Load a file that was saved."""

    def load(path: Path) -> Any:
        (inputs / path.name).write_bytes(path.read_bytes())
        return load_image(path.name, told)

    return load


@pytest.mark.parametrize(
    ("format", "settings", "step"),
    [
        ("png", {}, 255),
        ("png 16-bit", {}, 65535),
        ("webp", {}, 255),
        ("tiff", {}, 65535),
        ("tiff", {"bit_depth": "8-bit"}, 255),
        ("png", {"bit_depth": "16-bit"}, 65535),
    ],
)
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_exact_quantization(
    format: str, settings: Any, step: int, channels: int, told: Context, drain: Drain, again: Callable[[Path], Any]
) -> None:
    image = noise(channels)
    loaded = again(saved(told, drain, image, format, **settings))
    levels = (image * step + 0.5).floor() / step
    colors = levels[..., :3] if channels >= 3 else levels[..., :1].expand(-1, -1, -1, 3)
    shown = loaded.MASK < 1 if format == "webp" else torch.ones(loaded.MASK.shape, dtype=torch.bool)
    assert torch.allclose(loaded.IMAGE[shown], colors[shown], atol=1e-7)
    mask = 1 - levels[..., -1] if channels in (2, 4) else torch.zeros(1, 37, 21)
    assert torch.allclose(loaded.MASK, mask, atol=1e-6) and not told.warnings


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize(("format", "depth"), [("exr", "auto"), ("tiff", "32-bit float")])
def test_floats(
    format: str, depth: str, channels: int, told: Context, drain: Drain, again: Callable[[Path], Any]
) -> None:
    image = noise(channels)
    loaded = again(saved(told, drain, image, format, bit_depth=depth))
    colors = image[..., :3] if channels >= 3 else image[..., :1].expand(-1, -1, -1, 3)
    shown = 1 - loaded.MASK > 1e-3  # below, colors are lost where alpha is multiplied in
    assert torch.allclose(loaded.IMAGE[shown], colors[shown], atol=2e-6)
    if channels in (2, 4):
        assert torch.allclose(loaded.MASK, 1 - image[..., -1], atol=1e-6)


def test_lossy_formats_are_near(told: Context, drain: Drain, again: Callable[[Path], Any]) -> None:
    ramp = torch.linspace(0, 1, 64)[None, :, None].expand(64, 64, 3)[None]
    for format, settings in (("jpeg", {}), ("avif", {}), ("webp", {"quality": 90}), ("avif", {"crf": 10})):
        assert (again(saved(told, drain, ramp, format, **settings)).IMAGE - ramp).abs().mean() < 0.01
    sizes = [saved(told, drain, noise(height=64, width=64), "avif", crf=crf).stat().st_size for crf in (5, 60)]
    assert sizes[0] > 2 * sizes[1]
    assert not told.warnings
    saved(told, drain, noise(4), "jpeg")
    assert told.warnings == ["JPEG holds no transparency: it is left out"]


@pytest.mark.parametrize("format", FORMATS)
def test_the_graph_is_in_every_format(format: str, told: Context, drain: Drain) -> None:
    path = saved(told, drain, noise(), format)
    assert path.suffix == {"png 16-bit": ".png", "jpeg": ".jpg"}.get(format, f".{format}")
    found = {key: json.loads(text) for key, text in read_metadata(path).items()}
    assert found == GRAPH
    assert load(path).nodes["1"].inputs == {"width": 8} and loads(path.read_bytes()).nodes


@pytest.mark.parametrize("format", ["jpeg", "webp", "avif", "tiff", "exr", "png 16-bit"])
def test_damaged_files_hold_no_graph_and_end_soon(format: str, told: Context, drain: Drain, tmp_path: Path) -> None:
    data = saved(told, drain, noise(), format).read_bytes()
    generator = np.random.default_rng(3)
    for cut in (4, 12, 20, 60, len(data) // 2):
        with pytest.raises(GraphError):
            loads(data[:cut])
            raise GraphError([])  # a graph that is whole may be found in a file that is not
    for _ in range(40):
        damaged = bytearray(data)
        for at in generator.integers(0, min(len(data), 700), 6):
            damaged[at] = generator.integers(256)
        (tmp_path / "damaged").write_bytes(damaged)
        try:
            read_metadata(tmp_path / "damaged")
        except ValueError as e:
            assert "is no PNG" in str(e)


def test_a_graph_too_large_for_jpeg_is_told(told: Context, drain: Drain) -> None:
    told.reproduce = {"prompt": {"1": {"class_type": "x" * 70_000, "inputs": {}}}}
    path = saved(told, drain, noise(), "jpeg")
    assert read_metadata(path) == {} and "too large for a JPEG file" in told.warnings[0]
    assert len(read_metadata(saved(told, drain, noise(), "webp"))["prompt"]) > 70_000


def test_deep_png_is_one_for_others_too() -> None:
    data = encode(noise(1)[0], "png", {}, print, 16)
    with Image.open(__import__("io").BytesIO(data)) as file:
        assert file.mode.startswith("I;16") and file.size == (21, 37)
        assert np.array_equal(np.asarray(file), (noise(1)[0, ..., 0] * 65535 + 0.5).floor().numpy().astype("u2"))


def test_exr_holds_linear_light_and_what_lies_outside(tmp_path: Path, again: Any, told: Context, inputs: Path) -> None:
    values = torch.tensor([[[0.5, 1.0, 2.0], [0.0, -1.0, 0.25]]])
    (tmp_path / "a.exr").write_bytes(encode(values, "exr", {}, print, 32, "linear"))
    assert np.array_equal(read_exr(str(tmp_path / "a.exr")), values.numpy())
    (tmp_path / "b.exr").write_bytes(encode(values, "exr", {}, print, 32))
    stored = read_exr(str(tmp_path / "b.exr"))
    assert stored[0, 0].tolist() == pytest.approx([0.21404114, 1, 4.9538], rel=1e-4)  # IEC 61966-2-1
    loaded = again(tmp_path / "a.exr")
    assert told.warnings == ["a.exr: its values below black or above white are clipped"]
    assert loaded.IMAGE[0, 0, 0].tolist() == pytest.approx([0.7353569, 1, 1])
    hlg = encode(torch.tensor([[[0.5, 0.75, 1.0]]]), "exr", {}, print, 32, "HDR")
    assert b"chromaticities" in hlg
    (tmp_path / "c.exr").write_bytes(hlg)
    assert read_exr(str(tmp_path / "c.exr"))[0, 0].tolist() == pytest.approx([1 / 12, 0.26496256, 1], abs=1e-5)
    (inputs / "cut.exr").write_bytes(hlg[:-10])
    with pytest.raises(ValueError, match=r"cut\.exr is cut off: it is an EXR picture"):
        load_image("cut.exr", told)
    window = hlg.index(b"displayWindow\0box2i\0") + len(b"displayWindow\0box2i\0") + 4
    huge = hlg[:window] + struct.pack("<4i", 0, 0, 99_999, 99_999) + hlg[window + 16 :]
    (inputs / "huge.exr").write_bytes(huge)
    with pytest.raises(ValueError, match=r"huge\.exr is too large: it has 100000x100000 pixels"):
        load_image("huge.exr", told)
    (inputs / "nan.exr").write_bytes(to_exr(np.full((2, 2, 3), np.nan, np.float32)))
    with pytest.raises(ValueError, match="values that are not finite"):
        load_image("nan.exr", told)


def test_exr_blocks_are_as_the_layout_says() -> None:
    """A constant line packs; noise is stored as it is: both by the offsets of the table."""
    data = to_exr(np.zeros((17, 4, 3), np.float32), {"prompt": "{}"})
    end = data.index(b"prompt\0string\0") + len("prompt\0string\0") + 4 + 2 + 1
    starts = struct.unpack("<2Q", data[end : end + 16])
    assert struct.unpack("<i", data[starts[0] : starts[0] + 4]) == (0,)
    assert struct.unpack("<i", data[starts[1] : starts[1] + 4]) == (16,)
    size = struct.unpack("<I", data[starts[1] + 4 : starts[1] + 8])[0]
    assert len(zlib.decompress(data[starts[1] + 8 : starts[1] + 8 + size])) == 4 * 4 * 3


def test_transfer_functions_are_inverse_and_known() -> None:
    values = torch.linspace(-1.5, 1.5, 301)
    assert torch.allclose(linear_to_srgb(srgb_to_linear(values)), values, atol=1e-6)
    assert float(srgb_to_linear(torch.tensor(0.04045))) == pytest.approx(0.04045 / 12.92)
    assert hlg_to_linear(torch.tensor([-1.0, 0.0, 0.5, 1.0])).tolist() == pytest.approx([0, 0, 1 / 12, 1], abs=1e-6)


def test_what_a_format_does_not_have_is_told() -> None:
    wrong = [*_check({"format": "png", "format.bit_depth": "32-bit float", "format.input_color_space": "HDR"}, {})]
    assert [name for name, _ in wrong] == ["format.bit_depth", "format.input_color_space"]
    assert "png is written with 8-bit or 16-bit" in wrong[0][1]
    assert not [*_check({"format": "jpeg"}, {})] and not [
        *_check({"format": "exr", "format.input_color_space": "HDR"}, {})
    ]
    with pytest.raises(ValueError, match="avif is written with 8-bit YUV420, not 10-bit YUV420"):
        next(save_image_advanced(noise(), Context(Path(), Path()), "x", "avif", "10-bit YUV420"))
    with pytest.raises(ValueError, match="1 to 4 channels"):
        encode(torch.zeros(2, 2, 5), "tiff", {}, print)
