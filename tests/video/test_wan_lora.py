"""LoRAs for Wan in every spelling, and ComfyUI's template with two experts and a LoRA for each."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import pipegraph as pg
from pipegraph.models.adapters.lora import LoraError, active, load_lora
from pipegraph.models.families import FAMILIES

from . import tiny
from .conftest import frames_of
from .test_wan import NEGATIVE, PROMPT

RANK, ALPHA, STRENGTH = 2, 3.0, 0.7


def factors(network: nn.Module) -> dict[str, tuple[Tensor, Tensor]]:
    """Up and down for every linear layer of the blocks and around them."""
    g = torch.Generator().manual_seed(2)
    return {
        name: (
            torch.randn(m.out_features, RANK, generator=g) * 0.1,
            torch.randn(RANK, m.in_features, generator=g) * 0.1,
        )
        for name, m in network.named_modules()
        if isinstance(m, nn.Linear)
    }


def stems(layers: list[str], style: str) -> dict[str, str]:
    """Layer -> what its keys begin with, by the test's own table of the original's names."""
    if style == "peft":
        return {name: f"transformer.{name}" for name in layers}
    original = tiny.to_original({f"{name}.weight": torch.tensor(i) for i, name in enumerate(layers)})
    found = {layers[int(i)]: name.removesuffix(".weight") for name, i in original.items()}
    if style == "kohya":
        return {k: "lora_unet_" + v.replace(".", "_") for k, v in found.items()}
    return {k: f"diffusion_model.{v}" for k, v in found.items()}


def write(path: Path, network: nn.Module, style: str) -> Path:
    made = factors(network)
    prefixes = stems(list(made), style)
    down, up = ("lora_A", "lora_B") if style == "peft" else ("lora_down", "lora_up")
    tensors: dict[str, Tensor] = {}
    for name, (b, a) in made.items():
        tensors |= {f"{prefixes[name]}.{down}.weight": a, f"{prefixes[name]}.{up}.weight": b}
        if style != "peft":
            tensors[f"{prefixes[name]}.alpha"] = torch.tensor(ALPHA)
    save_file({k: v.contiguous() for k, v in tensors.items()}, path)
    return path


def output(network: nn.Module) -> Tensor:
    g = torch.Generator().manual_seed(4)
    with torch.no_grad():
        found: Tensor = network(
            hidden_states=torch.randn(1, 16, 2, 4, 4, generator=g),
            timestep=torch.tensor([500.0]),
            encoder_hidden_states=torch.randn(1, 6, 32, generator=g),
            return_dict=False,
        )[0]
    return found


@pytest.mark.parametrize("style", ["comfyui", "kohya", "peft"])
def test_every_spelling_equals_edited_weights(load: Any, wan: Path, tmp_path: Path, style: str) -> None:
    network = load(wan)[0].loaded.network
    lora = load_lora(write(tmp_path / "x.safetensors", network, style), network, FAMILIES["wan"])
    edited = copy.deepcopy(network)
    scale = 1.0 if style == "peft" else ALPHA / RANK
    for name, (up, down) in factors(network).items():
        edited.get_submodule(name).weight += STRENGTH * scale * up @ down
    plain, expected = output(network), output(edited)
    with active(network, [(lora, STRENGTH)]):
        found = output(network)
    assert (found - expected).abs().max() < 1e-4 and (found - plain).abs().max() > 1e-2


def test_differences_of_norms_biases_and_tables(load: Any, wan: Path, tmp_path: Path) -> None:
    """As lightx2v's files have them beside the factors."""
    model = load(wan)[0]
    network = model.loaded.network
    g = torch.Generator().manual_seed(6)
    changes = {
        name: torch.randn(p.shape, generator=g) * 0.1
        for name, p in network.named_parameters()
        if p.ndim == 1 or "scale_shift_table" in name or name in ("patch_embedding.weight", "proj_out.weight")
    }
    keys = {}
    for name, change in tiny.to_original(changes).items():
        stem, _, kind = name.rpartition(".")
        keys[f"diffusion_model.{name if kind == 'modulation' else stem}.diff{'_b' if kind == 'bias' else ''}"] = change
    save_file(keys, tmp_path / "x.safetensors")
    lora = load_lora(tmp_path / "x.safetensors", network, FAMILIES["wan"])
    assert lora.differences.keys() == changes.keys() and not lora.layers
    before = {name: p.clone() for name, p in network.named_parameters()}
    edited = copy.deepcopy(network)
    for name, change in changes.items():
        edited.get_parameter(name).add_(2 * STRENGTH * change)
    adapted = model.with_lora(lora, STRENGTH).with_lora(lora, STRENGTH).loaded.network  # they add up
    assert (output(adapted) - output(edited)).abs().max() < 1e-4
    assert all(torch.equal(p, before[name]) for name, p in network.named_parameters())
    shared = {p.data_ptr() for p in network.parameters()} & {p.data_ptr() for p in adapted.parameters()}
    assert len(shared) == len(before) - len(changes)
    save_file(keys | {"diffusion_model.blocks.0.norm9.diff": torch.zeros(1)}, tmp_path / "y.safetensors")
    with pytest.raises(LoraError, match=r"1 of \d+ keys fit nothing"):
        load_lora(tmp_path / "y.safetensors", network, FAMILIES["wan"])
    save_file(keys | {"diffusion_model.blocks.0.norm3.diff": torch.zeros(1)}, tmp_path / "z.safetensors")
    with pytest.raises(LoraError, match="is no difference of"):
        load_lora(tmp_path / "z.safetensors", network, FAMILIES["wan"])


def expert(number: int, which: str) -> dict[str, Any]:
    """A network with its LoRA behind a switch, nodes ``number`` to ``number + 3``."""
    return {
        f"{number}": {
            "class_type": "UNETLoader",
            "inputs": {"unet_name": f"wan2.2_t2v_{which}_noise_14B_fp8_scaled.safetensors", "weight_dtype": "default"},
        },
        f"{number + 1}": {
            "class_type": "LoraLoaderModelOnly",
            "inputs": {
                "model": [f"{number}", 0],
                "strength_model": 1.0,
                "lora_name": f"wan2.2_t2v_lightx2v_4steps_lora_v1.1_{which}_noise.safetensors",
            },
        },
        f"{number + 2}": {
            "class_type": "ComfySwitchNode",
            "inputs": {"switch": ["1", 0], "on_false": [f"{number}", 0], "on_true": [f"{number + 1}", 0]},
        },
        f"{number + 3}": {"class_type": "ModelSamplingSD3", "inputs": {"model": [f"{number + 2}", 0], "shift": 5.0}},
    }


def switch(on_false: str, on_true: str) -> dict[str, Any]:
    return {
        "class_type": "ComfySwitchNode",
        "inputs": {"switch": ["1", 0], "on_false": [on_false, 0], "on_true": [on_true, 0]},
    }


def sampler(model: str, latent: str, first: bool) -> dict[str, Any]:
    inputs: dict[str, Any] = {
        "model": [model, 0],
        "positive": ["6", 0],
        "negative": ["7", 0],
        "latent_image": [latent, 0],
        "noise_seed": 5 if first else 0,
        "steps": ["40", 0],
        "cfg": ["42", 0],
        "sampler_name": "euler",
        "scheduler": "simple",
        "add_noise": "enable" if first else "disable",
        "start_at_step": 0 if first else ["41", 1],
        "end_at_step": ["41", 1] if first else 10000,
        "return_with_leftover_noise": "enable" if first else "disable",
    }
    return {"class_type": "KSamplerAdvanced", "inputs": inputs}


GRAPH: dict[str, Any] = {  # the nodes and files of ComfyUI's template video_wan2_2_14B_t2v
    "1": {"class_type": "PrimitiveBoolean", "inputs": {"value": True}},
    **expert(10, "high"),
    **expert(20, "low"),
    "30": {
        "class_type": "CLIPLoader",
        "inputs": {"clip_name": "umt5_xxl_fp8_e4m3fn_scaled.safetensors", "type": "wan", "device": "default"},
    },
    "31": {"class_type": "VAELoader", "inputs": {"vae_name": "wan_2.1_vae.safetensors"}},
    "36": {"class_type": "PrimitiveInt", "inputs": {"value": 20}},
    "37": {"class_type": "PrimitiveInt", "inputs": {"value": 4}},
    "38": {"class_type": "PrimitiveFloat", "inputs": {"value": 3.5}},
    "39": {"class_type": "PrimitiveFloat", "inputs": {"value": 1.0}},
    "40": switch("36", "37"),
    "42": switch("38", "39"),
    "41": {"class_type": "ComfyMathExpression", "inputs": {"expression": "a / 2", "values.a": ["40", 0]}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["30", 0], "text": PROMPT}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["30", 0], "text": NEGATIVE}},
    "50": {
        "class_type": "EmptyHunyuanLatentVideo",
        "inputs": {"width": 32, "height": 48, "length": 5, "batch_size": 1},
    },
    "51": sampler("13", "50", True),
    "52": sampler("23", "51", False),
    "8": {"class_type": "VAEDecode", "inputs": {"samples": ["52", 0], "vae": ["31", 0]}},
    "60": {"class_type": "CreateVideo", "inputs": {"images": ["8", 0], "fps": 16}},
    "61": {
        "class_type": "SaveVideo",
        "inputs": {"video": ["60", 0], "filename_prefix": "video/ComfyUI", "format": "mp4", "codec": "auto"},
    },
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wan22")
    torch.manual_seed(5)
    second = tiny.transformer()
    tiny.make(folder / "pipe", transformer_2=second, boundary_ratio=0.875)
    names = [f"wan2.2_t2v_{which}_noise_14B_fp8_scaled.safetensors" for which in ("high", "low")]
    tiny.comfyui_files(folder / "pipe", folder / "models", *names)
    (folder / "models/loras").mkdir()
    for which, style in (("high", "comfyui"), ("low", "kohya")):
        name = f"wan2.2_t2v_lightx2v_4steps_lora_v1.1_{which}_noise.safetensors"
        write(folder / "models/loras" / name, second, style)
    return folder / "models"


def test_comfyuis_template_with_two_experts_runs(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(models))
    made = {}
    for fast in (True, False):
        graph = json.loads(json.dumps(GRAPH))
        graph["1"]["inputs"]["value"] = fast
        graph["36"]["inputs"]["value"] = 2
        result = pg.load(graph, out=tmp_path / str(fast)).run()
        ran = result.timings.keys()
        assert ("11" in ran) == ("21" in ran) == fast  # the LoRAs are read where they are used
        notes = [note["sampling"] for id, note in result.notes.items() if id in ("51", "52")]
        assert [n["steps"] for n in notes] == ([2, 2] if fast else [1, 1])
        if fast:
            assert all(result.notes[id]["lora"]["keys"] == result.notes[id]["lora"]["of"] for id in ("11", "21"))
        made[fast] = frames_of(result.files)
    assert made[True].shape == made[False].shape == (5, 48, 32, 3)
    assert not torch.equal(made[True], made[False])
