"""A network where it lies."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.test_layers import ROOT
from torch import nn

import pipegraph as pg
from pipegraph.models.loaded import Loaded
from pipegraph.models.quantize import quantized


def loaded(dtype: torch.dtype = torch.float16) -> Loaded:
    return Loaded(nn.Linear(64, 32).to(dtype).requires_grad_(False), torch.device("cpu"), dtype, "a.safetensors")


def test_bytes_of_plain_and_of_packed_weights() -> None:
    assert loaded().bytes == (64 * 32 + 32) * 2
    network = nn.Sequential(nn.Linear(512, 256), nn.Linear(256, 8)).requires_grad_(False)
    plain = Loaded(network, torch.device("cpu"), torch.float32)
    packed = plain.with_network(quantized(network, "w4", ()))
    assert plain.bytes == 4 * (512 * 256 + 256 + 256 * 8 + 8) and packed.bytes < plain.bytes / 4


def test_inputs_are_what_the_network_computes_in() -> None:
    own = loaded()
    x = own.inputs(torch.zeros(2, 64))
    assert x.dtype == torch.float16 and x.device == own.device
    with own.resident() as network:
        assert network(x).dtype == torch.float16


def test_a_copy_in_float32_leaves_the_value_as_it_is() -> None:
    own = loaded()
    wide = own.in_float32()
    assert wide.dtype == wide.network.weight.dtype == torch.float32 and wide.name == own.name
    assert own.dtype == own.network.weight.dtype == torch.float16
    assert torch.equal(wide.network.weight, own.network.weight.float())


def moves(tree: ast.AST) -> Iterator[int]:
    """Lines on which a network is moved: ``network.to(...)``, ``.cuda()``, or ``.network.to(...)``."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "cuda"):
            moved = call.func.value
            name = moved.id if isinstance(moved, ast.Name) else moved.attr if isinstance(moved, ast.Attribute) else ""
            if name in ("network", "module", "vocoder", "llm", "vae", "encoder"):
                yield call.lineno


def test_no_other_place_moves_a_network() -> None:
    """Loading puts weights on their device as it reads them."""
    files = [f for folder in ("models", "nodes") for f in (ROOT / folder).rglob("*.py") if "loading" not in f.parts]
    assert not [f"{f}:{line}" for f in files for line in moves(ast.parse(f.read_text("utf-8")))]


@pytest.mark.parametrize("line", ["network.to(device)", "self.network.to('cuda')", "x.network.cuda()"])
def test_a_moved_network_is_seen(line: str) -> None:
    assert [*moves(ast.parse(line))] == [1]


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """Classes of networks that compute while they are not resident; for networks that have been seen resident once."""
    resident: dict[int, int] = {}
    computed: set[str] = set()
    hooks: list[Any] = []
    enter = Loaded.resident

    @contextmanager
    def counted(self: Loaded) -> Iterator[Any]:
        with enter(self) as network:
            if id(network) not in resident:
                for module in network.modules():
                    hooks.append(module.register_forward_pre_hook(partial(check, id(network), type(network).__name__)))
            resident[id(network)] = resident.get(id(network), 0) + 1
            try:
                yield network
            finally:
                resident[id(network)] -= 1

    def check(network: int, name: str, *_: Any) -> None:
        if not resident[network]:
            computed.add(name)

    monkeypatch.setattr(Loaded, "resident", counted)
    yield computed
    for hook in hooks:
        hook.remove()
    assert len(resident) >= 2, "no network was entered"


@pytest.mark.parametrize("graph", ["flux.json", "flux_img2img.json", "video.json"])
def test_networks_compute_while_they_are_resident(outside: set[str], graph: str, tmp_path: Path) -> None:
    workflow = pg.load(graph, out=tmp_path)
    workflow.run(seed=11)
    workflow.run(seed=12)  # with hooks from the beginning
    assert not outside
