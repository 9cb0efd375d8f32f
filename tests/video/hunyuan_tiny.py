"""Tiny HunyuanVideo pipelines of random weights, as folders and as the original's single files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

CHAT = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TEXT: dict[str, Any] = dict(
    hidden_size=32,
    intermediate_size=48,
    num_attention_heads=2,
    num_key_value_heads=1,
    num_hidden_layers=3,
    max_position_embeddings=2048,
    pad_token_id=0,
    eos_token_id=None,
    bos_token_id=None,
)
SENTENCES = (
    "1. The main content and theme of the video.",
    "2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects.",
    "3. Actions, events, behaviors temporal relationships, physical movement changes of the objects.",
)
"""Of HunyuanVideo's template, a token each: by bytes it would not fit into its limit."""
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}


def tokenizer(*special: str, bos: str = "") -> Any:
    """A tokenizer by bytes that knows a few control tokens; ``bos``: what a text begins with."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    names = ["<pad>", *special]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({c: i + len(names) for i, c in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(names)
    if bos:
        first = [(bos, backend.token_to_id(bos))]
        backend.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=first)
    fast = hf.PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", padding_side="right")
    fast.chat_template = CHAT
    return fast


def transformer_15(**changes: Any) -> nn.Module:
    from diffusers import HunyuanVideo15Transformer3DModel

    config: dict[str, Any] = dict(
        num_attention_heads=2,
        attention_head_dim=32,
        num_layers=2,
        num_refiner_layers=1,
        mlp_ratio=2.0,
        text_embed_dim=32,
        image_embed_dim=16,
        rope_axes_dim=(4, 14, 14),
        target_size=640,
    )
    return HunyuanVideo15Transformer3DModel(**(config | changes))  # type: ignore[no-any-return]


def autoencoder_15() -> nn.Module:
    from diffusers import AutoencoderKLHunyuanVideo15

    return AutoencoderKLHunyuanVideo15(block_out_channels=(16, 16, 32, 64, 64), layers_per_block=1)  # type: ignore[no-any-return]


def make_15(folder: Path, pipeline: str = "HunyuanVideo15Pipeline", **parts: Any) -> None:
    """Write a random pipeline of HunyuanVideo 1.5 in diffusers layout."""
    import diffusers

    torch.manual_seed(0)
    words = tokenizer("<|im_start|>", "<|im_end|>")
    config: Any = hf.Qwen2_5_VLConfig(
        text_config=TEXT | {"vocab_size": len(words), "rope_parameters": ROPE}
    ).text_config
    glyphs = hf.T5Config(
        vocab_size=300, d_model=1472, d_kv=8, d_ff=16, num_layers=1, num_heads=2, feed_forward_proj="gated-gelu"
    )
    given = {
        "transformer": transformer_15(),
        "vae": autoencoder_15(),
        "text_encoder": hf.Qwen2_5_VLTextModel(config),
        "text_encoder_2": hf.T5EncoderModel(glyphs),
        **parts,
    }
    _liven(given)
    getattr(diffusers, pipeline)(
        tokenizer=words,
        tokenizer_2=hf.ByT5Tokenizer(),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=5.0),
        guider=diffusers.guiders.ClassifierFreeGuidance(guidance_scale=3.0),
        **given,
    ).save_pretrained(folder)


def transformer_1(**changes: Any) -> nn.Module:
    from diffusers import HunyuanVideoTransformer3DModel

    config: dict[str, Any] = dict(
        num_attention_heads=2,
        attention_head_dim=32,
        num_layers=1,
        num_single_layers=1,
        num_refiner_layers=1,
        mlp_ratio=2.0,
        text_embed_dim=32,
        pooled_projection_dim=64,
        rope_axes_dim=(4, 14, 14),
    )
    return HunyuanVideoTransformer3DModel(**(config | changes))  # type: ignore[no-any-return]


def make_1(folder: Path, **parts: Any) -> None:
    """Write a random pipeline of HunyuanVideo in diffusers layout."""
    import diffusers

    from pipegraph.models import paths

    torch.manual_seed(0)
    words = tokenizer("<bos>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", *SENTENCES, bos="<bos>")
    clip_words = hf.AutoTokenizer.from_pretrained(paths.EMBEDDED / "flux-tiny" / "tokenizer")
    clip = hf.CLIPTextConfig(
        vocab_size=len(clip_words),
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=1,
        eos_token_id=clip_words.eos_token_id,
    )
    given = {
        "transformer": transformer_1(),
        "text_encoder_2": hf.CLIPTextModel(clip),
        "vae": diffusers.AutoencoderKLHunyuanVideo(
            block_out_channels=(8, 8, 8, 8), layers_per_block=1, norm_num_groups=8
        ),
        "text_encoder": hf.LlamaModel(hf.LlamaConfig(**TEXT | {"vocab_size": len(words)})),
        **parts,
    }
    _liven(given)
    diffusers.HunyuanVideoPipeline(
        tokenizer=words, tokenizer_2=clip_words, scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=7.0), **given
    ).save_pretrained(folder)


def _liven(parts: dict[str, Any]) -> None:
    """Make text, time and pictures matter."""
    generator = torch.Generator().manual_seed(4)
    for name, network in parts.items():
        if isinstance(network, nn.Module) and name != "vae":
            with torch.no_grad():
                for key, p in network.named_parameters():
                    if p.ndim >= 2:
                        p.copy_(torch.randn(p.shape, generator=generator) / p[0].numel() ** 0.5)
                    elif "norm" not in key:
                        p.normal_(std=0.1, generator=generator)


def to_original_15(net: dict[str, Tensor]) -> dict[str, Tensor]:
    """diffusers' weights of a HunyuanVideo 1.5 network in the original layout, written down independently."""
    out = {}
    for name, tensor in net.items():
        new = name.replace("time_embed.timestep_embedder.linear_1", "time_in.mlp.0")
        new = new.replace("time_embed.timestep_embedder.linear_2", "time_in.mlp.2")
        new = re.sub(r"context_embedder_2\.norm", "byt5_in.layernorm", new)
        new = re.sub(r"context_embedder_2\.linear_(\d)", r"byt5_in.fc\1", new)
        for ours, place in (("norm_in", 0), ("linear_1", 1), ("linear_2", 3), ("norm_out", 4)):
            new = new.replace(f"image_embedder.{ours}", f"vision_in.proj.{place}")
        new = new.replace("x_embedder", "img_in").replace("cond_type_embed", "cond_type_embedding")
        new = new.replace("norm1_context.linear", "txt_mod.linear")
        out[_common(new)] = _swapped(name, tensor)
    return fused(out)


def _common(name: str) -> str:
    """Names that both versions share."""
    new = name.replace("context_embedder.time_text_embed.timestep_embedder.linear_1", "txt_in.t_embedder.mlp.0")
    new = new.replace("context_embedder.time_text_embed.timestep_embedder.linear_2", "txt_in.t_embedder.mlp.2")
    new = new.replace("context_embedder.time_text_embed.text_embedder", "txt_in.c_embedder")
    new = new.replace("context_embedder.proj_in", "txt_in.input_embedder")
    if "refiner_blocks" in new:
        new = new.replace("context_embedder.token_refiner.refiner_blocks", "txt_in.individual_token_refiner.blocks")
        new = new.replace("norm_out.linear", "adaLN_modulation.1").replace("attn.to_out.0", "self_attn_proj")
        return new.replace("ff.net.0.proj", "mlp.fc1").replace("ff.net.2", "mlp.fc2").replace("attn.to_", "self_attn_")
    new = re.sub(r"^norm_out\.linear", "final_layer.adaLN_modulation.1", new)
    new = re.sub(r"^proj_out", "final_layer.linear", new)
    if not new.startswith("transformer_blocks"):
        return new
    new = new.replace("transformer_blocks", "double_blocks").replace("norm1.linear", "img_mod.linear")
    new = new.replace("ff_context.net.0.proj", "txt_mlp.fc1").replace("ff_context.net.2", "txt_mlp.fc2")
    new = new.replace("ff.net.0.proj", "img_mlp.fc1").replace("ff.net.2", "img_mlp.fc2")
    new = re.sub(r"attn\.norm_added_([qk])", r"txt_attn_\1_norm", new)
    new = re.sub(r"attn\.norm_([qk])", r"img_attn_\1_norm", new)
    new = re.sub(r"attn\.add_([qkv])_proj", r"txt_attn_\1", new).replace("attn.to_add_out", "txt_attn_proj")
    return re.sub(r"attn\.to_([qkv])", r"img_attn_\1", new).replace("attn.to_out.0", "img_attn_proj")


def _swapped(name: str, tensor: Tensor) -> Tensor:
    """The original has shift before scale in its last modulation."""
    return torch.cat(tensor.chunk(2)[::-1]) if name.startswith("norm_out.linear") else tensor.contiguous()


def fused(net: dict[str, Tensor], *more: str) -> dict[str, Tensor]:
    """Queries, keys and values of the refiner (and of ``more``) in one, as the original has them."""
    out = dict(net)
    for name in net:
        if m := re.fullmatch(rf"(.+\.(?:self_attn{''.join('|' + x for x in more)}))_q\.(weight|bias)", name):
            out[f"{m[1]}_qkv.{m[2]}"] = torch.cat([out.pop(f"{m[1]}_{x}.{m[2]}") for x in "qkv"])
    return out


def to_original_1(net: dict[str, Tensor]) -> dict[str, Tensor]:
    """diffusers' weights of a HunyuanVideo network in the original layout, written down independently."""
    out: dict[str, Tensor] = {}
    for name, tensor in net.items():
        if name.startswith("single_transformer_blocks"):
            new = name.replace("single_transformer_blocks", "single_blocks").replace("norm.linear", "modulation.linear")
            new = re.sub(r"attn\.norm_([qk])", r"\1_norm", new).replace("proj_out", "linear2")
            out[re.sub(r"attn\.to_([qkv])|(proj)_mlp", r"linear1_\1\2", new)] = tensor.contiguous()
            continue
        new = re.sub(r"^time_text_embed\.timestep_embedder\.linear_1", "time_in.mlp.0", name)
        new = re.sub(r"^time_text_embed\.timestep_embedder\.linear_2", "time_in.mlp.2", new)
        new = re.sub(r"^time_text_embed\.guidance_embedder\.linear_1", "guidance_in.mlp.0", new)
        new = re.sub(r"^time_text_embed\.guidance_embedder\.linear_2", "guidance_in.mlp.2", new)
        new = re.sub(r"^time_text_embed\.text_embedder\.linear_1", "vector_in.in_layer", new)
        new = re.sub(r"^time_text_embed\.text_embedder\.linear_2", "vector_in.out_layer", new)
        new = new.replace("x_embedder", "img_in").replace("norm1_context.linear", "txt_mod.linear")
        out[_common(new)] = _swapped(name, tensor)
    for name in [n for n in out if "linear1_q" in n]:
        parts = [out.pop(name.replace("linear1_q", f"linear1_{x}")) for x in ("q", "k", "v", "proj")]
        out[name.replace("linear1_q", "linear1")] = torch.cat(parts)
    return fused(out, "img_attn", "txt_attn")


def to_original_vae_15(net: dict[str, Tensor]) -> dict[str, Tensor]:
    """diffusers' weights of HunyuanVideo 1.5's VAE in the original layout."""
    out = {}
    for name, tensor in net.items():
        new = re.sub(r"mid_block\.resnets\.(\d)", lambda m: f"mid.block_{int(m[1]) + 1}", name)
        new = re.sub(r"mid_block\.attentions\.0\.(?:to_)?", "mid.attn_1.", new)
        new = new.replace("down_blocks", "down").replace("up_blocks", "up").replace("resnets", "block")
        out[re.sub(r"(down|up)samplers\.0", r"\1sample", new)] = tensor.contiguous()
    return out


def comfyui_spelling(net: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names as ComfyUI saves the same network."""
    pairs = [
        ("txt_in.t_embedder.mlp.0.", "txt_in.t_embedder.in_layer."),
        ("c_embedder.linear_1.", "c_embedder.in_layer."),
        ("txt_in.t_embedder.mlp.2.", "txt_in.t_embedder.out_layer."),
        ("c_embedder.linear_2.", "c_embedder.out_layer."),
        ("_mod.linear.", "_mod.lin."),
        ("_attn_qkv.", "_attn.qkv."),
        ("mlp.fc1.", "mlp.0."),
        ("mlp.fc2.", "mlp.2."),
        ("_attn_q_norm.weight", "_attn.norm.query_norm.scale"),
        ("_attn_k_norm.weight", "_attn.norm.key_norm.scale"),
        (".q_norm.weight", ".norm.query_norm.scale"),
        (".k_norm.weight", ".norm.key_norm.scale"),
        ("_attn_proj.", "_attn.proj."),
        (".modulation.linear.", ".modulation.lin."),
        ("_in.mlp.2.", "_in.out_layer."),
        ("_in.mlp.0.", "_in.in_layer."),
    ]
    out = {}
    for name, tensor in net.items():
        for ours, theirs in pairs:
            name = name.replace(ours, theirs)
        out[name] = tensor
    return out
