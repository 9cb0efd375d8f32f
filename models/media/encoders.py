"""Encoder settings that give the same bytes for the same frames in every process, on any number of cores.

x264 and x265 give other results with another number of threads, so theirs is fixed; the others (SVT-AV1, libvpx,
ProRes, FFV1, APNG) do not. Three faults of the libraries are kept away from (measured with those in PyAV 18.1):

- x264's macroblock tree varies from run to run in its AVX-512 code; with AVX2 and less it gives what its C code gives.
- x265 varies where its coding units (CTU) stand in a single column or row.
- x265's cutree writes beyond its buffers at widths of 34 to 48, which ends the process.
"""

from __future__ import annotations

import platform
from typing import Any

import torch

from .formats import Codec


def options_of(codec: Codec, width: int, height: int) -> dict[str, str]:
    """Encoder options for frames of a size."""
    options = dict(codec.options)
    if codec.encoder == "libx264":
        options |= x264_options()
    elif codec.encoder == "libx265":
        options["x265-params"] = _x265_params(width, height)
    return options


def fix_threads(context: Any, codec: Codec) -> None:
    """Fix the number of threads of a PyAV codec context where results depend on it."""
    if codec.threads:
        context.thread_count, context.thread_type = codec.threads, "FRAME"


def x264_options() -> dict[str, str]:
    """Options that keep x264 from AVX-512; none on processors other than x86, where x264 does not know the names."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return {}
    avx2 = torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    return {"x264-params": "asm=avx2" if avx2 else "asm=sse2"}


def _x265_params(width: int, height: int) -> str:
    """Parameters of x265: no machine information in the file; at least two coding units along each side."""
    least = min(width, height)
    unit = next((size for size in (64, 32, 16) if size < least), 16)
    params = f"log-level=none:info=0:ctu={unit}"
    if width < 64:
        params += ":no-cutree=1"
    # A side of 16 pixels is a single unit in any case: only pictures that refer to no other are repeatable then.
    return params + ":keyint=1" if least <= unit else params
