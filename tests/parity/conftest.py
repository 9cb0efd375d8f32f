"""Tiny FLUX pipelines of random weights, and our way from prompt to latents."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

from pipegraph.access import Access, granted
from pipegraph.generators import finish
from pipegraph.models.checkpoints.load import load_checkpoint
from pipegraph.models.checkpoints.source import checkpoint
from pipegraph.models.loading.place import Place
from pipegraph.models.model import Model
from pipegraph.models.paths import EMBEDDED
from pipegraph.models.sampling.guiders import Guider
from pipegraph.models.sampling.model_sampling import Flow, mu_for_tokens
from pipegraph.models.sampling.noise import Noise
from pipegraph.models.sampling.run import sample
from pipegraph.models.sampling.samplers import SAMPLERS
from pipegraph.models.text.encoder import TextEncoder
from pipegraph.models.vae.image import Vae

STEPS, GUIDANCE = 3, 2.0
CPU = Place(torch.device("cpu"), torch.float32)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def make_pipeline(folder: Path, dev: bool) -> None:
    """Write a random FLUX pipeline in diffusers layout, with the shipped word-level tokenizers."""
    from diffusers import AutoencoderKL, FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel
    from transformers import AutoTokenizer, CLIPTextConfig, CLIPTextModel, T5Config, T5EncoderModel

    torch.manual_seed(0)
    shipped = EMBEDDED / "flux-tiny"
    tokenizers = [AutoTokenizer.from_pretrained(shipped / n) for n in ("tokenizer", "tokenizer_2")]
    words = len(tokenizers[0])
    transformer = FluxTransformer2DModel(
        in_channels=16,
        num_layers=2,
        num_single_layers=2,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=24,
        axes_dims_rope=(4, 4, 8),
        guidance_embeds=dev,
    )
    vae = AutoencoderKL(
        block_out_channels=(8, 8, 8, 8),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        latent_channels=4,
        norm_num_groups=4,
        use_quant_conv=False,
        use_post_quant_conv=False,
        scaling_factor=0.7,
        shift_factor=0.3,
    )
    with torch.no_grad():  # a posterior without spread, so that sampling it is taking its mean
        vae.encoder.conv_out.weight[4:] = 0
        vae.encoder.conv_out.bias[4:] = -30
    clip = CLIPTextModel(
        CLIPTextConfig(
            vocab_size=words,
            hidden_size=24,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=2,
            max_position_embeddings=16,
            bos_token_id=tokenizers[0].bos_token_id,
            eos_token_id=tokenizers[0].eos_token_id,
            pad_token_id=tokenizers[0].pad_token_id,
        )
    )
    t5 = T5EncoderModel(
        T5Config(
            vocab_size=words, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu"
        )
    )
    scheduler = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=dev, base_shift=0.5, max_shift=1.15)
    FluxPipeline(
        scheduler=scheduler,
        vae=vae,
        text_encoder=clip,
        tokenizer=tokenizers[0],
        text_encoder_2=t5,
        tokenizer_2=tokenizers[1],
        transformer=transformer,
    ).save_pretrained(folder)
    (folder / "card.json").write_text('{"text_tokens": 16}')


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("flux")
    for name in ("dev", "schnell"):
        make_pipeline(root / name, dev=name == "dev")
    return {name: root / name for name in ("dev", "schnell")}


@dataclass
class Ours:
    """A loaded model and how to run it as FluxPipeline does."""

    model: Model
    clip: TextEncoder
    vae: Vae
    dynamic: bool

    def encode(self, prompts: list[str], **extras: Any) -> list[list[Any]]:
        found = [self.clip.encode(self.clip.tokenize(p))[0] for p in prompts]
        pooled = torch.cat([e["pooled_output"] for _, e in found])
        return [[torch.cat([s for s, _ in found]), {"pooled_output": pooled, "guidance": GUIDANCE} | extras]]

    def run(self, positive: list[Any], noise: Tensor, negative: list[Any] | None = None, cfg: float = 1.0) -> Tensor:
        """VAE latents of an Euler run over FluxPipeline's sigmas."""
        tokens = noise.shape[-2] * noise.shape[-1] // 4
        model = self.model.with_sampling(Flow.from_mu(mu_for_tokens(tokens))) if self.dynamic else self.model
        sigmas = model.sampling.sigma(torch.linspace(1, 1 / STEPS, STEPS, dtype=torch.float64)).tolist()
        guider = Guider(model, positive, negative, cfg)
        given = cast(Noise, Given(noise))
        latent = {"samples": torch.zeros_like(noise)}
        steps = sample(guider, given, SAMPLERS["euler"], torch.tensor([*sigmas, 0.0]), latent)
        return finish(steps).samples


@dataclass
class Given:
    """A NOISE of given values."""

    noise: Tensor
    seed: int = 0
    silent: bool = False

    def generate_noise(self, latent: dict[str, Any]) -> Tensor:
        return self.noise


@pytest.fixture
def load(folders: dict[str, Path]) -> Callable[[str], Ours]:
    def load(name: str) -> Ours:
        path = folders.get(name) or Path(name)
        with granted(Access.to(path)):
            return Ours(*load_checkpoint(checkpoint(str(path)), CPU), dynamic=name == "dev")

    return load


@pytest.fixture(scope="session")
def pipeline(folders: dict[str, Path]) -> Callable[[str], Any]:
    """diffusers' pipeline of the same folder, on diffusers' own attention and layers."""
    from diffusers import FluxPipeline

    @cache
    def load(name: str) -> Any:
        pipe = FluxPipeline.from_pretrained(folders[name], local_files_only=True)
        pipe.set_progress_bar_config(disable=True)
        return pipe

    return load
