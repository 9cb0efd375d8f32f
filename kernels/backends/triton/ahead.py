"""Ahead-of-time compilation of a host function's launches, for any architecture, without a GPU.

    with compiling("sm_90") as launches:
        attention(q, k, v, backend="triton")  # tensors on the device `meta`
    resources(launches[0].kernel)["registers"]

The real host code runs, so that what is compiled is what a launch would use: the same configuration, dtypes and
divisibility of arguments. Nothing is run.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from pipegraph.context import holding
from pipegraph.kernels.dispatch import forget

from .available import AHEAD

CUDA: Final = {f"sm_{arch}": GPUTarget("cuda", arch, 32) for arch in (80, 86, 89, 90, 100, 120)}
HIP: Final = {
    arch: GPUTarget("hip", arch, lanes)
    for arch, lanes in (("gfx90a", 64), ("gfx942", 64), ("gfx950", 64), ("gfx1100", 32), ("gfx1201", 32))
}
TARGETS: Final = CUDA | HIP
SHARED: Final = (
    {"sm_80": 163, "sm_86": 99, "sm_89": 99, "sm_90": 227, "sm_100": 227, "sm_120": 99}
    | dict.fromkeys(HIP, 64)
    | {"gfx950": 160}
)
"""KiB of shared memory that one block may use."""
_MATRIX = {
    "HMMA": r"\bHMMA",
    "IMMA": r"\bIMMA",
    "QMMA": r"\bQMMA",  # mma.sync: float, int8, fp8
    "HGMMA": r"\bHGMMA",
    "IGMMA": r"\bIGMMA",
    "QGMMA": r"\bQGMMA",  # Hopper's wgmma
    "UTCMMA": r"\bUTC[A-Z]*MMA",  # tcgen05 of data-centre Blackwell
    "UTMALDG": r"\bUTMALDG",
    "LDGSTS": r"\bLDGSTS",  # copies: TMA, cp.async
}
_AMD = {"MFMA": r"\bv_mfma", "WMMA": r"\bv_wmma"}


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch that was compiled, not run."""

    name: str
    kernel: Any
    """Triton's compiled kernel."""


class _Driver:
    """A stand-in for a device of an architecture: enough of Triton's driver to compile."""

    def __init__(self, target: Any) -> None:
        self.target = target
        self.utils = self

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> str:
        return str(self.target)

    def get_current_stream(self, device: Any) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("meta")

    def get_device_properties(self, device: Any) -> dict[str, int]:
        return {"max_shared_mem": 227 * 1024, "multiprocessor_count": 132}

    def map_python_to_cpp_type(self, kind: str) -> str:
        return kind


@contextmanager
def compiling(architecture: str) -> Iterator[list[Launch]]:
    """Compile launches for ``architecture`` instead of running them; Triton back ends take meta tensors.

    Not thread-safe.
    """
    launches: list[Launch] = []
    run, active = JITFunction.run, driver._active

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        kernel = run(self, *args, grid=grid, warmup=True, **options)
        launches.append(Launch(self.fn.__name__, kernel))
        return kernel

    driver.set_active(_Driver(TARGETS[architecture]))
    JITFunction.run = compile_only
    try:
        with holding(AHEAD, architecture):
            forget()
            yield launches
    finally:
        JITFunction.run = run
        driver._active = active
        forget()


def resources(kernel: Any) -> dict[str, int]:
    """Resources of a compiled kernel: warps, bytes of shared memory, registers, bytes spilled, matrix instructions."""
    usage = {"warps": kernel.metadata.num_warps, "shared": kernel.metadata.shared}
    return usage | (_nvidia(kernel) if "cubin" in kernel.asm else _amd(kernel.asm["amdgcn"]))


def _nvidia(kernel: Any) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "kernel.cubin")
        cubin.write_bytes(kernel.asm["cubin"])
        command = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", str(cubin)]
        out = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout
    usage = re.search(r"REG:(\d+) STACK:(\d+)", out)
    assert usage, out
    return {"registers": int(usage[1]), "spilled": int(usage[2])} | _count(_MATRIX, kernel.asm["sass"])


def _amd(assembly: str) -> dict[str, int]:
    def field(name: str) -> int:
        match = re.search(rf"\.{name}:?\s+(\d+)", assembly)
        return int(match[1]) if match else 0

    spilled = 4 * field("vgpr_spill_count")  # scalar registers spill into lanes of vector registers, not to memory
    return {"registers": field("vgpr_count"), "spilled": spilled} | _count(_AMD, assembly)


def _count(patterns: dict[str, str], text: str) -> dict[str, int]:
    return {name: n for name, pattern in patterns.items() if (n := len(re.findall(pattern, text)))}
