"""The ready-made graphs run as they are on the shipped models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import pipegraph as pg
from pipegraph.graphs import ready_made
from pipegraph.models import paths


def pixels(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    with Image.open(path) as picture:
        return np.asarray(picture).astype(np.int64)


@pytest.mark.parametrize("name", [n for n in ready_made.names() if n.startswith("flux")])
def test_each_makes_a_picture_and_the_picture_makes_itself_again(name: str, tmp_path: Path) -> None:
    result = pg.load(name, out=tmp_path / "a").run(seed=7, steps=2)
    assert result["image"].shape == (1, 128, 128, 3) and len(result.files) == 1
    assert result["image"].std() > 0.05
    again = pg.load(result.files[0], out=tmp_path / "b").run()
    assert again.files[0].read_bytes() == result.files[0].read_bytes()


def test_a_picture_of_a_batch_is_made_again_alone(tmp_path: Path) -> None:
    batch = pg.load("flux.json", out=tmp_path / "a").run(seed=7, steps=2, batch_size=2, sampler="euler_ancestral")
    assert len(batch.files) == 2 and np.abs(pixels(batch.files[0]) - pixels(batch.files[1])).mean() > 5
    alone = pg.load(batch.files[1], out=tmp_path / "b").run()
    assert len(alone.files) == 1
    assert np.abs(pixels(alone.files[0]) - pixels(batch.files[1])).max() <= 1  # sums in another order


def test_inpainting_leaves_the_rest_to_the_pixel(tmp_path: Path) -> None:
    made = pixels(pg.load("flux_inpaint.json", out=tmp_path).run(seed=7, steps=2).files[0])
    given = pixels(paths.resolve("input", "embedded/apple_cut_out.png"))
    kept = given[..., 3] == 255
    assert 0.2 < kept.mean() < 0.3
    assert (made[kept] == given[kept][:, :3]).all()
    assert np.abs(made[~kept] - given[~kept][:, :3]).mean() > 5


def test_inpainting_leaves_the_rest_when_it_is_scaled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = np.full((70, 130, 4), (230, 200, 150, 255), np.uint8)
    given[20:50, 45:85] = 0  # transparent, and black below
    Image.fromarray(given).save(tmp_path / "hole.png")
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(tmp_path))
    made = pixels(pg.load("flux_inpaint.json", out=tmp_path).run(seed=7, steps=1, image="hole.png").files[0])
    # The 70 columns in the middle become 128: the hole is at columns 15 to 55 of 70, rows 20 to 50.
    kept = np.ones((128, 128), bool)
    kept[20 * 128 // 70 - 1 : 50 * 128 // 70 + 2, 15 * 128 // 70 - 1 : 55 * 128 // 70 + 2] = False
    assert (made[kept] == (230, 200, 150)).all()
    assert np.abs(made[60, 60] - (230, 200, 150)).max() > 20


def test_image_to_image_follows_the_picture_by_degrees(tmp_path: Path) -> None:
    workflow = pg.load("flux_img2img.json", out=tmp_path)
    given = torch.from_numpy(pixels(paths.resolve("input", "embedded/apple_on_beach.png"))) / 255
    far = [(workflow.run(seed=7, steps=4, denoise=d)["image"][0] - given).abs().mean() for d in (0.25, 0.6, 1.0)]
    assert far[0] < far[1] < far[2]


def test_edges_of_the_given_picture_steer(tmp_path: Path) -> None:
    workflow = pg.load("flux_controlnet.json", out=tmp_path)
    with_edges, without = (workflow.run(seed=7, steps=2, strength=s) for s in (1.0, 0.0))
    assert 0.01 < with_edges["edges"].mean() < 0.2
    assert (with_edges["image"] - without["image"]).abs().mean() > 1e-3


def test_a_lora_of_strength_0_changes_nothing(tmp_path: Path) -> None:
    workflow = pg.load("flux_lora.json", out=tmp_path)
    plain = pg.load("flux.json", out=tmp_path).run(seed=7, steps=2)["image"]
    assert torch.equal(workflow.run(seed=7, steps=2, strength=0.0)["image"], plain)
    assert (workflow.run(seed=7, steps=2, strength=1.0)["image"] - plain).abs().mean() > 1e-3
