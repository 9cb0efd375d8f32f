"""Images to files: which library writes which format, and where metadata goes.

Pillow writes JPEG, WebP, AVIF and 8-bit PNG; imageio (tifffile) TIFF; 16-bit PNG and EXR are written here, since
neither has them. The graph is text chunks in PNG, EXIF fields in JPEG, WebP and AVIF, the description in TIFF and
attributes in EXR.
"""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from PIL import ExifTags, Image

from .color import hlg_to_linear, srgb_to_linear
from .exr import BT2020, to_exr
from .image_read import to_levels, to_png

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

_JPEG_EXIF: Final = 65_000
"""Maximum bytes of EXIF in a JPEG file, with some margin."""
_EXIF_FIELDS: Final = (ExifTags.Base.Model, ExifTags.Base.Make, ExifTags.Base.ImageDescription)
_COLOR_TYPE: Final = {1: 0, 2: 4, 3: 2, 4: 6}
"""PNG color types by number of channels."""
Warn = Callable[[str], None]


def encode(
    pixels: Tensor, kind: str, texts: Mapping[str, str], warn: Warn, depth: int = 8, space: str = "sRGB", **options: Any
) -> bytes:
    """An image [H, W, C] of 1 (gray), 2 (gray, alpha), 3 (RGB) or 4 (RGBA) channels as a file.

    Args:
        pixels: Finite values; but for EXR and TIFF of floats what lies outside 0..1 is clipped.
        kind: png, jpeg, webp, avif, tiff or exr.
        texts: What reproduces it, as JSON by key.
        warn: Called with what is lost.
        depth: Bits a channel: 8, 16, or 32 for floats.
        space: Of EXR, what the values are: sRGB, HDR (BT.2100 HLG) or linear.
        options: For Pillow: quality, lossless.
    """
    if pixels.shape[-1] not in (1, 2, 3, 4):
        raise ValueError(f"an image has 1 to 4 channels, this one has {pixels.shape[-1]}")
    if kind == "exr":
        return _exr(pixels, texts, space)
    if kind == "png":
        return to_png(pixels, texts) if depth == 8 else _deep_png(to_levels(pixels, np.uint16), texts)
    if kind == "tiff":
        return _tiff(pixels, texts, depth)
    return _by_pillow(pixels, kind, texts, warn, options)


def _by_pillow(pixels: Tensor, kind: str, texts: Mapping[str, str], warn: Warn, options: Mapping[str, Any]) -> bytes:
    if kind == "jpeg" and pixels.shape[-1] in (2, 4):
        warn("JPEG holds no transparency: it is left out")
        pixels = pixels[..., : pixels.shape[-1] - 1]
    if pixels.shape[-1] == 2:  # WebP and AVIF have no gray with alpha
        pixels = pixels[..., [0, 0, 0, 1]]
    levels = to_levels(pixels)
    exif = Image.Exif()
    for field, (key, value) in zip(_EXIF_FIELDS, texts.items(), strict=False):
        exif[field] = f"{key}:{value}"
    data = exif.tobytes()
    if kind == "jpeg" and len(data) > _JPEG_EXIF:
        warn(f"the graph ({len(data)} bytes) is too large for a JPEG file and is not in it; PNG and WebP keep it")
        data = b""
    file = io.BytesIO()
    image = Image.fromarray(levels[..., 0] if levels.shape[-1] == 1 else levels)
    image.save(file, kind.upper(), **({"exif": data} if len(texts) and data else {}), **options)
    return file.getvalue()


def _deep_png(levels: NDArray[np.uint16], texts: Mapping[str, str]) -> bytes:
    """A PNG file of 16 bits a channel (PNG specification, 5, 9 and 11); each row is stored as steps from that above."""
    height, width, channels = levels.shape
    rows = levels.astype(">u2").reshape(height, -1).view(np.uint8)
    steps = rows.copy()
    steps[1:] -= rows[:-1]
    filtered = np.concatenate([np.full((height, 1), 2, np.uint8), steps], 1)
    header = struct.pack(">IIBBBBB", width, height, 16, _COLOR_TYPE[channels], 0, 0, 0)
    chunks = [
        (b"IHDR", header),
        *((b"tEXt", key.encode("latin-1") + b"\0" + text.encode("latin-1")) for key, text in texts.items()),
        (b"IDAT", zlib.compress(filtered.tobytes(), 4)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def _tiff(pixels: Tensor, texts: Mapping[str, str], depth: int) -> bytes:
    import imageio.v3 as imageio

    if depth == 32:
        array: NDArray[Any] = pixels.detach().cpu().float().numpy()
    else:
        array = to_levels(pixels, np.uint8 if depth == 8 else np.uint16)
    channels = array.shape[-1]
    layout: dict[str, Any] = {
        "photometric": "rgb" if channels >= 3 else "minisblack",
        "extrasamples": ["unassalpha"] if channels in (2, 4) else None,
        "planarconfig": None if channels == 1 else "contig",
    }
    options: dict[str, Any] = {
        "description": json.dumps(texts) if texts else None,
        "metadata": None,
        "software": "pipegraph",
    }
    written: Any = imageio.imwrite(
        "<bytes>",
        array[..., 0] if channels == 1 else array,
        extension=".tiff",
        plugin="tifffile",
        compression="zlib",
        predictor=depth != 32,
        **layout,
        **options,
    )
    return bytes(written)


def _exr(pixels: Tensor, texts: Mapping[str, str], space: str) -> bytes:
    channels = pixels.shape[-1]
    pixels = pixels.detach().cpu().float()
    if channels == 2:
        pixels, channels = pixels[..., [0, 0, 0, 1]], 4
    colors, alpha = pixels[..., :3], pixels[..., 3:]
    if space != "linear":
        colors = hlg_to_linear(colors) if space == "HDR" else srgb_to_linear(colors)
    if channels == 4:
        colors = torch.cat([colors * alpha, alpha], -1)
    return to_exr(colors.numpy(), texts, BT2020 if space == "HDR" else ())
