"""Warnings about what is lost or not applied when an image file is read."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final

from PIL import Image, ImageCms, ImageFile, TiffImagePlugin

_PLAIN_PROFILES: Final = ("srgb", "urgb", "c2", "gray gamma 2.2", "sgry")
"""Substrings in names of sRGB profiles. c2 is a minimal sRGB profile by Facebook."""
_SCREEN_GAMMA: Final = 1 / 2.2
_BITS_PER_SAMPLE: Final = 258
"""TIFF tag."""


def losses(file: Image.Image, *, deep: bool) -> Iterator[str]:
    """Sentences about an opened file; nothing is decoded.

    Args:
        file: The file.
        deep: More than 8 bits a channel are kept.
    """
    if not deep and (bits := bits_of(file)) > 8:
        yield f"its {bits} bits a channel are cut to 8"
    if file.mode == "CMYK":
        yield "its CMYK colours become RGB by the plain formula (255 - C)(255 - K) / 255, without a colour profile"
    elif name := _profile(file):
        yield f"its colour profile ({name}) is not applied: its values are taken as sRGB"
    elif gamma := _gamma(file):
        yield f"its gamma of {gamma:g} is not applied: its values are taken as sRGB"


def bits_of(file: Image.Image) -> int:
    """Bits per channel of the file; 8 if unknown."""
    if isinstance(file, TiffImagePlugin.TiffImageFile):
        return int(max(file.tag_v2.get(_BITS_PER_SAMPLE, (8,))))
    if file.format == "PNG":
        return _head(file, 26)[24]
    if file.format == "AVIF":
        head = _head(file, 4096)
        # The second highest bit of the third byte of the decoder's configuration (AV1 in ISOBMFF, 2.3.3).
        at = head.find(b"av1C") + 6
        return 10 if 6 < at + 1 < len(head) and head[at] & 0x40 else 8
    return 8


def _head(file: Image.Image, size: int) -> bytes:
    """The first bytes of the file."""
    assert isinstance(file, ImageFile.ImageFile)
    with open(file.filename, "rb") as raw:
        return raw.read(size)


def _profile(file: Image.Image) -> str:
    """The name of a colour profile other than sRGB; empty without one."""
    data = file.info.get("icc_profile")
    if not data:
        return ""
    try:
        name = ImageCms.getProfileDescription(ImageCms.getOpenProfile(io.BytesIO(data))).strip()
    except (ImageCms.PyCMSError, OSError, TypeError):
        name = "damaged"
    return "" if any(part in name.lower() for part in _PLAIN_PROFILES) else name or "without a name"


def _gamma(file: Image.Image) -> float:
    """The gamma of a PNG where it differs from sRGB's; else 0."""
    gamma = float(file.info.get("gamma") or _SCREEN_GAMMA)
    return gamma if "srgb" not in file.info and abs(gamma - _SCREEN_GAMMA) > 0.02 else 0.0
