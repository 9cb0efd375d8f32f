"""Gated activations, a stretch of a row a program."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from .configs_linear import row_warps
from .linear_parts import activate, flat, launch


@triton.jit
def gated_kernel(GATE, VALUE, OUT, n, parts, sgm, svm, ACT: tl.constexpr, BN: tl.constexpr):
    """BN elements of act(gate) * value; a row has ``parts`` such stretches."""
    pid = tl.program_id(0)
    row = (pid // parts).to(tl.int64)
    column = pid % parts * BN + tl.arange(0, BN)
    inside = column < n
    gate = tl.load(GATE + row * sgm + column, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(VALUE + row * svm + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(OUT + row * n + column, (activate(gate, ACT) * value).to(OUT.dtype.element_ty), mask=inside)


def gated(gate: Tensor, value: Tensor, act: str) -> Tensor:
    """The ops ``swiglu`` (silu) and ``geglu`` (gelu, gelu_tanh)."""
    out = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    gates, values = flat(gate), flat(value)
    m, n = gates.shape
    wide = min(2048, max(16, triton.next_power_of_2(n)))
    parts = triton.cdiv(n, wide)
    launch(
        gated_kernel,
        (m * parts,),
        gates,
        values,
        out,
        n,
        parts,
        gates.stride(0),
        values.stride(0),
        ACT=act,
        BN=wide,
        warps=row_warps(wide),
    )
    return out
