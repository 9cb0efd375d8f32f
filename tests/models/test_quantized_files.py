"""ComfyUI's quantized safetensors: every spelling gives the same weights, and nothing that is unclear is guessed."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from pipegraph.kernels.weights.qweight import QWeight
from pipegraph.models.checkpoints.load import load_model
from pipegraph.models.loading.header_values import LoadError
from pipegraph.models.loading.headers import read_header
from pipegraph.models.loading.place import Place
from pipegraph.models.loading.quantized import pieces_of
from pipegraph.models.loading.reading import Reader

Tensors = dict[str, Tensor]
H4 = torch.tensor([[1.0, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]])
"""ConvRot's matrix of 4 by 4 (comfy-kitchen, ``int8_utils.py``)."""


def rotation(size: int) -> Tensor:
    found: Tensor = H4
    while len(found) < size:
        found = torch.kron(found, H4)
    whole: Tensor = found / size**0.5
    return whole


def fp8(t: Tensor) -> tuple[Tensor, Tensor]:
    scale = t.abs().max() / 448
    return (t / scale).to(torch.float8_e4m3fn), scale


def int8(t: Tensor) -> tuple[Tensor, Tensor]:
    """A scale a row, (N, 1)."""
    scale = t.abs().amax(1, keepdim=True) / 127
    return (t / scale).round().to(torch.int8), scale


def note(**told: Any) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(told).encode()), dtype=torch.uint8)


def old_fp8(net: Mapping[str, Tensor]) -> tuple[Tensors, dict[str, str]]:
    """A mark, ``scale_weight`` and ``scale_input``."""
    made: Tensors = {"scaled_fp8": torch.zeros(2).to(torch.float8_e4m3fn)}
    for name, t in net.items():
        if t.ndim == 2:
            made[name], made[f"{name.removesuffix('weight')}scale_weight"] = fp8(t)
            made[f"{name.removesuffix('weight')}scale_input"] = torch.ones(())
        else:
            made[name] = t
    return made, {}


def new_fp8(net: Mapping[str, Tensor]) -> tuple[Tensors, dict[str, str]]:
    """A note beside each layer; some values in bytes of no type."""
    made: Tensors = {}
    for i, (name, t) in enumerate(net.items()):
        layer = name.removesuffix(".weight")
        if t.ndim == 2 and not layer.endswith("_in"):
            data, made[f"{layer}.weight_scale"] = fp8(t)
            made[name] = data.view(torch.uint8) if i % 3 == 0 else data
            made[f"{layer}.comfy_quant"] = note(format="float8_e4m3fn", full_precision_matrix_mult=True)
            made[f"{layer}.input_scale"] = torch.ones(1)
        else:
            made[name] = t
    return made, {}


def told_fp8(net: Mapping[str, Tensor]) -> tuple[Tensors, dict[str, str]]:
    """One note for all in the metadata, where the network's prefix is left out."""
    made: Tensors = {}
    layers: dict[str, Any] = {}
    for name, t in net.items():
        layer = name.removesuffix(".weight")
        made[f"model.diffusion_model.{name}"] = t
        if t.ndim == 2:
            made[f"model.diffusion_model.{name}"], made[f"model.diffusion_model.{layer}.weight_scale"] = fp8(t)
            layers[layer] = {"format": "float8_e4m3fn"} if len(layers) % 2 else "float8_e4m3fn"
    return made, {"_quantization_metadata": json.dumps({"format_version": "1.0", "layers": layers})}


def convrot(net: Mapping[str, Tensor], size: int = 64) -> tuple[Tensors, dict[str, str]]:
    """``int8_convrot``: rows of 8-bit integers of W H."""
    made: Tensors = {}
    for name, t in net.items():
        layer = name.removesuffix(".weight")
        made[name] = t
        if t.ndim == 2 and t.shape[1] % size == 0:
            turned = (t.view(len(t), -1, size) @ rotation(size).T).reshape(t.shape)
            made[name], made[f"{layer}.weight_scale"] = int8(turned)
            made[f"{layer}.comfy_quant"] = note(format="int8_tensorwise", convrot=True, convrot_groupsize=size)
    return made, {}


def plain_int8(net: Mapping[str, Tensor]) -> tuple[Tensors, dict[str, str]]:
    """One scale for a whole matrix."""
    made: Tensors = {}
    for name, t in net.items():
        made[name] = t
        if t.ndim == 2:
            scale = t.abs().max() / 127
            made[name] = (t / scale).round().to(torch.int8)
            made[f"{name}_scale"] = scale
            made[f"{name.removesuffix('.weight')}.comfy_quant"] = note(format="int8_tensorwise")
    return made, {}


def weights(network: nn.Module) -> Tensors:
    """By name, unpacked."""
    found: Tensors = dict(network.named_parameters())
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Linear) and not isinstance(layer.weight, Tensor):
            found[f"{name}.weight"] = layer.weight.dequantize(torch.float32)
    return found


STYLES = [
    (old_fp8, 0.03, "fp8"),
    (new_fp8, 0.03, "fp8"),
    (told_fp8, 0.03, "fp8"),
    (convrot, 0.012, "q8"),
    (plain_int8, 0.03, "q8"),
]


@pytest.mark.parametrize(("style", "bound", "format"), STYLES)
def test_every_spelling(
    style: Callable[..., tuple[Tensors, dict[str, str]]],
    bound: float,
    format: str,
    bfl: Mapping[str, Tensor],
    config: dict[str, str],
    models: Path,
    place: Place,
) -> None:
    """Joined and exchanged rows too: qkv is one matrix in the file, the last modulation has its halves exchanged."""
    tensors, metadata = style(bfl)
    save_file(tensors, models / "diffusion_models/x.safetensors", config | metadata)
    network = load_model("x.safetensors", place).loaded.network
    kept: list[Any] = [m.weight for m in network.modules() if isinstance(m, nn.Linear)]
    packed = [w for w in kept if isinstance(w, QWeight)]
    assert len(packed) >= 50 and {w.format for w in packed} == {format}
    assert {w.rotate for w in packed} == ({64} if style is convrot else {None})
    save_file(dict(bfl), models / "diffusion_models/true.safetensors", config)
    true = weights(load_model("true.safetensors", place).loaded.network)
    for name, found in weights(network).items():
        assert (found - true[name]).norm() <= bound * true[name].norm(), name


def layer(tmp_path: Path, tensors: Tensors, metadata: dict[str, str] | None = None) -> Tensor:
    """The weight of one layer `a` of a file, unpacked."""
    file = tmp_path / "x.safetensors"
    save_file({k.replace("__", "."): v for k, v in tensors.items()}, file, metadata)
    pieces = pieces_of([read_header(file)])
    assert set(pieces) == {"a.weight"}, pieces
    with Reader() as reader:
        return reader.dense(pieces["a.weight"], torch.float32)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (256,), (256, 1)])
@pytest.mark.parametrize("name", ["weight_scale", "scale_weight"])
def test_scales_of_any_shape(shape: tuple[int, ...], name: str, tmp_path: Path) -> None:
    true = torch.randn(256, 256, generator=torch.Generator().manual_seed(0)) * 0.02
    scale = (true.abs().amax(1, keepdim=True) if 256 in shape else true.abs().max()) / 448
    tensors = {"a__weight": (true / scale).to(torch.float8_e4m3fn), f"a__{name}": scale.reshape(shape)}
    found = layer(tmp_path, {**tensors, "a__input_scale": torch.ones(())})
    assert (found - true).norm() < 0.03 * true.norm()


def test_as_comfy_kitchen_rotates(tmp_path: Path) -> None:
    """A row of (i ** 3) % 41 as comfy-kitchen 0.2.40 quantizes it (``quantize_int8_convrot_weight``, blocks of 16)."""
    true = torch.arange(16.0) ** 3 % 41
    codes = [-3, 86, 61, 16, 8, -1, 79, 54, 56, 44, 37, 127, 124, 60, 60, 73]
    tensors = {"a__weight": torch.tensor([codes], dtype=torch.int8), "a__weight_scale": torch.tensor([[0.28937009]])}
    told = note(format="int8_tensorwise", convrot=True, convrot_groupsize=16)
    assert (layer(tmp_path, {**tensors, "a__comfy_quant": told}) - true).abs().max() < 0.25


def test_plain_fp8_stays_fp8(bfl: Mapping[str, Tensor], config: dict[str, str], models: Path, place: Place) -> None:
    cast = {n: t.to(torch.float8_e5m2 if "mlp" in n else torch.float8_e4m3fn) for n, t in bfl.items()}
    save_file(cast, models / "diffusion_models/x.safetensors", config)
    network = load_model("x.safetensors", place).loaded.network
    packed: list[Any] = [m.weight for m in network.modules() if isinstance(m, nn.Linear)]
    assert {w.data.dtype for w in packed} == {torch.float8_e4m3fn, torch.float8_e5m2}
    assert all(torch.equal(w.scale, torch.ones(())) for w in packed)
    assert torch.equal(network.x_embedder.weight.dequantize(torch.float32), cast["img_in.weight"].float())
    assert network.pipegraph_nbytes < 0.3 * sum(t.nbytes for t in bfl.values())


A = torch.ones(64, 64).to(torch.float8_e4m3fn)
I8 = torch.ones(64, 64, dtype=torch.int8)
ONE = torch.ones(())
WRONG: list[tuple[str, Tensors, dict[str, str]]] = [
    # a scale is missing
    (r"`a` is stored scaled, but there is neither `a\.weight_scale`", {"a__weight": A, "scaled_fp8": ONE}, {}),
    (r"`a` is stored scaled", {"a__weight": A, "a__comfy_quant": note(format="float8_e4m3fn")}, {}),
    (r"`a` is stored scaled", {"a__weight": I8}, {}),
    # a layout that is not known
    (r"layer `a` is stored in the format 'mxfp8'.*these are: float8_e4m3fn",
     {"a__weight": I8, "a__weight_scale": ONE, "a__comfy_quant": note(format="mxfp8")}, {}),
    (r"`a` is stored in the format None", {"a__weight": I8, "a__weight_scale": ONE, "a__comfy_quant": note()}, {}),
    (r"quantized with smooth, which is not known",
     {"a__weight": I8, "a__weight_scale": ONE, "a__comfy_quant": note(format="int8_tensorwise", smooth=1)}, {}),
    (r"should be a matrix of float8_e4m3fn; its weight is I8",
     {"a__weight": I8, "a__weight_scale": ONE, "a__comfy_quant": note(format="float8_e4m3fn")}, {}),
    (r"rotated by blocks of 32",
     {"a__weight": I8, "a__weight_scale": ONE,
      "a__comfy_quant": note(format="int8_tensorwise", convrot=True, convrot_groupsize=32)}, {}),
    (r"rotated by blocks of 256, which do not fit",
     {"a__weight": I8, "a__weight_scale": ONE, "a__comfy_quant": note(format="int8_tensorwise", convrot=True)}, {}),
    # what does not fit together
    (r"`a\.weight_scale` F32 \[32\] is no scale for a weight \[64, 64\]",
     {"a__weight": A, "a__weight_scale": torch.ones(32)}, {}),
    (r"metadata says how `b` is quantized, which it does not hold",
     {"a__weight": A}, {"_quantization_metadata": '{"layers": {"b": {"format": "float8_e4m3fn"}}}'}),
    (r"`_quantization_metadata` is no JSON:", {"a__weight": A}, {"_quantization_metadata": "{"}),
    (r"`a\.comfy_quant` is no JSON object",
     {"a__weight": A, "a__comfy_quant": torch.tensor([91, 93], dtype=torch.uint8)}, {}),
    (r"`a\.comfy_quant` is no JSON text in bytes", {"a__weight": A, "a__comfy_quant": torch.ones(2)}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("message", "tensors", "metadata"), WRONG)
def test_what_is_unclear_is_refused_by_name(
    message: str, tensors: Tensors, metadata: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(LoadError, match=message):
        layer(tmp_path, tensors, metadata)


@pytest.mark.parametrize("key", ["weight_scale_2", "pre_quant_scale", "scale_input"])
def test_unused_keys_are_refused_by_name(
    key: str, bfl: Mapping[str, Tensor], config: dict[str, str], models: Path, place: Place
) -> None:
    """Also an input scale of a layer that is not quantized."""
    save_file({**bfl, f"img_in.{key}": torch.ones(())}, models / "diffusion_models/x.safetensors", config)
    with pytest.raises(LoadError, match=rf"1 tensors have no place in transformer: img_in\.{key}"):
        load_model("x.safetensors", place)


def test_only_the_header_is_read(bfl: Mapping[str, Tensor], config: dict[str, str], models: Path) -> None:
    """And the notes: the bytes of weights may be anything."""
    tensors, metadata = convrot(bfl)
    file = models / "diffusion_models/x.safetensors"
    save_file(tensors, file, config | metadata)
    before = pieces_of([read_header(file)])
    notes = [e for name, e in read_header(file).tensors.items() if name.endswith("comfy_quant")]
    data = bytearray(file.read_bytes())
    body = min(e.begin for e in read_header(file).tensors.values())
    kept = [(e.begin, bytes(data[e.begin : e.begin + e.shape[0]])) for e in notes]
    data[body:] = bytes(len(data) - body)
    for begin, told in kept:
        data[begin : begin + len(told)] = told
    file.write_bytes(data)
    assert pieces_of([read_header(file)]) == before
