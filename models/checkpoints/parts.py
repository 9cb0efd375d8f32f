"""Networks of all families in a file or folder. Torch-free."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ..families import ALL
from ..family import Family
from ..loading import detect
from ..loading.card import card_file
from ..loading.detect import Part, metadata_configs
from ..loading.header_values import LoadError
from ..loading.headers import read_header, read_json
from ..loading.language_file import kind_in
from ..loading.tokenizers import find_tokenizer, tokenizer_files

ENCODERS: Final = tuple(dict.fromkeys(n.kind for family in ALL for n in family.networks if n.text))
"""Kinds of text encoders other than language models."""
_LATENT: Final = {"latent_channels", "z_dim", "scaling_factor", "shift_factor", "latents_mean", "latents_std"}
"""Keys of which a VAE config in metadata must have at least one."""


def parts(path: Path, kinds: tuple[str, ...] = ()) -> dict[str, Part]:
    """Networks in a file, component folder or pipeline folder by kind; all, or only ``kinds``."""
    return {kind: part for kind, part in detect.parts(path, ALL).items() if not kinds or kind in kinds}


def part(path: Path, kind: str) -> Part:
    """The network of one kind in a file, component folder or pipeline folder.

    Raises:
        LoadError: there is none, with what is there instead.
    """
    there = parts(path)
    if kind not in there:
        names = ", ".join(there) or "no network that pipegraph knows"
        raise LoadError(f"{path} holds no {kind}; it holds: {names}{detect.unknown_class(path, ALL)}")
    return there[kind]


def contents(path: Path) -> str:
    """Describe what a file or folder of weights holds, or why it cannot be used. Reads headers only."""
    config = path / "config.json"
    kind = read_json(config).get("model_type") if config.is_file() else None
    try:
        header = read_header(path) if path.is_file() else None
        if kind := kind or (header and (header.metadata.get("general.architecture") or kind_in(header))):
            return f"holds a network of text of the kind {kind}"
        return "holds " + ", ".join(f"{p.kind} ({p.family.title})" for p in parts(path).values())
    except LookupError as e:
        return str(e.args[0])


def encoder_files(path: Path) -> list[Path]:
    """Every file that affects the text encoders in a file or folder, including tokenizers."""
    encoders = parts(path, ENCODERS)
    files = [f for p in encoders.values() for f in p.files]
    for p in encoders.values():
        for facts in (e for e in p.family.encoders if e.kind == p.kind and not e.quoted):
            files += tokenizer_files(find_tokenizer(p.family, facts, p.origin))
    card = card_file(path)
    return [*files, card] if card.is_file() else files


def vae_part(path: Path) -> Part:
    """The VAE in a file or folder: of images or video, else the audio VAE."""
    there = parts(path, ("vae", "audio_vae"))
    sound = there.get("audio_vae")
    return sound if sound and sound.network.value and "vae" not in there else part(path, "vae")


def stated_vae_config(path: Path, family: Family) -> dict[str, Any] | None:
    """The VAE config in the metadata of a single file."""
    network = family.network_of("vae")
    stated = metadata_configs(read_header(path)).get("vae") if path.is_file() else None
    if network is None or not isinstance(stated, dict) or not stated.keys() & _LATENT:
        return None
    return dict(network.base) | network.metadata(stated)
