"""Whether Triton kernels can run here, and on what. Importing this loads neither Triton nor torch; nothing launches.

Answers are about the current device; the dispatcher makes that the device of a call's tensors.
"""

from __future__ import annotations

import os
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Final

INTERPRETER: Final = "interpreter"
"""Value of :func:`architecture` under ``TRITON_INTERPRET=1``: kernels run in numpy, on CPU tensors."""
AHEAD: Final[ContextVar[str]] = ContextVar("pipegraph_ahead", default="")
"""The target architecture of ahead-of-time compilation (``backends.triton.ahead``), or empty."""

LARGEST_BLOCK: Final = 8192
"""Most columns that are rotated together, in shared memory, 4 bytes each; a thread block has 64 KiB or more."""
_NEAREST: Final = {"sm_87": "sm_86", "sm_103": "sm_100", "sm_110": "sm_100", "sm_121": "sm_120"}


def missing() -> str:
    """Why no Triton kernel can run on this machine, or an empty string."""
    return "" if AHEAD.get() else _missing()


@cache
def _installed() -> bool:
    return find_spec("triton") is not None


def _missing() -> str:
    if not _installed():
        return "Triton is not installed (pip install 'pipegraph[gpu]')"
    if interpreting():
        return ""
    import torch

    if not torch.cuda.is_available():  # true for HIP as well
        return "no CUDA or HIP device"
    if torch.version.hip is None and (capability := torch.cuda.get_device_capability()) < (8, 0):
        return f"needs compute capability 8.0; this device has {capability[0]}.{capability[1]}"
    return ""


def interpreting() -> bool:
    """True if kernels run in Triton's interpreter; settled by the environment before Triton is imported."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def refuses(device: str) -> str:
    """Why a Triton kernel does not support a device type, or an empty string."""
    if AHEAD.get() and device == "meta":
        return ""
    wanted = "cpu" if interpreting() else "cuda"  # HIP devices are called cuda, too
    return "" if device == wanted else f"Triton kernels take {wanted} tensors here, not {device}"


def refuses_rotation(block: int | None) -> str:
    """Why rows cannot be rotated by blocks of this many columns, or an empty string."""
    return "" if (block or 0) <= LARGEST_BLOCK else f"rotates blocks of at most {LARGEST_BLOCK} columns, not {block}"


def rank(value: float) -> float:
    """The rank to give a Triton back end: ``value``, but below all others in the interpreter (for tests)."""
    return -1 if interpreting() else value


def architecture() -> str:
    """Compile target of the current device: ``sm_90``, ``gfx942``, ... or ``interpreter``.

    Tables of configurations are keyed by this. Needs a device, or the stand-in of the ahead-of-time tests.
    """
    if interpreting():
        return INTERPRETER
    return AHEAD.get() or _current_device()[0]


def without_e4m3() -> str:
    """Why the current device does not support float8 e4m3fn, or an empty string."""
    arch = architecture()
    has = int(arch[3:]) >= 89 if arch.startswith("sm_") else arch.startswith((INTERPRETER, "gfx95", "gfx12"))
    return "" if has else f"{arch} has no e4m3fn"


def nearest(arch: str) -> str:
    """The most similar architecture in the configuration tables; ``arch`` itself if it is in them."""
    if arch.startswith("gfx"):
        return "gfx942" if arch.startswith("gfx9") else "gfx1201" if arch.startswith("gfx12") else "gfx1100"
    return _NEAREST.get(arch, arch)


def processors() -> int:
    """How many multiprocessors (compute units) the current device has; 132 when there is none."""
    return 132 if interpreting() or AHEAD.get() else _current_device()[1]


def _current_device() -> tuple[str, int]:
    import torch

    return _of_device(torch.cuda.current_device())


@cache
def _of_device(index: int) -> tuple[str, int]:
    """Architecture and number of multiprocessors as reported by torch, without Triton."""
    import torch

    device = torch.cuda.get_device_properties(index)
    name = f"sm_{device.major}{device.minor}" if torch.version.hip is None else device.gcnArchName.partition(":")[0]
    return name, device.multi_processor_count
