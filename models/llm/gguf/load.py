"""Language models in GGUF files: weights stay packed; tokenizer and chat template come from the file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from pipegraph.kernels.weights.gguf_blocks import LAYOUTS, GgufWeight
from pipegraph.kernels.weights.qweight import QWeight

from ...loading.filling import Filling, Plain, Stored, Weight, owner, pack_all
from ...loading.header_values import Header
from ...loading.headers import read_header
from ...loading.lock import imported
from ...loading.pieces import Piece
from ...loading.reading import Reader
from ...loading.transformers_networks import empty_network, fill_named
from ...quantize import count_bytes
from ..llm import LLM
from ..network.experts import PARTS
from .architectures import FACTORS, Architecture, architecture_of, config_of, name_of
from .tokenizer import gguf_tokenizer

_FAST: Final = ("Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K")
"""Formats that convert to ``QWeight`` without loss, in groups that the CPU's gemv kernel reads."""


class PackedEmbedding(nn.Module):
    """Embedding over a packed matrix; rows are dequantized when looked up."""

    def __init__(self, weight: GgufWeight, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.register_buffer("data", weight.data, persistent=False)
        self.kind, self.dtype = weight.kind, torch.float32

    @property
    def weight(self) -> GgufWeight:
        return GgufWeight(self.data, self.kind)  # type: ignore[arg-type]

    def forward(self, ids: Tensor) -> Tensor:
        """Embed ids (...) to (..., K)."""
        rows = GgufWeight(self.data[ids.flatten()], self.kind)  # type: ignore[index]
        embedded = rows.dequantize(self.dtype).view(*ids.shape, -1)
        return (
            embedded
            if self.scale == 1
            else embedded * torch.tensor(self.scale, dtype=self.dtype, device=embedded.device)
        )


def load_gguf(path: Path, device: torch.device, dtype: torch.dtype, *, name: str = "", mapped: bool = False) -> LLM:
    """A language model from a GGUF file.

    Args:
        path: The file.
        device: Device of the weights.
        dtype: Dtype of the computation.
        name: Name in errors and records.
        mapped: Leave all packed weights memory-mapped. Else they are repacked without loss, if the format allows it,
            for the kernels of one-token decoding.

    Raises:
        LoadError: an unknown architecture or tensor, or a missing tensor.
    """
    header = read_header(path)
    architecture = architecture_of(header)
    tokenizer = gguf_tokenizer(header.metadata, str(path))
    network = _empty(header, architecture, dtype)
    stored = _stored(header, architecture, network)
    how = Filling(
        origin=path,
        label=type(network).__name__,
        device=device,
        dtype=dtype,
        place=partial(_placed, mapped=mapped),
        embed=partial(_embed, dtype=dtype, device=device),
    )
    pack_all(network, fill_named(network, stored, (), (), how))
    if FACTORS[0] in header.tensors:
        with Reader() as reader:
            network.model.rotary_emb.inv_freq /= reader.dense(_pieces(header)[FACTORS[0]], torch.float32).to(device)
    count_bytes(network)
    return LLM.of(network, tokenizer, name or str(header.metadata.get("general.name") or path.stem))


def _empty(header: Header, architecture: Architecture, dtype: torch.dtype) -> Any:
    """The network on the meta device; mixtures of experts with one linear layer per kind of matrix."""
    cls = imported(f"transformers:{architecture.network}")
    config = cls.config_class(**config_of(header))
    if FACTORS[1] in header.tensors:
        with Reader() as reader:
            for name in FACTORS[1:]:
                key = name.removeprefix("rope_factors_").replace(".weight", "_factor")
                config.rope_parameters[key] = reader.dense(_pieces(header)[name], torch.float32).tolist()
    network = empty_network(cls, config, dtype)
    for path, part in list(network.named_modules()):
        if path.endswith(".experts"):
            _split_experts(part, dtype)
    return network


def _split_experts(layer: Any, dtype: torch.dtype) -> None:
    """Replace the weights of a mixture by one linear layer per kind, the experts' matrices stacked by rows."""
    for name in PARTS:
        rows, width = layer.intermediate_dim, layer.hidden_dim
        rows, width = (width, rows) if name == "down" else (rows, width)
        layer.add_module(name, nn.Linear(width, layer.num_experts * rows, bias=False, device="meta", dtype=dtype))
    for name in ("gate_up_proj", "down_proj"):
        layer._parameters.pop(name, None)


def _stored(header: Header, architecture: Architecture, network: Any) -> dict[str, Stored]:
    """The tensors of a file by transformers' names."""
    stored: dict[str, Stored] = {}
    for key, piece in _pieces(header).items():
        if key in FACTORS:
            continue
        name = name_of(key, architecture, header.path)
        heads = _heads(name, network.config) if architecture.permuted else 0
        if ".experts." in name:
            piece = replace(piece, shape=(prod(piece.shape[:-1]), piece.shape[-1]))
        if architecture.norm_plus_one and name.endswith("norm.weight"):
            stored[name] = _MinusOne(piece)
        else:
            stored[name] = _Permuted(piece, heads) if heads else Plain(piece)
    return stored


def _pieces(header: Header) -> dict[str, Piece]:
    """The tensors of a file by GGUF's names."""
    return {name: Piece(header.path, name, e.shape, e.dtype, e.begin) for name, e in header.tensors.items()}


def _heads(name: str, config: Any) -> int:
    """Heads of a q or k projection, whose rows llama.cpp permutes; else 0."""
    if ".q_proj." in name:
        return int(config.num_attention_heads)
    return int(config.num_key_value_heads) if ".k_proj." in name else 0


def _unpermuted(rows: Tensor, heads: int) -> Tensor:
    """Rows of q or k, (N, ...), from interleaved RoPE order to rotate-half order; works on packed rows."""
    return rows.view(heads, len(rows) // heads // 2, 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)


@dataclass(frozen=True, slots=True)
class _Permuted(Plain):
    """A q or k projection whose rows llama.cpp permutes."""

    heads: int

    def packed(self, reader: Reader) -> Weight | None:
        weight = reader.packed(self.piece)
        assert weight is None or isinstance(weight, GgufWeight)
        return weight and GgufWeight(_unpermuted(weight.data, self.heads), weight.kind)

    def rows(self, reader: Reader) -> Iterator[Tensor]:
        yield self.dense(reader, torch.float32)

    def dense(self, reader: Reader, dtype: torch.dtype) -> Tensor:
        return _unpermuted(reader.dense(self.piece, dtype), self.heads)


class _MinusOne(Plain):
    """A norm weight stored as 1 + weight."""

    def dense(self, reader: Reader, dtype: torch.dtype) -> Tensor:
        return (reader.dense(self.piece, torch.float32) - 1).to(dtype)


def _embed(network: nn.Module, name: str, weight: Weight, *, dtype: torch.dtype, device: torch.device) -> None:
    """Replace an embedding by one over packed blocks."""
    assert isinstance(weight, GgufWeight)
    layer, _ = owner(network, name)
    packed = PackedEmbedding(weight, getattr(layer, "scalar_embed_scale", 1.0))  # Gemma's
    packed.dtype = dtype
    network.set_submodule(name.removesuffix(".weight"), packed.to(device))


def _placed(weight: Weight, device: torch.device, *, mapped: bool) -> Weight:
    return (_repacked(weight, mapped) if isinstance(weight, GgufWeight) else weight).to(device)


def _repacked(weight: GgufWeight, mapped: bool) -> Weight:
    """A packed weight in the format for one-token decoding, unless it stays mapped."""
    if mapped or weight.kind not in _FAST:
        return weight
    if weight.kind not in ("Q4_0", "Q4_1"):
        return weight.to_qweight()
    rows, width = weight.shape
    blocks = weight.data.view(rows, -1, LAYOUTS[weight.kind].bytes)
    scale = blocks[..., :2].contiguous().view(torch.float16).view(rows, -1)
    if weight.kind == "Q4_1":
        zero, codes = blocks[..., 2:4].contiguous().view(torch.float16).view(rows, -1), blocks[..., 4:]
    else:
        zero, codes = (-8 * scale.float()), blocks[..., 2:]
        scale = scale.float()
    return QWeight("w4", (rows, width), codes.reshape(rows, width // 2), scale, zero, 32)
