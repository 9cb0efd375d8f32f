"""Conditioning in files, and what was painted in an editor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import pipegraph as pg
from pipegraph.nodes.image.painter import painter
from pipegraph.nodes.text.conditioning_files import load_conditioning, save_conditioning

from .conftest import STRICT, Strict

STATES = torch.randn(1, 3, 4, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def embeddings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    (tmp_path / "embeddings").mkdir()
    return tmp_path / "embeddings"


def test_a_conditioning_comes_back(embeddings: Path, context: Strict, drain: Callable[..., Any]) -> None:
    entries = {
        "pooled_output": torch.ones(1, 2),
        "guidance": 3.5,
        "text": "a 猫",
        "none": None,
        "reference_latents": (torch.zeros(1, 4, 2, 2), torch.ones(1, 4, 3, 3)),
    }
    conditioning = [[STATES.expand(1, 3, 4), entries]]
    events, result = drain(save_conditioning(conditioning, context))
    assert result is conditioning and events[0].path.name == "ComfyUI_00001_.safetensors"
    (embeddings / "x.safetensors").write_bytes(events[0].path.read_bytes())
    ((states, again),) = load_conditioning("x.safetensors")
    assert torch.equal(states, STATES) and again.keys() == entries.keys()
    assert {k: again[k] for k in ("guidance", "text", "none")} == {"guidance": 3.5, "text": "a 猫", "none": None}
    assert [t.shape for t in again["reference_latents"]] == [(1, 4, 2, 2), (1, 4, 3, 3)]
    assert torch.equal(again["pooled_output"], torch.ones(1, 2))
    half = {"conditioning": STATES.half(), "attention_mask": torch.ones(1, 3)}
    save_file(half, embeddings / "plain.safetensors")
    ((states, again),) = load_conditioning("plain.safetensors")
    assert states.dtype == torch.float32 and list(again) == ["attention_mask"]


def test_what_cannot_be_saved_or_loaded(embeddings: Path, context: Strict, drain: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="this conditioning has 2: save before combining"):
        drain(save_conditioning([[STATES, {}], [STATES, {}]], context))
    with pytest.raises(ValueError, match=r"the entry control \(list\) cannot be saved"):
        drain(save_conditioning([[STATES, {"control": [object()]}]], context))
    for tensors, metadata, said in (
        ({"other": STATES}, None, "holds no conditioning"),
        ({"conditioning": STATES[0]}, None, "holds no conditioning"),
        ({"conditioning": STATES}, "{", "are no JSON"),
        ({"conditioning": STATES}, json.dumps([1]), "are no JSON object"),
    ):
        save_file(tensors, embeddings / "x.safetensors", {"conditioning_options": metadata} if metadata else None)
        with pytest.raises(ValueError, match=said):
            load_conditioning("x.safetensors")


def test_paintings_lie_on_images(inputs: Path) -> None:
    pixels = np.zeros((64, 64, 4), np.uint8)
    pixels[:, :32] = (255, 0, 0, 255)
    pixels[:32, 32:] = (0, 255, 0, 51)
    Image.fromarray(pixels).save(inputs / "p.png")
    made = painter(STRICT, None, "p.png", 64, 64, "#0000ff")
    assert made.IMAGE[0, 5, 5].tolist() == [1, 0, 0] and made.IMAGE[0, 60, 60].tolist() == [0, 0, 1]
    assert made.IMAGE[0, 5, 60].tolist() == pytest.approx([0, 0.2, 0.8])
    assert made.MASK[0, 5, [5, 60]].tolist() == pytest.approx([1, 0.2]) and made.MASK[0, 60, 60] == 0
    gray = torch.full((2, 32, 48, 1), 0.5)
    over = painter(STRICT, gray, "p.png [input]")
    assert over.IMAGE.shape == (1, 32, 48, 3) and over.MASK.shape == (1, 32, 48)
    assert over.IMAGE[0, 30, 45].tolist() == [0.5, 0.5, 0.5]
    plain = painter(STRICT, None, " ", 64, 128)
    assert plain.IMAGE.shape == (1, 128, 64, 3) and not plain.MASK.any()
    with pytest.raises(ValueError, match="a color is written as"):
        painter(STRICT, bg_color="blue")


def test_a_graph_may_leave_the_painting_empty(inputs: Path) -> None:
    nodes: dict[str, Any] = {
        "1": {"class_type": "Painter", "inputs": {"mask": "", "width": 64, "height": 64, "bg_color": "#000000"}},
        "2": {"class_type": "PreviewImage", "inputs": {"images": ["1", 0]}},
    }
    pg.load(nodes).check()
