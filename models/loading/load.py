"""From names to the values on the wires: models, text encoders, VAEs and ControlNets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from ..clip_vision import ClipVision
from ..control import ControlNet
from ..families import FAMILIES
from ..family import EncoderFacts, Family, LatentFormat
from ..model import Model
from ..parallel import share
from ..paths import resolve
from ..text import Encoder, TextEncoder
from ..text_families import LANGUAGE_FAMILIES
from ..vae import Vae
from ..video.convolution import use_onednn
from ..video.hunyuan import VIDEO_VAES
from ..video.ltx_vae import LtxVae
from ..video.minimax import MiniMaxSoundVae, MiniMaxVae
from ..video.vae import VideoVae
from .card import component, read_card
from .headers import LoadError
from .language import load_language_encoders
from .networks import build, compute_dtype
from .parts import ENCODERS, Part, part, parts, stated_vae, vae_part
from .source import Source, scheduler_of
from .tokenizers import find_tokenizer, load_tokenizer

DIFFUSERS_SCALE: Final = 0.18215
"""What diffusers' AutoencoderKL scales latents by, where its config does not say it."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where and in which type networks compute."""

    device: torch.device
    dtype: torch.dtype
    quantize: str = ""
    """How the weights of diffusion networks and text encoders are kept (``quantize.FORMATS``); empty: as they are."""

    @classmethod
    def of(cls, device: str, dtype: str, quantize: str = "") -> Place:
        """From a run's settings, e.g. ``cuda:0`` and ``auto``."""
        where = torch.device(device)
        return cls(where, compute_dtype(dtype, where), quantize)


def load_checkpoint(source: Source, place: Place) -> tuple[Model, TextEncoder, Vae]:
    """The three values of a whole model."""
    vae = _vae(source.parts["vae"], place, source.family.latent)
    model = _model(source.parts["transformer"], place, source.scheduler, source.card, source.name)
    if source.family.text:
        found = load_language_encoders(LANGUAGE_FAMILIES[source.family.text], {source.name: source.path}, place)
        return replace(model, latent=vae.latent), found, vae
    encoders = {
        e.name: load_encoder(e, source.parts[e.kind], source.tokenizers[e.name], place, source.card)
        for e in source.family.encoders
        if e.kind in source.parts
    }
    words = tuple(source.card.get("vocabulary", ()))
    text = TextEncoder(source.family, encoders, source.name, words)
    return replace(model, latent=vae.latent), text, vae


def load_model(name: str, place: Place) -> Model:
    """A diffusion network alone: a file, a component folder, or that part of a pipeline folder."""
    path = resolve("diffusion_models", name)
    model = _model(part(path, "transformer"), place, scheduler_of(path), read_card(path), name)
    if (component(path, "vae") / "config.json").is_file():
        return replace(model, latent=_latent_format(part(path, "vae"), model.family.latent))
    stated = stated_vae(path, model.family)
    return replace(model, latent=_latent_format(stated, model.family.latent)) if stated else model


def load_text_encoders(family_id: str, names: list[str], place: Place) -> TextEncoder:
    """Text encoders of a family from files that may be given in any order; what each is, is told by content."""
    if language := LANGUAGE_FAMILIES.get(family_id):
        return load_language_encoders(language, {name: resolve("text_encoders", name) for name in names}, place)
    family = FAMILIES[family_id]
    encoders: dict[str, Encoder] = {}
    wanted = {e.kind: e for e in family.encoders}
    card: dict[str, Any] = {}
    for name, path in ((n, resolve("text_encoders", n)) for n in names):
        found = _encoder_parts(path)
        card = card or read_card(path)
        usable = [k for k in found if k in wanted and wanted[k].name not in encoders]
        if not usable:
            raise LoadError(f"{name} holds no further text encoder of {family.title} "
                            f"({', '.join(e.name for e in family.encoders)})")  # fmt: skip
        for kind in usable:
            facts, network = wanted[kind], found[kind]
            folder = find_tokenizer(family, facts, network.origin)
            encoders[facts.name] = load_encoder(facts, network, folder, place, card)
    return TextEncoder(family, encoders, ", ".join(dict.fromkeys(names)), tuple(card.get("vocabulary", ())))


def load_vae(name: str, place: Place) -> Vae:
    """A VAE: a file, a component folder, or that part of a pipeline folder; one of sound if there is no other."""
    found = vae_part(resolve("vae", name))
    if found.class_name == "AutoencoderKLMiniMaxH3Audio":
        latent = LatentFormat(channels=found.config["latent_channels"], downscale=1)
        return MiniMaxSoundVae(build(found, place.device, torch.float32), latent, place.device, torch.float32, name)
    return _vae(found, place, found.family.latent, name)


def load_control_net(name: str, place: Place) -> ControlNet:
    """A ControlNet: a file or a component folder."""
    found = part(resolve("controlnet", name), "controlnet")
    return ControlNet(build(found, place.device, place.dtype), found.family, place.device, place.dtype, name)


def load_clip_vision(name: str, place: Place) -> ClipVision:
    """A CLIP vision model: a file, a component folder, or that part of a pipeline folder."""
    found = part(resolve("clip_vision", name), "clip_vision")
    return ClipVision(build(found, place.device, place.dtype), place.device, place.dtype, name)


def _encoder_parts(path: Path) -> dict[str, Part]:
    return parts(path, ENCODERS)


def _model(found: Part, place: Place, scheduler: Mapping[str, Any], card: Mapping[str, Any], name: str) -> Model:
    family = found.family
    return Model(
        network=share(build(found, place.device, place.dtype, place.quantize)),
        family=family,
        sampling=family.sampling(found.config, scheduler),
        latent=family.latent,
        device=place.device,
        dtype=place.dtype,
        recommended=family.recommend(found.config) | dict(card.get("recommend", {})),
        name=name,
    )


def _vae(found: Part, place: Place, usual: LatentFormat, name: str = "") -> Vae:
    network = build(found, place.device, place.dtype)
    if usual.frames:
        use_onednn(network)
    if found.class_name == "AutoencoderKLMiniMaxH3":  # it keeps what is fragile in float32 itself
        return MiniMaxVae(network, _latent_format(found, usual), place.device, torch.float32, name)
    made: type[Vae] = VIDEO_VAES.get(found.class_name, VideoVae) if usual.frames else Vae
    made = LtxVae if found.class_name.startswith("AutoencoderKLLTX") else made
    return made(network, _latent_format(found, usual), place.device, place.dtype, name)


def _latent_format(found: Part, usual: LatentFormat) -> LatentFormat:
    """The family's format with scale, shift and sizes of this VAE."""
    config = found.config
    if found.class_name == "AutoencoderKLWan":
        channels, mean, std = config["z_dim"], config.get("latents_mean"), config.get("latents_std")
        return replace(
            usual,
            channels=channels,
            downscale=config.get("scale_factor_spatial", usual.downscale),
            frames=config.get("scale_factor_temporal", usual.frames),
            mean=tuple(mean or usual.mean)[:channels],
            std=tuple(std or usual.std)[:channels],
        )
    if found.class_name == "AutoencoderKLMiniMaxH3":
        return replace(usual, channels=config["latent_channels"])
    if found.class_name in VIDEO_VAES:
        return replace(
            usual,
            channels=config["latent_channels"],
            downscale=config.get("spatial_compression_ratio", usual.downscale),
            frames=config.get("temporal_compression_ratio", usual.frames),
            scale=float(config.get("scaling_factor") or usual.scale),
        )
    if found.class_name.startswith("AutoencoderKLLTX"):
        return replace(
            usual,
            channels=config["latent_channels"],
            downscale=config.get("spatial_compression_ratio") or usual.downscale,
            frames=config.get("temporal_compression_ratio") or usual.frames,
        )
    channels, scale = config["latent_channels"], config.get("scaling_factor")
    return LatentFormat(
        channels=channels,
        downscale=2 ** (len(config["block_out_channels"]) - 1),
        scale=DIFFUSERS_SCALE if scale is None else float(scale),
        shift=float(config.get("shift_factor") or 0),
        patch=usual.patch if channels == usual.channels else 1,
    )


def load_encoder(facts: EncoderFacts, found: Part, tokenizer: Path, place: Place, card: Mapping[str, Any]) -> Encoder:
    """One text encoder that is no language model, with its tokenizer."""
    pad_to, limit = facts.pad_to, facts.limit
    if tokens := card.get("text_tokens"):
        pad_to = limit = int(tokens)
    if positions := found.config.get("max_position_embeddings"):
        pad_to, limit = min(pad_to, positions), min(limit, positions)
    network = build(found, place.device, place.dtype, place.quantize)
    return Encoder(facts, network, load_tokenizer(tokenizer, facts.kind), place.device, pad_to, limit)


__all__ = [
    "Family", "Place", "load_checkpoint", "load_clip_vision", "load_control_net", "load_model", "load_text_encoders",
    "load_vae",
]  # fmt: skip
