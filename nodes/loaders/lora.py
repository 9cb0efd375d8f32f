"""Apply LoRAs to models and text encoders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from pipegraph.models import paths
from pipegraph.models.adapters.lora_alpha import check_alpha, config_beside
from pipegraph.models.adapters.lora_fit import misfit
from pipegraph.models.loading.headers import with_sound_headers
from pipegraph.runtime.node import Extra, FileInput, RunContext, Step, node, outputs

from ..wire import Clip, Model

if TYPE_CHECKING:
    from pipegraph.models.adapters.lora import LoraFile


AllowPartial = Annotated[bool, Extra()]


def _files(name: str) -> list[Path]:
    """The file of a name, and the config next to it with its alpha; its header must be valid.

    A folder must hold exactly one safetensors file.
    """
    path = paths.resolve("loras", name)
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if len(files) != 1:
        listed = ", ".join(f.name for f in files) or "none"
        raise LookupError(f'"{name}" is a folder; name one of its safetensors files ({listed})')
    alpha_config = config_beside(files[0])
    checked = with_sound_headers(files)
    check_alpha(files[0])
    return [*checked, *([alpha_config] if alpha_config else [])]


LoraName = Annotated[str, FileInput(_files, lambda: paths.names("loras"))]
Strength = Annotated[float, Ge(-100.0), Le(100.0), Step(0.01)]


def _check_model(values: Mapping[str, Any], model: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Report a LoRA with no layer of the model."""
    strengths = [values.get(name, 1) for name in ("strength_model", "strength_clip") if name in values]
    if "lora_name" in values and "network" in model and any(strengths):
        encoders = "strength_clip" in values
        if why := misfit(_files(values["lora_name"])[0], model["network"], encoders=encoders):
            yield "lora_name", why


@outputs
class Adapted:
    """A model and its text encoders, with the LoRA on both."""

    MODEL: Model
    CLIP: Clip


@node("LoraLoader", category="loaders", title="Load LoRA (Model and CLIP)", check_model=_check_model)
def load_lora(
    model: Model,
    clip: Clip,
    lora_name: LoraName,
    ctx: RunContext,
    strength_model: Strength = 1.0,
    strength_clip: Strength = 1.0,
    allow_partial: AllowPartial = False,
) -> Adapted:
    """Add a LoRA to a model and its text encoders. Weights are not changed; several LoRAs add up.

    Args:
        model: Diffusion model.
        clip: Text encoders.
        lora_name: A LoRA file in any of the usual key styles.
        strength_model: Strength on the model; 0 is none, negative inverts it.
        strength_clip: Strength on the text encoders.
        allow_partial: Skip keys that match no layer, with a warning, instead of failing.
    """
    if not strength_model and not strength_clip:
        return Adapted(model, clip)
    networks = {"model": model.loaded.network} | {name: e.loaded.network for name, e in clip.encoders.items()}
    file = _read(lora_name, networks, model.family, allow_partial, ctx)
    if file.loras["model"] and strength_model:
        model = model.with_lora(file.loras["model"], strength_model)
    for name in clip.encoders:
        if file.loras[name] and strength_clip:
            clip = clip.with_lora(name, file.loras[name], strength_clip)
    return Adapted(model, clip)


@node("LoraLoaderModelOnly", category="loaders", title="Load LoRA", check_model=_check_model)
def load_lora_model_only(
    model: Model,
    lora_name: LoraName,
    ctx: RunContext,
    strength_model: Strength = 1.0,
    allow_partial: AllowPartial = False,
) -> Model:
    """Add a LoRA to a model. Weights are not changed; several LoRAs add up.

    Args:
        model: Diffusion model.
        lora_name: A LoRA file in any of the usual key styles.
        strength_model: Strength on the model; 0 is none, negative inverts it.
        allow_partial: Skip keys that match no layer, with a warning, instead of failing.
    """
    if not strength_model:
        return model
    file = _read(lora_name, {"model": model.loaded.network}, model.family, allow_partial, ctx)
    return model.with_lora(file.loras["model"], strength_model)


def _read(name: str, networks: Mapping[str, Any], family: Any, allow_partial: bool, ctx: RunContext) -> LoraFile:
    """Read a LoRA, put its report into the run record and warn about skipped keys and assumptions."""
    from pipegraph.models.adapters.lora import read_lora

    file = read_lora(_files(name)[0], networks, family, allow_partial=allow_partial)
    ctx.note("lora", file.report())
    for warning in file.warnings:
        ctx.warn(f"LoRA {file.name}: {warning}")
    return file
