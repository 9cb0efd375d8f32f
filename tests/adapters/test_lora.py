"""LoRA files in every key style, against diffusers + peft and against edited weights."""

from __future__ import annotations

import copy
import importlib.util
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from pipegraph.kernels.audit import strict
from pipegraph.kernels.hooks.install import install
from pipegraph.models.adapters.lora import Lora, LoraError, active, load_lora, read_lora
from pipegraph.models.adapters.lora_targets import targets
from pipegraph.models.families import FAMILIES

spec = importlib.util.spec_from_file_location("networks", Path(__file__).parents[1] / "kernels" / "networks.py")
assert spec and spec.loader
networks: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(networks)
run = networks.run
FLUX = FAMILIES["flux"]
DIM, MLP = 32, 128
Weights = dict[str, tuple[Tensor, Tensor, float]]
"""Layer -> (down, up, alpha)"""


def draw(layers: dict[str, tuple[int, int]], rank: int = 3, seed: int = 0, alpha: float = 2.0) -> Weights:
    gen = torch.Generator().manual_seed(seed)
    return {
        name: (torch.randn(rank, k, generator=gen) * 0.3, torch.randn(n, rank, generator=gen) * 0.3, alpha)
        for name, (n, k) in layers.items()
    }


OWN = draw(
    {
        "double_blocks.0.img_attn.qkv": (3 * DIM, DIM),
        "double_blocks.0.txt_attn.qkv": (3 * DIM, DIM),
        "double_blocks.0.img_attn.proj": (DIM, DIM),
        "double_blocks.0.txt_attn.proj": (DIM, DIM),
        "double_blocks.0.img_mlp.0": (MLP, DIM),
        "double_blocks.0.img_mlp.2": (DIM, MLP),
        "double_blocks.0.txt_mlp.2": (DIM, MLP),
        "double_blocks.0.img_mod.lin": (6 * DIM, DIM),
        "single_blocks.0.linear1": (3 * DIM + MLP, DIM),
        "single_blocks.0.linear2": (DIM, DIM + MLP),
        "single_blocks.0.modulation.lin": (3 * DIM, DIM),
        "guidance_in.in_layer": (DIM, 256),
    }
)
"""A LoRA in FLUX's own layer names, with which the others are made."""
SPLIT = {
    "double_blocks.0.img_attn.qkv": [f"transformer_blocks.0.attn.{n}" for n in ("to_q", "to_k", "to_v")],
    "double_blocks.0.txt_attn.qkv": [f"transformer_blocks.0.attn.add_{n}_proj" for n in "qkv"],
    "double_blocks.0.img_attn.proj": ["transformer_blocks.0.attn.to_out.0"],
    "double_blocks.0.txt_attn.proj": ["transformer_blocks.0.attn.to_add_out"],
    "double_blocks.0.img_mlp.0": ["transformer_blocks.0.ff.net.0.proj"],
    "double_blocks.0.img_mlp.2": ["transformer_blocks.0.ff.net.2"],
    "double_blocks.0.txt_mlp.2": ["transformer_blocks.0.ff_context.net.2"],
    "double_blocks.0.img_mod.lin": ["transformer_blocks.0.norm1.linear"],
    "single_blocks.0.linear1": [
        *(f"single_transformer_blocks.0.attn.{n}" for n in ("to_q", "to_k", "to_v")),
        "single_transformer_blocks.0.proj_mlp",
    ],
    "single_blocks.0.linear2": ["single_transformer_blocks.0.proj_out"],
    "single_blocks.0.modulation.lin": ["single_transformer_blocks.0.norm.linear"],
    "guidance_in.in_layer": ["time_text_embed.guidance_embedder.linear_1"],
}


def split(own: Weights) -> Weights:
    """The same LoRA in diffusers' layers."""
    made: Weights = {}
    for name, (down, up, alpha) in own.items():
        sizes = [DIM] * 3 + [MLP] if len(SPLIT[name]) == 4 else [len(up) // len(SPLIT[name])] * len(SPLIT[name])
        for layer, part in zip(SPLIT[name], torch.split(up, sizes), strict=True):
            made[layer] = (down, part, alpha)
    return made


def keys(weights: Weights, name: Callable[[str], str], down: str, up: str, alpha: str = ".alpha") -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for layer, (a, b, scale) in weights.items():
        found |= {name(layer) + down: a.clone(), name(layer) + up: b.clone().contiguous()}
        found |= {name(layer) + alpha: torch.tensor(scale)} if alpha else {}
    return found


AB = (".lora_A.weight", ".lora_B.weight")
KOHYA = (".lora_down.weight", ".lora_up.weight")
STYLES: dict[str, dict[str, Tensor]] = {
    "kohya": keys(OWN, lambda n: "lora_unet_" + n.replace(".", "_"), *KOHYA),
    "kohya, diffusers' layers": keys(split(OWN), lambda n: "lora_transformer_" + n.replace(".", "_"), *KOHYA),
    "diffusers": keys(split(OWN), lambda n: f"transformer.{n}", *AB),
    "older diffusers": keys(split(OWN), lambda n: f"transformer.{n}", ".lora.down.weight", ".lora.up.weight"),
    "peft": keys(split(OWN), lambda n: f"base_model.model.{n}", *AB),
    "FLUX": keys(OWN, lambda n: n, *AB),
    "ComfyUI": keys(OWN, lambda n: f"diffusion_model.{n}", *AB),
    "ComfyUI, whole checkpoint": keys(OWN, lambda n: f"model.diffusion_model.{n}", *KOHYA),
}


def written(folder: Path, tensors: dict[str, Tensor], metadata: dict[str, str] | None = None) -> Path:
    path = folder / "some.safetensors"
    save_file({k: v.clone().contiguous() for k, v in tensors.items()}, path, metadata)
    return path


def merged(network: nn.Module, *loras: tuple[Weights, float]) -> nn.Module:
    """A copy with the LoRAs added to its weights: what a side path must equal."""
    edited = copy.deepcopy(network)
    for weights, strength in loras:
        for name, (down, up, alpha) in weights.items():
            layer = edited.get_submodule(name)
            assert isinstance(layer, nn.Linear)
            layer.weight.data += strength * alpha / len(down) * (up @ down)
    return edited


@pytest.fixture(scope="module")
def flux() -> tuple[nn.Module, dict[str, Any]]:
    network, call = networks.flux()
    install(network)
    return network, call


@pytest.mark.filterwarnings("ignore:Already found a `peft_config`:UserWarning")
@pytest.mark.filterwarnings("ignore:While injecting the PEFT adapters:RuntimeWarning")
def test_equals_diffusers_and_peft(tmp_path: Path, flux: Any) -> None:
    from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline

    network, call = flux
    theirs, _ = networks.flux()
    pipe = FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=None,
        text_encoder=None,
        tokenizer=None,
        text_encoder_2=None,
        tokenizer_2=None,
        transformer=theirs,
    )
    other = draw({"transformer_blocks.0.attn.to_k": (DIM, DIM), "proj_out": (4, DIM)}, rank=5, seed=7, alpha=5.0)
    first, second = STYLES["diffusers"], keys(other, lambda n: f"transformer.{n}", *AB)
    pipe.load_lora_weights(dict(first), adapter_name="first")
    pipe.load_lora_weights(dict(second), adapter_name="second")
    pipe.set_adapters(["first", "second"], [0.7, -1.3])
    want = run(theirs, call)
    loras = [
        (load_lora(written(tmp_path, first), network, FLUX), 0.7),
        (load_lora(written(tmp_path, second), network, FLUX), -1.3),
    ]
    with active(network, loras), strict():
        got = run(network, call)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=2e-5)
    assert (got - run(network, call)).abs().max() > 0.1


@pytest.mark.parametrize("style", STYLES)
def test_every_key_style_gives_the_same(tmp_path: Path, flux: Any, style: str) -> None:
    network, call = flux
    before = {k: v.clone() for k, v in network.state_dict().items()}
    file = read_lora(written(tmp_path, STYLES[style]), {"model": network}, FLUX)
    assert file.matched == file.total == len(STYLES[style]) and not file.warnings
    with active(network, [(file.loras["model"], 0.6)]):
        got = run(network, call)
    torch.testing.assert_close(got, run(merged(network, (split(OWN), 0.6)), call), rtol=1e-5, atol=2e-5)
    assert all(torch.equal(v, before[k]) for k, v in network.state_dict().items())


def test_xlabs_style_has_no_alpha(tmp_path: Path, flux: Any) -> None:
    network, call = flux
    own = {k: v for k, v in OWN.items() if "attn" in k and "double" in k}
    names = {"img_attn.qkv": "qkv_lora1", "txt_attn.qkv": "qkv_lora2", "img_attn.proj": "proj_lora1"}
    names["txt_attn.proj"] = "proj_lora2"

    def spelled(name: str) -> str:
        return f"double_blocks.0.processor.{names[name.removeprefix('double_blocks.0.')]}"

    file = read_lora(written(tmp_path, keys(own, spelled, ".down.weight", ".up.weight", "")), {"model": network}, FLUX)
    assert "no alpha for 4 layers: taken as the rank" in file.warnings[0]
    whole = {k: (a, b, float(len(a))) for k, (a, b, _) in own.items()}
    with active(network, [(file.loras["model"], 1.0)]):
        got = run(network, call)
    torch.testing.assert_close(got, run(merged(network, (split(whole), 1.0)), call), rtol=1e-5, atol=2e-5)


def test_every_layer_has_a_name_in_the_flux_layout_and_no_two_share_one() -> None:
    network, _ = networks.flux(num_layers=2, num_single_layers=3)
    named = targets(network, FLUX)
    own = [t for name, ts in named.items() for t in ts if name.startswith(("double_", "single_blocks", "final_"))]
    own += [named[n][0] for n in ("img_in", "txt_in")]
    own += [named[f"{e}_in_{n}_layer"][0] for e in ("time", "vector", "guidance") for n in ("in", "out")]
    plain = [t.layer for t in own if not any(t in named[n] for n in named if "processor" in n)]
    assert len(plain) == len(set(plain))
    assert {t.layer for t in own} == {n for n, m in network.named_modules() if isinstance(m, nn.Linear)}


def test_final_modulation_has_shift_and_scale_the_other_way_round(tmp_path: Path, flux: Any) -> None:
    network, _ = flux
    own = draw({"final_layer.adaLN_modulation.1": (2 * DIM, DIM)})
    lora = load_lora(written(tmp_path, keys(own, lambda n: n, *AB)), network, FLUX)
    up = own["final_layer.adaLN_modulation.1"][1]
    assert torch.equal(lora.layers["norm_out.linear"].up, torch.cat([up[DIM:], up[:DIM]]))


def test_kohya_at_real_width_equals_diffusers_converter(tmp_path: Path) -> None:
    from diffusers import FluxTransformer2DModel
    from diffusers.loaders.lora_pipeline import FluxLoraLoaderMixin

    with torch.device("meta"):
        network = FluxTransformer2DModel(num_layers=1, num_single_layers=1)
    own = draw(
        {
            "double_blocks.0.img_attn.qkv": (9216, 3072),
            "double_blocks.0.txt_mlp.2": (3072, 12288),
            "single_blocks.0.linear1": (21504, 3072),
            "single_blocks.0.linear2": (3072, 15360),
        },
        rank=2,
        alpha=8.0,
    )
    tensors = keys(own, lambda n: "lora_unet_" + n.replace(".", "_"), *KOHYA)
    theirs = FluxLoraLoaderMixin.lora_state_dict({k: v.clone() for k, v in tensors.items()})
    ours = load_lora(written(tmp_path, tensors), network, FLUX).layers
    assert {f"transformer.{name}.lora_{x}.weight" for name in ours for x in "AB"} == theirs.keys()
    for name, factors in ours.items():
        x = torch.randn(3, factors.down.shape[1], generator=torch.Generator().manual_seed(0))
        down, up = theirs[f"transformer.{name}.lora_A.weight"], theirs[f"transformer.{name}.lora_B.weight"]
        torch.testing.assert_close(x @ factors.down.T @ factors.up.T * factors.scale, x @ down.T @ up.T)


TEXT = {
    "kohya": ("lora_te1_text_model_", "lora_te2_", KOHYA, "_"),
    "diffusers": ("text_encoder.text_model.", "text_encoder_2.", AB, "."),
    "flat": (
        "text_encoder.",
        "text_encoder_2.",
        (".lora_linear_layer.down.weight", ".lora_linear_layer.up.weight"),
        ".",
    ),
    "ComfyUI": ("text_encoders.clip_l.transformer.text_model.", "text_encoders.t5xxl.transformer.", AB, "."),
}


@pytest.mark.parametrize("style", TEXT)
def test_text_encoders(tmp_path: Path, flux: Any, style: str) -> None:
    (clip, clip_call), (t5, t5_call) = networks.clip(), networks.t5()
    encoders = {"clip_l": clip, "t5xxl": t5}
    for network in encoders.values():
        install(network)
    of_clip = draw({"encoder.layers.0.self_attn.q_proj": (32, 32), "encoder.layers.1.mlp.fc2": (32, 48)})
    of_t5 = draw({"encoder.block.0.layer.0.SelfAttention.q": (32, 32)}, seed=3)
    of_t5 |= draw({"encoder.block.1.layer.1.DenseReluDense.wi_0": (48, 32)}, seed=4)
    prefix, prefix_2, roles, dot = TEXT[style]
    tensors = keys(of_clip, lambda n: prefix + n.replace(".", dot), *roles)
    tensors |= keys(of_t5, lambda n: prefix_2 + n.replace(".", dot), *roles) | STYLES["kohya"]
    path = written(tmp_path, tensors)
    file = read_lora(path, {"model": flux[0], **encoders}, FLUX)
    assert file.matched == file.total == len(tensors)
    assert file.report()["layers"] == {"model": len(split(OWN)), "clip_l": 2, "t5xxl": 2}
    for name, call, weights in (("clip_l", clip_call, of_clip), ("t5xxl", t5_call, of_t5)):
        network = encoders[name]
        with active(network, [(file.loras[name], 0.5)]):
            got = run(network, call)
        torch.testing.assert_close(got, run(merged(network, (weights, 0.5)), call), rtol=1e-5, atol=1e-5)
        assert not torch.allclose(got, run(network, call), atol=1e-3)
    alone = read_lora(path, {"model": flux[0]}, FLUX)
    assert alone.warnings == ("left out, as no such part was given: 6 keys for clip_l, 6 keys for t5xxl",)


def test_strength_zero_is_bit_equal_to_none_and_loras_add_up(tmp_path: Path, flux: Any) -> None:
    network, call = flux
    other = draw({"transformer_blocks.0.attn.to_q": (DIM, DIM), "x_embedder": (DIM, 4)}, rank=5, seed=9)
    one = load_lora(written(tmp_path, STYLES["kohya"]), network, FLUX)
    two = load_lora(written(tmp_path, keys(other, lambda n: n, *AB)), network, FLUX)
    base = run(network, call)
    with active(network, [(one, 0.0), (two, 0.0)]):
        assert torch.equal(run(network, call), base)
    with active(network, [(two, 0.8)]):
        alone = run(network, call)
    with active(network, [(one, 0.0), (two, 0.8)]):
        assert torch.equal(run(network, call), alone)
    with active(network, [(one, 0.5), (two, 0.8), (one, -0.2)]):
        got = run(network, call)
    want = run(merged(network, (split(OWN), 0.3), (other, 0.8)), call)
    torch.testing.assert_close(got, want, rtol=1e-5, atol=2e-5)
    assert torch.equal(run(network, call), base)


def test_acts_in_its_own_thread_only(tmp_path: Path, flux: Any) -> None:
    network, call = flux
    lora = load_lora(written(tmp_path, STYLES["FLUX"]), network, FLUX)
    base, seen = run(network, call), []
    with active(network, [(lora, 1.0)]):
        thread = threading.Thread(target=lambda: seen.append(run(network, call)))
        thread.start()
        thread.join()
    assert torch.equal(seen[0], base)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_files_and_half_networks(tmp_path: Path, flux: Any, dtype: torch.dtype) -> None:
    """The LoRA's effect survives 16-bit storage and a 16-bit network."""
    network, call = flux
    path = written(tmp_path, {k: v.to(dtype) for k, v in STYLES["FLUX"].items()})
    with active(network, [(load_lora(path, network, FLUX), 1.0)]):
        full = run(network, call)
    effect = full - run(network, call)
    half = copy.deepcopy(network).to(dtype)
    given = {
        k: v.to(dtype) if k in ("hidden_states", "encoder_hidden_states", "pooled_projections") else v
        for k, v in call.items()
    }
    base = run(half, given).float()
    with active(half, [(load_lora(path, half, FLUX), 1.0)]):
        got = run(half, given).float() - base
    assert 0.98 < (got @ effect) / (effect @ effect) < 1.02


def test_alpha_from_the_header(tmp_path: Path, flux: Any) -> None:
    network, _ = flux
    layers = {f"transformer_blocks.0.attn.to_{n}": (DIM, DIM) for n in "qk"}
    tensors = keys(draw(layers, rank=4), lambda n: f"transformer.{n}", *AB, "")
    told: dict[str, Any] = {"transformer.r": 4, "transformer.lora_alpha": 6, "transformer.alpha_pattern": {"to_k": 10}}

    def scales() -> list[float]:
        path = written(tmp_path, tensors, {"lora_adapter_metadata": json.dumps(told)})
        lora = load_lora(path, network, FLUX)
        return [lora.layers[name].scale for name in layers]

    assert scales() == [1.5, 2.5]
    told["transformer.use_rslora"] = True
    assert scales() == [3.0, 5.0]


PLAIN = keys(draw({"transformer_blocks.0.attn.to_q": (DIM, DIM)}, rank=8), lambda n: f"transformer.{n}", *AB, "")
"""A LoRA of rank 8 without tensors of alpha."""


def scale_of(path: Path, flux: Any) -> float:
    return load_lora(path, flux[0], FLUX).layers["transformer_blocks.0.attn.to_q"].scale


@pytest.mark.parametrize(
    ("header", "scale"),
    [
        ({"lora_alpha": "0.5"}, 0.0625),
        ({"alpha": "4"}, 0.5),
        ({"network_alpha": "16.0"}, 2.0),
        ({"ss_network_alpha": "1", "ss_network_dim": "8"}, 0.125),
        ({"lora_alpha": "0"}, 0.0),
        ({"lora_alpha": "8", "use_rslora": "true"}, 8**0.5),
        ({"lora_alpha": "4", "ss_network_alpha": "4.0"}, 0.5),
    ],
)
def test_alpha_that_stands_only_in_the_header(tmp_path: Path, flux: Any, header: dict[str, str], scale: float) -> None:
    path = written(tmp_path, PLAIN, header)
    assert scale_of(path, flux) == pytest.approx(scale, rel=1e-12)
    file = read_lora(path, {"model": flux[0]}, FLUX)
    assert not file.warnings and file.report()["notes"] == [f"alpha from `{next(iter(header))}` in its header"]


@pytest.mark.parametrize(
    "header", [{}, {"ss_network_alpha": "None"}, {"network_alpha": "0"}, {"ss_network_alpha": "Dynamic"}]
)
def test_alpha_that_nothing_says_is_a_warning(tmp_path: Path, flux: Any, header: dict[str, str]) -> None:
    path = written(tmp_path, PLAIN, header)
    assert scale_of(path, flux) == 1
    (warning,) = read_lora(path, {"model": flux[0]}, FLUX).warnings
    assert warning.startswith("no alpha for 1 layers: taken as the rank")


def test_a_tensor_of_alpha_counts_before_the_header(tmp_path: Path, flux: Any) -> None:
    own = {"transformer.transformer_blocks.0.attn.to_q.alpha": torch.tensor(2.0)}
    assert scale_of(written(tmp_path, PLAIN | own, {"alpha": "99"}), flux) == 0.25
    with pytest.raises(LoraError, match=r"alpha \[2\] is not one finite number"):
        load_lora(written(tmp_path, PLAIN | {next(iter(own)): torch.ones(2)}), flux[0], FLUX)


def test_headers_that_contradict_themselves(tmp_path: Path, flux: Any) -> None:
    path = written(tmp_path, PLAIN, {"lora_alpha": "4", "ss_network_alpha": "2"})
    assert scale_of(path, flux) == 0.5
    (warning,) = read_lora(path, {"model": flux[0]}, FLUX).warnings
    assert warning == "its header says ss_network_alpha 2, and lora_alpha 4, which counts"
    for header, says in (
        ({"alpha": "much"}, "`alpha` in its header gives an alpha of 'much', which is no number"),
        ({"lora_alpha": "nan"}, "is no number"),
        ({"lora_adapter_metadata": "{"}, "`?lora_adapter_metadata`? is no JSON"),
        ({"lora_adapter_metadata": '{"lora_alpha": true}'}, "is no number"),
        ({"lora_adapter_metadata": '{"alpha_pattern": {"(": 1}}'}, "`alpha_pattern`"),
        ({"lora_adapter_metadata": '{"alpha_pattern": [1]}'}, "`alpha_pattern`"),
    ):
        with pytest.raises(LoraError, match=says):
            load_lora(written(tmp_path, PLAIN, header), flux[0], FLUX)


def test_alpha_in_a_peft_folder(tmp_path: Path, flux: Any) -> None:
    path = written(tmp_path, PLAIN)
    config = tmp_path / "adapter_config.json"
    config.write_text(json.dumps({"peft_type": "LORA", "r": 8, "lora_alpha": 2, "alpha_pattern": {"to_k": 7}}))
    assert scale_of(path, flux) == 0.25
    assert read_lora(path, {"model": flux[0]}, FLUX).report()["notes"] == ["alpha from adapter_config.json"]
    config.write_text(json.dumps({"r": 8, "lora_alpha": 2, "alpha_pattern": {"to_q": 7}, "use_rslora": True}))
    assert scale_of(path, flux) == pytest.approx(7 / 8**0.5)
    config.write_text(json.dumps({"r": 4, "lora_alpha": 2}))  # of another LoRA
    assert scale_of(path, flux) == 1
    assert "speaks of rank 4, which no layer has" in read_lora(path, {"model": flux[0]}, FLUX).warnings[0]
    config.write_text(json.dumps({"r": 8, "lora_alpha": 2}))
    (tmp_path / "other.safetensors").touch()  # whose it is cannot be said
    assert scale_of(path, flux) == 1
    path.rename(tmp_path / "adapter_model.safetensors")  # peft's own name
    assert scale_of(tmp_path / "adapter_model.safetensors", flux) == 0.25


BROKEN: dict[str, tuple[Callable[[dict[str, Tensor]], dict[str, Tensor]], str]] = {
    "nothing fits": (
        lambda t: {k.replace("_unet_", "_unet_the_"): v for k, v in t.items()},
        r"none of its 36 keys fits model \(FluxTransformer2DModel\); e.g. .*nearest: double_blocks_0_img_attn_",
    ),
    "one is unknown": (
        lambda t: t | {"lora_unet_double_blocks_7_img_mlp_0.lora_up.weight": torch.ones(1)},
        r"1 of 37 keys fit nothing in .*; e.g. lora_unet_double_blocks_7_img.* nearest: double_blocks_0_img_mlp_0",
    ),
    "no tensor of a LoRA": (lambda t: t | {"logit_scale": torch.ones(1)}, "logit_scale: no tensor of a LoRA"),
    "partner missing": (
        lambda t: {k: v for k, v in t.items() if k != "lora_unet_single_blocks_0_linear2.lora_up.weight"},
        "lora_unet_single_blocks_0_linear2.* has no `up` beside it",
    ),
    "wrong shape": (
        lambda t: t | {"lora_unet_double_blocks_0_img_mlp_0.lora_up.weight": torch.ones(MLP - 1, 3)},
        r"\(127, 3\) x \(3, 32\) does not make up the \(128, 32\) of transformer_blocks.0.ff.net.0.proj",
    ),
    "wrong rank": (
        lambda t: t | {"lora_unet_double_blocks_0_img_mlp_0.lora_up.weight": torch.ones(MLP, 2)},
        "does not make up",
    ),
    "named twice": (lambda t: t | STYLES["diffusers"], "is named twice, in different spellings"),
    "the same key twice": (
        lambda t: t | {k.replace("lora_unet_", "lora_transformer_"): v for k, v in t.items()},
        "name the same factor",
    ),
    "DoRA": (lambda t: t | {"lora_unet_single_blocks_0_linear2.dora_scale": torch.ones(1)}, "DoRA, which is not"),
    "LoKr": (lambda t: t | {"lora_unet_single_blocks_0_linear2.lokr_w1": torch.ones(1)}, "LoKr, which is not"),
    "text encoder only": (
        lambda t: {f"lora_te1_{k}": v for k, v in t.items()},
        "none of its 36 keys fits model .*; it holds 36 keys for clip_l",
    ),
    "empty": (lambda t: {}, "none of its 0 keys"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, flux: Any, case: str) -> None:
    change, says = BROKEN[case]
    with pytest.raises(LoraError, match=says):
        load_lora(written(tmp_path, change(STYLES["kohya"])), flux[0], FLUX)


def test_partial_loading_is_told(tmp_path: Path, flux: Any) -> None:
    path = written(tmp_path, STYLES["kohya"] | {"lora_unet_double_blocks_7_img_mlp_0.alpha": torch.tensor(1.0)})
    file = read_lora(path, {"model": flux[0]}, FLUX, allow_partial=True)
    assert (file.matched, file.total) == (36, 37)
    assert file.warnings[0].startswith(
        "left out, as nothing fits them: 1 keys: lora_unet_double_blocks_7_img_mlp_0.alpha"
    )
    assert len(file.loras["model"].layers) == len(split(OWN))


def test_no_safetensors_file(tmp_path: Path, flux: Any) -> None:
    path = tmp_path / "some.safetensors"
    torch.save(STYLES["kohya"], path)
    with pytest.raises(LoraError, match="is no safetensors file"):
        load_lora(path, flux[0], FLUX)


def test_a_network_that_is_not_on_the_layer_is_refused(tmp_path: Path) -> None:
    network, _ = networks.flux()
    lora: Lora = load_lora(written(tmp_path, STYLES["kohya"]), network, FLUX)
    with pytest.raises(ValueError, match="call `install`"), active(network, [(lora, 1.0)]):
        pass
