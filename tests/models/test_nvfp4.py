"""Weights in NVFP4, as ComfyUI's files have them, against the format written out number by number."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from pipegraph.models.loading.header_values import LoadError
from pipegraph.models.loading.headers import read_header
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
        "a.weight": (codes[:, ::2] * 16 + codes[:, 1::2]).to(torch.uint8),
        "a.weight_scale": stored.view(256, 8),
        "a.weight_scale_2": torch.tensor(0.25),
        "a.input_scale": torch.tensor(1.0),
        "a.comfy_quant": note,
    }
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


def quantized(weight: Tensor, tiles: bool) -> dict[str, Tensor]:
    """A matrix in NVFP4, whose scales lie in tiles or in rows."""
    rows, columns = weight.shape
    groups = weight.view(rows, -1, 16)
    outer = groups.abs().max() / (6 * 448)
    scales = (groups.abs().amax(-1) / 6 / outer).to(torch.float8_e4m3fn)
    ratio = groups / (scales.float() * outer).clamp_min(1e-9)[..., None]
    near = (ratio.abs()[..., None] - torch.tensor(VALUES)).abs().argmin(-1) + 8 * (ratio < 0)
    codes = near.view(rows, columns)
    stored = scales
    if tiles:
        tall, wide = -(-rows // 128) * 128, -(-scales.shape[1] // 4) * 4
        padded = torch.zeros(tall, wide, dtype=torch.float8_e4m3fn)
        padded[:rows, : scales.shape[1]] = scales
        stored = padded.view(tall // 128, 4, 32, wide // 4, 4).permute(0, 3, 2, 1, 4).reshape(tall, wide)
    note = torch.frombuffer(bytearray(json.dumps({"format": "nvfp4"}).encode()), dtype=torch.uint8)
    return {
        "weight": (codes[:, ::2] * 16 + codes[:, 1::2]).to(torch.uint8),
        "weight_scale": stored.contiguous(),
        "weight_scale_2": outer.clone(),
        "comfy_quant": note.clone(),
    }


def like_a_layer(rows: int, columns: int, seed: int) -> Tensor:
    """Weights whose rows have sizes of their own."""
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=g) * torch.randn(rows, 1, generator=g).mul(0.5).exp()


def error(path: Path, weights: dict[str, Tensor], tiles: bool) -> float:
    """The largest relative error of the matrices of a file."""
    save_file({f"{n}.{k}": t for n, w in weights.items() for k, t in quantized(w, tiles).items()}, path)
    pieces = pieces_of([read_header(path)])
    with Reader() as reader:
        read = {n: reader.dense(pieces[f"{n}.weight"], torch.float32) for n in weights}
    return max(float((read[n] - w).norm() / w.norm()) for n, w in weights.items())


@pytest.mark.parametrize("tiles", [True, False])
def test_shapes_tell_where_scales_lie(tmp_path: Path, tiles: bool) -> None:
    """Of 72 rows tiles are filled up; that tells it of the other layer, too, whose 128 rows are a whole tile."""
    weights = {"a": like_a_layer(128, 128, 1), "b": like_a_layer(72, 96, 2)}
    assert error(tmp_path / "a.safetensors", weights, tiles) < 0.12


def test_scales_in_rows_that_no_shape_tells_are_refused(tmp_path: Path) -> None:
    for rows, columns, seed in ((256, 256, 1), (256, 512, 2), (512, 3072, 3)):
        layer = {"a": like_a_layer(rows, columns, seed)}
        assert error(tmp_path / "a.safetensors", layer, tiles=True) < 0.12
        with pytest.raises(LoadError, match=r"the scales of `a\.weight` look as if they lay in rows"):
            error(tmp_path / "a.safetensors", layer, tiles=False)
    for seed in range(20):  # nothing is like its neighbours: nothing can be said, and nothing is refused
        noise = {"a": torch.randn(256, 256, generator=torch.Generator().manual_seed(seed))}
        assert error(tmp_path / "a.safetensors", noise, tiles=True) < 0.12


def test_layers_that_contradict_each_other(tmp_path: Path) -> None:
    weights = {
        "a": quantized(like_a_layer(72, 96, 1), tiles=True),
        "b": quantized(like_a_layer(72, 96, 2), tiles=False),
    }
    save_file({f"{n}.{k}": t for n, w in weights.items() for k, t in w.items()}, tmp_path / "a.safetensors")
    with pytest.raises(LoadError, match="some layers in NVFP4 lie in tiles, those of others in rows"):
        pieces_of([read_header(tmp_path / "a.safetensors")])


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
