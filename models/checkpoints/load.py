"""Loads models, text encoders, VAEs and ControlNets by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..clip_vision import ClipVision
from ..control import ControlNet
from ..families import TEXT_FAMILIES
from ..family import Family
from ..loaded import Loaded
from ..loading.card import component, read_card
from ..loading.detect import Part
from ..loading.header_values import LoadError
from ..loading.lock import imported
from ..loading.networks import build
from ..loading.place import Place
from ..loading.tokenizers import find_tokenizer, load_tokenizer
from ..model import Model
from ..parallel import share
from ..paths import pipeline_index, resolve
from ..text.encoder import Encoder, TextEncoder
from ..text.facts import EncoderFacts, TextFamily
from ..vae.convolution import use_onednn
from ..vae.image import Vae
from .language import kind_of, load_language_encoder
from .parts import ENCODERS, part, parts, stated_vae_config, vae_part
from .source import Source, scheduler_of


def load_checkpoint(source: Source, place: Place) -> tuple[Model, TextEncoder, Vae]:
    """Model, text encoders and VAE of a checkpoint."""
    vae = _vae(source.parts["vae"], place)
    model = _model(source.parts["transformer"], place, source.scheduler, source.card, source.name)
    latent = model.latent if vae.latent.scale is None else vae.latent
    return replace(model, latent=latent), _checkpoint_text(source, place), vae


def _checkpoint_text(source: Source, place: Place) -> TextEncoder:
    family = source.family
    if family.language:
        return _text_encoders(family, [(source.name, source.path)], place)
    encoders = {
        e.name: load_encoder(e, source.parts[e.kind], source.tokenizers[e.name], place, source.card)
        for e in family.encoders
        if e.kind in source.parts
    }
    return TextEncoder(family, encoders, source.name, tuple(source.card.get("vocabulary", ())))


def load_model(name: str, place: Place) -> Model:
    """A diffusion network: a file, a component folder, or that component of a pipeline folder."""
    path = resolve("diffusion_models", name)
    model = _model(part(path, "transformer"), place, scheduler_of(path), read_card(path), name)
    vae, config = model.family.network_of("vae"), stated_vae_config(path, model.family)
    if (component(path, "vae") / "config.json").is_file():
        own = part(path, "vae")
        vae, config = own.network, dict(own.config)
    latent = vae.latent(config) if vae and vae.latent and config else None
    return replace(model, latent=latent) if latent and latent.scale is not None else model


def load_text_encoders(family_id: str, names: list[str], place: Place) -> TextEncoder:
    """Text encoders of a family from files in any order; each is recognised by content."""
    family = TEXT_FAMILIES[family_id]
    if family.language:  # a folder that holds all of them may be named twice
        names = [*dict.fromkeys(names)]
    return _text_encoders(family, [(name, resolve("text_encoders", name)) for name in names], place)


def _text_encoders(family: TextFamily, files: Sequence[tuple[str, Path]], place: Place) -> TextEncoder:
    """Text encoders by the user's names for their files. A pipeline folder may hold several.

    Raises:
        LoadError: a name holds no encoder of the family, or one that is loaded already.
    """
    encoders: dict[str, Encoder] = {}
    card: dict[str, Any] = {}
    for name, path in files:
        model = kind_of(path) if family.language else ""
        if model:
            facts = next((e for e in family.language if model in e.models and e.name not in encoders), None)
            if facts is None:
                wanted = ", ".join(kind for e in family.language for kind in e.models)
                raise LoadError(f"{name} is a {model}; the text encoder of {family.title} is a {wanted}")
            encoders[facts.name] = load_language_encoder(facts, path, name, place)
            if len(family.encoders) == len(family.language) or not pipeline_index(path):
                continue
        networks = parts(path, ENCODERS)
        card = card or ({} if family.language else read_card(path))
        usable = [e for e in family.encoders if e.kind in networks and e.name not in encoders]
        if not usable:
            known = ", ".join(e.name for e in family.encoders)
            raise LoadError(f"{name} holds no further text encoder of {family.title} ({known})")
        for facts in usable:
            network = networks[facts.kind]
            tokenizer = None if facts.quoted else find_tokenizer(family, facts, network.origin)
            encoders[facts.name] = load_encoder(facts, network, tokenizer, place, card)
    return TextEncoder(
        family, encoders, ", ".join(dict.fromkeys(name for name, _ in files)), tuple(card.get("vocabulary", ()))
    )


def load_vae(name: str, place: Place) -> Vae:
    """A VAE: a file, a component folder, or that component of a pipeline folder; an audio VAE if there is no other."""
    return _vae(vae_part(resolve("vae", name)), place, name)


def load_control_net(name: str, place: Place) -> ControlNet:
    """A ControlNet: a file or a component folder."""
    network = part(resolve("controlnet", name), "controlnet")
    return ControlNet(_loaded(network, place, name), network.family)


def load_clip_vision(name: str, place: Place) -> ClipVision:
    """A CLIP vision model: a file, a component folder, or that component of a pipeline folder."""
    return ClipVision(_loaded(part(resolve("clip_vision", name), "clip_vision"), place, name))


def _loaded(network: Part, place: Place, name: str) -> Loaded:
    return Loaded(build(network, place.device, place.dtype), place.device, place.dtype, name)


def _model(stored: Part, place: Place, scheduler: Mapping[str, Any], card: Mapping[str, Any], name: str) -> Model:
    family = stored.family
    network = share(build(stored, place.device, place.dtype, place.quantize), stored.network.context_parallel)
    return Model(
        loaded=Loaded(network, place.device, place.dtype, name),
        family=family,
        sampling=family.sampling(stored.config, scheduler),
        latent=family.latent,
        recommended=family.recommend(stored.config) | dict(card.get("recommend", {})),
    )


def _vae(stored: Part, place: Place, name: str = "") -> Vae:
    facts = stored.network
    assert facts.latent is not None
    network, latent = build(stored, place.device, place.dtype), facts.latent(stored.config)
    if latent.frames:
        use_onednn(network)
    dtype = torch.float32 if facts.float32 or facts.keeps_float32 else place.dtype
    value: type[Vae] = imported(facts.value)
    return value(Loaded(network, place.device, dtype, name), latent)


def load_encoder(
    facts: EncoderFacts, stored: Part, tokenizer: Path | None, place: Place, card: Mapping[str, Any]
) -> Encoder:
    """A text encoder that is not a language model, with its tokenizer; without one if it reads bytes."""
    pad_to, limit = facts.pad_to, facts.limit
    if tokens := card.get("text_tokens"):
        pad_to = limit = int(tokens)
    if positions := stored.config.get("max_position_embeddings"):
        pad_to, limit = min(pad_to, positions), min(limit, positions)
        facts = replace(facts, window=min(facts.window, positions))
    network = build(stored, place.device, place.dtype, place.quantize)
    loaded = Loaded(network, place.device, place.dtype, str(stored.origin.name))
    reader = load_tokenizer(tokenizer, facts.tokenizer_kind) if tokenizer else None
    return Encoder(facts, loaded, reader, limit, pad_to)


__all__ = [
    "Family",
    "Place",
    "load_checkpoint",
    "load_clip_vision",
    "load_control_net",
    "load_model",
    "load_text_encoders",
    "load_vae",
]
