"""Clips on the shipped models: from a text, from a picture, from a request; and again from the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray
from recipes.video_requests import read

import pipegraph as pg

PROMPT = "a blue fish moving left"


def frames(path: Path) -> NDArray[np.uint8]:
    with av.open(str(path)) as file:
        return np.stack([f.to_ndarray(format="rgb24") for f in file.decode(video=0)])


def test_a_clip_has_its_size_rate_and_frames_and_is_made_again_from_itself(tmp_path: Path) -> None:
    (made,) = pg.load("video.json", out=tmp_path / "one").run(prompt=PROMPT, seed=7, steps=2).files
    with av.open(str(made)) as file:
        assert (file.streams.video[0].width, file.streams.video[0].height) == (64, 64)
        assert file.streams.video[0].average_rate == 8
    assert len(shown := frames(made)) == 13
    command = [sys.executable, "-m", "pipegraph", "run", str(made), "--out", str(tmp_path / "two")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    again = tmp_path / done.stdout.strip()
    assert again.parent == tmp_path / "two" and np.array_equal(frames(again), shown)


def test_a_picture_goes_on_as_a_clip(tmp_path: Path) -> None:
    result = pg.load("video_from_image.json", out=tmp_path).run(seed=1, steps=2)
    clip = result["video"].images()
    first = result["image"][0].reshape(64, 2, 64, 2, 3).mean((1, 3))
    assert clip.shape == (13, 64, 64, 3)
    assert (clip[0] - first).abs().mean() < 0.05 and (clip[-1] - clip[0]).abs().mean() > 0.005


def test_a_request_becomes_a_prompt_and_a_clip(tmp_path: Path) -> None:
    result = pg.load("llm_to_video.json", out=tmp_path).run(request="a pet that sinks under water", steps=1)
    scene = read(result["prompt"])
    assert scene is not None and (scene.motion, scene.background) == ("down", "in the sea")
    assert scene.thing.name in ("fish", "cat") and len(frames(result.files[0])) == 13
