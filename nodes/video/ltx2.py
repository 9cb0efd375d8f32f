"""LTX-2: joint latents of video and audio, audio VAE and text encoder."""

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
    """The latents of a video and its audio."""

    video_latent: Latent
    audio_latent: Latent


def _audio_files(name: str) -> list[Path]:
    networks = parts(paths.resolve("checkpoints", name), ("audio_vae", "vocoder"))
    return list(dict.fromkeys(f for p in networks.values() for f in p.files))


def _text_files(name: str) -> list[Path]:
    return language.files_of(paths.resolve("text_encoders", name), [GEMMA])


def _connector_files(name: str) -> list[Path]:
    return list(part(paths.resolve("checkpoints", name), "connectors").files)


TextName = Annotated[str, FileInput(_text_files, lambda: paths.names("text_encoders"))]
ConnectorName = Annotated[str, FileInput(_connector_files, lambda: paths.names("checkpoints"))]
AudioName = Annotated[str, FileInput(_audio_files, lambda: paths.names("checkpoints"))]


@node("LTXVAudioVAELoader", category="audio", title="LTXV Audio VAE Loader")
def load_audio_vae(ckpt_name: AudioName, ctx: RunContext) -> Vae:
    """Load LTX-2's audio VAE (of spectrograms) and vocoder.

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
        ckpt_name: The model's checkpoint, for the text connectors.
        device: Device to run on.
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
    """Make an empty audio latent for a video's length.

    Args:
        audio_vae: Audio VAE from LTXVAudioVAELoader.
        frames_number: Frames of the video.
        frame_rate: Frames a second.
        batch_size: Number of latents.
    """
    import torch

    from pipegraph.models.families.ltx.audio import sounding

    vae = sounding(audio_vae)
    length = max(1, round(frames_number / frame_rate * vae.per_second))
    return {"samples": torch.zeros(batch_size, vae.latent.channels, length, vae.bins)}


@node("LTXVConcatAVLatent", category="latent/video/ltxv", title="LTXVConcatAVLatent")
def ltxv_concat_av_latent(video_latent: Latent, audio_latent: Latent) -> Latent:
    """Join the latents of a video and its audio, which LTX-2 samples together.

    Args:
        video_latent: Video latent.
        audio_latent: Audio latent.
    """
    import torch

    from pipegraph.models.families.ltx.ltx2 import joined
    from pipegraph.models.sampling.guiders import fit_mask

    video, audio = video_latent["samples"], audio_latent["samples"]
    if (video.ndim, audio.ndim) != (5, 4) or len(video) != len(audio):
        raise ValueError(
            f"expected a video latent [batch, channels, time, height, width] and an audio latent [batch, channels, "
            f"time, bins] of the same batch size, got {list(video.shape)} and {list(audio.shape)}"
        )
    latent: dict[str, Any] = {**video_latent, "samples": joined([video, audio])}
    latent["shapes"] = tuple(video.shape[1:]), tuple(audio.shape[1:])
    masks = video_latent.get("noise_mask"), audio_latent.get("noise_mask")
    if any(m is not None for m in masks):
        audio_mask = torch.ones(1) if masks[1] is None else fit_mask(masks[1], audio)
        latent["noise_mask"] = joined([noise_mask(video_latent).expand(video.shape), audio_mask.expand(audio.shape)])
    return latent


@node("LTXVSeparateAVLatent", category="latent/video/ltxv", title="LTXVSeparateAVLatent")
def ltxv_separate_av_latent(av_latent: Latent) -> Separated:
    """Split a joint latent into video and audio.

    Args:
        av_latent: Joint latent of LTXVConcatAVLatent, sampled or not.
    """
    from pipegraph.models.families.ltx.ltx2 import separated

    shapes = av_latent.get("shapes")
    if shapes is None:
        raise ValueError("this latent holds no audio: it does not come from LTXVConcatAVLatent")
    rest = {k: v for k, v in av_latent.items() if k not in ("shapes", "noise_mask")}
    video, audio = ({**rest, "samples": part} for part in separated(av_latent["samples"], shapes))
    if av_latent.get("noise_mask") is not None:
        masks = separated(av_latent["noise_mask"], shapes)
        video["noise_mask"], audio["noise_mask"] = masks[0][:, :1], masks[1][:, :1]
    return Separated(video, audio)


@node("LTXVAudioVAEDecode", category="latent/audio", title="LTXV Audio VAE Decode")
def ltxv_audio_vae_decode(samples: Latent, audio_vae: Vae) -> Audio:
    """Decode an audio latent of LTX-2.

    Args:
        samples: The latent.
        audio_vae: Audio VAE from LTXVAudioVAELoader.
    """
    from pipegraph.models.families.ltx.audio import sounding

    return sounding(audio_vae).sound(samples["samples"])


@node("LTXVAudioVAEEncode", category="latent/audio", title="LTXV Audio VAE Encode")
def ltxv_audio_vae_encode(audio: Audio, audio_vae: Vae) -> Latent:
    """Encode audio for LTX-2; it is resampled to the VAE's rate.

    Args:
        audio: Audio with one or two channels.
        audio_vae: Audio VAE from LTXVAudioVAELoader.
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
    """Classifier-free guidance with separate scales for video and audio.

    Args:
        model: LTX-2 model.
        positive: Positive conditioning.
        negative: Negative conditioning.
        video_cfg: Guidance scale of the video.
        audio_cfg: Guidance scale of the audio; if both are 1 the negative is not used.
    """
    from pipegraph.models.families.ltx.guidance import TwoScales
    from pipegraph.models.sampling import guiders

    cfg = audio_cfg if video_cfg == 1 else video_cfg
    model = replace(model, guidance=(*model.guidance, TwoScales(video_cfg, audio_cfg)))
    return guiders.Guider(model, positive, used_negative(ctx, negative, cfg), cfg)
