"""GGUF files of tiny networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipegraph.models.llm.tokenizer import Tokenizer


def write_gguf(path: Path, network: Any, tokenizer: Tokenizer, kind: str, **more: str) -> None:
    """A GGUF file as llama.cpp's converter makes it; the network's weights become what the file can hold."""
    import gguf

    quantization, config, arch = gguf.GGMLQuantizationType, network.config, more.get("arch", "llama")
    writer = gguf.GGUFWriter(path, arch)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    _add_tokenizer(writer, tokenizer, config.vocab_size, more.get("pre", "gpt-2"))
    names = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "model.layers": "blk",
        "self_attn.qkv_proj": "attn_qkv",
        "mlp.gate_up_proj": "ffn_up",
    }
    if arch in ("gemma3", "qwen3", "qwen3moe"):
        writer.add_key_length(config.head_dim)
        names |= {"self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
    if arch == "qwen3moe":
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
        names |= {"mlp.gate.": "ffn_gate_inp."}
    if arch == "gemma3":
        writer.add_sliding_window(config.sliding_window)
        names |= {
            "post_attention_layernorm": "post_attention_norm",
            "pre_feedforward_layernorm": "ffn_norm",
            "post_feedforward_layernorm": "post_ffw_norm",
        }
    if arch == "phi3":
        writer.add_rope_dimension_count(config.head_dim)
        writer.add_rope_scaling_orig_ctx_len(config.rope_parameters["original_max_position_embeddings"])
        writer.add_rope_scaling_attn_factors(config.rope_parameters["attention_factor"])
        for which in ("long", "short"):
            factors = torch.tensor(config.rope_parameters[f"{which}_factor"])
            writer.add_tensor(f"rope_factors_{which}.weight", factors.numpy())
    for name, tensor in network.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stored = name
        for theirs, ours in names.items():
            stored = stored.replace(theirs, ours)
        if ".experts." in name:
            _add_experts(writer, name, tensor, quantization[kind])
            continue
        rows = tensor
        heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
        if heads and arch == "llama":  # llama.cpp's order, as its converter has it
            rows = rows.reshape(heads, 2, len(rows) // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)
        if rows.ndim == 1:
            writer.add_tensor(stored, (rows + 1 if arch == "gemma3" else rows).numpy())
            continue
        type_ = quantization["Q8_0" if "embd" in stored else "F32" if "gate_inp" in stored else kind]
        data = gguf.quantize(rows.contiguous().numpy(), type_)
        writer.add_tensor(stored, data, raw_dtype=type_)
        held = torch.from_numpy(gguf.dequantize(data, type_)).view(rows.shape)
        if heads and arch == "llama":
            held = held.view(heads, len(rows) // heads // 2, 2, -1).swapaxes(1, 2).reshape(rows.shape)
        tensor.copy_(held)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: Any, tokenizer: Tokenizer, size: int, pre: str) -> None:
    """Its tokens, padded to ``size``, its merges, its template."""
    backend = json.loads(tokenizer.fast.backend_tokenizer.to_str())
    texts = [tokenizer.fast.convert_ids_to_tokens(i) for i in range(tokenizer.size)]
    texts += [f"[PAD{i}]" for i in range(size - len(texts))]
    control = {i: 3 if i in tokenizer.special_ids else 4 for i in tokenizer.control.values()}
    writer.add_tokenizer_model("gpt2")
    if pre:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(texts)
    writer.add_token_types([control.get(i, 1) for i in range(len(texts))])
    writer.add_token_merges([" ".join(pair) for pair in backend["model"]["merges"]])
    writer.add_eos_token_id(tokenizer.fast.eos_token_id)
    writer.add_chat_template(tokenizer.chat_template or "")


def _add_experts(writer: Any, name: str, tensor: Tensor, type_: Any) -> None:
    """The matrices of all experts [experts, rows, columns], gate and up apart; they become what the file holds."""
    import gguf

    parts = dict(zip(("gate", "up"), tensor.chunk(2, 1), strict=True)) if "gate_up" in name else {"down": tensor}
    for part, one in parts.items():
        data = gguf.quantize(one.contiguous().numpy(), type_)
        writer.add_tensor(f"blk.{name.split('.')[2]}.ffn_{part}_exps.weight", data, raw_dtype=type_)
        one.copy_(torch.from_numpy(gguf.dequantize(data, type_)).view(one.shape))
