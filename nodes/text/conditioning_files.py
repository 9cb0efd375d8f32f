"""Conditioning in files: text that is encoded once."""

from __future__ import annotations

import json
from collections.abc import Generator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pipegraph.models import paths
from pipegraph.models.loading.weights_fault import weights_fault
from pipegraph.runtime.node import FileInput, NodeEvent, RunContext, Saved, node

from ..image.files import NamePrefix, _file_name
from ..wire import Conditioning

_OPTIONS = "conditioning_options"


def _find(name: str) -> list[Path]:
    return [paths.resolve("embeddings", name)]


ConditioningName = Annotated[str, FileInput(_find, lambda: paths.names("embeddings"), weights_fault)]


@node("ConditioningLoader", category="loaders", title="Load Conditioning")
def load_conditioning(conditioning_name: ConditioningName) -> Conditioning:
    """Load a conditioning that was saved with SaveConditioning.

    Args:
        conditioning_name: A .safetensors file among the embeddings with a tensor `conditioning`; its other tensors, and
            the JSON in its metadata, are the further entries.
    """
    from safetensors import safe_open

    path = paths.resolve("embeddings", conditioning_name)
    with safe_open(path, "pt") as file:
        tensors = {key: file.get_tensor(key) for key in file.keys()}
        text = (file.metadata() or {}).get(_OPTIONS, "{}")
    states = tensors.pop("conditioning", None)
    if states is None or states.ndim != 3 or not states.is_floating_point():
        raise ValueError(f'{path.name} holds no conditioning: a tensor "conditioning" [1, tokens, channels] is wanted')
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise ValueError(f"{path.name}: the entries in its metadata are no JSON: {e}") from e
    if not isinstance(entries, dict):
        raise ValueError(f"{path.name}: the entries in its metadata are no JSON object")
    series: dict[str, dict[int, Any]] = {}
    for key, tensor in tensors.items():
        name, _, index = key.rpartition(".")
        if name and index.isdecimal():
            series.setdefault(name, {})[int(index)] = tensor
        else:
            entries[key] = tensor
    entries |= {name: tuple(parts[i] for i in sorted(parts)) for name, parts in series.items()}
    return [[states.float(), entries]]


@node(
    "SaveConditioning",
    category="conditioning",
    title="Save Conditioning",
    effect="writes",
    output_node=True,
    output="conditioning",
)
def save_conditioning(
    conditioning: Conditioning, ctx: RunContext, filename_prefix: NamePrefix = "conditioning/ComfyUI"
) -> Generator[NodeEvent, None, Conditioning]:
    """Save a conditioning as a .safetensors file; in the folder of embeddings ConditioningLoader loads it.

    Args:
        conditioning: Conditioning of one entry.
    """
    import torch
    from safetensors.torch import save

    if len(conditioning) != 1:
        raise ValueError(f"a file holds one entry, this conditioning has {len(conditioning)}: save before combining")
    states, entries = conditioning[0]
    tensors, values = {"conditioning": states}, {}
    for key, value in entries.items():
        if isinstance(value, torch.Tensor):
            tensors[key] = value
        elif isinstance(value, list | tuple) and value and all(isinstance(v, torch.Tensor) for v in value):
            tensors |= {f"{key}.{i}": part for i, part in enumerate(value)}
        elif value is None or isinstance(value, bool | int | float | str):
            values[key] = value
        else:
            raise ValueError(f"the entry {key} ({type(value).__name__}) cannot be saved")
    stored = {key: tensor.detach().cpu().clone().contiguous() for key, tensor in tensors.items()}
    name = _file_name(filename_prefix, 0, 0, 0, datetime.now(), "safetensors")
    yield Saved(ctx.write(name, save(stored, {_OPTIONS: json.dumps(values)})), kind="conditioning")
    return conditioning
