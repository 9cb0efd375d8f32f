"""Load CLIP vision models, and encode images with them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pipegraph.models import paths
from pipegraph.models.checkpoints.parts import part
from pipegraph.runtime.node import FileInput, RunContext, node

from ..wire import ClipVision, ClipVisionOutput, Image


def _files(name: str) -> list[Path]:
    return list(part(paths.resolve("clip_vision", name), "clip_vision").files)


ClipVisionName = Annotated[str, FileInput(_files, lambda: paths.names("clip_vision"))]


@node("CLIPVisionLoader", category="loaders", title="Load CLIP Vision")
def load_clip_vision(clip_name: ClipVisionName, ctx: RunContext) -> ClipVision:
    """Load a CLIP vision model, e.g. for Wan 2.1's image-to-video models.

    Args:
        clip_name: A single file, a component folder, or the name of a whole model.
    """
    from pipegraph.models.checkpoints.load import load_clip_vision
    from pipegraph.models.loading.place import Place

    return load_clip_vision(clip_name, Place.of(ctx.device, ctx.dtype))


@node("CLIPVisionEncode", category="conditioning", title="CLIP Vision Encode")
def clip_vision_encode(
    clip_vision: ClipVision, image: Image, crop: Literal["center", "none"] = "center"
) -> ClipVisionOutput:
    """Encode images with a CLIP vision model.

    Args:
        clip_vision: The model.
        image: The images.
        crop: The model reads squares: center crops the longer side, none squeezes the image.
    """
    return clip_vision.encode(image, "center" if crop == "center" else "disabled")
