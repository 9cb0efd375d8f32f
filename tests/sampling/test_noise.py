"""Noise: ComfyUI's numbers, and items that do not depend on their batch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from pipegraph.models.sampling.noise import ItemNoise, Noise, _item_seed, initial_noise

GOLDEN = json.loads((Path(__file__).parent / "golden_sigmas.json").read_text())


def test_equal_to_the_reference() -> None:
    noise = initial_noise(42, (1, 4, 64, 64))
    assert noise.flatten()[:4].tolist() == GOLDEN["noise_seed42_1x4x64x64_first4"]
    assert [float(noise.mean()), float(noise.std())] == pytest.approx(GOLDEN["noise_seed42_mean_std"], rel=1e-5)
    assert noise.dtype == torch.float32


@pytest.mark.parametrize("shape", [(3, 4, 64, 64), (3, 16, 5, 7), (2, 16, 4, 6, 6)])
def test_a_batch_is_one_draw_as_in_comfyui(shape: tuple[int, ...]) -> None:
    wanted = torch.randn(shape, generator=torch.Generator().manual_seed(7))
    assert torch.equal(initial_noise(7, shape), wanted)


@pytest.mark.parametrize("shape", [(4, 16, 8, 8), (4, 4, 5, 7)])  # 140 values are no multiple of 16
def test_items_can_be_drawn_alone(shape: tuple[int, ...]) -> None:
    whole = initial_noise(3, shape)
    for i in range(4):
        assert torch.equal(initial_noise(3, (1, *shape[1:]), [i])[0], whole[i])
    assert torch.equal(initial_noise(3, (3, *shape[1:]), [2, 0, 2]), whole[[2, 0, 2]])
    with pytest.raises(ValueError, match="batch_index"):
        initial_noise(3, shape, [0])


def test_drawing_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(1)
    wanted = torch.rand(1)
    torch.manual_seed(1)
    initial_noise(0, (1, 4, 8, 8))
    ItemNoise(0, [0])(torch.empty(1, 4))
    assert torch.equal(torch.rand(1), wanted)


def test_step_noise_of_items() -> None:
    like = torch.empty(3, 4, 8, 8)
    batch = ItemNoise(11, range(3))
    steps = [batch(like) for _ in range(3)]
    for i in range(3):
        alone = ItemNoise(11, [i])
        for step in steps:
            assert torch.equal(alone(like[:1])[0], step[i])
    drawn = torch.stack([step[i] for step in steps for i in range(3)]).flatten(1)
    correlation = torch.corrcoef(drawn) - torch.eye(9)
    assert float(correlation.abs().max()) < 0.3
    # Item 0 of seed 11 is ComfyUI's stream for a state on the CPU: seed + 1.
    assert torch.equal(steps[0][0], torch.randn(4, 8, 8, generator=torch.Generator().manual_seed(12)))


def test_seeds_to_the_end_of_their_range() -> None:
    for seed in (0, 2**63, 2**64 - 1):
        assert initial_noise(seed, (1, 4)).shape == ItemNoise(seed, [0, 1])(torch.empty(2, 4))[:1].shape


def test_the_value_on_the_wire() -> None:
    latent = {"samples": torch.ones(2, 4, 8, 8), "batch_index": [1, 3]}
    assert torch.equal(Noise(5).generate_noise(latent), initial_noise(5, (2, 4, 8, 8), [1, 3]))
    assert not Noise(5, silent=True).generate_noise(latent).any()


def test_the_seeds_of_items_stay_what_they_are() -> None:
    """Pictures that were saved are made again by them."""
    assert [_item_seed(7, 0), _item_seed(7, 1), _item_seed(2**64 - 1, 0)] == [8, 3439377101759973470, 0]
