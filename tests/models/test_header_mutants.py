"""Broken headers of weight files: thousands of mutants, seeded; each is read or refused in our own words, soon.

A mutant is a good file with one to three changes: values of JSON or of GGUF's metadata replaced, taken away, doubled or
named anew, bytes changed, cut or put in.
"""

from __future__ import annotations

import copy
import json
import math
import random
import re
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save
from torch import Tensor

from pipegraph.models.checkpoints.language import kind_of
from pipegraph.models.checkpoints.parts import contents, parts
from pipegraph.models.llm.gguf.architectures import check_header
from pipegraph.models.llm.gguf.tokenizer import gguf_tokenizer
from pipegraph.models.loading.header_values import LoadError
from pipegraph.models.loading.headers import read_header
from pipegraph.models.loading.language_file import check_file
from pipegraph.models.loading.reading import open_weights

from ..llm.conftest import train
from ..llm.gguf_files import write_gguf
from .test_nvfp4 import packed

Use = Callable[[Path], None]
Mutate = Callable[[bytes, random.Random], bytes]
CPU_SECONDS, FIXED_MEMORY = 2.0, 200.0
ODD: list[Any] = [
    None, True, False, 0, -1, 1, 2, 3.5, 1e308, 2**31, 2**63, 2**64, 10**40, "", "x", "F32", "F4", "é\ud800", [], {},
    [[]], [1.0], [-1, -4], [True], ["a"], {"a": 1}, [0], [1] * 9, [2**40, 2**40], [0, 0], "null", "\x00",
]  # fmt: skip


@dataclass
class Worst:
    """What mutants have cost so far."""

    refused: int = 0
    read: int = 0
    seconds: float = 0.0
    megabytes: float = 0.0


def resident(kind: str) -> float:
    """Memory of this process in MB: now (VmRSS), or the most since the last reset (VmHWM)."""
    match = re.search(rf"{kind}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert match
    return int(match[1]) / 1024


def use_safetensors(file: Path) -> None:
    """All that reads headers, and the tensors themselves."""
    contents(file)
    header = read_header(file)
    if kind := kind_of(file):
        check_file(header, kind)
    open_weights(header)
    parts(file)


def use_gguf(file: Path) -> None:
    contents(file)
    header = read_header(file)
    open_weights(header)
    if header.metadata.get("general.architecture") == "llama":
        check_header(header)
        gguf_tokenizer(header.metadata, str(file))
    else:
        parts(file)


def survive(file: Path, data: bytes, use: Use, seed: str, worst: Worst) -> None:
    """Read one mutant: fine, or a LoadError; neither long nor large."""
    file.write_bytes(data)
    Path("/proc/self/clear_refs").write_text("5")
    before, began = resident("VmRSS"), time.process_time()
    try:
        use(file)
        worst.read += 1
    except LoadError as e:
        worst.refused += 1
        assert str(file) in str(e) or "`" in str(e), f"{seed}: {e}"
    except Exception as e:
        file.with_suffix(f".{seed}").write_bytes(data)
        raise AssertionError(f"mutant {seed} of {len(data)} bytes: {type(e).__name__}: {e}") from e
    seconds, grown = time.process_time() - began, resident("VmHWM") - before
    assert seconds < CPU_SECONDS, f"mutant {seed} took {seconds:.1f} s"
    assert grown < 3 * len(data) / (1 << 20) + FIXED_MEMORY, f"mutant {seed} took {grown:.0f} MB"
    worst.seconds, worst.megabytes = max(worst.seconds, seconds), max(worst.megabytes, grown)


def split(data: bytes) -> tuple[Any, bytes]:
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def joined(header: bytes, body: bytes) -> bytes:
    return len(header).to_bytes(8, "little") + header + body


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in a JSON value with each of its keys."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield value, key
        yield from places(inner)


def change_json(table: Any, rng: random.Random) -> None:
    holder, key = rng.choice([*places(table)])
    match rng.randrange(6):
        case 0 | 1:
            holder[key] = copy.deepcopy(rng.choice(ODD))
        case 2:
            del holder[key]
        case 3 if isinstance(holder, dict):
            names = ["__metadata__", f"{key}x", str(key)[:-1], "vae.", "scaled_fp8", f"{key}.comfy_quant", "a.lora_A.b"]
            holder[rng.choice(names)] = holder.pop(key)
        case 4 if isinstance(holder[key], int):
            holder[key] += rng.choice([-1, 1, 2, 8, -(10**6), 10**9])
        case _:
            if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(rng.choice(ODD)))
            else:
                holder[f"{key}.twin"] = copy.deepcopy(holder[key])


def change_bytes(data: bytes, upto: int, rng: random.Random) -> bytes:
    at = rng.randrange(max(1, min(len(data), upto)))
    match rng.randrange(5):
        case 0:
            return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + rng.randbytes(rng.randrange(1, 9)) + data[at:]
        case 3:
            return data[:at] + data[at + rng.randrange(1, 9) :]
        case _:
            number = rng.choice([0, 1, 2, 7, 8, 9, 255, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1])
            return data[:at] + struct.pack("<Q", number) + data[at + 8 :]


BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "I64": 64, "I32": 32, "I8": 8, "U8": 8}


def laid_out(table: dict[str, Any], most: int = 1 << 20) -> bytes:
    """The bytes of tensors of these shapes and types; their places are put into the table, where they make sense."""
    place = 0
    for entry in table.values():
        if not isinstance(entry, dict) or not isinstance(entry.get("shape"), list):
            continue
        sizes = [n for n in entry["shape"] if type(n) is int and 0 <= n <= most]
        size = math.prod(sizes) * BITS.get(str(entry.get("dtype")), 8) // 8
        if len(sizes) == len(entry["shape"]) and size <= most:
            entry["data_offsets"], place = [place, place + size], place + size
    return bytes(place)


def safetensors_mutant(good: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return change_bytes(good, 8 + int.from_bytes(good[:8], "little"), rng)
    table, body = split(good)
    for _ in range(rng.randrange(1, 4)):
        if not isinstance(table, dict) or not table:
            break
        change_tensor(table, rng) if rng.random() < 0.5 else change_json(table, rng)
    config = table.get("__metadata__", {}).get("config") if isinstance(table.get("__metadata__"), dict) else None
    if config and rng.random() < 0.5:  # the configs inside
        inner = json.loads(config) if isinstance(config, str) and config.startswith("{") else {"a": 1}
        change_json(inner, rng)
        table["__metadata__"]["config"] = json.dumps(inner)
    if rng.random() < 0.7:
        body = laid_out(table)
    text = json.dumps(table)
    if rng.random() < 0.05:  # twins, depth and numbers that only text can hold
        text = rng.choice([text.replace("{", '{"x":{},"x":{},', 1), "[" * 3000, text[:-1] + ',"n":' + "9" * 5000 + "}"])
    return joined(text.encode("utf-8", "surrogatepass"), body)


def change_tensor(table: dict[str, Any], rng: random.Random) -> None:
    """Another shape, type or name of one tensor, or no such tensor."""
    name = rng.choice([*table])
    entry = table[name]
    if not isinstance(entry, dict) or not isinstance(entry.get("shape"), list):
        return
    match rng.randrange(5):
        case 0 if entry["shape"]:
            entry["shape"][rng.randrange(len(entry["shape"]))] = rng.choice([0, 1, 2, 3, 4, 16, 64, 768])
        case 1:
            entry["shape"] = [rng.choice([0, 1, 2, 4, 16]) for _ in range(rng.randrange(6))]
        case 2:
            entry["dtype"] = rng.choice([*BITS])
        case 3:
            table[re.sub(r"\d+", lambda m: str(rng.choice([0, 1, 9, 10**6, int(m[0])])), name)] = table.pop(name)
        case _:
            del table[name]


def gguf_bytes(metadata: dict[str, Any], tensors: dict[str, tuple[int, tuple[int, ...], int]]) -> bytes:
    """A GGUF file of metadata and tensors: ggml's type, dimensions fastest first, and bytes."""
    out = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    for key, value in metadata.items():
        out += [gguf_text(key), gguf_value(value)]
    place = 0
    for name, (kind, shape, size) in tensors.items():
        out += [gguf_text(name), struct.pack(f"<I{len(shape)}Q", len(shape), *(n % 2**64 for n in shape))]
        out.append(struct.pack("<IQ", kind, place))
        place += -(-size // 32) * 32
    head = b"".join(out)
    return head + bytes(-len(head) % 32) + bytes(place)


def gguf_text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def gguf_value(value: Any, typed: bool = True) -> bytes:
    match value:
        case bool():
            kind, data = 7, struct.pack("<?", value)
        case int():
            kind, data = (
                (10, struct.pack("<Q", value)) if 0 <= value < 2**64 else (11, struct.pack("<q", value % 2**62))
            )
        case float():
            kind, data = 12, struct.pack("<d", value)
        case str():
            kind, data = 8, gguf_text(value)
        case _:
            items = [v for v in value if type(v) is type(value[0])] if value else []
            each = [gguf_value(v) for v in items] or [struct.pack("<I", 4)]
            kind, data = 9, each[0][:4] + struct.pack("<Q", len(items)) + b"".join(e[4:] for e in each if items)
    return struct.pack("<I", kind) + data


GGUF_ODD: list[Any] = [
    "", "x", "llama", "gpt2", True, False, 0, 1, 2, 3, 7, 33, 255, 10**6, 2**31, 2**63, 0.0, -1.5, 1e308, float("nan"),
    (), (1, 2), ("a", "b"), (1.5,), ((1,), (2,)), "%{{ messages }}",
]  # fmt: skip


def gguf_mutant(good: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.25:
        return change_bytes(good, good.rindex(b"weight") + 40, rng)
    metadata, tensors = GGUF_PARTS[good]
    metadata, tensors = dict(metadata), dict(tensors)
    for _ in range(rng.randrange(1, 4)):
        key, name = rng.choice([*metadata]), rng.choice([*tensors])
        kind, shape, size = tensors[name]
        match rng.randrange(8):
            case 0 | 1:
                metadata[key] = rng.choice(GGUF_ODD)
            case 2 if len(metadata) > 3:
                del metadata[key]
            case 3 if isinstance(metadata[key], tuple) and metadata[key]:
                at = rng.randrange(len(metadata[key]))
                metadata[key] = metadata[key][:at] + metadata[key][at + rng.randrange(3) :]
            case 4 if len(tensors) > 3:
                del tensors[name]
            case 5:
                tensors[rng.choice([f"{name}x", name.replace("0", "7"), "blk.0.attn_q.weight", "output.weight"])] = (
                    kind,
                    shape,
                    size,
                )
            case 6:
                new = tuple(rng.choice([0, 1, 2, 32, 64, 2**63]) for _ in shape)
                tensors[name] = kind, new, 4 * min(math.prod(new), 1 << 16)
            case _:
                tensors[name] = rng.choice([0, 1, 2, 3, 8, 12, 14, 24, 39, 99]), shape, size
    return gguf_bytes(metadata, tensors)


GGUF_PARTS: dict[bytes, tuple[dict[str, Any], dict[str, tuple[int, tuple[int, ...], int]]]] = {}
"""Metadata and tensors of the good files."""


@pytest.fixture(scope="module")
def good_safetensors(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """A whole model with its config, a scaled fp8 file, one in NVFP4, a language model, a VAE without a config."""
    layouts = _layouts()
    whole = layouts.all_in_one() if hasattr(layouts, "all_in_one") else layouts.to_bfl(layouts.shipped())
    small = {n: t[..., :1].contiguous() if t.ndim > 1 else t[:1].contiguous() for n, t in whole.items()}
    scaled: dict[str, Tensor] = {
        "scaled_fp8": torch.zeros(2).to(torch.float8_e4m3fn),
        "a.weight": torch.zeros(4, 8).to(torch.float8_e4m3fn),
        "a.scale_weight": torch.ones(()),
        "b.weight": torch.zeros(4, 8),
    }
    language = {f"model.layers.{i}.{n}": torch.zeros(s) for i in range(2) for n, s in _LAYER.items()}
    language |= {"model.embed_tokens.weight": torch.zeros(16, 8), "model.norm.weight": torch.zeros(8)}
    names = ("encoder.conv_in.weight", "decoder.conv_in.weight")
    vae = {f"first_stage_model.{n}": torch.zeros(16, 16, 3, 3) for n in names}
    nvfp4 = {n.replace("a.", "double_blocks.0.img_attn.qkv."): t for n, t in packed()[0].items()}
    return [save(small, layouts.config()), save(scaled), save(nvfp4), save(language), save(vae)]


_LAYER = {
    "self_attn.q_proj.weight": (256, 8),
    "self_attn.k_proj.weight": (128, 8),
    "self_attn.v_proj.weight": (128, 8),
    "self_attn.o_proj.weight": (8, 256),
    "self_attn.q_norm.weight": (128,),
    "self_attn.k_norm.weight": (128,),
    "mlp.gate_proj.weight": (16, 8),
    "mlp.up_proj.weight": (16, 8),
    "mlp.down_proj.weight": (8, 16),
    "input_layernorm.weight": (8,),
    "post_attention_layernorm.weight": (8,),
}


def _layouts() -> Any:
    from .conftest import layouts

    return layouts


@pytest.fixture(scope="module")
def good_gguf(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """A language model with its tokenizer, and a diffusion network."""
    import gguf
    from transformers import LlamaConfig, LlamaForCausalLM

    folder, tokenizer = tmp_path_factory.mktemp("gguf"), train()
    sizes: dict[str, Any] = dict(hidden_size=32, intermediate_size=32, num_attention_heads=2, num_hidden_layers=1)
    network = LlamaForCausalLM(LlamaConfig(vocab_size=-(-tokenizer.size // 32) * 32, **sizes))
    write_gguf(folder / "llama.gguf", network.requires_grad_(False), tokenizer, "Q8_0")
    writer = gguf.GGUFWriter(folder / "flux.gguf", "flux")
    for name in ("double_blocks.0.img_attn.qkv.weight", "img_in.weight", "single_blocks.0.linear1.weight"):
        writer.add_tensor(name, torch.zeros(4, 32).numpy())
        writer.add_array(f"comfy.gguf.orig_shape.{name}", [4, 32])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for file in (folder / "llama.gguf", folder / "flux.gguf"):
        reader = gguf.GGUFReader(file)
        tensors = {t.name: (int(t.tensor_type), tuple(int(n) for n in t.shape), int(t.n_bytes)) for t in reader.tensors}
        GGUF_PARTS[file.read_bytes()] = dict(read_header(file).metadata), tensors
    return [*GGUF_PARTS]


def many(tmp_path: Path, good: list[bytes], seed: int, count: int, suffix: str, mutate: Mutate, use: Use) -> Worst:
    worst = Worst()
    for n in range(count):
        rng = random.Random(f"{seed}/{n}")
        survive(
            tmp_path / f"m{n % 50}{suffix}", mutate(rng.choice(good), rng), use, f"{seed}/{n}".replace("/", "-"), worst
        )
    print(f"{count} mutants of seed {seed}: {worst}")
    return worst


FEW = [pytest.param(1, 300), pytest.param(2, 12_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("seed", "count"), FEW)
def test_mutants_of_safetensors(tmp_path: Path, good_safetensors: list[bytes], seed: int, count: int) -> None:
    worst = many(tmp_path, good_safetensors, seed, count, ".safetensors", safetensors_mutant, use_safetensors)
    assert worst.refused > count // 3


@pytest.mark.parametrize(("seed", "count"), FEW)
def test_mutants_of_gguf(tmp_path: Path, good_gguf: list[bytes], seed: int, count: int) -> None:
    worst = many(tmp_path, good_gguf, seed, count, ".gguf", gguf_mutant, use_gguf)
    assert worst.refused > count // 3


def test_the_files_are_good(tmp_path: Path, good_safetensors: list[bytes], good_gguf: list[bytes]) -> None:
    """Without a change their headers are read."""
    for data, suffix in [*((d, ".safetensors") for d in good_safetensors), *((d, ".gguf") for d in good_gguf)]:
        file = tmp_path / f"x{suffix}"
        file.write_bytes(data)
        assert read_header(file).tensors and open_weights(read_header(file))
