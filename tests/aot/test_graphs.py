"""Every kernel that a ready-made graph would launch on CUDA compiles, on a machine without a GPU.

A graph runs on the CPU while the calls of ops are noted. Each distinct one is then described as it would be on CUDA (in
bfloat16), back ends are chosen for it, and those of Triton run on tensors without memory under the fake driver.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pipegraph as pg
from pipegraph import api
from pipegraph.graphs import ready_made
from pipegraph.kernels import dispatch
from pipegraph.kernels.backends.triton.ahead import SHARED, compiling
from pipegraph.kernels.dispatch import Backend, Op, backends

Call = tuple[str, Any, tuple[Any, ...], dict[str, Any]]
FAST = (("flux.json", "", "sm_90"), ("chat.json", "", "sm_90"))
STEPS = {"steps": 1}
CHOSEN: dict[str, dict[str, Any]] = {
    "chat.json": {"max_tokens": 3, "temperature": 0.7},
    "llm_fork.json": STEPS | {"temperature": 0.7},
    "llm_to_image.json": STEPS | {"temperature": 0.7},
}
"""What graphs are run with; ``STEPS`` if not here."""
LANGUAGE = {"attention_varlen", "kv_append", "linear", "paged_decode", "qk_norm_rope", "rms_norm", "sample", "swiglu"}
WIDE = ("sample",)
"""Ops that get float32 on CUDA, too."""


def on_cuda(key: Any, cast: bool) -> Any:
    """The key of a call, had it been on CUDA."""
    if isinstance(key, torch.device):
        return torch.device("cuda")
    if key is torch.float32 and cast:
        return torch.bfloat16
    if isinstance(key, tuple):
        items = [on_cuda(item, cast) for item in key]
        return type(key)(*items) if hasattr(key, "_fields") else type(key)(items)
    return key


def without_memory(value: Any, cast: bool) -> Any:
    """Arguments of a call, had it been on CUDA; what a packed weight holds keeps its dtypes."""
    if isinstance(value, Tensor):
        dtype = torch.bfloat16 if cast and value.dtype == torch.float32 else value.dtype
        return torch.empty_strided(value.shape, value.stride(), dtype=dtype, device="meta")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        packed = hasattr(value, "format")
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        return dataclasses.replace(value, **{k: without_memory(v, cast and not packed) for k, v in parts.items()})
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)([without_memory(item, cast) for item in value])
    return value


def strides(value: Any) -> Hashable:
    return tuple(v.stride() if isinstance(v, Tensor) else None for v in value)


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> dict[Hashable, Call]:
    """Distinct calls of ops, filled while the test runs."""
    calls: dict[Hashable, Call] = {}
    pick = Op.pick

    def spy(self: Op[Any], key: Hashable, backend: str | None = None) -> Backend[Any]:
        chosen = pick(self, key, backend)

        def note(*args: Any, **options: Any) -> Any:
            known = (self.name, key, strides(args))
            if known not in calls:
                cast = self.name not in WIDE
                given = {name: without_memory(value, cast) for name, value in options.items()}
                calls[known] = (self.name, key, without_memory(args, cast), given)
            return chosen.fn(*args, **options)

        return dataclasses.replace(chosen, fn=note)

    monkeypatch.setattr(Op, "pick", spy)
    return calls


def compile_all(calls: dict[Hashable, Call], architecture: str) -> tuple[dict[str, int], list[Any]]:
    """Compile what Triton's back ends would launch for the calls; back ends chosen by rank, and all launches."""
    by_rank: dict[str, int] = {}
    with compiling(architecture) as launches:
        for name, key, args, options in calls.values():
            op = dispatch._ops[name]
            signature = op.describe(on_cuda(key, name not in WIDE))
            best = op._best(signature).name
            by_rank[f"{name}/{best}"] = by_rank.get(f"{name}/{best}", 0) + 1
            able = [b for b in backends(name).values() if b.name.startswith("triton") and not b.verdict(signature)]
            assert able, f"no kernel for {signature}: {[b.verdict(signature) for b in backends(name).values()]}"
            for backend in able:
                backend.fn(*args, **options)
    return by_rank, launches


def every() -> list[Any]:
    """(graph, quantization, architecture): every graph once, and two in all ways; all but ``FAST`` marked slow."""
    combinations = [("flux.json", quantize, arch) for quantize in ("", "q8", "fp8", "w4") for arch in SHARED]
    combinations += [("chat.json", "", arch) for arch in SHARED]
    known = {name for name, _, _ in combinations}
    combinations += [(name, "", "sm_90") for name in ready_made.names() if name not in known]
    return [pytest.param(*c, marks=() if c in FAST else pytest.mark.slow) for c in combinations]


@pytest.mark.parametrize(("name", "quantize", "architecture"), every())
def test_every_launch_compiles(
    name: str,
    quantize: str,
    architecture: str,
    noted: dict[Hashable, Call],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr("pipegraph.models.llm.network.layers.on_cpu", lambda x: False)
    api.runner.cache_clear()  # what an earlier run has made would not be made again
    graph = pg.load(name, out=tmp_path, quantize=quantize)
    run: Callable[..., Any] = graph.run
    chosen = CHOSEN.get(name, STEPS)
    run(**{"seed": 1} if "seed" in graph.inputs else {}, **chosen)
    ops = {call[0] for call in noted.values()}
    if "steps" in chosen:
        assert ops >= {"attention", "linear"}
    if name in CHOSEN:
        assert ops >= LANGUAGE
    by_rank, launches = compile_all(noted, architecture)
    assert len(launches) >= len(noted)
    assert all(launch.kernel.metadata.shared <= SHARED[architecture] * 1024 for launch in launches)
    if quantize:
        assert by_rank.get("linear/triton", 0) + by_rank.get("linear/triton-w8a8", 0) > 10, by_rank
