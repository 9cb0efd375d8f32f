"""CFG-Zero* and guidance by skipped layers, against float64 and against networks without the layers."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.models.families import ALL
from pipegraph.models.model import Model
from pipegraph.models.patches.skip_layers import SkipLayers
from pipegraph.models.sampling.guiders import Guider
from pipegraph.nodes.sampling.guidance import (
    _check,
    cfg_zero_star,
    skip_layer_guidance_dit,
    skip_layer_guidance_dit_simple,
    unet_temporal_attention_multiply,
)

from ..context import Context
from . import hunyuan_tiny
from .test_wan import noise, texts

CFG, SIGMA = 3.0, 0.6
ALWAYS: dict[str, Any] = {"start_percent": 0.0, "end_percent": 1.0}


@pytest.fixture
def parts(load: Any, wan: Path) -> tuple[Model, Any, Any]:
    model, clip, _ = load(wan)
    return model, *texts(clip)


def x() -> Tensor:
    return noise(5, batch=2)


def found(model: Model, positive: Any, negative: Any = None, cfg: float = CFG, sigma: float = SIGMA) -> Tensor:
    return Guider(model, positive, negative, cfg).denoiser(x())(x(), sigma)


def without(model: Model, layer: int) -> Model:
    """The same with a network that has no such layer at all."""
    network = deepcopy(model.loaded.network)
    del network.blocks[layer]
    return replace(model, loaded=model.loaded.with_network(network), guidance=())


def test_cfg_zero_star_equals_the_paper_and_diffusers(parts: tuple[Model, Any, Any]) -> None:
    from diffusers.guiders import ClassifierFreeZeroStarGuidance

    model, positive, negative = parts
    p, n = ((x().double() - found(model, side).double()) / SIGMA for side in (positive, negative))
    wanted = []
    for one, other in zip(p, n, strict=True):  # of each item by itself
        factor = (one * other).sum() / (other * other).sum()
        wanted.append(factor * other + CFG * (one - factor * other))
    velocity = torch.stack(wanted)
    guided = found(cfg_zero_star(model), positive, negative).double()
    assert (guided - (x() - SIGMA * velocity)).abs().max() < 1e-5
    theirs = ClassifierFreeZeroStarGuidance(guidance_scale=CFG, zero_init_steps=0)
    theirs._step = 0
    assert (theirs.forward(p, n).pred - velocity).abs().max() < 1e-5
    assert (guided - found(model, positive, negative)).abs().max() > 1e-3
    assert torch.equal(found(cfg_zero_star(model), positive), found(model, positive))  # nothing without a negative
    assert Guider(cfg_zero_star(model), positive, negative, 1.0).warnings() == [
        "CFGZeroStar changes nothing at cfg 1: there is no negative prediction"
    ]


@pytest.mark.parametrize("rescale", [0.0, 0.7])
def test_away_from_skipped_layers(parts: tuple[Model, Any, Any], context: Context, rescale: float) -> None:
    model, positive, negative = parts
    p, weak, cfg = (
        found(m, positive, side).double() for m, side in ((model, None), (without(model, 1), None), (model, negative))
    )
    wanted = cfg + 2.5 * (p - weak)
    if rescale:
        for i in range(2):
            wanted[i] *= rescale * p[i].std() / wanted[i].std() + 1 - rescale
    options: dict[str, Any] = {"double_layers": "1", "single_layers": "", "rescaling_scale": rescale}
    changed = skip_layer_guidance_dit(model, context, scale=2.5, **options, **ALWAYS)
    assert (found(changed, positive, negative) - wanted).abs().max() < 1e-5
    assert (wanted - cfg).abs().max() > 1e-3
    assert torch.equal(found(model, positive, negative), cfg.float())  # the network is as it was
    both = cfg_zero_star(changed)
    apart = found(cfg_zero_star(model), positive, negative) - cfg
    assert (found(both, positive, negative) - wanted - apart).abs().max() < 1e-5
    # Between 20 and 50 % of the way: from sigma 0.92 to 0.75 at shift 3.
    part = skip_layer_guidance_dit(model, context, scale=2.5, start_percent=0.2, end_percent=0.5, **options)
    plain = found(model, positive, negative, sigma=0.95)
    assert torch.equal(found(part, positive, negative, sigma=0.95), plain)
    assert torch.equal(found(part, positive, negative, sigma=0.7), found(model, positive, negative, sigma=0.7))
    assert (found(part, positive, negative, sigma=0.8) - found(model, positive, negative, sigma=0.8)).abs().max() > 1e-3
    assert not context.warnings


def test_a_negative_of_skipped_layers(parts: tuple[Model, Any, Any], context: Context) -> None:
    model, positive, negative = parts
    p, n = found(model, positive).double(), found(without(model, 0), negative).double()
    changed = skip_layer_guidance_dit_simple(model, context, "0", "", **ALWAYS)
    assert (found(changed, positive, negative) - (n + CFG * (p - n))).abs().max() < 1e-5
    assert (found(model, positive, negative) - (n + CFG * (p - n))).abs().max() > 1e-3
    assert torch.equal(found(changed, positive), found(model, positive))


def test_layers_that_are_not_there(parts: tuple[Model, Any, Any], context: Context) -> None:
    model = parts[0]
    changed = skip_layer_guidance_dit(model, context, "1, 9", "9,10", **ALWAYS)
    assert context.warnings == [
        "WanTransformer3DModel has 2 double layers, counted from 0: 9 cannot be skipped",
        "WanTransformer3DModel has no single layers: 9, 10 cannot be skipped",
    ]
    assert len(changed.guidance) == 1 and not skip_layer_guidance_dit(model, context, "7", "").guidance
    given = {"double_layers": "7; 8", "single_layers": " 7 8,9,"}
    assert [name for name, _ in _check(given, {})] == ["double_layers"]
    assert not list(_check(given | {"double_layers": ""}, {}))
    context.warnings.clear()
    assert unet_temporal_attention_multiply(model, context, 1.0, 1.0, 1.2, 1.3) is model
    assert context.warnings == ["WanTransformer3DModel is no U-Net with temporal layers: its attention is not changed"]


def test_blocks_of_two_streams(load: Any, tmp_path: Path) -> None:
    """HunyuanVideo: blocks that give back clip and text, double and single."""
    hunyuan_tiny.make_1(tmp_path / "it")
    model, clip, _ = load(tmp_path / "it")
    from pipegraph.nodes.text.conditioning import flux_guidance

    text = flux_guidance(clip.encode(clip.tokenize("a red apple")), 4.0)
    state = noise(5, channels=model.latent.channels)
    patch, told = SkipLayers.of(model.loaded.network, model.family.network.blocks, [0], [0])
    assert not told

    def predict(model: Model) -> Tensor:
        return model.predict(state, torch.tensor([SIGMA]), model.prepare(text, state))[0]

    short = deepcopy(model.loaded.network)
    del short.transformer_blocks[0], short.single_transformer_blocks[0]
    wanted = predict(replace(model, loaded=model.loaded.with_network(short)))
    assert torch.equal(predict(replace(model, patches=(patch,))), wanted)
    assert (predict(model) - wanted).abs().max() > 1e-4


def test_every_known_block_gives_back_what_it_is_said_to() -> None:
    """The arguments that stand in the table are arguments of the classes of that name."""
    import inspect
    from importlib import import_module

    modules = [
        import_module(f"diffusers.models.transformers.transformer_{name}")
        for name in ("flux", "wan", "hunyuan_video", "hunyuan_video15", "ltx", "ltx2")
    ]
    for name, gives in {n: g for family in ALL for n, g in family.network.blocks.items()}.items():
        block = next(getattr(m, name) for m in modules if hasattr(m, name))
        assert set(gives) <= inspect.signature(block.forward).parameters.keys()
