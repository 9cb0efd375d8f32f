"""Which layer of a diffusers or transformers network the spellings of LoRA files mean.

Wan's, HunyuanVideo's, LTX's and MiniMax-H3's names are those of their original layouts (``loading/wan.py``,
``loading/hunyuan.py``, ``loading/ltx2.py``, ``loading/minimax.py``). Torch-free to import.

The FLUX names follow from black-forest-labs/flux (src/flux/model.py, modules/layers.py) and diffusers'
FluxTransformer2DModel, whose layers are the same matrices, split where FLUX has q, k and v in one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..loading import hunyuan, ltx2, minimax, wan
from ..loading.flux import TOP

if TYPE_CHECKING:
    from torch import nn


class Target(NamedTuple):
    """Rows of a file's ``up`` that belong to one layer, in the layer's order of outputs."""

    layer: str
    rows: tuple[slice, ...]


def targets(network: nn.Module) -> dict[str, tuple[Target, ...]]:
    """Every spelling (dots as underscores) of every linear layer of a network, and what it stands for."""
    from torch import nn

    return spellings({name: m.out_features for name, m in network.named_modules() if isinstance(m, nn.Linear)})


def spellings(widths: dict[str, int]) -> dict[str, tuple[Target, ...]]:
    """The same from the names and output features of the linear layers."""
    found: dict[str, tuple[Target, ...]] = {}
    for name, width in widths.items():
        for spelling in (name, _text_model(name)):
            found[spelling.replace(".", "_")] = (Target(name, (slice(0, width),)),)
    for spelling, layers in _flux(widths):
        found[spelling.replace(".", "_")] = tuple(_consecutive(layers, widths))
    if "condition_embedder.time_proj" in widths:
        for name, width in widths.items():
            if original := wan.original_name(f"{name}.weight").removesuffix(".weight"):
                found[original.replace(".", "_")] = (Target(name, (slice(0, width),)),)
    if "time_embed.linear" in widths:  # LTX-Video and LTX-2
        for name, width in widths.items():
            found[ltx2.original_name(name).replace(".", "_")] = (Target(name, (slice(0, width),)),)
    if "audio_proj_in" in widths and "time_embed.linear" not in widths:  # MiniMax-H3
        for name, width in widths.items():
            spelling = minimax.original_name(name).replace(".", "_")
            if name.endswith(".attn.to_q"):
                three = tuple(f"{name[:-1]}{which}" for which in "qkv")
                found[spelling] = tuple(_consecutive(three, widths))
            elif not name.endswith((".attn.to_k", ".attn.to_v")):
                swapped = (slice(width // 2, width), slice(0, width // 2))
                found[spelling] = (Target(name, swapped if spelling.endswith("fc1") else (slice(0, width),)),)
    if "context_embedder.proj_in" in widths:
        for spelling, layers in hunyuan.original_layers(widths):
            found[spelling.replace(".", "_")] = tuple(_consecutive(layers, widths))
    for outer, inner in (("final_layer.adaLN_modulation.1", "norm_out.linear"),):
        if inner in widths:  # FLUX has shift before scale, diffusers scale before shift
            half = widths[inner] // 2
            found[outer.replace(".", "_")] = (Target(inner, (slice(half, 2 * half), slice(0, half))),)
    return found


def parameters(network: nn.Module) -> dict[str, str]:
    """Every spelling (dots as underscores) of every parameter that a file may hold a whole difference of."""
    return parameter_spellings(name for name, _ in network.named_parameters())


def parameter_spellings(names: Iterable[str]) -> dict[str, str]:
    """The same from the names of the parameters."""
    return {s.replace(".", "_"): name for name in names for s in (name, wan.original_name(name)) if s}


def embeddings(network: nn.Module) -> dict[str, str]:
    """Every spelling (dots as underscores) of every embedding of a network, and its parameter."""
    from torch import nn

    found = (name for name, module in network.named_modules() if isinstance(module, nn.Embedding))
    return {name.replace(".", "_"): f"{name}.weight" for name in found}


def _text_model(name: str) -> str:
    """CLIP's layers have had a ``text_model.`` in front and lost it; files have either."""
    return name.removeprefix("text_model.") if name.startswith("text_model.") else f"text_model.{name}"


def _consecutive(layers: tuple[str, ...], widths: dict[str, int]) -> Iterator[Target]:
    start = 0
    for layer in layers:
        yield Target(layer, (slice(start, start + widths[layer]),))
        start += widths[layer]


_ONCE = {theirs: ours for theirs, ours in TOP.items() if ours != "norm_out.linear"}
_DOUBLE = {
    "img_attn.qkv": ("attn.to_q", "attn.to_k", "attn.to_v"),
    "txt_attn.qkv": ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"),
    "img_attn.proj": ("attn.to_out.0",),
    "txt_attn.proj": ("attn.to_add_out",),
    "img_mlp.0": ("ff.net.0.proj",),
    "img_mlp.2": ("ff.net.2",),
    "txt_mlp.0": ("ff_context.net.0.proj",),
    "txt_mlp.2": ("ff_context.net.2",),
    "img_mod.lin": ("norm1.linear",),
    "txt_mod.lin": ("norm1_context.linear",),
    # XLabs' spelling
    "processor.qkv_lora1": ("attn.to_q", "attn.to_k", "attn.to_v"),
    "processor.qkv_lora2": ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"),
    "processor.proj_lora1": ("attn.to_out.0",),
    "processor.proj_lora2": ("attn.to_add_out",),
}
_SINGLE = {
    "linear1": ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"),
    "linear2": ("proj_out",),
    "modulation.lin": ("norm.linear",),
    "processor.qkv_lora": ("attn.to_q", "attn.to_k", "attn.to_v"),
    "processor.proj_lora": ("proj_out",),
}


def _flux(widths: dict[str, int]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """FLUX's own names of the layers of a FluxTransformer2DModel, and the layers that make each up."""
    blocks = sorted({m[0] for name in widths if (m := re.match(r"(single_)?transformer_blocks\.\d+\.", name))})
    if not any(b.startswith("single_") for b in blocks):
        return
    for outer, inner in _ONCE.items():
        if inner in widths:
            yield outer, (inner,)
    for block in blocks:
        number = block.split(".")[1]
        own, names = ("single_blocks", _SINGLE) if block.startswith("single_") else ("double_blocks", _DOUBLE)
        for outer, inners in names.items():
            yield f"{own}.{number}.{outer}", tuple(block + inner for inner in inners)
