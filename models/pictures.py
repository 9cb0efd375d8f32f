"""Picture files to tensors and back.

Reading: colours become RGB, float32 in 0..1, [frames, height, width, 3]; the mask is ``1 - alpha``, of the picture's
size, all 0 without alpha. The camera's orientation tag is applied. Colour profiles are not. 16-bit PNG keeps its 16
bits. Frames of an animation become the batch.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from PIL import Image, ImageSequence, PngImagePlugin

from pipegraph.limits import PICTURE_PIXELS

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    Pixels = NDArray[np.floating[Any]]
    """float32 [H, W, 4], or what becomes it."""

_ORIENTATION: Final = 0x0112
"""EXIF tag: 1 upright, 2..8 the turns and mirrorings that :func:`_upright` undoes."""


def read_picture(path: Path) -> tuple[Tensor, Tensor]:
    """Colours [B, H, W, 3] and mask [B, H, W] of a picture file.

    Raises:
        ValueError: the file is no picture, is damaged, or is too large; says which file.
    """
    try:
        with Image.open(path) as file:
            orientation = file.getexif().get(_ORIENTATION, 1)
            frames = [_deep_png(path)] if _is_deep_colour_png(path) else _frames(file)
    except (OSError, SyntaxError, Image.DecompressionBombError) as e:
        raise ValueError(f"{path} cannot be read as a picture: {e}") from e
    rgba = torch.from_numpy(np.stack([_upright(f, orientation) for f in frames]))
    return rgba[..., :3].contiguous(), 1 - rgba[..., 3]


def _frames(file: Image.Image) -> list[Pixels]:
    """Every frame as large as the first; of a file with several views of one scene (MPO) the first alone."""
    count = 1 if file.format == "MPO" else getattr(file, "n_frames", 1)
    if file.width * file.height * count > PICTURE_PIXELS:
        raise OSError(f"{count} frames of {file.width}x{file.height} are more than {PICTURE_PIXELS} pixels")
    found: list[Pixels] = []
    for _, frame in zip(range(count), ImageSequence.Iterator(file), strict=False):
        made = _rgba(frame)
        if not found or made.shape == found[0].shape:
            found.append(made)
    return found


def _rgba(frame: Image.Image) -> Pixels:
    """One frame as float32 [H, W, 4] in 0..1."""
    if frame.mode == "F" or frame.mode.startswith("I"):
        gray = np.asarray(frame).astype(np.float32)
        if not np.isfinite(gray).all():
            raise OSError("it holds values that are not finite")
        alpha = np.ones_like(gray)
        if isinstance(clear := frame.info.get("transparency"), int):
            alpha = (gray != clear).astype(np.float32)
        gray = (gray if frame.mode == "F" else gray / 65535).clip(0, 1)
        return np.stack([gray, gray, gray, alpha], -1)
    try:
        return np.asarray(frame.convert("RGBA")).astype(np.float32) / 255
    except ValueError as e:
        raise OSError(f"colours of kind {frame.mode} are not supported") from e


def _is_deep_colour_png(path: Path) -> bool:
    """True for PNG with 16 bits a channel and more than gray, which Pillow would cut to 8 bits."""
    with path.open("rb") as f:
        head = f.read(26)
    return head[:8] == b"\x89PNG\r\n\x1a\n" and head[24] == 16 and head[25] in (2, 4, 6)


def _deep_png(path: Path) -> Pixels:
    """A 16-bit colour PNG as float32 [H, W, 4] in 0..1, through PyAV."""
    import av

    try:
        with av.open(str(path), format="png_pipe") as container:
            frame = next(container.decode(video=0))
            pixels: NDArray[Any] = frame.to_ndarray(format="rgba64le")
    except (av.FFmpegError, StopIteration) as e:
        raise OSError(str(e)) from e
    return pixels.astype(np.float32) / 65535


def _upright(pixels: Pixels, orientation: int) -> Pixels:
    """Undo an EXIF orientation."""
    match orientation:
        case 2:
            return pixels[:, ::-1]
        case 3:
            return pixels[::-1, ::-1]
        case 4:
            return pixels[::-1]
        case 5:
            return pixels.swapaxes(0, 1)
        case 6:
            return np.rot90(pixels, -1)
        case 7:
            return pixels[::-1, ::-1].swapaxes(0, 1)
        case 8:
            return np.rot90(pixels)
        case _:
            return pixels


def to_8_bit(pixels: Tensor) -> NDArray[np.uint8]:
    """Values 0..1 as 0..255: clipped, then rounded to the nearest, halves up."""
    return (pixels.detach().cpu().float().clamp(0, 1) * 255 + 0.5).to(torch.uint8).numpy()


def to_png(pixels: Tensor, text: Mapping[str, str] | None = None, *, compression: int = 4) -> bytes:
    """One picture [H, W, C] with 1 (gray), 2 (gray, alpha), 3 (RGB) or 4 (RGBA) channels as 8-bit PNG.

    Args:
        pixels: Finite values; what lies outside 0..1 is clipped.
        text: Text chunks by key; written uncompressed, since readers limit what compressed ones may unpack to.
        compression: Effort of zlib, 0..9.
    """
    if pixels.shape[-1] not in (1, 2, 3, 4):
        raise ValueError(f"a PNG has 1 to 4 channels, this picture has {pixels.shape[-1]}")
    array = to_8_bit(pixels)
    info = PngImagePlugin.PngInfo()
    for key, value in (text or {}).items():
        info.add_text(key, value)
    file = io.BytesIO()
    Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).save(
        file, "PNG", pnginfo=info, compress_level=compression
    )
    return file.getvalue()
