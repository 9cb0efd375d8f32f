"""The same bytes for one thread and for more, where that costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipegraph.kernels.hooks.modules import PointConv2d, PointConv3d, adopt_points
from pipegraph.kernels.ops.linear import linear


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def same(call: Callable[[], Tensor]) -> bool:
    made = []
    for count in (1, 2, 4):
        torch.set_num_threads(count)
        made.append(call())
    return all(torch.equal(made[0], other) for other in made)


def drawn(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


@pytest.mark.parametrize("rows", range(1, 18))
def test_products_of_few_rows(rows: int) -> None:
    x, weight, bias = drawn(rows, 192), drawn(384, 192), drawn(384)
    assert same(lambda: linear(x, weight, bias))
    assert torch.allclose(linear(x, weight, bias), F.linear(x, weight, bias), atol=1e-4)
    assert linear(x[:, None], weight, bias).shape == (rows, 1, 384)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv2d(96, 64, 1), (2, 96, 32, 32)),
        (nn.Conv2d(64, 32, 1, bias=False), (1, 64, 64, 64)),
        (nn.Conv3d(16, 192, 1), (2, 16, 4, 8, 8)),
    ],
)
@torch.no_grad()
def test_convolutions_of_single_pixels(layer: Any, shape: tuple[int, ...]) -> None:
    x = drawn(*shape)
    expected, state = layer(x), layer.state_dict()
    adopt_points(layer)
    assert isinstance(layer, PointConv2d | PointConv3d) and layer.state_dict().keys() == state.keys()
    assert torch.allclose(layer(x), expected, atol=1e-5) and layer(x).is_contiguous()
    assert same(lambda: layer(x)) and torch.equal(layer(x)[:1], layer(x[:1]))
    assert layer(x.double().to(torch.bfloat16).float()).dtype == torch.float32


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(4, 4, 3),
        nn.Conv2d(4, 4, 1, stride=2),
        nn.Conv2d(4, 4, 1, padding=1),
        nn.Conv2d(4, 4, 1, groups=2),
        nn.Conv2d(4, 4, 1, padding="same"),
        nn.Conv3d(4, 4, (1, 1, 3)),
    ],
)
def test_other_convolutions_stay_as_they_are(layer: Any) -> None:
    kind = type(layer)
    adopt_points(layer)
    assert type(layer) is kind
