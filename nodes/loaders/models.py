"""Load models: diffusers folders, single files, what is in the local hub cache, and models that ship with pipegraph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pipegraph.models import paths
from pipegraph.models.checkpoints import language, source
from pipegraph.models.checkpoints.parts import encoder_files, part, vae_part
from pipegraph.models.families import FAMILIES, TEXT_FAMILIES
from pipegraph.models.loading.card import card_file, component
from pipegraph.models.loading.headers import with_sound_headers
from pipegraph.runtime.node import Choices, FileInput, RunContext, node, outputs

from ..utils.progress import loading
from ..wire import Clip, ControlNet, Model, Vae

if TYPE_CHECKING:
    from pipegraph.models.loading.place import Place


def _checkpoint_files(name: str) -> list[Path]:
    return source.checkpoint(name).files


def _network_files(name: str) -> list[Path]:
    path = paths.resolve("diffusion_models", name)
    extra = (card_file(path), path / "scheduler" / "scheduler_config.json", component(path, "vae") / "config.json")
    return [*part(path, "transformer").files, *(f for f in extra if f.is_file())]


def _encoder_files(name: str) -> list[Path]:
    path = paths.resolve("text_encoders", name)
    return with_sound_headers(language.files_of(path) if language.kind_of(path) else encoder_files(path))


def _vae_files(name: str) -> list[Path]:
    return list(vae_part(paths.resolve("vae", name)).files)


def _control_files(name: str) -> list[Path]:
    return list(part(paths.resolve("controlnet", name), "controlnet").files)


CheckpointName = Annotated[str, FileInput(_checkpoint_files, lambda: paths.names("checkpoints"))]
NetworkName = Annotated[str, FileInput(_network_files, lambda: paths.names("diffusion_models"))]
EncoderName = Annotated[str, FileInput(_encoder_files, lambda: paths.names("text_encoders"))]
VaeName = Annotated[str, FileInput(_vae_files, lambda: paths.names("vae"))]
ControlNetName = Annotated[str, FileInput(_control_files, lambda: paths.names("controlnet"))]
BY_CONTENT = "stable_diffusion"
"""The type that ComfyUI's loader begins with: it says nothing of a language model, whose file says what it is."""
FamilyName = Annotated[str, Choices(lambda: [*dict.fromkeys([*FAMILIES, *TEXT_FAMILIES, BY_CONTENT])])]


def _place(ctx: RunContext, device: str = "default", quantize: str = "") -> Place:
    from pipegraph.models.loading.place import Place

    return Place.of("cpu" if device == "cpu" else ctx.device, ctx.dtype, quantize or ctx.quantize)


def _note_weights(ctx: RunContext, model: Any = None, clip: Any = None) -> None:
    """Put the storage of quantized weights into the run record, and warn about tokenizers."""
    from pipegraph.models.quantize import noted

    encoders = {} if clip is None else clip.encoders
    for remark in (remark for encoder in encoders.values() for remark in encoder.remarks):
        ctx.warn(remark)

    networks = {} if model is None else {"model": model.loaded.network}
    networks |= {name: encoder.loaded.network for name, encoder in encoders.items()}
    if stored := noted(networks):
        ctx.note("weights", stored)


@outputs
class Checkpoint:
    """The three parts of a whole model."""

    MODEL: Model
    CLIP: Clip
    VAE: Vae


def _recommend_checkpoint(ckpt_name: str) -> Mapping[str, Any]:
    return source.facts(ckpt_name)


def _recommend_network(unet_name: str) -> Mapping[str, Any]:
    return source.facts(unet_name, "diffusion_models")


@node("CheckpointLoaderSimple", category="loaders", title="Load Checkpoint", recommend=_recommend_checkpoint)
def load_checkpoint(ckpt_name: CheckpointName, ctx: RunContext) -> Checkpoint:
    """Load a whole model: diffusion network, text encoders and VAE.

    A file with only the diffusion network is completed with the usual VAE and text encoders of its family, from
    next to it or the model folders; a warning names them.

    Args:
        ckpt_name: A folder in diffusers layout, a single file, `org/name` in the local hub cache, or `embedded/...`.
    """
    from pipegraph.models.checkpoints.load import load_checkpoint

    checkpoint = source.checkpoint(ckpt_name)
    for sentence in checkpoint.completed:
        ctx.warn(sentence)
    with loading(ctx):
        loaded = Checkpoint(*load_checkpoint(checkpoint, _place(ctx)))
    _note_weights(ctx, loaded.MODEL, loaded.CLIP)
    return loaded


@node("UNETLoader", category="loaders", title="Load Diffusion Model", recommend=_recommend_network)
def load_diffusion_model(
    unet_name: NetworkName,
    ctx: RunContext,
    weight_dtype: Literal["default", "fp8_e4m3fn", "fp8_e4m3fn_fast", "fp8_e5m2"] = "default",
) -> Model:
    """Load a diffusion network alone.

    Args:
        unet_name: A single file, a component folder, or the name of a whole model.
        weight_dtype: Dtype of linear layers: cast to fp8, except fragile ones (first and last projections, modulation);
            _fast also rounds activations to fp8.
    """
    return _load_model(unet_name, ctx, "" if weight_dtype == "default" else weight_dtype)


@node("UnetLoaderGGUF", category="loaders", title="Unet Loader (GGUF)", recommend=_recommend_network)
def load_gguf_model(unet_name: NetworkName, ctx: RunContext) -> Model:
    """Load a diffusion network alone from a GGUF file; UNETLoader does the same.

    Args:
        unet_name: A GGUF file, or any other file that UNETLoader takes.
    """
    return _load_model(unet_name, ctx)


def _load_model(name: str, ctx: RunContext, quantize: str = "") -> Model:
    from pipegraph.models.checkpoints.load import load_model

    with loading(ctx):
        model = load_model(name, _place(ctx, quantize=quantize))
    _note_weights(ctx, model)
    return model


def _abilities(clip_name: str) -> Mapping[str, Any]:
    """Abilities of a text encoder that is a language model."""
    return language.abilities(clip_name)


@node("CLIPLoader", category="loaders", title="Load CLIP", recommend=_abilities)
def load_clip(
    clip_name: EncoderName, ctx: RunContext, type: FamilyName = "flux", device: Literal["default", "cpu"] = "default"
) -> Clip:
    """Load a text encoder; its kind is detected from its content.

    Args:
        clip_name: A single file, a component folder, or the name of a whole model. The CLIP of a
            language model also works in TextGenerate.
        type: Model family that uses it.
        device: Device to run on.
    """
    from pipegraph.models.checkpoints.load import load_text_encoders

    with loading(ctx):
        clip = load_text_encoders(_family_of(type, clip_name, ctx), [clip_name], _place(ctx, device))
    _note_weights(ctx, clip=clip)
    return clip


def _family_of(type: str, name: str, ctx: RunContext) -> str:
    """The family whose text encoder a file is: that of the type, or one that reads this language model."""
    kind, family = language.kind_of(paths.resolve("text_encoders", name)), TEXT_FAMILIES.get(type)
    if family and (not kind or any(kind in facts.models for facts in family.language)):
        return type
    others = [other.id for other in TEXT_FAMILIES.values() if any(kind in facts.models for facts in other.language)]
    if not others:
        if family:
            return type  # loading says what the family takes
        raise ValueError(f"type {type} does not say what {name} is for: give the type of its family")
    ctx.warn(f"{name} is a {kind}, which type {type} does not read: it is read as type {others[0]} does")
    return others[0]


@node("DualCLIPLoader", category="loaders", title="Load two text encoders")
def load_dual_clip(
    clip_name1: EncoderName,
    clip_name2: EncoderName,
    ctx: RunContext,
    type: FamilyName = "flux",
    device: Literal["default", "cpu"] = "default",
) -> Clip:
    """Load two text encoders, in any order.

    Args:
        clip_name1: First text encoder, e.g. CLIP-L.
        clip_name2: Second text encoder, e.g. T5.
        type: Model family that uses them.
        device: Device to run on.
    """
    from pipegraph.models.checkpoints.load import load_text_encoders

    with loading(ctx):
        clip = load_text_encoders(type, [clip_name1, clip_name2], _place(ctx, device))
    _note_weights(ctx, clip=clip)
    return clip


@node("VAELoader", category="loaders", title="Load VAE")
def load_vae(vae_name: VaeName, ctx: RunContext) -> Vae:
    """Load a VAE.

    Args:
        vae_name: A single file, a component folder, or the name of a whole model.
    """
    from pipegraph.models.checkpoints.load import load_vae

    with loading(ctx):
        return load_vae(vae_name, _place(ctx))


@node("ControlNetLoader", category="loaders", title="Load ControlNet Model")
def load_control_net(control_net_name: ControlNetName, ctx: RunContext) -> ControlNet:
    """Load a ControlNet.

    Args:
        control_net_name: A single file in diffusers layout, or a component folder.
    """
    from pipegraph.models.checkpoints.load import load_control_net

    with loading(ctx):
        return load_control_net(control_net_name, _place(ctx))
