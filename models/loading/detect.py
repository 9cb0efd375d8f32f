"""Detects the networks in a file or folder by content. Torch-free.

A folder in diffusers layout names the classes of its networks. Single files are recognised by the names of their
tensors; their configs come from the shapes, from what their family knows, and from a JSON ``config`` in the file's
metadata, which wins. The networks are those of the families passed in.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..paths import pipeline_index
from .card import component
from .complete import check_blocks, refuse
from .header_values import Header, LoadError, UnknownNetwork
from .headers import read_header, read_json, weight_files
from .pieces import Piece, below
from .quantized import pieces_of
from .recognise import recognise

if TYPE_CHECKING:
    from ..family import Family, FileLayout, Network

_PREFIXES: Final = ("model.diffusion_model.", "diffusion_model.", "model.", "vae.", "first_stage_model.")
_ENCODER: Final = re.compile(r"text_encoders\.\w+\.transformer\.")
"""Prefixes of networks in files with several, besides ``<kind>.``; then bare names."""
_UNEVEN: Final = ("vae", "audio_vae", "vocoder", "connectors", "latent_upscaler")
"""Kinds of networks that are not lists of equal blocks."""


@dataclass(frozen=True, eq=False)
class Part:
    """One network in files."""

    network: Network
    config: Mapping[str, Any]
    pieces: Mapping[str, Piece]
    """Tensors by the class's names."""
    origin: Path
    """The folder or file the user named."""
    family: Family

    @property
    def kind(self) -> str:
        return self.network.kind

    @property
    def files(self) -> tuple[Path, ...]:
        """All files it is read from."""
        config = self.origin / "config.json"
        weights = dict.fromkeys(p.file for p in self.pieces.values())
        return (*weights, config) if config.is_file() else tuple(weights)


def parts(path: Path, families: Iterable[Family]) -> dict[str, Part]:
    """Networks in a file, component folder or pipeline folder, by kind.

    Raises:
        LoadError: a file is broken, holds none, or holds tensors of no network.
    """
    if not path.is_dir():
        return _in_file(read_header(path), tuple(families))
    if file := pipeline_index(path):
        return _in_pipeline(path, read_json(file), tuple(families))
    part = _in_folder(path, families) if (path / "config.json").is_file() else None
    if part is None:
        raise UnknownNetwork(
            f"{path} is no folder of a network that pipegraph knows: it needs a model_index.json (a whole model) or "
            f"the config.json of a known class{unknown_class(path, families)}"
        )
    return {part.kind: part}


def unknown_class(path: Path, families: Iterable[Family]) -> str:
    """The class of a model or network folder that is not supported, as the end of a sentence."""
    file = pipeline_index(path) or path / "config.json"
    name = read_json(file).get("_class_name") if file.is_file() else ""
    network = path / "transformer" / "config.json"
    if network.is_file() and _by_class(read_json(network), families):
        return ""
    return f"; {name} does not run here (yet)" if isinstance(name, str) and name else ""


def _in_pipeline(path: Path, index: Mapping[str, Any], families: Sequence[Family]) -> dict[str, Part]:
    folders = [component(path, name) for name, value in index.items() if isinstance(value, list) and value[0]]
    parts = [part for f in folders if (f / "config.json").is_file() and (part := _in_folder(f, families))]
    if index.get("expand_timesteps"):  # diffusers' word for a timestep per token
        parts = [_with_token_times(part) if part.kind == "transformer" else part for part in parts]
    # Of two networks of a kind the first counts: a second expert is `transformer_2`.
    return {part.kind: part for part in reversed(parts)}


def _with_token_times(part: Part) -> Part:
    return replace(part, family=replace(part.family, token_times=True))


def _networks(families: Iterable[Family]) -> Iterator[tuple[Network, Family]]:
    """Every network once, with the first family that has it; those detected by config come first."""
    owners: dict[Network, Family] = {}
    for family in families:
        for network in family.networks:
            owners.setdefault(network, family)
    return iter(sorted(owners.items(), key=lambda item: item[0].fits is None))


def _by_class(config: Mapping[str, Any], families: Iterable[Family]) -> tuple[Network, Family] | None:
    """The network for a component folder's config."""
    name = config.get("_class_name") or next(iter(config.get("architectures") or ()), "")
    for network, family in _networks(families):
        if name in (network.class_name, *network.aliases) and (network.fits is None or network.fits(config)):
            return network, family
    return None


def _in_folder(folder: Path, families: Iterable[Family]) -> Part | None:
    """The network of a component folder; None for an unknown class."""
    config = read_json(folder / "config.json")
    if (known := _by_class(config, families)) is None:
        return None
    network, family = known
    stored = _read(network, pieces_of(read_header(f) for f in weight_files(folder)))
    layout = next((x for x in network.layouts if x.matches(stored)), None)
    pieces, unknown = layout.names.to_class(stored) if layout else (stored, [])
    refuse(folder, {f"tensors have no place in {network.class_name}": unknown})
    return _checked(Part(network, config | dict(network.overrides), pieces, folder, family))


def _read(network: Network, stored: Mapping[str, Piece]) -> dict[str, Piece]:
    """The tensors of a network without ignored ones."""
    return {n: p for n, p in stored.items() if not network.ignored or not re.search(network.ignored, n)}


def _checked(part: Part) -> Part:
    """The part, checked for missing blocks."""
    if part.kind not in _UNEVEN and not part.network.uneven:
        check_blocks(part.origin, part.network.class_name, part.pieces, part.config)
    return part


def _in_file(header: Header, families: Sequence[Family]) -> dict[str, Part]:
    """Networks in a single file; every tensor must belong to one."""
    shapes = {name: entry.shape for name, entry in header.tensors.items()}
    runs = {family.title for family in families}
    if description := recognise(shapes, runs, vague=False):
        raise LoadError(f"{header.path} is {description}")
    networks = dict(_networks(families))
    left = _gathered(pieces_of([header]), networks)
    names = list(left)
    configs = metadata_configs(header)
    parts: dict[str, Part] = {}
    unknown: list[str] = []
    for prefix in _prefixes(left, networks):
        stored = below(left, prefix)
        if known := _network_of(header.path, stored, networks, parts):
            network, layout = known
            part, strange = _part_of(header, network, layout, stored, configs, networks)
            parts[part.kind] = part
            unknown += [prefix + n for n in strange]
            left = {n: p for n, p in left.items() if not n.startswith(prefix)}
    left = {n: p for n, p in left.items() if not any(k.ignored and re.search(k.ignored, n) for k in networks)}
    if not parts and (description := recognise(shapes, runs)):
        raise LoadError(f"{header.path} is {description}")
    if not parts:
        titles = ", ".join(family.title for family in families)
        raise UnknownNetwork(
            f"{header.path} holds no network that pipegraph knows (those of {titles}, their VAEs, text encoders and "
            f"ControlNets); its names begin like {', '.join(names[:3])}"
        )
    if unknown := unknown + list(left):
        raise UnknownNetwork(
            f"{header.path}: {len(unknown)} tensors have no place in {', '.join(parts)}: {', '.join(unknown[:5])}"
            + (", ..." if len(unknown) > 5 else "")
        )
    return parts


def _gathered(stored: Mapping[str, Piece], networks: Iterable[Network]) -> dict[str, Piece]:
    """Tensors of a file, with those that lie apart moved under ``<kind>.``."""
    apart = [(network.kind, re.compile(network.apart)) for network in networks if network.apart]

    def gathered(name: str) -> str:
        for kind, pattern in apart:
            if match := pattern.match(name):
                return f"{kind}.{name.removeprefix(match['prefix'] or '')}"
        return name

    return {gathered(name): piece for name, piece in stored.items()}


def _prefixes(names: Iterable[str], networks: Iterable[Network]) -> list[str]:
    encoders = {match[0]: None for name in names if (match := _ENCODER.match(name))}
    own = [prefix for network in networks for prefix in (*network.prefixes, f"{network.kind}.")]
    return [*dict.fromkeys([*_PREFIXES, *encoders, *own, ""])]


def _network_of(
    path: Path, stored: Mapping[str, Piece], networks: Iterable[Network], parts: Mapping[str, Part]
) -> tuple[Network, FileLayout] | None:
    """The network that tensors belong to, and its layout.

    Raises:
        LoadError: they could be of several; the families do not tell them apart.
    """
    unseen = [network for network in networks if stored and network.kind not in parts]
    alike = [(network, layout) for network in unseen for layout in network.layouts if layout.matches(stored)]
    if len(classes := {network.class_name for network, _ in alike}) > 1:
        raise LoadError(f"{path} could be any of {', '.join(sorted(classes))}")
    return alike[0] if alike else None


def _part_of(
    header: Header,
    network: Network,
    layout: FileLayout,
    stored: Mapping[str, Piece],
    configs: Mapping[str, Any],
    networks: Mapping[Network, Family],
) -> tuple[Part, list[str]]:
    """The part for a network in a file, and the unknown names.

    Raises:
        LoadError: a tensor is missing that tells a size.
    """
    try:
        pieces, unknown = layout.names.to_class(stored)
        config = network.config(pieces, network.base)
    except (KeyError, ValueError, IndexError, TypeError, ZeroDivisionError) as e:
        name = f" such as {e.args[0]}" if isinstance(e, KeyError) else ""
        raise LoadError(
            f"{header.path} looks like a {network.kind} ({network.class_name}), but tensors that tell its sizes are "
            f"missing or have other shapes{name}"
        ) from e
    config |= _stated(header, network, configs)
    # Networks of one class and one layout are told apart by their configs.
    alike = (n for n in networks if n.cls == network.cls and layout in n.layouts)
    network = next(n for n in alike if n.fits is None or n.fits(config))
    config |= network.overrides
    for name in network.marks.keys() & header.tensors.keys():
        config |= network.marks[name]
    part = Part(network, config, _read(network, pieces), header.path, networks[network])
    return _checked(part), [*_read(network, dict.fromkeys(unknown, next(iter(stored.values()))))]


def _stated(header: Header, network: Network, configs: Mapping[str, Any]) -> dict[str, Any]:
    """The network config in the file's metadata.

    Raises:
        LoadError: it makes no sense.
    """
    config = configs.get(network.component, {})
    try:
        return network.metadata(dict(config))
    except (KeyError, ValueError, TypeError, AttributeError) as e:
        raise LoadError(f"{header.path}: `config` in its metadata makes no sense for `{network.component}`: {e}") from e


def metadata_configs(header: Header) -> dict[str, Any]:
    """Configs by component in the file's metadata.

    Raises:
        LoadError: they are no JSON.
    """
    text = header.metadata.get("config", "{}")
    try:
        configs = json.loads(text) if isinstance(text, str) else {}
    except ValueError as e:
        raise LoadError(f"{header.path}: `config` in its metadata is no JSON: {e}") from e
    if not isinstance(configs, dict):
        return {}
    # Of files that hold one network, its config may be the whole.
    return {"latent_upsampler": configs} if configs.get("_class_name") == "LatentUpsampler" else configs
