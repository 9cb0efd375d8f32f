"""Latents beside the text of a conditioning."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.models.family import LatentFormat
from pipegraph.nodes.text.latents import (
    inpaint_model_conditioning,
    instruct_pix_to_pix_conditioning,
    reference_latent,
    reference_latent_method,
)

from .conftest import STRICT, Strict

TEXT: Any = [[torch.zeros(1, 2, 3), {"text": "a"}]]


@dataclass
class Mean:
    """A VAE whose latents are the means of cells of 8 pixels."""

    latent: LatentFormat = field(default_factory=lambda: LatentFormat(3, 8))

    def encode(self, image: Tensor, warn: Any) -> Tensor:
        return torch.nn.functional.avg_pool2d(image.movedim(-1, 1), 8)


def test_reference_latents_add_up() -> None:
    one, two = torch.ones(1, 4, 2, 2), torch.zeros(1, 4, 3, 3)
    twice = reference_latent(reference_latent(TEXT, {"samples": one}), {"samples": two})
    assert twice[0][1]["reference_latents"] == (one, two) and TEXT[0][1] == {"text": "a"}
    assert reference_latent(TEXT) is TEXT
    assert reference_latent_method(TEXT, "uxo/uno")[0][1]["reference_latents_method"] == "uxo"
    assert reference_latent_method(TEXT, "index_timestep_zero")[0][1]["reference_latents_method"] == (
        "index_timestep_zero"
    )


def test_what_is_to_be_painted_is_gray_for_the_network() -> None:
    vae: Any = Mean()
    pixels = torch.full((1, 16, 24, 4), 0.2)
    mask = torch.zeros(1, 2, 3)
    mask[0, 0, 0] = 1
    made = inpaint_model_conditioning(STRICT, TEXT, TEXT, vae, pixels, mask)
    beside = made.positive[0][1]["concat_latent_image"]
    assert torch.allclose(beside[0, :, 1, 2], torch.tensor(0.2)) and float(beside[0, 0, 0, 0]) > 0.35
    assert torch.allclose(made.latent["samples"], torch.tensor(0.2))
    assert made.latent["noise_mask"].shape == (1, 1, 16, 24)
    assert torch.equal(made.negative[0][1]["concat_mask"], made.latent["noise_mask"])
    whole = inpaint_model_conditioning(STRICT, TEXT, TEXT, vae, pixels, torch.ones(1, 16, 24), noise_mask=False)
    assert "noise_mask" not in whole.latent
    assert torch.equal(whole.positive[0][1]["concat_latent_image"], torch.full((1, 3, 2, 3), 0.5))


def test_a_picture_beside_an_empty_latent(context: Strict, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(context, "warn", told.append)
    vae: Any = Mean()
    made = instruct_pix_to_pix_conditioning(context, TEXT, TEXT, vae, torch.full((1, 17, 26, 3), 0.7))
    assert torch.allclose(made.positive[0][1]["concat_latent_image"], torch.tensor(0.7))
    assert not made.latent["samples"].any() and made.latent["samples"].shape == (1, 3, 2, 3)
    assert told == ["26x17 cut to 24x16"]
