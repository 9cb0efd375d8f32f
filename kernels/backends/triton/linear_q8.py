"""8-bit x times 8-bit weights (int8 or fp8), as ``backends.torch.linear.w8a8`` defines it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from pipegraph.kernels.backends.torch.linear import joined
from pipegraph.kernels.weights.linear_values import Activation, LowRank
from pipegraph.kernels.weights.qweight import QWeight

from .available import architecture
from .configs_linear import bytes_config
from .linear_parts import finish, flat, launch, prepare, tile_of
from .quantize import quantize_rows


@triton.jit(do_not_specialize=["m", "gate_rows"])
def linear_bytes(
    X, W, SX, SW, OUT, som, BIAS, H, shm, U, sun, r, GATE, sgm, gate_rows, RES, srm, m, n, k, sxm, swn, ssw,
    FP8: tl.constexpr, ACT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BR: tl.constexpr,
    BAND: tl.constexpr, EVEN: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One tile of act(x W^T * sx * sw + H U^T + bias) * gate + residual; int8 is summed in int32, exactly."""
    i, j = tile_of(tl.program_id(0), m, n, BM, BN, BAND)
    rows = i * BM + tl.arange(0, BM)
    columns = j * BN + tl.arange(0, BN)
    row = (rows % m).to(tl.int64)
    column = (columns % n).to(tl.int64)
    step = tl.arange(0, BK)
    x_at = X + row[:, None] * sxm + step[None, :]
    w_at = W + column[None, :] * swn + step[:, None]
    acc = tl.zeros([BM, BN], dtype=tl.float32 if FP8 else tl.int32)
    for k0 in tl.range(0, k, BK, num_stages=STAGES):
        if EVEN:
            x = tl.load(x_at + k0)
            w = tl.load(w_at + k0)
        elif FP8:
            x = tl.load(x_at + k0, mask=(step < k - k0)[None, :], other=0.0)
            w = tl.load(w_at + k0, mask=(step < k - k0)[:, None], other=0.0)
        else:
            x = tl.load(x_at + k0, mask=(step < k - k0)[None, :], other=0)
            w = tl.load(w_at + k0, mask=(step < k - k0)[:, None], other=0)
        if FP8:  # Hopper sums 8-bit floats in fewer bits: carry over to float32 every 128 columns
            acc = tl.dot(x, w, acc, max_num_imprecise_acc=128 if BK > 128 else BK)
        else:
            acc = tl.dot(x, w, acc, out_dtype=tl.int32)
    y = acc.to(tl.float32) * tl.load(SX + row)[:, None] * tl.load(SW + column * ssw).to(tl.float32)[None, :]
    finish(y, rows, columns, m, n, OUT, som, BIAS, H, shm, U, sun, r, GATE, sgm, gate_rows, RES, srm, ACT, BR)


def linear(
    x: Tensor,
    weight: QWeight,
    bias: Tensor | None,
    low_rank: LowRank | None,
    act: Activation | None,
    gate: Tensor | None,
    residual: Tensor | None,
) -> Tensor:
    """The op ``linear`` with 8-bit inputs."""
    n, k = weight.shape
    fp8 = weight.data.dtype != torch.int8
    data, scale = quantize_rows(flat(x), "fp8" if fp8 else "int8", weight.rotate)
    m = len(data)
    config = bytes_config(architecture(), m)
    end = prepare(x, n, bias, joined(weight, low_rank), gate, residual)
    launch(
        linear_bytes, (triton.cdiv(m, config.rows) * triton.cdiv(n, config.columns),), data, weight.data, scale,
        weight.scale, *end, m, n, k, data.stride(0), weight.data.stride(0),
        weight.scale.stride(0) if weight.scale.ndim else 0, FP8=fp8, ACT=act, BM=config.rows, BN=config.columns,
        BK=config.depth, BR=16, BAND=config.band, EVEN=k % config.depth == 0, STAGES=config.stages,
        warps=config.warps,
    )  # fmt: skip
    return end.out.view(*x.shape[:-1], n)
