"""Transfer colours between images in CIE L*a*b*: mean and deviation, covariance, or histograms.

Reinhard et al. 2001, "Color Transfer between Images": each channel gets the mean and deviation of the reference. Pitie
and Kokaram 2007, "The linear Monge-Kantorovitch linear colour mapping": the one linear map that gives the reference's
covariance C_r and moves colors least, T = C^-1/2 (C^1/2 C_r C^1/2)^1/2 C^-1/2. Histograms: each level goes to the one
that as many pixels of the reference are below.
"""

from __future__ import annotations

from typing import Final, Literal

import torch
from torch import Tensor

from .color import linear_to_srgb, srgb_to_linear

Method = Literal["reinhard_lab", "mkl_lab", "histogram"]
_TO_XYZ: Final = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
"""sRGB to CIE XYZ (IEC 61966-2-1); the rows sum up to the white of D65."""
_EDGE: Final = 6 / 29
_LEAST: Final = 1e-6
_LEVELS: Final = 256


def to_lab(colors: Tensor) -> Tensor:
    """CIE 1976 L*a*b* of sRGB colors [..., 3], white is D65."""
    matrix = torch.tensor(_TO_XYZ, dtype=colors.dtype)
    t = srgb_to_linear(colors) @ (matrix / matrix.sum(1, keepdim=True)).mT
    x, y, z = torch.where(t > _EDGE**3, t.clamp_min(0) ** (1 / 3), t / (3 * _EDGE**2) + 4 / 29).unbind(-1)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], -1)


def from_lab(lab: Tensor) -> Tensor:
    """The sRGB colors of L*a*b*; they may lie outside 0..1."""
    y = (lab[..., 0] + 16) / 116
    f = torch.stack([y + lab[..., 1] / 500, y, y - lab[..., 2] / 200], -1)
    t = torch.where(f > _EDGE, f**3, 3 * _EDGE**2 * (f - 4 / 29))
    matrix = torch.tensor(_TO_XYZ, dtype=lab.dtype)
    return linear_to_srgb(t @ torch.linalg.inv(matrix / matrix.sum(1, keepdim=True)).mT)


def matched(images: Tensor, reference: Tensor, method: Method, source: Tensor | None, strength: float) -> Tensor:
    """Images [B, H, W, 3] with the colours of reference images.

    Args:
        images: In 0..1.
        reference: Image i, or the last one, is for image i; with ``source`` all of them together.
        method: How.
        source: Images whose statistics stand for those of each image; None: each has its own.
        strength: 0 changes nothing, 1 takes all of the colors.
    """
    results = []
    for i, image in enumerate(images.split(1)):
        own, wanted = (image, reference[min(i, len(reference) - 1)]) if source is None else (source, reference)
        if method == "histogram":
            changed = _by_histogram(image, own, wanted)
            results.append(torch.lerp(image, changed, strength).clamp(0, 1))
        else:
            lab = to_lab(image)
            changed = _by_moments(lab, to_lab(own), to_lab(wanted), linear=method == "mkl_lab")
            results.append(from_lab(torch.lerp(lab, changed, strength)).clamp(0, 1))
    return torch.cat(results)


def _by_moments(lab: Tensor, own: Tensor, wanted: Tensor, *, linear: bool) -> Tensor:
    """Move L*a*b* colours so that the statistics of ``own`` become those of ``wanted``."""
    own, wanted = own.reshape(-1, 3), wanted.reshape(-1, 3)
    before, after = own.mean(0), wanted.mean(0)
    if not linear:
        scale = wanted.std(0, correction=0) / own.std(0, correction=0).clamp_min(_LEAST)
        return (lab - before) * scale + after
    covariance, target = (torch.cov(x.mT, correction=0) for x in (own, wanted))
    root, inverse = _root(covariance), _root(covariance, -0.5)
    return (lab - before) @ (inverse @ _root(root @ target @ root) @ inverse) + after


def _root(matrix: Tensor, power: float = 0.5) -> Tensor:
    """A power of a positive semidefinite matrix."""
    values, vectors = torch.linalg.eigh(matrix)
    root: Tensor = (vectors * values.clamp_min(_LEAST**2) ** power) @ vectors.mT
    return root


def _by_histogram(image: Tensor, own: Tensor, wanted: Tensor) -> Tensor:
    """Map each channel through the table of levels that takes ``own`` to ``wanted``."""
    levels = (image * (_LEVELS - 1)).long().clamp(0, _LEVELS - 1)
    channels = []
    for c in range(3):
        below, target = _share_below(own[..., c]), _share_below(wanted[..., c])
        table = torch.searchsorted(target, below).clamp_max(_LEVELS - 1) / (_LEVELS - 1)
        channels.append(table[levels[..., c]])
    return torch.stack(channels, -1)


def _share_below(channel: Tensor) -> Tensor:
    """Cumulative share of values up to each level."""
    levels = (channel * (_LEVELS - 1)).long().clamp(0, _LEVELS - 1)
    return torch.bincount(levels.flatten(), minlength=_LEVELS).cumsum(0).double() / levels.numel()
