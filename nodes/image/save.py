"""Save images in other formats, with their settings."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import Annotated, Any, Final, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import Linked, NodeEvent, RunContext, Under, node

from ..wire import Image
from .files import Encoding, NamePrefix, write_pictures

_DEPTHS: Final[Mapping[str, tuple[str, ...]]] = {
    "png": ("8-bit", "16-bit"),
    "exr": ("32-bit float",),
    "avif": ("8-bit YUV420",),
    "tiff": ("16-bit", "8-bit", "32-bit float"),
}
"""Depths of a format, its usual one first."""
_SPACES: Final[Mapping[str, tuple[str, ...]]] = {"png": ("sRGB",), "exr": ("sRGB", "HDR", "linear"), "avif": ("sRGB",)}
_BITS: Final = {"8-bit": 8, "8-bit YUV420": 8, "16-bit": 16, "32-bit float": 32}


def _check(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    """Report a depth or color space that the format does not have."""
    format = str(values.get("format"))
    depth, space = values.get("format.bit_depth", "auto"), values.get("format.input_color_space", "sRGB")
    if format in _DEPTHS and depth not in ("auto", *_DEPTHS[format]):
        yield "format.bit_depth", f"{format} is written with {' or '.join(_DEPTHS[format])}, not {depth}"
    if format in _SPACES and space not in _SPACES[format]:
        yield "format.input_color_space", f"{format} is written from {' or '.join(_SPACES[format])}, not {space}"


@node(
    "SaveImageAdvanced",
    category="image",
    title="Save Image (Advanced)",
    effect="writes",
    output_node=True,
    output="images",
    check=_check,
)
def save_image_advanced(
    images: Image,
    ctx: RunContext,
    filename_prefix: NamePrefix = "ComfyUI",
    format: Literal["png", "exr", "avif", "jpeg", "webp", "tiff"] = "png",
    bit_depth: Annotated[
        Literal["auto", "8-bit", "16-bit", "32-bit float", "8-bit YUV420", "10-bit YUV420"],
        Under("format", "png", "exr", "avif", "tiff"),
    ] = "auto",
    input_color_space: Annotated[
        Literal["sRGB", "HDR", "HDR PQ", "linear"], Under("format", "png", "exr", "avif")
    ] = "sRGB",
    crf: Annotated[int, Ge(1), Le(63), Under("format", "avif")] = 18,
    save_mode: Annotated[Literal["still images"], Under("format", "avif")] = "still images",
    quality: Annotated[int, Ge(1), Le(100), Under("format", "jpeg", "webp")] = 95,
    lossless: Annotated[bool, Under("format", "webp")] = False,
) -> Generator[NodeEvent, None, Image]:
    """Save images with the graph embedded. An image with non-finite values is not saved, then the run fails.

    JPEG holds at most 64 KB of graph and no transparency; a warning names what is lost.

    Args:
        images: Images with 1, 2 (gray, alpha), 3 or 4 (RGBA) channels.
        format: File format.
        bit_depth: auto: 8 bits of png and avif, 16 of tiff, floats of exr. Floats keep values outside 0..1.
        input_color_space: For exr: values are sRGB, HDR (BT.2100 HLG) or linear; the file is linear.
        crf: Quality: lower is better, and a larger file.
        save_mode: One file for each image.
        quality: Higher is better and larger.
        lossless: Keep every pixel; quality is then how hard to try.
    """
    if faults := dict(_check({"format": format, "format.bit_depth": bit_depth}, {})):
        raise ValueError(next(iter(faults.values())))
    depth = _BITS[_DEPTHS[format][0] if bit_depth == "auto" else bit_depth] if format in _DEPTHS else 8
    options: dict[str, Any] = {}
    if format == "avif":
        options = {"quality": round(100 * (63 - crf) / 63)}
    elif format in ("jpeg", "webp"):
        options = {"quality": quality} | ({"lossless": lossless} if format == "webp" else {"subsampling": 0})
    extension = "jpg" if format == "jpeg" else format
    encoding = Encoding(extension, format, depth, input_color_space, options)
    yield from write_pictures(images, ctx, filename_prefix, temporary=False, encoding=encoding)
    return images
