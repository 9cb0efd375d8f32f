"""3-D convolutions through oneDNN: what torch's own give, and none of the slow ones left in a video autoencoder."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from pipegraph.models.vae.convolution import use_onednn

pytestmark = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="torch without oneDNN")


@pytest.mark.parametrize(
    ("stride", "padding", "groups", "bias"), [(1, 0, 1, True), ((1, 2, 2), (0, 1, 1), 1, False), (1, 1, 4, True)]
)
def test_convolutions_are_those_of_torch(
    stride: int | tuple[int, int, int], padding: int | tuple[int, int, int], groups: int, bias: bool
) -> None:
    plain = torch.nn.Conv3d(8, 12, 3, stride, padding, groups=groups, bias=bias).requires_grad_(False)
    changed = copy.deepcopy(plain)
    use_onednn(changed)
    for shape in ((1, 8, 3, 9, 7), (2, 8, 4, 5, 5)):
        x = torch.randn(shape)
        torch.testing.assert_close(changed(x), plain(x), rtol=1e-5, atol=2e-6)
    half = copy.deepcopy(changed).bfloat16()
    assert half(x.bfloat16()).dtype == torch.bfloat16


def test_a_video_autoencoder_has_no_slow_convolution(wan: Path, load: Callable[[Path], Any]) -> None:
    vae = load(wan)[2]
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        vae.decode(torch.randn(1, vae.latent.channels, 2, 4, 4))
        vae.encode(torch.rand(5, 32, 32, 3))
    names = {event.key for event in seen.key_averages()}
    assert "aten::mkldnn_convolution" in names and "aten::slow_conv3d_forward" not in names
