"""One thread or several: the same bytes of the shipped models' graphs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import pipegraph as pg


@pytest.fixture(autouse=True)
def threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def saved(graph: str, count: int, **inputs: Any) -> bytes:
    torch.set_num_threads(count)
    result = pg.load(graph, out=f"out{count}").run(seed=3, **inputs)
    assert result.record["settings"]["threads"] == count
    image: torch.Tensor = result["image"]
    return image.numpy().tobytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("graph", "inputs"),
    [("flux_inpaint.json", {}), ("flux.json", {"batch_size": 3}), ("flux_controlnet.json", {}), ("flux_lora.json", {})],
)
def test_the_number_of_threads_does_not_show(graph: str, inputs: dict[str, Any]) -> None:
    assert saved(graph, 1, steps=2, **inputs) == saved(graph, 2, steps=2, **inputs)
