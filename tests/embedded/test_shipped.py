"""The shipped models: they load, they are as small as promised, and they draw what the prompt says."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import FluxControlNetModel, FluxPipeline
from recipes import measure, world
from recipes.export import card
from recipes.measure import EMBEDDED
from recipes.networks import TEXT_TOKENS
from safetensors import safe_open

from pipegraph.models.checkpoints.parts import part
from pipegraph.models.checkpoints.source import checkpoint
from pipegraph.models.families.flux import pack, unpack

BASE, SCHNELL = EMBEDDED / "flux-tiny", EMBEDDED / "flux-tiny-schnell"
EDGES, LORA = EMBEDDED / "controlnet/flux-tiny-edges", EMBEDDED / "loras/flux-tiny-flat.safetensors"


def settings(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "card.json").read_text("utf-8"))["recommend"])


def adherence(folder: Path, count: int, **changes: float) -> dict[str, dict[str, float]]:
    use = settings(folder) | changes
    result = measure.measure(
        measure.load(folder), count, 20260707, use["steps"], use["cfg"], use["shift"], ["one object"]
    )
    return result["one object"]


def test_weights_are_float16_and_small() -> None:
    files = list(EMBEDDED.rglob("*.safetensors"))
    assert {BASE, SCHNELL, EDGES, EMBEDDED / "wan-tiny"} <= {p for f in files for p in f.parents} and LORA in files
    assert sum(f.stat().st_size for f in files) < 44e6
    for file in files:
        with safe_open(file, "pt") as weights:
            assert {weights.get_slice(k).get_dtype() for k in weights.keys()} == {"F16"}, file


@pytest.mark.parametrize("folder", [BASE, SCHNELL], ids=lambda f: f.name)
def test_the_card_is_that_of_the_recipe(folder: Path) -> None:
    base = None if folder == BASE else "embedded/flux-tiny"
    assert json.loads((folder / "card.json").read_text("utf-8")) == card(settings(folder), base)
    assert settings(folder)["steps"] <= 12


def test_the_distilled_model_shares_the_parts_of_its_base() -> None:
    whole = checkpoint("embedded/flux-tiny-schnell")
    assert whole.parts["transformer"].origin == SCHNELL / "transformer"
    assert {whole.parts[k].origin.parent for k in ("vae", "clip", "t5")} == {BASE}
    assert part(SCHNELL, "vae").origin == BASE / "vae" and not whole.completed


def test_the_diffusers_pipeline_draws_what_the_recipe_draws() -> None:
    torch.set_num_threads(1)
    prompts, best = ["a red apple on a blue background", "a panda in the snow"], settings(BASE)
    noise = torch.randn(2, 16, 16, 16, generator=torch.Generator().manual_seed(3))
    pipe = FluxPipeline.from_pretrained(BASE, low_cpu_mem_usage=False)
    pipe.set_progress_bar_config(disable=True)
    latents = pipe(
        prompts,
        negative_prompt=["", ""],
        true_cfg_scale=best["cfg"],
        num_inference_steps=best["steps"],
        height=128,
        width=128,
        max_sequence_length=TEXT_TOKENS,
        output_type="latent",
        latents=pack(noise),
    ).images
    nets, _ = measure.load(BASE)
    ours = measure.sample(nets, prompts, noise, measure.sigmas(best["steps"], best["shift"]), best["cfg"])
    assert torch.allclose(unpack(latents, 16, 16), ours, atol=2e-3)


def test_prompts_are_followed() -> None:
    torch.set_num_threads(1)
    got = adherence(BASE, 24)
    assert got["object"]["share"] >= 0.7 and got["background"]["share"] >= 0.75, got
    assert got["colour"]["share"] >= 0.5, got


def test_recorded_scores_keep_what_the_cards_promise() -> None:
    edges = json.loads((EDGES / "scores.json").read_text("utf-8"))
    assert edges["with"]["edge F1"] > edges["without"]["edge F1"]
    style = json.loads(LORA.with_suffix(".json").read_text("utf-8"))
    assert style["with"]["ink share"] > style["without"]["ink share"]


@pytest.mark.filterwarnings("ignore:.*FluxPosEmbed:FutureWarning")
def test_the_controlnet_fits_the_base_and_is_trained() -> None:
    net = FluxControlNetModel.from_pretrained(EDGES, low_cpu_mem_usage=False)
    base, _ = measure.load(BASE)
    assert net.config.num_layers == net.config.num_single_layers == 1
    assert net.inner_dim == base.transformer.inner_dim
    assert any(float(block.weight.detach().abs().max()) > 0 for block in net.controlnet_blocks)


def test_the_lora_names_layers_of_the_base() -> None:
    base, _ = measure.load(BASE)
    layers = dict(base.transformer.named_modules())
    with safe_open(LORA, "pt") as weights:
        for key in weights.keys():
            name, side = key.removeprefix("transformer.").split(".lora_")
            layer, shape = layers[name], weights.get_slice(key).get_shape()
            assert isinstance(layer, torch.nn.Linear)
            assert shape == ([8, layer.in_features] if side == "A.weight" else [layer.out_features, 8])


@pytest.mark.slow
def test_the_recorded_scores_can_be_measured_again() -> None:
    recorded = json.loads((BASE / "scores.json").read_text("utf-8"))
    best = settings(BASE)
    name = f"steps {best['steps']}, cfg {best['cfg']:g}, shift {best['shift']:g}"
    for kind in measure.KINDS:
        got = measure.measure(measure.load(BASE), 200, 20260101, best["steps"], best["cfg"], best["shift"], [kind])[
            kind
        ]
        for what, row in got.items():
            assert row["share"] == pytest.approx(recorded["adherence"][name][kind][what]["share"], abs=0.02), (
                kind,
                what,
            )


@pytest.mark.slow
def test_guidance_helps_and_four_steps_beat_the_base_at_four() -> None:
    assert adherence(BASE, 200)["exact"]["share"] > adherence(BASE, 200, cfg=1.0)["exact"]["share"]
    base4 = adherence(BASE, 200, steps=4, cfg=settings(BASE)["cfg"])
    assert adherence(SCHNELL, 200)["exact"]["share"] > base4["exact"]["share"]


def test_pictures_depend_on_the_prompt_and_the_seed() -> None:
    model, best = measure.load(BASE), settings(BASE)
    apple, again, other = (
        measure.draw(model, [prompt], seed, 4, best["cfg"], best["shift"])
        for prompt, seed in (("a red apple", 1), ("a red apple", 1), ("a red apple", 2))
    )
    house = measure.draw(model, ["a house at night"], 1, 4, best["cfg"], best["shift"])
    assert np.array_equal(apple, again) and not np.array_equal(apple, other)
    assert np.abs(apple - house).mean() > 20
    assert "apple" in world.OBJECTS
