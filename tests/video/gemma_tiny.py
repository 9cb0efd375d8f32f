"""A tiny Gemma 3 as ComfyUI's files have it: names without a config, eyes, and a SentencePiece model in the file."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

TURNS = ["<start_of_turn>", "<end_of_turn>"]
TEXT = ["a red apple on the beach", "a blue fish moves left", "the request: a man speaks, softly", "猫が走る\n"] * 3


@cache
def spiece() -> bytes:
    import sentencepiece

    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(TEXT),
        model_writer=made,
        model_type="bpe",
        vocab_size=360,
        pad_id=0,
        eos_id=1,
        bos_id=2,
        unk_id=3,
        pad_piece="<pad>",
        eos_piece="<eos>",
        bos_piece="<bos>",
        byte_fallback=True,
        minloglevel=2,
        user_defined_symbols=[*TURNS, "\n"],
        add_dummy_prefix=False,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        split_digits=True,
    )
    return made.getvalue()


def network(width: int = 32, layers: int = 6) -> Any:
    """A Gemma 3 of text with random weights: its sixth layer sees all, the others what is near."""
    import sentencepiece
    import transformers

    torch.manual_seed(1)
    count = len(sentencepiece.SentencePieceProcessor(model_proto=spiece()))
    near = {"rope_type": "default", "rope_theta": 10_000.0}
    config = transformers.Gemma3TextConfig(
        vocab_size=count,
        hidden_size=width,
        intermediate_size=48,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        num_hidden_layers=layers,
        query_pre_attn_scalar=16,
        sliding_window=1024,
        eos_token_id=1,
        max_position_embeddings=131072,
        pad_token_id=0,
        bos_token_id=None,
        rope_parameters={
            "sliding_attention": near,
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        },
    )
    made = transformers.Gemma3ForCausalLM(config).eval()
    with torch.no_grad():
        for name, p in made.named_parameters():
            p.copy_(torch.randn(p.shape) * (p.shape[-1] ** -0.5 if p.ndim > 1 else 0.2))
            if name.endswith("embed_tokens.weight"):
                p.mul_(0.5)
    return made


def tensors(model: Any) -> dict[str, Tensor]:
    """All that a file holds; what it sees with is made up."""
    kept = {k: v.detach().clone() for k, v in model.state_dict().items() if k != "lm_head.weight"}
    eyes = {
        "vision_model.embeddings.patch_embedding.bias": torch.zeros(4),
        "multi_modal_projector.mm_input_projection_weight": torch.zeros(4, 4),
    }
    return kept | eyes | {"spiece_model": torch.frombuffer(bytearray(spiece()), dtype=torch.uint8)}


def mixed(made: dict[str, Tensor]) -> dict[str, Tensor]:
    """The matrices of the MLPs in fp8 and NVFP4, each with a note; what they stand for is written back.

    Returns the tensors of the file; ``made`` is changed to what they stand for.
    """
    out: dict[str, Tensor] = {}
    for name, t in list(made.items()):
        layer = name.removesuffix(".weight")
        if layer.endswith("gate_proj"):
            scale = t.abs().max() / 448
            out |= {name: (t / scale).to(torch.float8_e4m3fn), f"{layer}.weight_scale": scale}
            out[f"{layer}.comfy_quant"] = _note({"format": "float8_e4m3fn"})
            made[name] = out[name].float() * scale
        elif layer.endswith("down_proj"):
            packed, made[name] = nvfp4(t)
            out |= {f"{layer}.{key}": value for key, value in packed.items()}
            out[f"{layer}.comfy_quant"] = _note({"format": "nvfp4"})
        else:
            out[name] = t
    return out


def nvfp4(t: Tensor) -> tuple[dict[str, Tensor], Tensor]:
    """A matrix of at most 128 rows in NVFP4, all blocks with one scale, and what it stands for."""
    steps = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    scale = t.abs().max() / 6
    codes = (t.abs()[..., None] / scale - steps).abs().argmin(-1)
    meant = codes.new_tensor(0) + steps[codes] * scale * t.sign()
    codes = codes + 8 * (t < 0)
    blocks = torch.ones(128, -(-t.shape[1] // 64) * 4).to(torch.float8_e4m3fn)
    weight = (codes[:, ::2] * 16 + codes[:, 1::2]).to(torch.uint8)
    return {"weight": weight, "weight_scale": blocks, "weight_scale_2": scale.clone()}, meant


def _note(told: dict[str, Any]) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(told).encode()), dtype=torch.uint8)


def write(path: Path, made: dict[str, Tensor]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({k: v.contiguous() for k, v in made.items()}, path)
