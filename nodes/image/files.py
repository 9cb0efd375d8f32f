"""Load images from files, save and show them."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from pipegraph.models import paths
from pipegraph.models.media.check import picture_fault
from pipegraph.runtime.node import Doc, Extra, FileInput, FileName, NodeEvent, RunContext, Saved, node, outputs

from ..wire import Image, Mask

if TYPE_CHECKING:
    from torch import Tensor

_PICTURES: Final = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif", ".exr")


def input_file(name: str) -> Path:
    """Path of an input file; ComfyUI's suffix for the folder, `` [input]``, is allowed.

    Raises:
        LookupError: no such file.
    """
    return paths.resolve("input", name.removesuffix(" [input]"))


def _find(name: str) -> list[Path]:
    return [input_file(name)]


def _names() -> list[str]:
    return [n for n in paths.names("input") if n.lower().endswith(_PICTURES)]


Format = Literal["png", "png 16-bit", "jpeg", "webp", "avif", "tiff", "exr"]


class Encoding(NamedTuple):
    """How images are written: file suffix, and arguments of ``image_write.encode``."""

    extension: str
    kind: str
    depth: int = 8
    space: str = "sRGB"
    options: Mapping[str, Any] = MappingProxyType({})


FORMATS: Final[Mapping[str, Encoding]] = {
    "png": Encoding("png", "png"),
    "png 16-bit": Encoding("png", "png", 16),
    "jpeg": Encoding("jpg", "jpeg", options={"quality": 95, "subsampling": 0}),
    "webp": Encoding("webp", "webp", options={"lossless": True}),
    "avif": Encoding("avif", "avif", options={"quality": 90}),
    "tiff": Encoding("tiff", "tiff", 16),
    "exr": Encoding("exr", "exr", 32),
}

InputPicture = Annotated[str, FileInput(_find, _names, picture_fault)]
NamePrefix = Annotated[
    str,
    FileName(lambda prefix: _file_name(prefix, 1, 1, 0, datetime.now())),
    Doc("Start of the file name, as for SaveImage."),
]


@outputs
class LoadedImage:
    """An image and its transparency."""

    IMAGE: Image
    MASK: Mask


@node("LoadImage", category="image")
def load_image(image: InputPicture, ctx: RunContext) -> LoadedImage:
    """Load an image as RGB, and its transparency as a mask of the same size.

    The mask is 1 - alpha, all 0 if the image has no alpha; colours of transparent pixels are kept. The
    EXIF orientation is applied, colour profiles are not. 16 bits per channel are kept. Frames of an animation, and
    pages of one size, become a batch. A warning names what is lost.

    Args:
        image: Name of a file among the inputs.
    """
    from pipegraph.models.media.image_read import read_picture

    return LoadedImage(*read_picture(input_file(image), ctx.warn))


@node("LoadImageMask", category="image")
def load_image_mask(
    image: InputPicture, ctx: RunContext, channel: Literal["alpha", "red", "green", "blue"] = "alpha"
) -> Mask:
    """Load one channel of an image as a mask.

    Args:
        image: Name of a file among the inputs.
        channel: A colour as it is; alpha inverted (1 where transparent), all 0 if the image has none.
    """
    from pipegraph.models.media.image_read import read_picture

    colours, mask = read_picture(input_file(image), ctx.warn)
    return mask if channel == "alpha" else colours[..., ("red", "green", "blue").index(channel)].contiguous()


@node("SaveImage", category="image", effect="writes", output_node=True, output="images")
def save_image(
    images: Image, ctx: RunContext, filename_prefix: NamePrefix = "ComfyUI", format: Annotated[Format, Extra()] = "png"
) -> Generator[NodeEvent, None, Image]:
    """Save images with the graph embedded, as 8-bit PNG or in another format.

    Values are clipped to 0..1 and rounded to the nearest of 256 levels. An image with non-finite values is not
    saved; the others of its batch are, then the run fails.

    Args:
        images: Images with 1, 2 (gray, alpha), 3 or 4 (RGBA) channels.
        filename_prefix: Start of the file names, may hold folders; `%width%`, `%height%`, `%batch_num%`, `%year%`,
            `%month%`, `%day%`, `%hour%`, `%minute%`, `%second%` and `%date:yyyy-MM-dd%` are filled in; `%n` is where
            the counter goes, else it goes to the end.
        format: png, jpeg, webp and avif have 8 bits a channel, png 16-bit and tiff 16, exr 32 (floats, linear light).
            jpeg (quality 95) and avif (90) lose detail, webp does not; SaveImageAdvanced has their settings.
    """
    yield from write_pictures(images, ctx, filename_prefix, temporary=False, encoding=FORMATS[format])
    return images


@node("PreviewImage", category="image", effect="writes", output_node=True, output="images")
def preview_image(images: Image, ctx: RunContext) -> Generator[NodeEvent, None, Image]:
    """Preview images: they are saved in the folder of temporary files.

    Args:
        images: Images to show.
    """
    yield from write_pictures(images, ctx, "preview", temporary=True)
    return images


def write_pictures(
    images: Tensor, ctx: RunContext, prefix: str, *, temporary: bool, encoding: Encoding = FORMATS["png"]
) -> Generator[NodeEvent, None, None]:
    """Write the finite images of a batch; then fail if there are others."""
    from pipegraph.models.media.image_read import finite, to_png
    from pipegraph.models.media.image_write import encode

    count, height, width = images.shape[:3]
    if not count:
        raise ValueError("there is no image to save: the batch is empty")
    broken = []
    now = datetime.now()
    for i, image in enumerate(images):
        if not finite(image):
            broken.append(i)
            continue
        name = _file_name(prefix, width, height, i, now, encoding.extension)
        texts = metadata(ctx.reproduce, i, count)
        if temporary:
            data = to_png(image, texts, compression=1)
        else:
            _, kind, depth, space, options = encoding
            data = encode(image, kind, texts, ctx.warn, depth, space, **options)
        yield Saved(ctx.write(name, data, temporary=temporary), temporary=temporary)
    if broken:
        which = ", ".join(map(str, broken))
        raise ValueError(
            f"{len(broken)} of {count} images (batch index {which}) hold NaN or infinite values and were not saved; "
            "a VAE or network that overflows in half precision is the usual cause: try fp32 or bf16"
        )


def metadata(reproduce: Mapping[str, Any], item: int, count: int) -> dict[str, str]:
    """PNG text chunks that reproduce an image, as ASCII JSON; ``pipegraph`` holds its batch index."""
    parts = {key: value for key, value in reproduce.items() if value}
    if count > 1:
        parts["pipegraph"] = {**parts.get("pipegraph", {}), "batch_index": item, "batch_size": count}
    return {key: json.dumps(value, allow_nan=False) for key, value in parts.items()}


def _file_name(prefix: str, width: int, height: int, item: int, now: datetime, extension: str = "png") -> str:
    """The name of a file for ``RunContext.write``: the prefix with its placeholders filled in and a counter."""
    values = {
        "width": str(width),
        "height": str(height),
        "batch_num": str(item),
        "year": f"{now.year:04}",
        "month": f"{now.month:02}",
        "day": f"{now.day:02}",
        "hour": f"{now.hour:02}",
        "minute": f"{now.minute:02}",
        "second": f"{now.second:02}",
    }

    def date(form: re.Match[str]) -> str:
        words = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "hh": "%H", "mm": "%M", "ss": "%S"}
        return re.sub("|".join(words), lambda m: now.strftime(words[m[0]]), form[1])

    name = re.sub(r"%date:([^%]*)%", date, prefix)
    name = re.sub(r"%(\w+)%", lambda m: values.get(m[1], m[0]), name)
    return f"{name}.{extension}" if "%n" in name else f"{name}_%n_.{extension}"
