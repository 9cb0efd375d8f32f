"""Maps spellings of layers in LoRA files to layers of diffusers or transformers networks. Torch-free to import.

Files name layers as the class does, or as the original layout of the network's weights does: the tables of names that
weights are loaded by say both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..loading.names import Naming

if TYPE_CHECKING:
    from torch import nn

    from ..family import Family


class LoraTarget(NamedTuple):
    """Rows of a file's ``up`` that belong to one layer, in order of its outputs."""

    layer: str
    rows: tuple[slice, ...]


def namings(network: nn.Module, family: Family) -> list[Naming]:
    """The naming schemes for a family's network."""
    name = type(network).__name__
    return [layout.names for facts in family.networks if facts.class_name == name for layout in facts.layouts]


def targets(network: nn.Module, family: Family) -> dict[str, tuple[LoraTarget, ...]]:
    """Every spelling (dots as underscores) of every linear layer of a network -> its targets."""
    from torch import nn

    widths = {name: m.out_features for name, m in network.named_modules() if isinstance(m, nn.Linear)}
    return spellings(widths, namings(network, family))


def spellings(widths: Mapping[str, int], names: Iterable[Naming]) -> dict[str, tuple[LoraTarget, ...]]:
    """Like :func:`targets`, from names and output features of linear layers."""
    spelled: dict[str, tuple[LoraTarget, ...]] = {
        _flat(name): (LoraTarget(name, (slice(0, width),)),) for name, width in widths.items()
    }
    for naming in names:
        for name, layers, swapped in naming.spelled(widths):
            rows = _swapped(layers[0], widths) if swapped else tuple(_consecutive(layers, widths))
            spelled[_flat(name)] = rows
    return spelled


def parameters(network: nn.Module, family: Family) -> dict[str, str]:
    """Every spelling (dots as underscores) of every parameter that may have a full-rank difference."""
    return parameter_spellings([name for name, _ in network.named_parameters()], namings(network, family))


def parameter_spellings(parameters: Sequence[str], names: Iterable[Naming]) -> dict[str, str]:
    """Like :func:`parameters`, from parameter names."""
    spelled = {_flat(name): name for name in parameters}
    for naming in names:
        spelled |= {_flat(other): name for name in parameters if (other := naming.parameter(name))}
    return spelled


def embeddings(network: nn.Module) -> dict[str, str]:
    """Every spelling (dots as underscores) of every embedding -> its parameter."""
    from torch import nn

    names = (name for name, module in network.named_modules() if isinstance(module, nn.Embedding))
    return {_flat(name): f"{name}.weight" for name in names}


def _flat(name: str) -> str:
    return name.replace(".", "_")


def _consecutive(layers: Sequence[str], widths: Mapping[str, int]) -> Iterator[LoraTarget]:
    start = 0
    for layer in layers:
        yield LoraTarget(layer, (slice(start, start + widths[layer]),))
        start += widths[layer]


def _swapped(layer: str, widths: Mapping[str, int]) -> tuple[LoraTarget, ...]:
    half, width = widths[layer] // 2, widths[layer]
    return (LoraTarget(layer, (slice(half, width), slice(0, half))),)
