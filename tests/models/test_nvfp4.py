"""Weights in NVFP4, as ComfyUI's files have them, against the format written out number by number."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from pipegraph.models.loading.headers import LoadError, read_header
from pipegraph.models.loading.quantized import pieces_of
from pipegraph.models.loading.reading import Reader

VALUES = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
SHAPE = (136, 80)


def packed(seed: int = 0) -> tuple[dict[str, Tensor], Tensor]:
    """The tensors of a layer, and what it stands for."""
    g = torch.Generator().manual_seed(seed)
    rows, columns = SHAPE
    codes = torch.randint(0, 16, SHAPE, generator=g)
    scales = torch.rand(rows, columns // 16, generator=g).mul(3).to(torch.float8_e4m3fn)
    signs = torch.where(codes >= 8, -1.0, 1.0)
    meant = signs * torch.tensor(VALUES)[codes % 8] * scales.float().repeat_interleave(16, 1) * 0.25
    stored = torch.zeros(256 * 8, dtype=torch.float8_e4m3fn)
    for r in range(rows):  # tiles of 128 x 4, row by row; in a tile rows r, r + 32, r + 64 and r + 96 lie together
        for c in range(columns // 16):
            stored[((r // 128 * 2 + c // 4) * 512) + r % 32 * 16 + r % 128 // 32 * 4 + c % 4] = scales[r, c]
    note = torch.frombuffer(bytearray(json.dumps({"format": "nvfp4"}).encode()), dtype=torch.uint8)
    tensors = {
        "a.weight": (codes[:, ::2] * 16 + codes[:, 1::2]).to(torch.uint8), "a.weight_scale": stored.view(256, 8),
        "a.weight_scale_2": torch.tensor(0.25), "a.input_scale": torch.tensor(1.0), "a.comfy_quant": note,
    }  # fmt: skip
    return tensors, meant


def test_every_number(tmp_path: Path) -> None:
    tensors, meant = packed()
    save_file(tensors, tmp_path / "a.safetensors")
    found = pieces_of([read_header(tmp_path / "a.safetensors")])
    assert list(found) == ["a.weight"]
    piece = found["a.weight"]
    assert piece.shape == SHAPE
    with Reader() as reader:
        weight = reader.packed(piece)
        assert weight is not None and torch.equal(weight.dequantize(torch.float32), meant)
        assert torch.equal(reader.dense(piece, torch.bfloat16), meant.bfloat16())
        assert torch.equal(reader.dense(piece.rows(40, 64), torch.float32), meant[40:104])
        assert torch.equal(reader.dense(piece.swapped(), torch.float32), torch.cat([meant[68:], meant[:68]]))
        assert torch.equal(torch.cat([*reader.passing(replace(piece))]), meant)


@pytest.mark.parametrize("broken", ["weight_scale", "weight_scale_2", "shape"])
def test_what_lacks_is_told(tmp_path: Path, broken: str) -> None:
    tensors, _ = packed()
    if broken == "shape":
        tensors["a.weight_scale"] = tensors["a.weight_scale"][:128].contiguous()
    else:
        del tensors[f"a.{broken}"]
    save_file(tensors, tmp_path / "a.safetensors")
    with pytest.raises(LoadError, match=r"layer `a` (is in NVFP4, which needs|should be in NVFP4; its weight is U8)"):
        pieces_of([read_header(tmp_path / "a.safetensors")])
