"""Language models in GGUF files: weights stay in their 4 or 8 bits, tokenizer and chat template come from the file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, nn

from pipegraph.kernels.gguf_blocks import LAYOUTS, GgufWeight
from pipegraph.kernels.linear import PackedWeight
from pipegraph.kernels.modules import KernelLinear
from pipegraph.kernels.qweight import QWeight

from ..loading.headers import Header, LoadError, read_header
from ..loading.pieces import Piece
from ..loading.reading import Reader
from ..quantize import count_bytes
from .experts import PARTS
from .gguf_families import FACTORS, TOP, Family, config_of, family_of
from .gguf_tokenizer import gguf_tokenizer
from .llm import LLM

_FAST: Final = ("Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K")
"""Formats that ``QWeight`` holds exactly, in groups that the CPU's kernel for a few rows reads."""


class PackedEmbedding(nn.Module):
    """Rows of a packed matrix, unpacked as they are looked up."""

    def __init__(self, weight: GgufWeight, scale: float = 1.0) -> None:
        super().__init__()
        self.scale = scale
        self.register_buffer("data", weight.data, persistent=False)
        self.kind, self.dtype = weight.kind, torch.float32

    @property
    def weight(self) -> GgufWeight:
        return GgufWeight(self.data, self.kind)  # type: ignore[arg-type]

    def forward(self, ids: Tensor) -> Tensor:
        """(...) -> (..., K)"""
        rows = GgufWeight(self.data[ids.flatten()], self.kind)  # type: ignore[index]
        found = rows.dequantize(self.dtype).view(*ids.shape, -1)
        return found if self.scale == 1 else found * torch.tensor(self.scale, dtype=self.dtype, device=found.device)


def load_gguf(path: Path, device: torch.device, dtype: torch.dtype, *, name: str = "", mapped: bool = False) -> LLM:
    """A language model from a GGUF file.

    Args:
        path: The file.
        device: Where it is to lie.
        dtype: What it computes in.
        name: What it is called in errors and records.
        mapped: Leave all packed weights in the mapped file. Else those whose format allows it are brought, with the
            same bits and without loss, into the order that the kernels of one-token decoding read.

    Raises:
        LoadError: an architecture or a tensor that is not known, or one that is missing.
    """
    header = read_header(path)
    family_of(header)
    tokenizer = gguf_tokenizer(header.metadata, str(path))
    network = _empty(header)
    _fill(network, header, dtype, mapped)
    if device.type != "cpu":
        network.to(device)
    count_bytes(network)
    return LLM.of(network, tokenizer, name or str(header.metadata.get("general.name") or path.stem))


def _empty(header: Header) -> Any:
    """The network without memory for its weights, but with its table of positions."""
    import transformers

    cls = getattr(transformers, family_of(header).network)
    config = cls.config_class(**config_of(header))
    if FACTORS[1] in header.tensors:
        with Reader() as reader:
            for name in FACTORS[1:]:
                key = name.removeprefix("rope_factors_").replace(".weight", "_factor")
                config.rope_parameters[key] = reader.dense(_pieces(header)[name], torch.float32).tolist()
    with torch.device("meta"):
        network = cls(config)
    rotary = network.model.rotary_emb
    network.model.rotary_emb = type(rotary)(config=network.config)
    return network


def _fill(network: Any, header: Header, dtype: torch.dtype, mapped: bool) -> None:
    """Give the network its tensors."""
    pieces, family = _pieces(header), family_of(header)
    factors, *_ = (pieces.pop(name, None) for name in FACTORS)
    named = {_name(name, family, header.path): piece for name, piece in pieces.items()}
    mixtures = {path: part for path, part in network.named_modules() if path.endswith(".experts")}
    experts = {path: {x: named.pop(f"{path}.{x}.weight", None) for x in PARTS} for path in mixtures}
    wanted = {n: p for n, p in network.named_parameters() if n.rpartition(".")[0] not in mixtures}
    tied = network.config.tie_word_embeddings
    if tied:
        wanted.pop("lm_head.weight", None)
    missing = wanted.keys() - named.keys()
    missing |= {f"{path}.{x}" for path, parts in experts.items() for x, piece in parts.items() if piece is None}
    if missing:
        raise LoadError(f"{header.path}: tensors are missing: {', '.join(sorted(missing)[:5])}")
    if extra := named.keys() - wanted.keys():
        raise LoadError(f"{header.path}: tensors have no place in {type(network).__name__}: {sorted(extra)[:5]}")
    with Reader() as reader:
        for name, piece in named.items():
            if piece.shape != tuple(wanted[name].shape):
                raise LoadError(f"{header.path}: `{name}` is {list(piece.shape)}, not {list(wanted[name].shape)}")
            if family.shifted and name.endswith("norm.weight"):
                value: Tensor | GgufWeight = (reader.dense(piece, torch.float32) - 1).to(dtype)
            else:
                value = _read(reader, piece, dtype, _heads(name, network.config) if family.turned else 0)
            _put(network, name, value, dtype, mapped)
        for path, parts in experts.items():
            for x, matrices in parts.items():
                assert matrices is not None
                _put_experts(mixtures[path], x, matrices, reader, dtype, mapped)
        if factors is not None:
            network.model.rotary_emb.inv_freq /= reader.dense(factors, torch.float32)
    if tied:
        weight = network.model.embed_tokens.weight
        if isinstance(weight, GgufWeight):
            KernelLinear.pack(network.lm_head, _kept(weight, mapped))
        else:
            network.lm_head.weight = weight


def _pieces(header: Header) -> dict[str, Piece]:
    """Where the tensors of a file lie."""
    return {name: Piece(header.path, name, e.shape, e.dtype, e.begin) for name, e in header.tensors.items()}


def _name(name: str, family: Family, path: Path) -> str:
    """A tensor's name in transformers."""
    stem, _, leaf = name.rpartition(".")
    layer = re.fullmatch(r"blk\.(\d+)\.(\w+)", stem)
    inner = family.names.get(layer[2]) if layer else None
    whole = f"model.layers.{layer[1]}.{inner}" if layer and inner else TOP.get(stem)
    if whole is None:
        raise LoadError(f"{path}: the tensor `{name}` is not known; layers have {', '.join(family.names)}")
    return f"{whole}.{leaf}"


def _heads(name: str, config: Any) -> int:
    """Heads of a projection whose rows llama.cpp stores in another order, else 0."""
    if ".q_proj." in name:
        return int(config.num_attention_heads)
    return int(config.num_key_value_heads) if ".k_proj." in name else 0


def _in_order(rows: Tensor, heads: int) -> Tensor:
    """Rows of q or k, (N, ...), from the order of pairs that llama.cpp rotates to that of halves. Packed rows, too."""
    return rows.view(heads, len(rows) // heads // 2, 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)


def _read(reader: Reader, piece: Piece, dtype: torch.dtype, heads: int) -> Tensor | GgufWeight:
    packed = reader.packed(piece)
    if isinstance(packed, GgufWeight):
        return GgufWeight(_in_order(packed.data, heads), packed.kind) if heads else packed
    dense = reader.dense(piece, dtype)
    return _in_order(dense, heads) if heads else dense


def _put(network: nn.Module, name: str, value: Tensor | GgufWeight, dtype: torch.dtype, mapped: bool) -> None:
    path, _, leaf = name.rpartition(".")
    owner = network.get_submodule(path)
    scale = getattr(owner, "scalar_embed_scale", 1.0)  # Gemma's
    if isinstance(value, Tensor):
        owner._parameters[leaf] = nn.Parameter(value, requires_grad=False)
        if scale != 1:
            owner.embed_scale = torch.tensor(scale)
    elif isinstance(owner, nn.Linear):
        KernelLinear.pack(owner, _kept(value, mapped))
    elif isinstance(owner, nn.Embedding):
        made = PackedEmbedding(value, scale)
        made.dtype = dtype
        network.set_submodule(path, made)
    else:
        owner._parameters[leaf] = nn.Parameter(value.dequantize(dtype), requires_grad=False)


def _put_experts(layer: Any, name: str, piece: Piece, reader: Reader, dtype: torch.dtype, mapped: bool) -> None:
    """Give a mixture the matrices of all its experts, one below the other in a layer of its own."""
    experts, inner, width = layer.num_experts, layer.intermediate_dim, layer.hidden_dim
    shape = (experts, width, inner) if name == "down" else (experts, inner, width)
    if piece.shape != shape:
        raise LoadError(f"{piece.file}: `{piece.key}` is {list(piece.shape)}, not {list(shape)}")
    rows = replace(piece, shape=(shape[0] * shape[1], shape[2]))
    with torch.device("meta"):
        made = nn.Linear(shape[2], shape[0] * shape[1], bias=False)
    value = _read(reader, rows, dtype, 0)
    if isinstance(value, Tensor):
        made.weight = nn.Parameter(value, requires_grad=False)
    else:
        KernelLinear.pack(made, _kept(value, mapped))
    layer.add_module(name, made)
    layer._parameters.pop("down_proj" if name == "down" else "gate_up_proj", None)


def _kept(weight: GgufWeight, mapped: bool) -> PackedWeight:
    """A packed weight as it stays in memory."""
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
