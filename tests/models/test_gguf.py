"""GGUF files: the header as the reference package reads it, weights mapped and packed, nothing taken on trust."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.support.cost import within
from torch import Tensor, nn

from pipegraph.kernels.weights.gguf_blocks import LAYOUTS, GgufWeight
from pipegraph.models import paths
from pipegraph.models.checkpoints.load import load_model, load_text_encoders
from pipegraph.models.checkpoints.parts import parts
from pipegraph.models.checkpoints.source import recommend
from pipegraph.models.loading.header_values import BLOCKS, LoadError
from pipegraph.models.loading.headers import read_header
from pipegraph.models.loading.place import Place
from pipegraph.models.loading.reading import open_weights
from pipegraph.models.model import Model

Kind: Any = gguf.GGMLQuantizationType
Choose = Callable[[str, Tensor], str]
"""Which type a tensor is to be stored in, by its name and value."""


def stored(tensor: Tensor, kind: str) -> Any:
    """A tensor as the reference package quantizes it; random valid blocks where it cannot."""
    if kind in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F32", "F16", "BF16"):
        return gguf.quantize(tensor.numpy(), Kind[kind])
    rng, (rows, width) = np.random.default_rng(len(kind)), tensor.shape
    data = rng.integers(0, 256, (rows, width // BLOCKS[kind][0], BLOCKS[kind][1]), dtype=np.uint8)
    for at in {"Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}[kind]:
        data[..., at : at + 2] = rng.normal(0, 2e-4, (*data.shape[:2], 1)).astype(np.float16).view(np.uint8)
    return data.reshape(rows, -1)


def write(path: Path, tensors: Mapping[str, Tensor], choose: Choose, **metadata: str) -> dict[str, Tensor]:
    """Write a GGUF file as converters do for ComfyUI; gives what its tensors stand for."""
    writer = gguf.GGUFWriter(path, "flux")
    writer.add_quantization_version(2)
    for key, value in metadata.items():
        writer.add_string(key, value)
    true = {}
    for name, tensor in tensors.items():
        kind = choose(name, tensor)
        data = stored(tensor, kind)
        writer.add_tensor(name, data, raw_dtype=Kind[kind])
        true[name] = torch.from_numpy(gguf.dequantize(data, Kind[kind]).reshape(tensor.shape).copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return true


def matrices(kind: str, block: int) -> Choose:
    """Matrices in one type where their rows are whole blocks, float32 else."""
    return lambda name, t: kind if t.ndim == 2 and t.shape[1] % block == 0 else "F32"


def same_weights(packed: nn.Module, true: nn.Module) -> None:
    """The same parameters bit for bit, once unpacked."""
    plain = dict(true.named_parameters())
    for name, layer in packed.named_modules():
        if isinstance(layer, nn.Linear):
            weight: Any = layer.weight
            found = weight if isinstance(weight, Tensor) else weight.dequantize(torch.float32)
            assert torch.equal(found, plain.pop(f"{name}.weight")), name
    for name, parameter in packed.named_parameters():
        if name in plain:
            assert torch.equal(parameter, plain.pop(name)), name
    assert not plain


def formats(network: nn.Module) -> set[str]:
    layers = [m for m in network.modules() if isinstance(m, nn.Linear)]
    return {getattr(m.weight, "format", "plain") for m in layers}


def predict(model: Model) -> Tensor:
    draw = torch.Generator().manual_seed(0)
    text, pooled = torch.randn(1, 16, 128, generator=draw), torch.randn(1, 128, generator=draw)
    x = torch.randn(1, 16, 16, 16, generator=draw)
    prepared = model.prepare([[text, {"pooled_output": pooled, "guidance": 1.0}]], x)
    return model.predict(x, torch.tensor([0.7]), prepared)[0]


def test_a_flux_in_blocks(bfl: Mapping[str, Tensor], config: dict[str, str], models: Path, place: Place) -> None:
    true = write(models / "diffusion_models/flux.gguf", bfl, matrices("Q4_0", 32), **config)
    save_file(true, models / "diffusion_models/true.safetensors", config)
    model, exact = load_model("flux.gguf", place), load_model("true.safetensors", place)
    same_weights(model.loaded.network, exact.loaded.network)
    assert formats(model.loaded.network) == {"gguf-q4_0"}
    assert (predict(model) - predict(exact)).abs().max() < 2e-5


def test_a_mixture_of_all_types(bfl: Mapping[str, Tensor], config: dict[str, str], models: Path, place: Place) -> None:
    """Types differ from layer to layer, as in Q4_K_M files; where a row is no whole blocks it is in another type."""
    kinds = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"], ["Q8_0", "Q4_1", "Q5_0", "Q5_1", "F16", "BF16"]
    seen: dict[str, int] = {}

    def choose(name: str, t: Tensor) -> str:
        if t.ndim != 2:
            return "F32"
        some = kinds[0] if t.shape[1] % 256 == 0 else kinds[1]
        seen[some[0]] = seen.get(some[0], -1) + 1
        return some[seen[some[0]] % len(some)]

    true = write(models / "diffusion_models/flux.gguf", bfl, choose, **config)
    save_file(true, models / "diffusion_models/true.safetensors", config)
    network = load_model("flux.gguf", place).loaded.network
    assert formats(network) == {f"gguf-{k.lower()}" for k in LAYOUTS if k != "Q4_0"} | {"plain"}
    same_weights(network, load_model("true.safetensors", place).loaded.network)


def test_weights_are_the_bytes_of_the_file(
    bfl: Mapping[str, Tensor], config: dict[str, str], models: Path, place: Place
) -> None:
    file = models / "diffusion_models/flux.gguf"
    write(file, bfl, matrices("Q4_0", 32), **config)
    network = load_model("flux.gguf", place).loaded.network
    weights = [m.weight for n, m in network.named_modules() if isinstance(m, nn.Linear) and n != "norm_out.linear"]
    assert {w.data.untyped_storage().nbytes() for w in weights if isinstance(w, GgufWeight)} == {file.stat().st_size}
    assert network.pipegraph_nbytes < 0.2 * sum(t.nbytes for t in bfl.values())


def test_header_as_the_reference_package_reads_it(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "pig")
    writer.add_uint8("a.u8", 200)
    writer.add_int64("a.i64", -5)
    writer.add_float64("a.f64", 0.25)
    writer.add_bool("a.bool", True)
    writer.add_array("a.list", [1, 2, 3])
    writer.add_array("a.words", ["eins", "zwei", "猫"])
    writer.add_custom_alignment(64)
    writer.add_tensor("x", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("y", np.ones(5, np.float16))
    writer.add_tensor("z", stored(torch.randn(3, 64), "Q4_1"), raw_dtype=Kind.Q4_1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found, true = read_header(tmp_path / "x.gguf"), gguf.GGUFReader(tmp_path / "x.gguf")
    assert found.form == "GGUF" and [*found.tensors] == [t.name for t in true.tensors]
    for t in true.tensors:
        entry = found.tensors[t.name]
        assert (entry.dtype, entry.begin) == (t.tensor_type.name, t.data_offset)
        assert entry.shape == tuple(int(n) for n in reversed(t.shape))
    told = {k: v for k, v in found.metadata.items() if k.startswith("a.")}
    assert told == {
        "a.u8": 200,
        "a.i64": -5,
        "a.f64": 0.25,
        "a.bool": True,
        "a.list": (1, 2, 3),
        "a.words": ("eins", "zwei", "猫"),
    }
    weights: dict[str, Any] = open_weights(found)
    assert torch.equal(weights["x"], torch.arange(6.0).view(2, 3)) and isinstance(weights["z"], GgufWeight)


def test_block_sizes_are_those_of_the_kernels() -> None:
    assert {k: (v.block, v.bytes) for k, v in LAYOUTS.items()} == BLOCKS


def test_a_flattened_tensor_has_its_own_shape_again(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "sdxl")
    data = gguf.quantize(np.random.default_rng(0).normal(size=(9, 32)).astype(np.float32), Kind.Q8_0)
    writer.add_tensor("conv", data, raw_dtype=Kind.Q8_0)
    writer.add_array("comfy.gguf.orig_shape.conv", [8, 4, 3, 3])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    true = torch.from_numpy(gguf.dequantize(data, Kind.Q8_0)).view(8, 4, 3, 3)
    found: Any = open_weights(read_header(tmp_path / "x.gguf"))["conv"]
    assert torch.equal(found, true)


def small(path: Path) -> bytes:
    write(path, {"x": torch.ones(4, 64), "y": torch.ones(3)}, matrices("Q8_0", 32))
    return path.read_bytes()


def test_cut_and_broken_files_are_refused(tmp_path: Path) -> None:
    file, broken = tmp_path / "x.gguf", tmp_path / "broken.gguf"
    data = small(file)
    for length in [*range(4, len(data) - 320, 7), len(data) - 64]:
        broken.write_bytes(data[:length])
        with pytest.raises(
            LoadError, match=r"broken\.gguf(: its GGUF header is broken| is cut off| is GGUF of version)"
        ):
            read_header(broken)
    for at, new in {4: b"\x09\0\0\0", 8: b"\xff" * 8, 16: b"\xff" * 8}.items():  # version, tensors, keys
        broken.write_bytes(data[:at] + new + data[at + len(new) :])
        with pytest.raises(LoadError):
            read_header(broken)


def test_types_that_are_not_read_are_named_with_those_that_are(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "flux")
    for name in ("a", "b"):
        writer.add_tensor(name, np.zeros((2, 18), np.uint8), raw_dtype=Kind.IQ4_NL)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(LoadError, match=r"IQ4_NL: 2 tensors, e\.g\. `a`.*these are: Q4_0, Q4_1.*Q6_K, BF16, F16"):
        read_header(tmp_path / "x.gguf")


def test_parts_of_a_split_file_are_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "flux")
    writer.add_uint16("split.count", 3)
    writer.add_tensor("a", np.zeros(2, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(LoadError, match=r"one of 3 parts; merge them"):
        read_header(tmp_path / "x.gguf")


def test_every_tensor_must_have_a_place(bfl: Mapping[str, Tensor], config: dict[str, str], models: Path) -> None:
    write(models / "diffusion_models/x.gguf", {**bfl, "surprise.weight": torch.ones(4)}, lambda n, t: "F32", **config)
    with pytest.raises(LoadError, match=r"1 tensors have no place in transformer: surprise\.weight"):
        parts(models / "diffusion_models/x.gguf")


def test_a_model_of_another_kind_is_named(tmp_path: Path) -> None:
    small(tmp_path / "x.gguf")
    with pytest.raises(LoadError, match="no network that pipegraph knows"):
        parts(tmp_path / "x.gguf")


def test_recommendation_reads_the_header(bfl: Mapping[str, Tensor], config: dict[str, str], models: Path) -> None:
    write(models / "diffusion_models/flux.gguf", bfl, matrices("Q4_0", 32), **config)
    assert "flux.gguf" in paths.names("diffusion_models")
    assert recommend("flux.gguf", "diffusion_models")["steps"] == 4  # no guidance in it: as FLUX.1 schnell


def test_t5_by_the_names_of_ggml(models: Path, place: Place, config: dict[str, str]) -> None:
    folder = paths.EMBEDDED / "flux-tiny/text_encoder_2"
    names = {
        "SelfAttention.q": "attn_q",
        "SelfAttention.k": "attn_k",
        "SelfAttention.v": "attn_v",
        "SelfAttention.o": "attn_o",
        "SelfAttention.relative_attention_bias": "attn_rel_b",
        "DenseReluDense.wi_0": "ffn_gate",
        "DenseReluDense.wi_1": "ffn_up",
        "DenseReluDense.wo": "ffn_down",
        "layer.0.layer_norm": "attn_norm",
        "layer.1.layer_norm": "ffn_norm",
    }
    tensors = {}
    for name, t in load_file(folder / "model.safetensors").items():
        stem = name.removesuffix(".weight")
        if stem.startswith("encoder.block."):
            ggml = next(new for old, new in names.items() if stem.endswith(old))
            tensors[f"enc.blk.{stem.split('.')[2]}.{ggml}.weight"] = t.float()
        elif "embed_tokens" not in stem:
            new = "token_embd" if stem == "shared" else "enc.output_norm"
            tensors[f"{new}.weight"] = t.float()
    write(models / "text_encoders/t5.gguf", tensors, matrices("Q8_0", 32), **config)
    clip = load_text_encoders("flux", ["embedded/flux-tiny"], place)
    found = load_text_encoders("flux", ["t5.gguf"], place).encoders["t5xxl"]
    exact = clip.encoders["t5xxl"]
    assert "gguf-q8_0" in formats(found.loaded.network)
    ids = torch.tensor([exact.tokenize("a red apple on the beach").ids])
    a, b = (e.loaded.network(input_ids=ids).last_hidden_state for e in (found, exact))
    assert 0 < (a - b).norm() / b.norm() < 0.02


def test_a_language_model_opens_at_once(tmp_path: Path) -> None:
    """One of 135 million weights (SmolLM2's sizes), its vocabulary read too: 1.5 s of one core at most."""
    rng, writer = np.random.default_rng(0), gguf.GGUFWriter(tmp_path / "llm.gguf", "llama")
    words = [f"word{i}" for i in range(49152)]
    writer.add_token_list(words)
    writer.add_token_merges([f"a{w} {w}" for w in words[:48900]])
    writer.add_token_types([1] * len(words))
    shapes = {"token_embd.weight": (49152, 576)}
    for i in range(30):
        shapes |= {f"blk.{i}.attn_{n}.weight": (192 if n in "kv" else 576, 576) for n in ("q", "k", "v", "output")}
        shapes |= {
            f"blk.{i}.ffn_{n}.weight": (576, 1536) if n == "down" else (1536, 576) for n in ("gate", "up", "down")
        }
    for name, (rows, width) in shapes.items():
        data = rng.integers(0, 60, (rows, width // 32 * 20), dtype=np.uint8)
        writer.add_tensor(name, data, raw_dtype=Kind.Q4_1)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with within(30):
        header = read_header(tmp_path / "llm.gguf")
        weights = open_weights(header)
    assert sum(w.shape[0] * w.shape[1] for w in weights.values()) == 134_479_872
    assert header.metadata["tokenizer.ggml.tokens"][49151] == "word49151"
