"""LTX-2's latents of picture and sound, and its sound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from pipegraph.models import paths
from pipegraph.models.checkpoints import language
from pipegraph.models.checkpoints.parts import part, parts
from pipegraph.models.families.ltx.ltx2 import GEMMA
from pipegraph.runtime.node import Auto, FileInput, RunContext, node, outputs

from ..image.latent import BatchSize
from ..sampling.shared import Cfg, Negative, used_negative
from ..wire import Audio, Clip, Conditioning, Guider, Latent, Model, Vae
from .ltx import noise_mask


@outputs
class Separated:
    """The latents of a clip and of its sound."""

    video_latent: Latent
    audio_latent: Latent


def _audio_files(name: str) -> list[Path]:
    found = parts(paths.resolve("checkpoints", name), ("audio_vae", "vocoder"))
    return list(dict.fromkeys(f for p in found.values() for f in p.files))


def _text_files(name: str) -> list[Path]:
    return language.files_of(paths.resolve("text_encoders", name), [GEMMA])


def _connector_files(name: str) -> list[Path]:
    return list(part(paths.resolve("checkpoints", name), "connectors").files)


TextName = Annotated[str, FileInput(_text_files, lambda: paths.names("text_encoders"))]
ConnectorName = Annotated[str, FileInput(_connector_files, lambda: paths.names("checkpoints"))]
AudioName = Annotated[str, FileInput(_audio_files, lambda: paths.names("checkpoints"))]


@node("LTXVAudioVAELoader", category="audio", title="LTXV Audio VAE Loader")
def load_audio_vae(ckpt_name: AudioName, ctx: RunContext) -> Vae:
    """Load what LTX-2 makes sound with: the VAE of spectrograms, and the vocoder.

    Args:
        ckpt_name: The model's checkpoint, a file or a folder.
    """
    from pipegraph.models.families.ltx.audio import audio_vae
    from pipegraph.models.loading.place import Place

    path = paths.resolve("checkpoints", ckpt_name)
    return audio_vae(parts(path), Place.of(ctx.device, ctx.dtype), path, ckpt_name)


@node("LTXAVTextEncoderLoader", category="advanced/loaders", title="LTXV Audio Text Encoder Loader")
def load_text_encoder(
    text_encoder: TextName, ckpt_name: ConnectorName, ctx: RunContext, device: Literal["default", "cpu"] = "default"
) -> Clip:
    """Load LTX-2's text encoder.

    Args:
        text_encoder: Gemma 3 12B: a folder in transformers' layout, a GGUF file, or ComfyUI's safetensors file.
        ckpt_name: The model's checkpoint, which holds what comes behind it.
        device: Where it computes.
    """
    from pipegraph.models.families.ltx.text import joined_encoder
    from pipegraph.models.loading.place import Place

    place = Place.of("cpu" if device == "cpu" else ctx.device, ctx.dtype, ctx.quantize)
    llm = language.load_llm(paths.resolve("text_encoders", text_encoder), GEMMA, text_encoder, place)
    connectors = part(paths.resolve("checkpoints", ckpt_name), "connectors")
    return joined_encoder(llm, connectors, place, (text_encoder, ckpt_name))


@node("LTXVEmptyLatentAudio", category="latent/audio", title="LTXV Empty Latent Audio")
def ltxv_empty_latent_audio(
    audio_vae: Vae,
    frames_number: Annotated[int, Ge(1), Le(16384), Auto("length")] = 97,
    frame_rate: Annotated[float, Ge(0.01), Le(1000), Auto("fps")] = 25.0,
    batch_size: BatchSize = 1,
) -> Latent:
    """Make an empty latent of sound, as long as a clip.

    Args:
        audio_vae: Of LTXVAudioVAELoader.
        frames_number: How many frames the clip has.
        frame_rate: Frames a second.
        batch_size: How many.
    """
    import torch

    from pipegraph.models.families.ltx.audio import sounding

    vae = sounding(audio_vae)
    length = max(1, round(frames_number / frame_rate * vae.per_second))
    return {"samples": torch.zeros(batch_size, vae.latent.channels, length, vae.bins)}


@node("LTXVConcatAVLatent", category="latent/video/ltxv", title="LTXVConcatAVLatent")
def ltxv_concat_av_latent(video_latent: Latent, audio_latent: Latent) -> Latent:
    """Join the latents of a clip and of its sound, for LTX-2, which makes both together.

    Args:
        video_latent: The clip.
        audio_latent: The sound.
    """
    import torch

    from pipegraph.models.families.ltx.ltx2 import joined
    from pipegraph.models.sampling.guiders import fit_mask

    clip, sound = video_latent["samples"], audio_latent["samples"]
    if (clip.ndim, sound.ndim) != (5, 4) or len(clip) != len(sound):
        raise ValueError(
            f"a clip's latent is [batch, channels, time, height, width] and its sound's [batch, channels, time, bins] "
            f"of the same batch; these are {list(clip.shape)} and {list(sound.shape)}"
        )
    made: dict[str, Any] = {**video_latent, "samples": joined([clip, sound])}
    made["shapes"] = tuple(clip.shape[1:]), tuple(sound.shape[1:])
    masks = video_latent.get("noise_mask"), audio_latent.get("noise_mask")
    if any(m is not None for m in masks):
        heard = torch.ones(1) if masks[1] is None else fit_mask(masks[1], sound)
        made["noise_mask"] = joined([noise_mask(video_latent).expand(clip.shape), heard.expand(sound.shape)])
    return made


@node("LTXVSeparateAVLatent", category="latent/video/ltxv", title="LTXVSeparateAVLatent")
def ltxv_separate_av_latent(av_latent: Latent) -> Separated:
    """Take the latent of a clip with sound apart.

    Args:
        av_latent: Of LTXVConcatAVLatent, or what a sampler made of it.
    """
    from pipegraph.models.families.ltx.ltx2 import separated

    shapes = av_latent.get("shapes")
    if shapes is None:
        raise ValueError("this latent holds no sound: it does not come from LTXVConcatAVLatent")
    rest = {k: v for k, v in av_latent.items() if k not in ("shapes", "noise_mask")}
    clip, sound = ({**rest, "samples": part} for part in separated(av_latent["samples"], shapes))
    if av_latent.get("noise_mask") is not None:
        masks = separated(av_latent["noise_mask"], shapes)
        clip["noise_mask"], sound["noise_mask"] = masks[0][:, :1], masks[1][:, :1]
    return Separated(clip, sound)


@node("LTXVAudioVAEDecode", category="latent/audio", title="LTXV Audio VAE Decode")
def ltxv_audio_vae_decode(samples: Latent, audio_vae: Vae) -> Audio:
    """Decode the latent of LTX-2's sound.

    Args:
        samples: The latent.
        audio_vae: Of LTXVAudioVAELoader.
    """
    from pipegraph.models.families.ltx.audio import sounding

    return sounding(audio_vae).sound(samples["samples"])


@node("LTXVAudioVAEEncode", category="latent/audio", title="LTXV Audio VAE Encode")
def ltxv_audio_vae_encode(audio: Audio, audio_vae: Vae) -> Latent:
    """Encode sound for LTX-2; it is brought to the rate that the VAE reads.

    Args:
        audio: The sound, of one channel or two.
        audio_vae: Of LTXVAudioVAELoader.
    """
    from pipegraph.models.families.ltx.audio import sounding

    return {"samples": sounding(audio_vae).heard(audio)}


@node("LTXVDualCFGGuider", category="sampling/custom_sampling/guiders", title="LTXV Dual CFG Guider")
def ltxv_dual_cfg_guider(
    ctx: RunContext,
    model: Model,
    positive: Conditioning,
    negative: Negative,
    video_cfg: Cfg = 3.0,
    audio_cfg: Cfg = 7.0,
) -> Guider:
    """Follow a conditioning and keep away from another, with one scale for the clip and another for its sound.

    Args:
        model: LTX-2's network.
        positive: What is to be seen and heard.
        negative: What is not to.
        video_cfg: As in CFGGuider, for the clip.
        audio_cfg: The same for the sound; where both are 1 the negative is not used.
    """
    from pipegraph.models.families.ltx.guidance import TwoScales
    from pipegraph.models.sampling import guiders

    cfg = audio_cfg if video_cfg == 1 else video_cfg
    model = replace(model, guidance=(*model.guidance, TwoScales(video_cfg, audio_cfg)))
    return guiders.Guider(model, positive, used_negative(ctx, negative, cfg), cfg)
