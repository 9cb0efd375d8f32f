"""What a graph or the header of a file tells is told by ``check``, before anything is loaded."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pipegraph as pg
from pipegraph.memory import show_size, total_memory
from pipegraph.models.paths import EMBEDDED
from pipegraph.models.sampling.schedules import _FROM_TABLE
from pipegraph.nodes.sampling.shared import TABLE_SCHEDULES

FLUX = {"class_type": "UNETLoader", "inputs": {"unet_name": "embedded/flux-tiny-schnell"}}
"""Its table has 1000 noise levels; that of the other shipped one 10,000."""


def problems(**nodes: tuple[str, dict[str, Any]] | dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Node, input, code and message of everything that is wrong with these nodes."""
    found = {
        id: node if isinstance(node, dict) else {"class_type": node[0], "inputs": node[1]} for id, node in nodes.items()
    }
    shows = {f"show_{id}": {"class_type": "PreviewAny", "inputs": {"source": [id, 0]}} for id in nodes}
    try:
        pg.load(found | shows).check()
    except pg.GraphError as error:
        return [(p.node, p.input, p.code, p.message) for p in error.problems]
    return []


@pytest.mark.parametrize(
    ("kind", "low", "high", "inputs"),
    [
        ("ControlNetApplyAdvanced", "start_percent", "end_percent", ("positive", "negative", "control_net", "image")),
        ("SkipLayerGuidanceDiT", "start_percent", "end_percent", ("model",)),
        ("SkipLayerGuidanceDiTSimple", "start_percent", "end_percent", ("model",)),
        ("EasyCache", "start_percent", "end_percent", ("model",)),
        ("Canny", "low_threshold", "high_threshold", ("image",)),
        ("KarrasScheduler", "sigma_min", "sigma_max", ()),
        ("ExponentialScheduler", "sigma_min", "sigma_max", ()),
    ],
)
def test_an_end_before_its_start(kind: str, low: str, high: str, inputs: tuple[str, ...]) -> None:
    links = {name: ["absent", 0] for name in inputs}
    told = problems(a=(kind, {**links, low: 0.8, high: 0.4}))
    assert [(node, name, code) for node, name, code, _ in told if code != "unknown_source"] == [
        ("a", high, "out_of_range")
    ]
    assert not [t for t in problems(a=(kind, {**links, low: 0.4, high: 0.4})) if t[2] != "unknown_source"]


def test_an_end_before_its_start_over_links() -> None:
    numbers = {name: ("PrimitiveFloat", {"value": value}) for name, value in (("low", 0.9), ("high", 0.1))}
    canny = ("Canny", {"image": ["image", 0], "low_threshold": ["low", 0], "high_threshold": ["high", 0]})
    nodes = {"image": ("EmptyImage", {"width": 8, "height": 8}), **numbers, "canny": canny}
    graph = {id: {"class_type": kind, "inputs": inputs} for id, (kind, inputs) in nodes.items()}
    graph["show"] = {"class_type": "PreviewAny", "inputs": {"source": ["canny", 0]}}
    with pytest.raises(pg.RunError, match=r"high_threshold 0\.1 is less than low_threshold 0\.9"):
        pg.load(graph).run()


@pytest.mark.parametrize("scheduler", TABLE_SCHEDULES)
def test_more_steps_than_the_model_has_noise_levels(scheduler: str) -> None:
    def steps(count: Any, model: str = "model") -> list[tuple[str, str, str, str]]:
        sigmas = ("BasicScheduler", {"model": [model, 0], "scheduler": scheduler, "steps": count})
        return problems(model=FLUX, shift=("ModelSamplingFlux", {"model": ["model", 0]}), sigmas=sigmas)

    (told,) = steps(1000)
    assert told == (
        "sigmas",
        "steps",
        "wrong_model",
        f'the schedule "{scheduler}" has 999 noise levels for this model, too few for 1000 steps',
    )
    assert not steps(999) and not steps("auto")
    assert not steps(9999, "shift") and steps(10000, "shift")


def test_the_schedules_of_a_table_are_those_of_the_models() -> None:
    assert set(TABLE_SCHEDULES) == _FROM_TABLE


@pytest.mark.parametrize("sigmas", ["1, x", "0.5, 1", "1, 1, 0", "1, nan", "1, -0.1", "inf, 0"])
def test_sigmas_that_do_not_fall(sigmas: str) -> None:
    ((node, name, code, _),) = problems(a=("ManualSigmas", {"sigmas": sigmas}))
    assert (node, name, code) == ("a", "sigmas", "bad_value")


BIG = {"width": 16384, "height": 16384}


@pytest.mark.parametrize(
    ("kind", "inputs", "size"),
    [
        ("EmptyImage", {**BIG, "batch_size": 4096}, 4096 * 16384**2 * 3 * 4),
        ("EmptyLatentImage", {**BIG, "batch_size": 4096}, 4096 * 2048**2 * 4 * 4),
        ("EmptySD3LatentImage", {**BIG, "batch_size": 4096}, 4096 * 2048**2 * 16 * 4),
        ("EmptyHunyuanLatentVideo", {**BIG, "length": 16381}, 4096 * 2048**2 * 16 * 4),
        ("EmptyARVideoLatent", {**BIG, "length": 16381}, 4096 * 2048**2 * 16 * 4),
        ("EmptyHunyuanVideo15Latent", {**BIG, "length": 16381}, 4096 * 1024**2 * 32 * 4),
        ("EmptyLTXVLatentVideo", {**BIG, "length": 16377, "batch_size": 8}, 8 * 2048 * 512**2 * 128 * 4),
    ],
)
def test_what_no_memory_holds(kind: str, inputs: dict[str, int], size: int) -> None:
    ((node, _, code, message),) = problems(a=(kind, inputs))
    assert (node, code) == ("a", "no_memory")
    assert message == f"its output takes {show_size(size)} of memory, this machine has {show_size(total_memory())}"
    assert not problems(a=(kind, {name: 1 if name == "length" or "batch" in name else 64 for name in inputs}))


def test_what_is_scaled_beyond_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """16384 x 16384 pixels are 3 GiB, which some machines have."""
    monkeypatch.setattr("pipegraph.runtime.auto.total_memory", lambda: 1 << 29)
    image = ("EmptyImage", {"width": 8, "height": 8})
    exact = {"resize_type": "scale dimensions", "resize_type.width": 16384, "resize_type.height": 16384}
    told = problems(
        image=image,
        a=("ImageScale", {"image": ["image", 0], **BIG}),
        b=("ResizeImageMaskNode", {"input": ["image", 0], **exact}),
        c=("SolidMask", BIG),
        d=("ImageScale", {"image": ["image", 0], "width": ["n", 0], "height": 16384}),  # not known before it runs
        n=("PrimitiveInt", {"value": 16384}),
    )
    assert sorted((node, code) for node, _, code, _ in told) == [(id, "no_memory") for id in "abc"]


@pytest.mark.parametrize(
    ("folder", "kind", "input", "of"),
    [
        ("checkpoints", "CheckpointLoaderSimple", "ckpt_name", "flux-tiny"),
        ("diffusion_models", "UNETLoader", "unet_name", "flux-tiny/transformer"),
        ("text_encoders", "CLIPLoader", "clip_name", "flux-tiny/text_encoder"),
        ("vae", "VAELoader", "vae_name", "flux-tiny/vae"),
        ("controlnet", "ControlNetLoader", "control_net_name", "controlnet/flux-tiny-edges"),
        ("llm", "LoadLLM", "llm_name", "prompt-writer"),
    ],
)
def test_a_file_that_is_cut_off(
    folder: str, kind: str, input: str, of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    shutil.copytree(EMBEDDED / of, tmp_path / folder / "cut")
    for file in (tmp_path / folder / "cut").rglob("*.safetensors"):
        file.write_bytes(file.read_bytes()[:-4])
    ((node, name, code, message),) = problems(a=(kind, {input: "cut"}))
    assert (node, name, code) == ("a", input, "damaged_file") and "is cut off" in message


def test_none_of_it_needs_torch(tmp_path: Path) -> None:
    """A LoRA, a schedule and sizes are looked at by ``validate``."""
    graph = {
        "model": FLUX,
        "lora": {
            "class_type": "LoraLoaderModelOnly",
            "inputs": {"model": ["model", 0], "lora_name": "lora.safetensors"},
        },
        "sigmas": {"class_type": "BasicScheduler", "inputs": {"model": ["lora", 0], "steps": 5000}},
        "image": {"class_type": "EmptyImage", "inputs": {**BIG, "batch_size": 4096}},
        "a": {"class_type": "PreviewAny", "inputs": {"source": ["sigmas", 0]}},
        "b": {"class_type": "PreviewAny", "inputs": {"source": ["image", 0]}},
    }
    header = json.dumps({"blocks.0.x.lora_A.weight": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}).encode()
    (tmp_path / "loras").mkdir()
    (tmp_path / "loras/lora.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    (tmp_path / "graph.json").write_text(json.dumps(graph))
    code = (
        "import atexit, sys; from pipegraph.cli import main\n"
        "atexit.register(lambda: print('torch' in sys.modules))\n"
        "main(['validate', 'graph.json', '--json'])"
    )
    environment = {"PIPEGRAPH_MODELS": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env={**os.environ, **environment}
    )
    told, torch = done.stdout.splitlines()
    assert torch == "False" and done.returncode == 2
    assert sorted(p["node"] for p in json.loads(told)["problems"]) == ["image", "lora", "sigmas"]
