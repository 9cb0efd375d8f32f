"""Make images larger by a network."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pipegraph.generators import converted
from pipegraph.models import paths
from pipegraph.models.loading.weights_fault import weights_fault
from pipegraph.runtime.node import FileInput, NodeEvent, Progress, RunContext, Wire, node

from ..wire import Image

if TYPE_CHECKING:
    from pipegraph.models.upscale import Upscaler as _Upscaler
else:
    _Upscaler = Any

UpscaleModel = Annotated[_Upscaler, Wire("UPSCALE_MODEL")]


def _find(name: str) -> list[Path]:
    return [paths.resolve("upscale_models", name)]


UpscalerName = Annotated[str, FileInput(_find, lambda: paths.names("upscale_models"), weights_fault)]


@node("UpscaleModelLoader", category="loaders", title="Load Upscale Model")
def load_upscale_model(model_name: UpscalerName, ctx: RunContext) -> UpscaleModel:
    """Load a network that makes images larger, such as ESRGAN, SPAN, DAT or SwinIR; spandrel tells which it is.

    Its linear layers run on the kernel layer, its attention does not; the run record says so.

    Args:
        model_name: A .safetensors file among the upscale models.
    """
    from pipegraph.models.loading.place import Place
    from pipegraph.models.upscale import load_upscaler

    # Half precision saves little here and costs detail: it is for who asks for it.
    place = Place.of(ctx.device, "fp32" if ctx.dtype == "auto" else ctx.dtype)
    upscaler = load_upscaler(paths.resolve("upscale_models", model_name), place, model_name)
    ctx.note("upscaler", {"architecture": upscaler.architecture, "scale": upscaler.scale})
    if upscaler.attends:
        ctx.note("attention", f"of {upscaler.architecture}: spandrel's own, outside of the kernel layer")
    return upscaler


@node("ImageUpscaleWithModel", category="image/upscaling", title="Upscale Image (using Model)")
def image_upscale_with_model(upscale_model: UpscaleModel, image: Image) -> Generator[NodeEvent, None, Image]:
    """Make images larger by a network, in overlapping tiles of 512 pixels.

    Transparency is scaled by Lanczos where the network takes three channels.

    Args:
        upscale_model: The network.
        image: Images.
    """
    import torch

    from pipegraph.models.media.image_ops import resize

    channels = upscale_model.channels
    if channels == 1 and image.shape[-1] != 1:
        raise ValueError(f"{upscale_model.loaded.name} takes gray images, not {image.shape[-1]} channels")
    colors = image if channels == 1 else image[..., :3]
    if colors.shape[-1] < 3 <= channels:
        colors = image[..., :1].expand(*image.shape[:3], 3)
    alpha = image[..., -1:] if image.shape[-1] in (2, 4) else None
    if channels == 4:
        colors = torch.cat([colors, torch.ones_like(colors[..., :1]) if alpha is None else alpha], -1)
    steps = upscale_model.upscale_steps(colors)
    large: Image = yield from converted(steps, lambda step: Progress(*step, "tile"))
    if alpha is None or channels == 4:
        return large
    return torch.cat([large, resize(alpha, large.shape[2], large.shape[1], "lanczos")], -1)
