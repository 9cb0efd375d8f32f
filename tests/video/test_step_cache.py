"""EasyCache: what it reuses is what its formula says, for clips and pictures, with guidance, and never across runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import pipegraph as pg
from pipegraph.generators import finish
from pipegraph.models.model import Model
from pipegraph.models.patches.step_cache import StepCache
from pipegraph.models.sampling.guiders import Guider
from pipegraph.models.sampling.run import Sampled, sample
from pipegraph.models.sampling.samplers import SAMPLERS
from pipegraph.nodes.sampling.step_cache import easy_cache

from ..context import Context
from .test_wan import Given, noise, texts

SIGMAS = torch.linspace(1, 0, 13)


def run(model: Model, positive: Any, negative: Any = None, cfg: float = 1.0, sampler: str = "euler") -> Sampled:
    given: Any = Given(noise(5))
    steps = sample(Guider(model, positive, negative, cfg), given, SAMPLERS[sampler], SIGMAS, {"samples": noise(5) * 0})
    return finish(steps)


def by_hand(
    model: Model, positive: Any, threshold: float, first: float, last: float
) -> tuple[Tensor, list[int], float]:
    """The latents, the steps that are reused and the largest error measured: the paper's method, written plainly."""
    x = noise(5)
    prepared = model.prepare(positive, x)
    done: list[tuple[Tensor, Tensor]] = []
    reused, worst, expected, latest = [], 0.0, 0.0, x
    for step, (now, then) in enumerate(pairwise(SIGMAS)):
        level = now.expand(1)
        v = None
        if len(done) > 1 and last <= now <= first:
            (x_j, v_j), (x_i, v_i) = done[-2:]
            rate = (v_i - v_j).abs().mean() / (x_i - x_j).abs().mean()
            expected += float(rate * (x - latest).abs().mean() / v_i.abs().mean())
            if expected < threshold:
                v = x + (v_i - x_i)
                reused.append(step)
        if v is None:
            v = (x - model.predict(x, level, prepared)[0]) / now
            if reused and reused[-1] == step - 1:
                x_i, v_i = done[-1]
                worst = max(worst, float((x + (v_i - x_i) - v).abs().mean() / v.abs().mean()))
            done.append((x, v))
            expected = 0.0
        latest, x = x, x + (then - now) * v
    return model.process_out(x), reused, worst


def test_steps_are_reused_by_the_formula(load: Any, wan: Path) -> None:
    model, clip, _ = load(wan)
    positive = texts(clip)[0]
    cached = replace(model, step_cache=StepCache(1.0, 0.1, 0.9))
    first, last = (model.sampling.percent_to_sigma(p) for p in (0.1, 0.9))
    expected, reused, worst = by_hand(model, positive, 1.0, first, last)
    assert 1 < len(reused) < 10 and worst > 0
    done = run(cached, positive)
    assert (done.samples - expected).abs().max() < 1e-4
    report = done.report.step_cache
    assert report is not None and report["reused"] == len(reused) and report["steps"] == 12
    assert done.report.model_calls == 12 - len(reused)
    assert report["measured_error"] == pytest.approx(worst, rel=1e-3) and 0 < report["expected_error"] < 1
    assert report["speed_up"] == pytest.approx(12 / (12 - len(reused)), abs=1e-3)
    plain = run(model, positive)
    assert plain.report.step_cache is None
    assert (done.samples - plain.samples).abs().max() > 1e-3, "reuse must be seen"
    assert not torch.equal(run(cached, texts(clip)[1]).samples, done.samples)
    assert torch.equal(run(cached, positive).samples, done.samples), "nothing goes from one run to another"


def test_nothing_is_reused_at_threshold_0(load: Any, wan: Path) -> None:
    model, clip, _ = load(wan)
    positive, negative = texts(clip)
    for sampler in ("euler", "heun"):
        off = run(replace(model, step_cache=StepCache(0.0, 0.0, 1.0)), positive, negative, 3.0, sampler)
        assert torch.equal(off.samples, run(model, positive, negative, 3.0, sampler).samples)
        assert off.report.step_cache is not None and off.report.step_cache["reused"] == 0
    outside = replace(model, step_cache=StepCache(3.0, 0.99, 1.0))
    assert torch.equal(run(outside, positive).samples, run(model, positive).samples)


def test_both_halves_of_guidance_are_reused(load: Any, wan: Path) -> None:
    model, clip, _ = load(wan)
    cached = replace(model, step_cache=StepCache(1.0, 0.1, 0.9))
    positive, negative = texts(clip)
    same = run(cached, positive, positive, 3.0)
    assert same.report.step_cache is not None and same.report.step_cache["reused"] > 1
    assert (same.samples - run(cached, positive).samples).abs().max() < 1e-4
    # A conditioning that acts in the first half only: where the calls change, the step is computed.
    late = [[positive[0][0], {**positive[0][1], "end_percent": 0.5}], *negative]
    assert run(cached, late).samples.isfinite().all()
    other = run(cached, positive, negative, 3.0)
    assert (other.samples - same.samples).abs().max() > 1e-3


def test_a_graph_says_what_was_reused(tmp_path: Path) -> None:
    graph: dict[str, Any] = {
        "1": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "embedded/flux-tiny"}},
        "2": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["1", 1], "text": "a red apple on the beach"}},
        "3": {"class_type": "EmptySD3LatentImage", "inputs": {"width": 64, "height": 64, "batch_size": 1}},
        "4": {
            "class_type": "EasyCache",
            "inputs": {
                "model": ["1", 0],
                "reuse_threshold": 0.5,
                "start_percent": 0.1,
                "end_percent": 0.95,
                "verbose": False,
            },
        },
        "5": {
            "class_type": "KSampler",
            "inputs": {
                "model": ["4", 0],
                "positive": ["2", 0],
                "negative": ["2", 0],
                "latent_image": ["3", 0],
                "seed": 1,
                "steps": 10,
                "cfg": 1,
                "sampler_name": "euler",
                "scheduler": "simple",
                "denoise": 1,
            },
        },
        "6": {"class_type": "VAEDecode", "inputs": {"samples": ["5", 0], "vae": ["1", 2]}},
        "7": {"class_type": "SaveImage", "inputs": {"images": ["6", 0], "filename_prefix": "x"}},
    }
    result = pg.load(graph, out=tmp_path).run()
    told = result.record["notes"]["5"]["sampling"]["step_cache"]
    assert told["reused"] > 0 and told["measured_error"] > 0
    warning = f"EasyCache: {told['reused']} of 10 steps are reused ({told['speed_up']:g} times as fast)"
    assert any(warning in str(w) for w in result.record["run"]["warnings"])


def test_percents_that_leave_nothing_are_said(load: Any, wan: Path, context: Context) -> None:
    model = load(wan)[0]
    assert easy_cache(model, context, 0.2, 0.9, 0.9).step_cache == StepCache(0.2, 0.9, 0.9)
    assert context.warnings == ["start_percent and end_percent are both 0.9: no step is reused"]
    assert str(StepCache(0.2).run(model.sampling)).startswith("EasyCache: 0 of 0 steps") and model.step_cache is None
