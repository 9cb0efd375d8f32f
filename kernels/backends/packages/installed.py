"""Whether a package of kernels is there and this machine can run it: by its metadata, without importing it."""

from __future__ import annotations

from pipegraph.kernels.proof.proven import version_of


def lacks(package: str, at_least: str, capability: tuple[int, int] = (8, 0)) -> str:
    """Why a package for NVIDIA GPUs cannot be used; empty if it can.

    Args:
        package: As it is installed.
        at_least: The oldest version that has the functions we call.
        capability: The least compute capability.
    """
    from packaging.version import InvalidVersion, Version

    found = version_of(package)
    if not found:
        return f"{package} is not installed"
    try:
        if Version(found) < Version(at_least):
            return f"{package} {found} is too old; needs {at_least}"
    except InvalidVersion:
        return f"{package} has no readable version: {found!r}"
    return lacks_gpu(capability)


def lacks_gpu(capability: tuple[int, int] = (8, 0)) -> str:
    """Why there is no NVIDIA GPU of a compute capability; empty if there is."""
    import torch

    if not torch.cuda.is_available() or torch.version.cuda is None:
        return "no CUDA device"
    if (found := torch.cuda.get_device_capability()) < capability:
        return f"needs compute capability {'.'.join(map(str, capability))}; this device has {found[0]}.{found[1]}"
    return ""
