"""Put a diffusers or transformers network on the kernel layer."""

from __future__ import annotations

from torch import nn

from pipegraph.kernels.dispatch import KernelError

from .modules import KernelLinear, adopt_points


def install(module: nn.Module) -> None:
    """Make every attention and every linear layer of a network call our ops, in place.

    1 x 1 convolutions then give the same bytes for any number of threads.

    Parameters, their names and their memory stay as they are, so that a memory-mapped weight is not copied. Doing it
    twice is harmless. Call it before hooks (offloading, casting) are put on the layers.

    Raises:
        KernelError: a module that cannot be put on the layer.
    """
    library = type(module).__module__.partition(".")[0]
    if library == "diffusers":
        from . import diffusers

        diffusers.install(module)
    elif library == "transformers":
        from . import transformers

        transformers.install(module)
    elif any(hasattr(part, "processor") for part in module.modules()):
        raise KernelError(f"{type(module).__name__} is a network of neither diffusers nor transformers")
    _install_layers(module)


def _install_layers(module: nn.Module) -> None:
    unknown: set[str] = set()
    for part in module.modules():
        if type(part) is nn.Linear:
            KernelLinear.adopt(part)
        elif type(part) is nn.Conv2d or type(part) is nn.Conv3d:
            adopt_points(part)
        elif isinstance(part, nn.MultiheadAttention) or (
            isinstance(part, nn.Linear) and not isinstance(part, KernelLinear)
        ):
            unknown.add(type(part).__name__)
    if unknown:
        raise KernelError(f"{type(module).__name__}: layers of {', '.join(sorted(unknown))} are not on the layer yet")
