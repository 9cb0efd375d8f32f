"""ComfyUI's templates of LTX-2 and LTX-2.3, from the file names that they ask for to the clip with its sound."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import av
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn

import pipegraph as pg
from pipegraph.models.media.video_read import read_video

from . import gemma_tiny, ltx2_graphs, ltx2_tiny


def lora(network: Any, prefix: str, layers: list[tuple[str, str]]) -> dict[str, Tensor]:
    """A LoRA of rank 2 on layers (name in the file, name in the network)."""
    out = {}
    for theirs, ours in layers:
        layer: nn.Linear = network.get_submodule(ours)
        out[f"{prefix}{theirs}.lora_A.weight"] = torch.randn(2, layer.in_features) / 4
        out[f"{prefix}{theirs}.lora_B.weight"] = torch.randn(layer.out_features, 2) / 4
    return out


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ComfyUI's folders with all files of the templates, and what a user puts in."""
    from diffusers.pipelines.ltx2.latent_upsampler import LTX2LatentUpsamplerModel

    root = tmp_path_factory.mktemp("ltx2")
    torch.manual_seed(0)
    upscaler = LTX2LatentUpsamplerModel(mid_channels=32, num_blocks_per_stage=1, use_rational_resampler=False).eval()
    for folder in ("loras", "latent_upscale_models", "input"):
        (root / folder).mkdir()
    files = {
        "2": ("ltx-2-19b-dev-fp8", "ltx-2-19b-distilled"),
        "2.3": ("ltx-2.3-22b-dev-fp8", "ltx-2.3-22b-distilled-fp8"),
    }
    for version, names in files.items():
        networks = ltx2_tiny.components(later=version == "2.3")
        for name in names:
            ltx2_tiny.write_file(networks, root / "checkpoints" / f"{name}.safetensors")
        told = {"config": json.dumps({"_class_name": "LatentUpsampler", "dims": 3})}
        save_file(upscaler.state_dict(), root / "latent_upscale_models" / ltx2_graphs.UPSCALERS[version], told)
        layers = [
            ("patchify_proj", "proj_in"),
            ("adaln_single.linear", "time_embed.linear"),
            ("av_ca_a2v_gate_adaln_single.linear", "av_cross_attn_video_a2v_gate.linear"),
            ("transformer_blocks.1.audio_attn1.to_q", "transformer_blocks.1.audio_attn1.to_q"),
        ]
        made = lora(networks["transformer"], "diffusion_model.", layers)
        connector = "diffusion_model.video_embeddings_connector.transformer_1d_blocks.0.attn1.to_v"
        made |= {f"{connector}.lora_{side}.weight": torch.zeros(2, 2) for side in "AB"}
        save_file(made, root / "loras" / ltx2_graphs.DISTILLED[version])
    gemma = gemma_tiny.network(ltx2_tiny.TEXT, ltx2_tiny.LAYERS - 1)
    gemma_tiny.write(root / "text_encoders" / ltx2_graphs.GEMMA, gemma_tiny.mixed(gemma_tiny.tensors(gemma)))
    layer = "model.layers.0.self_attn.q_proj"
    written = lora(gemma, "text_encoders.transformer.", [(layer, layer)])
    save_file(written, root / "loras" / ltx2_graphs.WRITER)
    for name, seed in (("girl", 1), ("car", 2)):
        pixels = torch.rand(6, 8, 3, generator=torch.Generator().manual_seed(seed)).mul(255).byte()
        Image.fromarray(pixels.numpy()).resize((160, 120)).save(root / "input" / f"{name}.png")
    voice(root / "input/voice.wav")
    return root


def voice(path: Path) -> None:
    """Two seconds of noise, stereo at 16 kHz."""
    samples = (torch.rand(1, 64000, generator=torch.Generator().manual_seed(5)) * 20000 - 10000).short().numpy()
    with av.open(str(path), "w") as out:
        stream = out.add_stream("pcm_s16le", rate=16000, layout="stereo")
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="stereo")
        frame.sample_rate = 16000
        out.mux([*stream.encode(frame), *stream.encode(None)])


@pytest.fixture(autouse=True)
def folders(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(root))
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(root / "input"))


def made(graph: dict[str, Any], out: Path, size: tuple[int, int, int, float]) -> Any:
    """Run it: the clip has so many frames of such a size and rate, and sound as long as it."""
    result = pg.load(graph, out=out).run()
    [path] = [file for file in result.files if file.suffix == ".mp4"]
    clip, _ = read_video(path)
    assert (clip.frames.count, clip.frames.width, clip.frames.height, float(clip.fps)) == size
    sound = clip.audio()
    assert sound is not None and sound["waveform"].shape[1] == 2
    assert (
        abs(sound["waveform"].shape[2] / sound["sample_rate"] - size[0] / size[3]) < 1024 / sound["sample_rate"] + 0.02
    )
    images = clip.images()
    assert images.std() > 0.02 and (images[1:] - images[:-1]).abs().mean() > 1e-3
    return result, images, sound


def test_text_to_video(tmp_path: Path) -> None:
    """video_ltx2_t2v: two stages, the LoRA in the second, fp8 weights, Gemma 3 in one file."""
    result, _, _ = made(ltx2_graphs.ltx2(picture=False, distilled=False), tmp_path, (9, 128, 128, 12))
    assert any("2 keys for text connectors (not in this model)" in said for said in result.warnings)


@pytest.mark.slow
@pytest.mark.parametrize("picture", [False, True])
@pytest.mark.parametrize("distilled", [False, True])
def test_ltx2(tmp_path: Path, picture: bool, distilled: bool) -> None:
    """Each of the four; the distilled checkpoint needs no LoRA, of which some keys would be left out."""
    result, _, _ = made(ltx2_graphs.ltx2(picture, distilled), tmp_path, (9, 128, 128, 12))
    assert any("which the model has not" in said for said in result.warnings) is not distilled


def test_image_to_video_of_23(tmp_path: Path) -> None:
    """video_ltx2_3_i2v: sizes that the graph computes are cut to what clips have, the first frame is the picture."""
    result, images, _ = made(ltx2_graphs.ltx23(picture=True), tmp_path, (9, 128, 128, 8))
    said = " ".join(str(event) for event in result.warnings)
    assert "width 72 becomes 64" in said and "height 72 becomes 64" in said
    _, without, _ = made(ltx2_graphs.ltx23(), tmp_path / "bare", (9, 128, 128, 8))
    assert (images[0] - without[0]).abs().mean() > 0.02


@pytest.mark.slow
def test_prompts_are_written(tmp_path: Path) -> None:
    """video_ltx2_3_t2v with the enhancer on: another prompt, another clip."""
    _, plain, _ = made(ltx2_graphs.ltx23(), tmp_path / "plain", (9, 128, 128, 8))
    _, written, _ = made(ltx2_graphs.ltx23(enhance=True), tmp_path / "written", (9, 128, 128, 8))
    assert (plain - written).abs().mean() > 1e-3
    with pytest.raises(pg.PipegraphError, match="picture"):
        pg.load(ltx2_graphs.ltx23(picture=True, enhance=True), out=tmp_path).run()


@pytest.mark.slow
def test_a_given_voice_stays(tmp_path: Path) -> None:
    """video_ltx2_3_ia2v: what is heard is the given sound out of the VAE and the vocoder, whatever is seen."""
    graph = ltx2_graphs.ltx23(voice=True)
    _, _, sound = made(graph, tmp_path, (9, 128, 128, 8))
    graph["heard"]["inputs"]["samples"] = ["encoded", 0]
    _, _, alone = made(graph, tmp_path / "alone", (9, 128, 128, 8))
    one, other = (s["waveform"][..., : int(s["sample_rate"])].flatten() for s in (sound, alone))
    assert torch.allclose(one, other, atol=1e-3) and one.std() > 1e-3


@pytest.mark.slow
def test_first_and_last_frame(tmp_path: Path) -> None:
    """video_ltx2_3_flf2v: the guides stand behind the clip and are taken away again."""
    graph = ltx2_graphs.ltx23_ends()
    _, images, _ = made(graph, tmp_path, (17, 96, 64, 16))
    graph["last_file"]["inputs"]["image"] = "girl.png"
    _, other, _ = made(graph, tmp_path / "other", (17, 96, 64, 16))
    assert (images[-1] - other[-1]).abs().mean() > 1e-3
