"""Tiny random networks of the real classes, with an input for each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def flux(**changes: Any) -> tuple[nn.Module, dict[str, Any]]:
    from diffusers import FluxTransformer2DModel

    torch.manual_seed(0)
    config = dict(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=24,
        pooled_projection_dim=20,
        axes_dims_rope=(4, 4, 8),
        guidance_embeds=True,
    )
    network = FluxTransformer2DModel(**(config | changes)).eval()
    call = dict(
        hidden_states=noise(2, 6, 4),
        encoder_hidden_states=noise(2, 5, 24),
        pooled_projections=noise(2, 20),
        timestep=torch.tensor([0.5, 0.2]),
        guidance=torch.tensor([3.5, 1.0]),
        img_ids=torch.ones(6, 3),
        txt_ids=torch.zeros(5, 3),
        return_dict=False,
    )
    return network, call


def flux_controlnet() -> tuple[nn.Module, dict[str, Any]]:
    from diffusers import FluxControlNetModel

    _, call = flux()
    torch.manual_seed(0)
    network = FluxControlNetModel(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=24,
        pooled_projection_dim=20,
        axes_dims_rope=(4, 4, 8),
        guidance_embeds=True,
    ).eval()
    for p in (q for m in (network.controlnet_blocks, network.controlnet_single_blocks) for q in m.parameters()):
        nn.init.normal_(p)  # they start at zero
    return network, call | dict(controlnet_cond=noise(2, 6, 4))


def autoencoder() -> tuple[nn.Module, dict[str, Any]]:
    from diffusers import AutoencoderKL

    torch.manual_seed(0)
    network = AutoencoderKL(
        block_out_channels=(8, 16),
        down_block_types=("DownEncoderBlock2D",) * 2,
        latent_channels=4,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=4,
        sample_size=32,
    ).eval()
    return network, dict(sample=noise(2, 3, 16, 24), return_dict=False)


def clip() -> tuple[nn.Module, dict[str, Any]]:
    from transformers import CLIPTextConfig, CLIPTextModel

    torch.manual_seed(0)
    config = CLIPTextConfig(
        vocab_size=99,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    network: nn.Module = CLIPTextModel(config)
    return network.eval(), text_call()


def t5() -> tuple[nn.Module, dict[str, Any]]:
    from transformers import T5Config, T5EncoderModel

    torch.manual_seed(0)
    config = T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu"
    )
    network: nn.Module = T5EncoderModel(config)
    return network.eval(), text_call()


def text_call() -> dict[str, Any]:
    mask = torch.ones(2, 11, dtype=torch.int64)
    mask[1, 7:] = 0
    tokens = torch.randint(3, 99, (2, 11), generator=torch.Generator().manual_seed(1))
    return dict(input_ids=tokens, attention_mask=mask, return_dict=False)


def run(network: nn.Module, call: dict[str, Any]) -> Tensor:
    """All outputs of a network as one vector."""
    with torch.no_grad():
        outputs = network(**call)
    flat: list[Tensor] = []
    for out in outputs:
        flat += [out] if isinstance(out, Tensor) else list(out or ())
    return torch.cat([t.flatten() for t in flat])
