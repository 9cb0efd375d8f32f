"""What of a picture file is kept, and that everything else is said."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from PIL import Image, ImageCms, TiffImagePlugin

from pipegraph.models.media.image_read import read_picture

from .png_files import chunk, deep_png, png

RGB = np.random.default_rng(0).integers(0, 256, (5, 3, 3), np.uint8)
DEEP = np.random.default_rng(0).integers(0, 65536, (5, 3, 3), np.uint16)
TURNS = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a),
}
"""What makes a stored picture upright, by its orientation tag."""


def said(path: Path) -> tuple[torch.Tensor, torch.Tensor, list[str]]:
    """Colours, mask and warnings."""
    warnings: list[str] = []
    return *read_picture(path, warnings.append), warnings


def write_tiff(path: Path, pixels: Any, orientation: int = 1, **options: Any) -> None:
    tags = TiffImagePlugin.ImageFileDirectory_v2()
    tags[0x0112] = orientation
    Image.fromarray(pixels).save(path, "TIFF", tiffinfo=tags, **options)


def write_deep_tiff(path: Path, pixels: Any, orientation: int = 1, bits: int = 16, **tags: int) -> None:
    """A TIFF of one uncompressed strip, little-endian (TIFF 6.0); gray with ``bits``, else 16 bits a channel."""
    height, width, channels = pixels.shape
    data = pixels if isinstance(pixels, bytes) else pixels.astype("<u2").tobytes()
    per_sample = struct.pack(f"<{channels}H", *[bits] * channels)
    entries = {
        256: (3, 1, width),
        257: (3, 1, height),
        258: (3, channels, 8 + len(data) if channels > 1 else bits),
        259: (3, 1, 1),
        262: (3, 1, tags.get("photometric", 2)),
        273: (4, 1, 8),
        274: (3, 1, orientation),
        277: (3, 1, channels),
        278: (3, 1, height),
        279: (4, 1, len(data)),
    }
    if "extra" in tags:
        entries[338] = (3, 1, tags["extra"])
    directory = b"".join(struct.pack("<HHII", tag, *entry) for tag, entry in sorted(entries.items()))
    count = struct.pack("<H", len(entries))
    path.write_bytes(
        b"II*\0" + struct.pack("<I", 8 + len(data) + len(per_sample)) + data + per_sample + count + directory + bytes(4)
    )


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["PNG", "JPEG", "WEBP", "TIFF", "TIFF lzw", "deep TIFF", "16-bit PNG"])
def test_every_orientation_of_every_format(tmp_path: Path, form: str, orientation: int) -> None:
    path, stored, full = tmp_path / "a", RGB, 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    if form == "JPEG":
        stored = np.repeat(np.repeat(RGB[:2, :3] // 128 * 255, 16, 0), 16, 1)  # flat parts, which JPEG keeps
        Image.fromarray(stored).save(path, "JPEG", quality=95, subsampling=0, exif=exif)
    elif form.startswith("TIFF"):
        write_tiff(path, stored, orientation, compression="tiff_lzw" if "lzw" in form else None)
    elif form == "deep TIFF":
        stored, full = DEEP, 65535
        write_deep_tiff(path, stored, orientation)
    elif form == "16-bit PNG":
        stored, full = DEEP, 65535
        path.write_bytes(deep_png(DEEP, 2, (b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0"))))
    else:
        Image.fromarray(stored).save(path, form, exif=exif, lossless=True)
    colours, mask, warnings = said(path)
    wanted = torch.from_numpy(TURNS[orientation](stored).astype(np.float32)) / full
    assert colours.shape[1:] == wanted.shape and mask.shape == colours.shape[:3] and not mask.any() and not warnings
    assert (colours[0] - wanted).abs().max() <= (0.05 if form == "JPEG" else 0)


def test_pages_have_their_own_orientation_and_other_sizes_are_said(tmp_path: Path) -> None:
    pages = [Image.fromarray(RGB), Image.fromarray(np.rot90(RGB)), Image.fromarray(RGB[:2])]
    pages[0].save(tmp_path / "a.tif", save_all=True, append_images=pages[1:])
    colours, _, warnings = said(tmp_path / "a.tif")
    assert colours.shape == (1, 5, 3, 3)
    assert warnings == ["a.tif: 2 of its 3 pages are left out: they are not 3x5 as the first is"]
    write_tiff(tmp_path / "b.tif", RGB, save_all=True, append_images=[Image.fromarray(np.rot90(RGB))])
    data = bytearray((tmp_path / "b.tif").read_bytes())
    data[data.rindex(struct.pack("<HHI", 0x0112, 3, 1)) + 8] = 6  # of the second page
    (tmp_path / "b.tif").write_bytes(data)
    colours, _, warnings = said(tmp_path / "b.tif")
    assert not warnings and torch.equal(colours[0], colours[1])


def test_16_bit_tiff_with_alpha(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 65536, (5, 3, 4), np.uint16)
    write_deep_tiff(tmp_path / "a.tif", pixels, extra=2)
    colours, mask, warnings = said(tmp_path / "a.tif")
    wanted = torch.from_numpy(pixels.astype(np.float32)) / 65535
    assert not warnings and torch.equal(colours[0], wanted[..., :3]) and torch.equal(mask[0], 1 - wanted[..., 3])
    write_deep_tiff(tmp_path / "b.tif", pixels, extra=1)  # colours that are multiplied by their alpha
    assert said(tmp_path / "b.tif")[2] == ["b.tif: its 16 bits a channel are cut to 8"]


@pytest.mark.parametrize("photometric", [0, 1])
def test_gray_tiff_with_16_bits(tmp_path: Path, photometric: int) -> None:
    write_deep_tiff(tmp_path / "a.tif", DEEP[..., :1], photometric=photometric)
    colours, _, warnings = said(tmp_path / "a.tif")
    wanted = torch.from_numpy(DEEP[..., 0].astype(np.float32)) / 65535
    assert not warnings and torch.equal(colours[0, ..., 0], wanted if photometric else 1 - wanted)


def test_gray_tiff_with_12_bits(tmp_path: Path) -> None:
    """Two levels take three bytes."""
    write_deep_tiff(tmp_path / "a.tif", np.zeros((1, 2, 1), np.uint16), bits=12, photometric=1)
    data = bytearray((tmp_path / "a.tif").read_bytes())
    data[8:11] = b"\x40\x0f\xff"
    (tmp_path / "a.tif").write_bytes(data)
    assert said(tmp_path / "a.tif")[0][0, 0, :, 0].tolist() == pytest.approx([1024 / 4095, 1])


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_the_transparent_level_of_gray_png(tmp_path: Path, bits: int) -> None:
    """tRNS names a level as it is stored (PNG specification, 11.3.2.1)."""
    row = {1: [0b01000000], 2: [0b00010000], 4: [0x01], 8: [0, 1], 16: [0, 0, 0, 1]}[bits]
    path = tmp_path / "a.png"
    path.write_bytes(png(2, 1, bits, 0, bytes([0, *row]), (b"tRNS", b"\0\1")))
    _, mask, warnings = said(path)
    assert mask.tolist() == [[[0.0, 1.0]]] and not warnings


def test_what_is_lost_is_said(tmp_path: Path) -> None:
    picture = Image.fromarray(RGB)
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB", 5000)).tobytes()
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    cases: dict[str, tuple[dict[str, Any], str]] = {
        "lab.png": ({"icc_profile": lab}, "colour profile (Lab identity built-in) is not applied"),
        "bad.png": ({"icc_profile": b"nothing"}, "colour profile (damaged) is not applied"),
        "srgb.png": ({"icc_profile": srgb}, ""),
        "plain.png": ({}, ""),
    }
    for name, (options, loss) in cases.items():
        picture.save(tmp_path / name, **options)
        warnings = said(tmp_path / name)[2]
        assert len(warnings) == bool(loss) and loss in "".join(warnings), name
    picture.convert("CMYK").save(tmp_path / "a.jpg")
    assert "CMYK colours become RGB by the plain formula" in said(tmp_path / "a.jpg")[2][0]
    Image.fromarray(np.array([[0.5, 1.5]], np.float32)).save(tmp_path / "f.tif")
    assert said(tmp_path / "f.tif")[2] == ["f.tif: its values below black or above white are clipped"]


def test_gamma_of_png_is_said(tmp_path: Path) -> None:
    Image.fromarray(RGB).save(tmp_path / "a.png")
    plain = (tmp_path / "a.png").read_bytes()
    for gamma, count in ((45455, 0), (100000, 1)):
        (tmp_path / "a.png").write_bytes(plain[:33] + chunk(b"gAMA", struct.pack(">I", gamma)) + plain[33:])
        assert len(said(tmp_path / "a.png")[2]) == count


def test_16_bit_pictures_of_an_animation_are_cut_aloud(tmp_path: Path) -> None:
    with av.open(str(tmp_path / "a.png"), "w", format="apng") as container:
        stream = container.add_stream("apng", rate=5)
        stream.width, stream.height, stream.pix_fmt = 3, 5, "rgb48be"
        for pixels in (DEEP, DEEP[::-1]):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(pixels), format="rgb48le").reformat(
                format="rgb48be"
            )
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    colours, _, warnings = said(tmp_path / "a.png")
    assert colours.shape == (2, 5, 3, 3) and warnings == ["a.png: its 16 bits a channel are cut to 8"]
