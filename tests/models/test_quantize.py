"""Networks quantized while they are loaded, and afterwards: which layers, how near, and in how much memory."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from recipes import measure
from recipes.networks import TextToImage
from recipes.score import Pixels, score
from safetensors.torch import save_file
from torch import Tensor, nn

from pipegraph.kernels.weights.qweight import QWeight
from pipegraph.models import paths
from pipegraph.models.checkpoints.load import load_checkpoint, load_model
from pipegraph.models.checkpoints.source import checkpoint
from pipegraph.models.families import FAMILIES
from pipegraph.models.loading.place import Place
from pipegraph.models.quantize import FORMATS, formats, noted, quantized, quantized_weight, refusal

SHIPPED = "embedded/flux-tiny"
PAIRS, PART = 1000, 100
WORKED_ON = 40
"""MB that quantizing may take beside the result."""


@pytest.fixture(scope="module")
def exact() -> Any:
    """(model, text encoders, VAE) of the shipped model in full precision."""
    return load(SHIPPED)


def load(name: str, quantize: str = "") -> Any:
    return load_checkpoint(checkpoint(name), Place(torch.device("cpu"), torch.float32, quantize))


def linears(network: nn.Module) -> dict[str, Any]:
    return {n: m.weight for n, m in network.named_modules() if isinstance(m, nn.Linear)}


def test_the_recipe_keeps_what_is_fragile() -> None:
    flux = FAMILIES["flux"].network.fragile
    for layer in (
        "x_embedder",
        "context_embedder",
        "proj_out",
        "norm_out.linear",
        "transformer_blocks.18.norm1.linear",
        "transformer_blocks.0.norm1_context.linear",
        "single_transformer_blocks.37.norm.linear",
        "time_text_embed.timestep_embedder.linear_1",
    ):
        assert refusal(flux, layer, (3072, 3072), "q8") == "fragile", layer
    for layer in (
        "transformer_blocks.0.attn.to_q",
        "single_transformer_blocks.3.proj_out",
        "transformer_blocks.1.ff.net.2",
        "single_transformer_blocks.0.proj_mlp",
    ):
        assert not refusal(flux, layer, (3072, 3072), "q8"), layer
    assert not refusal((), "encoder.block.0.layer.1.DenseReluDense.wo", (128, 256), "w4")
    for layer in ("patch_embed.proj", "lm_head", "blocks.0.adaLN_modulation.1", "model.layers.0.mlp.gate"):
        assert refusal(None, layer, (8, 8), "q8"), layer
    for layer in ("model.layers.0.mlp.gate_proj", "model.layers.0.self_attn.o_proj", "transformer_blocks.0.attn1.to_q"):
        assert not refusal(None, layer, (8, 8), "q8"), layer
    assert refusal(flux, "transformer_blocks.0.attn.to_q", (3072, 3080), "w4") == "its 3080 columns are no groups of 32"


@pytest.mark.parametrize("format", FORMATS)
def test_while_loading_and_afterwards_are_the_same(format: str, exact: Any) -> None:
    at_once, clip, _ = load(SHIPPED, format)
    later = quantized(exact[0].loaded.network, format)
    one, two = linears(at_once.loaded.network), linears(later)
    assert one.keys() == two.keys()
    for name, weight in one.items():
        if isinstance(weight, QWeight):
            assert weight.meta() == two[name].meta()
            assert all(torch.equal(t, two[name].buffers()[k]) for k, t in weight.buffers().items())
        else:
            assert torch.equal(weight, two[name])
    told = formats(at_once.loaded.network)
    assert told == formats(later) and len(told["float32"]) == 16 and sum(map(len, told.values())) == len(one)
    assert not any(
        isinstance(w, QWeight) for w in linears(exact[0].loaded.network).values()
    )  # the given one is as it was
    assert all(isinstance(w, QWeight) for e in clip.encoders.values() for w in linears(e.loaded.network).values())
    assert at_once.loaded.network.pipegraph_nbytes < sum(t.nbytes for t in exact[0].loaded.network.parameters())
    assert noted({"a": at_once.loaded.network, "b": exact[0].loaded.network}) == {"a": told}


@pytest.mark.parametrize("format", ["q8", "w4", "fp8"])
def test_output_layers_of_language_models_get_8_bits(format: str) -> None:
    network = nn.Module()
    network.body, network.lm_head = nn.Linear(64, 64), nn.Linear(64, 128, bias=False)
    network.embed_tokens = nn.Embedding(128, 64, _weight=network.lm_head.weight)
    made: Any = quantized(network, format)
    assert made.body.weight.format == format
    assert made.embed_tokens.weight is network.embed_tokens.weight
    if format == "fp8":
        assert made.lm_head.weight is network.lm_head.weight
    else:
        assert made.lm_head.weight.format == "q8" and made.lm_head.precision == "exact"


def test_what_is_packed_stays_so(exact: Any) -> None:
    once = quantized(exact[0].loaded.network, "q8")
    assert formats(quantized(once, "w4")) == formats(once)


@pytest.mark.parametrize(
    ("format", "bound"), [("q8", 0.01), ("fp8", 0.04), ("w4", 0.12), ("fp8_e4m3fn", 0.06), ("fp8_e5m2", 0.08)]
)
def test_a_weight_is_as_near_as_its_bits_allow(format: str, bound: float) -> None:
    weight = torch.randn(96, 192, generator=torch.Generator().manual_seed(0)) * 0.02
    weight[:, 5] *= 5  # a column of large values, as real networks have
    found = quantized_weight(weight, format).dequantize(torch.float32)
    assert (found - weight).norm() < bound * weight.norm()


def test_casts_saturate() -> None:
    found = quantized_weight(torch.tensor([[500.0, -1e6, 1.0, 0.0]]), "fp8_e4m3fn").dequantize(torch.float32)
    assert found.tolist() == [[448, -448, 1, 0]]


def test_nothing_changes_while_it_runs() -> None:
    """The same input gives the same output again, and no buffer is written to."""
    model = load_model(SHIPPED, Place(torch.device("cpu"), torch.float32, "q8"))
    before = {n: t.clone() for n, t in model.loaded.network.state_dict().items()}
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(2, 16, 8, 8, generator=draw)
    text = [[torch.randn(1, 16, 128, generator=draw), {"pooled_output": torch.randn(1, 128, generator=draw)}]]
    first, other = model.prepare(text, x), model.prepare(text, x[:1])
    one = model.predict(x, torch.tensor([0.6, 0.6]), first)[0]
    alone = model.predict(x[:1], torch.tensor([0.6]), other)[0]
    assert torch.equal(model.predict(x, torch.tensor([0.6, 0.6]), first)[0], one)
    torch.testing.assert_close(alone, one[:1], rtol=1e-3, atol=1e-3)
    after = model.loaded.network.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(t, after[n]) for n, t in before.items())


def nets(model: Any) -> TextToImage:
    """The networks of a loaded model as the recipe's measurements take them."""
    networks = {name: e.loaded.network for name, e in model[1].encoders.items()}
    return TextToImage(model[0].loaded.network, networks["t5xxl"], networks["clip_l"])


def pictures(model: Any, prompts: list[str], seed: int) -> Pixels:
    """What a loaded model draws of prompts, batched, as it recommends."""
    best = json.loads((paths.EMBEDDED / "flux-tiny/card.json").read_text())["recommend"]
    return measure.draw(
        (nets(model), model[2].loaded.network), prompts, seed, best["steps"], best["cfg"], best["shift"]
    )


def asked(count: int) -> tuple[list[Any], list[str]]:
    """Prompts of all kinds in equal parts, and the scenes behind them."""
    found = [measure.prompts_for(kind, count // 2, 20260101) for kind in ("one object", "unseen pair")]
    return [s for scenes, _ in found for s in scenes], [p for _, prompts in found for p in prompts]


@torch.no_grad()
def test_24_prompts_stay_near(exact: Any) -> None:
    """Latents after 3 steps, by how much they differ."""
    _, prompts = asked(24)
    noise = torch.randn(24, 16, 16, 16, generator=torch.Generator().manual_seed(7))
    found = {f: measure.sample(nets(load(SHIPPED, f)), prompts, noise, [1, 0.8, 0.5, 0.2], 1.0) for f in ("q8", "w4")}
    true = measure.sample(nets(exact), prompts, noise, [1, 0.8, 0.5, 0.2], 1.0)
    off = {f: float((x - true).norm() / true.norm()) for f, x in found.items()}
    assert 0 < off["q8"] < 0.05 and off["q8"] < off["w4"] < 0.25, off


def followed(name: str, model: Any, count: int) -> float:
    """The share of wholly right pictures; prompts and noise are the same for every model."""
    scenes, prompts = asked(count)
    right: list[bool] = []
    for start in range(0, count, PART):
        drawn = pictures(model, prompts[start : start + PART], 7 + start)
        right += [score(p, s).exact for p, s in zip(drawn, scenes[start : start + PART], strict=True)]
        print(f"{name}: {sum(right)} of {len(right)} wholly right", flush=True)
    return float(np.mean(right))


@pytest.fixture(scope="module")
def before(exact: Any) -> float:
    return followed("full precision", exact, PAIRS)


@pytest.mark.slow
@pytest.mark.parametrize(("format", "loss"), [("q8", 0.03), ("w4", 0.08)])
def test_prompts_are_followed_as_before(format: str, loss: float, before: float) -> None:
    """40 minutes; ``-s`` shows how far it is."""
    assert abs(followed(format, load(SHIPPED, format), PAIRS) - before) <= loss


def write_t5(file: Path, width: int, hidden: int, layers: int) -> int:
    """A random T5 encoder in float32, written a tensor at a time; gives its bytes."""
    shapes = {"shared.weight": (1024, width), "encoder.final_layer_norm.weight": (width,)}
    for i in range(layers):
        at = f"encoder.block.{i}.layer."
        shapes |= {f"{at}0.SelfAttention.{n}.weight": (width, width) for n in "qkvo"}
        shapes |= {f"{at}1.DenseReluDense.{n}.weight": (hidden, width) for n in ("wi_0", "wi_1")}
        shapes[f"{at}1.DenseReluDense.wo.weight"] = (width, hidden)
        shapes |= {f"{at}{k}.layer_norm.weight": (width,) for k in range(2)}
    shapes["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = (32, 8)
    table, place = {}, 0
    for name, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        table[name] = {"dtype": "F32", "shape": shape, "data_offsets": [place, place + size]}
        place += size
    header = json.dumps(table).encode()
    header += b" " * (-len(header) % 8)
    row = np.random.default_rng(0).normal(0, 0.02, 1 << 20).astype(np.float32).tobytes()
    with file.open("wb") as out:
        out.write(len(header).to_bytes(8, "little") + header)
        for _ in range(place // len(row)):
            out.write(row)
        out.write(row[: place % len(row)])
    return place


@pytest.mark.parametrize(
    ("format", "width", "hidden", "layers"),
    [
        pytest.param("q8", 1024, 2816, 5, id="small"),
        pytest.param("q8", 2048, 5376, 7, id="large-q8", marks=pytest.mark.slow),
        pytest.param("w4", 2048, 5376, 7, id="large-w4", marks=pytest.mark.slow),
    ],
)
def test_memory_while_quantizing(format: str, width: int, hidden: int, layers: int, tmp_path: Path) -> None:
    """The process grows by the result and what is worked on, less than a large tensor; imports are told beside it."""
    file, warm = tmp_path / "t5.safetensors", tmp_path / "warm.safetensors"
    size = write_t5(file, width, hidden, layers) / (1 << 20)
    write_t5(warm, 256, 512, 1)
    script = Path(__file__).with_name("peak.py")
    ran = subprocess.run([sys.executable, script, file, format, warm], capture_output=True, text=True, check=True)
    grown, result, most = map(float, ran.stdout.split())
    print(f"{format}: {size:.0f} MB file, {result:.0f} MB result, grew by {grown:.0f} MB, whole process {most:.0f} MB")
    assert 0.9 * result < grown < result + WORKED_ON
    assert size < 1300 or most < 0.6 * size


def test_files_that_are_packed_already_stay_so(
    bfl: Mapping[str, Tensor], config: dict[str, str], models: Path, place: Place
) -> None:
    half = {n: t.to(torch.float8_e4m3fn) if n.startswith("double") and t.ndim == 2 else t for n, t in bfl.items()}
    save_file(half, models / "diffusion_models/x.safetensors", config)
    told = formats(load_model("x.safetensors", replace(place, quantize="q8")).loaded.network)
    assert {k.split(",")[0] for k in told} == {"fp8", "q8", "float32"}
    assert all(n.startswith("transformer_blocks") for n in told["fp8"])
