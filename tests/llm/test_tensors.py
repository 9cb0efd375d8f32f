"""Every tensor of a language model has its place and every place its tensor, and headers tell what does not fit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import load_file, save_file
from torch import Tensor

import pipegraph as pg
from pipegraph.graphs.errors import GraphError
from pipegraph.kernels.weights.qweight import QWeight
from pipegraph.models.checkpoints.language import files_of as encoder_files_of
from pipegraph.models.checkpoints.load import load_text_encoders
from pipegraph.models.llm.load import files_of, load_llm
from pipegraph.models.llm.tokenizer import Tokenizer
from pipegraph.models.loading.header_values import LoadError
from pipegraph.models.loading.language_folder import load_network
from pipegraph.models.loading.place import Place

from .conftest import save_llm
from .gguf_files import write_gguf
from .networks import COMMON, CONFIGS
from .networks import make as make_network

CPU, FLOAT = torch.device("cpu"), torch.float32
Tensors = dict[str, Tensor]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, llm_folder: Path) -> Path:
    """A Llama of two layers that is `tiny` among the language models and `llama` among the text encoders."""
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path / "models"))
    place = tmp_path / "models" / "llm" / "tiny"
    shutil.copytree(llm_folder, place)
    (tmp_path / "models" / "text_encoders").mkdir()
    (tmp_path / "models" / "text_encoders" / "llama").symlink_to(place)
    return place


def change(folder: Path, edit: Callable[[Tensors], Any]) -> None:
    tensors = load_file(folder / "model.safetensors")
    edit(tensors)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def set_config(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


MISSING = [
    "model.layers.1.mlp.up_proj.weight",
    "model.embed_tokens.weight",
    "model.norm.weight",
    "model.layers.0.input_layernorm.weight",
    "lm_head.weight",
]


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_tensor_is_named_before_anything_runs(folder: Path, name: str) -> None:
    change(folder, lambda tensors: tensors.pop(name))
    expected = rf"tensors of \w+ are missing: {name}"
    with pytest.raises(LoadError, match=expected):
        load_llm("tiny", CPU, FLOAT)
    with pytest.raises(LoadError, match=expected):
        files_of("tiny")  # what validate asks
    if name != "lm_head.weight":  # what only encodes needs none
        with pytest.raises(LoadError, match=expected):
            load_text_encoders("hunyuan_video", ["llama"], Place(CPU, FLOAT))
        with pytest.raises(LoadError, match=expected):
            encoder_files_of(folder)


def test_validate_says_it(folder: Path) -> None:
    change(folder, lambda tensors: tensors.pop(MISSING[0]))
    nodes = {
        "1": {"class_type": "LoadLLM", "inputs": {"llm_name": "tiny"}},
        "2": {"class_type": "Tokenize", "inputs": {"llm": ["1", 0], "text": "a"}},
        "3": {"class_type": "Detokenize", "inputs": {"llm": ["1", 0], "tokens": ["2", 0]}},
        "4": {"class_type": "PreviewAny", "inputs": {"source": ["3", 0]}},
    }
    with pytest.raises(GraphError, match=r"mlp\.up_proj\.weight"):
        pg.load(nodes).check()


def test_layers_are_those_of_the_config(folder: Path) -> None:
    set_config(folder, num_hidden_layers=3)
    for ask in (files_of, lambda name: load_llm(name, CPU, FLOAT)):
        with pytest.raises(LoadError, match=r"missing: model\.layers\.2\.\S+, .* and 4 more"):
            ask("tiny")
    set_config(folder, num_hidden_layers=1)
    for ask in (files_of, lambda name: load_llm(name, CPU, FLOAT)):
        with pytest.raises(LoadError, match=r"have no place in \w+: model\.layers\.1\."):
            ask("tiny")


def test_all_misfits_are_one_error(folder: Path) -> None:
    def edit(tensors: Tensors) -> None:
        tensors["model.layers.0.mlp.extra.weight"] = torch.zeros(2)
        tensors["model.norm.weight"] = torch.zeros(7)
        del tensors["model.layers.1.self_attn.o_proj.weight"]
        tensors["model.layers.1.mlp.down_proj.weight"] = torch.zeros(32, 64, dtype=torch.uint8)

    change(folder, edit)
    with pytest.raises(LoadError) as raised:
        load_llm("tiny", CPU, FLOAT)
    for part in (
        r"missing: model.layers.1.self_attn.o_proj.weight",
        "no place in LlamaForCausalLM: model.layers.0.mlp.extra.weight",
        "do not fit LlamaForCausalLM: `model.norm.weight` is [7], its config says [32]",
        "whole numbers without a scale: model.layers.1.mlp.down_proj.weight",
    ):
        assert part in str(raised.value)


def test_tied_weights_may_be_stored_once_or_twice(folder: Path) -> None:
    embedding = load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    set_config(folder, tie_word_embeddings=True)
    own = load_llm("tiny", CPU, FLOAT).loaded.network  # two that differ: its own head counts
    assert not torch.equal(own.lm_head.weight, own.model.embed_tokens.weight)
    change(folder, lambda tensors: tensors.update({"lm_head.weight": embedding.clone()}))
    network: Any = load_llm("tiny", CPU, FLOAT).loaded.network
    assert network.lm_head.weight is network.model.embed_tokens.weight  # two that are equal are one
    change(folder, lambda tensors: tensors.pop("lm_head.weight"))
    network = load_llm("tiny", CPU, FLOAT).loaded.network
    assert network.lm_head.weight is network.model.embed_tokens.weight and torch.equal(
        network.lm_head.weight, embedding
    )
    change(folder, lambda tensors: tensors.update({"lm_head.weight": tensors.pop("model.embed_tokens.weight")}))
    network = load_llm("tiny", CPU, FLOAT).loaded.network
    assert network.lm_head.weight is network.model.embed_tokens.weight
    quantized = load_llm("tiny", CPU, FLOAT, quantize="q8").loaded.network
    assert isinstance(quantized.lm_head.weight, QWeight) and isinstance(quantized.model.embed_tokens.weight, Tensor)


def test_an_encoder_without_an_output_layer_only_encodes(folder: Path) -> None:
    change(folder, lambda tensors: tensors.pop("lm_head.weight"))
    encoder: Any = load_text_encoders("hunyuan_video", ["llama"], Place(CPU, FLOAT)).encoders["llama"]
    assert not encoder.writes


def test_what_is_loaded_is_what_the_index_names(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    halves = [dict(list(tensors.items())[::2]), dict(list(tensors.items())[1::2])]
    where = {name: f"model-0000{i + 1}-of-00002.safetensors" for i, half in enumerate(halves) for name in half}
    for i, half in enumerate(halves):
        save_file(half, folder / f"model-0000{i + 1}-of-00002.safetensors", {"format": "pt"})
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": where}))
    save_file({n: torch.zeros_like(t) for n, t in tensors.items()}, folder / "model.safetensors", {"format": "pt"})
    network = load_llm("tiny", CPU, FLOAT).loaded.network
    assert torch.equal(network.model.norm.weight, tensors["model.norm.weight"])
    assert {f.name for f in files_of("tiny") if f.suffix == ".safetensors"} == set(where.values())
    shard = folder / "model-00002-of-00002.safetensors"
    shard.rename(folder / "aside")
    for ask in (files_of, lambda name: load_llm(name, CPU, FLOAT)):
        with pytest.raises(LoadError, match=r"lacks model-00002-of-00002\.safetensors, which .*index\.json names"):
            ask("tiny")
    (folder / "aside").rename(shard)
    index.write_text(
        json.dumps(
            {
                "weight_map": where
                | {"lm_head.weight": "model-00001-of-00002.safetensors"}
                | {"model.norm.weight": "model-00002-of-00002.safetensors"}
            }
        )
    )
    with pytest.raises(LoadError, match="do not agree about"):
        files_of("tiny")
    for broken in ("[]", "{", '{"weight_map": {"a": 3}}', '{"weight_map": {"a": "../x.safetensors"}}'):
        index.write_text(broken)
        with pytest.raises(LoadError, match=r"model\.safetensors\.index\.json"):
            files_of("tiny")


FAST = ("llama", "gemma3", "qwen3_moe", "gpt_oss", "falcon_h1")


@pytest.mark.parametrize("kind", [k if k in FAST else pytest.param(k, marks=pytest.mark.slow) for k in CONFIGS])
def test_networks_are_as_transformers_loads_them(tmp_path: Path, kind: str) -> None:
    """Parameters, buffers that no file holds and types, also where a class keeps some tensors in float32."""
    make_network(kind).to(torch.bfloat16).save_pretrained(tmp_path)
    for dtype in (torch.bfloat16, torch.float32, torch.float16):
        theirs: Any = hf.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=dtype)
        ours = load_network(tmp_path, CPU, dtype, "", sees=False)
        for read in ("named_parameters", "named_buffers"):
            wanted = dict(getattr(theirs, read)(remove_duplicate=False))
            tensors = dict(getattr(ours, read)(remove_duplicate=False))
            assert tensors.keys() == wanted.keys()
            for name, tensor in tensors.items():
                assert tensor.dtype == wanted[name].dtype and torch.equal(tensor, wanted[name]), (dtype, name)


def test_a_missing_expert_is_named(tmp_path: Path) -> None:
    """The matrices of experts are stored one by one and stacked: those behind a gap would move up."""
    make_network("qwen3_moe").save_pretrained(tmp_path)
    name = "model.layers.1.mlp.experts.2.up_proj.weight"
    change(tmp_path, lambda tensors: tensors.pop(name))
    with pytest.raises(LoadError, match=rf"are missing: {name}$"):
        load_network(tmp_path, CPU, FLOAT, "", sees=False)
    change(tmp_path, lambda tensors: [tensors.pop(name.replace("up", part)) for part in ("gate", "down")])
    with pytest.raises(LoadError, match=r"experts\.2\.down_proj\.weight, .*experts\.2\.gate_proj\.weight"):
        load_network(tmp_path, CPU, FLOAT, "", sees=False)


def test_weights_that_only_transformers_unpacks(tmp_path: Path) -> None:
    """gpt-oss comes in MXFP4; the rule is the same."""
    pytest.importorskip("accelerate")
    config = hf.GptOssConfig(
        **{
            **COMMON,
            "intermediate_size": 64,
            "head_dim": 16,
            "num_hidden_layers": 1,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
            "layer_types": ["full_attention"],
        }
    )
    whole: Any = hf.GptOssForCausalLM(config)
    whole.bfloat16().save_pretrained(tmp_path)

    def quantize(tensors: Tensors) -> None:
        for name in [n for n in tensors if n.endswith(("gate_up_proj", "down_proj"))]:
            experts, inputs, outputs = tensors.pop(name).shape
            tensors[f"{name}_blocks"] = torch.full((experts, outputs, inputs // 32, 16), 0x21, dtype=torch.uint8)
            tensors[f"{name}_scales"] = torch.full((experts, outputs, inputs // 32), 128, dtype=torch.uint8)

    change(tmp_path, quantize)
    set_config(tmp_path, quantization_config={"quant_method": "mxfp4"})
    network = load_network(tmp_path, CPU, torch.bfloat16, "", sees=False)
    assert network.model.layers[0].mlp.experts.down_proj[0, :4, 0].tolist() == [1, 2, 1, 2]  # 0.5 and 1, times 2
    change(tmp_path, lambda tensors: tensors.pop("model.norm.weight"))
    with pytest.raises(LoadError, match=r"tensors of GptOssForCausalLM are missing: model\.norm\.weight"):
        load_network(tmp_path, CPU, torch.bfloat16, "", sees=False)
    set_config(tmp_path, quantization_config={"quant_method": "gptq", "bits": 4})
    with pytest.raises(LoadError, match=r"\(gpt_oss\) cannot be opened: .*GPTQ"):
        load_network(tmp_path, CPU, torch.bfloat16, "", sees=False)


def test_headers_of_gguf_files_tell_what_is_missing(folder: Path, tokenizer: Tokenizer) -> None:
    network: Any = hf.LlamaForCausalLM.from_pretrained(folder)
    file = folder.parent / "x.gguf"
    write_gguf(file, network, tokenizer, "Q8_0")
    files_of("x.gguf")
    whole = file.read_bytes()
    count = whole.index(b"llama.block_count")
    at = count + len(b"llama.block_count") + 4
    file.write_bytes(whole[:at] + (3).to_bytes(4, "little") + whole[at + 4 :])
    for ask in (files_of, lambda name: load_llm(name, CPU, FLOAT)):
        with pytest.raises(LoadError, match=r"missing: model\.layers\.2\."):
            ask("x.gguf")


PEAK = """
import re, sys, torch
from pathlib import Path
from pipegraph.models.loading.language_folder import load_network
torch.set_num_threads(1)
def resident(kind):
    return int(re.search(rf"{kind}:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
cpu = torch.device("cpu")
load_network(Path(sys.argv[1]), cpu, torch.float32, "w4", sees=False)
Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
network = load_network(Path(sys.argv[2]), cpu, torch.float32, "w4", sees=False)
print(resident("VmHWM") - before, network.pipegraph_nbytes / (1 << 20))
"""


@pytest.mark.slow
def test_a_folder_is_quantized_tensor_by_tensor(tmp_path: Path, tokenizer: Tokenizer) -> None:
    """Memory grows by what the quantized network takes, not by what the files hold."""
    small = save_llm(tmp_path / "small", tokenizer)
    large = save_llm(tmp_path / "large", tokenizer, hidden_size=1024, intermediate_size=4096, num_hidden_layers=6)
    size = (large / "model.safetensors").stat().st_size / (1 << 20)
    ran = subprocess.run([sys.executable, "-c", PEAK, small, large], capture_output=True, text=True, check=True)
    grown, result = map(float, ran.stdout.split())
    print(f"{size:.0f} MB of files, {result:.0f} MB in memory, grew by {grown:.0f} MB")
    assert size > 350 and result < 0.2 * size and grown < result + 60
