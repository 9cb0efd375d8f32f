"""Attention of many sequences of different lengths without padding.

The tokens of all sequences are concatenated; ``cu_q`` and ``cu_k`` hold their starts. A row gets the result of
``attention`` for its sequence alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, overload

import torch
from torch import Tensor

from ..backends.torch.attention import sdpa
from ..backends.torch.attention_reference import Result, reference
from ..backends.triton import available
from ..dispatch import Backend, KernelError, Op, define, register
from .attention import beyond_torch, check_scores, refuses_triton


class Signature(NamedTuple):
    """Signature of a call of ``attention_varlen``, for the choice of a back end. Shapes are (T, H, D)."""

    q: tuple[int, ...]
    k: tuple[int, ...]
    v: tuple[int, ...]
    dtype: torch.dtype
    device: str
    sequences: int
    causal: bool
    window: int | None
    lse: bool
    softcap: bool
    sinks: bool
    precision: str = "exact"


@overload
def attention_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_q: Tensor,
    cu_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    return_lse: Literal[False] = False,
    backend: str | None = None,
) -> Tensor: ...
@overload
def attention_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_q: Tensor,
    cu_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    return_lse: Literal[True],
    backend: str | None = None,
) -> tuple[Tensor, Tensor]: ...
def attention_varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_q: Tensor,
    cu_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    return_lse: bool = False,
    backend: str | None = None,
) -> Result:
    """Attend within each sequence.

    Args:
        q: (Tq, Hq, D), float, any strides.
        k: (Tk, Hkv, D), the dtype of q; Hq is a multiple of Hkv.
        v: (Tk, Hkv, Dv), the dtype of q.
        cu_q: (N + 1,), int32 or int64, on the device of q: sequence i has the rows [cu_q[i], cu_q[i + 1]) of q. Begins
            with 0, does not decrease, ends with Tq; not checked on a GPU.
        cu_k: The same for k and v, ends with at most Tk.
        max_q: At least the length of the longest sequence in q.
        max_k: The same for k.
        causal: As in ``attention``, for each sequence.
        window: As in ``attention``.
        scale: As in ``attention``.
        softcap: As in ``attention``.
        sinks: As in ``attention``.
        return_lse: Give (output, log-sum-exp (Tq, Hq)).
        backend: Name of the back end to use.

    Returns:
        (Tq, Hq, Dv) in the dtype of q.

    Raises:
        KernelError: invalid shapes, dtypes or flags, or a requested back end that does not support the call.
    """
    key = (
        q.shape,
        k.shape,
        v.shape,
        (q.dtype, k.dtype, v.dtype),
        q.device,
        (cu_q.shape, cu_q.dtype),
        (cu_k.shape, cu_k.dtype),
        causal,
        window,
        return_lse,
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
        cu_q,
        cu_k,
        max_q,
        max_k,
        causal=causal,
        window=window,
        scale=scale,
        softcap=softcap,
        sinks=sinks,
        return_lse=return_lse,
    )
    return out


def _describe(key: Any) -> Signature:
    q, k, v, dtypes, device, cu_q, cu_k, causal, window, lse, softcap, sinks = key
    shapes = ", ".join(str(tuple(s)) for s in (q, k, v))
    if not len(q) == len(k) == len(v) == 3:
        raise KernelError(f"attention_varlen: q, k, v are (T, H, D); got {shapes}")
    if not (q[2] == k[2] and k[:2] == v[:2] and k[1] and q[1] % k[1] == 0):
        raise KernelError(f"attention_varlen: q, k, v do not fit together: {shapes}")
    if len(set(dtypes)) > 1 or not dtypes[0].is_floating_point:
        raise KernelError(f"attention_varlen: q, k, v must have one float dtype; got {', '.join(map(str, dtypes))}")
    if cu_q != cu_k or len(cu_q[0]) != 1 or not cu_q[0][0] or cu_q[1] not in (torch.int32, torch.int64):
        raise KernelError(
            "attention_varlen: cu_q and cu_k are (sequences + 1,) of one dtype, int32 or int64; "
            f"got {tuple(cu_q[0])} {cu_q[1]} and {tuple(cu_k[0])} {cu_k[1]}"
        )
    if window is not None and (window < 1 or not causal):
        raise KernelError(f"attention_varlen: a window is at least 1 and needs causal=True; got {window}, {causal=}")
    check_scores(softcap, sinks, q[1], "attention_varlen")
    return Signature(
        tuple(q),
        tuple(k),
        tuple(v),
        dtypes[0],
        device.type,
        cu_q[0][0] - 1,
        causal,
        window,
        lse,
        softcap is not None,
        sinks is not None,
    )


def _one_by_one(
    attend: Callable[..., Result],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_q: Tensor,
    cu_k: Tensor,
    max_q: int,
    max_k: int,
    return_lse: bool,
    options: dict[str, Any],
) -> Result:
    """Run each sequence by an ``attend`` for (B, H, S, D); reads the lengths, which synchronizes a GPU."""
    starts_q, starts_k = cu_q.tolist(), cu_k.tolist()
    out = q.new_zeros(*q.shape[:2], v.shape[2])
    lse = q.new_empty(q.shape[:2], dtype=torch.float64 if q.dtype == torch.float64 else torch.float32)
    if starts_q[0] or starts_q[-1] != len(q) or not 0 <= starts_k[0] <= starts_k[-1] <= len(k):
        raise KernelError(f"attention_varlen: cu_q goes from 0 to {len(q)}, cu_k up to {len(k)}")
    for i in range(len(starts_q) - 1):
        rows, keys = slice(*starts_q[i : i + 2]), slice(*starts_k[i : i + 2])
        lengths = rows.stop - rows.start, keys.stop - keys.start
        if not (0 <= lengths[0] <= max_q and 0 <= lengths[1] <= max_k):
            raise KernelError(
                f"attention_varlen: sequence {i} has {lengths[0]} queries and {lengths[1]} keys, but max_q is {max_q} "
                f"and max_k {max_k}"
            )
        part = attend(*(x[s].transpose(0, 1)[None] for x, s in ((q, rows), (k, keys), (v, keys))), **options)
        if isinstance(part, tuple):
            lse[rows] = part[1][0].T
            part = part[0]
        out[rows] = part[0].transpose(0, 1)
    return (out, lse) if return_lse else out


def varlen_reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_q: Tensor,
    cu_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    return_lse: bool,
    **options: Any,
) -> Result:
    """The definition: each sequence by the reference of ``attention``."""
    options["return_lse"] = return_lse
    return _one_by_one(reference, q, k, v, cu_q, cu_k, max_q, max_k, return_lse, options)


def varlen_torch(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_q: Tensor,
    cu_k: Tensor,
    max_q: int,
    max_k: int,
    *,
    return_lse: bool,
    **options: Any,
) -> Result:
    """Each sequence by torch's fused attention."""
    options["return_lse"] = return_lse
    return _one_by_one(sdpa, q, k, v, cu_q, cu_k, max_q, max_k, return_lse, options)


def _triton(
    q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor, max_q: int, max_k: int, **options: Any
) -> Result:
    from ..backends.triton.attention import attention_varlen as run

    return run(q, k, v, cu_q, cu_k, max_q, max_k, **options)


def _sample(device: str, dtype: str) -> Signature:
    shapes = (8192, 32, 128), (8192, 8, 128)
    return Signature(shapes[0], shapes[1], shapes[1], getattr(torch, dtype), device, 8, True, None, False, False, False)


OP = define(Op("attention_varlen", _describe, _sample))
register(Backend("attention_varlen", "reference", varlen_reference, rank=lambda s: 0))
register(Backend("attention_varlen", "torch", varlen_torch, rank=lambda s: 10, refuses=beyond_torch))
register(
    Backend(
        "attention_varlen",
        "triton",
        _triton,
        rank=lambda s: available.rank(20),
        refuses=refuses_triton,
        missing=available.missing,
    )
)
