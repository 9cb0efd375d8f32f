"""LoadImage and LoadImageMask: every kind of picture file has a defined result."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from pipegraph.models.media.image_read import read_picture
from pipegraph.nodes.image.files import LoadedImage, load_image, load_image_mask
from pipegraph.runtime.node import NodeSpec

from .conftest import STRICT
from .png_files import deep_png

RGB = np.arange(5 * 3 * 3, dtype=np.uint8).reshape(5, 3, 3) * 5
"""Five rows, three columns: odd sides, every pixel another colour."""
EXACT: dict[str, Any] = {"rtol": 0, "atol": 0}


def load(name: str) -> LoadedImage:
    """What is loaded without a warning."""
    return load_image(name, STRICT)


def spec(fn: Any) -> NodeSpec:
    found: NodeSpec = fn.node_spec
    return found


def same(image: torch.Tensor, wanted: Any) -> None:
    torch.testing.assert_close(image, torch.as_tensor(np.array(wanted)).float() / 255, **EXACT)


def test_ports_are_those_of_comfyui() -> None:
    assert list(spec(load_image).inputs) == ["image"]
    assert [(n, p.type) for n, p in spec(load_image).outputs.items()] == [("IMAGE", "IMAGE"), ("MASK", "MASK")]
    assert spec(load_image).inputs["image"].type == "COMBO"
    assert spec(load_image_mask).inputs["channel"].choices == ("alpha", "red", "green", "blue")


def test_rgb(inputs: Path) -> None:
    Image.fromarray(RGB).save(inputs / "a.png")
    loaded = load("a.png")
    assert loaded.IMAGE.dtype == loaded.MASK.dtype == torch.float32
    same(loaded.IMAGE, RGB[None])
    assert loaded.MASK.shape == (1, 5, 3) and not loaded.MASK.any()


def test_alpha_is_in_the_mask_and_colours_below_stay(inputs: Path) -> None:
    alpha = np.full((5, 3, 1), 255, np.uint8)
    alpha[0, 0], alpha[1, 1] = 0, 128
    Image.fromarray(np.concatenate([RGB, alpha], -1)).save(inputs / "a.png")
    loaded = load("a.png")
    same(loaded.IMAGE, RGB[None])
    same(1 - loaded.MASK, alpha[None, ..., 0])
    assert loaded.MASK[0, 0, 0] == 1
    torch.testing.assert_close(load_image_mask("a.png", STRICT), loaded.MASK, **EXACT)
    same(load_image_mask("a.png", STRICT, "green"), RGB[None, ..., 1])


def test_gray_with_alpha(inputs: Path) -> None:
    pixels = np.array([[[10, 0], [200, 255]]], np.uint8)
    Image.fromarray(pixels).save(inputs / "la.png")
    loaded = load("la.png")
    same(loaded.IMAGE, pixels[None, ..., :1].repeat(3, -1))
    assert loaded.MASK.tolist() == [[[1.0, 0.0]]]


@pytest.mark.parametrize("transparency", [1, b"\xff\x00\x80"])
def test_palette_with_transparency(inputs: Path, transparency: Any) -> None:
    picture = Image.fromarray(np.array([[0, 1, 2]], np.uint8)).convert("P")
    picture.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255])
    picture.save(inputs / "p.png", transparency=transparency)
    loaded = load("p.png")
    same(loaded.IMAGE, [[[[255, 0, 0], [0, 255, 0], [0, 0, 255]]]])
    alpha = [255, 0, 255] if transparency == 1 else list(transparency)
    same(1 - loaded.MASK, [[alpha]])


def test_gray_and_bilevel(inputs: Path) -> None:
    Image.fromarray(RGB[..., 0]).save(inputs / "l.png")
    same(load("l.png").IMAGE, RGB[None, ..., :1].repeat(3, -1))
    Image.fromarray(RGB[..., 0] > 100).save(inputs / "1.png")
    same(load("1.png").IMAGE, ((RGB[None, ..., :1] > 100) * 255).repeat(3, -1))


@pytest.mark.parametrize(("channels", "colour_type"), [(1, 0), (3, 2), (2, 4), (4, 6)])
def test_16_bit_png_keeps_its_bits(inputs: Path, channels: int, colour_type: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 65536, (7, 5, channels), np.uint16)
    (inputs / "deep.png").write_bytes(deep_png(pixels, colour_type))
    loaded = load("deep.png")
    colours = pixels[..., :3] if channels >= 3 else pixels[..., :1].repeat(3, -1)
    torch.testing.assert_close(loaded.IMAGE[0], torch.from_numpy(colours.astype(np.float32)) / 65535)
    alpha = pixels[..., -1] if channels in (2, 4) else np.full((7, 5), 65535)
    torch.testing.assert_close(1 - loaded.MASK[0], torch.from_numpy(alpha.astype(np.float32)) / 65535)


def test_16_bit_gray_with_a_transparent_level(inputs: Path) -> None:
    pixels = np.array([[[7], [65535]]], np.uint16)
    (inputs / "deep.png").write_bytes(deep_png(pixels, 0, (b"tRNS", struct.pack(">H", 7))))
    assert load("deep.png").MASK.tolist() == [[[1.0, 0.0]]]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_orientation_tag_is_applied(inputs: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(RGB).save(inputs / "e.png", exif=exif)
    turn = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }.get(orientation)
    wanted = Image.fromarray(RGB) if turn is None else Image.fromarray(RGB).transpose(turn)
    loaded = load("e.png")
    same(loaded.IMAGE[0], wanted)
    assert loaded.MASK.shape == loaded.IMAGE.shape[:3]


def test_orientation_of_16_bit_colour(inputs: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels = np.random.default_rng(0).integers(0, 65536, (2, 3, 3), np.uint16)
    (inputs / "deep.png").write_bytes(deep_png(pixels, 2, (b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0"))))
    wanted = np.rot90(pixels, -1).astype(np.float32)
    torch.testing.assert_close(load("deep.png").IMAGE[0], torch.from_numpy(wanted) / 65535)


def test_frames_of_an_animation_become_the_batch(inputs: Path) -> None:
    frames = [Image.fromarray(np.full((4, 6, 3), v, np.uint8)) for v in (0, 100, 255)]
    frames[0].save(inputs / "a.webp", save_all=True, append_images=frames[1:], lossless=True)
    loaded = load("a.webp")
    assert loaded.IMAGE.shape == (3, 4, 6, 3) and loaded.MASK.shape == (3, 4, 6)
    same(loaded.IMAGE[:, 0, 0, 0], [0, 100, 255])


@pytest.mark.parametrize("suffix", ["gif", "png"])
def test_transparent_frames(inputs: Path, suffix: str) -> None:
    frames = [Image.new("RGBA", (4, 6), (255, 0, 0, 255)) for _ in range(2)]
    frames[0].putpixel((0, 5), (0, 0, 0, 0))
    frames[1].paste((0, 255, 0, 255), (0, 0, 2, 6))
    frames[1].paste((0, 0, 0, 0), (2, 0, 4, 6))
    frames[0].save(inputs / f"a.{suffix}", save_all=True, append_images=frames[1:], disposal=2)
    loaded = load(f"a.{suffix}")
    same(loaded.IMAGE[:, 0, 0], [[255, 0, 0], [0, 255, 0]])
    assert loaded.MASK[:, 0].tolist() == [[0, 0, 0, 0], [0, 0, 1, 1]]


def test_the_first_of_two_views_of_a_scene(inputs: Path) -> None:
    views = [Image.new("RGB", (8, 8), (v, v, v)) for v in (0, 255)]
    views[0].save(inputs / "a.jpg", "MPO", save_all=True, append_images=views[1:])
    loaded = load("a.jpg")
    assert loaded.IMAGE.shape == (1, 8, 8, 3) and loaded.IMAGE.max() == 0


@pytest.mark.parametrize("mode", ["CMYK", "YCbCr", "HSV", "I", "F"])
def test_other_kinds_of_colour(inputs: Path, mode: str) -> None:
    white = Image.new("RGB", (3, 2), "white").convert(mode) if mode != "I" else Image.new("I", (3, 2), 65535)
    if mode == "F":
        white = Image.new("F", (3, 2), 1.0)
    path = inputs / ("a.jpg" if mode in ("CMYK", "YCbCr") else "a.tif")
    white.save(path) if mode != "HSV" else white.convert("RGB").save(path)
    torch.testing.assert_close(read_picture(path)[0], torch.ones(1, 2, 3, 3))


def test_one_pixel(inputs: Path) -> None:
    Image.new("RGB", (1, 1), (1, 2, 3)).save(inputs / "a.bmp")
    same(load("a.bmp").IMAGE, [[[[1, 2, 3]]]])


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, np.nan]], np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(ValueError, match=r"a\.tif.*not finite"):
        read_picture(tmp_path / "a.tif")


@pytest.mark.parametrize("cut", [0, 20, 30, 60])
def test_damaged_files_are_named(tmp_path: Path, cut: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 9, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "whole.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "whole.png").read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"cut\.png cannot be read as a picture"):
        read_picture(tmp_path / "cut.png")


def test_a_small_file_that_unpacks_to_more_than_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.png"
    path.write_bytes(deep_png(np.zeros((1, 1, 3), np.uint16), 2))
    data = bytearray(path.read_bytes())
    data[16:24] = struct.pack(">II", 60000, 60000)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    path.write_bytes(data)
    with pytest.raises(ValueError, match="bomb"):
        read_picture(path)


def test_names_are_looked_up_below_the_input_folder(inputs: Path) -> None:
    Image.fromarray(RGB).save(inputs / "a.png")
    same(load("a.png [input]").IMAGE, RGB[None])
    with pytest.raises(LookupError):
        load("../a.png")
    find = spec(load_image).inputs["image"].file
    assert find is not None and find.find("a.png") == [inputs.resolve() / "a.png"]
    assert "a.png" in find.names() and "embedded/apple_on_beach.png" in find.names()


def test_shipped_examples(inputs: Path) -> None:
    whole, cut = load("embedded/apple_on_beach.png"), load("embedded/apple_cut_out.png")
    assert whole.IMAGE.shape == (1, 128, 128, 3) and not whole.MASK.any()
    torch.testing.assert_close(cut.IMAGE, whole.IMAGE, **EXACT)
    assert 0.7 < cut.MASK.mean() < 0.8 and set(cut.MASK.flatten().tolist()) == {0.0, 1.0}
