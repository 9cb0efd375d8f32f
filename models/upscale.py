"""The value on an UPSCALE_MODEL wire: an image upscaling network from a safetensors file, built by spandrel.

spandrel (MIT) tells the network by its tensors and holds its code. Its linear layers are put on the kernel layer;
attention and convolutions are spandrel's and torch's. Files of pickles (``.pth``) are not read.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from warnings import catch_warnings

import torch
from torch import Tensor

from .loaded import Loaded
from .loading.header_values import LoadError
from .loading.place import Place
from .loading.weights_fault import weights_fault
from .vae.blending import Blend, tile_places

TILE: Final = 512
"""Tile side in input pixels."""
OVERLAP: Final = 32
_LEAST_TILE: Final = 128
_NEEDS_TORCHVISION: Final = ("LaMa", "RestoreFormer")


@dataclass(frozen=True, eq=False, slots=True)
class Upscaler:
    """A loaded upscaler. Immutable."""

    loaded: Loaded
    """Its network maps images [B, C, H, W] in 0..1 to the same."""
    architecture: str
    scale: int
    channels: int
    """Input channels: 1, 3 or 4."""
    attends: bool
    """Whether it has attention, which runs outside of the kernel layer."""

    def upscale_steps(
        self, images: Tensor, tile: int = TILE, overlap: int = OVERLAP
    ) -> Generator[tuple[int, int], None, Tensor]:
        """Images [B, H, W, C] scaled by ``scale``, float32 in 0..1; yields after each tile.

        Tiles fade into each other as those of VAEs. Where the memory of a GPU does not do, tiles are halved.

        Args:
            images: Of as many channels as the network takes.
            tile: Side of a tile in pixels.
            overlap: How far tiles overlap.
        """
        while True:
            try:
                return (yield from self._tiled(images.movedim(-1, 1), tile, overlap))
            except torch.OutOfMemoryError:
                if tile // 2 < _LEAST_TILE:
                    raise
                tile //= 2

    @torch.no_grad()
    def _tiled(self, images: Tensor, tile: int, overlap: int) -> Generator[tuple[int, int], None, Tensor]:
        height, width = images.shape[-2:]
        places = tile_places(height, width, tile, overlap)
        results, done = [], 0
        for image in images.split(1):
            blend = Blend(height, width, overlap)
            for y, x in places:
                part = image[..., y : y + tile, x : x + tile]
                with self.loaded.resident() as network:
                    large = network(self.loaded.inputs(part)).float().cpu()
                blend.add(large, y, x, *part.shape[-2:])
                done += 1
                yield done, len(places) * len(images)
            results.append(blend.mean().clamp(0, 1).movedim(1, -1))
        return torch.cat(results)


def load_upscaler(path: Path, place: Place, name: str) -> Upscaler:
    """An upscaler from a safetensors file.

    Raises:
        LoadError: spandrel is not installed, or the file holds no upscaler that it knows.
    """
    from safetensors.torch import load_file

    from pipegraph.kernels.dispatch import KernelError
    from pipegraph.kernels.hooks.install import install

    if fault := weights_fault(path):
        raise LoadError(fault)
    spandrel = _spandrel()
    state = load_file(path)
    if "module.layers.0.residual_group.blocks.0.norm1.weight" in state:
        state = {key.removeprefix("module."): tensor for key, tensor in state.items()}
    try:
        with catch_warnings(action="ignore"):  # of torch, about spandrel's code
            descriptor = spandrel.ModelLoader(device="cpu").load_from_state_dict(state)
    except Exception as e:  # whatever its tensors lead spandrel to
        raise LoadError(f"{path.name} is no upscaler that spandrel {spandrel.__version__} knows: {e}") from e
    architecture = str(descriptor.architecture.name)
    if not isinstance(descriptor, spandrel.ImageModelDescriptor):
        raise LoadError(f"{path.name} ({architecture}) needs more than an image: it cannot be used as an upscaler")
    if architecture in _NEEDS_TORCHVISION and not _has_torchvision():
        raise LoadError(f"{path.name} ({architecture}) needs torchvision: install it in the version for your torch")
    half = {torch.float16: descriptor.supports_half, torch.bfloat16: descriptor.supports_bfloat16}
    dtype = place.dtype if half.get(place.dtype, True) else torch.float32
    network = descriptor.to(place.device, dtype).model.eval().requires_grad_(False)
    with suppress(KernelError):  # attention of torch is not on the layer: `attends` says so
        install(network)
    attends = any(
        "attn" in key or "attention" in key or isinstance(part, torch.nn.MultiheadAttention)
        for key, part in network.named_modules()
    )
    loaded = Loaded(_Padded(network, descriptor), place.device, dtype, name)
    return Upscaler(loaded, architecture, int(descriptor.scale), int(descriptor.input_channels), attends)


class _Padded(torch.nn.Module):
    """A network whose inputs are padded to supported sizes by spandrel."""

    def __init__(self, network: torch.nn.Module, descriptor: Any) -> None:
        super().__init__()
        self.network, self._call = network, descriptor.__call__

    def forward(self, images: Tensor) -> Tensor:
        """[B, C, H, W] -> [B, C, scale H, scale W], both in 0..1."""
        large: Tensor = self._call(images)
        return large


def _has_torchvision() -> bool:
    return importlib.util.find_spec("torchvision") is not None


def _spandrel() -> Any:
    """The spandrel package.

    Raises:
        LoadError: it is not installed.
    """
    try:
        with _without_torchvision():
            import spandrel
    except ImportError as e:
        raise LoadError(f'upscalers need spandrel: `pip install "pipegraph[upscale]"` ({e})') from e
    return spandrel


@contextmanager
def _without_torchvision() -> Iterator[None]:
    """Let spandrel be imported without torchvision, which only two of its networks need."""
    names = ("torchvision", "torchvision.transforms", "torchvision.transforms.functional")
    if _has_torchvision() or "spandrel" in sys.modules:
        yield
        return
    for name in names:
        sys.modules[name] = ModuleType(name)
    for function in ("InterpolationMode", "rotate", "normalize"):
        setattr(sys.modules[names[-1]], function, None)
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
