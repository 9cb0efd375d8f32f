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
    """How the VAE's latents z [B, channels, (T,) H, W] become the state of the network: (z - shift) * scale.

    With ``mean`` and ``std``, of each channel: (z - mean) / std.
    """

    channels: int
    downscale: int
    """Pixels a latent cell is wide."""
    scale: float = 1.0
    shift: float = 0.0
    patch: int = 1
    """Latent cells a token of the network is wide."""
    frames: int = 0
    """Of video: frames a latent cell is long, but for the first, which is one frame. 0: pictures."""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def process_in(self, latent: Tensor) -> Tensor:
        """VAE latent to network state."""
        if self.mean:
            return (latent - self._of_channels(self.mean, latent)) / self._of_channels(self.std, latent)
        return (latent - self.shift) * self.scale

    def process_out(self, state: Tensor) -> Tensor:
        """Network state to VAE latent."""
        if self.mean:
            return state * self._of_channels(self.std, state) + self._of_channels(self.mean, state)
        return state / self.scale + self.shift

    @property
    def axes(self) -> int:
        """Axes of a latent behind its channels: 2, or 3 with time."""
        return 3 if self.frames else 2

    @staticmethod
    def _of_channels(values: tuple[float, ...], like: Tensor) -> Tensor:
        return like.new_tensor(values).reshape(-1, *[1] * (like.ndim - 2))


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
    """Architecture: ``clip``, ``t5`` or ``umt5``."""
    folder: str
    """Component of a diffusers folder; its tokenizer's is the same with ``tokenizer`` for ``text_encoder``."""
    pad_to: int
    """A prompt is padded to at least so many tokens; the pads are attended to, as in training, if not ``masked``."""
    limit: int
    """What lies beyond so many tokens is cut off, and said aloud."""
    masked: bool = False
    """The encoder does not see the padding."""


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
    prepare_hint: Callable[[Control, Tensor], Tensor] | None = None
    """Control and state -> what its network reads, [B or 1, ...], once per run."""
    control: Callable[[Any, Any, Tensor, Tensor, Inputs, Tensor, float], dict[str, Any]] | None = None
    """Control network, main network, state, timestep, inputs, hint, strength -> residuals, each a list of tensors."""
    fits: Callable[[Mapping[str, Any]], bool] | None = None
    """Which configs of the class are its own, where several families have one class; None: those no other takes."""
    token_times: bool = False
    """Each token has a noise level of its own: what a noise_mask keeps is in the state as it is, and the network is
    told so (its timestep is then [B, 1, T, H, W])."""
    joint: bool = False
    """It makes clip and sound together, on joined latents, whose shapes a CONDITIONING says as ``latent_shapes``."""
    recommend: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Config of the network -> steps, cfg, sampler and the like that suit it."""
    text: str = ""
    """The language family (``text_families.py``) whose text encoders are its own; ``encoders`` is empty then."""
    ready: Callable[[Any], None] | None = None
    """Changes a network of the family after loading, in place, before it is put on the kernel layer."""
