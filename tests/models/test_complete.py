"""Headers tell of diffusion networks and VAEs whose tensors are missing or have no place, before one is read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from pipegraph.models import paths
from pipegraph.models.checkpoints.parts import part, parts
from pipegraph.models.loading.complete import listed
from pipegraph.models.loading.header_values import LoadError
from pipegraph.models.loading.networks import build

WEIGHTS = "diffusion_pytorch_model.safetensors"
CPU = torch.device("cpu")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A copy of the shipped model."""
    return Path(shutil.copytree(paths.EMBEDDED / "flux-tiny", tmp_path / "model"))


def change(file: Path, edit: Callable[[dict[str, Tensor]], Any]) -> None:
    tensors = load_file(file)
    edit(tensors)
    save_file(tensors, file)


@pytest.mark.parametrize(
    "gone", ["single_transformer_blocks.2.proj_out.bias", "single_transformer_blocks.3.", "transformer_blocks.0."]
)
def test_a_missing_part_of_a_block_is_named(model: Path, gone: str) -> None:
    def edit(tensors: dict[str, Tensor]) -> None:
        for name in [n for n in tensors if n.startswith(gone)]:
            del tensors[name]

    change(model / "transformer" / WEIGHTS, edit)
    with pytest.raises(LoadError, match=rf"tensors of FluxTransformer2DModel are missing: {gone}"):
        parts(model)


def test_a_block_that_the_config_does_not_know_is_named(model: Path) -> None:
    file = model / "transformer" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"num_single_layers": 3}))
    with pytest.raises(LoadError, match=r"have no place in FluxTransformer2DModel: single_transformer_blocks\.3\.\*"):
        parts(model)


@pytest.mark.parametrize(
    ("sub", "file"), [("vae", WEIGHTS), ("text_encoder", "model.safetensors"), ("text_encoder_2", "model.safetensors")]
)
def test_no_surplus_tensor_is_ignored(model: Path, sub: str, file: str) -> None:
    kind = {"vae": "vae", "text_encoder": "clip", "text_encoder_2": "t5"}[sub]
    build(part(model, kind), CPU, torch.float32)
    change(model / sub / file, lambda tensors: tensors.update({"surplus.weight": torch.zeros(3)}))
    with pytest.raises(LoadError, match=r"tensors have no place in \w+: surplus\.weight"):
        build(part(model, kind), CPU, torch.float32)


def test_all_that_does_not_fit_is_one_error(model: Path) -> None:
    def edit(tensors: dict[str, Tensor]) -> None:
        del tensors["proj_out.weight"]
        tensors["extra"] = torch.zeros(1)
        tensors["proj_out.bias"] = torch.zeros(3)
        tensors["context_embedder.bias"] = torch.zeros(192, dtype=torch.int8)

    change(model / "transformer" / WEIGHTS, edit)
    with pytest.raises(LoadError) as raised:
        build(part(model, "transformer"), CPU, torch.float32)
    for text in (
        "missing: proj_out.weight",
        "no place in FluxTransformer2DModel: extra",
        "`proj_out.bias` is [3]",
        "whole numbers without a scale: context_embedder.bias",
    ):
        assert text in str(raised.value)


def test_long_lists_are_counted() -> None:
    assert listed(list("abcde")) == "a, b, c, d, e" and listed(list("abcdefg")) == "a, b, c, d, e and 2 more"
