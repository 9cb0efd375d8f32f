"""GGUF's block formats: unpacked bit for bit as ggml's reference package does, and held by QWeight without loss."""

from typing import Any

import gguf
import numpy as np
import pytest
import torch
from torch import Tensor

from pipegraph.kernels.ops.linear import LowRank, PackedWeight, linear
from pipegraph.kernels.weights.gguf_blocks import LAYOUTS, GgufWeight

HALVES = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
}
"""Where the float16 numbers of a block lie: all other bytes of a block may be anything."""


def random_weight(kind: str, rows: int = 5, blocks: int = 3, seed: int = 0) -> GgufWeight:
    """Random blocks that are valid: every byte drawn, the scales finite and of both signs."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (rows, blocks, LAYOUTS[kind].bytes), dtype=np.uint8)
    for at in HALVES[kind]:
        halves = rng.normal(0, 0.02, (rows, blocks, 1)).astype(np.float16)
        data[..., at : at + 2] = halves.view(np.uint8)
    return GgufWeight(torch.from_numpy(data.reshape(rows, blocks * LAYOUTS[kind].bytes)), kind)


def reference(weight: GgufWeight) -> Tensor:
    kind = gguf.GGMLQuantizationType[weight.kind]
    return torch.from_numpy(gguf.dequantize(weight.data.numpy(), kind))


def test_sizes_are_those_of_the_reference_package() -> None:
    for kind, layout in LAYOUTS.items():
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[kind]] == (layout.block, layout.bytes)


@pytest.mark.parametrize("kind", LAYOUTS)
def test_bit_equal_to_the_reference_package(kind: str, monkeypatch: Any) -> None:
    weight = random_weight(kind)
    assert isinstance(weight, PackedWeight) and weight.shape == (5, 3 * LAYOUTS[kind].block)
    assert torch.equal(weight.dequantize(torch.float32).view(torch.int32), reference(weight).view(torch.int32))
    assert torch.equal(weight.dequantize(torch.bfloat16), reference(weight).bfloat16())
    monkeypatch.setattr("pipegraph.kernels.weights.gguf_blocks._CHUNK", 2 * weight.shape[1])  # 5 rows are 2 + 2 + 1
    assert torch.equal(weight.dequantize(torch.float32), reference(weight))


@pytest.mark.parametrize("kind", LAYOUTS)
def test_as_qweight(kind: str) -> None:
    weight = random_weight(kind)
    assert weight.exact == (kind not in ("Q5_1", "Q2_K", "Q5_K"))
    if not weight.exact:
        with pytest.raises(ValueError, match=f"{kind} has values that a QWeight cannot hold"):
            weight.to_qweight()
        return
    packed = weight.to_qweight()
    assert packed.format == ("w4" if kind in ("Q4_0", "Q4_1", "Q4_K") else "q8") and packed.shape == weight.shape
    assert torch.equal(packed.dequantize(torch.float32), reference(weight))


def test_what_ggml_quantized() -> None:
    """Real values, not only random bytes: quantized by the reference package, unpacked by us."""
    true = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
    for kind, bound in (("Q4_0", 0.1), ("Q4_1", 0.08), ("Q5_0", 0.05), ("Q5_1", 0.04), ("Q8_0", 0.006)):
        data = gguf.quantize(true.numpy(), gguf.GGMLQuantizationType[kind])
        found = GgufWeight(torch.from_numpy(data), kind).dequantize(torch.float32)
        assert (found - true).norm() / true.norm() < bound


def test_empty_and_wrong_bytes() -> None:
    assert random_weight("Q4_K", rows=0).dequantize(torch.float32).shape == (0, 768)
    with pytest.raises(ValueError, match=r"Q8_0: rows are whole blocks of 34 bytes in uint8, not \[2, 33\]"):
        GgufWeight(torch.zeros(2, 33, dtype=torch.uint8), "Q8_0")


@pytest.mark.parametrize("kind", ["Q4_0", "Q8_0", "Q4_K", "Q6_K"])
def test_linear_with_a_side_path(kind: str) -> None:
    weight, draw = random_weight(kind), torch.Generator().manual_seed(1)
    n, k = weight.shape
    x, bias = torch.randn(2, 7, k, generator=draw), torch.randn(n, generator=draw)
    low = LowRank(torch.randn(3, k, generator=draw), torch.randn(n, 3, generator=draw))
    true = x.double() @ (reference(weight).double() + low.up.double() @ low.down.double()).T + bias
    found = linear(x, weight, bias, low_rank=low)
    assert (found - true).norm() / true.norm() < 1e-6
