"""``pipegraph run flux.json`` on the shipped model: a process of its own gives the bytes that Python gives."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

import pipegraph as pg
from pipegraph.models.paths import EMBEDDED

PROMPT = "a red apple on the beach"


@pytest.fixture(scope="module")
def workflow(tmp_path_factory: pytest.TempPathFactory) -> pg.Workflow:
    return pg.load("flux.json", out=tmp_path_factory.mktemp("api"))


def test_the_command_line_and_python_give_the_same_bytes(workflow: pg.Workflow, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipegraph", "run", "flux.json", "--prompt", PROMPT, "--seed", "7", "--steps", "2"]
    threads = os.environ | {"OMP_NUM_THREADS": str(torch.get_num_threads())}  # the file records how many there were
    done = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True, env=threads)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert not done.stderr
    assert [e for e in events if e["event"] == "progress" and e["node"] == "sample"][-1]["done"] == 2
    (saved,) = [e["path"] for e in events if e["event"] == "saved"]
    made = (tmp_path / saved).read_bytes()

    (same,) = workflow.run(prompt=PROMPT, seed=7, steps=2).files
    (other,) = workflow.run(prompt=PROMPT, seed=8, steps=2).files
    assert same.read_bytes() == made
    with Image.open(tmp_path / saved) as picture, Image.open(other) as another:
        assert picture.size == (128, 128)
        assert picture.tobytes() != another.tobytes()


def test_a_cached_run_calls_no_model_and_a_new_seed_does_not_encode_again(workflow: pg.Workflow) -> None:
    workflow.run(prompt=PROMPT, seed=7, steps=2)
    assert set(workflow.run(prompt=PROMPT, seed=7, steps=2).timings) <= {"save"}
    changed = workflow.run(prompt=PROMPT, seed=9, steps=2)
    assert set(changed.timings) == {"sample", "decode", "save"}


def test_words_that_the_model_does_not_know_are_said_aloud(workflow: pg.Workflow) -> None:
    result = workflow.run(prompt="a zeppelin on the beach", seed=7, steps=1)
    assert any("zeppelin" in warning for warning in result.warnings)


def test_auto_is_resolved_and_recorded(workflow: pg.Workflow) -> None:
    record = workflow.run(prompt=PROMPT, steps=1).record
    assert record["notes"]["sample"]["kernels"] == {"attention": ["torch"], "linear": ["torch"]}
    resolved = {r["input"]: r["value"] for r in record["resolved"]}
    card = json.loads((EMBEDDED / "flux-tiny" / "card.json").read_text())["recommend"]
    for name in ("cfg", "sampler_name", "scheduler", "width", "height"):
        assert resolved[name] == card[name]


def test_at_cfg_1_the_negative_is_not_encoded_and_its_prompt_not_lost_in_silence(tmp_path: Path) -> None:
    workflow = pg.load("flux.json", out=tmp_path)
    result = workflow.run(cfg=1.0, steps=1, negative="a cat")
    assert not {"negative", "negative_guidance"} & result.timings.keys()
    assert [w for w in result.warnings if "negative prompt is not used" in str(w)]
    result = workflow.run(cfg=1.0, steps=1)
    assert not [w for w in result.warnings if "negative" in str(w)]
    assert "negative" in workflow.run(cfg=2.0, steps=1, negative="a small dress").timings
