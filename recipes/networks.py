"""The shipped networks, untrained: their configurations, and how they are called in training.

All are the real architectures: FluxTransformer2DModel, T5EncoderModel, CLIPTextModel, AutoencoderKL.
"""

import math
from dataclasses import dataclass

import torch
from diffusers import AutoencoderKL, FluxTransformer2DModel
from torch import Tensor, nn
from transformers import CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

from pipegraph.models.families.flux import position_ids

from .world import split_words, vocabulary

TEXT_TOKENS = 16
"""Length of every prompt in tokens, padded or cut; FLUX attends to its padding, so does this model."""
LATENT_CHANNELS = 16
DOWNSCALE = 8

VOCABULARY = vocabulary()
TOKEN_ID = {word: i for i, word in enumerate(VOCABULARY)}


def t5_ids(prompt: str) -> list[int]:
    """Words, ``</s>``, padding: what the shipped T5 tokenizer gives."""
    words = [TOKEN_ID.get(w, TOKEN_ID["<unk>"]) for w in split_words(prompt)][: TEXT_TOKENS - 1]
    ids = [*words, TOKEN_ID["</s>"]]
    return ids + [TOKEN_ID["<pad>"]] * (TEXT_TOKENS - len(ids))


def clip_ids(prompt: str) -> list[int]:
    """Start, words, end repeated to the full length: what the shipped CLIP tokenizer gives."""
    end = TOKEN_ID["<|endoftext|>"]
    words = [TOKEN_ID.get(w, TOKEN_ID["<unk>"]) for w in split_words(prompt)][: TEXT_TOKENS - 2]
    ids = [TOKEN_ID["<|startoftext|>"], *words, end]
    return ids + [end] * (TEXT_TOKENS - len(ids))


def transformer() -> FluxTransformer2DModel:
    """FLUX with 2 double and 4 single blocks of width 192; adaLN and output start at zero, as DiT papers do."""
    net = FluxTransformer2DModel(
        patch_size=1,
        in_channels=LATENT_CHANNELS * 4,
        num_layers=2,
        num_single_layers=4,
        attention_head_dim=32,
        num_attention_heads=6,
        joint_attention_dim=128,
        pooled_projection_dim=128,
        guidance_embeds=False,
        axes_dims_rope=(8, 12, 12),
    )
    for m in net.modules():
        if isinstance(m, nn.Linear):
            nn.init.xavier_uniform_(m.weight)
            if m.bias is not None:
                nn.init.zeros_(m.bias)
    zero = [net.norm_out.linear, net.proj_out]
    zero += [norm.linear for b in net.transformer_blocks for norm in (b.norm1, b.norm1_context)]
    zero += [b.norm.linear for b in net.single_transformer_blocks]
    for linear in zero:
        nn.init.zeros_(linear.weight)
    return net


def t5() -> T5EncoderModel:
    """T5 encoder of 2 layers and width 128 over the word vocabulary."""
    config = T5Config(
        vocab_size=len(VOCABULARY),
        d_model=128,
        d_kv=32,
        num_heads=4,
        d_ff=256,
        num_layers=2,
        feed_forward_proj="gated-gelu",
        dropout_rate=0.0,
        initializer_factor=1.0,
    )
    net = T5EncoderModel(config)
    nn.init.normal_(net.shared.weight)
    return net


def clip() -> CLIPTextModel:
    """CLIP text model of 2 layers and width 128; its pooled vector is the state at the first end token."""
    config = CLIPTextConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=128,
        intermediate_size=256,
        projection_dim=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=TEXT_TOKENS,
        bos_token_id=TOKEN_ID["<|startoftext|>"],
        eos_token_id=TOKEN_ID["<|endoftext|>"],
        pad_token_id=TOKEN_ID["<|endoftext|>"],
    )
    return CLIPTextModel(config)


def autoencoder() -> AutoencoderKL:
    """Autoencoder of FLUX's form (8x smaller, 16 channels), 1.6 M parameters, residual branches starting at zero."""
    net = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(16, 32, 64, 96),
        layers_per_block=1,
        latent_channels=LATENT_CHANNELS,
        norm_num_groups=8,
        sample_size=128,
        use_quant_conv=False,
        use_post_quant_conv=False,
        mid_block_add_attention=False,
        scaling_factor=1.0,
        shift_factor=0.0,
    )
    for m in net.modules():
        if type(m).__name__ == "ResnetBlock2D":
            nn.init.zeros_(m.conv2.weight)
    return net


@dataclass
class TextToImage:
    """The three networks that training updates together."""

    transformer: FluxTransformer2DModel
    t5: T5EncoderModel
    clip: CLIPTextModel

    @classmethod
    def fresh(cls) -> "TextToImage":
        return cls(transformer(), t5(), clip())

    def parts(self) -> dict[str, nn.Module]:
        return {"transformer": self.transformer, "t5": self.t5, "clip": self.clip}

    def encode(self, prompts: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """(T5's states [B, 16, 128], CLIP's pooled vector [B, 128]) of prompts = (T5 ids, CLIP ids), each [B, 16]."""
        return (
            self.t5(input_ids=prompts[0]).last_hidden_state,
            self.clip(input_ids=prompts[1]).pooler_output,
        )

    def velocity(self, x: Tensor, sigma: Tensor, encoded: tuple[Tensor, Tensor]) -> Tensor:
        """Predict noise - data: x [B, tokens, 64], sigma [B] in 0..1, encoded prompts."""
        side = math.isqrt(x.shape[1])
        velocity: Tensor = self.transformer(
            hidden_states=x,
            encoder_hidden_states=encoded[0],
            pooled_projections=encoded[1],
            timestep=sigma,
            img_ids=position_ids(side, side),
            txt_ids=torch.zeros(TEXT_TOKENS, 3),
            return_dict=False,
        )[0]
        return velocity
