"""The networks of the shipped video model, untrained: WanTransformer3DModel, AutoencoderKLWan, UMT5."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel
from torch import Tensor, nn
from transformers import UMT5Config, UMT5EncoderModel

from .video_codec import CHANNELS
from .video_world import TOKEN_ID, TOKENS, ids


def transformer() -> WanTransformer3DModel:
    """Wan with 6 blocks of width 192, a token a latent cell; gates and output start at zero, as DiT papers do."""
    net = WanTransformer3DModel(
        patch_size=(1, 1, 1),
        num_attention_heads=6,
        attention_head_dim=32,
        in_channels=CHANNELS,
        out_channels=CHANNELS,
        text_dim=128,
        freq_dim=128,
        ffn_dim=512,
        num_layers=6,
        cross_attn_norm=True,
        rope_max_seq_len=64,
    )
    for m in net.modules():
        if isinstance(m, nn.Linear):
            nn.init.xavier_uniform_(m.weight)
            nn.init.zeros_(m.bias)
    nn.init.zeros_(net.proj_out.weight)
    nn.init.zeros_(net.condition_embedder.time_proj.weight)
    for block in net.blocks:
        nn.init.zeros_(block.attn2.to_out[0].weight)
        with torch.no_grad():
            block.scale_shift_table[:, [2, 5]] = 0  # the gates of attention and of the feed-forward part
    return net


def text_encoder() -> UMT5EncoderModel:
    """UMT5 encoder of 2 layers and width 128 over the word vocabulary."""
    config = UMT5Config(
        vocab_size=len(TOKEN_ID),
        d_model=128,
        d_kv=32,
        num_heads=4,
        d_ff=256,
        num_layers=2,
        feed_forward_proj="gated-gelu",
        dropout_rate=0.0,
    )
    net = UMT5EncoderModel(config)
    nn.init.normal_(net.shared.weight)
    return net


def autoencoder() -> AutoencoderKLWan:
    """Wan's autoencoder (4x in time, 8x in space, 16 channels), residual branches starting at zero."""
    net = AutoencoderKLWan(
        base_dim=12,
        z_dim=CHANNELS,
        dim_mult=[1, 2, 4, 4],
        num_res_blocks=1,
        temperal_downsample=[False, True, True],
        latents_mean=[0.0] * CHANNELS,
        latents_std=[1.0] * CHANNELS,
    )
    for m in net.modules():
        if type(m).__name__ == "WanResidualBlock":
            nn.init.zeros_(m.conv2.weight)
    return net


@dataclass
class TextToVideo:
    """The two networks that training updates together."""

    transformer: WanTransformer3DModel
    text: UMT5EncoderModel

    @classmethod
    def fresh(cls) -> "TextToVideo":
        return cls(transformer(), text_encoder())

    def parts(self) -> dict[str, nn.Module]:
        return {"transformer": self.transformer, "text": self.text}

    def encode(self, prompts: list[str]) -> tuple[Tensor, Tensor]:
        """States [B, 16, 128], 0 where there is padding as in WanPipeline, and the state of each prompt's end."""
        found = [ids(p) for p in prompts]
        tokens, used = torch.tensor([f[0] for f in found]), torch.tensor([f[1] for f in found])
        mask = torch.arange(TOKENS) < used[:, None]
        states = self.text(input_ids=tokens, attention_mask=mask.long()).last_hidden_state
        return states * mask[..., None], states[torch.arange(len(states)), used - 1]

    def velocity(self, x: Tensor, sigma: Tensor, states: Tensor) -> Tensor:
        """Predict noise - data: x [B, 16, T, h, w], sigma [B] or, one a latent frame, [B, T] in 0..1."""
        levels = sigma if sigma.ndim == 1 else sigma.repeat_interleave(x.shape[3] * x.shape[4], 1)
        found: Tensor = self.transformer(
            hidden_states=x, timestep=levels * 1000, encoder_hidden_states=states, return_dict=False
        )[0]
        return found


@torch.no_grad()
def generate(nets: TextToVideo, prompts: list[str], noise: Tensor, steps: int, cfg: float, shift: float) -> Tensor:
    """Latents of prompts by Euler's method with guidance, from noise [B, 16, T, h, w]."""
    states, empty = nets.encode(prompts)[0], nets.encode([""] * len(prompts))[0]
    t = torch.linspace(1, 0, steps + 1)
    levels = shift * t / (1 + (shift - 1) * t)
    x = noise
    for now, then in pairwise(levels):
        sigma = now.expand(len(x))
        positive, negative = nets.velocity(x, sigma, states), nets.velocity(x, sigma, empty)
        x = x + (then - now) * (negative + cfg * (positive - negative))
    return x
