"""Quantizing in a graph and by the run's own setting: said, recorded, and in the cache key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import pipegraph as pg
from pipegraph.api import QUANTIZE
from pipegraph.cli import main
from pipegraph.models.quantize import FORMATS
from pipegraph.runtime.errors import GraphError

SIZE = {"class_type": "EmptySD3LatentImage", "inputs": {"width": 64, "height": 64, "batch_size": 1}}


def graph(loader: dict[str, Any], quantize: str = "") -> dict[str, Any]:
    """A picture's latent in one step of the shipped model."""
    model, clip = ["model", 0], ["clip", 1]
    nodes: dict[str, Any] = {
        "model": loader,
        "clip": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "embedded/flux-tiny"}},
        "size": SIZE,
    }
    if quantize:
        nodes["q"] = {"class_type": "QuantizeModel", "inputs": {"model": model, "format": quantize}}
        nodes["qc"] = {"class_type": "QuantizeCLIP", "inputs": {"clip": clip, "format": quantize}}
        model, clip = ["q", 0], ["qc", 0]
    nodes["text"] = {"class_type": "CLIPTextEncode", "inputs": {"clip": clip, "text": "a red apple"}}
    nodes["sample"] = {
        "class_type": "KSampler",
        "inputs": {
            "model": model,
            "seed": 3,
            "steps": 1,
            "cfg": 1.0,
            "sampler_name": "euler",
            "scheduler": "simple",
            "positive": ["text", 0],
            "negative": ["text", 0],
            "latent_image": ["size", 0],
            "denoise": 1.0,
        },
    }
    return {"pipegraph": 1, "nodes": nodes, "outputs": {"latent": ["sample", 0]}}


def unet(weight_dtype: str = "default") -> dict[str, Any]:
    return {"class_type": "UNETLoader", "inputs": {"unet_name": "embedded/flux-tiny", "weight_dtype": weight_dtype}}


def latent(result: Any) -> torch.Tensor:
    found: torch.Tensor = result["latent"]["samples"]
    return found


def test_as_a_node_and_as_a_setting(tmp_path: Path) -> None:
    exact = pg.load(graph(unet()), out=tmp_path).run()
    node = pg.load(graph(unet(), "q8"), out=tmp_path).run()
    setting = pg.load(graph(unet()), out=tmp_path, quantize="q8").run()
    assert torch.equal(latent(node), latent(setting))
    off = (latent(node) - latent(exact)).norm() / latent(exact).norm()
    assert 0 < off < 0.05
    noted = node.record["notes"]
    assert len(noted["q"]["weights"]["model"]["float32"]) == 16 and set(noted["qc"]["weights"]) == {"clip_l", "t5xxl"}
    assert setting.record["notes"]["model"]["weights"] == noted["q"]["weights"]
    assert [r.record["settings"]["quantize"] for r in (exact, node, setting)] == ["", "", "q8"]
    assert "weights" not in exact.record["notes"].get("model", {})


def test_keys_differ_by_format() -> None:
    keys = {q: [s.key for s in pg.load(graph(unet()), quantize=q).plan().steps] for q in ("", "q8", "w4")}
    assert all(len({*column}) == 3 for column in zip(*keys.values(), strict=True))


def test_fp8_of_the_loader_is_fp8(tmp_path: Path) -> None:
    result = pg.load(graph(unet("fp8_e4m3fn")), out=tmp_path).run()
    told = result.record["notes"]["model"]["weights"]["model"]
    assert {k: len(v) for k, v in told.items()} == {"float32": 16, "fp8": 44} and not result.record["run"]["warnings"]


def test_the_formats_are_those_of_the_models() -> None:
    assert QUANTIZE == ("none", *FORMATS)


def test_a_format_that_is_none() -> None:
    with pytest.raises(GraphError, match="quantize cannot be used"):
        pg.load(graph(unet()), quantize="q3")


def test_the_command_says_what_was_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["run", "flux", "--prompt", "a red apple", "--seed", "1", "--set", "sample.steps=1", "--quantize", "w4"]
    with pytest.raises(SystemExit) as left:
        main([*call, "--out", str(tmp_path)])
    said = capsys.readouterr().err
    assert not left.value.code, said
    assert "weights of model: float32: 16 layers; w4, groups of 32: 44 layers" in said
    assert "weights of t5xxl: w4, groups of 32: 14 layers" in said
