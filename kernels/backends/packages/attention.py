"""Attention by other kernels: cuDNN (through torch), flash-attn, FlashInfer, SageAttention, comfy-kitchen.

Edge cases are as in ``backends.torch.attention_reference``, or not supported. Only cuDNN is chosen by rank, below
torch's own choice, until a measurement says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Final

import torch
from torch import Tensor

from pipegraph.kernels.backends.torch.attention import sdpa
from pipegraph.kernels.backends.torch.attention_reference import Result, reference
from pipegraph.kernels.dispatch import Backend, register
from pipegraph.kernels.ops.attention import Signature

from .installed import lacks, lacks_gpu

HALF: Final = (torch.float16, torch.bfloat16)


def cudnn(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Result:
    """PyTorch's fused attention with cuDNN's kernel."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return sdpa(q, k, v, **options)


def flash(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: None,
    bias: None,
    causal: bool,
    window: int | None,
    scale: float,
    softcap: float | None,
    sinks: None,
    return_lse: bool,
) -> Result:
    """flash-attn 2 (arXiv 2307.08691): (B, S, H, D), causal aligned to the last query and key as ours is."""
    from flash_attn import flash_attn_func

    if causal and not _finite(v):  # it multiplies what is hidden by 0
        return _reference(q, k, v, causal, window, scale, softcap, return_lse)
    result = flash_attn_func(
        *(t.transpose(1, 2) for t in (q, k, v)),
        softmax_scale=scale,
        causal=causal,
        softcap=softcap or 0.0,
        window_size=(-1, -1) if window is None else (window - 1, 0),
        return_attn_probs=return_lse,
    )
    out: Tensor = (result[0] if return_lse else result).transpose(1, 2)
    blind = max(0, q.shape[2] - k.shape[2]) if causal else 0  # rows that see no key
    if blind:
        out[:, :, :blind] = 0
    if not return_lse:
        return out
    lse: Tensor = result[1]
    lse[:, :, :blind] = -math.inf  # it gives +inf
    return out, lse


def flashinfer(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: None,
    bias: None,
    causal: bool,
    window: int | None,
    scale: float,
    softcap: float | None,
    sinks: None,
    return_lse: bool,
) -> Result:
    """FlashInfer's single prefill (arXiv 2501.01005), a sequence at a time: (S, H, D); log-sum-exps are in base 2."""
    from flashinfer import single_prefill_with_kv_cache

    if causal and not _finite(v):
        return _reference(q, k, v, causal, window, scale, softcap, return_lse)
    results = [
        single_prefill_with_kv_cache(
            *(t.transpose(0, 1).contiguous() for t in sequence),
            causal=causal,
            sm_scale=scale,
            return_lse=return_lse,
            window_left=-1 if window is None else window - 1,
            logits_soft_cap=softcap,
        )
        for sequence in zip(q, k, v, strict=True)
    ]
    if not return_lse:
        return torch.stack(results).transpose(1, 2)
    outs, lses = zip(*results, strict=True)
    return torch.stack(outs).transpose(1, 2), torch.stack(lses).transpose(1, 2) * math.log(2)


def sage(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, scale: float, **_: Any) -> Result:
    """SageAttention (arXiv 2411.10958): queries and keys in int8, values in fp8 or fp16."""
    from sageattention import sageattn

    out: Tensor = sageattn(*_rows_side_by_side(q, k, v), tensor_layout="HND", is_causal=causal, sm_scale=scale)
    return out


def kitchen(
    q: Tensor, k: Tensor, v: Tensor, *, mask: Tensor | None, bias: Tensor | None, scale: float, **_: Any
) -> Result:
    """comfy-kitchen's attention in int8."""
    from comfy_kitchen import int8_attention

    extra = bias if mask is None else mask
    out: Tensor = int8_attention(*_rows_side_by_side(q, k, v), scale=scale, attn_mask=extra)
    return out


def _finite(v: Tensor) -> bool:
    return bool(v.sum(dtype=torch.float32).isfinite())


def _rows_side_by_side(*tensors: Tensor) -> Iterable[Tensor]:
    return (t if t.stride(-1) == 1 else t.contiguous() for t in tensors)


def _reference(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, window: int | None, scale: float, softcap: float | None, lse: bool
) -> Result:
    return reference(q, k, v, causal=causal, window=window, scale=scale, softcap=softcap, return_lse=lse)


def _unless(s: Signature, sizes: Callable[[int], bool], *, plain: str = "") -> str:
    """Common reasons why a call is not supported.

    Args:
        s: The call.
        sizes: Whether a head size is supported.
        plain: Names of flags that are not supported.
    """
    if s.device != "cuda":
        return f"takes cuda tensors, not {s.device}"
    if s.dtype not in HALF:
        return f"takes float16 and bfloat16, not {str(s.dtype).removeprefix('torch.')}"
    if s.q[3] != s.v[3] or not sizes(s.q[3]):
        return f"does not take head sizes {s.q[3]} and {s.v[3]}"
    if not (s.q[0] and s.q[2] and s.k[2]):
        return "takes no empty batch, queries or keys"
    if unsupported := [flag for flag in plain.split() if getattr(s, flag) not in (None, False)]:
        return f"has no {', '.join(unsupported)}"
    return ""


def _refuses_cudnn(s: Signature) -> str:
    return _unless(s, lambda d: d <= 128 and d % 8 == 0, plain="lse sinks softcap")


def _refuses_flash(s: Signature) -> str:
    return _unless(s, lambda d: d <= 256 and d % 8 == 0, plain="mask bias sinks")


def _refuses_flashinfer(s: Signature) -> str:
    if s.causal and s.q[2] > s.k[2]:
        return "leaves open what rows give that see no key"
    return _unless(s, lambda d: d in (64, 128, 256), plain="mask bias sinks")


def _refuses_sage(s: Signature) -> str:
    if s.causal and s.q[2] != s.k[2]:
        return "causal needs as many queries as keys"
    return _unless(s, lambda d: d in (64, 96, 128), plain="mask bias window lse softcap sinks")


def _refuses_kitchen(s: Signature) -> str:
    if s.mask and s.bias:
        return "takes a mask or a bias, not both"
    return _unless(s, lambda d: d <= 256, plain="causal window lse softcap sinks")


for name, fn, rank, refuses, package, least in (
    ("flash-attn", flash, 8.0, _refuses_flash, "flash-attn", "2.6"),
    ("flashinfer", flashinfer, 7.0, _refuses_flashinfer, "flashinfer-python", "0.2"),
    ("sage", sage, 20.0, _refuses_sage, "sageattention", "2.0"),
    ("comfy-kitchen", kitchen, 15.0, _refuses_kitchen, "comfy-kitchen", "0.2"),
):
    register(
        Backend(
            "attention",
            name,
            fn,
            rank=lambda s, rank=rank: rank,  # type: ignore[misc]
            refuses=refuses,
            missing=lambda package=package, least=least: lacks(package, least),  # type: ignore[misc]
            numerics="reduced" if name in ("sage", "comfy-kitchen") else "exact",
            source=package,
        )
    )
register(Backend("attention", "cudnn", cudnn, rank=lambda s: 9, refuses=_refuses_cudnn, missing=lambda: lacks_gpu()))
