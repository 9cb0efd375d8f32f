"""8-bit weights times 8-bit inputs by torch's own products: ``torch._scaled_mm`` (fp8) and ``torch._int_mm`` (int8)."""

from __future__ import annotations

import torch
from torch import Tensor

from pipegraph.kernels.backends.torch.linear import finish, joined, refuses_w8a8
from pipegraph.kernels.backends.triton import available
from pipegraph.kernels.dispatch import Backend, register
from pipegraph.kernels.ops.quantize_rows import quantize_rows
from pipegraph.kernels.weights.linear_values import Activation, LowRank, Signature
from pipegraph.kernels.weights.qweight import QWeight


def scaled_mm(
    x: Tensor,
    weight: QWeight,
    bias: Tensor | None,
    low_rank: LowRank | None,
    act: Activation | None,
    gate: Tensor | None,
    residual: Tensor | None,
) -> Tensor:
    """As ``backends.torch.linear.w8a8`` defines it, the product of fp8 rounded to bfloat16."""
    n, k = weight.shape
    rows = quantize_rows(x.reshape(-1, k), "int8" if weight.format == "q8" else "fp8", rotate=weight.rotate)
    scale = weight.scale.float().expand(n).contiguous()  # one for all, too
    if weight.format == "q8":
        y = (torch._int_mm(rows.data, weight.data.T) * rows.scale[:, None] * scale).to(x.dtype)
    else:
        y = torch._scaled_mm(rows.data, weight.data.T, rows.scale[:, None], scale[None], out_dtype=torch.bfloat16)
    y = y.reshape(*x.shape[:-1], n)
    if bias is not None:
        y = y + bias.to(y)
    if (low := joined(weight, low_rank)) is not None:
        y = y + (x @ low.down.to(x).T) @ low.up.to(x).T
    return finish(y, act, gate, residual)


def without_fp8() -> str:
    """Why the current device, or the ahead-of-time target, has no product of e4m3fn, or an empty string."""
    if not available.AHEAD.get() and not torch.cuda.is_available():
        return "no CUDA device"
    return available.without_e4m3()


def _refuses(s: Signature) -> str:
    if reason := refuses_w8a8(s):
        return reason
    if s.device not in ("cuda", "cpu"):
        return f"takes cuda and cpu tensors, not {s.device}"
    if s.weight[0] % 16 or s.weight[1] % 16:
        return "needs rows and columns of the weight in multiples of 16"
    if s.format == "fp8":
        if s.dtype != torch.bfloat16:
            return "gives bfloat16 only"
        return (without_fp8() if s.device == "cuda" else "") or ("" if s.rows else "needs rows")
    return "" if s.rows > 16 else "int8 needs more than 16 rows"


register(
    Backend(
        "linear",
        "scaled-mm",
        scaled_mm,
        rank=lambda s: 12 if s.device == "cuda" else -1,  # on a CPU it works, slowly
        refuses=_refuses,
        numerics="reduced",
    )
)
