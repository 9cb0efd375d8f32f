"""Which networks lie in a file or folder, found by content. Torch-free.

A *part* is one network: its tensors by the names of its class, and its config. A folder in diffusers layout says its
parts itself; in single files they are told by the names of their tensors, and their configs come from the shapes, from
what ``configs/`` knows of the family, and from a JSON ``config`` in the file's metadata, which wins.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from ..families import FAMILIES, family_of_control, family_of_network
from ..family import Family
from ..paths import pipeline_index
from . import encoders, flux, hunyuan, ltx, ltx2, minimax, vae, wan
from .card import component
from .complete import check_blocks, refuse
from .headers import Header, LoadError, read_header, read_json, weight_files
from .language_file import kind_in
from .pieces import Piece, below
from .quantized import pieces_of
from .recognise import recognise

CONFIGS: Final = Path(__file__).resolve().parent.parent / "configs"
KINDS: Final = ("transformer", "controlnet", "vae", "clip", "t5", "byt5", "umt5", "clip_vision", "latent_upscaler",
               "audio_vae", "vocoder", "connectors")  # fmt: skip
ENCODERS: Final = ("clip", "t5", "byt5", "umt5")
PREFIXES: Final = (
    "model.diffusion_model.", "diffusion_model.", "model.", "vae.", "first_stage_model.",
    "text_encoders.clip_l.transformer.", "text_encoders.t5xxl.transformer.", "text_encoders.umt5xxl.transformer.",
    "audio_vae.", "vocoder.", "connectors.", "",
)  # fmt: skip
"""What the parts' names begin with in files that hold several; the bare names last."""
IGNORED: Final = ("logit_scale", "text_projection.weight", "position_ids", "spiece_model", "visual_projection.weight")
"""Ends of names that belong to no network of ours and change nothing."""
_OWN_NAMES: Final = ("transformer", "controlnet")
"""Kinds whose tensors have the names of their classes in folders."""
_OF_BLOCKS: Final = ("transformer", "controlnet", *ENCODERS, "clip_vision")
"""Kinds of networks that are lists of equal blocks."""
_KIND_OF_CLASS: Final = {
    "AutoencoderKL": ("vae", "flux"), "CLIPTextModel": ("clip", "flux"), "T5EncoderModel": ("t5", "flux"),
    "AutoencoderKLWan": ("vae", "wan"), "UMT5EncoderModel": ("umt5", "wan"), "AutoencoderKLLTXVideo": ("vae", "ltxv"),
    "AutoencoderKLLTX2Video": ("vae", "ltx2"), "AutoencoderKLLTX2Audio": ("audio_vae", "ltx2"),
    "LTX2Vocoder": ("vocoder", "ltx2"), "LTX2VocoderWithBWE": ("vocoder", "ltx2"),
    "LTX2TextConnectors": ("connectors", "ltx2"),
    "LTXLatentUpsamplerModel": ("latent_upscaler", "ltxv"), "LTX2LatentUpsamplerModel": ("latent_upscaler", "ltxv"),
    "AutoencoderKLHunyuanVideo": ("vae", "hunyuan_video"), "SiglipVisionModel": ("clip_vision", "hunyuan_video_15"),
    "AutoencoderKLHunyuanVideo15": ("vae", "hunyuan_video_15"),
    "CLIPVisionModel": ("clip_vision", "wan"), "AutoencoderKLMiniMaxH3": ("vae", "minimax_h3"),
    "AutoencoderKLMiniMaxH3Audio": ("audio_vae", "minimax_h3"),
}  # fmt: skip


_LATENT: Final = {"latent_channels", "z_dim", "scaling_factor", "shift_factor", "latents_mean", "latents_std"}
"""What a config of a VAE in a file's metadata says of latents, one of them at least."""


@dataclass(frozen=True, eq=False)
class Part:
    """One network in files."""

    kind: str
    class_name: str
    """In diffusers or transformers."""
    config: Mapping[str, Any]
    pieces: Mapping[str, Piece]
    origin: Path
    """The folder or file the user named."""
    family: Family

    @property
    def files(self) -> tuple[Path, ...]:
        """All files it is read from."""
        config = self.origin / "config.json"
        weights = dict.fromkeys(p.file for p in self.pieces.values())
        return (*weights, config) if config.is_file() else tuple(weights)


@dataclass(frozen=True, eq=False)
class _Layout:
    """How one kind of part is found among names and brought to its class's terms."""

    kind: str
    component: str
    """Its name in diffusers folders and in ``configs/``."""
    here: Callable[[Mapping[str, Any]], bool]
    pieces: Callable[[Mapping[str, Piece]], tuple[dict[str, Piece], list[str]]]
    config: Callable[[Mapping[str, Piece], Mapping[str, Any]], dict[str, Any]]
    family: str = "flux"
    told: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    """What a file's metadata says of its config, in the class's terms."""


def _is_control(names: Mapping[str, Any]) -> bool:
    return flux.is_diffusers(names) and "controlnet_x_embedder.weight" in names


def _as_it_is(stored: Mapping[str, Piece]) -> tuple[dict[str, Piece], list[str]]:
    return dict(stored), []


_LAYOUTS: Final = (
    _Layout("transformer", "transformer", wan.is_original, wan.from_original, wan.network_config, "wan"),
    _Layout("transformer", "transformer", wan.is_diffusers, _as_it_is, wan.network_config, "wan"),
    _Layout("vae", "vae", wan.is_original_vae, wan.from_original_vae, wan.vae_config, "wan"),
    _Layout("vae", "vae", wan.is_diffusers_vae, _as_it_is, wan.vae_config, "wan"),
    _Layout("umt5", "text_encoder", wan.is_umt5, lambda s: (encoders.t5_pieces(s), []), encoders.t5_config, "wan"),
    *(
        _Layout("transformer", "transformer", here, made, config, family)
        for here, made, config, family in hunyuan.NETWORKS
    ),
    *(_Layout("vae", "vae", here, made, config, family) for here, made, config, family in hunyuan.VAES),
    _Layout(
        "byt5",
        "text_encoder_2",
        hunyuan.is_byt5,
        lambda s: (encoders.t5_pieces(s), []),
        encoders.t5_config,
        "hunyuan_video_15",
    ),
    *(_Layout(kind, kind, here, made, config, "minimax_h3") for kind, here, made, config in minimax.NETWORKS),
    *(_Layout(kind, kind, here, made, config, "ltx2", told) for kind, here, made, config, told in ltx2.NETWORKS),
    *(
        _Layout("transformer", "transformer", here, made, ltx.network_config, "ltxv", ltx.told_of_network)
        for here, made in ((ltx.is_original, ltx.from_original), (ltx.is_diffusers, _as_it_is))
    ),
    *(
        _Layout("vae", "vae", here, made, ltx.vae_config, "ltxv", ltx.told_of_vae)
        for here, made in ((ltx.is_original_vae, ltx.from_original_vae), (ltx.is_diffusers_vae, _as_it_is))
    ),
    _Layout(
        "latent_upscaler",
        "latent_upsampler",
        ltx.is_upscaler,
        _as_it_is,
        ltx.upscaler_config,
        "ltxv",
        ltx.told_of_upscaler,
    ),
    _Layout("controlnet", "controlnet", _is_control, lambda s: (dict(s), []), flux.network_config),
    _Layout("transformer", "transformer", flux.is_bfl, flux.from_bfl, flux.network_config),
    _Layout("transformer", "transformer", flux.is_diffusers, lambda s: (dict(s), []), flux.network_config),
    _Layout("vae", "vae", vae.is_vae, vae.from_ldm, vae.vae_config),
    _Layout("clip_vision", "image_encoder", encoders.is_vision, encoders.from_vision, encoders.vision_config, "wan"),
    _Layout(
        "clip_vision",
        "image_encoder",
        encoders.is_siglip,
        encoders.from_siglip,
        encoders.siglip_config,
        "hunyuan_video_15",
    ),
    _Layout("clip", "text_encoder", encoders.is_clip, lambda s: (encoders.clip_pieces(s), []), encoders.clip_config),
    _Layout("t5", "text_encoder_2", encoders.is_t5, lambda s: (encoders.t5_pieces(s), []), encoders.t5_config),
    _Layout("t5", "text_encoder_2", encoders.is_ggml_t5, encoders.from_ggml_t5, encoders.t5_config),
)


@cache
def family_configs(family_id: str) -> dict[str, dict[str, Any]]:
    """What is known of a family's networks, by component."""
    return read_json(CONFIGS / f"{family_id}.json")


def part(path: Path, kind: str) -> Part:
    """The network of one kind in a file, a component folder or a pipeline folder.

    Raises:
        LoadError: there is none, with what is there instead.
    """
    found = parts(path, (kind,))
    if kind not in found:
        there = ", ".join(parts(path)) or "no network that pipegraph knows"
        raise LoadError(f"{path} holds no {kind}; it holds: {there}{_class_in(path)}")
    return found[kind]


def _class_in(path: Path) -> str:
    """The class of a folder's model or network, where it is one that does not run here."""
    file = pipeline_index(path) or path / "config.json"
    name = read_json(file).get("_class_name") if file.is_file() else ""
    network = path / "transformer" / "config.json"
    if network.is_file() and family_of_network(str(read_json(network).get("_class_name")), read_json(network)):
        return ""
    return f"; {name} does not run here (yet)" if isinstance(name, str) and name else ""


def contents(path: Path) -> str:
    """What a file or folder of weights holds, in words, or why it cannot be used. Reads headers only."""
    config = path / "config.json"
    kind = read_json(config).get("model_type") if config.is_file() else None
    try:
        header = read_header(path) if path.is_file() else None
        if kind := kind or (header and (header.metadata.get("general.architecture") or kind_in(header))):
            return f"holds a network of text of the kind {kind}"
        return "holds " + ", ".join(f"{p.kind} ({p.family.title})" for p in parts(path).values())
    except LookupError as e:
        return str(e.args[0])


def vae_part(path: Path) -> Part:
    """The VAE in a file or folder: the one of pictures, or MiniMax-H3's one of sound where there is no other."""
    found = parts(path, ("vae", "audio_vae"))
    sound = found.get("audio_vae")
    return sound if sound and "vae" not in found and sound.family.id == "minimax_h3" else part(path, "vae")


def stated_vae(path: Path, family: Family) -> Part | None:
    """The VAE whose config a single file of a diffusion network states in its metadata; it has no tensors."""
    if not path.is_file() or family.id not in FAMILIES:
        return None
    told = _metadata_configs(read_header(path)).get("vae")
    layout = next((x for x in _LAYOUTS if (x.kind, x.family) == ("vae", family.id)), None)
    if layout is None or not isinstance(told, dict) or not told.keys() & _LATENT:
        return None
    config = family_configs(family.id)["vae"] | layout.told(told)
    return Part("vae", str(config["_class_name"]), config, {}, path, family)


def parts(path: Path, kinds: tuple[str, ...] = KINDS) -> dict[str, Part]:
    """The networks in a file, a component folder or a pipeline folder, by kind."""
    if not path.is_dir():
        return _in_file(read_header(path), kinds)
    if file := pipeline_index(path):
        index = read_json(file)
        folders = [component(path, name) for name, value in index.items() if isinstance(value, list) and value[0]]
        found = [_in_folder(f) for f in folders if (f / "config.json").is_file()]
        if index.get("expand_timesteps"):  # diffusers' word for a noise level for each token
            found = [_with_token_times(p) if p and p.kind == "transformer" else p for p in found]
        # Of two networks of a kind the first counts: Wan 2.2 has its second expert as `transformer_2`.
        return {p.kind: p for p in reversed(found) if p and p.kind in kinds}
    only = _in_folder(path) if (path / "config.json").is_file() else None
    if only is None:
        raise LoadError(f"{path} is no folder of a network that pipegraph knows: it needs a model_index.json "
                        f"(a whole model) or the config.json of a known class{_class_in(path)}")  # fmt: skip
    return {only.kind: only} if only.kind in kinds else {}


def _with_token_times(network: Part) -> Part:
    return replace(network, family=replace(network.family, token_times=True))


def _in_folder(folder: Path) -> Part | None:
    """The part of a component folder, None if its class is not known."""
    config = read_json(folder / "config.json")
    name = config.get("_class_name") or next(iter(config.get("architectures") or ()), "")
    # Nothing of ours reads the projection.
    name = name.replace("CLIPVisionModelWithProjection", "CLIPVisionModel")
    config = config | {"vision_use_head": False} if name == "SiglipVisionModel" else config
    if family := family_of_network(name, config):
        kind = "transformer"
    elif family := family_of_control(name):
        kind = "controlnet"
    elif name in _KIND_OF_CLASS:
        kind, family_id = _KIND_OF_CLASS[name]
        if name == "T5EncoderModel" and config.get("d_model") == hunyuan.BYT5_WIDTH:
            kind, family_id = "byt5", "hunyuan_video_15"
        family = FAMILIES[family_id]
    else:
        return None
    stored = _without_ignored(pieces_of(read_header(f) for f in weight_files(folder)))
    layout = next((x for x in _LAYOUTS if x.kind == kind and x.here(stored)), None)
    made, unknown = (stored, []) if kind in _OWN_NAMES or layout is None else layout.pieces(stored)
    refuse(folder, {f"tensors have no place in {name}": unknown})
    return _checked(Part(kind, name, config, made, folder, family))


def _checked(part: Part) -> Part:
    """A part of whose blocks none is missing."""
    if part.kind in _OF_BLOCKS:
        check_blocks(part.origin, part.class_name, part.pieces, part.config)
    return part


def _in_file(header: Header, kinds: tuple[str, ...]) -> dict[str, Part]:
    """The parts of a single file; every name in it must belong to one."""
    if what := recognise({name: entry.shape for name, entry in header.tensors.items()}):
        raise LoadError(f"{header.path} is {what}")
    left = ltx2.gathered(_without_ignored(pieces_of([header])))
    names, found = list(left), {}
    told = _metadata_configs(header)
    unknown: list[str] = []
    for prefix in PREFIXES:
        mine = below(left, prefix)
        for layout in _LAYOUTS:
            if mine and layout.here(mine) and layout.kind not in found:
                made, strange = layout.pieces(mine)
                base = family_configs(layout.family)[layout.component]
                config = _config(header, layout, made, base) | layout.told(told.get(layout.component, {}))
                class_name = config.get("_class_name") or base["architectures"][0]
                if class_name == "AutoencoderKL":
                    vae.check_scale(header.path, config)
                family = family_of_network(class_name, config) or FAMILIES[layout.family]
                found[layout.kind] = _checked(Part(layout.kind, class_name, config, made, header.path, family))
                unknown += [prefix + n for n in strange]
                left = {n: p for n, p in left.items() if not n.startswith(prefix)}
                break
    if not found:
        raise LoadError(f"{header.path} holds no network that pipegraph knows (FLUX.1, its VAE, CLIP-L, T5, ControlNet "
                        "in diffusers layout; Wan, its VAE, UMT5; HunyuanVideo, its VAE, ByT5; MiniMax-H3, its VAEs; "
                        "CLIP vision); its names begin like "
                        + ", ".join(names[:3]))  # fmt: skip
    if unknown := unknown + list(left):
        raise LoadError(f"{header.path}: {len(unknown)} tensors have no place in {', '.join(found)}: "
                        + ", ".join(unknown[:5]) + (", ..." if len(unknown) > 5 else ""))  # fmt: skip
    return {kind: p for kind, p in found.items() if kind in kinds}


def _config(header: Header, layout: _Layout, pieces: Mapping[str, Piece], base: Mapping[str, Any]) -> dict[str, Any]:
    """The config of a network from its shapes.

    Raises:
        LoadError: a tensor is missing that tells a size.
    """
    try:
        return layout.config(pieces, base)
    except (KeyError, ValueError, IndexError, TypeError, ZeroDivisionError) as e:
        name = f" such as {e.args[0]}" if isinstance(e, KeyError) else ""
        raise LoadError(
            f"{header.path} looks like a {layout.kind} of {FAMILIES[layout.family].title}, but tensors that tell its "
            f"sizes are missing or have other shapes{name}"
        ) from e


def _without_ignored(pieces: Mapping[str, Piece]) -> dict[str, Piece]:
    return {n: p for n, p in pieces.items() if not n.endswith(IGNORED)}


def _metadata_configs(header: Header) -> dict[str, dict[str, Any]]:
    """Configs by component from the file's own metadata."""
    text = header.metadata.get("config", "{}")
    try:
        told = json.loads(text) if isinstance(text, str) else {}
    except ValueError as e:
        raise LoadError(f"{header.path}: `config` in its metadata is no JSON: {e}") from e
    if not isinstance(told, dict):
        return {}
    # Of files that hold one network, its config may be the whole.
    return {"latent_upsampler": told} if told.get("_class_name") == "LatentUpsampler" else told
