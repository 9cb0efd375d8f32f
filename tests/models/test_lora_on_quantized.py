"""A LoRA acts on packed weights as it does on plain ones (a LoRA once put on placeholders or codes did nothing)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from pipegraph.kernels.hooks.modules import KernelLinear
from pipegraph.kernels.ops.linear import PackedWeight
from pipegraph.kernels.weights.gguf_blocks import GgufWeight
from pipegraph.kernels.weights.qweight import QWeight
from pipegraph.models import paths
from pipegraph.models.adapters.lora import active, load_lora
from pipegraph.models.checkpoints.load import load_model, load_text_encoders
from pipegraph.models.families.flux import position_ids
from pipegraph.models.loading.place import Place
from pipegraph.models.model import Model
from pipegraph.models.quantize import quantized_weight, refusal

LORA = paths.EMBEDDED / "loras/flux-tiny-flat.safetensors"
Pack = Callable[[Tensor], PackedWeight]


def blocks(kind: str) -> Pack:
    number = gguf.GGMLQuantizationType[kind]
    return lambda w: GgufWeight(torch.from_numpy(gguf.quantize(w.numpy(), number)), kind)


def int8_file(w: Tensor) -> PackedWeight:
    scale = w.abs().max() / 127
    return QWeight.from_int8((w / scale).round().to(torch.int8), scale)


PACKS: dict[str, Pack] = {
    "q8, rotated": lambda w: quantized_weight(w, "q8"),
    "q8": lambda w: QWeight.quantize(w, "q8"),
    "int8 of one scale": int8_file,
    "fp8": lambda w: quantized_weight(w, "fp8"),
    "fp8 cast": lambda w: quantized_weight(w, "fp8_e4m3fn"),
    "w4": lambda w: quantized_weight(w, "w4"),
    "Q8_0": blocks("Q8_0"),
    "Q4_0": blocks("Q4_0"),
    "Q4_1": blocks("Q4_1"),
}


@pytest.fixture(scope="module")
def model() -> Model:
    return load_model("embedded/flux-tiny", Place(torch.device("cpu"), torch.float32))


@pytest.fixture(scope="module")
def inputs(model: Model) -> dict[str, Tensor]:
    """What the network meets when it draws: prompts as its encoders read them, and states at two noise levels."""
    clip = load_text_encoders("flux", ["embedded/flux-tiny"], Place(torch.device("cpu"), torch.float32))
    prompts = ("a red apple on the beach", "a blue car at night", "a panda", "a yellow star and a green fish")
    found = [clip.encode(clip.tokenize(p))[0] for p in prompts]
    text, pooled = torch.cat([t for t, _ in found]), torch.cat([e["pooled_output"] for _, e in found])
    given = {
        "encoder_hidden_states": text,
        "pooled_projections": pooled,
        "img_ids": position_ids(8, 8),
        "txt_ids": torch.zeros(16, 3),
    }
    x = torch.randn(len(prompts), 64, 64, generator=torch.Generator().manual_seed(0))
    states = []
    for now, then in itertools.pairwise([1.0, 0.8, 0.6, 0.4]):
        states.append((x, torch.full((len(x),), now)))
        x = x + (then - now) * run(model.loaded.network, given | {"hidden_states": x, "timestep": states[-1][1]})
    both = states[0], states[-1]
    twice = {k: v if k.endswith("ids") else torch.cat([v, v]) for k, v in given.items()}
    return twice | {"hidden_states": torch.cat([s for s, _ in both]), "timestep": torch.cat([t for _, t in both])}


@pytest.fixture(scope="module")
def effect(model: Model, inputs: dict[str, Tensor]) -> Tensor:
    """Of the shipped LoRA on the plain weights."""
    return effect_of(model.loaded.network, model, inputs)


def packed(pack: Pack) -> nn.Module:
    network: nn.Module = load_model("embedded/flux-tiny", Place(torch.device("cpu"), torch.float32)).loaded.network
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Linear) and not refusal(type(network).__name__, name, tuple(layer.weight.shape), "q8"):
            KernelLinear.pack(layer, pack(layer.weight.detach()))
    return network


@torch.no_grad()
def run(network: Any, inputs: dict[str, Tensor]) -> Tensor:
    out: Tensor = network(**inputs, return_dict=False)[0]
    return out


def effect_of(network: nn.Module, model: Model, inputs: dict[str, Tensor]) -> Tensor:
    lora = load_lora(LORA, network, model.family)
    with active(network, [(lora, 1.0)]):
        with_lora = run(network, inputs)
    return with_lora - run(network, inputs)


@pytest.mark.parametrize("name", PACKS)
def test_the_shipped_lora_keeps_its_effect(name: str, model: Model, inputs: dict[str, Tensor], effect: Tensor) -> None:
    """The part of the effect on plain weights that is in the effect on packed ones; strength 0 changes no bit."""
    network = packed(PACKS[name])
    found = effect_of(network, model, inputs)
    share = float((found * effect).sum() / (effect * effect).sum())
    assert 0.98 <= share <= 1.02, share
    before = run(network, inputs)
    with active(network, [(load_lora(LORA, network, model.family), 0.0)]):
        assert torch.equal(run(network, inputs), before)


@pytest.mark.parametrize("rank", [1, 7, 48, 512])
@pytest.mark.parametrize("name", ["q8, rotated", "w4", "Q4_0"])
def test_any_rank_and_layers_that_stayed_plain(rank: int, name: str, model: Model, tmp_path: Path) -> None:
    """Each layer's own effect is that of the factors, near to the last bit."""
    layers = {
        "transformer_blocks.0.attn.to_q": (192, 192),
        "transformer_blocks.1.norm1.linear": (1152, 192),
        "single_transformer_blocks.2.proj_out": (192, 960),
    }
    draw = torch.Generator().manual_seed(rank)
    factors = {
        n: (torch.randn(rank, k, generator=draw), torch.randn(m, rank, generator=draw) / rank)
        for n, (m, k) in layers.items()
    }
    save_file(
        {
            f"transformer.{n}.lora_{ab}.weight": t
            for n, pair in factors.items()
            for ab, t in zip("AB", pair, strict=True)
        },
        tmp_path / "x.safetensors",
    )
    network = packed(PACKS[name])
    lora = load_lora(tmp_path / "x.safetensors", network, model.family)
    for layer, (down, up) in factors.items():
        module, x = network.get_submodule(layer), torch.randn(3, down.shape[1], generator=draw)
        before = module(x)
        with active(network, [(lora, 0.5)]):
            found = module(x) - before
        true = 0.5 * x @ down.T @ up.T
        assert (found - true).norm() < 1e-4 * true.norm(), layer
