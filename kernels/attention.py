"""Scaled dot-product attention with one meaning on every back end.

For each query row, softmax(scale * q . k + bias) over the keys it may see, times v; computed in float32 at least.
Which keys a row may see is the ``and`` of ``mask``, ``causal``, ``window`` and ``bias != -inf``. A row that may see
none gives 0 (and a log-sum-exp of -inf); NaN or Inf in keys and values that a row may not see do not reach it, and
those that it sees give NaN.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias, overload

import torch
import torch.nn.functional as F
from torch import Tensor

from .dispatch import Backend, KernelError, Op, define, register

Result: TypeAlias = Tensor | tuple[Tensor, Tensor]
_SCORES = 1 << 24
"""Scores that the reference holds at once: it walks over rows, so that its memory stays bounded."""


class Signature(NamedTuple):
    """What a back end may decide on. Shapes are (B, H, S, D)."""

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


@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None, causal: bool = False,
    window: int | None = None, scale: float | None = None, return_lse: Literal[False] = False,
    precision: Literal["exact", "fast"] = "exact", backend: str | None = None,
) -> Tensor: ...  # fmt: skip
@overload
def attention(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None = None, bias: Tensor | None = None, causal: bool = False,
    window: int | None = None, scale: float | None = None, return_lse: Literal[True],
    precision: Literal["exact", "fast"] = "exact", backend: str | None = None,
) -> tuple[Tensor, Tensor]: ...  # fmt: skip
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
    return_lse: bool = False,
    precision: Literal["exact", "fast"] = "exact",
    backend: str | None = None,
) -> Result:
    """Attend from every query to the keys it may see.

    Args:
        q: (B, Hq, Sq, D), float, any strides.
        k: (B, Hkv, Skv, D), the dtype of q; Hq is a multiple of Hkv, and query head i uses key head i // (Hq / Hkv).
        v: (B, Hkv, Skv, Dv), the dtype of q.
        mask: bool, true = attend; broadcasts to (B, Hq, Sq, Skv). A float mask is refused: that is a bias.
        bias: float, added to the scaled scores; broadcasts likewise. -inf hides a key.
        causal: query i sees keys up to i + Skv - Sq: the last query sees all keys.
        window: with ``causal``, how many keys a query sees at most, its own included.
        scale: D ** -0.5 by default.
        return_lse: Give (output, log-sum-exp of the scores in natural log, float32 or float64, (B, Hq, Sq)).
        precision: ``fast`` allows back ends that quantize inside.
        backend: Name of the back end to use.

    Returns:
        (B, Hq, Sq, Dv) in the dtype of q.

    Raises:
        KernelError: shapes, dtypes or flags that make no sense, or an asked-for back end that cannot serve.
    """
    key = (
        q.shape, k.shape, v.shape, (q.dtype, k.dtype, v.dtype), q.device,
        None if mask is None else (mask.shape, mask.dtype), None if bias is None else (bias.shape, bias.dtype),
        causal, window, return_lse, precision,
    )  # fmt: skip
    run = OP.pick(key, backend).fn
    if scale is None:
        scale = q.shape[-1] ** -0.5
    out: Result = run(
        q, k, v, mask=mask, bias=bias, causal=causal, window=window, scale=scale, return_lse=return_lse
    )  # fmt: skip
    return out


def _describe(key: Any) -> Signature:
    """Check a call and describe it to the back ends."""
    q, k, v, dtypes, device, mask, bias, causal, window, lse, precision = key
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
    if precision not in ("exact", "fast"):
        raise KernelError(f"attention: precision is `exact` or `fast`, not {precision!r}")
    return Signature(
        tuple(q), tuple(k), tuple(v), dtypes[0], device.type, mask and tuple(mask[0]), bias and tuple(bias[0]), causal,
        window, lse, precision,
    )  # fmt: skip


def _sample(device: str, dtype: str) -> Signature:
    shape = (1, 24, 4096, 128)
    return Signature(
        shape, shape, shape, getattr(torch, dtype), device, None, None, False, None, False, "exact"
    )  # fmt: skip


def _shapes(*shapes: tuple[int, ...]) -> str:
    return ", ".join(str(tuple(s)) for s in shapes)


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(to), strict=False))


def _visible(
    mask: Tensor | None, bias: Tensor | None, causal: bool, window: int | None, sq: int, skv: int, device: torch.device
) -> Tensor | None:
    """Which keys each row may see, broadcastable to (B, Hq, Sq, Skv); None if all."""
    seen = mask
    if bias is not None:
        finite = bias != -torch.inf
        seen = finite if seen is None else seen & finite
    if causal:
        last = torch.arange(skv - sq, skv, device=device)[:, None]
        key = torch.arange(skv, device=device)
        band = key <= last if window is None else (key <= last) & (key > last - window)
        seen = band if seen is None else seen & band
    return seen


def reference(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, bias: Tensor | None, causal: bool, window: int | None,
    scale: float, return_lse: bool,
) -> Result:  # fmt: skip
    """The definition, written plainly: float32 (float64 for float64), exact softmax, a block of rows at a time."""
    b, h, sq, _ = q.shape
    hkv, skv = k.shape[1], k.shape[2]
    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    out = q.new_zeros(b, h, sq, v.shape[3])
    lse = torch.full((b, h, sq), -torch.inf, dtype=work, device=q.device)
    seen = _visible(mask, bias, causal, window, sq, skv, q.device)
    keys = k.to(work).repeat_interleave(h // hkv, 1).transpose(2, 3)
    values = v.to(work).repeat_interleave(h // hkv, 1)
    bad = ~values.isfinite()
    values = values.masked_fill(bad, 0)
    poisoned = bool(bad.any())
    step = max(1, _SCORES // max(1, b * h * skv))
    for start in range(0, sq if skv else 0, step):
        rows = slice(start, start + step)
        scores = (q[:, :, rows].to(work) @ keys) * scale
        if bias is not None:
            scores = scores + _rows(bias, rows).to(work)
        if seen is not None:
            scores = scores.masked_fill(~_rows(seen, rows), -torch.inf)
        top = scores.amax(-1, keepdim=True)
        weights = (scores - top.masked_fill(top == -torch.inf, 0)).exp()
        total = weights.sum(-1, keepdim=True)
        block = (weights @ values) / total.masked_fill(total == 0, 1)
        if poisoned:
            sees = torch.ones_like(scores) if seen is None else _rows(seen, rows).to(work).expand_as(scores)
            block = block.masked_fill(sees @ bad.to(work) > 0, torch.nan)
        out[:, :, rows] = block.to(q.dtype)
        lse[:, :, rows] = (top + total.log()).squeeze(-1)
    return (out, lse) if return_lse else out


def _rows(x: Tensor, rows: slice) -> Tensor:
    """The given query rows of a mask or bias that may be broadcast over rows."""
    return x if x.ndim < 2 or x.shape[-2] == 1 else x[..., rows, :]


def sdpa(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, bias: Tensor | None, causal: bool, window: int | None,
    scale: float, return_lse: bool,
) -> Result:  # fmt: skip
    """torch's fused attention, with what it leaves open settled as in :func:`reference`."""
    sq, skv, dim, value_dim = q.shape[2], k.shape[2], q.shape[3], v.shape[3]
    if not skv:
        return q.new_zeros(*q.shape[:3], value_dim)
    if causal and sq == 1 and (window is None or window >= skv):
        causal = False  # the last query sees all keys
    extra: Tensor | None = None
    seen: Tensor | None = None
    plain_causal = causal and sq == skv and window is None and mask is None and bias is None
    if mask is not None or bias is not None or causal:
        if not _finite(k, v):  # torch would spread what is hidden
            return reference(
                q, k, v, mask=mask, bias=bias, causal=causal, window=window, scale=scale, return_lse=False
            )  # fmt: skip
        if not plain_causal:
            seen = extra = _visible(mask, bias, causal, window, sq, skv, q.device)
    if bias is not None and seen is not None:
        half_on_cpu = q.device.type == "cpu" and q.dtype.itemsize == 2
        bias = bias.to(torch.float32 if half_on_cpu else q.dtype)
        extra = bias if mask is None and not causal else bias.masked_fill(~seen, -torch.inf)
    if extra is not None and extra.ndim < 4:
        extra = extra[(None,) * (4 - extra.ndim)]
    # The fused kernels want equal head sizes, multiples of 8 on a GPU, and contiguous rows; else torch falls back to
    # the full score matrix.
    size = max(dim, value_dim)
    if not q.is_cpu:
        size += -size % 8
    grouped = {"enable_gqa": True} if q.shape[1] != k.shape[1] else {}
    out = F.scaled_dot_product_attention(
        _fit(q, size), _fit(k, size), _fit(v, size), extra, 0.0, plain_causal, scale=scale, **grouped
    )
    if seen is not None:
        out = out.masked_fill(~seen.any(-1, keepdim=True), 0)
    return out[..., :value_dim] if size > value_dim else out


def _fit(x: Tensor, size: int) -> Tensor:
    """``x`` with ``size`` elements in its last dimension, zeros added, and these side by side in memory."""
    if x.shape[-1] < size:
        return F.pad(x, (0, size - x.shape[-1]))
    return x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous()


def _finite(k: Tensor, v: Tensor) -> bool:
    """False if a NaN or Inf is in ``k`` or ``v`` (or, harmlessly, if their sums overflow float32)."""
    return bool((k.sum(dtype=torch.float32) + v.sum(dtype=torch.float32)).isfinite())


OP = define(Op("attention", _describe, _sample))
register(Backend("attention", "reference", reference, rank=lambda s: 0))


def _without_lse(s: Signature) -> str:
    return "torch's fused attention gives no log-sum-exp" if s.lse else ""


register(Backend("attention", "torch", sdpa, rank=lambda s: 10, refuses=_without_lse))
