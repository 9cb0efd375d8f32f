"""Sliding tiles in networks of Wan and HunyuanVideo: off unless asked for, exact where all is seen, else measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.kernels.hooks import diffusers as hooks
from pipegraph.kernels.ops.attention import attention
from pipegraph.models.loaded import Loaded
from pipegraph.models.model import Model
from pipegraph.models.sampling.findings import finding
from pipegraph.models.sampling.guiders import Guider
from pipegraph.nodes.sampling.attention import sliding_tile_attention
from pipegraph.nodes.sampling.shared import sampling_events
from pipegraph.nodes.text.conditioning import flux_guidance

from . import hunyuan_tiny

SIZE = (3, 7, 10)
"""Latent frames, rows and columns: 3 x 4 x 5 tokens, which no tile divides."""
TILES: dict[str, int] = dict(tile_frames=2, tile_height=2, tile_width=2)
NARROW: dict[str, int] = TILES | dict(window_frames=1, window_height=1, window_width=2)


@pytest.fixture
def model(load: Any, wan: Path) -> Model:
    return load(wan)[0]  # type: ignore[no-any-return]


def predict(model: Model) -> Tensor:
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(1, 16, *SIZE, generator=draw)
    text = [[torch.randn(1, 16, 32, generator=draw), {}]]
    return model.predict(x, torch.tensor([0.7]), model.prepare(text, x))[0]


def visible() -> Tensor:
    """Which of 3 x 4 x 5 tokens see which with ``NARROW``."""
    places = torch.cartesian_prod(torch.arange(3), torch.arange(4), torch.arange(5)) // 2
    first = torch.stack([places[:, 0], places[:, 1], (places[:, 2] - 1).clamp(0, 1)], 1)[:, None]
    return ((places >= first) & (places < first + torch.tensor([1, 1, 2]))).all(-1)


def test_windows_over_all_change_nothing(model: Model) -> None:
    want = predict(model)
    torch.testing.assert_close(predict(sliding_tile_attention(model, **TILES)), want, rtol=1e-5, atol=1e-5)
    assert torch.equal(predict(model), want)  # the network is as it was


def test_equals_a_mask(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Self-attention with the mask of tiles 2 x 2 x 2; attention to text without."""
    got, seen = predict(sliding_tile_attention(model, **NARROW)), visible()

    def masked(q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        return attention(q, k, v, mask=seen, scale=scale).transpose(1, 2)

    with hooks.self_attention(masked):
        want = predict(model)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)
    assert (got - predict(model)).abs().max() > 1e-3


@pytest.mark.parametrize("version", ["1", "15"])
def test_text_that_attends_with_the_clip(version: str, load: Any, tmp_path: Path) -> None:
    """HunyuanVideo: text sees all and is seen by all, clips as in Wan."""
    getattr(hunyuan_tiny, f"make_{version}")(tmp_path / "it")
    model, clip, _ = load(tmp_path / "it")
    config = model.loaded.network.config
    channels, patch = model.latent.channels, (config.patch_size_t, config.patch_size, config.patch_size)
    x = torch.randn(1, channels, *(n * p for n, p in zip((3, 4, 5), patch, strict=True)))
    text = flux_guidance(clip.encode(clip.tokenize("a red apple")), 4.0)

    def predict(model: Model) -> Tensor:
        return model.predict(x, torch.tensor([0.7]), model.prepare(text, x))[0]

    want, seen = predict(model), visible()

    def masked(q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Tensor:
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        mask = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool)
        assert q.shape[2] > 60  # 3 x 4 x 5 and text
        mask[:60, :60] = seen
        return attention(q, k, v, mask=mask, scale=scale).transpose(1, 2)

    torch.testing.assert_close(predict(sliding_tile_attention(model, **TILES)), want, rtol=1e-5, atol=1e-5)
    got = predict(sliding_tile_attention(model, **NARROW))
    with hooks.self_attention(masked):
        torch.testing.assert_close(got, predict(model), rtol=1e-5, atol=1e-5)
    assert (got - want).abs().max() > 1e-4


def test_what_is_lost_is_measured_once(model: Model) -> None:
    found: dict[str, Any] = {}
    with finding(found):
        predict(sliding_tile_attention(model, **NARROW))
        predict(sliding_tile_attention(model, **NARROW))
    (loss,) = found.values()
    assert len(loss.errors) == 2 and all(0.01 < e < 2 for e in loss.errors)  # one call, a layer each
    assert 0.1 < loss.share < 0.5
    assert "of the pairs of the video's tokens" in str(loss)
    exact: dict[str, Any] = {}
    with finding(exact):
        predict(sliding_tile_attention(model, **TILES))
    (none,) = exact.values()
    assert none.share == 1 and max(none.errors) < 1e-5


def test_a_run_says_it(model: Model, context: Any) -> None:
    from pipegraph.models.sampling.noise import Noise
    from pipegraph.models.sampling.samplers import SAMPLERS

    text = [[torch.randn(1, 16, 32, generator=torch.Generator().manual_seed(3)), {}]]
    guider = Guider(sliding_tile_attention(model, **NARROW), text)
    latent = {"samples": torch.zeros(1, 16, *SIZE)}
    list(sampling_events(context, guider, Noise(1), SAMPLERS["euler"], torch.tensor([1.0, 0.5, 0.0]), latent))
    assert [m for m in context.warnings if m.startswith("sliding tiles: self-attention computes")]
    assert len(context.warnings) == 1


def test_the_last_of_two_holds_and_other_networks_are_refused(model: Model) -> None:
    twice = sliding_tile_attention(sliding_tile_attention(model, **TILES), **NARROW)
    assert len(twice.patches) == 1 and torch.equal(predict(twice), predict(sliding_tile_attention(model, **NARROW)))

    class Other:
        loaded = Loaded(torch.nn.Linear(2, 2), torch.device("cpu"), torch.float32)

    with pytest.raises(ValueError, match="of Wan and HunyuanVideo; this is a Linear"):
        sliding_tile_attention(Other())  # type: ignore[arg-type]


def test_shared_by_processes_is_refused(model: Model) -> None:
    q = torch.zeros(1, 4, 2, 8)
    with (
        hooks.self_attention(lambda q, k, v, scale: q),
        pytest.raises(ValueError, match="shared by processes"),
    ):
        hooks.attend_self(q, q, q, _parallel_config=object())
    model.loaded.network._parallel_config = object()
    with pytest.raises(ValueError, match="--parallel cannot be used together"):
        sliding_tile_attention(model)
