"""From a request to a picture: the language model's prompt fulfils the request, and a fork reads it once."""

from __future__ import annotations

from pathlib import Path

from recipes.requests import read

import pipegraph as pg


def test_a_request_becomes_a_prompt_and_a_picture(tmp_path: Path) -> None:
    flow = pg.load("llm_to_image.json", out=tmp_path)
    result = flow.run(request="something red to eat, by the sea please", steps=2)
    scene = read(result["prompt"])
    assert scene is not None and scene.background == "on the beach"
    assert (scene.things[0].name, scene.things[0].colour) == ("apple", "red")
    assert tuple(result["image"].shape) == (1, 128, 128, 3) and len(result.files) == 1
    again = flow.run(request="something red to eat, by the sea please", steps=2)
    assert set(again.timings) <= {"save"}


def test_a_fork_reads_once_and_writes_three_prompts(tmp_path: Path) -> None:
    result = pg.load("llm_fork.json", out=tmp_path).run(request="an animal in the snow", steps=1, temperature=1.0)
    prompts = [result[f"prompt_{k}"] for k in "abc"]
    assert all(read(p) for p in prompts) and len(set(prompts)) > 1
    assert [n for n in result.timings if "prefill" in n] == ["prefill"]
    assert len(result.files) == 3
