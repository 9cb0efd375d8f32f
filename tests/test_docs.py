"""Every command, every Python block and every prompt of README and docs does what the text says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from recipes import score, video_score, video_world, world

import pipegraph as pg
from pipegraph.cli import commands as cli
from pipegraph.graphs import ready_made

from .docs import NOT_RUN, PAGES, ROOT, Command, blocks, commands, prompts, runs

THING = world.Thing
SCENES = {
    "a red apple on the beach": world.Scene((THING("apple", "red"),), "on the beach"),
    "a blue car in the snow": world.Scene((THING("car", "blue"),), "in the snow"),
    "a green car in the snow": world.Scene((THING("car", "green"),), "in the snow"),
    "a red umbrella on the beach": world.Scene((THING("umbrella", "red"),), "on the beach"),
}
"""What prompts for the shipped image model say."""
MOVES = {
    "a red balloon moving up in a meadow": video_world.Moving(THING("balloon", "red"), "up", "in a meadow"),
    "a red balloon moving up on a yellow background": video_world.Moving(THING("balloon", "red"), "up", "yellow"),
}
"""What prompts for the shipped video model say."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages name."""
    monkeypatch.chdir(tmp_path)
    example = ROOT / "examples" / "custom_node"
    for file in (ROOT / "examples" / "comfyui_api.json", example / "graph.json", example / "vignette.py"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    editor = CliRunner().invoke(cli, ["convert", str(ROOT / "examples" / "comfyui_api.json"), "--to", "editor"])
    (tmp_path / "my_comfyui.json").write_text(editor.stdout, "utf-8")
    (tmp_path / "my.json").write_bytes(ready_made.find("flux.json") or b"")
    (tmp_path / "path" / "to").mkdir(parents=True)
    Image.new("RGB", (64, 64), "orange").save(tmp_path / "path" / "to" / "picture.png")
    return tmp_path


@pytest.fixture
def made(folder: Path) -> Path:
    """The same with the picture that the first commands of the pages make."""
    pg.load("flux.json", out=folder / "output").run(steps=1, prompt="a red apple on the beach", seed=7)
    return folder


def test_the_commands_that_are_not_run_are_those_of_the_pages() -> None:
    for start in NOT_RUN:
        assert any(command.line.startswith(start) for command in commands()), f"no page has {start} any more"
    assert len(runs()) > 15


@pytest.mark.parametrize("command", [c for c in runs() if c.words[1] in ("run", "validate")], ids=lambda c: c.line[:60])
def test_the_graphs_of_commands_are_valid(command: Command, made: Path) -> None:
    """What ``run`` would be called with, without running it."""
    options = {"--out": 1, "--quantize": 1, "--record": 0}
    words, kept = command.words[2:], list[str]()
    while words:
        word = words.pop(0)
        if word in options:
            del words[: options[word]]
        else:
            kept.append(word)
    result = CliRunner().invoke(cli, ["validate", *kept])
    assert result.exit_code == 0, f"{command.line}: {result.output} {result.exception}"


@pytest.mark.parametrize(
    "command", [c for c in runs() if c.words[1] not in ("run", "validate")], ids=lambda c: c.line[:60]
)
def test_the_other_commands_run(command: Command, folder: Path) -> None:
    result = CliRunner().invoke(cli, command.words[1:])
    assert result.exit_code == 0, f"{command.line}: {result.output} {result.exception}"


@pytest.mark.slow
@pytest.mark.parametrize("command", runs(), ids=lambda c: c.line[:60])
def test_commands_run_as_a_user_types_them(command: Command, made: Path) -> None:
    (made / "pipegraph").write_text(f'#!/bin/sh\nexec {sys.executable} -m pipegraph "$@"\n')
    (made / "pipegraph").chmod(0o755)
    env = {**os.environ, "PATH": f"{made}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-c", shlex.join(command.words)], cwd=made, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "unknown words" not in done.stderr
    if command.words[1] == "run" and "--help" not in command.words:
        assert (made / done.stdout.split()[-1]).is_file(), "the last line is the path of what was saved"


PYTHON = [page for page in PAGES if page.name in ("README.md", "python.md")]


@pytest.mark.parametrize("page", PYTHON, ids=lambda p: p.name)
def test_python_blocks_run_in_their_order(page: Path, folder: Path) -> None:
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)
    assert any((folder / "output").iterdir())


def test_the_operations_of_the_kernels_page_run() -> None:
    first, *_ = blocks(ROOT / "docs" / "kernels.md", "python")
    rows = torch.randn(4, 32)
    names: dict[str, object] = {
        "q": rows.view(1, 2, 2, 32),
        "k": rows.view(1, 2, 2, 32),
        "v": rows.view(1, 2, 2, 32),
        "x": rows,
        "mask": torch.ones(2, 2, dtype=torch.bool),
        "weight": torch.randn(32, 32),
        "bias": torch.zeros(32),
        "down": torch.randn(2, 32),
        "up": torch.randn(32, 2),
    }
    exec(first, names)
    assert isinstance(names["o"], torch.Tensor) and names["o"].shape == (1, 2, 2, 32)


def defaults(graph: str) -> set[str]:
    """Prompts that a ready-made graph has as defaults."""
    inputs = json.loads(ready_made.find(graph) or b"")["inputs"]
    return {inputs[name]["default"] for name in ("prompt", "picture") if name in inputs}


def python_prompts() -> set[str]:
    return {text for page in PYTHON for b in blocks(page, "python") for text in re.findall(r'prompt="([^"]+)"', b)}


def test_every_prompt_of_the_pages_is_judged() -> None:
    """A new prompt gets its scene above, and so a picture that is looked at."""
    assert prompts("flux") | python_prompts() | defaults("flux.json") == SCENES.keys()
    video = prompts("video.json") | defaults("video.json")
    assert video <= MOVES.keys() and len(video) == 1
    words = "a small red balloon on a yellow background"
    assert prompts("video_from_image") == {words, "a red balloon moving up on a yellow background"}
    assert prompts("video_from_image") == defaults("video_from_image.json")


@pytest.mark.slow
@pytest.mark.parametrize("prompt", SCENES)
def test_images_show_what_the_prompts_say(prompt: str) -> None:
    workflow = pg.load("flux.json", save=False)
    right = 0
    for seed in (3, 7, 1, 2, 4):
        result = workflow.run(prompt=prompt, seed=seed)
        assert not result.warnings
        right += score.score(np.asarray(result["image"][0], np.float32) * 255, SCENES[prompt]).exact
    assert right >= 4


@pytest.mark.slow
@pytest.mark.parametrize("prompt", MOVES)
def test_videos_show_what_the_prompts_say(prompt: str) -> None:
    workflow = pg.load("video.json", save=False)
    videos = [workflow.run(prompt=prompt, seed=seed)["video"].images() for seed in (7, 0, 1, 2, 3)]
    verdicts = [video_score.score(np.asarray(video, np.float32) * 255, MOVES[prompt]) for video in videos]
    assert sum(verdict.exact for verdict in verdicts) >= 4
