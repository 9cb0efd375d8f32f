"""Packed weights against float64: what they hold, what they lose, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pipegraph.kernels.dispatch import KernelError
from pipegraph.kernels.hooks.modules import KernelLinear, side_paths
from pipegraph.kernels.ops.linear import LowRank, PackedWeight
from pipegraph.kernels.weights.hadamard import rotate, rotation_block
from pipegraph.kernels.weights.qweight import QWeight, int8_rows, pack_nibbles, unpack_nibbles


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


KINDS = [
    ("q8", None, None),
    ("q8", None, 64),
    ("q8", 32, None),
    ("q8", None, 2),
    ("fp8", None, None),
    ("fp8", None, 32),
    ("w4", 32, None),
    ("w4", 64, None),
    ("w4", 64, 16),
]


@pytest.mark.parametrize("block", [2, 4, 8, 16, 32, 256])
def test_rotation_is_the_kronecker_power(block: int) -> None:
    regular = torch.tensor([[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]], dtype=torch.float64) / 2
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while len(matrix) * 4 <= block:
        matrix = torch.kron(regular, matrix)
    if len(matrix) < block:
        matrix = torch.kron(torch.tensor([[1, 1], [1, -1]], dtype=torch.float64) / 2**0.5, matrix)
    x = random(3, 2 * block).double()
    want = (x.view(3, 2, block) @ matrix).view(3, 2 * block)
    torch.testing.assert_close(rotate(x, block), want)
    torch.testing.assert_close(rotate(rotate(x, block), block), x)
    assert rotate(x.half(), block).dtype == torch.float32


def test_rotation_block_divides() -> None:
    assert [rotation_block(k) for k in (3072, 384, 96, 12, 6, 7, 1024)] == [256, 128, 32, 4, None, None, 256]
    with pytest.raises(KernelError, match="divides K"):
        rotate(torch.ones(2, 12), 8)


@pytest.mark.parametrize(("format", "group", "block"), KINDS)
def test_quantize_is_near(format: str, group: int | None, block: int | None) -> None:
    weight = random(24, 128)
    weight[3] = 0
    packed = QWeight.quantize(weight, format, group=group, rotate=block)  # type: ignore[arg-type]
    assert isinstance(packed, PackedWeight) and packed.device.type == "cpu"
    got = packed.dequantize(torch.float64)
    assert got.shape == weight.shape and (got[3] == 0).all()
    error = (got - weight).norm() / weight.norm()
    assert error < {"q8": 0.009, "fp8": 0.03, "w4": 0.11}[format]
    steps = packed.codes(torch.float64) - (rotate(weight.double(), block) if block else weight)
    scale = packed.scale.double()
    if format != "fp8":  # half a step, and what float16 makes of scales and zeros
        wide = scale.repeat_interleave(group or 128, 1) if scale.ndim == 2 else scale[:, None]
        assert (steps.abs() <= wide * 0.5001 + (0.004 if format == "w4" else 0)).all()
    assert packed.nbytes < {"q8": 0.3, "fp8": 0.27, "w4": 0.16}[format] * weight.nbytes
    torch.testing.assert_close(packed.dequantize(torch.bfloat16).double(), got, rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize(("format", "group", "block"), KINDS)
def test_safetensors_round_trip(tmp_path: Path, format: str, group: int | None, block: int | None) -> None:
    packed = QWeight.quantize(random(6, 64), format, group=group, rotate=block)  # type: ignore[arg-type]
    packed = packed.with_low_rank(LowRank(random(2, 64, seed=1), random(6, 2, seed=2)))
    save_file(packed.buffers(), tmp_path / "w.safetensors", {k: str(v) for k, v in packed.meta().items()})
    again = QWeight.restore(load_file(tmp_path / "w.safetensors"), {k: str(v) for k, v in packed.meta().items()})
    assert torch.equal(again.dequantize(torch.float64), packed.dequantize(torch.float64))
    assert again.meta() == packed.meta() and again.layout == packed.layout


def test_restore_refuses() -> None:
    packed = QWeight.quantize(random(6, 64), "q8")
    buffers, meta = packed.buffers(), packed.meta()
    for bad, told in [
        ({k: v for k, v in buffers.items() if k != "scale"}, meta),
        (buffers | {"extra": torch.ones(1)}, meta),
        (buffers | {"scale": torch.ones(5)}, meta),
        (buffers | {"data": packed.data.to(torch.uint8)}, meta),
        (buffers, meta | {"format": "q9"}),
        (buffers, meta | {"k": 32}),
        (buffers, meta | {"group": 32}),
        (buffers, meta | {"rotate": 24}),
    ]:
        with pytest.raises(KernelError):
            QWeight.restore(bad, told)


def test_int8_extremes() -> None:
    rows = torch.tensor(
        [[-3.0, 3.0, 1.0], [0.0, 0.0, 0.0], [1e-40, -1e-40, 0.0], [-1e38, 1e38, 1.0], [5e-30, -1e-30, 0]]
    )
    codes, scale = int8_rows(rows)
    assert codes.min() == -127 and codes.max() == 127
    assert (scale >= torch.finfo(torch.float32).tiny).all()
    assert (codes[1:3] == 0).all() and codes[3].tolist() == [-127, 127, 0] and codes[4, 0] == 127
    noisy = random(4000, 7) * torch.rand(4000, 1) * 1e3
    assert int8_rows(noisy)[0].min() == -127


@pytest.mark.parametrize("group", [32, 64, 128])
def test_affine_codes_are_held_exactly(group: int) -> None:
    codes = torch.randint(0, 16, (5, 256), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    assert torch.equal(unpack_nibbles(pack_nibbles(codes)), codes)
    scale, zero = random(5, 256 // group, seed=2), random(5, 256 // group, seed=3)
    want = codes.double().view(5, -1, group) * scale.double()[..., None] + zero.double()[..., None]
    packed = QWeight.from_affine(codes, scale, zero)
    assert torch.equal(packed.dequantize(torch.float64), want.view(5, 256))
    halves = QWeight.from_affine(codes, scale.half(), zero.half())
    assert halves.scale.dtype == torch.float16 and halves.group == group


def test_w4_takes_sixteen_steps_from_the_least_to_the_largest() -> None:
    steps = torch.arange(32).remainder(16).float()
    rows = torch.stack([2 + 0.5 * steps, -3 - 0.25 * steps, torch.full((32,), 60001.0), torch.zeros(32)])
    packed = QWeight.quantize(rows, "w4", group=32)
    assert packed.scale.flatten().tolist() == [0.5, 0.25, 0, 0]
    assert packed.zero is not None and packed.zero.flatten().tolist() == [2, -6.75, 60000, 0]
    assert torch.equal(unpack_nibbles(packed.data)[:2].float(), torch.stack([steps, 15 - steps]))
    assert torch.equal(packed.dequantize(torch.float32), torch.cat([rows[:2], rows[2:3] - 1, rows[3:]]))


def test_w4_codes_stay_in_their_four_bits() -> None:
    """Far from 0 the least value is rounded by many steps: codes end at 0 and 15, and do not run into each other."""
    steps = torch.arange(32).remainder(16).float()
    for start in (1000.3, -1000.3, 1000.7):
        rows = (start + 0.01 * steps)[None]
        packed = QWeight.quantize(rows, "w4", group=32)
        codes = unpack_nibbles(packed.data)
        assert packed.zero is not None and {0, 15} & {int(codes.min()), int(codes.max())}
        wanted = ((rows - packed.zero) / packed.scale).round().clamp(0, 15)
        assert torch.equal(codes.float(), wanted)


def test_int8_and_fp8_files_are_held_exactly() -> None:
    data = torch.randint(-127, 128, (4, 64), generator=torch.Generator().manual_seed(1), dtype=torch.int8)
    for scale in (torch.tensor(0.5), torch.tensor([0.5]), random(4), random(4, 1), random(4, 2)):
        wide = scale.double()[:, None] if scale.ndim == 1 else scale.double()
        want = data.double() * (wide.repeat_interleave(64 // wide.shape[1], 1) if wide.ndim else wide)
        packed = QWeight.from_int8(data, scale)
        assert torch.equal(packed.dequantize(torch.float64), want)
    assert packed.group == 32
    turned = QWeight.from_int8(data, random(4), rotate=64)
    torch.testing.assert_close(rotate(turned.dequantize(torch.float64), 64), turned.codes(torch.float64))
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        values = random(4, 64).to(dtype)
        assert torch.equal(QWeight.from_fp8(values).dequantize(torch.float64), values.double())
        assert torch.equal(QWeight.from_fp8(values, torch.tensor([2.0])).dequantize(torch.float64), values.double() * 2)
        row = torch.tensor([1.0, 2, 4, 8])
        assert torch.equal(QWeight.from_fp8(values, row).dequantize(torch.float64), values.double() * row[:, None])


def test_refuses() -> None:
    weight = random(4, 40)
    calls: tuple[Callable[[], Any], ...] = (
        lambda: QWeight.quantize(weight, "w4"),
        lambda: QWeight.quantize(random(4, 64), "w4", group=16),
        lambda: QWeight.quantize(weight, "fp8", group=8),
        lambda: QWeight.quantize(weight, "q8", rotate=16),
        lambda: QWeight.quantize(weight, "q8", rotate=5),
        lambda: QWeight.quantize(weight.masked_fill(weight > 1, torch.inf), "q8"),
        lambda: QWeight.quantize(weight[0], "q8"),
        lambda: QWeight.from_int8(weight, torch.ones(4)),
        lambda: QWeight.from_int8(weight.to(torch.int8), torch.ones(3)),
        lambda: QWeight.from_fp8(weight),
        lambda: QWeight.from_affine(torch.full((2, 64), 16, dtype=torch.uint8), torch.ones(2, 2), torch.ones(2, 2)),
        lambda: QWeight.from_affine(torch.zeros(2, 64, dtype=torch.uint8), torch.ones(3, 2), torch.ones(3, 2)),
    )
    for call in calls:
        with pytest.raises(KernelError):
            call()


def test_chunks_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = random(9, 64)
    whole = QWeight.quantize(weight, "w4", group=32)
    monkeypatch.setattr("pipegraph.kernels.weights.qweight._CHUNK", 128)
    assert torch.equal(
        QWeight.quantize(weight, "w4", group=32).dequantize(torch.float32), whole.dequantize(torch.float32)
    )


def test_a_layer_holds_a_packed_weight() -> None:
    layer = nn.Linear(64, 6)
    packed = QWeight.quantize(layer.weight.detach(), "q8", rotate=64)
    KernelLinear.pack(layer, packed)
    held: Any = layer.weight
    assert held is packed
    assert [name for name, _ in layer.named_parameters()] == ["bias"]
    assert set(layer.state_dict()) == {"bias", "weight.data", "weight.scale"}
    x = random(3, 64)
    with torch.no_grad():
        plain = layer(x)
        torch.testing.assert_close(plain, x @ packed.dequantize(torch.float32).T + layer.bias, rtol=1e-5, atol=1e-5)
        low = LowRank(random(2, 64, seed=1), torch.zeros(6, 2))
        with side_paths({layer: low}):
            assert torch.equal(layer(x), plain)  # strength 0
        low = LowRank(random(2, 64, seed=1), random(6, 2, seed=2))
        with side_paths({layer: low}):
            effect = layer(x) - plain
    torch.testing.assert_close(effect, x @ (low.up @ low.down).T, rtol=1e-4, atol=1e-4)
    layer.to(torch.bfloat16)  # the codes stay as they are
    assert layer.bias.dtype == torch.bfloat16 and layer.weight.data.dtype == torch.int8
    layer.to("meta")
    moved: Any = layer.weight
    assert moved.device.type == "meta" and moved.scale.device.type == "meta"
    with pytest.raises(ValueError, match="does not fit"):
        KernelLinear.pack(nn.Linear(4, 4), packed)
