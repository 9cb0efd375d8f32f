"""Our MiniMax-H3 equals diffusers' blocks in picture and sound: same weights, text, noise and noise levels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pipegraph as pg
from pipegraph.access import Access, granted
from pipegraph.generators import finish
from pipegraph.kernels.audit import strict
from pipegraph.models.checkpoints.load import load_checkpoint, load_vae
from pipegraph.models.checkpoints.source import checkpoint
from pipegraph.models.families.ltx.ltx2 import joined, separated
from pipegraph.models.families.minimax.family import SEED
from pipegraph.models.loading.place import Place
from pipegraph.models.media.video_read import read_video
from pipegraph.models.model import Model
from pipegraph.models.sampling.guiders import Guider
from pipegraph.models.sampling.run import sample
from pipegraph.models.sampling.samplers import SAMPLERS
from pipegraph.models.text.encoder import TextEncoder
from pipegraph.nodes.image.vae import vae_decode_audio
from pipegraph.nodes.video.minimax import (
    empty_minimax_h3_latent,
    minimax_h3_add_guide,
    minimax_h3_image_to_video,
    minimax_h3_reference_to_video,
    minimax_h3_sigma_shift,
)

from ..context import Context
from . import minimax_tiny
from .test_wan import Given

TOLERANCE = 1e-4
WIDTH, HEIGHT, FRAMES, STEPS = 32, 64, 22, 4
CPU = Place(torch.device("cpu"), torch.float32)
PROMPT = "<Picture 1> says <d>hi</d>"


@pytest.fixture(scope="module")
def networks() -> dict[str, nn.Module]:
    return minimax_tiny.components() | {"text_encoder": minimax_tiny.text_encoder()}


@pytest.fixture(scope="module")
def folder(networks: dict[str, nn.Module], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model in diffusers' layout."""
    made = tmp_path_factory.mktemp("minimax") / "MiniMax-H3"
    minimax_tiny.write_folder({k: v for k, v in networks.items() if k != "text_encoder"}, made)
    minimax_tiny.write_text(networks["text_encoder"], made)
    return made


@pytest.fixture(scope="module")
def loaded(folder: Path) -> tuple[Model, TextEncoder, Any, Any]:
    """Model, text encoder, VAE of clips and of sound."""
    with granted(Access.to(folder)):
        return *load_checkpoint(checkpoint(str(folder)), CPU), load_vae(str(folder / "audio_vae"), CPU)


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs diffusers' blocks by name, for clips of any length, with the noise in given pictures that ours has."""
    from diffusers.modular_pipelines.minimax_h3 import before_denoise, modular_blocks_minimax_h3, modular_pipeline

    def noise(shape: Any, **_: Any) -> Tensor:
        return torch.randn(shape, generator=torch.Generator().manual_seed(SEED))

    monkeypatch.setattr(modular_pipeline.MiniMaxH3ModularPipeline, "min_duration", 0.0)
    monkeypatch.setattr(before_denoise, "randn_tensor", noise)

    def run(name: str, components: dict[str, Any], wanted: Any, **inputs: Any) -> Any:
        pipe = minimax_tiny.pipeline(getattr(modular_blocks_minimax_h3, name)(), **components)
        pipe.set_progress_bar_config(disable=True)
        return pipe(output=wanted, **inputs)

    return run


def drawn() -> tuple[Tensor, Tensor]:
    """Noise of the clip [1, C, T, h, w], and of the sound [2, C, L]."""
    generator = torch.Generator().manual_seed(7)
    return torch.randn(1, 24, 7, 4, 2, generator=generator), torch.randn(2, 32, 37, generator=generator)


def sigmas(steps: int = STEPS) -> Tensor:
    t = torch.linspace(1, 0, steps + 1)
    return 12 * t / (1 + 11 * t)


def run(model: Model, positive: Any, latent: Any, sampler: str = "euler") -> list[Tensor]:
    """The latents of clip and sound."""
    clip, sound = drawn()
    given: Any = Given(joined([clip, sound.movedim(1, 0)[None]]))
    steps = sample(Guider(model, positive), given, SAMPLERS[sampler], sigmas(), latent)
    return separated(finish(steps).samples, latent["shapes"])


def theirs(blocks: Any, networks: Any, name: str, text: Tensor, kinds: Tensor, **more: Any) -> list[Tensor]:
    """The same of diffusers' blocks."""
    clip, sound = drawn()
    found = blocks(
        name,
        networks,
        ["latents", "audio_latents"],
        prompt_embeds=text,
        text_token_tags=kinds,
        height=HEIGHT,
        width=WIDTH,
        num_frames=FRAMES,
        num_inference_steps=STEPS + 1,
        latents=clip,
        audio_latents=sound,
        **more,
    )
    return [found["latents"], found["audio_latents"].movedim(1, 0)[None]]


def apart(ours: list[Tensor], others: list[Tensor]) -> float:
    return max(float((a - b).abs().max()) for a, b in zip(ours, others, strict=True))


def test_clip_and_sound_equal_diffusers(networks: Any, loaded: Any, blocks: Any, context: Context) -> None:
    model, clip, vae, sound_vae = loaded
    with strict(1 << 10) as seen:
        started = minimax_h3_image_to_video(clip, vae, PROMPT, context, WIDTH, HEIGHT, FRAMES)
        made = run(model, started.positive, started.LATENT)
    assert seen.attention > 50 and seen.linear > 300
    told = {"tokenizer": minimax_tiny.tokenizer(), "processor": minimax_tiny.Processor()}
    text = blocks("MiniMaxH3TextEncoderStep", networks | told, ["prompt_embeds", "text_token_tags"], prompt=PROMPT)
    [[states, _]] = started.positive
    assert states.shape == (1, 21, minimax_tiny.TEXT)
    assert (states - text["prompt_embeds"]).abs().max() < TOLERANCE
    expected = theirs(blocks, networks, "MiniMaxH3CoreDenoiseStep", text["prompt_embeds"], text["text_token_tags"])
    assert apart(made, expected) < TOLERANCE
    # The sound's levels are its own, and text counts.
    other = clip.encode(clip.tokenize("two of them, one of which says that"))
    for changed in (
        run(minimax_h3_sigma_shift(model, 12, 3.2), started.positive, started.LATENT),
        run(model, other, started.LATENT),
    ):
        assert apart(changed[:1], made[:1]) > 10 * TOLERANCE and apart(changed[1:], made[1:]) > 10 * TOLERANCE

    frames = blocks("MiniMaxH3VideoDecodeStep", networks, "videos", latents=expected[0], output_type="pt")
    with strict(1 << 10) as seen:
        images = vae.decode(made[0])
    assert seen.attention == 2 and seen.linear > 10
    assert (images - frames[0].movedim(1, -1)).abs().max() < TOLERANCE
    wave = blocks("MiniMaxH3AudioDecodeStep", networks, "audio", audio_latents=expected[1][0].movedim(1, 0))
    heard = vae_decode_audio({**started.LATENT, "samples": joined(made)}, sound_vae)
    assert heard["sample_rate"] == 32000 and heard["waveform"].shape == (1, 2, 37 * 800)
    assert (heard["waveform"] - wave).abs().max() < TOLERANCE


def test_first_and_last_pictures_equal_diffusers(networks: Any, loaded: Any, blocks: Any, context: Context) -> None:
    from PIL import Image

    model, clip, vae, _ = loaded
    generator = torch.Generator().manual_seed(3)
    first, last = ((torch.rand(1, *size, 3, generator=generator) * 255).round() / 255 for size in ((50, 70), (64, 32)))
    started = minimax_h3_image_to_video(clip, vae, PROMPT, context, WIDTH, HEIGHT, FRAMES, first, last)
    frames = [Image.fromarray((p[0] * 255).round().byte().numpy()) for p in (first, last)]
    frames[0] = frames[0].resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)
    told = {"tokenizer": minimax_tiny.tokenizer(), "processor": minimax_tiny.Processor()}
    text = blocks(
        "MiniMaxH3FL2VATextEncoderStep",
        networks | told,
        ["prompt_embeds", "text_token_tags"],
        prompt=PROMPT,
        keyframes=frames,
    )
    [[states, extras]] = started.positive
    assert torch.equal(extras["token_kinds"], text["text_token_tags"])
    assert (states - text["prompt_embeds"]).abs().max() < TOLERANCE
    given = blocks("MiniMaxH3KeyframeVaeEncoderStep", networks, "condition_latents", keyframes=frames)
    expected = theirs(
        blocks,
        networks,
        "MiniMaxH3FL2VACoreDenoiseStep",
        text["prompt_embeds"],
        text["text_token_tags"],
        keyframe_anchors=("first", "last"),
        condition_latents=given,
    )
    made = run(model, started.positive, started.LATENT)
    assert apart(made, expected) < TOLERANCE
    swapped = minimax_h3_image_to_video(clip, vae, PROMPT, context, WIDTH, HEIGHT, FRAMES, last, first)
    assert apart(run(model, swapped.positive, swapped.LATENT), expected) > 10 * TOLERANCE


def half_opaque(pictures: Tensor) -> Tensor:
    """With an opacity, which references leave out."""
    return torch.cat([pictures, torch.full_like(pictures[..., :1], 0.5)], -1)


def test_references_equal_diffusers(networks: Any, loaded: Any, blocks: Any, context: Context) -> None:
    """A picture, a video with its sound and a sound: what the text encoder is shown, and the sequence."""
    from diffusers.modular_pipelines.minimax_h3 import references as kinds_of
    from PIL import Image

    model, clip, vae, sound_vae = loaded
    generator = torch.Generator().manual_seed(8)
    picture, frames = (
        (torch.rand(n, *size, 3, generator=generator) * 255).round() / 255 for n, size in ((1, (64, 32)), (5, (32, 32)))
    )
    sounds = [torch.rand(1, 2, n, generator=generator) - 0.5 for n in (4000, 2400)]
    heard = [{"waveform": wave, "sample_rate": 32000} for wave in sounds]

    def started(**given: Any) -> Any:
        more: dict[str, Any] = {f"ref_{what}": {} for what in ("images", "videos", "video_audios", "audios")} | given
        return minimax_h3_reference_to_video(
            clip, PROMPT, context, WIDTH, HEIGHT, FRAMES, "match", vae, sound_vae, **more
        )

    seen = [kinds_of.MiniMaxH3ImageReference(image=Image.fromarray((picture[0] * 255).round().byte().numpy()))]
    alone = [kinds_of.MiniMaxH3AudioReference(audio=sounds[1][0], sample_rate=32000)]
    told = {"tokenizer": minimax_tiny.tokenizer(), "processor": minimax_tiny.Processor()}
    text = blocks(
        "MiniMaxH3Ref2VATextEncoderStep",
        networks | told,
        ["prompt_embeds", "text_token_tags"],
        prompt=PROMPT,
        normalized_references=seen + alone,
    )
    [[states, extras]] = started(ref_images={"ref_image_0": picture}, ref_audios={"ref_audio_0": heard[1]}).positive
    assert torch.equal(extras["token_kinds"], text["text_token_tags"])
    assert (states - text["prompt_embeds"]).abs().max() < TOLERANCE

    with strict(1 << 10) as launched:
        ours = started(
            ref_images={"ref_image_0": half_opaque(picture)},
            ref_videos={"ref_video_0": half_opaque(frames)},
            ref_video_audios={"ref_video_audio_0": heard[0]},
            ref_audios={"ref_audio_0": heard[1]},
        )
    assert launched.attention > 50
    array = (frames * 255).round().byte().numpy()
    video = kinds_of.MiniMaxH3VideoReference(frames=array, fps=24.0, audio=sounds[0][0], sample_rate=32000)
    everything = [*seen, video, *alone]
    given = blocks(
        "MiniMaxH3Ref2VAReferenceEncoderStep",
        networks,
        ["condition_latents", "audio_condition_latents"],
        normalized_references=everything,
    )
    [[states, extras]] = ours.positive
    expected = theirs(
        blocks,
        {"transformer_ref": networks["transformer"]},
        "MiniMaxH3Ref2VACoreDenoiseStep",
        states,
        extras["token_kinds"],
        normalized_references=everything,
        **given,
    )
    assert apart(run(model, ours.positive, ours.LATENT), expected) < TOLERANCE
    extras["minimax_references"].reverse()
    assert apart(run(model, ours.positive, ours.LATENT), expected) > 10 * TOLERANCE


def test_guides_are_where_they_are_put(loaded: Any, context: Context) -> None:
    """A picture at the first frame is a first picture; a sound is cut at the clip's end."""
    _, clip, vae, sound_vae = loaded
    picture = torch.rand(1, 64, 32, 3, generator=torch.Generator().manual_seed(1))
    started = minimax_h3_image_to_video(clip, vae, "", context, WIDTH, HEIGHT, FRAMES, picture)
    bare = minimax_h3_image_to_video(clip, vae, "", context, WIDTH, HEIGHT, FRAMES)
    led = minimax_h3_add_guide(bare.positive, bare.LATENT, context, 0, vae, None, picture)
    [one], [other] = (side[0][1]["minimax_guides"] for side in (started.positive, led))
    assert one["frame"] == other["frame"] == 0 and torch.equal(one["latent"], other["latent"])
    wave = {"waveform": torch.rand(1, 1, 44100), "sample_rate": 44100}
    [_, last] = minimax_h3_add_guide(led, bare.LATENT, context, -3, None, sound_vae, None, wave)[0][1]["minimax_guides"]
    assert last["frame"] == 19 and last["sound"].shape == (1, 32, 2, 5)
    with pytest.raises(ValueError, match="has 22 frames: a guide of 5 frames does not fit at 18"):
        minimax_h3_add_guide(led, bare.LATENT, context, 18, vae, None, torch.rand(7, 8, 8, 3))
    with pytest.raises(ValueError, match="audio needs audio_vae"):
        minimax_h3_add_guide(led, bare.LATENT, context, 0, vae, None, None, wave)
    assert context.warnings[-1] == "of 7 frames 5 are used: a video has 17n + 5"


def test_every_sampler_sees_both_schedules(loaded: Any, context: Context) -> None:
    """Where clip and sound have one shift, each sampler makes of the sound what it makes without being carried."""
    from pipegraph.models.sampling.model_sampling import Flow

    model, clip, vae, _ = loaded
    started = minimax_h3_image_to_video(clip, vae, PROMPT, context, WIDTH, HEIGHT, FRAMES)
    same = minimax_h3_sigma_shift(model, 12, 12)
    plain = model.with_sampling(Flow(12.0))
    for sampler in ("res_multistep", "dpmpp_2m"):
        alone = run(plain, started.positive, started.LATENT, sampler)
        assert apart(run(same, started.positive, started.LATENT, sampler), alone) < TOLERANCE
        assert apart(run(model, started.positive, started.LATENT, sampler)[1:], alone[1:]) > 10 * TOLERANCE


def test_what_a_mask_keeps(loaded: Any, context: Context) -> None:
    """Places of clip and sound that are kept stay as they are, at any noise level."""
    model, clip, vae, _ = loaded
    started = minimax_h3_image_to_video(clip, vae, PROMPT, context, WIDTH, HEIGHT, FRAMES)
    shapes, generator = started.LATENT["shapes"], torch.Generator().manual_seed(5)
    kept = [torch.randn(1, *shape, generator=generator) for shape in shapes]
    masks = [torch.ones_like(k) for k in kept]
    masks[0][:, :, :2], masks[1][..., 10:] = 0, 0
    latent = {**started.LATENT, "samples": joined(kept), "noise_mask": joined(masks)}
    made = run(model, started.positive, latent)
    for ours, before, mask in zip(made, kept, masks, strict=True):
        assert (ours - before)[mask == 0].abs().max() < 1e-5 and (ours - before)[mask == 1].abs().min() > 0


def test_decoding_is_a_stream(networks: Any, loaded: Any) -> None:
    """Clips of 5, 22 and 56 frames: 17 frames at a time, and what the whole decode gives."""
    vae = loaded[2]
    for cells, frames in ((2, 5), (7, 22), (17, 56)):
        z = torch.randn(1, 24, cells, 2, 2, generator=torch.Generator().manual_seed(cells))
        parts = list(vae.parts(z[0]))
        assert sum(map(len, parts)) == vae.frames_of(cells) == frames and max(map(len, parts)) <= 17
        if cells > 2:  # diffusers decodes no clip of 5 frames
            mean, std = (
                torch.tensor(networks["vae"].config[k])[:, None, None, None] for k in ("latents_mean", "latents_std")
            )
            pixels = networks["vae"].decode(z * std + mean, return_dict=False)[0].detach()
            rgb = (
                pixels[0].movedim(0, -1) * torch.tensor([0.229, 0.224, 0.225]) + torch.tensor([0.485, 0.456, 0.406])
            ).clamp(0, 1)
            assert (torch.cat(parts) - rgb).abs().max() < TOLERANCE
    assert vae.decode(torch.randn(1, 24, 1, 2, 2)).shape == (1, 32, 32, 3)


GRAPH: dict[str, Any] = {  # the nodes of ComfyUI's template video_minimax_h3_i2v
    "114": {"class_type": "LoadImage", "inputs": {"image": "picture.png"}},
    "115": {"class_type": "ResolutionSelector",
            "inputs": {"aspect_ratio": "16:9 (Widescreen)", "megapixels": 0.1, "multiple": 32}},
    "6": {"class_type": "UNETLoader", "inputs": {"unet_name": "", "weight_dtype": "default"}},
    "13": {"class_type": "CLIPLoader", "inputs": {"clip_name": "", "type": "minimax", "device": "default"}},
    "11": {"class_type": "VAELoader", "inputs": {"vae_name": ""}},
    "24": {"class_type": "VAELoader", "inputs": {"vae_name": ""}},
    "111": {"class_type": "PrimitiveFloat", "inputs": {"value": 0.2}},
    "107": {"class_type": "ComfyMathExpression", "inputs": {
        "expression": "max(5, round(a * 24)) + (5 - (max(5, round(a * 24)) % 17)) % 17", "values.a": ["111", 0]}},
    "104": {"class_type": "MiniMaxH3ImageToVideo", "inputs": {
        "clip": ["13", 0], "vae": ["11", 0], "prompt": PROMPT, "width": ["115", 0], "height": ["115", 1],
        "length": ["107", 1], "first_frame": ["114", 0]}},
    "126": {"class_type": "PrimitiveBoolean", "inputs": {"value": False}},
    "121": {"class_type": "LoraLoaderModelOnly",
            "inputs": {"model": ["6", 0], "lora_name": "", "strength_model": 1}},
    "122": {"class_type": "ComfySwitchNode",
            "inputs": {"on_false": ["6", 0], "on_true": ["121", 0], "switch": ["126", 0]}},
    "124": {"class_type": "PrimitiveInt", "inputs": {"value": 1}},
    "125": {"class_type": "PrimitiveInt", "inputs": {"value": 6}},
    "123": {"class_type": "ComfySwitchNode",
            "inputs": {"on_false": ["124", 0], "on_true": ["125", 0], "switch": ["126", 0]}},
    "9": {"class_type": "BasicScheduler",
          "inputs": {"model": ["122", 0], "scheduler": "simple", "steps": ["123", 0], "denoise": 1}},
    "17": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "res_multistep"}},
    "15": {"class_type": "RandomNoise", "inputs": {"noise_seed": 1}},
    "16": {"class_type": "BasicGuider", "inputs": {"model": ["122", 0], "conditioning": ["104", 0]}},
    "14": {"class_type": "SamplerCustomAdvanced", "inputs": {
        "noise": ["15", 0], "guider": ["16", 0], "sampler": ["17", 0], "sigmas": ["9", 0], "latent_image": ["104", 1]}},
    "10": {"class_type": "VAEDecode", "inputs": {"samples": ["14", 0], "vae": ["11", 0]}},
    "23": {"class_type": "VAEDecodeAudio", "inputs": {"samples": ["14", 0], "vae": ["24", 0]}},
    "91": {"class_type": "CreateVideo",
           "inputs": {"images": ["10", 0], "fps": 24, "bit_depth": 8, "audio": ["23", 0]}},
    "92": {"class_type": "SaveVideo",
           "inputs": {"video": ["91", 0], "filename_prefix": "video/MiniMax_H3", "format": "auto", "codec": "auto"}},
}  # fmt: skip
FILES = {"6": "unet_name", "13": "clip_name", "11": "vae_name", "24": "vae_name", "121": "lora_name"}


def graph_for(names: dict[str, str], **changes: dict[str, Any]) -> dict[str, Any]:
    """The graph with these files, and other inputs by node."""
    made = {id: {**node, "inputs": dict(node["inputs"])} for id, node in GRAPH.items()}
    for id, name in names.items():
        made[id]["inputs"][FILES[id]] = name
    for id, inputs in changes.items():
        made[id.removeprefix("n")]["inputs"] |= inputs
    return made


def test_the_nodes_of_the_templates(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"6": folder / "transformer", "13": folder, "11": folder / "vae", "24": folder / "audio_vae"}
    (tmp_path / "loras").mkdir()
    minimax_tiny.write_lora(tmp_path / "loras/turbo.safetensors")
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    picture = tmp_path / "picture.png"
    minimax_tiny.write_picture(picture)
    told = {id: str(path) for id, path in names.items()} | {"121": "turbo.safetensors"}
    done = pg.load(graph_for(told, n114={"image": str(picture)}), out=tmp_path / "out", allow=[folder, picture]).run()
    [path] = done.files
    video, _ = read_video(path)
    frames = video.frames
    assert (frames.count, frames.width, frames.height, float(video.fps)) == (5, 416, 256, 24)
    sound = video.audio()
    assert sound is not None and sound["sample_rate"] == 32000 and sound["waveform"].shape[1] == 2
    # As video_minimax_h3_r2v has it: after references.
    after = graph_for(told, n114={"image": str(picture)}, n10={"samples": ["14", 1]})
    after["138"] = {"class_type": "PrimitiveStringMultiline", "inputs": {"value": PROMPT}}
    after["104"] = {
        "class_type": "MiniMaxH3ReferenceToVideo",
        "inputs": {
            "clip": ["13", 0],
            "vae": ["11", 0],
            "audio_vae": ["24", 0],
            "ref_images.ref_image_0": ["114", 0],
            "prompt": ["138", 0],
            "width": 32,
            "height": 64,
            "length": ["107", 1],
            "ref_image_size": "match",
        },
    }
    [path] = pg.load(after, out=tmp_path / "out", allow=[folder, picture]).run().files
    assert (read_video(path)[0].frames.count, read_video(path)[0].frames.width) == (5, 32)
    # From a prompt alone, and refused sizes.
    alone = graph_for(told, n104={"length": 6, "width": 40})
    del alone["104"]["inputs"]["first_frame"]
    with pytest.raises(pg.GraphError) as error:
        pg.load(alone, out=tmp_path / "out", allow=[folder, picture]).run()
    assert "a multiple of 32, e.g. 32 or 64" in str(error.value)
    assert "a multiple of 17 plus 5, e.g. 5 or 22" in str(error.value)


def test_what_does_not_fit(loaded: Any, context: Context) -> None:
    model, clip, vae, sound_vae = loaded
    latent = empty_minimax_h3_latent(context, 64, 64, 22)
    assert context.warnings == ["22 frames: MiniMax-H3 was trained on videos of 124 to 362 frames (5 to 15 seconds)"]
    text = torch.zeros(1, 4, minimax_tiny.TEXT)
    told = {"latent_shapes": latent["shapes"]}
    with pytest.raises(ValueError, match="use the latent of MiniMaxH3ImageToVideo"):
        model.prepare([[text, {}]], latent["samples"])
    with pytest.raises(ValueError, match=r"this latent is \[16, 7, 4, 4\]"):
        model.prepare([[text, {"latent_shapes": ((16, 7, 4, 4), latent["shapes"][1])}]], latent["samples"])
    with pytest.raises(ValueError, match="the text has 8 numbers a token, this network reads 32"):
        model.prepare([[text[..., :8], told]], latent["samples"])
    with pytest.raises(ValueError, match="says of 3 tokens what they are, and has 4"):
        model.prepare([[text, told | {"token_kinds": torch.ones(3).long()}]], latent["samples"])
    with pytest.raises(ValueError, match="use VAEDecodeAudio"):
        sound_vae.decode_steps(latent["samples"])
    with pytest.raises(ValueError, match="connect the model's audio VAE"):
        vae_decode_audio(latent, vae)
    with pytest.raises(ValueError, match=r"sound are \[batch, 32, 2, time\]"):
        vae_decode_audio({"samples": torch.zeros(1, 8, 4)}, sound_vae)
    with pytest.raises(ValueError, match="not MiniMax-H3's video VAE"):
        minimax_h3_image_to_video(clip, sound_vae, "", context, 64, 64, 22, torch.rand(1, 64, 64, 3))
    with pytest.raises(ValueError, match="no text encoder of MiniMax-H3"):
        minimax_h3_image_to_video(replace(clip, family=replace(clip.family, id="wan")), vae, "", context, 64, 64, 22)
    from pipegraph.models.sampling.model_sampling import Flow

    with pytest.raises(ValueError, match="has one noise level"):
        minimax_h3_sigma_shift(model.with_sampling(Flow(3.0)))
