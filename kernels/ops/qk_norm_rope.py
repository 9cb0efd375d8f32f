"""RMS norm of every query and key head, then rotary position embedding (arXiv 2104.09864), in one pass.

A pair (a, b) of a head's elements becomes (a cos - b sin, b cos + a sin). The pairs are (i, i + R/2) of the first R
elements, or neighbours (2i, 2i + 1) if interleaved; elements from R on are only normalized.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..backends import cpu
from ..backends.triton import available
from ..dispatch import Backend, KernelError, Op, define, register


class Signature(NamedTuple):
    """Signature of a call, for the choice of a back end."""

    q: tuple[int, ...]
    k: tuple[int, ...]
    dtype: torch.dtype
    device: str
    cos: tuple[int, ...]
    positions: bool
    norm: bool
    interleaved: bool
    precision: str = "exact"


def qk_norm_rope(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    eps: float | None = 1e-6,
    *,
    interleaved: bool = False,
    positions: Tensor | None = None,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Normalize and rotate queries and keys, in float32 at least, rounded once.

    Args:
        q: (B, Hq, S, D), float, any strides.
        k: (B, Hk, S, D), the dtype of q.
        q_weight: (D,), float, weight of the norm; 1 if None.
        k_weight: Likewise.
        cos: (S, R/2) or (B, S, R/2), float, R <= D; with ``positions`` a table (P, R/2).
        sin: Like cos.
        eps: Epsilon of the norm; None leaves the norm out.
        interleaved: Whether pairs are neighbours.
        positions: (S,) or (B, S), integers: the row of the table for each token.
        backend: Name of the back end to use.

    Returns:
        The new q and k, in the dtype of q.
    """
    key = (
        q.shape,
        k.shape,
        q.dtype,
        k.dtype,
        q.device,
        cos.shape,
        sin.shape,
        None if positions is None else (positions.shape, positions.dtype),
        None if q_weight is None else q_weight.shape,
        None if k_weight is None else k_weight.shape,
        eps is not None,
        interleaved,
    )
    out: tuple[Tensor, Tensor] = OP.pick(key, backend).fn(
        q, k, q_weight, k_weight, cos, sin, eps, interleaved, positions
    )
    return out


def _describe(key: Any) -> Signature:
    q, k, dtype, dtype2, device, cos, sin, positions, qw, kw, norm, interleaved = key
    if not len(q) == len(k) == 4 or (q[0], *q[2:]) != (k[0], *k[2:]) or dtype != dtype2 or not dtype.is_floating_point:
        raise KernelError(f"qk_norm_rope: q {dtype} {tuple(q)} and k {dtype2} {tuple(k)} do not fit together")
    b, _, s, d = q
    if cos != sin or not 2 <= len(cos) <= 3 or not 0 < 2 * cos[-1] <= d:
        raise KernelError(f"qk_norm_rope: cos {tuple(cos)} and sin {tuple(sin)} do not fit heads of {d}")
    if positions is None and tuple(cos[:-1]) not in ((s,), (b, s), (1, s)):
        raise KernelError(f"qk_norm_rope: cos {tuple(cos)} does not fit {b} x {s} tokens")
    if positions is not None and (
        len(cos) != 2 or tuple(positions[0]) not in ((s,), (b, s), (1, s)) or positions[1].is_floating_point
    ):
        raise KernelError(f"qk_norm_rope: positions {tuple(positions[0])} do not fit {b} x {s} tokens and one table")
    for name, weight in (("q_weight", qw), ("k_weight", kw)):
        if weight is not None and (tuple(weight) != (d,) or not norm):
            raise KernelError(f"qk_norm_rope: {name} {tuple(weight)} needs eps and ({d},) elements")
    return Signature(tuple(q), tuple(k), dtype, device.type, tuple(cos), positions is not None, norm, interleaved)


def angles(table: Tensor, positions: Tensor | None) -> Tensor:
    """Cos or sin for each token: (1 or B, 1, S, R/2)."""
    if positions is not None:
        table = table[positions]
    return table[None, None] if table.ndim == 2 else table[:, None]


def _norm_rope(
    x: Tensor, weight: Tensor | None, cos: Tensor, sin: Tensor, eps: float | None, interleaved: bool
) -> Tensor:
    wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    cos, sin = cos.to(wide), sin.to(wide)
    if eps is not None:
        wide = wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()
    if weight is not None:
        wide = wide * weight.to(wide)
    half = cos.shape[-1]
    turned = wide[..., : 2 * half]
    if interleaved:
        a, b = turned.unflatten(-1, (half, 2)).unbind(-1)
        out = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    else:
        a, b = turned[..., :half], turned[..., half:]
        out = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    return torch.cat((out, wide[..., 2 * half :]), -1).to(x.dtype)


def reference(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    eps: float | None,
    interleaved: bool,
    positions: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The definition in float32 (float64 for float64), rounded once at the end."""
    c, s = angles(cos, positions), angles(sin, positions)
    return _norm_rope(q, q_weight, c, s, eps, interleaved), _norm_rope(k, k_weight, c, s, eps, interleaved)


def fused(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    eps: float | None,
    interleaved: bool,
    positions: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The same with torch's own norm and products in place."""
    c, s = angles(cos, positions), angles(sin, positions)
    return _quick(q, q_weight, c, s, eps, interleaved), _quick(k, k_weight, c, s, eps, interleaved)


def _quick(x: Tensor, weight: Tensor | None, cos: Tensor, sin: Tensor, eps: float | None, interleaved: bool) -> Tensor:
    work = torch.float64 if x.dtype == torch.float64 else torch.float32
    wide = x.to(work)
    if eps is not None:
        wide = torch.nn.functional.rms_norm(wide, wide.shape[-1:], None if weight is None else weight.to(work), eps)
    cos, sin = cos.to(work), sin.to(work)
    half = cos.shape[-1]
    out = torch.empty_like(wide) if wide.shape[-1] == 2 * half else wide.clone()
    if interleaved:
        a, b = wide[..., : 2 * half : 2], wide[..., 1 : 2 * half : 2]
        first, second = out[..., : 2 * half : 2], out[..., 1 : 2 * half : 2]
    else:
        a, b = wide[..., :half], wide[..., half : 2 * half]
        first, second = out[..., :half], out[..., half : 2 * half]
    torch.mul(a, cos, out=first).addcmul_(b, sin, value=-1)
    torch.mul(b, cos, out=second).addcmul_(a, sin)
    return out.to(x.dtype)


def few_rows(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    eps: float | None,
    interleaved: bool,
    positions: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """On a CPU, compiled: for decoding a token or a few."""
    from ..backends.cpu.heads import qk_norm_rope

    q_scale, k_scale = (None if w is None else w.float() for w in (q_weight, k_weight))
    if positions is not None:
        cos, sin = cos[positions], sin[positions]
    return qk_norm_rope(q, k, q_scale, k_scale, cos.float(), sin.float(), eps, interleaved)


def _refuses_few_rows(s: Signature) -> str:
    return "" if s.device == "cpu" and s.dtype == torch.float32 else "is for float32 on a CPU"


def _triton(
    q: Tensor,
    k: Tensor,
    q_weight: Tensor | None,
    k_weight: Tensor | None,
    cos: Tensor,
    sin: Tensor,
    eps: float | None,
    interleaved: bool,
    positions: Tensor | None,
) -> tuple[Tensor, Tensor]:
    from ..backends.triton.norms import qk_norm_rope

    return qk_norm_rope(q, k, q_weight, k_weight, cos, sin, eps, interleaved, positions)


def _refuses_triton(s: Signature) -> str:
    if s.dtype == torch.float64:
        return "computes in float32"
    return available.refuses(s.device) or ("heads of at most 1024" if s.q[3] > 1024 else "")


def _sample(device: str, dtype: str) -> Signature:
    shape = (1, 24, 4096, 128)
    return Signature(shape, shape, getattr(torch, dtype), device, (4096, 64), False, True, True)


OP = define(Op("qk_norm_rope", _describe, _sample))
register(Backend("qk_norm_rope", "reference", reference, rank=lambda s: 0))
register(Backend("qk_norm_rope", "torch", fused, rank=lambda s: 10))
register(
    Backend(
        "qk_norm_rope",
        "few-rows",
        few_rows,
        rank=lambda s: 20 if s.q[0] * s.q[2] <= cpu.FEW else 5,
        refuses=_refuses_few_rows,
        missing=cpu.missing,
    )
)
register(
    Backend(
        "qk_norm_rope",
        "triton",
        _triton,
        rank=lambda s: available.rank(20),
        refuses=_refuses_triton,
        missing=available.missing,
    )
)
