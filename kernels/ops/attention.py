"""Scaled dot-product attention with one meaning on every back end.

For each query row, softmax(scale * q . k + bias) over the keys it may see, times v; computed in float32 at least.
Which keys a row may see is the ``and`` of ``mask``, ``causal``, ``window`` and ``bias != -inf``. A row that may see
none gives 0 (and a log-sum-exp of -inf); NaN or Inf in keys and values that a row may not see do not reach it, and
those that it sees give NaN (or Inf, where all rows see all keys).

``softcap`` bounds the scores before the bias: softcap * tanh(scale * q . k / softcap) (Gemma 2, arXiv 2408.00118).
``sinks`` adds to each head one more key with that score and the value 0 (gpt-oss, arXiv 2508.10925; after attention
sinks, arXiv 2309.17453); the log-sum-exp counts it, and a row that sees no key then has the sink as its log-sum-exp.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, overload

import torch
from torch import Tensor

from ..backends.torch.attention import sdpa
from ..backends.torch.attention_reference import Result, reference
from ..backends.triton import available
from ..dispatch import Backend, KernelError, Op, define, register


class Signature(NamedTuple):
    """Signature of a call, for the choice of a back end. Shapes are (B, H, S, D)."""

    q: tuple[int, ...]
    k: tuple[int, ...]
    v: tuple[int, ...]
    dtype: torch.dtype
    device: str
    mask: tuple[int, ...] | None
    bias: tuple[int, ...] | None
    causal: bool
    window: int | None
    lse: bool
    precision: str
    softcap: bool = False
    sinks: bool = False


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    return_lse: Literal[False] = False,
    precision: Literal["exact", "fast"] = "exact",
    backend: str | None = None,
) -> Tensor: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    return_lse: Literal[True],
    precision: Literal["exact", "fast"] = "exact",
    backend: str | None = None,
) -> tuple[Tensor, Tensor]: ...
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    return_lse: bool = False,
    precision: Literal["exact", "fast"] = "exact",
    backend: str | None = None,
) -> Result:
    """Attend from every query to the keys it may see.

    Args:
        q: (B, Hq, Sq, D), float, any strides.
        k: (B, Hkv, Skv, D), the dtype of q; Hq is a multiple of Hkv, and query head i uses key head i // (Hq / Hkv).
        v: (B, Hkv, Skv, Dv), the dtype of q.
        mask: bool, true = attend; broadcasts to (B, Hq, Sq, Skv). A float mask is an error: that is a bias.
        bias: float, added to the scaled scores; broadcasts likewise. -inf hides a key.
        causal: query i sees keys up to i + Skv - Sq: the last query sees all keys.
        window: with ``causal``, the most keys a query attends to, including its own.
        scale: D ** -0.5 by default.
        softcap: Bound of the scaled scores, before the bias.
        sinks: (Hq,), float: one more score for every row of a head, with the value 0.
        return_lse: Give (output, log-sum-exp of the scores in natural log, float32 or float64, (B, Hq, Sq)).
        precision: ``fast`` allows back ends that quantize inside.
        backend: Name of the back end to use.

    Returns:
        (B, Hq, Sq, Dv) in the dtype of q.

    Raises:
        KernelError: invalid shapes, dtypes or flags, or a requested back end that does not support the call.
    """
    key = (
        q.shape,
        k.shape,
        v.shape,
        (q.dtype, k.dtype, v.dtype),
        q.device,
        None if mask is None else (mask.shape, mask.dtype),
        None if bias is None else (bias.shape, bias.dtype),
        causal,
        window,
        return_lse,
        precision,
        softcap,
        None if sinks is None else (sinks.shape, sinks.dtype),
    )
    run = OP.pick(key, backend).fn
    if scale is None:
        scale = q.shape[-1] ** -0.5
    out: Result = run(
        q,
        k,
        v,
        mask=mask,
        bias=bias,
        causal=causal,
        window=window,
        scale=scale,
        softcap=softcap,
        sinks=sinks,
        return_lse=return_lse,
    )
    return out


def _describe(key: Any) -> Signature:
    """Check a call and describe it to the back ends."""
    q, k, v, dtypes, device, mask, bias, causal, window, lse, precision, softcap, sinks = key
    if not len(q) == len(k) == len(v) == 4:
        raise KernelError(f"attention: q, k, v are (B, H, S, D); got {_shapes(q, k, v)}")
    if not (q[0] == k[0] == v[0] and q[3] == k[3] and k[1:3] == v[1:3] and k[1] and q[1] % k[1] == 0):
        raise KernelError(f"attention: q, k, v do not fit together: {_shapes(q, k, v)}")
    if len(set(dtypes)) > 1 or not dtypes[0].is_floating_point:
        raise KernelError(f"attention: q, k, v must have one float dtype; got {', '.join(map(str, dtypes))}")
    if mask and mask[1] != torch.bool:
        raise KernelError(f"attention: a mask is bool (true = attend), not {mask[1]}; give scores to add as `bias`")
    if bias and not bias[1].is_floating_point:
        raise KernelError(f"attention: a bias is float, not {bias[1]}; give what may be seen as `mask`")
    scores = (q[0], q[1], q[2], k[2])
    for name, extra in (("mask", mask), ("bias", bias)):
        if extra and not _broadcasts(extra[0], scores):
            raise KernelError(f"attention: {name} {tuple(extra[0])} does not broadcast to {scores} (B, Hq, Sq, Skv)")
    if window is not None and (window < 1 or not causal):
        raise KernelError(f"attention: a window is at least 1 and needs causal=True; got {window}, causal={causal}")
    check_scores(softcap, sinks, q[1], "attention")
    if precision not in ("exact", "fast"):
        raise KernelError(f"attention: precision is `exact` or `fast`, not {precision!r}")
    return Signature(
        tuple(q),
        tuple(k),
        tuple(v),
        dtypes[0],
        device.type,
        mask and tuple(mask[0]),
        bias and tuple(bias[0]),
        causal,
        window,
        lse,
        precision,
        softcap is not None,
        sinks is not None,
    )


def check_scores(softcap: float | None, sinks: tuple[tuple[int, ...], torch.dtype] | None, heads: int, op: str) -> None:
    """Check softcap and sinks (shape and dtype); shared by the ops of this family."""
    if softcap is not None and not (0 < softcap < math.inf):
        raise KernelError(f"{op}: softcap is positive and finite, not {softcap}; without one it is None")
    if sinks and not (tuple(sinks[0]) == (heads,) and sinks[1].is_floating_point):
        raise KernelError(f"{op}: sinks are ({heads},) (Hq,) and float; got {tuple(sinks[0])} {sinks[1]}")


def _sample(device: str, dtype: str) -> Signature:
    shape = (1, 24, 4096, 128)
    return Signature(shape, shape, shape, getattr(torch, dtype), device, None, None, False, None, False, "exact")


def _shapes(*shapes: tuple[int, ...]) -> str:
    return ", ".join(str(tuple(s)) for s in shapes)


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))


def beyond_torch(s: Any) -> str:
    """Why torch cannot serve a signature of this op, or of ``attention_varlen``."""
    if s.softcap:
        return "torch's fused attention has no softcap"
    if (s.lse or s.sinks) and s.device != "cpu":
        return "needs the log-sum-exp, which torch's fused attention gives on the CPU only"
    return ""


def refuses_triton(s: Any) -> str:
    """Why our Triton kernel cannot serve a signature of this op, or of ``attention_varlen``."""
    if s.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return f"computes in float32, float16 and bfloat16, not {s.dtype}"
    if max(s.q[-1], s.v[-1]) > 256:
        return "head sizes up to 256"
    return available.refuses(s.device)


def _refuses_tma(s: Signature) -> str:
    arch = available.architecture()
    if arch != available.INTERPRETER and not (arch.startswith("sm_") and int(arch[3:]) >= 90):
        return f"needs the tensor memory accelerator, sm_90 or newer; this is {arch}"
    if s.dtype not in (torch.float16, torch.bfloat16) or {s.q[3], s.v[3]} - {64, 128, 256}:
        return "needs float16 or bfloat16 and head sizes of 64, 128 or 256"
    if s.mask is not None or s.bias is not None:
        return "takes neither mask nor bias"
    if arch.startswith("sm_12") and max(s.q[3], s.v[3]) > 128:
        return f"spills registers at this head size on {arch}"
    return available.refuses(s.device)


def _triton_rank(s: Signature) -> float:
    """Above torch (10) only where torch's kernels do not fuse: they need dense masks for windows and the like."""
    aligned = not s.causal or s.q[2] == s.k[2]
    fused = aligned and s.mask is None and s.bias is None and s.window is None and s.q[3] == s.v[3]
    return available.rank(8 if fused or s.dtype == torch.float32 else 12)


def _triton(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Result:
    from ..backends.triton.attention import attention as run

    return run(q, k, v, **options)


def _triton_tma(q: Tensor, k: Tensor, v: Tensor, *, mask: None, bias: None, **options: Any) -> Result:
    from ..backends.triton.attention_tma import attention as run

    return run(q, k, v, **options)


OP = define(Op("attention", _describe, _sample))
register(Backend("attention", "reference", reference, rank=lambda s: 0))
register(Backend("attention", "torch", sdpa, rank=lambda s: 10, refuses=beyond_torch))
register(Backend("attention", "triton", _triton, rank=_triton_rank, refuses=refuses_triton, missing=available.missing))
register(
    Backend(
        "attention",
        "triton-tma",
        _triton_tma,
        rank=lambda s: _triton_rank(s) + 1,
        refuses=_refuses_tma,
        missing=available.missing,
    )
)
