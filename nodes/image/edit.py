"""Make, resize, combine and filter images."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import Auto, Doc, NotBelow, Step, node, outputs

from ..utils.amounts import pictures
from ..wire import Image, Mask

Method = Annotated[
    Literal["nearest-exact", "bilinear", "area", "bicubic", "lanczos"],
    Doc("Interpolation; only area and lanczos antialias when shrinking."),
]
Pixels = Annotated[int, Ge(1), Le(16384)]
SizeOrAny = Annotated[int, Ge(0), Le(16384)]
Position = Annotated[int, Ge(0), Le(16384)]


@outputs
class ImageSize:
    """Width and height in pixels, and the batch size."""

    width: int
    height: int
    batch_size: int


@outputs
class ImageAndMask:
    """Images and a mask for them."""

    IMAGE: Image
    MASK: Mask


@node("EmptyImage", category="image", size=pictures())
def empty_image(
    width: Pixels = 512,
    height: Pixels = 512,
    batch_size: Annotated[int, Ge(1), Le(4096)] = 1,
    color: Annotated[int, Ge(0), Le(0xFFFFFF)] = 0,
) -> Image:
    """Make images of one colour.

    Args:
        width: Width in pixels.
        height: Height in pixels.
        batch_size: Number of images.
        color: Red, green and blue as 0xRRGGBB, e.g. 16711680 for red.
    """
    import torch

    rgb = torch.tensor([color >> 16 & 255, color >> 8 & 255, color & 255]) / 255
    return rgb.expand(batch_size, height, width, 3).contiguous()


@node("ImageScale", category="image/upscaling", size=pictures())
def image_scale(
    image: Image,
    upscale_method: Method = "nearest-exact",
    width: Annotated[SizeOrAny, Auto("width")] = 512,
    height: Annotated[SizeOrAny, Auto("height")] = 512,
    crop: Literal["disabled", "center"] = "disabled",
) -> Image:
    """Scale images to a size. A side of 0 follows from the other side and the aspect ratio; 0 and 0 change nothing.

    Colours of RGBA images are weighted by alpha: hidden colours do not bleed into visible parts.

    Args:
        image: Images to scale.
        width: New width in pixels, or 0.
        height: New height in pixels, or 0.
        crop: center crops to the new aspect ratio, disabled squeezes.
    """
    from pipegraph.models.media.image_ops import resize

    h, w = image.shape[1:3]
    if width == height == 0:
        return image
    width = width or max(1, round(w * height / h))
    height = height or max(1, round(h * width / w))
    return resize(image, width, height, upscale_method, crop)


@node("ImageScaleBy", category="image/upscaling")
def image_scale_by(
    image: Image,
    upscale_method: Method = "nearest-exact",
    scale_by: Annotated[float, Ge(0.01), Le(8), Step(0.01)] = 1.0,
) -> Image:
    """Scale images by a factor, to the nearest whole pixel.

    Args:
        image: Images to scale.
        scale_by: New width divided by old width.
    """
    from pipegraph.models.media.image_ops import resize

    h, w = image.shape[1:3]
    return resize(image, max(1, round(w * scale_by)), max(1, round(h * scale_by)), upscale_method)


@node("ImageScaleToTotalPixels", category="image/upscaling")
def image_scale_to_total_pixels(
    image: Image,
    upscale_method: Method = "nearest-exact",
    megapixels: Annotated[float, Ge(0.01), Le(16), Step(0.01)] = 1.0,
    resolution_steps: Annotated[int, Ge(1), Le(256)] = 1,
) -> Image:
    """Scale images to about a number of pixels and keep their aspect ratio.

    Args:
        image: Images to scale.
        megapixels: Pixels to reach, in units of 1024 * 1024.
        resolution_steps: Width and height become multiples of it.
    """
    from pipegraph.models.media.image_ops import resize

    h, w = image.shape[1:3]
    factor = math.sqrt(megapixels * 1024 * 1024 / (w * h))
    width, height = (max(1, round(side * factor / resolution_steps)) * resolution_steps for side in (w, h))
    return resize(image, width, height, upscale_method)


@node("ImageScaleToMaxDimension", category="image/upscaling")
def image_scale_to_max_dimension(image: Image, upscale_method: Method = "area", largest_size: SizeOrAny = 512) -> Image:
    """Scale images so that the longer side has a given length.

    Args:
        image: Images to scale.
        largest_size: Length of the longer side in pixels; 0 changes nothing.
    """
    from pipegraph.models.media.image_ops import resize

    h, w = image.shape[1:3]
    if largest_size == 0:
        return image
    width, height = (max(1, round(side * largest_size / max(w, h))) for side in (w, h))
    return resize(image, width, height, upscale_method)


@node("ImageCrop", category="image/transform")
def image_crop(image: Image, width: Pixels = 512, height: Pixels = 512, x: Position = 0, y: Position = 0) -> Image:
    """Crop images to a rectangle, cut at the border.

    Args:
        image: Images to crop.
        width: Width of the rectangle in pixels.
        height: Height of the rectangle in pixels.
        x: Column of its left edge; at most the last column.
        y: Row of its top edge; at most the last row.
    """
    x, y = min(x, image.shape[2] - 1), min(y, image.shape[1] - 1)
    return image[:, y : y + height, x : x + width]


@node("ImagePadForOutpaint", category="image")
def image_pad_for_outpaint(
    image: Image,
    left: Position = 0,
    top: Position = 0,
    right: Position = 0,
    bottom: Position = 0,
    feathering: Position = 40,
) -> ImageAndMask:
    """Pad images with gray, with a mask of the area to paint.

    Args:
        image: Images to pad.
        left: New columns on the left.
        top: New rows at the top.
        right: New columns on the right.
        bottom: New rows at the bottom.
        feathering: Pixels over which the mask falls from 1 to 0 inside the old image.
    """
    from pipegraph.models.media.image_ops import pad_for_outpaint

    return ImageAndMask(*pad_for_outpaint(image, left, top, right, bottom, feathering))


@node("ImageInvert", category="image/color")
def image_invert(image: Image) -> Image:
    """Invert the colours of images; alpha stays.

    Args:
        image: Images to invert.
    """
    import torch

    return torch.cat([1 - image[..., :3], image[..., 3:]], -1)


@node("ImageBatch", category="image/batch")
def image_batch(image1: Image, image2: Image) -> Image:
    """Put two batches of images into one.

    The second batch is scaled (bilinear) and cropped at the centre to the size of the first. If only one has alpha, the
    other becomes opaque.

    Args:
        image1: First images.
        image2: Images that follow.
    """
    import torch

    from pipegraph.models.media.image_ops import match_channels, resize

    wider = image1 if image1.shape[-1] >= image2.shape[-1] else image2
    first, second = match_channels(image1, wider), match_channels(image2, wider)
    second = resize(second, first.shape[2], first.shape[1], "bilinear", "center")
    return torch.cat([first, second.to(first)])


@node("ImageFromBatch", category="image/batch")
def image_from_batch(
    image: Image,
    batch_index: Annotated[int, Ge(-16384), Le(16384)] = 0,
    length: Annotated[int, Ge(1), Le(16384)] = 1,
) -> Image:
    """Take images out of a batch.

    Args:
        image: The batch.
        batch_index: First image to take, counted from 0, or from the end if negative; within the batch.
        length: Number of images, at most up to the end of the batch.
    """
    count = image.shape[0]
    start = max(0, count + batch_index) if batch_index < 0 else min(batch_index, count - 1)
    return image[start : start + length]


@node("RepeatImageBatch", category="image/batch")
def repeat_image_batch(image: Image, amount: Annotated[int, Ge(1), Le(4096)] = 1) -> Image:
    """Repeat a batch of images.

    Args:
        image: Images to repeat.
        amount: Number of repetitions.
    """
    return image.repeat(amount, 1, 1, 1)


@node("ImageCompositeMasked", category="image")
def image_composite_masked(
    destination: Image,
    source: Image,
    x: Position = 0,
    y: Position = 0,
    resize_source: bool = False,
    mask: Mask | None = None,
) -> Image:
    """Composite images over others.

    Source and mask are repeated or cut to the destination's batch size. Channels follow the destination.

    Args:
        destination: Background; sets the size.
        source: Foreground, cut at the border.
        x: Column of the source's left edge.
        y: Row of the source's top edge.
        resize_source: Scale the source (bilinear) to the destination's size first.
        mask: Opacity of the source, scaled to its size; opaque if left out.
    """
    from pipegraph.models.media.image_ops import composite, resize

    if resize_source:
        source = resize(source, destination.shape[2], destination.shape[1], "bilinear")
    return composite(destination, source, x, y, mask)


@node("ImageBlur", category="image/filter")
def image_blur(
    image: Image,
    blur_radius: Annotated[int, Ge(1), Le(31)] = 1,
    sigma: Annotated[float, Ge(0.1), Le(10), Step(0.1)] = 1.0,
) -> Image:
    """Blur images with a Gaussian window.

    Args:
        image: Images to blur.
        blur_radius: Half the width of the window in pixels.
        sigma: Standard deviation of the Gaussian in units of the radius.
    """
    from pipegraph.models.media.image_ops import gaussian_blur

    return gaussian_blur(image, blur_radius, sigma)


@node("Canny", category="image/filter")
def canny(
    image: Image,
    low_threshold: Annotated[float, Ge(0.01), Le(0.99), Step(0.01)] = 0.4,
    high_threshold: Annotated[float, Ge(0.01), Le(0.99), Step(0.01), NotBelow("low_threshold")] = 0.8,
) -> Image:
    """Find edges: white lines, one pixel wide, on black.

    Thresholds are for the magnitude of the Sobel gradient of the blurred gray image; a step from black to white has a
    magnitude of 2.6.

    Args:
        image: Images to filter.
        low_threshold: Edges continue along pixels above it.
        high_threshold: Edges start at pixels above it; not below the low threshold.
    """
    from pipegraph.models.media.image_ops import canny as edges

    return edges(image, low_threshold, high_threshold).unsqueeze(-1).repeat(1, 1, 1, 3)


@node("GetImageSize", category="image")
def get_image_size(image: Image) -> ImageSize:
    """Width, height and number of images.

    Args:
        image: Images to measure.
    """
    return ImageSize(image.shape[2], image.shape[1], image.shape[0])
