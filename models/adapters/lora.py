"""LoRA: low-rank additions to the linear layers of a network, applied beside its weights, never to them.

Every key of a file is used, belongs to a network that was not loaded (noted in the report), or is an error. y = W x +
strength * alpha / rank * up (down x). Where a file says its alpha, ``lora_alpha.py`` knows; if nothing does, it is
taken as the rank, with a warning. Differences of whole parameters (``.diff``, ``.diff_b``: norms, biases) are added to
copies of these parameters.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from pipegraph.kernels.hooks.modules import side_paths
from pipegraph.kernels.ops.linear import LowRank

from .lora_alpha import Alpha, AlphaError, read_alpha
from .lora_keys import NETWORK, Key, read_key
from .lora_targets import LoraTarget, embeddings, parameters, targets

if TYPE_CHECKING:
    from pipegraph.models.family import Family

_CACHED = 4
"""Number of LoRA combinations whose side paths are cached per network."""
_SHOWN = 5
_ROWS = 4096
"""Rows of an embedding that are changed at a time."""


class LoraError(ValueError):
    """Raised for files that are not a LoRA for the given networks."""


@dataclass(frozen=True, slots=True)
class Factors:
    """Low-rank factors of one layer, as stored in the file."""

    down: Tensor
    """(R, K)"""
    up: Tensor
    """(N, R)"""
    scale: float
    """alpha / rank"""


@dataclass(frozen=True, eq=False, slots=True)
class Lora:
    """A LoRA for one network."""

    name: str
    layers: Mapping[str, Factors]
    """By the layer's name in the network."""
    differences: Mapping[str, Tensor] = field(default_factory=dict)
    """Full-rank differences (``.diff``, ``.diff_b``) by parameter name in the network."""
    tables: Mapping[str, Factors] = field(default_factory=dict)
    """Low-rank factors of embeddings by parameter name. Lookups have no side path, so these are added to a copy."""

    def __bool__(self) -> bool:
        """Whether the LoRA changes anything."""
        return bool(self.layers or self.differences or self.tables)

    def changed(self, network: nn.Module, strength: float) -> nn.Module:
        """A copy of the network with ``strength`` times the differences added; all other weights are shared."""
        if not (self.differences or self.tables) or not strength:
            return network
        packed = (module.__dict__.get("weight") for module in network.modules())
        patched = copy.deepcopy(network, {id(t): t for t in (*network.parameters(), *network.buffers(), *packed)})
        for name, difference in self.differences.items():
            path, _, leaf = name.rpartition(".")
            module = patched.get_submodule(path)
            old = module._parameters[leaf]
            assert old is not None
            new = old.float() + strength * difference.to(old.device, torch.float32)
            module._parameters[leaf] = nn.Parameter(new.to(old.dtype), requires_grad=False)
        for name, factors in self.tables.items():
            table = patched.get_parameter(name)
            _replace(patched, table, nn.Parameter(_added(table, factors, strength), requires_grad=False))
        return patched


def _added(table: Tensor, factors: Factors, strength: float) -> Tensor:
    """An embedding (V, K) with a low-rank update added in chunks of rows."""
    total, down = table.detach().clone(), factors.down.to(table.device, torch.float32) * (factors.scale * strength)
    for rows, up in zip(total.split(_ROWS), factors.up.split(_ROWS), strict=True):
        rows.copy_(rows.float() + up.to(table.device, torch.float32) @ down)
    return total


def _replace(network: nn.Module, old: nn.Parameter, new: nn.Parameter) -> None:
    """Replace a parameter everywhere it is used: embedding and output layer may be tied."""
    for module in network.modules():
        for leaf, parameter in module._parameters.items():
            if parameter is old:
                module._parameters[leaf] = new


@dataclass(frozen=True, eq=False, slots=True)
class LoraFile:
    """Contents of a LoRA file for the networks it was read for."""

    name: str
    loras: Mapping[str, Lora]
    """By part: ``model`` or a text encoder; a part without keys in the file has a LoRA without layers."""
    matched: int
    total: int
    warnings: tuple[str, ...] = ()
    """Sentences on keys that were skipped and on assumed values."""
    remarks: tuple[str, ...] = ()
    """Where alpha was read from."""

    def report(self) -> dict[str, Any]:
        """Run record entry: number of keys used and in total, layers by part, notes."""
        layers = {part: len(lora.layers) for part, lora in self.loras.items()}
        whole = {part: n for part, lora in self.loras.items() if (n := len(lora.differences) + len(lora.tables))}
        report = {"file": self.name, "keys": self.matched, "of": self.total, "layers": layers}
        report |= {"notes": [*self.warnings, *self.remarks]}
        return report | ({"differences": whole} if whole else {})


def load_lora(path: Path, network: nn.Module, family: Family, *, allow_partial: bool = False) -> Lora:
    """Read a LoRA for a diffusion network alone; see :func:`read_lora`."""
    return read_lora(path, {NETWORK: network}, family, allow_partial=allow_partial).loras[NETWORK]


def read_lora(
    path: Path, networks: Mapping[str, nn.Module], family: Family, *, allow_partial: bool = False
) -> LoraFile:
    """Read a LoRA file for a model and its text encoders.

    Args:
        path: A safetensors file in the key style of kohya, diffusers/peft, FLUX itself, ComfyUI or XLabs.
        networks: The diffusion network as ``model``, text encoders by their names in the family. Keys for an encoder
            that is not given are left out and counted in the notes.
        family: Says which text encoder ``lora_te1_`` and its like mean.
        allow_partial: Leave out unknown keys, with a note, instead of refusing the file.

    Raises:
        LoraError: nothing fits; a key is unknown, of another kind of adapter, or without its partner; a shape is wrong.
    """
    name = path.name
    tensors, header = _open(path)
    encoders = [part for part in networks if part != NETWORK]
    only = {"": encoders[0]} if len(encoders) == 1 else {}
    reading = _Reading(networks, family, {e.folder: e.name for e in family.encoders} | only)
    ranks = {min(t.shape) for t in tensors.values() if t.ndim >= 2}
    try:
        reading.alpha = read_alpha(path, header, ranks)
    except AlphaError as e:
        raise LoraError(f"LoRA {name}: {e}") from e
    for key in tensors:
        reading.sort(key)
    reading.differ(tensors)
    for group in reading.groups:
        reading.bind(*group, tensors)
    if reading.wrong:
        raise LoraError(f"LoRA {name}: {_some(reading.wrong)}")
    if not reading.matched:
        elsewhere = f"; it holds {_counted(reading.aside)}" if reading.aside else ""
        raise LoraError(
            f"LoRA {name}: none of its {len(tensors)} keys fits {_parts(networks)}{elsewhere}{reading.examples()}"
        )
    if reading.unknown and not allow_partial:
        raise LoraError(
            f"LoRA {name}: {len(reading.unknown)} of {len(tensors)} keys fit nothing in {_parts(networks)} (allow a "
            f"partial load to leave them out){reading.examples()}"
        )
    loras = {
        part: Lora(name, reading.layers[part], reading.differences[part], reading.tables[part]) for part in networks
    }
    warnings, remarks = tuple(reading.warnings()), tuple(f"alpha from {o}" for o in sorted(reading.origins))
    return LoraFile(name, loras, reading.matched, len(tensors), warnings, remarks)


@dataclass(slots=True)
class _Reading:
    """The keys of a file as they are sorted and bound to layers."""

    networks: Mapping[str, nn.Module]
    family: Family
    encoders: dict[str, str]
    keys: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    """(part, layer in the file's spelling) -> role -> key"""
    layers: dict[str, dict[str, Factors]] = field(default_factory=dict)
    differences: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    whole: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Key -> (part, parameter it is a difference of)."""
    known: dict[str, dict[str, tuple[LoraTarget, ...]]] = field(default_factory=dict)
    matched: int = 0
    aside: dict[str, int] = field(default_factory=dict)
    """Number of keys by part that was not loaded."""
    unknown: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    alpha: Alpha = field(default_factory=Alpha)
    origins: set[str] = field(default_factory=set)
    """Sources of alphas that are not stored per layer."""
    without_alpha: int = 0
    parameters: dict[str, dict[str, str]] = field(default_factory=dict)
    tables: dict[str, dict[str, Factors]] = field(default_factory=dict)
    embeddings: dict[str, dict[str, str]] = field(default_factory=dict)
    """Part -> spelling of an embedding -> its parameter."""

    def __post_init__(self) -> None:
        self.layers = {part: {} for part in self.networks}
        self.differences = {part: {} for part in self.networks}
        self.tables = {part: {} for part in self.networks}
        self.embeddings = {part: embeddings(network) for part, network in self.networks.items()}
        self.parameters = {part: parameters(network, self.family) for part, network in self.networks.items()}
        self.known = {part: targets(network, self.family) for part, network in self.networks.items()}

    def sort(self, name: str) -> None:
        """Classify one key."""
        key = read_key(name, self.encoders)
        if not isinstance(key, Key):
            (self.unknown if key.startswith("no tensor") else self.wrong).append(f"{name}: {key}")
        elif key.part not in self.networks:
            self.aside[key.part] = self.aside.get(key.part, 0) + 1
        elif key.role in ("weight", "bias"):
            spelled = self.parameters[key.part]
            if layer_name := spelled.get(f"{key.layer}_{key.role}") or spelled.get(key.layer):
                self.whole[name] = key.part, layer_name
            else:
                self.unknown.append(name)
        elif key.layer not in self.known[key.part] and key.layer not in self.embeddings[key.part]:
            if where := next((w for begin, w in self.family.not_loaded.items() if key.layer.startswith(begin)), ""):
                self.aside[where] = self.aside.get(where, 0) + 1
            else:
                self.unknown.append(name)
        else:
            roles = self.keys.setdefault((key.part, key.layer), {})
            if key.role in roles:
                self.wrong.append(f"{name} and {roles[key.role]} name the same factor")
            roles[key.role] = name

    def differ(self, tensors: Mapping[str, Tensor]) -> None:
        """Add full-rank differences."""
        for key, (part, name) in self.whole.items():
            shape = self.networks[part].get_parameter(name).shape
            if tensors[key].shape != shape:
                self.wrong.append(f"{key} {tuple(tensors[key].shape)} is no difference of {name} {tuple(shape)}")
            elif name in self.differences[part]:
                self.wrong.append(f"{key}: {name} is named twice, in different spellings")
            else:
                self.differences[part][name] = tensors[key]
                self.matched += 1

    @property
    def groups(self) -> list[tuple[str, str, dict[str, str]]]:
        return [(part, layer, roles) for (part, layer), roles in self.keys.items()]

    def bind(self, part: str, layer: str, roles: dict[str, str], tensors: Mapping[str, Tensor]) -> None:
        """Bind the factors of one layer in the file to layers of the network."""
        if missing := {"down", "up"} - roles.keys():
            self.wrong.append(f"{next(iter(roles.values()))} has no `{missing.pop()}` beside it")
            return
        down, up = (_matrix(tensors[roles[role]]) for role in ("down", "up"))
        if table := self.embeddings[part].get(layer):
            shape = self.networks[part].get_parameter(table).shape
            if down.ndim != 2 or up.ndim != 2 or (len(up), down.shape[1]) != shape or up.shape[1] != len(down):
                self.wrong.append(f"{roles['up']} {tuple(up.shape)} x {tuple(down.shape)} does not make up {table}")
                return
            scale = self._scale(part, [table], len(down), tensors.get(roles.get("alpha", "")))
            self.tables[part][table] = Factors(down, up, scale)
            self.matched += len(roles)
            return
        goals = self.known[part][layer]
        rows = sum(s.stop - s.start for goal in goals for s in goal.rows)
        columns = {_inputs(self.networks[part], goal.layer) for goal in goals}
        if down.ndim != 2 or up.ndim != 2 or up.shape != (rows, len(down)) or {down.shape[1]} != columns:
            self.wrong.append(
                f"{roles['up']} {tuple(up.shape)} x {tuple(down.shape)} does not make up the ({rows}, {max(columns)}) "
                f"of {', '.join(goal.layer for goal in goals)}"
            )
            return
        names = [goal.layer for goal in goals]
        scale = self._scale(part, names, len(down), tensors.get(roles.get("alpha", "")))
        for goal in goals:
            if goal.layer in self.layers[part]:
                self.wrong.append(f"{roles['up']}: {goal.layer} is named twice, in different spellings")
            ups = [up[s] for s in goal.rows]
            self.layers[part][goal.layer] = Factors(down, ups[0] if len(ups) == 1 else torch.cat(ups), scale)
        self.matched += len(roles)

    def _scale(self, part: str, layers: list[str], rank: int, alpha: Tensor | None) -> float:
        """Scale alpha / rank: from the alpha tensor, else from the file's metadata, else 1."""
        if alpha is not None:
            return self._checked(alpha) / rank
        folder = next((f for f, name in self.encoders.items() if name == part), "transformer")
        try:
            scale, origin = self.alpha.scale(folder, layers, rank)
        except AlphaError as e:
            self.wrong.append(str(e))
            return 1.0
        if scale is None:
            self.without_alpha += 1
            return 1.0
        self.origins.add(origin)
        return scale

    def _checked(self, alpha: Tensor) -> float:
        """The number in a scalar tensor."""
        if alpha.numel() == 1 and alpha.isfinite().all():
            return float(alpha)
        self.wrong.append(f"an alpha {list(alpha.shape)} is not one finite number")
        return 1.0

    def warnings(self) -> Iterator[str]:
        yield from self.alpha.warnings
        if self.aside:
            yield f"left out, as no such part was given: {_counted(self.aside)}"
        if self.unknown:
            yield f"left out, as nothing fits them: {len(self.unknown)} keys: {_some(self.unknown)}"
        if self.without_alpha:
            yield f"no alpha for {self.without_alpha} layers: taken as the rank, a scale of 1, which may be too strong"

    def examples(self) -> str:
        """Some unknown keys, and the closest known layer name."""
        if not self.unknown:
            return ""
        key = read_key(self.unknown[0].partition(":")[0], self.encoders)
        spellings = list(self.known.get(key.part, ())) if isinstance(key, Key) else []
        near = difflib.get_close_matches(key.layer, spellings, 1) if isinstance(key, Key) else []
        return f"; e.g. {self.unknown[0]}" + (f", nearest: {near[0]}" if near else "")


@contextmanager
def active(network: nn.Module, loras: Sequence[tuple[Lora, float]]) -> Iterator[None]:
    """Let LoRAs act on a network inside a ``with``, in this thread only; their effects add up.

    A strength of 0 is the same, bit for bit, as no LoRA. The network must be on the kernel layer (``install``).
    """
    acting = tuple((lora, float(strength)) for lora, strength in loras if strength and lora.layers)
    if not acting:
        yield
        return
    with side_paths(_combined(network, acting)):
        yield


_ready: WeakKeyDictionary[nn.Module, dict[Any, dict[nn.Module, LowRank]]] = WeakKeyDictionary()


def _combined(network: nn.Module, loras: tuple[tuple[Lora, float], ...]) -> dict[nn.Module, LowRank]:
    """One low-rank side path a layer, on its device and in its dtype; cached for the next steps."""
    first = next(network.parameters())
    key = (loras, first.device, first.dtype)
    cache = _ready.setdefault(network, {})
    if key not in cache:
        parts: dict[str, list[tuple[Factors, float]]] = {}
        for lora, strength in loras:
            for layer, factors in lora.layers.items():
                parts.setdefault(layer, []).append((factors, strength))
        paths = {network.get_submodule(name): _low_rank(network.get_submodule(name), f) for name, f in parts.items()}
        while len(cache) >= _CACHED:
            cache.pop(next(iter(cache)), None)
        cache[key] = paths
        return paths
    return cache[key]


def _low_rank(layer: nn.Module, parts: Sequence[tuple[Factors, float]]) -> LowRank:
    weight: Any = layer.weight  # a tensor or a PackedWeight
    stored = weight.dtype if isinstance(weight, Tensor) else torch.float32
    dtype = stored if stored.is_floating_point and stored.itemsize >= 2 else torch.float32
    return LowRank.stack(
        [
            LowRank(
                f.down.to(weight.device, dtype),
                (f.up.to(weight.device, torch.float32) * (f.scale * strength)).to(dtype),
            )
            for f, strength in parts
        ]
    )


def _open(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of a safetensors file, mapped into memory, and its metadata."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, file.metadata() or {}
    except SafetensorError as e:
        raise LoraError(f"LoRA {path.name} is no safetensors file: {e}") from e


def _inputs(network: nn.Module, layer: str) -> int:
    module = network.get_submodule(layer)
    assert isinstance(module, nn.Linear)
    return module.in_features


def _matrix(t: Tensor) -> Tensor:
    """A 1x1 convolution's factor as a matrix; others unchanged."""
    return t.flatten(1) if t.ndim == 4 and t.shape[2:] == (1, 1) else t


def _some(items: Sequence[str]) -> str:
    more = len(items) - _SHOWN
    return ", ".join(items[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _counted(parts: Mapping[str, int]) -> str:
    return ", ".join(f"{n} keys for {part}" for part, n in parts.items())


def _parts(networks: Mapping[str, nn.Module]) -> str:
    return " or ".join(f"{part} ({type(network).__name__})" for part, network in networks.items())
