"""A model family: a record of facts and pure functions about one kind of network. Torch-free to import.

Each family in ``families/`` is a frozen :class:`Family`. Samplers, guiders, nodes and loading use the record and name
no network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .loading.names import SAME, Naming
from .loading.pieces import Piece
from .text.facts import TextFamily

if TYPE_CHECKING:
    from torch import Tensor

    from .control import Control
    from .loading.detect import Part
    from .sampling.model_sampling import ModelSampling


@dataclass(frozen=True, slots=True)
class LatentFormat:
    """Converts VAE latents z [B, channels, (T,) H, W] to the network's state: (z - shift) * scale.

    With ``mean`` and ``std``, of each channel: (z - mean) / std.
    """

    channels: int
    downscale: int
    """Pixels a latent cell is wide."""
    scale: float | None = 1.0
    """None: unknown."""
    shift: float = 0.0
    patch: int = 1
    """Latent cells a token of the network is wide."""
    frames: int = 0
    """Video: frames per latent frame, except the first, which is one frame. 0: images."""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def process_in(self, latent: Tensor) -> Tensor:
        """VAE latent to network state."""
        if self.mean:
            return (latent - self._of_channels(self.mean, latent)) / self._of_channels(self.std, latent)
        return (latent - self.shift) * self._known_scale

    def process_out(self, state: Tensor) -> Tensor:
        """Network state to VAE latent."""
        if self.mean:
            return state * self._of_channels(self.std, state) + self._of_channels(self.mean, state)
        return state / self._known_scale + self.shift

    @property
    def _known_scale(self) -> float:
        if self.scale is None:
            raise ValueError(
                "nothing says how the latents of this VAE are scaled: use the VAE of the model's checkpoint"
            )
        return self.scale

    @property
    def axes(self) -> int:
        """Axes of a latent after the channels: 2, or 3 with time."""
        return 3 if self.frames else 2

    @staticmethod
    def _of_channels(values: tuple[float, ...], like: Tensor) -> Tensor:
        return like.new_tensor(values).reshape(-1, *[1] * (like.ndim - 2))


@dataclass(frozen=True, slots=True)
class Inputs:
    """Inputs of the network besides state and timestep, prepared once per run."""

    batched: Mapping[str, Tensor]
    """Arguments with one row per image, [B, ...]."""
    shared: Mapping[str, Any] = field(default_factory=dict)
    """Arguments shared by all rows; equal for equal shapes of state and ``batched``."""


Pieces = Mapping[str, Piece]
"""Tensors of a file by name."""
Config = Mapping[str, Any]
"""Config of a network, as its class takes it."""


@dataclass(frozen=True, eq=False)
class FileLayout:
    """One naming scheme for the tensors of a network."""

    matches: Callable[[Pieces], bool]
    """Whether these tensors belong to the network; at most one layout of all networks may match."""
    names: Naming = SAME


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """One kind of network: how it is detected, loaded and built."""

    kind: str
    """``transformer``, ``controlnet``, ``vae``, ``clip``, ``t5``, ...: which kind of value it becomes."""
    cls: str
    """Module and class, ``module:Class``."""
    layouts: Sequence[FileLayout]
    config: Callable[[Pieces, Config], dict[str, Any]]
    """Config from tensor shapes (by the class's names) and ``base``."""
    base: Config = field(default_factory=dict)
    """Config values that no shape tells."""
    folder: str = ""
    """Component name in diffusers folders and metadata; ``kind`` if empty."""
    fits: Callable[[Config], bool] | None = None
    """Which configs of a shared class belong to this network; None: those that no other network takes."""
    metadata: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    """Converts the config in a file's metadata to the class's keys."""
    marks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Marker tensor anywhere in a single file -> config values it implies."""
    ignored: str = ""
    """Regular expression for tensors in its files that are ignored."""
    prefixes: tuple[str, ...] = ()
    """Key prefixes in files with several networks, besides the usual ones."""
    apart: str = ""
    """A regular expression for its tensors that lie apart from each other in a file, from the beginning of the name;
    the group ``prefix`` is left out."""
    text: bool = False
    """Whether it is a text encoder."""
    aliases: tuple[str, ...] = ()
    """Other class names in folder configs that contain its tensors, besides tensors that are ignored."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Config values that are always set."""
    uneven: bool = False
    """Whether its blocks differ in structure (a UNet)."""
    adapt: str = ""
    """``module:function`` of (network, config) that modifies the network before its weights are loaded."""
    ready: str = ""
    """``module:function`` that modifies the loaded network before it is put on the kernel layer."""
    float32: bool = False
    """Always computes in float32."""
    keeps_float32: bool = False
    """Keep the layers that its class keeps in float32 also with bfloat16; otherwise with float16 only."""
    fragile: tuple[str, ...] | None = None
    """Patterns of linear layers that are never quantized. None: embeddings, norms, modulation, output layers."""
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Block class -> arguments that a skipped block returns. Blocks that may be skipped."""
    context_parallel: bool = False
    """Whether its sequence can be split among processes."""
    latent: Callable[[Config], LatentFormat] | None = None
    """VAEs: the latent format."""
    value: str = ""
    """VAEs: module and class of the value on the wire."""

    @property
    def class_name(self) -> str:
        return self.cls.rpartition(":")[2]

    @property
    def of_transformers(self) -> bool:
        """Whether its class belongs to transformers, not diffusers."""
        return self.cls.startswith("transformers.")

    @property
    def component(self) -> str:
        """Component name in diffusers folders and metadata."""
        return self.folder or self.kind


@dataclass(frozen=True, kw_only=True)
class Family(TextFamily):
    """All facts about one family of networks."""

    networks: tuple[Network, ...]
    """The diffusion network first, then ControlNets, VAEs, text encoders and other networks in its files."""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Usual file names of its other networks in ComfyUI's folders, by kind."""
    latent: LatentFormat
    sampling: Callable[[Mapping[str, Any], Mapping[str, Any]], ModelSampling]
    """Configs of network and scheduler (empty if unknown) -> noise levels."""
    prepare: Callable[[Any, Tensor, Mapping[str, Any], Tensor], Inputs]
    """Network, text states [B, T, D], entries of the CONDITIONING item, state [B, C, H, W] -> inputs, once per run."""
    call: Callable[[Any, Tensor, Tensor, Inputs, Mapping[str, Any]], Tensor]
    """Network, state [B, C, H, W], timestep [B], inputs, ControlNet residuals -> output of the state's shape."""
    prepare_hint: Callable[[Control, Tensor], Tensor] | None = None
    """Control and state -> input of the ControlNet, [B or 1, ...], once per run."""
    control: Callable[[Any, Any, Tensor, Tensor, Inputs, Tensor, float], dict[str, Any]] | None = None
    """ControlNet, main network, state, timestep, inputs, hint, strength -> residuals, each a list of tensors."""
    token_times: bool = False
    """The network takes a timestep per token, [B, 1, T, H, W]: latents protected by noise_mask have timestep 0."""
    joint: bool = False
    """Generates video and audio together on joined latents, whose shapes are CONDITIONING's ``latent_shapes``."""
    reads: frozenset[str] = frozenset()
    """Optional latents of a CONDITIONING item that it reads: ``concat_latent_image``, ``reference_latents``."""
    recommend: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Network config -> recommended steps, cfg, sampler, ..."""
    not_loaded: Mapping[str, str] = field(default_factory=dict)
    """Layers in LoRAs of the family that are never loaded: name prefix -> description."""
    unite: Callable[[dict[str, Part]], dict[str, Part]] | None = None
    """Adjusts the networks of a whole checkpoint to one another, by kind."""

    @property
    def network(self) -> Network:
        """Its diffusion network."""
        return self.networks[0]

    def network_of(self, kind: str) -> Network | None:
        """The network of a kind; None without one."""
        return next((n for n in self.networks if n.kind == kind), None)
