"""Wan VACE: clips to follow, masks, pictures of what is to be seen, strength; against diffusers' pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor

import pipegraph as pg
from pipegraph.models.families.wan import WAN_VACE
from pipegraph.nodes.video.wan_vace import trim_video_latent, wan_vace_to_video

from ..context import Context
from . import tiny
from .conftest import frames_of
from .test_wan import NEGATIVE, PROMPT, SIZE, TOLERANCE, noise, reference, run, texts
from .test_wan_lora import write
from .test_wan_vision import picture, pil

FRAMES = 5


def network() -> Any:
    from diffusers import WanVACETransformer3DModel

    torch.manual_seed(9)
    return WanVACETransformer3DModel(
        patch_size=(1, 2, 2),
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=16,
        out_channels=16,
        text_dim=32,
        freq_dim=16,
        ffn_dim=48,
        num_layers=4,
        cross_attn_norm=True,
        rope_max_seq_len=32,
        vace_layers=[0, 2],
        vace_in_channels=96,
    )


@pytest.fixture(scope="session")
def vace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wan") / "vace"
    tiny.make(folder, "WanVACEPipeline", transformer=network())
    return folder


def clip_to_follow() -> Tensor:
    return torch.cat([picture(i) for i in range(FRAMES)])


def masks() -> Tensor:
    found = torch.zeros(FRAMES, *SIZE)
    found[1:, :20, 10:] = 1
    found[3:] = 1
    return found


@pytest.mark.parametrize("case", ["text", "clip", "mask", "reference", "all"])
def test_equals_diffusers(
    load: Any, pipeline: Any, vace: Path, context: Context, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It mends broken letters with a package that is not installed.
    monkeypatch.setattr("diffusers.pipelines.wan.pipeline_wan_vace.prompt_clean", str)
    model, clip, vae = load(vace)
    assert model.family is WAN_VACE
    strength = 0.6 if case == "all" else 1.0
    ours: dict[str, Any] = {}
    theirs: dict[str, Any] = {}
    if case in ("clip", "mask", "all"):
        ours["control_video"], theirs["video"] = clip_to_follow(), [pil(f[None]) for f in clip_to_follow()]
    if case in ("mask", "all"):
        ours["control_masks"] = masks()
        theirs["mask"] = [Image.fromarray((m * 255).to(torch.uint8).numpy()) for m in masks()]
    if case in ("reference", "all"):
        ours["reference_image"], theirs["reference_images"] = picture(8), pil(picture(8))
    made = wan_vace_to_video(*texts(clip), vae, context, SIZE[1], SIZE[0], FRAMES, strength=strength, **ours)
    assert made.trim_latent == ("reference_image" in ours) and not context.warnings
    start = noise(FRAMES + 4 * made.trim_latent)
    assert made.latent["samples"].shape == start.shape
    found = run(model, made.positive, made.negative, start)
    expected = reference(pipeline(vace, "WanVACEPipeline"), start, FRAMES, conditioning_scale=strength, **theirs)
    assert (found - expected).abs().max() < TOLERANCE
    for change in ("control_video", "control_masks", "reference_image", "strength"):
        if change == "strength" or change in ours:
            other: dict[str, Any] = {"strength": strength, **ours}
            other[change] = 0.3 if change == "strength" else 1 - ours[change]
            changed = wan_vace_to_video(*texts(clip), vae, context, SIZE[1], SIZE[0], FRAMES, **other)
            assert (run(model, changed.positive, changed.negative, start) - found).abs().max() > TOLERANCE, change


def test_what_lacks_is_made_freely_and_sizes_must_fit(load: Any, vace: Path, context: Context) -> None:
    model, clip, vae = load(vace)
    given = (*texts(clip), vae, context, SIZE[1], SIZE[0], 9)
    short = wan_vace_to_video(*given, control_video=clip_to_follow(), control_masks=masks() * 0).positive[0][1]
    [mask] = short["vace_mask"]
    assert mask.shape == (1, 64, 3, 6, 4) and not mask[:, :, :2].any() and mask[:, :, 2].all()
    grey = wan_vace_to_video(*given).positive[0][1]
    assert torch.equal(grey["vace_inactive"][0], grey["vace_reactive"][0])
    with pytest.raises(ValueError, match="connect WanVaceToVideo"):
        model.prepare(texts(clip)[0], noise(9))
    with pytest.raises(ValueError, match="use the latent of WanVaceToVideo"):
        model.prepare(wan_vace_to_video(*given).positive, noise(5))
    first = wan_vace_to_video(*given)
    second = wan_vace_to_video(first.positive, first.negative, *given[2:], reference_image=picture(1))
    with pytest.raises(ValueError, match=r"WanVaceToVideo 1 of 2 has \[3, 6, 4\] latent cells, the state \[4, 6, 4\]"):
        model.prepare(second.positive, noise(13))
    two = wan_vace_to_video(*given, reference_image=torch.cat([picture(1), picture(2)]))
    assert two.trim_latent == 2 and two.latent["samples"].shape[2] == 5


@torch.no_grad()
def together(network: Any, x: Tensor, time: float, text: Tensor, clips: list[Tensor], strengths: list[float]) -> Tensor:
    """diffusers' prediction with what its blocks of control give for each clip alone, summed by strength."""
    given = {"timestep": torch.tensor([time]), "encoder_hidden_states": text, "return_dict": False}
    hints: dict[int, list[Tensor]] = {i: [] for i in range(len(network.vace_blocks))}

    def kept(i: int, found: Any) -> None:
        hints[i].append(found[0])

    def summed(i: int, found: Any) -> Any:
        return sum(s * h for s, h in zip(strengths, hints[i], strict=True)), found[1]

    for hook, shown in ((kept, clips), (summed, clips[:1])):
        hooks = [
            block.register_forward_hook(lambda _m, _a, found, i=i, hook=hook: hook(i, found))
            for i, block in enumerate(network.vace_blocks)
        ]
        for clip in shown:
            found: Tensor = network(x, control_hidden_states=clip, **given)[0]
        for handle in hooks:
            handle.remove()
    return found


def test_several_clips_are_followed_at_once(load: Any, pipeline: Any, vace: Path, context: Context) -> None:
    """The published behaviour of ComfyUI's WanVaceToVideo in a row; diffusers' pipeline follows one clip."""
    model, clip, vae = load(vace)
    given: dict[str, Any] = {
        "vae": vae,
        "ctx": context,
        "width": SIZE[1],
        "height": SIZE[0],
        "length": FRAMES,
        "control_video": clip_to_follow(),
    }

    def made(*strengths: float) -> Any:
        both = texts(clip)
        for strength, mask in zip(strengths, (None, masks()), strict=False):
            followed = wan_vace_to_video(*both, **given, strength=strength, control_masks=mask)
            both = followed.positive, followed.negative
        return both[0]

    def predicted(conditioning: Any) -> Tensor:
        found: Tensor = model.predict(x, torch.tensor([0.6]), model.prepare(conditioning, x))[0]
        return found

    x, both = noise(FRAMES), made(0.7, 0.4)
    text, entries = both[0]
    clips = [
        torch.cat([model.process_in(inactive), model.process_in(reactive), mask], 1)
        for inactive, reactive, mask in zip(
            entries["vace_inactive"], entries["vace_reactive"], entries["vace_mask"], strict=True
        )
    ]
    velocity = together(pipeline(vace, "WanVACEPipeline").transformer, x, 600.0, text, clips, [0.7, 0.4])
    found = predicted(both)
    assert (found - (x - 0.6 * velocity)).abs().max() < TOLERANCE
    for other in (made(0.4, 0.7), made(0.7), made(1.1)):
        assert (predicted(other) - found).abs().max() > 10 * TOLERANCE
    # Nothing of one row's strengths goes to another's.
    pair = model.predict(x, torch.tensor([0.6]), model.prepare([*made(0.4, 0.7), *both], x))
    assert (pair[1] - found).abs().max() < 1e-5


def test_trim() -> None:
    latent = {"samples": torch.arange(24.0).reshape(1, 2, 3, 2, 2), "noise_mask": torch.ones(1, 1, 3, 2, 2)}
    cut = trim_video_latent(latent, 1)
    assert torch.equal(cut["samples"], latent["samples"][:, :, 1:]) and cut["noise_mask"].shape[2] == 2
    with pytest.raises(ValueError, match="has 3 latent frames"):
        trim_video_latent(latent, 3)


GRAPH: dict[str, Any] = {  # the nodes and files of ComfyUI's template video_wan_vace_14B_t2v
    "140": {"class_type": "UNETLoader",
            "inputs": {"unet_name": "wan2.1_vace_14B_fp16.safetensors", "weight_dtype": "default"}},
    "38": {"class_type": "CLIPLoader", "inputs": {
        "clip_name": "umt5_xxl_fp8_e4m3fn_scaled.safetensors", "type": "wan", "device": "default"}},
    "39": {"class_type": "VAELoader", "inputs": {"vae_name": "wan_2.1_vae.safetensors"}},
    "154": {"class_type": "LoraLoader", "inputs": {
        "model": ["140", 0], "clip": ["38", 0], "lora_name": "Wan21_CausVid_14B_T2V_lora_rank32.safetensors",
        "strength_model": 0.3, "strength_clip": 1}},
    "48": {"class_type": "ModelSamplingSD3", "inputs": {"model": ["154", 0], "shift": 8}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["154", 1], "text": PROMPT}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["154", 1], "text": NEGATIVE}},
    "49": {"class_type": "WanVaceToVideo", "inputs": {
        "positive": ["6", 0], "negative": ["7", 0], "vae": ["39", 0], "width": 32, "height": 48, "length": 5,
        "batch_size": 1, "strength": 1}},
    "3": {"class_type": "KSampler", "inputs": {
        "model": ["48", 0], "positive": ["49", 0], "negative": ["49", 1], "latent_image": ["49", 2], "seed": 1,
        "steps": 2, "cfg": 1, "sampler_name": "uni_pc", "scheduler": "simple", "denoise": 1}},
    "58": {"class_type": "TrimVideoLatent", "inputs": {"samples": ["3", 0], "trim_amount": ["49", 3]}},
    "8": {"class_type": "VAEDecode", "inputs": {"samples": ["58", 0], "vae": ["39", 0]}},
    "68": {"class_type": "CreateVideo", "inputs": {"images": ["8", 0], "fps": 16}},
    "69": {"class_type": "SaveVideo",
           "inputs": {"video": ["68", 0], "filename_prefix": "video/ComfyUI", "format": "auto", "codec": "auto"}},
}  # fmt: skip


@pytest.mark.parametrize("pictured", [False, True])
def test_comfyuis_templates_run_and_nothing_goes_round_the_layer(
    load: Any, vace: Path, tmp_path: Path, pictured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """video_wan_vace_14B_t2v, and with a picture video_wan_vace_14B_ref2v."""
    from pipegraph.kernels.audit import strict

    models = tmp_path / "models"
    tiny.comfyui_files(vace, models, "wan2.1_vace_14B_fp16.safetensors")
    (models / "loras").mkdir()
    write(models / "loras/Wan21_CausVid_14B_T2V_lora_rank32.safetensors", load(vace)[0].loaded.network, "comfyui")
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(models))
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(tmp_path))
    graph = json.loads(json.dumps(GRAPH))
    if pictured:
        pil(picture(2, 50, 70)).save(tmp_path / "seen.png")
        graph["154"]["inputs"]["strength_model"] = 0.4  # so that it runs again
        graph["134"] = {"class_type": "LoadImage", "inputs": {"image": "seen.png"}}
        graph["49"]["inputs"]["reference_image"] = ["134", 0]
    with strict(1 << 10) as seen:
        result = pg.load(graph, out=tmp_path / "out").run()
    assert seen.attention > 10 and seen.linear > 100
    lora = result.notes["154"]["lora"]
    assert lora["keys"] == lora["of"]
    assert frames_of(result.files).shape == (5, 48, 32, 3)
