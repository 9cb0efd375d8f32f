"""A picture that is run again: with the settings it was made with, and a warning for everything that has changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo

import pipegraph as pg
from pipegraph.api import runner

COPY = {
    "pipegraph": 1,
    "nodes": {
        "load": {"class_type": "LoadImage", "inputs": {"image": "hint.png"}},
        "save": {"class_type": "SaveImage", "inputs": {"images": ["load", "IMAGE"]}},
    },
}


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A picture made from ``hint.png`` in the current folder."""
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (8, 8), "red").save("hint.png")
    (path,) = pg.load(COPY, dtype="bf16").run().files
    return path.absolute()


def edited(path: Path, **changes: Any) -> Path:
    """The picture, with other entries in what it says of its run."""
    with Image.open(path) as picture:
        texts = PngInfo()
        texts.add_text("pipegraph", json.dumps(json.loads(picture.info["pipegraph"]) | changes))
        picture.save(path.with_name("edited.png"), pnginfo=texts)
    return path.with_name("edited.png")


@pytest.mark.parametrize("settings", [{"quantize": "q8"}, {"dtype": "bf16"}, {"kernels": "linear=torch"}])
def test_its_settings_are_applied(settings: dict[str, Any], tmp_path: Path) -> None:
    (first,) = pg.load("flux.json", out=tmp_path / "first", **settings).run(steps=1, seed=3).files
    runner().cache.clear()
    again = pg.load(first, out=tmp_path / "again").run()
    assert again.files[0].read_bytes() == first.read_bytes()
    assert not again.warnings


def test_a_setting_that_is_given_wins_and_is_named(copied: Path) -> None:
    result = pg.load(copied, dtype="fp32", quantize="q8").run()
    assert result.warnings == [
        "dtype: made with bf16, this run uses fp32",
        "quantize: made with none, this run uses q8",
    ]
    assert result.record["settings"]["dtype"] == "fp32"


def test_a_device_or_kernel_that_is_not_there_is_named(copied: Path) -> None:
    settings = {"device": "hpu", "kernels": {"attention": "nowhere"}, "threads": 1000, "dtype": "fp4", "quantize": 3}
    result = pg.load(edited(copied, settings=settings)).run()
    threads = result.record["settings"]["threads"]
    assert result.warnings == [
        "device: made with hpu, this run uses cpu",
        "dtype: made with fp4, this run uses auto",
        "kernels: made with attention=nowhere, this run uses auto",
        f"threads: made with 1000, this run uses {threads} (OMP_NUM_THREADS=1000 gives the same)",
    ]


def test_a_changed_file_is_named_with_both_hashes(copied: Path) -> None:
    before = pg.load(copied).run()
    Image.new("RGB", (8, 8), "blue").save("hint.png")
    after = pg.load(copied).run()
    old, new = (result.record["files"]["load.image"][:12] for result in (before, after))
    assert before.warnings == []
    (warning,) = after.warnings
    assert warning == f'node "load", input "image": "hint.png" has changed: made with SHA-256 {old}…, now {new}…'
    assert pg.load(copied).run({"load.image": Path("hint.png")}).warnings == []  # another name was asked for


def test_a_changed_version_is_named_with_both(copied: Path) -> None:
    versions = {"torch": "1.0", "a-package-of-old": "2"}
    (torch, gone) = pg.load(edited(copied, versions=versions)).run().warnings
    assert torch.startswith("torch: made with 1.0, this is ")
    assert gone == "a-package-of-old: made with 2, this is not installed"


@pytest.mark.parametrize(
    "entry", [{"settings": [1]}, {"files": "x"}, {"versions": {"torch": 2}}, {"files": {"a": "b"}}]
)
def test_what_is_no_record_is_left_out(copied: Path, entry: dict[str, Any]) -> None:
    assert pg.load(edited(copied, **entry)).run().warnings == []
