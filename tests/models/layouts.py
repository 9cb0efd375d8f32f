"""The shipped FLUX in the layouts of other programs' files, written down independently of the loader's tables."""

from __future__ import annotations

import json
import re
from pathlib import Path

import torch
from torch import Tensor

from pipegraph.models import paths

Tensors = dict[str, Tensor]
SHIPPED = paths.EMBEDDED / "flux-tiny"


def shipped() -> Tensors:
    """The shipped network's weights in float32, by diffusers' names."""
    from safetensors.torch import load_file

    found = load_file(SHIPPED / "transformer/diffusion_pytorch_model.safetensors")
    return {name: t.float() for name, t in found.items()}


def config(folder: Path = SHIPPED) -> dict[str, str]:
    """What the shapes of so small networks do not tell, for a file's metadata."""
    parts = ("transformer", "vae", "text_encoder", "text_encoder_2")
    return {"config": json.dumps({n: json.loads((folder / n / "config.json").read_text()) for n in parts})}


def to_bfl(net: Tensors) -> Tensors:
    """diffusers' FLUX weights in BFL's layout, which is ComfyUI's."""
    out: Tensors = {}
    simple = [
        ("x_embedder", "img_in"),
        ("context_embedder", "txt_in"),
        ("proj_out", "final_layer.linear"),
        ("time_text_embed.timestep_embedder.linear_1", "time_in.in_layer"),
        ("time_text_embed.timestep_embedder.linear_2", "time_in.out_layer"),
        ("time_text_embed.text_embedder.linear_1", "vector_in.in_layer"),
        ("time_text_embed.text_embedder.linear_2", "vector_in.out_layer"),
        ("time_text_embed.guidance_embedder.linear_1", "guidance_in.in_layer"),
        ("time_text_embed.guidance_embedder.linear_2", "guidance_in.out_layer"),
    ]
    for ours, bfl in simple:
        for kind in ("weight", "bias"):
            if f"{ours}.{kind}" in net:
                out[f"{bfl}.{kind}"] = net[f"{ours}.{kind}"]
    for kind in ("weight", "bias"):
        scale, shift = net[f"norm_out.linear.{kind}"].chunk(2)
        out[f"final_layer.adaLN_modulation.1.{kind}"] = torch.cat([shift, scale])
    for i in _numbers(net, "transformer_blocks"):
        _double(net, out, i)
    for i in _numbers(net, "single_transformer_blocks"):
        _single(net, out, i)
    return out


def _numbers(net: Tensors, blocks: str) -> list[str]:
    return sorted({m[1] for name in net if (m := re.match(rf"{blocks}\.(\d+)\.", name))})


def _double(net: Tensors, out: Tensors, i: str) -> None:
    ours, bfl = f"transformer_blocks.{i}.", f"double_blocks.{i}."
    for kind in ("weight", "bias"):
        for stream, norm, names, to_out, ff in [
            ("img", "norm1", ("to_q", "to_k", "to_v"), "to_out.0", "ff"),
            ("txt", "norm1_context", ("add_q_proj", "add_k_proj", "add_v_proj"), "to_add_out", "ff_context"),
        ]:
            out[f"{bfl}{stream}_mod.lin.{kind}"] = net[f"{ours}{norm}.linear.{kind}"]
            out[f"{bfl}{stream}_attn.qkv.{kind}"] = torch.cat([net[f"{ours}attn.{n}.{kind}"] for n in names])
            out[f"{bfl}{stream}_attn.proj.{kind}"] = net[f"{ours}attn.{to_out}.{kind}"]
            out[f"{bfl}{stream}_mlp.0.{kind}"] = net[f"{ours}{ff}.net.0.proj.{kind}"]
            out[f"{bfl}{stream}_mlp.2.{kind}"] = net[f"{ours}{ff}.net.2.{kind}"]
    for stream, q, k in [("img", "norm_q", "norm_k"), ("txt", "norm_added_q", "norm_added_k")]:
        out[f"{bfl}{stream}_attn.norm.query_norm.scale"] = net[f"{ours}attn.{q}.weight"]
        out[f"{bfl}{stream}_attn.norm.key_norm.scale"] = net[f"{ours}attn.{k}.weight"]


def _single(net: Tensors, out: Tensors, i: str) -> None:
    ours, bfl = f"single_transformer_blocks.{i}.", f"single_blocks.{i}."
    for kind in ("weight", "bias"):
        out[f"{bfl}modulation.lin.{kind}"] = net[f"{ours}norm.linear.{kind}"]
        joined = ("attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp")
        out[f"{bfl}linear1.{kind}"] = torch.cat([net[f"{ours}{n}.{kind}"] for n in joined])
        out[f"{bfl}linear2.{kind}"] = net[f"{ours}proj_out.{kind}"]
    out[f"{bfl}norm.query_norm.scale"] = net[f"{ours}attn.norm_q.weight"]
    out[f"{bfl}norm.key_norm.scale"] = net[f"{ours}attn.norm_k.weight"]
