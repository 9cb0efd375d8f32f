"""MiniMax-H3 from ComfyUI's single files, under the names that its templates ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from pipegraph.models.checkpoints.load import load_model, load_text_encoders, load_vae
from pipegraph.models.loading.header_values import LoadError
from pipegraph.nodes.video.minimax import empty_minimax_h3_latent

from ..context import Context
from ..models.test_quantized_files import convrot
from . import minimax_tiny
from .test_minimax import (
    CPU,
    FRAMES,
    HEIGHT,
    TOLERANCE,
    WIDTH,
    apart,
    blocks,
    run,
    theirs,
)

__all__ = ["blocks"]
NETWORK = "minimax_h3_fl2va_pruned_int8_convrot.safetensors"
TEXT = torch.randn(1, 9, minimax_tiny.TEXT, generator=torch.Generator().manual_seed(11))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes files into the model folders."""
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))

    def write(name: str, tensors: dict[str, Tensor]) -> None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        save_file(tensors, path)

    return write


@pytest.mark.parametrize("pruned", [False, True])
def test_the_network_equals_diffusers(files: Any, blocks: Any, context: Context, pruned: bool) -> None:
    if pruned:
        network, tensors = minimax_tiny.pruned()
    else:
        network = minimax_tiny.components()["transformer"]
        tensors = minimax_tiny.to_original(network)
    files(f"diffusion_models/{NETWORK}", tensors)
    model = load_model(NETWORK, CPU)
    latent = empty_minimax_h3_latent(context, WIDTH, HEIGHT, FRAMES)
    made = run(model, [[TEXT, {}]], latent)
    kinds = torch.ones(TEXT.shape[1], dtype=torch.long)
    expected = theirs(blocks, {"transformer": network}, "MiniMaxH3CoreDenoiseStep", TEXT, kinds)
    assert apart(made, expected) < TOLERANCE


def test_the_names_are_those_that_diffusers_converts() -> None:
    from diffusers.loaders.single_file_utils import convert_minimax_h3_transformer_checkpoint_to_diffusers as convert

    network: Any = minimax_tiny.components()["transformer"]
    stored = {n.removeprefix("model.diffusion_model."): t for n, t in minimax_tiny.to_original(network).items()}
    converted = convert(stored, dict(network.config))
    assert converted.keys() == network.state_dict().keys()
    assert all(torch.equal(t, converted[n]) for n, t in network.state_dict().items())


def test_rotated_int8(files: Any, context: Context) -> None:
    """int8_convrot: the layers of the blocks, q, k and v in one matrix, are read packed and stay close."""
    _, tensors = minimax_tiny.pruned()
    of_blocks = {n: t for n, t in tensors.items() if ".blocks." in n and "refiner" not in n and "adaln" not in n}
    files("diffusion_models/plain.safetensors", tensors)
    files(f"diffusion_models/{NETWORK}", tensors | convrot(of_blocks, 16)[0])
    plain, model = (load_model(name, CPU) for name in ("plain.safetensors", NETWORK))
    assert (
        sum(not isinstance(m.weight, Tensor) for m in model.loaded.network.modules() if isinstance(m, nn.Linear)) == 12
    )
    latent = empty_minimax_h3_latent(context, WIDTH, HEIGHT, FRAMES)
    exact, made = (run(m, [[TEXT, {}]], latent) for m in (plain, model))
    for a, b in zip(exact, made, strict=True):
        assert 0 < (a - b).norm() / a.norm() < 0.05


def test_the_vaes_equal_diffusers(files: Any) -> None:
    networks: Any = minimax_tiny.components()
    files("vae/minimax_h3_video_vae_fp16.safetensors", minimax_tiny.to_original_vae(networks["vae"]))
    files("vae/minimax_h3_audio_vae_fp32.safetensors", minimax_tiny.to_original_sound(networks["audio_vae"]))
    vae = load_vae("minimax_h3_video_vae_fp16.safetensors", CPU)
    sound: Any = load_vae("minimax_h3_audio_vae_fp32.safetensors", CPU)
    assert vae.loaded.network.config.latents_std == pytest.approx(networks["vae"].config.latents_std)
    generator = torch.Generator().manual_seed(2)
    z = torch.randn(1, 24, 7, 2, 2, generator=generator)
    mean, std = (torch.tensor(networks["vae"].config[k])[:, None, None, None] for k in ("latents_mean", "latents_std"))
    with torch.no_grad():
        pixels = networks["vae"].decode(z * std + mean, return_dict=False)[0]
        rgb = pixels[0].movedim(0, -1) * torch.tensor([0.229, 0.224, 0.225]) + torch.tensor([0.485, 0.456, 0.406])
        assert (vae.decode(z) - rgb.clamp(0, 1)).abs().max() < TOLERANCE
        picture = torch.rand(1, 32, 32, 3, generator=generator)
        given = (
            networks["vae"]
            .encode(
                ((picture - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])).movedim(-1, 0)[
                    None
                ]
            )
            .latent_dist.mode()
        )
        assert (vae.encode(picture) - (given - mean) / std).abs().max() < TOLERANCE
        heard = torch.randn(1, 32, 2, 5, generator=generator)
        config = networks["audio_vae"].config
        raw = (
            heard[0].movedim(1, 0) * torch.tensor(config.latents_std)[:, None]
            + torch.tensor(config.latents_mean)[:, None]
        )
        wave = networks["audio_vae"].decode(raw, return_dict=False)[0].movedim(1, 0)
    assert (sound.sound(heard)["waveform"] - wave).abs().max() < TOLERANCE


def test_the_text_encoder(files: Any, tmp_path: Path) -> None:
    """Cut behind the 50th layer, whose states are read as they are; layers may scale their inputs (AWQ)."""
    network = minimax_tiny.text_encoder()
    tensors = minimax_tiny.to_original_text(network)
    minimax_tiny.tokenizer().save_pretrained(tmp_path / "tokenizers/qwen3vl_32b")
    factors = torch.rand(minimax_tiny.TEXT, generator=torch.Generator().manual_seed(6)) + 0.5
    smoothed = dict(tensors)
    for layer in ("model.layers.3.self_attn.q_proj", "model.layers.7.mlp.up_proj"):
        smoothed[f"{layer}.pre_quant_scale"] = factors.clone()
        smoothed[f"{layer}.weight"] = tensors[f"{layer}.weight"] / factors
    files("text_encoders/plain.safetensors", tensors)
    files("text_encoders/qwen3vl_32b_minimax_h3_nvfp4_awq.safetensors", smoothed)
    ids = minimax_tiny.tokenizer()("<d>hi</d> there", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        expected = network.model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states[50]
    for name in ("plain.safetensors", "qwen3vl_32b_minimax_h3_nvfp4_awq.safetensors"):
        clip = load_text_encoders("minimax", [name], CPU)
        [[states, _]] = clip.encode(clip.tokenize("<d>hi</d> there"))
        assert states.shape == expected.shape and (states - expected).abs().max() < TOLERANCE
    files("text_encoders/odd.safetensors", smoothed | {"model.layers.3.self_attn.q_proj.pre_quant_scale": factors[:5]})
    with pytest.raises(LoadError, match=r"\[5\] does not fit a layer of 32 inputs"):
        load_text_encoders("minimax", ["odd.safetensors"], CPU)


def test_loras_of_comfyui(files: Any, tmp_path: Path, context: Context) -> None:
    """They change what they would change in the file: q, k and v in one, the gate first."""
    from pipegraph.models.adapters.lora import load_lora

    tensors = minimax_tiny.to_original(minimax_tiny.components()["transformer"])
    (tmp_path / "loras").mkdir()
    minimax_tiny.write_lora(tmp_path / "loras/turbo.safetensors")
    lora = load_file(tmp_path / "loras/turbo.safetensors")
    changed = dict(tensors)
    for name in [n.removesuffix(".lora_A.weight") for n in lora if n.endswith("lora_A.weight")]:
        key = f"model.{name}.weight"
        changed[key] = tensors[key] + 0.5 * lora[f"{name}.lora_B.weight"] @ lora[f"{name}.lora_A.weight"]
    files("diffusion_models/plain.safetensors", tensors)
    files("diffusion_models/changed.safetensors", changed)
    latent = empty_minimax_h3_latent(context, WIDTH, HEIGHT, FRAMES)
    plain = load_model("plain.safetensors", CPU)
    made = run(
        plain.with_lora(load_lora(tmp_path / "loras/turbo.safetensors", plain.loaded.network, plain.family), 0.5),
        [[TEXT, {}]],
        latent,
    )
    expected = run(load_model("changed.safetensors", CPU), [[TEXT, {}]], latent)
    assert apart(made, expected) < TOLERANCE < apart(run(plain, [[TEXT, {}]], latent), expected)


def test_the_vae_in_rotated_int8(files: Any) -> None:
    """Rows of q, k and v that lie head by head keep their scales."""
    tensors = minimax_tiny.to_original_vae(minimax_tiny.components()["vae"])
    linears = {n: t for n, t in tensors.items() if "transformer_blocks" in n and n.endswith("weight") and t.ndim == 2}
    files("vae/plain.safetensors", tensors)
    files("vae/minimax_h3_video_vae_int8_convrot.safetensors", tensors | convrot(linears, 16)[0])
    z = torch.randn(1, 24, 7, 2, 2, generator=torch.Generator().manual_seed(2))
    exact, made = (
        load_vae(f"{name}.safetensors", CPU).decode(z) for name in ("plain", "minimax_h3_video_vae_int8_convrot")
    )
    assert 0 < (exact - made).abs().mean() < 0.02 * exact.std()


def test_what_is_not_read(files: Any) -> None:
    tensors = minimax_tiny.to_original(minimax_tiny.components()["transformer"])
    key = "model.diffusion_model.final_layer.video_out.weight"
    files("diffusion_models/bank.safetensors", tensors | {key: tensors[key].repeat(4, 1)})
    with pytest.raises(LoadError, match="a bank of output layers"):
        load_model("bank.safetensors", CPU)
    del tensors["model.diffusion_model.blocks.1.attn.out_proj.weight"]
    files("diffusion_models/less.safetensors", tensors)
    with pytest.raises(LoadError, match=r"missing: transformer_blocks\.1\.attn\.to_out\.0\.weight"):
        load_model("less.safetensors", CPU)
