"""Cut, concatenate and replace parts of latents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Ge, Le

from pipegraph.runtime.node import Doc, node

from ..wire import Latent

if TYPE_CHECKING:
    from torch import Tensor

Index = Annotated[int, Ge(-16384), Le(16384)]
Amount = Annotated[int, Ge(1), Le(16384)]
Samples = Annotated[Latent, Doc("The latent.")]


@node("LatentConcat", category="latent/advanced")
def latent_concat(samples1: Latent, samples2: Latent, dim: Literal["x", "-x", "y", "-y", "t", "-t"] = "x") -> Latent:
    """Concatenate two latents along width, height or time.

    Args:
        samples1: First latent; its mask and other entries are kept.
        samples2: Second latent; repeated or cut to the first's batch size.
        dim: x: width, y: height, t: time; - puts the second before the first.
    """
    import torch

    from pipegraph.models.sampling.original import with_samples

    first, second = samples1["samples"], samples2["samples"]
    second = second[[i % len(second) for i in range(len(first))]]
    axis = _axis(first, dim[-1])
    if [*first.shape[1:axis], *first.shape[axis + 1 :]] != [*second.shape[1:axis], *second.shape[axis + 1 :]]:
        raise ValueError(f"latents {list(first.shape)} and {list(second.shape)} cannot be concatenated along {dim[-1]}")
    pair = (second, first) if dim[0] == "-" else (first, second)
    return with_samples(samples1, torch.cat(pair, axis), None)


@node("LatentCut", category="latent/advanced")
def latent_cut(samples: Samples, dim: Literal["x", "y", "t"] = "x", index: Index = 0, amount: Amount = 1) -> Latent:
    """Cut a part out of a latent.

    Args:
        dim: Axis: width, height or time.
        index: First cell; negative from the end; clamped to the last.
        amount: Largest number of cells.
    """
    from pipegraph.models.sampling.original import with_samples

    part = samples["samples"]
    axis = _axis(part, dim)
    length = part.shape[axis]
    start = min(index, length - 1) if index >= 0 else max(length + index, 0)
    return with_samples(samples, part.narrow(axis, start, min(amount, length - start)), None)


@node("LatentCutToBatch", category="latent/advanced")
def latent_cut_to_batch(samples: Samples, dim: Literal["t", "x", "y"] = "t", slice_size: Amount = 1) -> Latent:
    """Cut a latent into slices that become batch items; an incomplete last slice is dropped.

    Args:
        dim: Axis: time, width or height.
        slice_size: Cells per slice, at most all.
    """
    from pipegraph.models.sampling.original import with_samples

    whole = samples["samples"]
    axis = _axis(whole, dim)
    if axis < 2:
        return samples
    size = min(slice_size, whole.shape[axis])
    slices = whole.narrow(axis, 0, whole.shape[axis] // size * size).unflatten(axis, (-1, size))
    rest = {k: v for k, v in samples.items() if k not in ("noise_mask", "batch_index")}
    return with_samples(rest, slices.movedim(axis, 1).flatten(0, 1).contiguous(), None)


@node("ReplaceVideoLatentFrames", category="latent/batch")
def replace_video_latent_frames(destination: Latent, source: Latent | None = None, index: Index = 0) -> Latent:
    """Replace frames of a video latent.

    Args:
        destination: Video latent to change.
        source: New latent frames; without them nothing changes.
        index: First replaced latent frame; negative from the end.
    """
    from pipegraph.models.sampling.original import with_samples

    if source is None:
        return destination
    frames, put = destination["samples"], source["samples"]
    start = index + frames.shape[2] * (index < 0)
    if start < 0 or start + put.shape[2] > frames.shape[2]:
        raise ValueError(f"{put.shape[2]} frames at {index} do not fit a latent of {frames.shape[2]} frames")
    changed = frames.clone()
    changed[:, :, start : start + put.shape[2]] = put
    return with_samples(destination, changed, None)


@node("NormalizeVideoLatentStart", category="conditioning/video_models", output="latent")
def normalize_video_latent_start(
    latent: Samples, start_frame_count: Amount = 4, reference_frame_count: Amount = 5
) -> Latent:
    """Match mean and standard deviation of the first latent frames to the following ones, within limits.

    The mean changes by -0.3 to 0.35, the standard deviation by -0.35 to 0.5.

    Args:
        start_frame_count: Number of changed latent frames.
        reference_frame_count: Number of reference frames after them.
    """
    import torch

    from pipegraph.models.sampling.original import with_samples

    whole = latent["samples"]
    frames = whole.shape[2]
    if frames <= 1:
        return latent
    start = min(start_frame_count, frames - 1)
    first, after = whole[:, :, :start], whole[:, :, start : start + reference_frame_count]
    mean, deviation = first.mean((1, 3, 4), keepdim=True), first.std((1, 3, 4), keepdim=True)
    new_mean = torch.clamp(after.mean(), mean - 0.3, mean + 0.35)
    new_deviation = torch.clamp(after.std(), deviation - 0.35, deviation + 0.5)
    changed = (first - mean) / (deviation + 1e-8) * new_deviation + new_mean
    return with_samples(latent, torch.cat([changed, whole[:, :, start:]], 2), None)


def _axis(samples: Tensor, dim: str) -> int:
    """The axis of ``dim`` in samples [B, C, (T,) H, W]."""
    axis = samples.ndim - {"x": 1, "y": 2, "t": 3}[dim]
    if axis < 1:
        raise ValueError(f"a latent {list(samples.shape)} has no axis {dim}")
    return axis
