"""Quantization of a network's linear layers: which layers, which format, and reports.

Fragile layers (first and last projections, modulation) stay in the compute dtype; families name them, ``FRAGILE`` is
the default. Only linear layers are quantized: no embeddings, norms or convolutions.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import torch
from torch import Tensor, nn

from pipegraph.kernels.hooks.modules import KernelLinear
from pipegraph.kernels.weights.hadamard import rotation_block
from pipegraph.kernels.weights.qweight import QWeight

FORMATS: Final = ("q8", "fp8", "w4")
"""int8 with a scale per row, rotated; float8 with a scale per row; 4 bits with scale and zero per 32 columns."""
CASTS: Final = {
    "fp8_e4m3fn": torch.float8_e4m3fn,
    "fp8_e4m3fn_fast": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
}
"""Plain casts to float8 without scales: ComfyUI's ``weight_dtype``. Values out of range saturate."""
OUTPUT: Final = "lm_head"
"""The output layer of a language model, which each token reads whole: a fourth of SmolLM's weights. It gets 8 bits, not
fewer, with q8 and w4, and what goes in is never rounded."""
GROUP: Final = 32
FRAGILE: Final = (
    "*embed*",
    "*norm*",
    "*modulation*",
    "*adaLN*",
    "*.gate",
    "*router*",
    "lm_head",
    "proj_in",
    "proj_out",
    "final*",
)
"""Patterns of layers that are never quantized, where a family names none."""
_LEAST_BLOCK: Final = 16
_FAST: Final = ("q8", "fp8", "fp8_e4m3fn_fast")


def refusal(fragile: Sequence[str] | None, layer: str, shape: tuple[int, ...], format: str) -> str:
    """Why a linear layer is not quantized; empty if it is.

    Args:
        fragile: Patterns of the layers that are not; None: ``FRAGILE``.
        layer: Its name in the network.
        shape: (N, K) of its weight.
        format: One of ``FORMATS`` or ``CASTS``.
    """
    if any(fnmatchcase(layer, pattern) for pattern in (FRAGILE if fragile is None else fragile)):
        return "fragile"
    if format == "w4" and shape[1] % GROUP:
        return f"its {shape[1]} columns are no groups of {GROUP}"
    return ""


def quantized_weight(weight: Tensor, format: str) -> QWeight:
    """Quantize one weight (N, K), float.

    Raises:
        KernelError: it holds NaN or Inf.
    """
    return quantized_rows(tuple(weight.shape), [weight], format)


def quantized_rows(shape: tuple[int, ...], parts: Iterable[Tensor], format: str) -> QWeight:
    """``quantized_weight`` for a weight that arrives in chunks of rows, see ``QWeight.of_rows``."""
    if dtype := CASTS.get(format):
        most = torch.finfo(dtype).max
        return QWeight.from_fp8(torch.cat([part.clamp(-most, most).to(dtype) for part in parts]))
    if format == "q8":
        block = rotation_block(shape[1])
        return QWeight.of_rows(shape, parts, "q8", rotate=block if block and block >= _LEAST_BLOCK else None)
    if format == "w4":
        return QWeight.of_rows(shape, parts, "w4", group=GROUP)
    return QWeight.of_rows(shape, parts, "fp8")


def choice(fragile: Sequence[str] | None, layer: str, shape: tuple[int, ...], format: str) -> tuple[str, str]:
    """Format of one linear layer and precision of its products; two empty strings if it stays plain.

    If the user chose 8 bits, kernels may also round activations to 8 bits; not in the output layer.

    Args:
        fragile: Patterns of the layers that stay plain; None: ``FRAGILE``.
        layer: Its name in the network.
        shape: (N, K) of its weight.
        format: One of ``FORMATS`` or ``CASTS``, empty for none.
    """
    if layer == OUTPUT and format in ("q8", "w4"):
        return "q8", "exact"
    if not format or refusal(fragile, layer, shape, format):
        return "", ""
    return format, "fast" if format in _FAST else "exact"


def quantized(network: nn.Module, format: str, fragile: Sequence[str] | None = None) -> nn.Module:
    """A copy of a network with quantized linear layers; the original is unchanged.

    Layers that are packed already stay so.
    """
    shared: dict[int, Any] = {id(t): t for t in (*network.parameters(), *network.buffers())}
    shared |= {id(w): w for m in network.modules() if (w := m.__dict__.get("weight")) is not None}
    copied = copy.deepcopy(network, shared)
    half = any(p.dtype == torch.float16 for p in network.parameters())
    for name, layer in copied.named_modules():
        if not isinstance(layer, nn.Linear) or _is_packed(layer):
            continue
        if half and layer.weight.dtype == torch.float32:
            continue  # its results are too large for float16
        kind, precision = choice(fragile, name, tuple(layer.weight.shape), format)
        if kind:
            KernelLinear.pack(layer, quantized_weight(layer.weight.detach(), kind), precision)
    count_bytes(copied)
    return copied


def count_bytes(network: nn.Module) -> None:
    """Store the size of a network with packed weights for the cache, in ``pipegraph_nbytes``."""
    packed: list[Any] = [layer.weight for layer in network.modules() if _is_packed(layer)]
    if packed:
        plain = sum(t.nbytes for t in (*network.parameters(), *network.buffers()))
        network.__dict__["pipegraph_nbytes"] = plain + sum(w.nbytes for w in packed)


def formats(network: nn.Module) -> dict[str, list[str]]:
    """Formats of a network's linear layers: format -> layer names."""
    by_format: dict[str, list[str]] = {}
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Linear):
            by_format.setdefault(_format_of(layer.weight), []).append(name)
    return by_format


def noted(networks: Mapping[str, nn.Module]) -> dict[str, dict[str, list[str]]]:
    """``formats`` of each network with packed weights, for the run record."""
    by_network = {name: formats(network) for name, network in networks.items()}
    packed = {name for name, network in networks.items() if any(_is_packed(m) for m in network.modules())}
    return {name: layers for name, layers in by_network.items() if name in packed}


def summary(layers: Mapping[str, Sequence[str]]) -> str:
    """One line for the result of ``formats``: number of layers by format."""
    return "; ".join(f"{format}: {len(names)} layers" for format, names in layers.items())


def _is_packed(layer: nn.Module) -> bool:
    return isinstance(layer, nn.Linear) and not isinstance(layer.weight, Tensor)


def _format_of(weight: Any) -> str:
    if isinstance(weight, QWeight):
        turned = f", rotated by {weight.rotate}" if weight.rotate else ""
        return weight.format + (f", groups of {weight.group}" if weight.group else "") + turned
    return str(weight.dtype).removeprefix("torch.") if isinstance(weight, Tensor) else str(weight.format)
