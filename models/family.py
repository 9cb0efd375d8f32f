"""A model family: facts and pure functions that say how one kind of network makes images. Torch-free to import.

A family is one file in ``families/`` that builds one frozen :class:`Family`. Everything around it (samplers, guiders,
nodes, loading) asks the family and names no network.
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
    """How the VAE's latents z [B, channels, (T,) H, W] become the state of the network: (z - shift) * scale.

    With ``mean`` and ``std``, of each channel: (z - mean) / std.
    """

    channels: int
    downscale: int
    """Pixels a latent cell is wide."""
    scale: float | None = 1.0
    """None: nothing says it."""
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


Pieces = Mapping[str, Piece]
"""Tensors in files, by name."""
Config = Mapping[str, Any]
"""Config of a network, as its class takes it."""


@dataclass(frozen=True, eq=False)
class Layout:
    """One way in which files name the tensors of a network."""

    matches: Callable[[Pieces], bool]
    """Whether these tensors are such a network's; only one layout of all networks may say so."""
    names: Naming = SAME


@dataclass(frozen=True, kw_only=True, eq=False)
class Network:
    """One kind of network: how it is recognised, read and built."""

    kind: str
    """``transformer``, ``controlnet``, ``vae``, ``clip``, ``t5``, ...: which value on a wire it becomes."""
    cls: str
    """Module and class, ``module:Class``."""
    layouts: Sequence[Layout]
    config: Callable[[Pieces, Config], dict[str, Any]]
    """Its config from the shapes of its tensors (by the class's names) and ``base``."""
    base: Config = field(default_factory=dict)
    """What no shape tells of its config."""
    folder: str = ""
    """Its component in diffusers folders and in the metadata of files; ``kind`` if empty."""
    fits: Callable[[Config], bool] | None = None
    """Which configs of the class are its own, where several networks have one class; None: those no other takes."""
    metadata: Callable[[Mapping[str, Any]], dict[str, Any]] = dict
    """What the config in a file's metadata says, in the class's terms."""
    marks: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Tensor anywhere in a single file -> what it says of the config."""
    ignored: str = ""
    """A regular expression for names in its files that nothing reads."""
    prefixes: tuple[str, ...] = ()
    """What its names begin with in files that hold several networks, besides the usual prefixes."""
    apart: str = ""
    """A regular expression for its tensors that lie apart from each other in a file, from the beginning of the name;
    the group ``prefix`` is left out."""
    text: bool = False
    """It is a text encoder."""
    aliases: tuple[str, ...] = ()
    """Other classes in the configs of folders that hold its tensors, and more that nothing reads."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """What is always set in its config."""
    uneven: bool = False
    """Its blocks are not all alike (a UNet)."""
    adapt: Callable[[Any, Config], None] | None = None
    """Changes the empty network before it gets its weights."""
    ready: Callable[[Any], None] | None = None
    """Changes the network after loading, before it is put on the kernel layer."""
    float32: bool = False
    """It computes in float32 whatever the others compute in."""
    keeps_float32: bool = False
    """Layers that its class keeps in float32 stay so in bfloat16, too; else in float16 only."""
    fragile: tuple[str, ...] | None = None
    """Patterns of linear layers that are never quantized. None: embeddings, norms, modulation, output layers."""
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Class of its blocks -> the arguments that a block gives back: blocks that may be skipped."""
    context_parallel: bool = False
    """Several processes may share its sequence."""
    latent: Callable[[Config], LatentFormat] | None = None
    """Of VAEs: what their latents are."""
    value: str = ""
    """Of VAEs: module and class of the value on the wire."""

    @property
    def class_name(self) -> str:
        return self.cls.rpartition(":")[2]

    @property
    def of_transformers(self) -> bool:
        """Its class is one of transformers, not of diffusers."""
        return self.cls.startswith("transformers.")

    @property
    def component(self) -> str:
        """Its name in diffusers folders and in the metadata of files."""
        return self.folder or self.kind


@dataclass(frozen=True, kw_only=True)
class Family(TextFamily):
    """What there is to know of one family of networks."""

    networks: tuple[Network, ...]
    """Its diffusion network first, then its ControlNets, VAEs, text encoders and what else its files hold."""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """How the files of its other networks are usually called in ComfyUI's folders, by kind."""
    latent: LatentFormat
    sampling: Callable[[Mapping[str, Any], Mapping[str, Any]], ModelSampling]
    """Configs of network and scheduler (empty if unknown) -> noise levels."""
    prepare: Callable[[Any, Tensor, Mapping[str, Any], Tensor], Inputs]
    """Network, text states [B, T, D], entries of the CONDITIONING item, state [B, C, H, W] -> inputs, once per run."""
    call: Callable[[Any, Tensor, Tensor, Inputs, Mapping[str, Any]], Tensor]
    """Network, state [B, C, H, W], timestep [B], inputs, residuals of controls -> output of the state's shape."""
    prepare_hint: Callable[[Control, Tensor], Tensor] | None = None
    """Control and state -> what its network reads, [B or 1, ...], once per run."""
    control: Callable[[Any, Any, Tensor, Tensor, Inputs, Tensor, float], dict[str, Any]] | None = None
    """Control network, main network, state, timestep, inputs, hint, strength -> residuals, each a list of tensors."""
    token_times: bool = False
    """Each token has a noise level of its own: what a noise_mask keeps is in the state as it is, and the network is
    told so (its timestep is then [B, 1, T, H, W])."""
    joint: bool = False
    """It makes video and sound together, on joined latents, whose shapes a CONDITIONING says as ``latent_shapes``."""
    reads: frozenset[str] = frozenset()
    """Optional latents of a CONDITIONING item that it takes: ``concat_latent_image``, ``reference_latents``."""
    recommend: Callable[[Mapping[str, Any]], dict[str, Any]]
    """Config of the network -> steps, cfg, sampler and the like that suit it."""
    not_loaded: Mapping[str, str] = field(default_factory=dict)
    """Layers that LoRAs of the family may hold and that are not loaded: beginning of their names -> what they are."""
    unite: Callable[[dict[str, Part]], dict[str, Part]] | None = None
    """Adjusts the networks of a whole model to one another, by kind."""

    @property
    def network(self) -> Network:
        """Its diffusion network."""
        return self.networks[0]

    def network_of(self, kind: str) -> Network | None:
        """Its network of a kind; None if it has none."""
        return next((n for n in self.networks if n.kind == kind), None)
