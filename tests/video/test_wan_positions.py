"""Positions of Wan's tokens scaled and moved: where they are whole, they are rows of diffusers' own table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.models.families.wan.positions import ScaledPositions
from pipegraph.models.model import Model
from pipegraph.nodes.video.wan_positions import scale_rope

from . import hunyuan_tiny


def test_positions_are_those_of_a_larger_clip(load: Any, wan: Path) -> None:
    """Every third latent frame and every second row from the second on, of a clip that has them all."""
    network = load(wan)[0].loaded.network
    found = ScaledPositions.of(network, (3, 2, 1), (0, 1, 0)).tables(network.rope, torch.zeros(1, 16, 3, 6, 4))
    whole = network.rope(torch.zeros(1, 16, 7, 12, 4))
    for ours, theirs in zip(found, whole, strict=True):
        wanted = theirs.unflatten(1, (7, 6, 2))[:, ::3, 1::2].flatten(1, 3)
        assert ours.dtype == wanted.dtype and (ours - wanted).abs().max() < 1e-6


def test_it_acts_in_its_own_calls_only(load: Any, wan: Path, tmp_path: Path) -> None:
    model = load(wan)[0]
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(1, 16, 2, 6, 4, generator=draw)
    text = [[torch.randn(1, 16, 32, generator=draw), {}]]

    def predict(model: Model) -> Tensor:
        return model.predict(x, torch.tensor([0.7]), model.prepare(text, x))[0]

    plain = predict(model)
    far = scale_rope(model, scale_t=7)
    found = predict(far)
    assert (found - plain).abs().max() > 1e-4
    assert (predict(scale_rope(far)) - plain).abs().max() < 1e-5  # the last node counts: 1 and 0 change nothing
    assert torch.equal(predict(model), plain)  # the network is as it was
    hunyuan_tiny.make_1(tmp_path / "it")
    with pytest.raises(ValueError, match="in Wan's networks only; this is a HunyuanVideoTransformer3DModel"):
        scale_rope(load(tmp_path / "it")[0], scale_t=7)
