"""The shipped video model: its card and scores are its own, and it shows what a prompt says."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, WanPipeline
from recipes import video_measure as measure
from recipes.measure import EMBEDDED, weights_id
from recipes.video_export import card
from recipes.video_networks import generate
from recipes.video_score import score, table
from recipes.video_world import FRAMES, SIZE, TOKENS
from transformers import PreTrainedTokenizerFast

FOLDER = EMBEDDED / "wan-tiny"


def settings() -> dict[str, Any]:
    return dict(json.loads((FOLDER / "card.json").read_text("utf-8"))["recommend"])


def test_scores_are_of_these_weights_and_reach_the_gates() -> None:
    found = json.loads((FOLDER / "scores.json").read_text("utf-8"))
    assert found["weights"] == weights_id(FOLDER)
    assert json.loads((FOLDER / "card.json").read_text("utf-8")) == card()
    seen = found["adherence"]["seen"]
    assert seen["exact"]["of"] >= 100 and seen["object"]["low"] >= 0.8 and seen["motion"]["low"] >= 0.9
    assert seen["colour"]["low"] >= 0.9 and found["adherence"]["unseen pair"]["object"]["share"] >= 0.7
    assert found["flicker"]["this"] < found["flicker"]["own noise"]


def test_prompts_are_followed() -> None:
    torch.set_num_threads(1)
    scenes, prompts = measure.prompts_for("seen", 8, 20260707)
    use = settings()
    clips = measure.shoot(measure.load(FOLDER), prompts, 20260707, use["steps"], use["cfg"], use["shift"])
    assert clips.shape == (8, FRAMES, SIZE, SIZE, 3)
    got = table([score(c, s) for c, s in zip(clips, scenes, strict=True)])
    assert got["object"]["share"] >= 0.6 and got["motion"]["share"] >= 0.75 and got["background"]["share"] >= 0.75, got


def test_the_diffusers_pipeline_shows_what_the_recipe_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    use, prompt = settings(), "a yellow fish moving left in the sea"
    noise = torch.randn(1, 16, 4, SIZE // 8, SIZE // 8, generator=torch.Generator().manual_seed(3))
    nets, vae = measure.load(FOLDER)
    pipe = WanPipeline(
        tokenizer=PreTrainedTokenizerFast.from_pretrained(FOLDER / "tokenizer"),
        text_encoder=nets.text,
        vae=vae,
        scheduler=FlowMatchEulerDiscreteScheduler.from_pretrained(FOLDER / "scheduler"),
        transformer=nets.transformer,
        expand_timesteps=False,  # its own way of it takes tokens of 2 x 2 latent cells for granted
    )
    assert WanPipeline.load_config(FOLDER)["expand_timesteps"]
    pipe.set_progress_bar_config(disable=True)
    spaced = partial(pipe.scheduler.set_timesteps, sigmas=[1.0, 0.75, 0.5, 0.25])  # its own end above 0
    monkeypatch.setattr(pipe.scheduler, "set_timesteps", spaced)
    latents = pipe(
        prompt,
        negative_prompt="",
        guidance_scale=use["cfg"],
        num_inference_steps=4,
        height=SIZE,
        width=SIZE,
        num_frames=FRAMES,
        max_sequence_length=TOKENS,
        output_type="latent",
        latents=noise.clone(),
    ).frames
    with torch.no_grad():
        ours = generate(nets, [prompt], noise, 4, use["cfg"], use["shift"])
    assert (latents - ours).abs().max() < 2e-2 * np.sqrt(float(ours.pow(2).mean()))


@pytest.mark.slow
def test_the_recorded_scores_can_be_measured_again() -> None:
    torch.set_num_threads(1)
    recorded = json.loads((FOLDER / "scores.json").read_text("utf-8"))
    count = int(recorded["adherence"]["seen"]["exact"]["of"])
    again = measure.measure(FOLDER, count, recorded["seed"], settings())
    for kind, rows in again["adherence"].items():
        for what, row in rows.items():
            assert row["share"] == pytest.approx(recorded["adherence"][kind][what]["share"], abs=0.03), (kind, what)
