"""A file of ComfyUI's editor runs on the shipped model, with the pixels of the same graph written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import pipegraph as pg
from pipegraph.cli import main

from ..graphs.editor_files import file, node, subgraph

SAMPLE = [0, "randomize", 2, 1, "euler", "simple", 1]

INSIDE = subgraph(
    "4f3f2a52-7b0c-4c8e-9a53-95c1f1b1a001",
    [
        node(1, "CheckpointLoaderSimple", [], ["MODEL", "CLIP", "VAE"], widgets_values=["embedded/flux-tiny"]),
        node(2, "CLIPTextEncode", ["clip CLIP 2", "text STRING * 10"], ["CONDITIONING"], widgets_values=["a dog"]),
        node(3, "ConditioningZeroOut", ["conditioning CONDITIONING 4"], ["CONDITIONING"]),
        node(4, "FluxGuidance", ["conditioning CONDITIONING 5"], ["CONDITIONING"], mode=4, widgets_values=[9]),
        node(5, "EmptySD3LatentImage", ["width INT * 11", "height INT * 12"], ["LATENT"], widgets_values=[16, 16, 1]),
        node(6, "PrimitiveNode", [], ["INT"], widgets_values=[48, "fixed"]),
        node(
            7,
            "KSampler",
            [
                "model MODEL 1",
                "positive CONDITIONING 6",
                "negative CONDITIONING 7",
                "latent_image LATENT 8",
                "seed INT * 13",
            ],
            ["LATENT"],
            title="Draw",
            widgets_values=SAMPLE,
        ),
        node(8, "Reroute", ["x VAE 3"], ["VAE"]),
        node(9, "VAEDecode", ["samples LATENT 9", "vae VAE 14"], ["IMAGE"]),
        node(10, "MarkdownNote", widgets_values=["# Hello"]),
    ],
    [
        "1 1 0 7 0 MODEL",
        "2 1 1 2 0 CLIP",
        "3 1 2 8 0 VAE",
        "4 2 0 3 0 CONDITIONING",
        "5 2 0 4 0 CONDITIONING",
        "6 4 0 7 1 CONDITIONING",
        "7 3 0 7 2 CONDITIONING",
        "8 5 0 7 3 LATENT",
        "9 7 0 9 0 LATENT",
        "10 -10 0 2 1 STRING",
        "11 6 0 5 0 INT",
        "12 -10 1 5 1 INT",
        "13 -10 2 7 4 INT",
        "14 8 0 9 1 VAE",
        "15 9 0 -20 0 IMAGE",
    ],
    ["text STRING 10", "height INT 12", "seed INT 13"],
    ["IMAGE IMAGE 15"],
    name="Text to image",
)
EDITOR = file(
    [
        node(57, INSIDE["id"], ["seed INT *"], ["IMAGE"], widgets_values=["a red apple", 32, 7]),
        node(9, "SaveImage", ["images IMAGE 1"], widgets_values=["editor"]),
        node(13, "ImageInvert", ["image IMAGE"], ["IMAGE"]),
    ],
    ["1 57 0 9 0 IMAGE"],
    subgraphs=[INSIDE],
)
NATIVE: dict[str, Any] = {
    "pipegraph": 1,
    "nodes": {
        "c": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "embedded/flux-tiny"}},
        "p": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["c", 1], "text": "a red apple"}},
        "n": {"class_type": "ConditioningZeroOut", "inputs": {"conditioning": ["p", 0]}},
        "l": {"class_type": "EmptySD3LatentImage", "inputs": {"width": 48, "height": 32, "batch_size": 1}},
        "s": {
            "class_type": "KSampler",
            "inputs": {
                **{"model": ["c", 0], "positive": ["p", 0], "negative": ["n", 0], "latent_image": ["l", 0]},
                **{"seed": 7, "steps": 2, "cfg": 1, "sampler_name": "euler", "scheduler": "simple", "denoise": 1},
            },
        },
        "d": {"class_type": "VAEDecode", "inputs": {"samples": ["s", 0], "vae": ["c", 2]}},
        "o": {"class_type": "SaveImage", "inputs": {"images": ["d", 0], "filename_prefix": "native"}},
    },
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pg.Result]:
    out = tmp_path_factory.mktemp("out")
    documents = {"editor": EDITOR, "native": NATIVE}
    return {name: pg.load(document, out=out, device="cpu").run() for name, document in documents.items()}


def test_the_pixels_are_those_of_the_graph_by_hand(runs: dict[str, pg.Result]) -> None:
    pictures = [Image.open(run.files[0]) for run in runs.values()]
    assert pictures[0].size == (48, 32)
    assert pictures[0].tobytes() == pictures[1].tobytes()


def test_what_was_left_out_is_a_warning(runs: dict[str, pg.Result]) -> None:
    (warning,) = runs["editor"].warnings
    assert 'node "13"' in warning and "left out" in warning
    assert not runs["native"].warnings


def test_the_picture_holds_the_editors_file_and_can_be_run_again(runs: dict[str, pg.Result], tmp_path: Path) -> None:
    path = runs["editor"].files[0]
    texts = Image.open(path).text  # type: ignore[attr-defined]
    assert json.loads(texts["workflow"]) == EDITOR
    assert set(json.loads(texts["prompt"])) == {"57:1", "57:2", "57:3", "57:5", "57:7", "57:9", "9"}
    again = pg.load(path, out=tmp_path, device="cpu").run()
    assert Image.open(again.files[0]).tobytes() == Image.open(path).tobytes()


def test_the_command_line_takes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "editor.json"
    path.write_text(json.dumps(EDITOR))
    with pytest.raises(SystemExit) as ended:
        main(["validate", str(path), "--json"])
    assert ended.value.code == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["valid"] and [note["code"] for note in answer["notes"]] == ["idle_node"]
    with pytest.raises(SystemExit) as ended:
        main(["validate", str(path), "--set", "57:7.steps=0"])
    assert ended.value.code == 2
    assert 'node "57:7" (Text to image / Draw), input "steps"' in capsys.readouterr().err
