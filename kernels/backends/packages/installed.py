"""Whether a package of kernels is installed and this machine can run it, by metadata, without importing it."""

from __future__ import annotations

from pipegraph.kernels.proven import version_of


def lacks(package: str, at_least: str, capability: tuple[int, int] = (8, 0)) -> str:
    """Why a package for NVIDIA GPUs cannot be used, or an empty string.

    Args:
        package: Name of the distribution.
        at_least: Oldest supported version.
        capability: Least compute capability.
    """
    from packaging.version import InvalidVersion, Version

    version = version_of(package)
    if not version:
        return f"{package} is not installed"
    try:
        if Version(version) < Version(at_least):
            return f"{package} {version} is too old; needs {at_least}"
    except InvalidVersion:
        return f"{package} has no readable version: {version!r}"
    return lacks_gpu(capability)


def lacks_gpu(capability: tuple[int, int] = (8, 0)) -> str:
    """Why there is no NVIDIA GPU of a compute capability, or an empty string."""
    import torch

    if not torch.cuda.is_available() or torch.version.cuda is None:
        return "no CUDA device"
    if (actual := torch.cuda.get_device_capability()) < capability:
        return f"needs compute capability {'.'.join(map(str, capability))}; this device has {actual[0]}.{actual[1]}"
    return ""
