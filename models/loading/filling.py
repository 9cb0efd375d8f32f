"""Fill empty networks from files, one tensor at a time; the same way for every network.

Tensors of network and files must match by name and shape. All mismatches are one error, before a tensor is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import torch
from torch import Tensor, nn

from pipegraph.context import holding
from pipegraph.kernels.hooks.modules import KernelLinear
from pipegraph.kernels.weights.gguf_blocks import GgufWeight
from pipegraph.kernels.weights.qweight import QWeight

from ..quantize import choice, quantized_rows
from .complete import refuse
from .pieces import Piece
from .reading import DTYPES, Reader

_REPORT_SECONDS: Final = 0.25
_MEGABYTE: Final = 1_000_000
Weight = QWeight | GgufWeight
"""A packed matrix."""


class Stored(Protocol):
    """A tensor of a network, as stored in files."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def packed(self, reader: Reader) -> Weight | None:
        """The packed matrix; None if it is not packed."""

    def rows(self, reader: Reader) -> Iterator[Tensor]:
        """Rows of a matrix in a float dtype, chunk by chunk."""

    def dense(self, reader: Reader, dtype: torch.dtype) -> Tensor:
        """The tensor in a dtype; memory-mapped if it is stored in that dtype."""


@dataclass(frozen=True, slots=True)
class Plain:
    """A tensor that is stored as needed."""

    piece: Piece

    @property
    def shape(self) -> tuple[int, ...]:
        return self.piece.shape

    def packed(self, reader: Reader) -> Weight | None:
        return reader.packed(self.piece)

    def rows(self, reader: Reader) -> Iterator[Tensor]:
        return reader.passing(self.piece)

    def dense(self, reader: Reader, dtype: torch.dtype) -> Tensor:
        return reader.dense(self.piece, dtype)


def plain(pieces: Mapping[str, Piece]) -> dict[str, Stored]:
    """Pieces as :class:`Plain` tensors."""
    return {name: Plain(piece) for name, piece in pieces.items()}


def to_device(weight: Weight, device: torch.device) -> Weight:
    """Move a packed weight to a device; accelerators get GGUF blocks in the order their kernels read."""
    if device.type == "cpu":
        return weight
    moved = weight.to(device)
    return moved.to_qweight() if isinstance(moved, GgufWeight) and moved.exact else moved


@dataclass(frozen=True, kw_only=True)
class Filling:
    """Options for filling a network."""

    origin: Path
    """The file or folder that the user named."""
    label: str
    """Class of the network, for error messages."""
    device: torch.device
    dtype: torch.dtype
    """Compute dtype of the network."""
    quantize: str = ""
    """Format for plain weights of linear layers, one of ``quantize.FORMATS`` or ``CASTS``."""
    fragile: Sequence[str] | None = None
    """Patterns of linear layers that stay plain; None: ``quantize.FRAGILE``."""
    dtype_of: Callable[[str, Tensor], torch.dtype] | None = None
    """Name and empty tensor -> dtype; None: ``dtype`` for all."""
    place: Callable[[Weight, torch.device], Weight] = to_device
    """Converts packed weights of linear layers."""
    embed: Callable[[nn.Module, str, Weight], None] | None = None
    """Sets a packed embedding; None: embeddings are unpacked."""


Packed = dict[str, tuple[Weight, str]]
"""Packed weights by layer, each with the precision of its products."""


def check(
    origin: Path,
    label: str,
    places: Mapping[str, Tensor],
    stored: Mapping[str, Stored],
    missing: Iterable[str] = (),
    surplus: Iterable[str] = (),
) -> None:
    """Refuse tensors that do not fit a network.

    Args:
        origin: The file or folder that the user named.
        label: Class of the network.
        places: Its empty tensors.
        stored: What there is for them.
        missing: Names of files that are missing besides.
        surplus: Names in files that stand for no place.

    Raises:
        LoadError: tensors are missing, have no place, have another shape, or are codes without a scale; names them.
    """
    common = [n for n in places if n in stored]
    shapes = [
        f"`{n}` is {list(stored[n].shape)}, its config says {list(places[n].shape)}"
        for n in common
        if tuple(stored[n].shape) != tuple(places[n].shape)
    ]
    refuse(
        origin,
        {
            f"tensors of {label} are missing": sorted({*missing, *(places.keys() - stored.keys())}),
            f"tensors have no place in {label}": sorted({*surplus, *(stored.keys() - places.keys())}),
            f"tensors do not fit {label}": shapes,
            "tensors are whole numbers without a scale": [n for n in common if _is_codes(places[n], stored[n])],
        },
    )


def _is_codes(place: Tensor, stored: Stored) -> bool:
    """Whether a float tensor is stored as integer codes without a scale."""
    if not place.is_floating_point() or not isinstance(stored, Plain) or stored.piece.scale is not None:
        return False
    dtype = DTYPES.get(stored.piece.dtype)
    return dtype is not None and not dtype.is_floating_point


def fill(network: nn.Module, places: Mapping[str, Tensor], stored: Mapping[str, Stored], how: Filling) -> Packed:
    """Fill an empty network except for packed weights, which are returned: see :func:`pack_all`.

    At most one tensor besides the network's is in memory.

    Args:
        network: On the meta device, not on the kernel layer yet.
        places: Its empty parameters and buffers that files hold, by name.
        stored: Stored tensors by name; see :func:`check`.
        how: Where to, and in which types.
    """
    packed: Packed = {}
    counted = _counted(places)
    with Reader() as reader:
        for name, empty in places.items():
            next(counted)
            dtype = how.dtype_of(name, empty) if how.dtype_of else how.dtype
            layer = _layer(network, name) if dtype == how.dtype else ""
            if layer and (weight := _weight(reader, stored[name], layer, how)):
                packed[layer] = weight
            elif how.embed and _is_embedding(network, name) and (rows := stored[name].packed(reader)):
                how.embed(network, name, rows)
            else:
                put(network, name, stored[name].dense(reader, dtype).to(how.device))
    return packed


_tell: ContextVar[Callable[[int, int], None] | None] = ContextVar("pipegraph_loading", default=None)


def reporting(tell: Callable[[int, int], None]) -> AbstractContextManager[None]:
    """Report progress to ``tell`` (megabytes done and total) while networks are filled in this thread."""
    return holding(_tell, tell)


def _counted(places: Mapping[str, Tensor]) -> Iterator[None]:
    """Called before each tensor: reports progress now and then."""
    tell, sizes = _tell.get(), [place.nbytes for place in places.values()]
    done, reported = 0, time.monotonic()
    for size in sizes:
        if tell and time.monotonic() - reported >= _REPORT_SECONDS:
            tell(done // _MEGABYTE, sum(sizes) // _MEGABYTE)
            reported = time.monotonic()
        yield
        done += size


def place_buffers(network: nn.Module, how: Filling) -> None:
    """Move buffers that no file holds, such as rotary frequencies, to the device.

    Raises:
        LoadError: there is one that was not computed when the network was made.
    """
    buffers = dict(network.named_buffers())
    left = [name for name, buffer in buffers.items() if buffer.is_meta]
    refuse(how.origin, {f"{how.label} has buffers that the loader does not know": left})
    for name, buffer in buffers.items():
        put(network, name, buffer.to(how.device))


def pack_all(network: nn.Module, packed: Packed) -> None:
    """Set packed weights on linear layers."""
    for name, (weight, precision) in packed.items():
        layer = network.get_submodule(name)
        assert isinstance(layer, nn.Linear)
        KernelLinear.pack(layer, weight, precision)


def _layer(network: nn.Module, name: str) -> str:
    """The linear layer with this weight; empty if there is none."""
    parent, leaf = owner(network, name)
    return name.removesuffix(".weight") if leaf == "weight" and isinstance(parent, nn.Linear) else ""


def _is_embedding(network: nn.Module, name: str) -> bool:
    return isinstance(owner(network, name)[0], nn.Embedding)


def _weight(reader: Reader, stored: Stored, layer: str, how: Filling) -> tuple[Weight, str] | None:
    """The weight of a linear layer, packed by its file or quantized; None if it stays plain."""
    if (weight := stored.packed(reader)) is not None:
        return how.place(weight, how.device), "exact"
    kind, precision = choice(how.fragile, layer, stored.shape, how.quantize)
    if not kind:
        return None
    return quantized_rows(stored.shape, (rows.to(how.device) for rows in stored.rows(reader)), kind), precision


def owner(network: nn.Module, name: str) -> tuple[nn.Module, str]:
    """The module that owns a tensor, and its name there."""
    path, _, leaf = name.rpartition(".")
    return network.get_submodule(path), leaf


def put(network: nn.Module, name: str, tensor: Tensor) -> None:
    """Set a parameter or buffer of a network."""
    parent, leaf = owner(network, name)
    if leaf in parent._buffers:
        parent._buffers[leaf] = tensor
    else:
        parent._parameters[leaf] = nn.Parameter(tensor, requires_grad=False)
