"""Resolves a checkpoint name to all parts of a model, its card and its files. Torch-free.

A checkpoint is a diffusers folder or a single file. A file with only the diffusion network is completed with the
family's usual VAE and text encoders from the same folder or the model folders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..family import Family
from ..loading.card import card_file, read_card
from ..loading.detect import Part
from ..loading.header_values import LoadError
from ..loading.headers import read_json
from ..loading.tokenizers import find_tokenizer, tokenizer_files
from ..paths import model_roots, names, resolve
from . import language
from .parts import part, parts


@dataclass(frozen=True, eq=False)
class Source:
    """All files of a whole model."""

    path: Path
    name: str
    family: Family
    parts: Mapping[str, Part]
    tokenizers: Mapping[str, Path]
    """Tokenizers by encoder name: folders, or weight files that contain one."""
    scheduler: Mapping[str, Any] = field(default_factory=dict)
    card: Mapping[str, Any] = field(default_factory=dict)
    """``card.json`` of shipped models: recommended settings, prompt length, vocabulary."""
    completed: tuple[str, ...] = ()
    """Sentences on parts that were taken from other files."""

    @property
    def files(self) -> list[Path]:
        """Every file that affects the result."""
        files = [f for p in self.parts.values() for f in p.files]
        files += [f for place in self.tokenizers.values() for f in tokenizer_files(place)]
        files += language.files_of(self.path) if self.family.language else []
        extra = [card_file(self.path), self.path / "scheduler" / "scheduler_config.json"]
        return [*files, *(f for f in extra if f.is_file())]


def checkpoint(name: str) -> Source:
    """Resolve a checkpoint name.

    Raises:
        LookupError: no such file.
        LoadError: a part is missing, or a file cannot be used.
    """
    path = resolve("checkpoints", name)
    family = part(path, "transformer").family
    by_kind = parts(path)
    if family.language and not language.kind_of(path):
        raise LoadError(
            f"{path} holds no text encoders of {family.title}: load the parts with UNETLoader, "
            "CLIPLoader or DualCLIPLoader, and VAELoader"
        )
    completed = []
    for kind in ("vae", *(e.kind for e in family.encoders)):
        if kind not in by_kind and kind in family.files:
            by_kind[kind] = _companion(path, kind, family)
            completed.append(f"{path.name} holds no {kind}; taken from {by_kind[kind].origin}")
    by_kind = family.unite(by_kind) if family.unite else by_kind
    encoders = () if family.language else [e for e in family.encoders if e.kind in by_kind]
    tokenizers = {e.name: find_tokenizer(family, e, by_kind[e.kind].origin) for e in encoders}
    return Source(path, name, family, by_kind, tokenizers, _scheduler(path), read_card(path), tuple(completed))


def recommend(name: str, kind: str = "checkpoints") -> dict[str, Any]:
    """Recommended settings of a model: its card's over its family's. Reads headers only."""
    path = resolve(kind, name)
    network = part(path, "transformer")
    return network.family.recommend(network.config) | dict(read_card(path).get("recommend", {}))


def facts(name: str, kind: str = "checkpoints") -> dict[str, Any]:
    """Facts about a model before it is loaded.

    ``network``: its diffusion network, a :class:`Part`; ``levels``: how many noise levels its own table has.
    """
    path = resolve(kind, name)
    network = part(path, "transformer")
    levels = network.family.sampling(network.config, _scheduler(path)).entries
    return {**recommend(name, kind), "network": network, "levels": levels}


def scheduler_of(path: Path) -> dict[str, Any]:
    """Scheduler config of a pipeline folder; empty if there is none."""
    return _scheduler(path)


def _scheduler(path: Path) -> dict[str, Any]:
    file = path / "scheduler" / "scheduler_config.json"
    return read_json(file) if file.is_file() else {}


def _companion(path: Path, kind: str, family: Family) -> Part:
    """A part that a single file lacks: from the same folder, or the model folders, under its usual name."""
    folder, usual = "vae" if kind == "vae" else "text_encoders", family.files[kind]
    for name in usual:
        if (neighbour := path.parent / name).is_file():
            return part(neighbour, kind)
        if name in names(folder):
            return part(resolve(folder, name), kind)
    places = ", ".join(str(root / folder) for root in model_roots())
    raise LoadError(
        f"{path.name} holds no {kind}, and there is no {' or '.join(usual)} beside it or in {places}; "
        "put one there, or load the parts with UNETLoader, CLIPLoader or DualCLIPLoader, and VAELoader"
    )
