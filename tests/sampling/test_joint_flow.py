"""Clip and sound of one run on schedules of their own: the numbers of the sound, from those of the clip."""

from __future__ import annotations

import torch

from pipegraph.models.sampling.joint_flow import JointFlow, carried_velocity, of_sound

FLOW = JointFlow(shift=12.0, sound_shift=3.0)


def test_the_sound_has_its_own_noise_level_on_the_same_grid() -> None:
    grid = torch.linspace(0.1, 1, 5, dtype=torch.float64)
    clip, sound = (shift * grid / (1 + (shift - 1) * grid) for shift in (FLOW.shift, FLOW.sound_shift))
    assert FLOW.ratio == 0.25
    torch.testing.assert_close(of_sound(clip, FLOW.ratio)[0], sound)


def test_a_carried_sound_is_4_times_as_loud_and_comes_back() -> None:
    row = torch.arange(1.0, 11).reshape(1, 1, 10)
    shapes = [(1, 2, 3), (4,)]
    carried = FLOW.carried(row, shapes)
    assert carried.flatten().tolist() == [1, 2, 3, 4, 5, 6, 28, 32, 36, 40]
    assert torch.equal(FLOW.restored(carried, shapes), row)


def test_state_and_velocity_of_a_carried_sound() -> None:
    torch.manual_seed(0)
    clean, noise = torch.randn(2, 1, 6, dtype=torch.float64)
    sigma = torch.tensor(0.7, dtype=torch.float64)
    own, g = of_sound(sigma, FLOW.ratio)
    state = (1 - own) * clean + own * noise
    loud = clean / FLOW.ratio
    carried = (1 - sigma) * loud + sigma * noise
    torch.testing.assert_close(FLOW.ratio * g * carried, state)
    torch.testing.assert_close(carried_velocity(noise - clean, carried, g, FLOW.ratio), noise - loud)
