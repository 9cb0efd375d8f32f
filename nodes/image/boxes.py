"""Bounding boxes: make, draw and cut them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from pipegraph.runtime.node import Step, Wire, node, outputs

from ..wire import Image

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage
    from torch import Tensor

Coordinate = Annotated[int, Ge(0), Le(16384)]
Side = Annotated[int, Ge(1), Le(16384)]
CanvasSide = Annotated[int, Ge(64), Le(16384), Step(16)]
BoundingBox = Annotated[Any, Wire("BOUNDING_BOX")]
Region = Annotated[Any, Wire("BOUNDING_BOX,*")]
"""A box that a graph may also write as {"x": 0, "y": 0, "width": 512, "height": 512}."""
BoxesIn = Annotated[Any, Wire("BOUNDING_BOX,ARRAY,STRING")]
State = Annotated[Any, Wire("BOUNDING_BOXES,*")]
_WHOLE: Mapping[str, int] = {"x": 0, "y": 0, "width": 512, "height": 512}


@outputs
class Boxes:
    """Boxes as an image, in pixels, and as elements of a prompt."""

    preview: Image
    bboxes: BoundingBox
    elements: Annotated[Any, Wire("ARRAY")]


@node("PrimitiveBoundingBox", category="utils/primitive", title="Bounding Box")
def primitive_bounding_box(x: Coordinate = 0, y: Coordinate = 0, width: Side = 512, height: Side = 512) -> BoundingBox:
    """A rectangle in pixels.

    Args:
        x: Its left edge.
        y: Its top edge.
        width: Its width.
        height: Its height.
    """
    return {"x": x, "y": y, "width": width, "height": height}


@node("ImageCropV2", category="image/transform", title="Crop Image", ignores="x|y|width|height")
def image_crop_v2(image: Image, crop_region: Region = _WHOLE) -> Image:
    """Crop images to a rectangle, cut at the border.

    Args:
        image: Images to cut.
        crop_region: The rectangle: a link, or {"__value__": {"x": 0, "y": 0, "width": 512, "height": 512}}.
    """
    from pipegraph.models.media.boxes import read_boxes

    boxes = read_boxes({**_WHOLE, **crop_region} if isinstance(crop_region, Mapping) else crop_region, 1, 1)
    if len(boxes) != 1:
        raise ValueError(f"images are cut by one rectangle, got {len(boxes)}")
    box = boxes[0].pixels()
    if min(box.values()) < 0 or not (box["width"] and box["height"]):
        raise ValueError(f"nothing is left by the rectangle {box}")
    x, y = min(box["x"], image.shape[2] - 1), min(box["y"], image.shape[1] - 1)
    return image[:, y : y + box["height"], x : x + box["width"]]


@node("CreateBoundingBoxes", category="utils", output_node=True)
def create_bounding_boxes(
    background: Image | None = None,
    bboxes: BoxesIn | None = None,
    width: CanvasSide = 1024,
    height: CanvasSide = 1024,
    editor_state: State | None = None,
    last_incoming: State | None = None,
) -> Boxes:
    """Bounding boxes as an editor has drawn them, or as they come in: to prompt elements and a preview.

    Elements have coordinates in thousandths, [top, left, bottom, right], as prompts with a layout want them.

    Args:
        background: Shown darkened below the boxes in the preview.
        bboxes: Boxes, elements or their JSON; they count where they are others than `last_incoming`.
        width: Width of the canvas in pixels.
        height: Height of the canvas in pixels.
        editor_state: Boxes that were drawn: x, y, width, height and metadata.
        last_incoming: The `bboxes` that the drawing began with.
    """
    from pipegraph.models.media.boxes import preview, read_boxes

    incoming = read_boxes(bboxes, width, height)
    changed = bool(incoming) and incoming != read_boxes(last_incoming, width, height)
    boxes = incoming if changed else read_boxes(editor_state, width, height)
    shown = preview(boxes, width, height, None if background is None else _as_pil(background[0]))
    pixels = [[box.pixels() for box in boxes]] if boxes else []
    return Boxes(_as_image(shown), pixels, [box.element(width, height) for box in boxes])


@node("DrawBBoxes", category="detection", title="Draw BBoxes", output="out_image")
def draw_bboxes(bboxes: BoundingBox, image: Image | None = None) -> Image:
    """Draw boxes of a detector on images, with labels and scores.

    Args:
        bboxes: One list of boxes for all images, or a list for each of them.
        image: Images to draw on; black ones of the boxes' extent if missing.
    """
    import torch

    from pipegraph.models.media.boxes import drawn

    listed = [bboxes] if isinstance(bboxes, Mapping) else list(bboxes or [])
    batches: list[Any] = [listed] if not listed or isinstance(listed[0], Mapping) else listed
    if image is None:
        corners = [(b["x"] + b["width"], b["y"] + b["height"]) for boxes in batches for b in boxes] or [(640, 640)]
        wide, high = (max(1, min(16384, int(max(side)))) for side in zip(*corners, strict=True))
        image = torch.zeros(len(batches), high, wide, 3)
    if len(batches) not in (1, len(image)):
        raise ValueError(f"{len(batches)} lists of boxes for {len(image)} images: give one, or one for each")
    return torch.cat([_as_image(drawn(_as_pil(frame), batches[i % len(batches)])) for i, frame in enumerate(image)])


def _as_pil(image: Tensor) -> PilImage:
    """An image [H, W, C] in 8 bits of RGB."""
    import torch
    from PIL import Image as Pillow

    colours = image[..., :3].expand(*image.shape[:2], 3) if image.shape[-1] < 3 else image[..., :3]
    return Pillow.fromarray((colours.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy())


def _as_image(image: PilImage) -> Tensor:
    """[1, H, W, 3] in 0..1."""
    import numpy as np
    import torch

    return torch.from_numpy(np.asarray(image, np.float32) / 255)[None]
