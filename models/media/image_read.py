"""Image files to tensors and back.

Reading: colours become RGB, float32 in 0..1, [frames, height, width, 3]; the mask is ``1 - alpha``, of the picture's
size, all 0 without alpha. The camera's orientation tag is applied. Colour profiles are not. PNG and TIFF with 16 bits
a channel keep them; EXR is taken as linear light and becomes sRGB. Frames of an animation, and pages of one size,
become the batch.

Memory: a picture is decoded as a whole and converted some rows at a time, so that reading takes at most 20 bytes a
pixel: 16 for what comes out, 4 for the decoded picture (colours of 16 bits: 30).
"""

from __future__ import annotations

import importlib.util
import io
import struct
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from PIL import Image, ImageFile, PngImagePlugin, TiffImagePlugin, UnidentifiedImageError

from pipegraph.containers import Source
from pipegraph.limits import PICTURE_PIXELS

from .check import picture_fault
from .color import linear_to_srgb
from .exr import read_exr
from .image_header import read_header
from .image_losses import bits_of, losses

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    Floats = NDArray[np.float32]

FORMATS: Final = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF") + (
    ("AVIF",) if importlib.util.find_spec("PIL.AvifImagePlugin") else ()
)
"""Image formats that are read, by Pillow's names."""
DAMAGED: Final = (
    *(OSError, SyntaxError, ValueError, EOFError, LookupError, TypeError, OverflowError, RuntimeError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)
"""Exceptions of Pillow for damaged or unknown files."""
_ORIENTATION: Final = 0x0112
"""EXIF tag: 1 upright, 2..8 the rotations and mirrorings of :func:`as_stored`."""
_EXTRA_SAMPLES, _PHOTOMETRIC, _PLANAR = 338, 262, 284
"""TIFF tags."""
_PIXELS_AT_ONCE: Final = 1 << 17
"""Pixels converted at a time, so that they fit the CPU cache."""
# Pillow warns of large pictures, whose size is checked here, and of damage in EXIF data, which is passed over.
warnings.filterwarnings("ignore", module=r"PIL\.")


def _ignore(message: str) -> None:
    """Discard warnings."""


def read_picture(path: Path, warn: Callable[[str], None] = _ignore) -> tuple[Tensor, Tensor]:
    """Colours [B, H, W, 3] and mask [B, H, W] of an image file, float32 in 0..1.

    Args:
        path: The file.
        warn: Called with what is lost.

    Raises:
        ValueError: the file is no picture, is damaged, or is too large; says which file.
    """
    try:
        if fault := picture_fault(path):
            raise ValueError(fault)

        def warn_of(loss: str) -> None:
            warn(f"{path.name}: {loss}")

        if (floats := _floats(path)) is not None:
            return _of_floats(floats, warn_of)
        with Image.open(path, formats=FORMATS) as file:
            return _read(file, path, warn_of)
    except DAMAGED as e:
        raise ValueError(f"{path} cannot be read as a picture: {e}") from e


def _read(file: Image.Image, path: Path, warn: Callable[[str], None]) -> tuple[Tensor, Tensor]:
    # Several views of one scene (MPO): the first one only.
    count = 1 if file.format == "MPO" else getattr(file, "n_frames", 1)
    _check_size(file, count)  # again: what Pillow takes for the size counts
    deep = _deep_pixels(file, path) if count == 1 else None
    for loss in losses(file, deep=deep is not None or file.mode[0] in "IF"):
        warn(loss)
    if deep is not None:
        batch = _Batch(1, *turned_size(deep.shape[1], deep.shape[0], orientation := orientation_of(file)))
        batch.add_16_bit(deep, orientation)
        return batch.done()
    return _frames(file, count, warn)


def _floats(path: Path) -> Floats | None:
    """Colours [H, W, C] of an EXR file, or of a TIFF file that Pillow cannot read, as sRGB; else None."""
    with path.open("rb") as file:
        header = read_header(Source(file))
    if header is not None and header.kind == "EXR":
        stored = torch.from_numpy(read_exr(str(path)))
        if stored.shape[-1] == 4:
            colors, alpha = stored[..., :3], stored[..., 3:]
            stored = torch.cat([torch.where(alpha > 0, colors / alpha.clamp_min(1e-8), colors), alpha], -1)
        return torch.cat([linear_to_srgb(stored[..., :3]), stored[..., 3:]], -1).numpy()
    if header is not None and header.kind == "TIFF" and not _known_to_pillow(path):
        import imageio.v3 as imageio

        pixels: NDArray[Any] = imageio.imread(path, plugin="tifffile", index=0)
        if pixels.ndim == 3 and pixels.shape[-1] <= 4 and pixels.dtype in (np.uint16, np.float32, np.float16):
            return pixels.astype(np.float32) / np.float32(65535 if pixels.dtype == np.uint16 else 1)
    return None


def _known_to_pillow(path: Path) -> bool:
    try:
        with Image.open(path, formats=FORMATS):
            return True
    except UnidentifiedImageError:  # such as floats of several channels, or 16 bits of gray and alpha
        return False


def _of_floats(pixels: Floats, warn: Callable[[str], None]) -> tuple[Tensor, Tensor]:
    """Colours and mask of one image [H, W, 1 to 4]; values outside 0..1 are clipped, with a warning."""
    if not np.isfinite(pixels).all():
        raise OSError("it holds values that are not finite")
    alpha = pixels[..., -1] if pixels.shape[-1] in (2, 4) else np.ones(pixels.shape[:2], np.float32)
    colors = pixels[..., : 3 if pixels.shape[-1] >= 3 else 1]
    if (colors < 0).any() or (colors > 1).any():
        warn("its values below black or above white are clipped")
    colors = np.broadcast_to(colors, (*colors.shape[:2], 3)).clip(0, 1)
    return torch.from_numpy(colors.copy())[None], torch.from_numpy(1 - alpha.clip(0, 1))[None]


def _check_size(file: Image.Image, count: int) -> None:
    if file.width * file.height * count > PICTURE_PIXELS:
        raise OSError(f"{count} frames of {file.width}x{file.height} are more than {PICTURE_PIXELS} pixels")


def _frames(file: Image.Image, count: int, warn: Callable[[str], None]) -> tuple[Tensor, Tensor]:
    """The frames that have the size of the first."""
    batch, left_out = None, 0
    for frame, orientation in _loaded(file, count):
        width, height = turned_size(*frame.size, orientation)
        if batch is None:
            batch = _Batch(count, width, height)
        if (width, height) == batch.size:
            batch.add(frame, orientation)
        else:
            left_out += 1
    if batch is None:
        raise OSError("it holds no picture")
    if left_out:
        width, height = batch.size
        warn(f"{left_out} of its {count} pages are left out: they are not {width}x{height} as the first is")
    if batch.clipped:
        warn("its values below black or above white are clipped")
    return batch.done()


def _loaded(file: Image.Image, count: int) -> Iterator[tuple[Image.Image, int]]:
    """Every decoded frame with its orientation. Pillow rotates TIFF pages itself and removes their tag."""
    if count == 1 and file.format == "WEBP":
        assert isinstance(file, ImageFile.ImageFile)
        yield _single_webp(file.filename), orientation_of(file)
        return
    for index in range(count):
        file.seek(index)
        file.load()
        yield file, orientation_of(file)


def _single_webp(path: str | bytes) -> Image.Image:
    """A decoded image without the three copies that Pillow's WebP plugin keeps."""
    with Image.open(path) as file:
        file.load()
        return file.copy()


def orientation_of(file: Image.Image) -> int:
    """EXIF orientation, 1 to 8; 1 is upright."""
    value: int = file.getexif().get(_ORIENTATION, 1)
    return value


class _Batch:
    """A batch of images of one size."""

    def __init__(self, count: int, width: int, height: int) -> None:
        self.size = width, height
        self.clipped = False
        """Whether values were outside 0..1."""
        self._colours = torch.empty(count, height, width, 3)
        self._mask = torch.from_numpy(np.zeros((count, height, width), np.float32))  # untouched: takes no memory yet
        self._count = 0

    def add(self, frame: Image.Image, orientation: int) -> None:
        """Add a decoded frame of any mode."""
        colours, mask = self._next(orientation)
        rows = max(1, _PIXELS_AT_ONCE // frame.width)
        deep, clear = frame.mode[0] in "IF", _transparent_level(frame)
        for top in range(0, frame.height, rows):
            part, at = frame.crop((0, top, frame.width, min(top + rows, frame.height))), slice(top, top + rows)
            if deep:
                gray = _gray(part, frame)
                self.clipped = self.clipped or bool(((gray < 0) | (gray > 1)).any())
                np.clip(gray[..., None], 0, 1, out=colours[at])
            elif frame.mode in ("RGB", "L") and "transparency" not in frame.info:
                values = np.asarray(part)
                np.divide(values if frame.mode == "RGB" else values[..., None], np.float32(255), out=colours[at])
            else:
                _split(_rgba(part), 255, colours[at], mask[at])
            if clear is not None:
                mask[at] = np.asarray(part.convert("L") if part.mode == "1" else part) == clear

    def add_16_bit(self, pixels: NDArray[np.uint16], orientation: int) -> None:
        """Add a 16-bit frame [H, W, C] of gray and alpha, RGB or RGBA."""
        colours, mask = self._next(orientation)
        rows = max(1, _PIXELS_AT_ONCE // pixels.shape[1])
        for top in range(0, len(pixels), rows):
            at = slice(top, top + rows)
            _split(pixels[at], 65535, colours[at], mask[at])

    def done(self) -> tuple[Tensor, Tensor]:
        """Colours and masks of all frames."""
        return self._colours[: self._count], self._mask[: self._count]

    def _next(self, orientation: int) -> tuple[Floats, Floats]:
        """The slot of the next frame, oriented as stored."""
        place = self._count
        self._count += 1
        return as_stored(self._colours[place].numpy(), orientation), as_stored(self._mask[place].numpy(), orientation)


def _split(pixels: NDArray[Any], full: int, colours: Floats, mask: Floats) -> None:
    """Write integers up to ``full``, [H, W, C] of gray and alpha, RGB or RGBA, into colours and mask."""
    channels = pixels.shape[-1]
    np.divide(pixels[..., : 3 if channels >= 3 else 1], np.float32(full), out=colours, dtype=np.float32)
    if channels in (2, 4):
        np.divide(pixels[..., -1], np.float32(full), out=mask, dtype=np.float32)
        np.subtract(1, mask, out=mask)


def _rgba(part: Image.Image) -> NDArray[np.uint8]:
    try:
        return np.asarray(part.convert("RGBA"))
    except ValueError as e:
        raise OSError(f"colours of kind {part.mode} are not supported") from e


def _gray(part: Image.Image, frame: Image.Image) -> Floats:
    """Rows of a frame with more than 8 bits, float32 [H, W] in 0..1."""
    gray = np.asarray(part).astype(np.float32)
    if not np.isfinite(gray).all():
        raise OSError("it holds values that are not finite")
    if frame.mode == "F":
        return gray
    white, turned = 65535, False
    if isinstance(frame, TiffImagePlugin.TiffImageFile):
        white = 2 ** min(bits_of(frame), 16) - 1
        turned = frame.tag_v2.get(_PHOTOMETRIC) == 0  # 0 is white; with 8 bits Pillow turns it itself
    gray /= np.float32(white)
    return 1 - gray if turned else gray


def _transparent_level(frame: Image.Image) -> int | None:
    """The transparent level of a gray image, on the scale of the decoded pixels."""
    level: object = frame.info.get("transparency")
    if frame.mode[0] not in "IL1" or frame.mode == "LA" or not isinstance(level, int):
        return None
    if frame.format == "PNG" and (bits := bits_of(frame)) < 8 and level < 1 << bits:
        return level * 255 // ((1 << bits) - 1)  # Pillow spreads the pixels, but not the level
    return level


def _deep_pixels(file: Image.Image, path: Path) -> NDArray[np.uint16] | None:
    """Pixels [H, W, C] of a 16-bit colour image, which Pillow would reduce to 8 bits.

    None for all others, and where ffmpeg does not know the form.
    """
    if file.mode[0] in "IF" or bits_of(file) != 16:
        return None
    if isinstance(file, TiffImagePlugin.TiffImageFile):
        tags = file.tag_v2
        plain = tags.get(_PHOTOMETRIC) == 2 and tags.get(_PLANAR, 1) == 1 and tags.get(_EXTRA_SAMPLES, (2,)) == (2,)
        return _decode_16_bit(path, "tiff_pipe", file.size) if plain else None
    return _decode_16_bit(path, "png_pipe", file.size)


def _decode_16_bit(path: Path, kind: str, size: tuple[int, int]) -> NDArray[np.uint16] | None:
    """The image decoded by ffmpeg; None if that fails or gives another bit depth."""
    import av

    try:
        with av.open(str(path), format=kind) as container:
            container.streams.video[0].codec_context.thread_count = 1
            frame = next(container.decode(video=0))
    except (av.FFmpegError, StopIteration):
        return None
    channels = {"ya16": 2, "rgb48": 3, "rgba64": 4}.get(frame.format.name[:-2])
    if channels is None or sorted((frame.width, frame.height)) != sorted(size):
        return None
    plane, order = frame.planes[0], {"be": ">", "le": "<"}[frame.format.name[-2:]]
    shape, strides = (frame.height, frame.width, channels), (plane.line_size, 2 * channels, 2)
    return np.ndarray(shape, order + "u2", plane, strides=strides)


def turned_size(width: int, height: int, orientation: int) -> tuple[int, int]:
    """Width and height of a stored image after orientation."""
    return (height, width) if orientation in (5, 6, 7, 8) else (width, height)


def as_stored(upright: Floats, orientation: int) -> Floats:
    """A view of an upright image in stored orientation (EXIF 2.32, 4.6.4 A, Orientation)."""
    match orientation:
        case 2:
            return upright[:, ::-1]
        case 3:
            return upright[::-1, ::-1]
        case 4:
            return upright[::-1]
        case 5:
            return upright.swapaxes(0, 1)
        case 6:
            return np.rot90(upright)
        case 7:
            return upright[::-1, ::-1].swapaxes(0, 1)
        case 8:
            return np.rot90(upright, -1)
        case _:
            return upright


def finite(pixels: Tensor) -> bool:
    """Whether all values are finite. The sum is finite if all terms are, and 30 times as fast to check."""
    return bool(pixels.sum(dtype=torch.float32).isfinite()) or bool(pixels.isfinite().all())


def to_levels(pixels: Tensor, kind: type[np.uint8 | np.uint16] = np.uint8) -> NDArray[Any]:
    """Values 0..1 as 0..255 (or 0..65535): clipped, then rounded half up. NaN becomes any level."""
    values = pixels.detach().cpu().float().contiguous().numpy().reshape(-1)
    levels, part = np.empty(values.size, kind), np.empty(_PIXELS_AT_ONCE, np.float32)
    full = np.float32(np.iinfo(kind).max)
    for at in range(0, values.size, _PIXELS_AT_ONCE):
        source = values[at : at + _PIXELS_AT_ONCE]
        some = part[: source.size]
        np.multiply(source, full, out=some)
        some += np.float32(0.5)
        np.clip(some, 0, full, out=some)
        levels[at : at + _PIXELS_AT_ONCE] = some
    return levels.reshape(tuple(pixels.shape))


def to_png(pixels: Tensor, text: Mapping[str, str] | None = None, *, compression: int = 4) -> bytes:
    """One image [H, W, C] with 1 (gray), 2 (gray, alpha), 3 (RGB) or 4 (RGBA) channels as 8-bit PNG.

    Args:
        pixels: Finite values; what lies outside 0..1 is clipped.
        text: Text chunks by key; written uncompressed, since readers limit what compressed ones may unpack to.
        compression: Effort of zlib, 0..9.
    """
    if pixels.shape[-1] not in (1, 2, 3, 4):
        raise ValueError(f"a PNG has 1 to 4 channels, this picture has {pixels.shape[-1]}")
    array = to_levels(pixels)
    info = PngImagePlugin.PngInfo()
    for key, value in (text or {}).items():
        info.add_text(key, value)
    file = io.BytesIO()
    Image.fromarray(array[..., 0] if array.shape[-1] == 1 else array).save(
        file, "PNG", pnginfo=info, compress_level=compression
    )
    return file.getvalue()
