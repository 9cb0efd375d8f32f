"""Draw a token from logits, the same on every device.

One uniform number per row comes from the counter-based generator Philox4x32-10 (Salmon et al., SC 2011) with the row's
seed as key and its offset as counter; the token is the first, in order of index, at which the running sum of the kept
probabilities passes that number.

Filters, each applied to the result of the one before: the ``top_k`` most probable; the fewest most probable whose sum
reaches ``top_p``; those at least ``min_p`` times as probable as the best. Tokens that tie with a kept one are kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from ..backends.triton import available
from ..dispatch import Backend, KernelError, Op, define, register

Setting: TypeAlias = float | Tensor
_WORD = 0xFFFFFFFF
LEAST_TEMPERATURE = torch.finfo(torch.float32).tiny
"""A smaller temperature counts as 0: smaller numbers round differently on different devices."""


class Signature(NamedTuple):
    """Signature of a call, for the choice of a back end."""

    logits: tuple[int, ...]
    dtype: torch.dtype
    device: str
    precision: str = "exact"


def sample(
    logits: Tensor,
    temperature: Setting = 1.0,
    top_k: int | Tensor = 0,
    top_p: Setting = 1.0,
    min_p: Setting = 0.0,
    *,
    seed: int | Tensor = 0,
    offset: int | Tensor = 0,
    backend: str | None = None,
) -> Tensor:
    """Draw one token per row.

    Args:
        logits: (B, V), float; at least one of a row is finite. -inf is never drawn.
        temperature: Divides the logits; 0, and what is below ``LEAST_TEMPERATURE``, takes the best, the first of
            equals. This and what follows is one value for all rows or a tensor (B,).
        top_k: 0 keeps all.
        top_p: 1 keeps all.
        min_p: 0 keeps all, 1 and more only the best.
        seed: Key of the stream, 64 bits.
        offset: Position in the stream, e.g. the count of tokens so far: each gives another number.
        backend: Name of the back end to use.

    Returns:
        (B,) int64.

    Raises:
        KernelError: no float (B, V), or settings that are not one a row.
    """
    settings = (temperature, top_k, top_p, min_p, seed, offset)
    shapes = tuple(s.shape if isinstance(s, Tensor) else None for s in settings)
    run = OP.pick((logits.shape, logits.dtype, logits.device, shapes), backend).fn
    most = torch.finfo(torch.float32).max
    bounded = (_between(temperature, 0, most), _between(top_k, 0, logits.shape[1]), top_p, _between(min_p, 0, 1))
    kinds = (torch.float32, torch.int32, torch.float32, torch.float32, torch.int64, torch.int64)
    heat, *rows = (_row(s, kind, logits) for s, kind in zip((*bounded, seed, offset), kinds, strict=True))
    out: Tensor = run(logits, heat.masked_fill(heat < LEAST_TEMPERATURE, 0), *rows)
    return out


def _between(setting: Setting, least: float, most: float) -> Setting:
    """Clamp a setting to the bounds within which it has an effect."""
    return setting.clamp(least, most) if isinstance(setting, Tensor) else min(max(setting, least), most)


def _row(setting: Any, dtype: torch.dtype, logits: Tensor) -> Tensor:
    if isinstance(setting, Tensor):
        return setting.to(logits.device, dtype).expand(logits.shape[0])
    if dtype == torch.int64:  # seeds may be unsigned
        setting = (int(setting) & ((1 << 64) - 1)) - ((int(setting) >> 63 & 1) << 64)
    return torch.full((logits.shape[0],), setting, dtype=dtype, device=logits.device)


def _describe(key: Any) -> Signature:
    shape, dtype, device, settings = key
    if len(shape) != 2 or not shape[1] or not dtype.is_floating_point:
        raise KernelError(f"sample: needs float logits (B, V), not {dtype} {tuple(shape)}")
    if bad := [s for s in settings if s is not None and tuple(s) not in ((), (1,), (shape[0],))]:
        raise KernelError(f"sample: settings of shape {tuple(bad[0])} do not fit {shape[0]} rows")
    return Signature(tuple(shape), dtype, device.type)


def philox(seed: Tensor, offset: Tensor) -> Tensor:
    """The first of the four words of Philox4x32-10 for each (key, counter), int64 of 0..2**32-1."""
    k0, k1 = seed & _WORD, (seed >> 32) & _WORD
    c0, c1 = offset & _WORD, (offset >> 32) & _WORD
    c2 = c3 = torch.zeros_like(c0)
    for _ in range(10):
        h0, l0 = _product(0xD2511F53, c0)
        h1, l1 = _product(0xCD9E8D57, c2)
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ k1, l0
        k0, k1 = (k0 + 0x9E3779B9) & _WORD, (k1 + 0xBB67AE85) & _WORD
    return c0


def _product(a: int, b: Tensor) -> tuple[Tensor, Tensor]:
    """High and low word of a 32 x 32 bit product, in 63 bits."""
    low, high = b * (a & 0xFFFF), b * (a >> 16)
    middle = (low >> 16) + (high & 0xFFFF)
    return (high >> 16) + (middle >> 16), ((middle & 0xFFFF) << 16) | (low & 0xFFFF)


def uniform(seed: Tensor, offset: Tensor) -> Tensor:
    """Numbers of [0, 1) in steps of 2**-24, float32: exact on every device."""
    return (philox(seed, offset) >> 8).float() * 2.0**-24


def _draw(
    logits: Tensor,
    temperature: Tensor,
    top_k: Tensor,
    top_p: Tensor,
    min_p: Tensor,
    seed: Tensor,
    offset: Tensor,
    work: torch.dtype,
) -> Tensor:
    wide = logits.to(work)
    best = wide.argmax(-1)
    greedy = temperature <= 0
    p = kept_weights(wide, temperature, top_k, top_p, min_p)
    running = p.cumsum(-1)
    target = uniform(seed, offset).to(work)[:, None] * running[:, -1:]
    passed = (running > target) & (p > 0)
    drawn = torch.where(passed.any(-1), passed.int().argmax(-1), _last(p))
    return torch.where(greedy, best, drawn)


def kept_weights(wide: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor) -> Tensor:
    """Weights (B, V) of tokens, 0 if filtered out; the best has 1. Settings are (B,) tensors."""
    below = wide - wide.amax(-1, keepdim=True)  # first, for a small temperature takes quotients beyond all numbers
    p = (below / temperature.masked_fill(temperature <= 0, 1).to(wide)[:, None]).exp()
    p = _top_k(p, wide, top_k)
    p = _top_p(p, wide, top_p)
    return p.masked_fill(p < min_p.to(wide)[:, None] * p.amax(-1, keepdim=True), 0)


def _last(p: Tensor) -> Tensor:
    """The last index that may be drawn, for a number so close to 1 that rounding leaves none."""
    return p.shape[-1] - 1 - (p > 0).int().flip(-1).argmax(-1)


def _top_k(p: Tensor, logits: Tensor, top_k: Tensor) -> Tensor:
    size = p.shape[-1]
    most = int(top_k.max()) if len(top_k) else 0
    if most <= 0:
        return p
    k = torch.where((top_k <= 0) | (top_k > size), size, top_k).long()
    values = logits.topk(min(size, int(k.max())), sorted=True).values
    least = values.gather(1, k[:, None] - 1)
    return p.masked_fill(logits < least, 0)


def _top_p(p: Tensor, logits: Tensor, top_p: Tensor) -> Tensor:
    if bool((top_p >= 1).all()):
        return p
    values, order = logits.sort(-1, descending=True)
    ordered = p.gather(1, order)
    before = ordered.cumsum(-1) - ordered
    reached = before >= top_p.to(p)[:, None] * ordered.sum(-1, keepdim=True)
    reached[:, 0] = False  # the best stays, whatever top_p is
    reached &= (top_p < 1)[:, None]
    least = values.masked_fill(reached, torch.inf).amin(-1, keepdim=True)
    return p.masked_fill(logits < least, 0)


def reference(
    logits: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor, seed: Tensor, offset: Tensor
) -> Tensor:
    """The definition in float64."""
    return _draw(logits, temperature, top_k, top_p, min_p, seed, offset, torch.float64)


def draw(
    logits: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor, seed: Tensor, offset: Tensor
) -> Tensor:
    """The same in float32, which moves a boundary by less than 1e-6 of the whole."""
    if bool((temperature <= 0).all()):
        return logits.argmax(-1)
    work = torch.float64 if logits.dtype == torch.float64 else torch.float32
    return _draw(logits, temperature, top_k, top_p, min_p, seed, offset, work)


def _triton(
    logits: Tensor, temperature: Tensor, top_k: Tensor, top_p: Tensor, min_p: Tensor, seed: Tensor, offset: Tensor
) -> Tensor:
    from ..backends.triton.sample import sample

    return sample(logits, temperature, top_k, top_p, min_p, seed, offset)


def _refuses_triton(s: Signature) -> str:
    return "computes in float32" if s.dtype == torch.float64 else available.refuses(s.device)


OP = define(Op("sample", _describe, lambda device, dtype: Signature((1, 151936), getattr(torch, dtype), device)))
register(Backend("sample", "reference", reference, rank=lambda s: 0))
register(Backend("sample", "torch", draw, rank=lambda s: 10))
register(
    Backend(
        "sample",
        "triton",
        _triton,
        rank=lambda s: available.rank(20),
        refuses=_refuses_triton,
        missing=available.missing,
    )
)
