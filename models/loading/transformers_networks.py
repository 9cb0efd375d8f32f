"""Networks of transformers: creation, legacy names, tied tensors, and computed buffers.

transformers itself would make up what is missing and drop what has no place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch
from torch import Tensor, nn

from ..quantize import choice, quantized_rows
from .building import empty_networks
from .complete import listed
from .filling import Filling, Packed, Plain, Stored, Weight, check, fill, owner, place_buffers
from .header_values import LoadError
from .lock import LOCK
from .pieces import Piece
from .reading import Reader

_COMPUTED: Final = (r"rotary_emb\.inv_freq$", r"(^|\.)position_ids$")
"""Buffers in older files that newer networks compute."""


def empty_network(cls: Any, config: Any, dtype: torch.dtype) -> Any:
    """A transformers network without memory for its weights."""
    for part in (config, *(getattr(config, key, None) for key in config.sub_configs)):
        if part is not None:
            part.dtype = dtype
    with empty_networks(dtype):
        return cls(config)


@dataclass(eq=False)
class _Joined:
    """Stored tensors that are merged into tensors of a network, e.g. the matrices of all experts."""

    network: Any
    converter: Any
    """A weight converter of transformers."""
    target: str
    """First tensor it produces."""
    parts: dict[str, list[tuple[str, Piece]]] = field(default_factory=dict)
    """Names and pieces by the converter's pattern, in order."""
    ready: dict[str, Tensor] = field(default_factory=dict)
    """Results that were not taken yet."""

    def convert(self, read: Callable[[Piece], Tensor]) -> dict[str, Tensor]:
        """All results by name."""
        converter = deepcopy(self.converter)
        for pattern, parts in self.parts.items():
            for name, piece in parts:
                converter.add_tensor(self.target, name, pattern, read(piece))
        tensors = converter.convert(self.target, model=self.network, config=self.network.config)
        return {name: value[0] if isinstance(value, list) else value for name, value in tensors.items()}

    def take(self, name: str, reader: Reader, dtype: torch.dtype) -> Tensor:
        if name not in self.ready:
            self.ready = self.convert(lambda piece: reader.dense(piece, dtype))
        return self.ready.pop(name)

    @property
    def names(self) -> list[str]:
        return [name for parts in self.parts.values() for name, _ in parts]

    def gaps(self) -> list[str]:
        """Missing numbers in a sequence, e.g. of experts, which would shift later ones."""
        numbered = [_numbered([name.split(".") for name, _ in parts]) for parts in self.parts.values()]
        count = 1 + max((max(numbers) for _, numbers in numbered if numbers), default=-1)
        return [pattern.format(i) for pattern, numbers in numbered if numbers for i in range(count) if i not in numbers]


def _numbered(names: list[list[str]]) -> tuple[str, set[int]]:
    """The component in which numbered names differ: a pattern with ``{}``, and its values; empty without one."""
    first = names[0]
    for place, text in enumerate(first):
        values = {name[place] for name in names}
        if text.isdigit() and len(values) > 1:
            return ".".join([*first[:place], "{}", *first[place + 1 :]]), {int(v) for v in values}
    return "", set()


@dataclass(frozen=True, slots=True)
class _Taken:
    """One result of a :class:`_Joined`."""

    source: _Joined
    name: str
    shape: tuple[int, ...]

    def packed(self, reader: Reader) -> Weight | None:
        return None

    def rows(self, reader: Reader) -> Iterator[Tensor]:
        yield self.dense(reader, torch.float32)

    def dense(self, reader: Reader, dtype: torch.dtype) -> Tensor:
        return self.source.take(self.name, reader, dtype).contiguous()


def fill_network(network: Any, pieces: Mapping[str, Piece], how: Filling) -> Packed:
    """Fill an empty transformers network except for packed weights, which are returned.

    Args:
        network: On the meta device.
        pieces: The tensors of its files by stored name; older names that transformers knows are understood.
        how: Where to, and in which types.

    Raises:
        LoadError: a tensor is missing, has no place or does not fit. Nothing was read then.
    """
    return fill_named(network, *_renamed(network, pieces, how), how)


def fill_named(
    network: Any, stored: Mapping[str, Stored], missing: Sequence[str], surplus: Sequence[str], how: Filling
) -> Packed:
    """Like :func:`fill_network`, for tensors named as in the network.

    Args:
        network: On the meta device.
        stored: What there is for its tensors.
        missing: Names of files that are missing besides; see :func:`filling.check`.
        surplus: Names in files that stand for no place.
        how: Where to, and in which types.
    """
    shared = _shared(network, stored)
    places = {n: t for n, t in network.state_dict().items() if n not in shared}
    check(how.origin, how.label, places, stored, missing, surplus)
    packed = fill(network, places, stored, replace(how, dtype_of=_dtypes(network, how.dtype)))
    _tie(network, stored, packed, how)
    place_buffers(network, how)
    return packed


def _renamed(network: Any, pieces: Mapping[str, Piece], how: Filling) -> tuple[dict[str, Stored], list[str], list[str]]:
    """Stored tensors by the network's names, and missing and unknown names."""
    from transformers.conversion_mapping import get_model_conversion_mapping

    with LOCK:
        mapping = get_model_conversion_mapping(network)
    places, ignored = network.state_dict(), _ignored(network)
    stored, joined, surplus = dict[str, Stored](), dict[str, _Joined](), list[str]()
    for name, target, converter, pattern in _targets(pieces, mapping, network, places):
        if target in places and converter is not None:
            group = joined.setdefault(target, _Joined(network, converter, target))
            group.parts.setdefault(pattern, []).append((name, pieces[name]))
        elif target in places and target not in stored:
            stored[target] = Plain(pieces[name])
        elif not (ignored and (ignored.search(target) or ignored.search(name))):
            surplus.append(name)
    missing = []
    for target, group in joined.items():
        gaps = group.gaps()
        missing += gaps
        stored |= {target: _Taken(group, target, tuple(places[target].shape))} if gaps else _outcome(group, how)
    return stored, missing, surplus


def _targets(
    names: Iterable[str], mapping: Sequence[Any], network: Any, places: dict[str, Tensor]
) -> Iterator[tuple[str, str, Any, str]]:
    """Map each stored name to its name in the network.

    For tensors that are merged, with the converter of transformers and its pattern that matches the name.
    """
    from transformers.core_model_loading import WeightConverter, WeightRenaming, dot_natural_key, rename_source_key

    renamings = [m for m in mapping if isinstance(m, WeightRenaming)]
    converters = [m for m in mapping if isinstance(m, WeightConverter)]
    by_pattern = {p: m for m in converters for p in m.source_patterns}
    prefix = network.base_model_prefix
    for name in sorted(names, key=dot_natural_key):  # expert 2 before expert 10
        target, pattern = rename_source_key(name, renamings, converters, prefix, places)
        if target not in places:  # the tables may rename what has its new name already
            plain, _ = rename_source_key(name, [], [], prefix, places)
            target, pattern = (plain, None) if plain in places else (target, pattern)
        yield name, target, by_pattern[pattern] if pattern else None, pattern or ""


def _outcome(group: _Joined, how: Filling) -> dict[str, Stored]:
    """The results of merging stored tensors, tried without memory."""
    try:
        tensors = group.convert(lambda piece: torch.empty(piece.shape, device="meta"))
    except (ValueError, RuntimeError, IndexError) as e:
        raise LoadError(f"{how.origin}: tensors do not fit together: {listed(group.names)} ({e})") from e
    return {name: _Taken(group, name, tuple(value.shape)) for name, value in tensors.items()}


def _ignored(network: Any) -> re.Pattern[str] | None:
    """Names that transformers ignores for this network, e.g. layers for speculative decoding."""
    buffers = [name for name, _ in network.named_buffers()]
    computed = [p for p in _COMPUTED if any(re.search(p, name) for name in buffers)]
    patterns = [*(network._keys_to_ignore_on_load_unexpected or ()), *computed]
    return re.compile("|".join(f"({p})" for p in patterns)) if patterns else None


def _dtypes(network: Any, dtype: torch.dtype) -> Callable[[str, Tensor], torch.dtype]:
    """Dtype of each tensor: the empty network's, or float32 where the class requires it."""
    from transformers.core_model_loading import build_glob_alternation

    plan = network._get_dtype_plan(dtype)
    whole = build_glob_alternation([*plan])[0] if plan else None

    def dtype_of(name: str, empty: Tensor) -> torch.dtype:
        return torch.float32 if whole and whole.search(name) else empty.dtype

    return dtype_of


def _shared(network: Any, stored: Mapping[str, Stored]) -> set[str]:
    """Names that files may omit because a tied name shares the tensor; one name of each group remains required."""
    names = set()
    for target, source in network.all_tied_weights_keys.items():
        if target not in stored:
            names.add(target)
        elif source not in stored:
            names.add(source)
    return names


def _tie(network: Any, stored: Mapping[str, Stored], packed: Packed, how: Filling) -> None:
    """Tie tensors of the network unless the files have two different ones."""
    for target, source in list(network.all_tied_weights_keys.items()):
        if target in stored and source in stored and _differ(network, target, source):
            network.all_tied_weights_keys.pop(target)
            continue
        owner_name, other = (source, target) if source in stored else (target, source)
        _share(network, owner_name, other, packed, how)


def _differ(network: Any, first: str, second: str) -> bool:
    """Whether two tensors of a network differ, or one of them is packed."""
    a, b = (_value(network, name) for name in (first, second))
    both = isinstance(a, Tensor) and isinstance(b, Tensor)
    return not both or bool(a.is_meta or b.is_meta or not torch.equal(a, b))


def _value(network: Any, name: str) -> Any:
    layer, leaf = owner(network, name)
    return getattr(layer, leaf)


def _share(network: Any, source: str, other: str, packed: Packed, how: Filling) -> None:
    """Give a tensor a second name; a linear layer may be quantized while the embedding it is tied to stays plain."""
    weight, (layer, leaf) = _value(network, source), owner(network, other)
    path = other.removesuffix(f".{leaf}")
    if not isinstance(weight, Tensor):
        packed[path] = how.place(weight, how.device), "exact"
        return
    setattr(layer, leaf, weight)
    kind, precision = choice(how.fragile, path, tuple(weight.shape), how.quantize)
    if kind and isinstance(layer, nn.Linear):
        packed[path] = quantized_rows(tuple(weight.shape), [weight.detach()], kind), precision
