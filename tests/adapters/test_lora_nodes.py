"""LoraLoader and LoraLoaderModelOnly in graphs on the shipped model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

import pipegraph as pg
from pipegraph.models import paths

from ..context import Context

SHIPPED = paths.EMBEDDED / "flux-tiny"


def shape(part: str, layer: str) -> tuple[int, int]:
    """(outputs, inputs) of a layer of the shipped model."""
    file = next((SHIPPED / part).glob("*.safetensors"))
    with safe_open(file, "pt") as tensors:
        name = next(k for k in tensors.keys() if k.removeprefix("text_model.") == f"{layer}.weight")
        n, k = tensors.get_slice(name).get_shape()
        return n, k


def pair(prefix: str, part: str, layer: str, seed: int) -> dict[str, Tensor]:
    gen = torch.Generator().manual_seed(seed)
    n, k = shape(part, layer)
    return {
        f"{prefix}.{layer}.lora_A.weight": torch.randn(4, k, generator=gen) * 0.2,
        f"{prefix}.{layer}.lora_B.weight": torch.randn(n, 4, generator=gen) * 0.2,
    }


@pytest.fixture
def loras(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model folder with a LoRA for the network, one for network and text encoder, and one of something else."""
    folder = tmp_path / "models" / "loras"
    folder.mkdir(parents=True)
    network = pair("transformer", "transformer", "transformer_blocks.0.ff.net.2", 1)
    clip = pair("text_encoder", "text_encoder", "encoder.layers.0.mlp.fc1", 2)
    save_file(network, folder / "network.safetensors")
    save_file(network | clip, folder / "both.safetensors")
    save_file({f"lora_unet_input_blocks_{k}": v for k, v in network.items()}, folder / "sd15.safetensors")
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path / "models"))
    return folder


def graph(tmp_path: Path, lora: dict[str, Any] | None) -> Any:
    model = ["lora", 0] if lora else ["ckpt", "MODEL"]
    clip = ["lora", 1] if lora and lora["class_type"] == "LoraLoader" else ["ckpt", "CLIP"]
    nodes: dict[str, Any] = {
        "ckpt": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "embedded/flux-tiny"}},
        "text": {"class_type": "CLIPTextEncode", "inputs": {"clip": clip, "text": "a red apple"}},
        "size": {"class_type": "EmptySD3LatentImage", "inputs": {"width": 64, "height": 64, "batch_size": 1}},
        "noise": {"class_type": "RandomNoise", "inputs": {"noise_seed": 3}},
        "guide": {"class_type": "BasicGuider", "inputs": {"model": model, "conditioning": ["text", 0]}},
        "sampler": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "euler"}},
        "sigmas": {
            "class_type": "BasicScheduler",
            "inputs": {"model": model, "scheduler": "simple", "steps": 2, "denoise": 1.0},
        },
        "sample": {
            "class_type": "SamplerCustomAdvanced",
            "inputs": {
                "noise": ["noise", 0],
                "guider": ["guide", 0],
                "sampler": ["sampler", 0],
                "sigmas": ["sigmas", 0],
                "latent_image": ["size", 0],
            },
        },
    }
    if lora:
        sources = {"model": ["ckpt", "MODEL"]}
        sources |= {"clip": ["ckpt", "CLIP"]} if lora["class_type"] == "LoraLoader" else {}
        nodes["lora"] = {"class_type": lora["class_type"], "inputs": sources | lora["inputs"]}
    outputs = {"latent": ["sample", 0], "text": ["text", 0]}
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"pipegraph": 1, "nodes": nodes, "outputs": outputs}))
    return pg.load(path, out=tmp_path / "out").run()


def latent(result: Any) -> Tensor:
    samples: Tensor = result["latent"]["samples"]
    return samples


def test_model_only(tmp_path: Path, loras: Path) -> None:
    def run(strength: float) -> Any:
        inputs = {"lora_name": "network.safetensors", "strength_model": strength}
        return graph(tmp_path, {"class_type": "LoraLoaderModelOnly", "inputs": inputs})

    base, with_lora = latent(graph(tmp_path, None)), run(1.0)
    assert (latent(with_lora) - base).abs().max() > 1e-2
    assert torch.equal(latent(run(0.0)), base)
    assert '"keys": 2, "of": 2' in json.dumps(with_lora.record)


def test_model_and_text_encoders(tmp_path: Path, loras: Path) -> None:
    def run(model: float, clip: float, name: str = "both.safetensors") -> Any:
        inputs = {"lora_name": name, "strength_model": model, "strength_clip": clip}
        return graph(tmp_path, {"class_type": "LoraLoader", "inputs": inputs})

    base, neither = graph(tmp_path, None), run(0.0, 0.0)
    assert torch.equal(latent(neither), latent(base))
    only_text, only_model, both = run(0.0, 1.0), run(1.0, 0.0), run(1.0, 1.0)

    def pooled(result: Any) -> Tensor:
        vector: Tensor = result["text"][0][1]["pooled_output"]
        return vector

    assert torch.equal(pooled(only_model), pooled(base)) and not torch.allclose(pooled(only_text), pooled(base))
    found = [latent(r) for r in (base, only_text, only_model, both)]
    assert all(not torch.equal(a, b) for i, a in enumerate(found) for b in found[:i])
    assert torch.equal(latent(run(1.0, 1.0, "network.safetensors")), latent(only_model))  # has no text encoder keys


@pytest.mark.parametrize("kind", ["LoraLoader", "LoraLoaderModelOnly"])
def test_a_lora_of_another_model_is_told_before_anything_runs(tmp_path: Path, loras: Path, kind: str) -> None:
    inputs = {"lora_name": "sd15.safetensors"} | ({"clip": ["ckpt", "CLIP"]} if kind == "LoraLoader" else {})
    with pytest.raises(pg.GraphError, match=r'node "lora".*none of its 2 keys fits this model \(FLUX\.1\)'):
        graph(tmp_path, {"class_type": kind, "inputs": inputs})
    nothing = {"strength_model": 0.0} | ({"strength_clip": 0.0} if kind == "LoraLoader" else {})
    graph(tmp_path, {"class_type": kind, "inputs": inputs | nothing})  # is not read


def test_another_kind_of_adapter_is_told_before_anything_runs(tmp_path: Path, loras: Path) -> None:
    save_file({"lora_unet_x.lokr_w1": torch.zeros(2, 2)}, loras / "lokr.safetensors")
    with pytest.raises(pg.GraphError, match="LoKr, which is not supported"):
        graph(tmp_path, {"class_type": "LoraLoaderModelOnly", "inputs": {"lora_name": "lokr.safetensors"}})


def test_a_file_without_keys_of_a_lora_is_refused_before_anything_runs(tmp_path: Path, loras: Path) -> None:
    save_file({"position_ids": torch.zeros(2)}, loras / "other.safetensors")
    with pytest.raises(pg.GraphError, match=r"none of its 1 keys fits this model.*no LoRA; e.g. position_ids"):
        graph(tmp_path, {"class_type": "LoraLoaderModelOnly", "inputs": {"lora_name": "other.safetensors"}})


def test_a_lora_that_is_cut_off_is_told_before_anything_runs(tmp_path: Path, loras: Path) -> None:
    data = (loras / "network.safetensors").read_bytes()
    (loras / "network.safetensors").write_bytes(data[:-4])
    with pytest.raises(pg.GraphError, match="is cut off"):
        graph(tmp_path, {"class_type": "LoraLoaderModelOnly", "inputs": {"lora_name": "network.safetensors"}})


def test_text_encoder_keys_without_a_text_encoder_are_told(tmp_path: Path, loras: Path) -> None:
    inputs = {"lora_name": "both.safetensors", "strength_model": 1.0}
    result = graph(tmp_path, {"class_type": "LoraLoaderModelOnly", "inputs": inputs})
    assert "2 keys for clip_l" in json.dumps(result.record)


def test_an_alpha_that_nothing_says_is_said_aloud(tmp_path: Path, loras: Path) -> None:
    from pipegraph.models.checkpoints.load import load_model
    from pipegraph.models.loading.place import Place
    from pipegraph.nodes.loaders.lora import _files, load_lora_model_only

    place, context = Place(torch.device("cpu"), torch.float32), Context(tmp_path, tmp_path)
    model = load_model("embedded/flux-tiny", place)
    load_lora_model_only(model, "network.safetensors", context)
    assert context.warnings == [
        "LoRA network.safetensors: no alpha for 1 layers: taken as the rank, a scale of 1, which may be too strong"
    ]
    context.warnings.clear()
    load_lora_model_only(model, "embedded/flux-tiny-flat.safetensors", context)
    assert not context.warnings
    folder = loras / "peft"
    folder.mkdir()
    (loras / "network.safetensors").rename(folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text('{"r": 4, "lora_alpha": 2}')
    assert [f.name for f in _files("peft")] == ["adapter_model.safetensors", "adapter_config.json"]  # both are hashed
    load_lora_model_only(model, "peft", context)
    assert not context.warnings
    for broken in ("{", '{"r": 4, "lora_alpha": "x"}'):
        (folder / "adapter_config.json").write_text(broken)
        with pytest.raises(LookupError, match=r"LoRA adapter_model\.safetensors: adapter_config\.json"):
            _files("peft")  # what validate asks
