"""Our LTX-2 equals diffusers' LTX2Pipeline in picture and sound: same weights, text states, noise and noise levels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pipegraph.generators import finish
from pipegraph.kernels.audit import strict
from pipegraph.models.checkpoints.load import load_checkpoint
from pipegraph.models.checkpoints.source import checkpoint
from pipegraph.models.loading.place import Place
from pipegraph.models.model import Model
from pipegraph.models.sampling.guiders import Guider
from pipegraph.models.sampling.run import sample
from pipegraph.models.sampling.samplers import SAMPLERS
from pipegraph.nodes.video.components import create_video
from pipegraph.nodes.video.files import save_video
from pipegraph.nodes.video.ltx import (
    empty_ltxv_latent_video,
    ltxv_conditioning,
    ltxv_img_to_video_inplace,
    ltxv_scheduler,
)
from pipegraph.nodes.video.ltx2 import (
    load_audio_vae,
    load_text_encoder,
    ltxv_audio_vae_decode,
    ltxv_concat_av_latent,
    ltxv_dual_cfg_guider,
    ltxv_empty_latent_audio,
    ltxv_separate_av_latent,
)

from ..context import Context
from . import ltx2_tiny
from .conftest import UNASKED, saved
from .test_wan import Given

TOLERANCE = 1e-4
STEPS, CFG, FRAMES, FPS = 3, 3.0, 17, 12.5
SIZE = (96, 64)
CPU = Place(torch.device("cpu"), torch.float32)


@pytest.fixture(scope="module")
def networks() -> Callable[..., dict[str, nn.Module]]:
    """The networks of LTX-2, and of LTX-2.3."""
    made = {later: ltx2_tiny.components(later) for later in (False, True)}
    return lambda later=False: made[later]


@pytest.fixture
def loaded(networks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: Context) -> Callable[..., Any]:
    """Model, VAE and VAE of sound out of the original's single file."""

    def load(later: bool = False) -> tuple[Model, Any, Any]:
        ltx2_tiny.write_file(networks(later), tmp_path / "checkpoints/ltx-2-19b-dev.safetensors")
        monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
        model, _, vae = load_checkpoint(checkpoint("ltx-2-19b-dev.safetensors"), CPU)
        return model, vae, load_audio_vae("ltx-2-19b-dev.safetensors", context)

    return load


def states(seed: int) -> Tensor:
    """Flat states of a text encoder's layers, [1, T, D * layers]."""
    return torch.randn(
        1, ltx2_tiny.TOKENS, ltx2_tiny.TEXT * ltx2_tiny.LAYERS, generator=torch.Generator().manual_seed(seed)
    )


MASK = (torch.arange(ltx2_tiny.TOKENS) > 9).long()[None]


@torch.no_grad()
def texts(connectors: Any) -> list[Any]:
    """Both conditionings, as the connectors make them."""
    made = (connectors(states(seed), MASK, padding_side="left") for seed in (1, 2))
    return [[[torch.cat([clip, sound], -1), {"attention_mask": mask}]] for clip, sound, mask in made]


class Ready:
    """An input that is there already."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def get(self) -> Any:
        return self._value

    def lost_texts(self) -> tuple[str, ...]:
        return ()


def run(model: Model, sides: Any, noise: Tensor, sigmas: Tensor, latent: Any, sound_cfg: float = CFG) -> dict[str, Any]:
    """The latent of an Euler run."""
    given: Any = Given(noise)
    told = ltxv_conditioning(sides[0], sides[1], FPS)
    guider = Guider(model, told.positive, told.negative, CFG)
    if sound_cfg != CFG:
        guider = ltxv_dual_cfg_guider(UNASKED, model, told.positive, Ready(told.negative), CFG, sound_cfg)
    steps = sample(guider, given, SAMPLERS["euler"], sigmas, latent)
    return finish(steps).latent(latent)


def empty(audio: Any) -> dict[str, Any]:
    clip = empty_ltxv_latent_video(UNASKED, SIZE[1], SIZE[0], FRAMES)
    return ltxv_concat_av_latent(clip, ltxv_empty_latent_audio(audio, FRAMES, FPS))


@pytest.mark.parametrize("later", [False, True], ids=["2.0", "2.3"])
def test_picture_and_sound_equal_diffusers(networks: Any, loaded: Any, context: Context, later: bool) -> None:
    model, vae, audio = loaded(later)
    pipe = ltx2_tiny.pipeline(networks(later))
    latent, sound_cfg = empty(audio), 5.0 if later else CFG
    noise = torch.randn(latent["samples"].shape, generator=torch.Generator().manual_seed(7))
    options: dict[str, Any] = dict(
        height=SIZE[0],
        width=SIZE[1],
        num_frames=FRAMES,
        frame_rate=FPS,
        num_inference_steps=STEPS,
        guidance_scale=CFG,
        prompt_embeds=states(1),
        prompt_attention_mask=MASK,
        negative_prompt_embeds=states(2),
        negative_prompt_attention_mask=MASK,
        use_cross_timestep=later,
        return_dict=False,
        stg_scale=0.0,
        modality_scale=1.0,
        guidance_rescale=0.0,
        audio_guidance_scale=sound_cfg,
        audio_stg_scale=0.0,
        audio_modality_scale=1.0,
        audio_guidance_rescale=0.0,
        generator=torch.Generator().manual_seed(7),
    )
    clip, sound = pipe(output_type="latent", **options)
    sides = texts(networks(later)["connectors"])
    sigmas = ltxv_scheduler(STEPS, latent=latent)
    assert (sigmas - pipe.scheduler.sigmas).abs().max() < 1e-6
    with strict(1 << 10) as seen:
        joint = run(model, sides, noise, sigmas, latent, sound_cfg)
    assert seen.attention > 10 and seen.linear > 100
    made = ltxv_separate_av_latent(joint)
    assert made.audio_latent["samples"].shape == (1, 2, 34, 4)
    assert (vae.raw(made.video_latent["samples"]) - clip).abs().max() < TOLERANCE
    rows = made.audio_latent["samples"].transpose(1, 2).flatten(2)
    network = networks(later)["audio_vae"]
    raw = (rows * network.latents_std + network.latents_mean).unflatten(2, (2, 4)).transpose(1, 2)
    assert (raw - sound).abs().max() < TOLERANCE
    swapped = ltxv_separate_av_latent(run(model, sides[::-1], noise, sigmas, latent, sound_cfg))
    assert (swapped.video_latent["samples"] - made.video_latent["samples"]).abs().max() > 10 * TOLERANCE
    assert (swapped.audio_latent["samples"] - made.audio_latent["samples"]).abs().max() > 10 * TOLERANCE

    options["generator"] = torch.Generator().manual_seed(7)
    frames, wave = pipe(output_type="pt", **options)
    images = vae.decode(made.video_latent["samples"])
    heard = ltxv_audio_vae_decode(made.audio_latent, audio)
    assert (images - frames[0].movedim(1, -1)).abs().max() < TOLERANCE
    assert heard["sample_rate"] == (1600 if later else 800) and (heard["waveform"] - wave).abs().max() < TOLERANCE
    [path] = saved(save_video(create_video(images, FPS, heard), context, "clip"))
    from pipegraph.models.media.video_read import read_video

    video, _ = read_video(path)
    written = video.audio()
    assert video.frames.count == FRAMES and written is not None and written["waveform"].shape[1] == 2


def test_a_first_frame_equals_diffusers(networks: Any, loaded: Any, context: Context) -> None:
    """The network is told the time of each token of the clip; the sound has its own."""
    model, vae, audio = loaded()
    picture = torch.rand(1, *SIZE, 3, generator=torch.Generator().manual_seed(1))
    clip = ltxv_img_to_video_inplace(vae, picture, empty_ltxv_latent_video(UNASKED, SIZE[1], SIZE[0], FRAMES), context)
    latent = ltxv_concat_av_latent(clip, ltxv_empty_latent_audio(audio, FRAMES, FPS))
    sides, sigmas = texts(networks()["connectors"]), torch.tensor([1.0, 0.7, 0.3, 0.0])
    noise = torch.randn(latent["samples"].shape, generator=torch.Generator().manual_seed(7))
    made = ltxv_separate_av_latent(run(model, sides, noise, sigmas, latent))
    assert torch.equal(made.video_latent["samples"][:, :, :1], clip["samples"][:, :, :1])
    assert made.video_latent["noise_mask"][0, 0, :, 0, 0].tolist() == [0, 1, 1]
    expected = by_hand(networks()["transformer"], sides, noise, sigmas, clip["samples"][:, :, :1])
    for ours, theirs in zip((made.video_latent, made.audio_latent), expected, strict=True):
        assert (ours["samples"] - theirs).abs().max() < TOLERANCE


def test_two_samplers_keep_the_first_frame_that_one_keeps(networks: Any, loaded: Any, context: Context) -> None:
    """Clip and sound are one latent here, and the network knows the noise of each token."""
    model, vae, audio = loaded()
    picture = torch.rand(1, *SIZE, 3, generator=torch.Generator().manual_seed(1))
    clip = ltxv_img_to_video_inplace(vae, picture, empty_ltxv_latent_video(UNASKED, SIZE[1], SIZE[0], FRAMES), context)
    latent = ltxv_concat_av_latent(clip, ltxv_empty_latent_audio(audio, FRAMES, FPS))
    sides, sigmas = texts(networks()["connectors"]), torch.tensor([1.0, 0.7, 0.3, 0.0])
    noise = torch.randn(latent["samples"].shape, generator=torch.Generator().manual_seed(7))
    whole = run(model, sides, noise, sigmas, latent)
    early = run(model, sides, noise, sigmas[:2], latent)
    late = run(model, sides, torch.zeros_like(noise), sigmas[1:], early)
    assert "original" in early and late.keys() == whole.keys() == latent.keys()
    assert (late["samples"] - whole["samples"]).abs().max() < TOLERANCE
    assert torch.equal(ltxv_separate_av_latent(late).video_latent["samples"][:, :, :1], clip["samples"][:, :, :1])


@torch.no_grad()
def by_hand(network: Any, sides: Any, noise: Tensor, sigmas: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """What LTX2ImageToVideoPipeline does: Euler's steps for all but the first frame, whose tokens have time 0."""
    x, heard = noise[:, 0, :2304].reshape(1, 128, 3, 3, 2), noise[:, 0, 2304:].reshape(1, 2, 34, 4)
    x = torch.cat([first, x[:, :, 1:]], 2)
    kept = torch.zeros(3, 3, 2)
    kept[0] = 1
    for now, then in pairwise(sigmas):
        time = 1000 * now.expand(1)
        found = []
        for [[text, extras]] in sides:
            clip, sound = text.split([ltx2_tiny.TEXT] * 2, -1)
            v, a = network(
                hidden_states=x.flatten(2).mT,
                audio_hidden_states=heard.transpose(1, 2).flatten(2),
                encoder_hidden_states=clip,
                audio_encoder_hidden_states=sound,
                timestep=time[:, None] * (1 - kept.flatten())[None],
                audio_timestep=time,
                sigma=time,
                encoder_attention_mask=extras["attention_mask"],
                audio_encoder_attention_mask=extras["attention_mask"],
                num_frames=3,
                height=3,
                width=2,
                fps=FPS,
                audio_num_frames=34,
                return_dict=False,
            )
            found.append((v.mT.reshape(x.shape), a.unflatten(2, (2, 4)).transpose(1, 2)))
        (v, a), (nv, na) = found
        x = torch.cat([first, (x + (then - now) * (nv + CFG * (v - nv)))[:, :, 1:]], 2)
        heard = heard + (then - now) * (na + CFG * (a - na))
    return x, heard


def test_what_does_not_fit(networks: Any, loaded: Any, context: Context) -> None:
    model, vae, audio = loaded()
    sides = texts(networks()["connectors"])
    clip, sound = empty_ltxv_latent_video(UNASKED, 64, 64, 9), ltxv_empty_latent_audio(audio, 9, 25)
    with pytest.raises(ValueError, match="join their latents with LTXVConcatAVLatent"):
        model.prepare(sides[0], clip["samples"])
    with pytest.raises(ValueError, match=r"got \[1, 2, 9, 4\] and \[1, 128"):
        ltxv_concat_av_latent(sound, clip)
    with pytest.raises(ValueError, match="holds no audio"):
        ltxv_separate_av_latent(clip)
    with pytest.raises(ValueError, match="take audio_latent of LTXVSeparateAVLatent"):
        ltxv_audio_vae_decode(clip, audio)
    with pytest.raises(ValueError, match="connect LTXVAudioVAELoader"):
        ltxv_audio_vae_decode(sound, vae)
    with pytest.raises(ValueError, match="use LTXVAudioVAEDecode"):
        audio.decode_steps(sound["samples"])
    with pytest.raises(ValueError, match="is it the model's own VAE"):
        vae.decode(ltxv_concat_av_latent(clip, sound)["samples"])
    with pytest.raises(ValueError, match="load its text encoder with LTXAVTextEncoderLoader"):
        model.family.prepare(
            model.loaded.network, torch.zeros(1, 4, 8), {"latent_shapes": empty(audio)["shapes"]}, torch.zeros(1, 1, 9)
        )


def test_names_of_the_original_are_diffusers_converters(networks: Any) -> None:
    """The names that the tests write down are those that diffusers' own converters read."""
    from diffusers.loaders import single_file_utils as theirs

    whole = ltx2_tiny.to_original(networks())
    own = {n: t for n, t in whole.items() if n.startswith("model.diffusion_model.")}
    assert theirs.convert_ltx2_transformer_to_diffusers(own).keys() == networks()["transformer"].state_dict().keys()
    for kind, convert in (
        ("vae", theirs.convert_ltx2_vae_to_diffusers),
        ("audio_vae", theirs.convert_ltx2_audio_vae_to_diffusers),
    ):
        own = {n: t for n, t in whole.items() if n.startswith(f"{kind}.")}
        assert convert(own).keys() == networks()[kind].state_dict().keys()


@torch.no_grad()
def test_text_equals_diffusers(
    networks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: Context
) -> None:
    """All layers of a Gemma 3, padded before the prompt there and behind it here, through the connectors."""
    import transformers as hf
    from tests.models.test_text_language import SIZES, _tokenizer

    tokenizer = _tokenizer(bos=True)
    torch.manual_seed(1)
    config = hf.Gemma3TextConfig(
        **SIZES | {"vocab_size": len(tokenizer), "hidden_size": ltx2_tiny.TEXT},
        num_hidden_layers=2,
        head_dim=16,
        sliding_window=8,
        query_pre_attn_scalar=16,
        layer_types=["sliding_attention", "full_attention"],
    )
    gemma = hf.Gemma3ForCausalLM(config).eval()
    folder = tmp_path / "text_encoders" / "gemma"
    gemma.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    ltx2_tiny.write_file(networks(), tmp_path / "checkpoints/ltx-2-19b-dev.safetensors")
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    clip = load_text_encoder("gemma", "ltx-2-19b-dev.safetensors", context)
    pipe = ltx2_tiny.pipeline(networks())
    pipe.register_modules(text_encoder=gemma, tokenizer=tokenizer)
    embeds, mask, *_ = pipe.encode_prompt(" a red apple on the beach ", do_classifier_free_guidance=False)
    made, heard, _ = networks()["connectors"](embeds, mask, padding_side="left")
    [[states, extras]] = clip.encode(clip.tokenize(" a red apple on the beach "))
    assert not extras and states.shape == (1, 1024, 2 * ltx2_tiny.TEXT)
    assert (states - torch.cat([made, heard], -1)).abs().max() < TOLERANCE
    [[other, _]] = clip.encode(clip.tokenize("a blue apple"))
    assert (other - states).abs().max() > 10 * TOLERANCE
