"""Images in memory as inputs of a graph: PIL images, numpy arrays and tensors become PNG files.

A file is stored in the cache folder under the hash of its content, so that equal images are one input and a picture
made from it can be run again. Multiples of 1/255 are stored in 8 bits; other values are rounded to the nearest of
65536 levels, an error of at most 1/131070.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from pipegraph.folders import MEMORY, memory_inputs
from pipegraph.graphs.errors import Problem, shown
from pipegraph.graphs.schema import BAD, Graph, InputRef
from pipegraph.limits import PICTURE_PIXELS
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.files import DAY, replace_file, sweep_old

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

    Levels = NDArray[np.uint8 | np.uint16]

KEEP_SECONDS: Final = 7 * DAY
"""Seconds that an image is kept after its last use."""
SHAPES: Final = "[H, W], [H, W, C] or [B, H, W, C] with 1 to 4 channels"
VALUES: Final = "uint8, uint16, or floating point from 0 to 1"
_DEEP: Final = {1: "gray16be", 2: "ya16be", 3: "rgb48be", 4: "rgba64be"}
"""ffmpeg's pixel formats of 16-bit PNG, by number of channels."""


class BadPicture(ValueError):
    """A value is no valid image: message, actual and expected value, and a hint."""

    def __init__(self, message: str, got: str = "", wanted: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message, self.got, self.wanted, self.hint = message, got, wanted, hint


def named(
    graph: Graph, catalog: Catalog, inputs: Mapping[str, Any], overrides: Mapping[str, Any]
) -> tuple[Graph, dict[str, Any], dict[str, Any]]:
    """Replace images in the values of a call by names of files; add a problem to the graph for each invalid image.

    Args:
        graph: The graph.
        catalog: The known nodes.
        inputs: Values of the graph's inputs.
        overrides: Other inputs of nodes, ``{"node.input": value}``.
    """
    problems: list[Problem] = []

    def names(values: Mapping[str, Any], takes: Mapping[str, bool]) -> dict[str, Any]:
        return {key: name(key, value, takes) if is_picture(value) else value for key, value in values.items()}

    def name(key: str, value: Any, takes: Mapping[str, bool]) -> Any:
        try:
            if takes.get(key):
                return stored(value)
            if key in takes:  # else the check reports that there is no such input
                raise BadPicture(
                    "it takes no picture", shown(value), hint="Pictures go where the file of a picture is named."
                )
        except BadPicture as e:
            problem = Problem(code="bad_picture", message=e.message, input=key, got=e.got, wanted=e.wanted, hint=e.hint)
            problems.append(problem)
        except OSError as e:
            message = f"the picture cannot be kept in {memory_inputs()}: {e.strerror}"
            problems.append(Problem(code="bad_picture", message=message, input=key))
        return BAD

    of_graph, of_nodes = _takers(graph, catalog)
    inputs, overrides = names(inputs, of_graph), names(overrides, of_nodes)
    return replace(graph, problems=(*graph.problems, *problems)), inputs, overrides


def _takers(graph: Graph, catalog: Catalog) -> tuple[dict[str, bool], dict[str, bool]]:
    """Whether each input takes an image file: inputs of the graph, and of nodes as ``node.input``."""
    of_graph, of_nodes = dict.fromkeys(graph.inputs, False), dict[str, bool]()
    for use in graph.nodes.values():
        if not (entry := catalog.entries.get(use.type)):
            continue
        shows = any(port.type in ("IMAGE", "MASK") for port in entry.spec.outputs.values())
        for name in entry.spec.inputs:
            of_nodes[f"{use.id}.{name}"] = is_file = shows and name in entry.file_inputs
            value = use.inputs.get(name)
            if is_file and isinstance(value, InputRef):
                of_graph[value.name] = True
    return of_graph, of_nodes


def is_picture(value: object) -> bool:
    """Whether a value is a PIL image, an array or a tensor with dimensions."""
    return _is_image(value) or len(getattr(value, "shape", ())) > 0


def stored(value: Any) -> str:
    """Name of a file with the image ``value``, written if it does not exist.

    Args:
        value: A PIL image (its current frame, turned upright), a numpy array or a tensor; shapes as in ``SHAPES``,
            numbers as in ``VALUES``.

    Raises:
        BadPicture: an invalid image, or a batch that needs 16 bits.
        OSError: the file cannot be written.
    """
    levels = _levels(_pixels(_array(value)))
    digest = sha256(f"{levels.shape}{levels.dtype}".encode())
    digest.update(levels.data)
    path = memory_inputs() / f"{digest.hexdigest()}.png"
    try:
        os.utime(path)  # it is in use again
    except OSError:
        sweep_old(path.parent, age=KEEP_SECONDS)
        replace_file(path, _png(levels))
    return MEMORY + path.name


def _is_image(value: object) -> TypeGuard[Image.Image]:
    module = sys.modules.get("PIL.Image")  # without it there is no such value
    return module is not None and isinstance(value, module.Image)


def _array(value: Any) -> NDArray[Any]:
    import numpy as np

    if _is_image(value):
        return _of_image(value)
    if hasattr(value, "detach"):  # a tensor
        value = value.detach().cpu()
        value = value.float() if value.is_floating_point() else value
    return np.asarray(value)


def _of_image(image: Image.Image) -> NDArray[Any]:
    import numpy as np
    from PIL import ImageOps

    image = ImageOps.exif_transpose(image)
    if image.mode == "I":
        values = np.asarray(image)
        return values.astype(np.uint16) if 0 <= values.min() and values.max() <= 65535 else values
    if image.mode == "F" or image.mode.startswith("I;16"):
        return np.asarray(image).astype(np.float32 if image.mode == "F" else np.uint16)
    if "transparency" in image.info or image.mode in ("PA", "La", "RGBa"):
        image = image.convert("RGBA")
    elif image.mode not in ("L", "LA", "RGB", "RGBA"):
        image = image.convert("L" if image.mode == "1" else "RGB")
    return np.asarray(image)


def _pixels(array: NDArray[Any]) -> NDArray[Any]:
    """The array as [B, H, W, C]."""
    import numpy as np

    shape = array.shape
    actual = f"{array.dtype} [{', '.join(map(str, shape))}]"
    if len(shape) == 2:
        array = array[None, ..., None]
    elif len(shape) == 3:
        array = array[None]
    if array.ndim != 4 or not 1 <= array.shape[-1] <= 4 or not array.size:
        hint = "Channels come last: .transpose(1, 2, 0) or .permute(1, 2, 0)." if _channels_first(shape) else ""
        raise BadPicture("this is not the shape of a picture", actual, SHAPES, hint)
    if array.size // array.shape[-1] > PICTURE_PIXELS:
        raise BadPicture("the picture is too large", actual, f"at most {PICTURE_PIXELS:,} pixels")
    return np.ascontiguousarray(array)


def _channels_first(shape: tuple[int, ...]) -> bool:
    return len(shape) in (3, 4) and 1 <= shape[-3] <= 4


def _levels(pixels: NDArray[Any]) -> Levels:
    """Quantize to 8 bits if that is exact, else to 16."""
    import numpy as np

    if pixels.dtype == np.bool_:
        return pixels.astype(np.uint8) * np.uint8(255)
    if pixels.dtype.kind == "u" and pixels.dtype.itemsize <= 2:
        return pixels.astype(np.uint8 if pixels.dtype.itemsize == 1 else np.uint16, copy=False)
    if pixels.dtype.kind != "f":
        hint = "Whole numbers from 0 to 255 are uint8: .astype(numpy.uint8) or .to(torch.uint8)."
        raise BadPicture("these are not the numbers of a picture", str(pixels.dtype), VALUES, hint)
    values = pixels.astype(np.float32)
    low, high = values.min(), values.max()
    if not np.isfinite(low + high):
        raise BadPicture("the picture holds NaN or infinite values", wanted=VALUES)
    if low < 0 or high > 1:
        hint = "Divide by 255." if low >= 0 and high <= 255 else "Clip it, or scale it to 0..1."
        raise BadPicture("values lie outside of 0..1", f"{low:g}..{high:g}", VALUES, hint)
    coarse = np.rint(values * np.float32(255))
    exact = np.array_equal(coarse / np.float32(255), values)
    levels: Levels = coarse.astype(np.uint8) if exact else np.rint(values * np.float32(65535)).astype(np.uint16)
    return levels


def _png(levels: Levels) -> bytes:
    """A PNG file of images [B, H, W, C]; animated for several images."""
    import numpy as np
    from PIL import Image

    if levels.dtype != np.uint8:
        return _deep_png(levels)
    frames = [Image.fromarray(frame[..., 0] if frame.shape[-1] == 1 else frame) for frame in levels]
    file = io.BytesIO()
    frames[0].save(file, "PNG", save_all=len(frames) > 1, append_images=frames[1:], compress_level=1)
    return file.getvalue()


def _deep_png(levels: Levels) -> bytes:
    import av
    import numpy as np

    count, height, width, channels = levels.shape
    if count > 1:
        hint = "Round it to 8 bits, (x * 255).round() / 255, or give the pictures one by one."
        raise BadPicture("a batch in memory is kept in 8 bits a channel, which would change its values", hint=hint)
    kind = _DEEP[channels]
    frame = av.VideoFrame(width, height, kind)
    rows = np.zeros((height, frame.planes[0].line_size), np.uint8)
    rows[:, : width * channels * 2] = levels[0].astype(">u2").reshape(height, -1).view(np.uint8)
    frame.planes[0].update(rows)
    encoder = av.VideoCodecContext.create("png", "w")
    encoder.width, encoder.height, encoder.pix_fmt, encoder.time_base = width, height, kind, Fraction(1)
    return b"".join(bytes(packet) for packet in [*encoder.encode(frame), *encoder.encode(None)])
