"""Where a LoRA says its alpha, other than in a tensor beside each layer. Torch-free.

A layer's effect is scaled by alpha / rank, with its own rank (alpha / sqrt(rank) for rank-stabilised LoRA, "rslora").
Spellings and what they mean:

- ``lora_adapter_metadata`` in the header (diffusers, peft): JSON with ``lora_alpha``, ``alpha_pattern`` (regular
  expressions of layers with an alpha of their own) and ``use_rslora``, each behind the name of the part.
- ``lora_alpha``, ``alpha``, ``network_alpha`` and kohya's ``ss_network_alpha`` as texts in the header: one number for
  all layers. kohya writes ``None``, and means the rank, where its user said nothing; 0 means the rank, too.
- ``adapter_config.json`` beside the file (a peft folder): the fields of peft's ``LoraConfig``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..loading.header_values import LoadError
from ..loading.headers import read_header

FIELDS: Final = ("lora_alpha", "alpha", "network_alpha", "ss_network_alpha")
"""Keys of the header's metadata, in order of precedence."""
_OF_KOHYA: Final = ("network_alpha", "ss_network_alpha")
"""Keys for which 0 and None mean alpha = rank."""
CONFIG: Final = "adapter_config.json"


class AlphaError(LoadError):
    """Raised for an alpha that is not a number, or not JSON."""


@dataclass(frozen=True)
class Alpha:
    """Alpha values stated by a LoRA file."""

    peft: Mapping[str, Any] = field(default_factory=dict)
    """``lora_adapter_metadata`` of the header: peft's fields, prefixed by component."""
    common: Mapping[str, Any] = field(default_factory=dict)
    """peft's fields for all components: ``lora_alpha``, ``alpha_pattern``, ``use_rslora``."""
    origin: str = ""
    """Where ``common`` was read from."""
    warnings: tuple[str, ...] = ()

    def scale(self, part: str, layers: Iterable[str], rank: int) -> tuple[float | None, str]:
        """The scale alpha / rank of a layer and where it was read; None if the file does not state it.

        Args:
            part: Folder of the network in a pipeline, e.g. ``transformer``.
            layers: Names in the network of what the layer stands for.
            rank: The layer's rank.
        """
        own = {k.removeprefix(f"{part}."): v for k, v in self.peft.items()}
        for settings, origin in ((own, "lora_adapter_metadata"), (self.common, self.origin)):
            value = settings.get("lora_alpha")
            for pattern, other in _patterns(settings, origin):
                if any(pattern.match(layer) for layer in layers):
                    value = other
            if value is not None:
                return _number(value, origin) / (math.sqrt(rank) if settings.get("use_rslora") else rank), origin
        return None, ""


def read_alpha(path: Path, header: Mapping[str, str], ranks: Iterable[int]) -> Alpha:
    """Read alpha from a LoRA's header and the ``adapter_config.json`` beside it.

    Args:
        path: The safetensors file.
        header: Its metadata.
        ranks: Ranks of its layers; an ``adapter_config.json`` with another rank is ignored.

    Raises:
        AlphaError: it is no number, or no JSON.
    """
    peft = _json(header.get("lora_adapter_metadata", "{}"), "lora_adapter_metadata")
    fields = {name: value for name in FIELDS if (value := _text(name, header.get(name))) is not None}
    if fields:
        name, value = next(iter(fields.items()))
        differing = {n: v for n, v in fields.items() if v != value}
        warnings = tuple(f"its header says {n} {v:g}, and {name} {value:g}, which counts" for n, v in differing.items())
        rooted = header.get("use_rslora", "").lower() in ("true", "1")
        return Alpha(peft, {"lora_alpha": value, "use_rslora": rooted}, f"`{name}` in its header", warnings)
    if file := config_beside(path):
        config = _json(file.read_text("utf-8", "replace"), CONFIG)
        if (rank := config.get("r")) is None or rank in {*ranks, *(config.get("rank_pattern") or {}).values()}:
            return Alpha(peft, config, CONFIG)
        return Alpha(peft, warnings=(f"{CONFIG} beside it speaks of rank {rank}, which no layer has; it is not used",))
    return Alpha(peft)


def check_alpha(path: Path) -> None:
    """Check that the alpha of a LoRA file can be read.

    Raises:
        AlphaError: it is no number, or no JSON.
    """
    header = read_header(path)
    ranks = {min(e.shape) for e in header.tensors.values() if len(e.shape) >= 2}
    try:
        read_alpha(path, header.metadata, ranks).scale("", (), 1)
    except AlphaError as e:
        raise AlphaError(f"LoRA {path.name}: {e}") from e


def config_beside(path: Path) -> Path | None:
    """The ``adapter_config.json`` of a file: if it has peft's name, or is the only LoRA in its folder."""
    file = path.with_name(CONFIG)
    alone = path.name.startswith("adapter_model.") or len(list(path.parent.glob("*.safetensors"))) == 1
    return file if alone and file.is_file() else None


def _patterns(settings: Mapping[str, Any], origin: str) -> list[tuple[re.Pattern[str], Any]]:
    """Per-layer alphas of peft (``alpha_pattern``)."""
    patterns = settings.get("alpha_pattern") or {}
    try:
        return [(re.compile(rf"(.*\.)?({pattern})$"), value) for pattern, value in patterns.items()]
    except (AttributeError, re.error) as e:
        raise AlphaError(f"{origin}: its `alpha_pattern` gives no alpha for names of layers: {e}") from e


def _text(name: str, text: str | None) -> float | None:
    """A number of the header; None if it means the rank or is missing."""
    if text is None or text.strip().lower() in ("", "none", "null", "dynamic"):
        return None
    value = _number(text, f"`{name}` in its header")
    return None if name in _OF_KOHYA and value == 0 else value


def _number(value: Any, origin: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or isinstance(value, bool):
        raise AlphaError(f"{origin} gives an alpha of {value!r}, which is no number")
    return number


def _json(text: str, origin: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as e:
        raise AlphaError(f"{origin} is no JSON: {e}") from e
    if not isinstance(value, dict):
        raise AlphaError(f"{origin} is no JSON object")
    return value
