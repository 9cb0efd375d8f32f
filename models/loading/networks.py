"""Builds networks from parts: each tensor is read, cast, quantized and moved on its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..quantize import count_bytes
from .building import empty_networks
from .complete import check_counts
from .detect import Part
from .filling import Filling, Packed, check, fill, pack_all, place_buffers, plain
from .lock import imported
from .pieces import Piece
from .transformers_networks import empty_network, fill_network

if TYPE_CHECKING:
    from ..family import Network


def build(part: Part, device: torch.device, dtype: torch.dtype, quantize: str = "") -> nn.Module:
    """Build the network of a part on the kernel layer, ready to run.

    Args:
        part: The network in files.
        device: Device of its weights.
        dtype: Compute dtype; weights are cast to it.
        quantize: How to keep the weights of linear layers, one of ``quantize.FORMATS``; the fragile ones stay in
            ``dtype``. Those that the file has packed stay as the file has them.

    Raises:
        LoadError: a tensor is missing, has no place, or has another shape than the config says.
    """
    check_counts(part.origin, part.config, len(part.pieces))
    facts = part.network
    dtype = torch.float32 if facts.float32 else dtype
    network = _empty(part, dtype)
    how = Filling(
        origin=part.origin,
        label=facts.class_name,
        device=device,
        dtype=dtype,
        quantize=quantize,
        fragile=facts.fragile,
    )
    fill_all = fill_network if facts.of_transformers else partial(_fill, facts)
    packed = fill_all(network, _prefixed(network, part.pieces) if facts.of_transformers else part.pieces, how)
    network.eval().requires_grad_(False)
    if facts.ready:
        imported(facts.ready)(network)
    _install(network)
    pack_all(network, packed)
    count_bytes(network)
    return network


def _empty(part: Part, dtype: torch.dtype) -> nn.Module:
    """The network without memory for its weights."""
    cls: Any = imported(part.network.cls)
    if part.network.of_transformers:
        return empty_network(cls, cls.config_class(**part.config), dtype)  # type: ignore[no-any-return]
    with empty_networks(), warnings.catch_warnings():
        # FluxControlNetModel uses a class that diffusers itself calls deprecated.
        warnings.simplefilter("ignore", FutureWarning)
        # Keys of our families that the class does not take; diffusers would warn.
        ours = {k: v for k, v in part.config.items() if k[0] != "_" and k not in signature(cls.__init__).parameters}
        network: nn.Module = cls.from_config({k: v for k, v in part.config.items() if k not in ours})
        network.register_to_config(**ours)  # type: ignore[operator]
        if part.network.adapt:
            imported(part.network.adapt)(network, part.config)
        return network


def _prefixed(network: nn.Module, pieces: Mapping[str, Piece]) -> dict[str, Piece]:
    """Names for the installed transformers: version 4 has the prefix ``text_model.``, 5 has none."""
    prefix = "text_model." if any(n.startswith("text_model.") for n, _ in network.named_parameters()) else ""
    own = network.state_dict().keys()
    return {n if n in own else prefix + n: p for n, p in pieces.items()}


def _fill(facts: Network, network: nn.Module, pieces: Mapping[str, Piece], how: Filling) -> Packed:
    """Fill a diffusers network except for packed weights, which are returned."""
    parameters = dict(network.named_parameters())
    buffers, saved = dict(network.named_buffers()), network.state_dict().keys()
    held = {n: b for n, b in buffers.items() if n in pieces and n in saved}  # statistics of latents
    computed = buffers.keys() - saved
    places, stored = {**parameters, **held}, plain({n: p for n, p in pieces.items() if n not in computed})
    check(how.origin, how.label, places, stored)
    packed = fill(network, places, stored, replace(how, dtype_of=_dtypes(network, facts, how.dtype, held)))
    place_buffers(network, how)
    return packed


def _dtypes(
    network: nn.Module, facts: Network, dtype: torch.dtype, held: Collection[str]
) -> Callable[[str, Tensor], torch.dtype]:
    """Dtype of each tensor: the network's; layers that overflow in float16 stay float32 and unquantized."""
    exact = tuple(getattr(network, "_keep_in_fp32_modules", None) or ())

    def dtype_of(name: str, _: Tensor) -> torch.dtype:
        if facts.keeps_float32:
            whole = any(e in name for e in exact)
        else:
            whole = dtype == torch.float16 and _named(exact, name)
        return torch.float32 if name in held or whole else dtype

    return dtype_of


def _named(parts: tuple[str, ...], name: str) -> bool:
    """Whether a parameter's name contains one of these components."""
    return any(part in name.split(".") for part in parts)


def _install(network: nn.Module) -> None:
    from pipegraph.kernels.hooks.install import install

    install(network)
