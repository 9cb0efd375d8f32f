"""OpenEXR files: scan lines of 32-bit floats, packed by zlib, with texts in the header.

Written after the OpenEXR file layout (openexr.com, "OpenEXR File Layout"): magic and version, attributes, a table of
offsets, then blocks of 16 lines. A block holds its lines one after another, each channel by channel in the order of
their names; its bytes are parted into even and odd ones and stored as differences before they are packed.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

MAGIC: Final = b"v/1\x01"
BT2020: Final = (0.708, 0.292, 0.17, 0.797, 0.131, 0.046, 0.3127, 0.329)
"""Chromaticities (CIE 1931 x, y) of red, green, blue and white of ITU-R BT.2020."""
_BLOCK: Final = 16
_FLOAT, _ZIP, _INCREASING = 2, 3, 0
"""Sample type, compression, line order."""
_NAMES: Final = {1: "Y", 3: "RGB", 4: "RGBA"}


def to_exr(pixels: Floats, texts: Mapping[str, str] | None = None, chromaticities: Sequence[float] = ()) -> bytes:
    """An image [H, W, 1, 3 or 4] in linear light as an EXR file.

    Args:
        pixels: float32; alpha must be multiplied into the colors already.
        texts: Texts by key, as attributes of the header.
        chromaticities: CIE x, y of the primaries and white; empty: BT.709.
    """
    height, width, count = pixels.shape
    order = sorted(range(count), key=lambda i: _NAMES[count][i])
    channels = b"".join(struct.pack("<2sIIII", _NAMES[count][i].encode(), _FLOAT, 0, 1, 1) for i in order) + b"\0"
    window = struct.pack("<4i", 0, 0, width - 1, height - 1)
    attributes = [
        ("channels", "chlist", channels),
        ("compression", "compression", bytes([_ZIP])),
        ("dataWindow", "box2i", window),
        ("displayWindow", "box2i", window),
        ("lineOrder", "lineOrder", bytes([_INCREASING])),
        ("pixelAspectRatio", "float", struct.pack("<f", 1)),
        ("screenWindowCenter", "v2f", struct.pack("<2f", 0, 0)),
        ("screenWindowWidth", "float", struct.pack("<f", 1)),
        *([("chromaticities", "chromaticities", struct.pack("<8f", *chromaticities))] if chromaticities else ()),
        *((key, "string", text.encode()) for key, text in (texts or {}).items()),
    ]
    header = MAGIC + struct.pack("<I", 2)
    header += b"".join(f"{n}\0{k}\0".encode() + struct.pack("<I", len(v)) + v for n, k, v in attributes) + b"\0"
    blocks = [_block(pixels[top : top + _BLOCK, :, order], top) for top in range(0, height, _BLOCK)]
    starts = np.cumsum([len(header) + 8 * len(blocks), *map(len, blocks[:-1])])
    return header + starts.astype("<u8").tobytes() + b"".join(blocks)


def _block(lines: Floats, top: int) -> bytes:
    """Lines [n, W, C] with number and compressed size; stored raw if compression makes them larger."""
    raw = np.ascontiguousarray(lines.swapaxes(1, 2)).astype("<f4").tobytes()
    data = np.frombuffer(raw, np.uint8)
    parted = np.concatenate([data[::2], data[1::2]])
    steps = parted.copy()
    steps[1:] = parted[1:] - parted[:-1] + np.uint8(128)
    packed = zlib.compress(steps.tobytes(), 4)
    return struct.pack("<iI", top, min(len(packed), len(raw))) + (packed if len(packed) < len(raw) else raw)


def read_exr(path: str) -> Floats:
    """The colours [H, W, 1, 3 or 4] of an EXR file as stored, float32.

    Raises:
        ValueError: it cannot be decoded.
    """
    import av

    try:
        with av.open(path, format="exr_pipe") as container:
            container.streams.video[0].codec_context.thread_count = 1
            frame = next(container.decode(video=0))
    except (av.FFmpegError, StopIteration) as e:
        raise ValueError(f"this EXR file cannot be decoded: {e}") from e
    planes = {"grayf32le": (0,), "gbrpf32le": (2, 0, 1), "gbrapf32le": (2, 0, 1, 3)}.get(frame.format.name)
    if planes is None:
        raise ValueError(f"an EXR file of the kind {frame.format.name} is not supported")
    shape = (frame.height, frame.width)
    return np.stack(
        [np.ndarray(shape, "<f4", frame.planes[p], strides=(frame.planes[p].line_size, 4)) for p in planes], -1
    )
