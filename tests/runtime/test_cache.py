"""The memory cache: sizes without a tensor library, a limit in bytes, and the oldest goes first."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from pipegraph.runtime.cache import ENTRY_BYTES, MemoryCache, measure


class Tensor:
    def __init__(self, nbytes: int, finite: bool = True) -> None:
        self.nbytes, self._finite = nbytes, finite

    def isfinite(self) -> Tensor:
        return self

    def all(self) -> bool:
        return self._finite


class Network:
    def parameters(self) -> list[Tensor]:
        return [Tensor(100), Tensor(50)]

    def buffers(self) -> list[Tensor]:
        return [Tensor(5)]


@dataclass(frozen=True)
class Model:
    network: Network
    name: str = "x"


class Own:
    pipegraph_nbytes = 77


class OwnMethod:
    def pipegraph_nbytes(self) -> int:
        return 78


def size(*values: Any) -> int:
    return sum(measure(values).parts.values())


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (5, 0),
        ("short", 0),
        ("x" * 1000, 1000),
        (Tensor(10), 10),
        ({"samples": Tensor(10), "more": [Tensor(5), (Tensor(1),)]}, 16),
        ([[Tensor(10), {"pooled": Tensor(3), "guidance": 3.5}]], 13),
        (Network(), 155),
        (Model(Network()), 155),
        (Own(), 77),
        (OwnMethod(), 78),
    ],
)
def test_sizes(value: Any, want: int) -> None:
    assert size(value) == want


def test_a_ring_of_values_ends() -> None:
    ring: list[Any] = [Tensor(10)]
    ring.append(ring)
    assert size(ring, ring) == 10


def test_real_tensors_are_measured() -> None:
    torch = pytest.importorskip("torch")
    assert size({"samples": torch.zeros(2, 3)}) == 24
    assert size(torch.nn.Linear(4, 2)) == 40
    assert not measure((torch.tensor([1.0, float("nan")]),)).finite
    assert measure((torch.tensor([1, 2]), [torch.ones(2)])).finite


def test_unsound_values_are_seen() -> None:
    assert not measure((float("inf"),)).finite
    assert not measure(([{"a": [Tensor(1, finite=False)]}],)).finite
    assert measure((1.0, Tensor(1))).finite


def put(cache: MemoryCache, key: str, *values: Any) -> None:
    cache.put(key, values, measure(values).parts)


def test_the_limit_is_kept_and_the_oldest_goes_first() -> None:
    cache = MemoryCache(3 * (1000 + ENTRY_BYTES))
    for key in "abc":
        put(cache, key, Tensor(1000))
    assert cache.get("a") is not None
    put(cache, "d", Tensor(1000))
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]
    assert cache.nbytes <= cache.limit
    put(cache, "huge", Tensor(10_000))
    assert cache.get("huge") is None and len(cache) == 3


def test_shared_parts_count_once() -> None:
    network = Network()
    cache = MemoryCache(10_000)
    put(cache, "a", Model(network))
    put(cache, "b", Model(network, "with LoRA"))
    assert cache.nbytes == 155 + 2 * ENTRY_BYTES
    put(cache, "a", Tensor(1))
    assert cache.nbytes == 156 + 2 * ENTRY_BYTES
    put(cache, "b", Tensor(1))
    assert cache.nbytes == 2 + 2 * ENTRY_BYTES
    cache.clear()
    assert (len(cache), cache.nbytes) == (0, 0)


def test_a_limit_of_nothing_keeps_nothing() -> None:
    cache = MemoryCache(0)
    put(cache, "a", 1)
    assert cache.get("a") is None


def test_tensors_that_share_memory_count_it_once_and_whole() -> None:
    base = torch.zeros(1000, 10)
    assert size(base[:1]) == size(base) == size((base[:5], base[5:], base.t())) == 40_000
    assert size(torch.zeros(1).expand(1000)) == 4


def test_numbers_whose_sum_overflows_are_finite_all_the_same() -> None:
    large = torch.full((4,), 60000.0, dtype=torch.float16)
    assert measure((large,)).finite and measure((large.to(torch.float8_e5m2),)).finite
    for bad in (math.nan, math.inf, -math.inf):
        assert not measure((torch.tensor([1.0, bad]),)).finite
    assert not measure((torch.tensor([math.inf, -math.inf]),)).finite


def test_the_limit_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEGRAPH_CACHE_MEMORY", "5 MiB")
    assert MemoryCache().limit == 5 << 20
    monkeypatch.setenv("PIPEGRAPH_CACHE_MEMORY", "much")
    with pytest.raises(ValueError, match="PIPEGRAPH_CACHE_MEMORY: a number of bytes"):
        MemoryCache()


GROW = """
import re, pathlib
import pipegraph as pg
def resident(): return int(re.search(r"VmRSS:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) << 10
graph = {"pipegraph": 1, "inputs": {"c": {"type": "INT", "default": 0}}, "outputs": {"o": ["i", "IMAGE"]}, "nodes": {
    "e": {"class_type": "EmptyImage", "inputs": {"width": 1024, "height": 1024, "color": {"$input": "c"}}},
    "i": {"class_type": "ImageInvert", "inputs": {"image": ["e", "IMAGE"]}}}}
workflow = pg.load(graph)
workflow.run(c=1000)
start = resident()
for colour in range(80):
    workflow.run(c=colour)
print(resident() - start)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the resident size is read from /proc")
def test_a_process_holds_little_more_than_its_limit() -> None:
    settings = {**os.environ, "PIPEGRAPH_CACHE_MEMORY": "800M"}
    done = subprocess.run([sys.executable, "-c", GROW], env=settings, capture_output=True, text=True, check=True)
    assert 600 << 20 < int(done.stdout) < 1150 << 20
