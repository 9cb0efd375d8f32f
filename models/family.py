"""A model family: facts and pure functions that say how one kind of network makes pictures. Torch-free to import.

A family is one file in ``families/`` that builds one frozen :class:`Family`. Everything around it (samplers, guiders,
nodes, loading) asks the family and names no network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from .control import Control
    from .sampling.model_sampling import ModelSampling
    from .text import Encoder, Tokens


@dataclass(frozen=True, slots=True)
class LatentFormat:
    """How the VAE's latents z [B, channels, H, W] become the state of the network: (z - shift) * scale."""

    channels: int
    downscale: int
    """Pixels a latent cell is wide."""
    scale: float = 1.0
    shift: float = 0.0
    patch: int = 1
    """Latent cells a token of the network is wide."""

    def process_in(self, latent: Tensor) -> Tensor:
        """VAE latent to network state."""
        return (latent - self.shift) * self.scale

    def process_out(self, state: Tensor) -> Tensor:
        """Network state to VAE latent."""
        return state / self.scale + self.shift


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a network is given beside state and time, made once per run."""

    batched: Mapping[str, Tensor]
    """Arguments with one row a picture, [B, ...]."""
    shared: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that all rows share; equal wherever the shapes of state and ``batched`` are."""


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """One text encoder of a family."""

    name: str
    """``clip_l``, ``t5xxl``, ...: as ComfyUI's nodes and files say."""
    kind: str
    """Architecture: ``clip`` or ``t5``."""
    folder: str
    """Component of a diffusers folder; its tokenizer's is the same with ``tokenizer`` for ``text_encoder``."""
    pad_to: int
    """A prompt is padded to at least so many tokens; the pads are attended to, as in training."""
    limit: int
    """What lies beyond so many tokens is cut off, and said aloud."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """What there is to know of one family of networks."""

    id: str
    title: str
    network: str
    """Class of the network in diffusers."""
    control_network: str
    """Class of its ControlNets in diffusers, empty if it has none."""
    latent: LatentFormat
    encoders: tuple[EncoderFacts, ...]
    repos: tuple[str, ...]
    """Hub repositories whose tokenizers and configs fit, for weights that come without them."""
    sampling: Callable[[Mapping[str, Any], Mapping[str, Any]], ModelSampling]
    """Configs of network and scheduler (empty if unknown) -> noise levels."""
    encode: Callable[[Mapping[str, Encoder], Mapping[str, Tokens]], tuple[Tensor, dict[str, Any]]]
    """Encoders and tokens by encoder name -> text states [1, T, D] and the extra entries of a CONDITIONING item."""
    prepare: Callable[[Any, Tensor, Mapping[str, Any], Tensor], Inputs]
    """Network, text states [B, T, D], entries of the CONDITIONING item, state [B, C, H, W] -> inputs, once per run."""
    call: Callable[[Any, Tensor, Tensor, Inputs, Mapping[str, Any]], Tensor]
    """Network, state [B, C, H, W], timestep [B], inputs, residuals of controls -> output of the state's shape."""
    prepare_hint: Callable[[Control, Tensor], Tensor]
    """Control and state -> what its network reads, [B or 1, ...], once per run."""
    control: Callable[[Any, Any, Tensor, Tensor, Inputs, Tensor, float], dict[str, Any]]
    """Control network, main network, state, timestep, inputs, hint, strength -> residuals, each a list of tensors."""
    recommend: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Config of the network -> steps, cfg, sampler and the like that suit it."""
