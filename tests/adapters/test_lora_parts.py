"""What keys of LoRA files mean, whole differences, and LoRAs of embeddings, by hand on networks of a few numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from pipegraph.models.adapters.lora import Factors, Lora, LoraError, LoraFile, _low_rank, read_lora
from pipegraph.models.adapters.lora_keys import Key, read_key
from pipegraph.models.adapters.lora_targets import LoraTarget, spellings
from pipegraph.models.families import FAMILIES

ENCODERS = {"text_encoder": "clip_l", "text_encoder_2": "t5xxl"}


@pytest.mark.parametrize(
    ("key", "part", "layer", "role"),
    [
        ("lora_unet_double_blocks_0_img_attn_qkv.lora_down.weight", "model", "double_blocks_0_img_attn_qkv", "down"),
        ("transformer.blocks.0.attn.lora_B.default.weight", "model", "blocks_0_attn", "up"),
        ("diffusion_model.blocks.0.diff_b", "model", "blocks_0", "bias"),
        ("model.diffusion_model.blocks.0.diff", "model", "blocks_0", "weight"),
        ("base_model.model.unet.x.lora_A.weight", "model", "x", "down"),
        ("lora_transformer_x_y.alpha", "model", "x_y", "alpha"),
        ("x.y.lora_linear_layer.up.weight", "model", "x_y", "up"),
        ("lora_te1_text_model_x.lora_up.weight", "clip_l", "text_model_x", "up"),
        ("lora_te_text_model_x.lora_up.weight", "clip_l", "text_model_x", "up"),
        ("text_encoder.text_model.x.lora.down.weight", "clip_l", "text_model_x", "down"),
        ("lora_te2_encoder_x.down.weight", "t5xxl", "encoder_x", "down"),
        ("lora_te3_x.up.weight", "text_encoder_3", "x", "up"),
        ("text_encoders.clip_l.transformer.text_model.x.alpha", "clip_l", "text_model_x", "alpha"),
        ("text_encoders.t5xxl.encoder.x.alpha", "t5xxl", "encoder_x", "alpha"),
        ("text_encoders.transformer.x.alpha", "a text encoder", "x", "alpha"),
    ],
)
def test_keys_are_taken_apart(key: str, part: str, layer: str, role: str) -> None:
    assert read_key(key, ENCODERS) == Key(part, layer, role)


def test_a_nameless_text_encoder_is_the_only_one() -> None:
    assert read_key("text_encoders.transformer.x.alpha", {"": "gemma"}) == Key("gemma", "x", "alpha")


HUNYUAN, LTX2, MINIMAX, WAN = (
    [layout.names for layout in FAMILIES[name].network.layouts]
    for name in ("hunyuan_video", "ltx2", "minimax_h3", "wan")
)


def rows(layer: str, *parts: tuple[int, int]) -> LoraTarget:
    return LoraTarget(layer, tuple(slice(*part) for part in parts))


def taken(targets: tuple[LoraTarget, ...], outputs: int) -> list[int]:
    """The rows of a file's ``up`` in the order of a layer's outputs."""
    return [row for target in targets for part in target.rows for row in range(outputs)[part]]


def test_minimax_layers_by_the_names_of_comfyuis_files() -> None:
    """q, k and v are one, one after the other; the halves of the gated layer are exchanged; all else is as it is."""
    block = "transformer_blocks.3"
    widths = {"audio_proj_in": 6, f"{block}.attn.to_out.0": 8, f"{block}.ff.net.0.proj": 20, f"{block}.ff.net.2": 8}
    widths |= {f"{block}.attn.to_q": 8, f"{block}.attn.to_k": 4, f"{block}.attn.to_v": 4}
    known = spellings(widths, MINIMAX)
    assert known["blocks_3_attn_qkv_proj"] == (
        rows(f"{block}.attn.to_q", (0, 8)),
        rows(f"{block}.attn.to_k", (8, 12)),
        rows(f"{block}.attn.to_v", (12, 16)),
    )
    assert known["blocks_3_mlp_fc1"] == (rows(f"{block}.ff.net.0.proj", (10, 20), (0, 10)),)
    assert taken(known["blocks_3_mlp_fc1"], 20) == [*range(10, 20), *range(10)]
    assert known["blocks_3_mlp_fc2"] == (rows(f"{block}.ff.net.2", (0, 8)),)
    assert known["blocks_3_attn_out_proj"] == (rows(f"{block}.attn.to_out.0", (0, 8)),)
    assert known["audio_patch_proj"] == (rows("audio_proj_in", (0, 6)),)
    for name, width in widths.items():  # diffusers' own names, too
        assert known[name.replace(".", "_")] == (rows(name, (0, width)),)


def test_ltx_layers_by_the_original_names() -> None:
    both = {"time_embed.linear": 12, "audio_proj_in": 4, "transformer_blocks.0.attn1.to_q": 8}
    known = spellings(both, LTX2)
    assert known["adaln_single_linear"] == (rows("time_embed.linear", (0, 12)),)
    assert known["audio_patchify_proj"] == (rows("audio_proj_in", (0, 4)),)
    assert known["transformer_blocks_0_attn1_to_q"] == (rows("transformer_blocks.0.attn1.to_q", (0, 8)),)
    assert "audio_patch_proj" not in known and "blocks_0_attn1_to_q" not in known  # MiniMax-H3's names


def test_the_halves_of_the_last_modulation_are_exchanged() -> None:
    known = spellings({"norm_out.linear": 10, "context_embedder.proj_in": 4}, HUNYUAN)
    assert known["final_layer_adaLN_modulation_1"] == (rows("norm_out.linear", (5, 10), (0, 5)),)
    assert known["norm_out_linear"] == (rows("norm_out.linear", (0, 10)),)
    assert taken(known["final_layer_adaLN_modulation_1"], 10) == [*range(5, 10), *range(5)]


def test_wan_layers_by_the_original_names() -> None:
    widths = {"condition_embedder.time_proj": 12, "blocks.0.attn1.to_q": 8, "blocks.0.unheard_of": 4}
    known = spellings(widths, WAN)
    assert known["time_projection_1"] == (rows("condition_embedder.time_proj", (0, 12)),)
    assert known["blocks_0_self_attn_q"] == (rows("blocks.0.attn1.to_q", (0, 8)),)
    assert "" not in known and known["blocks_0_unheard_of"] == (rows("blocks.0.unheard_of", (0, 4)),)
    assert "blocks_0_self_attn_q" not in spellings({"blocks.0.attn1.to_q": 8}, HUNYUAN)  # of another family


class Net(nn.Module):
    """An embedding that is the output layer, too, a linear layer and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(6, 4)
        self.middle = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)
        self.out = nn.Linear(4, 6, bias=False)
        self.out.weight = self.words.weight


def numbers(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def file(folder: Path, **tensors: Tensor) -> Path:
    path = folder / "lora.safetensors"
    save_file({name.replace("__", "."): tensor for name, tensor in tensors.items()}, path)
    return path


def read(path: Path, network: nn.Module, **options: Any) -> LoraFile:
    return read_lora(path, {"model": network}, FAMILIES["flux"], **options)


def test_differences_and_tables_are_added_to_a_copy() -> None:
    network = Net()
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    down, up = numbers(2, 4, seed=1), numbers(6, 2, seed=2)
    lora = Lora("l", {}, {"norm.weight": numbers(4, seed=3)}, {"words.weight": Factors(down, up, 0.5)})
    changed = lora.changed(network, 3.0)
    assert torch.allclose(changed.get_parameter("norm.weight"), before["norm.weight"] + 3 * numbers(4, seed=3))
    table = changed.get_parameter("words.weight")
    assert torch.allclose(table, before["words.weight"] + 3 * 0.5 * up @ down, atol=1e-6)
    assert changed.get_parameter("out.weight") is table
    assert changed.get_parameter("middle.weight") is network.middle.weight
    assert all(torch.equal(p, before[name]) for name, p in network.named_parameters())
    assert lora.changed(network, 0.0) is network
    assert Lora("l", {"middle": Factors(down, up, 1)}).changed(network, 1) is network
    assert not Lora("l", {}) and lora and Lora("l", {}, tables=lora.tables)


def test_a_lora_of_an_embedding(tmp_path: Path) -> None:
    network = Net()
    down, up = numbers(2, 4, seed=1), numbers(6, 2, seed=2)
    for alpha, scale in ((None, 1.0), (torch.tensor(1.0), 0.5)):
        tensors = {"words.lora_down.weight": down, "words.lora_up.weight": up}
        found = read(file(tmp_path, **tensors, **({} if alpha is None else {"words.alpha": alpha})), network)
        table = found.loras["model"].tables["words.weight"]
        assert torch.equal(table.down, down) and torch.equal(table.up, up) and table.scale == scale
        assert found.matched == found.total == 2 + (alpha is not None) and not found.loras["model"].layers
        assert found.report()["differences"] == {"model": 1} and found.report()["layers"] == {"model": 0}


@pytest.mark.parametrize(
    ("down", "up"), [((2, 3), (6, 2)), ((2, 4), (5, 2)), ((2, 4), (6, 3)), ((2, 4, 1), (6, 2)), ((2, 4), (6, 2, 1))]
)
@pytest.mark.parametrize("layer", ["words", "out"])
def test_factors_of_another_shape_are_refused(
    tmp_path: Path, down: tuple[int, ...], up: tuple[int, ...], layer: str
) -> None:
    tensors = {f"{layer}.lora_down.weight": torch.ones(down), f"{layer}.lora_up.weight": torch.ones(up)}
    with pytest.raises(LoraError, match="does not make up"):
        read(file(tmp_path, **tensors), Net())


def test_the_report_counts_layers_and_whole_differences_of_each_part(tmp_path: Path) -> None:
    tensors = {
        "middle.lora_A.weight": numbers(2, 4, seed=1),
        "middle.lora_B.weight": numbers(4, 2, seed=2),
        "middle.diff_b": numbers(4, seed=3),
        "norm.diff": numbers(4, seed=4),
        "words.lora_A.weight": numbers(2, 4, seed=5),
        "words.lora_B.weight": numbers(6, 2, seed=6),
    }
    found = read(file(tmp_path, **tensors), Net())
    said = found.report()
    assert (said["file"], said["keys"], said["of"]) == ("lora.safetensors", 6, 6)
    assert said["layers"] == {"model": 1} and said["differences"] == {"model": 3}
    lora = found.loras["model"]
    assert torch.equal(lora.differences["middle.bias"], tensors["middle.diff_b"])
    assert torch.equal(lora.differences["norm.weight"], tensors["norm.diff"])
    plain = read(file(tmp_path, **dict(list(tensors.items())[:2])), Net()).report()
    assert plain["keys"] == plain["of"] == 2 and "differences" not in plain


def test_factors_of_1x1_convolutions_are_matrices(tmp_path: Path) -> None:
    down, up = numbers(2, 4, seed=1), numbers(4, 2, seed=2)
    names = ("middle.lora_down.weight", "middle.lora_up.weight")
    pairs = [(down, up), (down[:, :, None, None], up[:, :, None, None])]
    for pair in pairs:
        factors = read(file(tmp_path, **dict(zip(names, pair, strict=True))), Net()).loras["model"].layers["middle"]
        assert torch.equal(factors.down, down) and torch.equal(factors.up, up)
    for shape in ((2, 2, 1, 2), (2, 2, 2, 1)):
        with pytest.raises(LoraError, match="does not make up"):
            read(file(tmp_path, **dict(zip(names, (torch.ones(shape), up), strict=True))), Net())


def test_keys_of_parts_left_out_are_counted(tmp_path: Path) -> None:
    pair = {"middle.lora_A.weight": numbers(2, 4, seed=1), "middle.lora_B.weight": numbers(4, 2, seed=2)}
    others = {f"lora_te1_{layer}.alpha": torch.tensor(1.0) for layer in "abc"}
    warnings = read(file(tmp_path, **pair, **others), Net()).warnings
    assert "left out, as no such part was given: 3 keys for clip_l" in warnings
    tower = {f"lora_unet_vision_model_{layer}.alpha": torch.tensor(1.0) for layer in "abc"}
    warnings = read_lora(file(tmp_path, **pair, **tower), {"model": Net()}, FAMILIES["ltx2"]).warnings
    assert "left out, as no such part was given: 3 keys for the vision tower (not loaded)" in warnings


def test_keys_of_a_nameless_text_encoder_go_to_the_only_one(tmp_path: Path) -> None:
    prefix = "text_encoders.transformer.middle.lora_"
    path = file(tmp_path, **{f"{prefix}A.weight": numbers(2, 4, seed=1), f"{prefix}B.weight": numbers(4, 2, seed=2)})
    loras = read_lora(path, {"model": Net(), "clip_l": Net()}, FAMILIES["flux"]).loras
    assert list(loras["clip_l"].layers) == ["middle"] and not loras.get("model")


@pytest.mark.parametrize(("count", "ending"), [(5, "x4.lora_A.weight"), (7, "x4.lora_A.weight and 2 more")])
def test_five_keys_that_fit_nothing_are_named(tmp_path: Path, count: int, ending: str) -> None:
    pair = {"middle.lora_A.weight": numbers(2, 4, seed=1), "middle.lora_B.weight": numbers(4, 2, seed=2)}
    unknown = {f"x{i}.lora_A.weight": numbers(2, 4, seed=i) for i in range(count)}
    warning = read(file(tmp_path, **pair, **unknown), Net(), allow_partial=True).warnings[0]
    assert f": {count} keys: x0." in warning and warning.endswith(ending)


@pytest.mark.parametrize(
    ("stored", "used"),
    [(torch.bfloat16, torch.bfloat16), (torch.float32, torch.float32), (torch.float8_e4m3fn, torch.float32)],
)
def test_factors_are_used_in_the_type_of_the_weight(stored: torch.dtype, used: torch.dtype) -> None:
    layer = nn.Linear(4, 4, bias=False)
    layer.weight = nn.Parameter(layer.weight.detach().to(stored), requires_grad=False)
    low_rank = _low_rank(layer, [(Factors(numbers(2, 4, seed=1), numbers(4, 2, seed=2), 0.5), 3.0)])
    assert low_rank.down.dtype == low_rank.up.dtype == used
    assert torch.equal(low_rank.up, (numbers(4, 2, seed=2) * 1.5).to(used))
