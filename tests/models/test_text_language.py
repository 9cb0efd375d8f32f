"""What text encoders that are language models make equals what diffusers' pipelines make, on tiny random weights."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from safetensors.torch import save_file
from torch import Tensor

import pipegraph as pg
from pipegraph.graphs.errors import GraphError
from pipegraph.models.checkpoints.load import load_text_encoders
from pipegraph.models.families import TEXT_FAMILIES
from pipegraph.models.loading import language_file
from pipegraph.models.loading.header_values import LoadError
from pipegraph.models.loading.language_file import ties
from pipegraph.models.loading.place import Place
from pipegraph.models.text.encoder import TextEncoder
from pipegraph.runtime.errors import RunError

PLACE = Place(torch.device("cpu"), torch.float32)
PROMPTS = ["a red apple on the beach", "(two:1.2) cats", "a cat " * 300]
CHAT = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% if enable_thinking is defined "
    "and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}"
)
LONG = [
    "1. The main content and theme of the video.",
    "2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects.",
    "3. Actions, events, behaviors temporal relationships, physical movement changes of the objects.",
]
"""Sentences of HunyuanVideo's template, a token each: it would not fit into its limit by bytes."""
SIZES: dict[str, Any] = dict(
    hidden_size=32,
    intermediate_size=48,
    num_attention_heads=2,
    num_key_value_heads=1,
    max_position_embeddings=2048,
    pad_token_id=0,
    eos_token_id=None,
    bos_token_id=None,
)
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}


def _tokenizer(bos: bool) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = ["<pad>", "<|im_start|>", "<|im_end|>", "<bos>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    backend = Tokenizer(models.BPE({c: i + len(special) + len(LONG) for i, c in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(special + LONG)
    if bos:
        first = [("<bos>", backend.token_to_id("<bos>"))]
        backend.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=first)
    fast = hf.PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", padding_side="right")
    fast.chat_template = CHAT
    return fast


def _network(kind: str, size: int) -> Any:
    text = SIZES | {"vocab_size": size}
    match kind:
        case "qwen3" | "klein":
            layers = 28 if kind == "klein" else 4
            config: Any = hf.Qwen3Config(**text, num_hidden_layers=layers, head_dim=16)
        case "gemma2":
            config = hf.Gemma2Config(
                **text, num_hidden_layers=4, head_dim=16, sliding_window=8, query_pre_attn_scalar=16
            )
        case "llama":
            config = hf.LlamaConfig(**text, num_hidden_layers=4)
        case _:
            vision = dict(hidden_size=32, intermediate_size=48, num_heads=2, out_hidden_size=32, depth=1)
            config = hf.Qwen2_5_VLConfig(
                text_config=text | {"num_hidden_layers": 3, "rope_parameters": ROPE}, vision_config=vision
            )
            return hf.Qwen2_5_VLForConditionalGeneration(config)
    return hf.AutoModelForCausalLM.from_config(config)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The ``text_encoder`` of a pipeline with the ``tokenizer`` beside it, by kind of model."""
    root = tmp_path_factory.mktemp("models")

    @cache
    def made(kind: str) -> Path:
        tokenizer = _tokenizer(bos=kind in ("gemma2", "llama"))
        network = _network(kind, len(tokenizer))
        generator = torch.Generator().manual_seed(4)
        with torch.no_grad():
            for p in network.parameters():
                if p.ndim >= 2:
                    p.copy_(torch.randn(p.shape, generator=generator) / p[0].numel() ** 0.5)
        place = root / "text_encoders" / kind
        network.save_pretrained(place / "text_encoder")
        tokenizer.save_pretrained(place / "tokenizer")
        return place / "text_encoder"

    return made


@pytest.fixture(autouse=True)
def models(folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(folder("qwen3").parents[2]))


def _ours(family: str, kind: str) -> TextEncoder:
    return load_text_encoders(family, [f"{kind}/text_encoder"], PLACE)


def _theirs(family: str, kind: str, place: Path, prompts: list[str]) -> list[Tensor]:
    """What diffusers' pipelines make of prompts, without pads where the network is told of them."""
    tokenizer = hf.AutoTokenizer.from_pretrained(place.parent / "tokenizer")
    auto: Any = hf.AutoModelForImageTextToText if kind == "qwen2_5_vl" else hf.AutoModelForCausalLM
    network = auto.from_pretrained(place, dtype=torch.float32).eval()
    parts = {"tokenizer": tokenizer, "text_encoder": network, "vae": None, "transformer": None, "scheduler": None}
    with torch.no_grad():
        if family == "qwen_image":
            from diffusers import QwenImagePipeline

            pipe = QwenImagePipeline(**parts)
            states, mask = pipe._get_qwen_prompt_embeds(prompts, device="cpu")
        elif family == "flux2":
            from diffusers.pipelines.flux2.pipeline_flux2_klein import Flux2KleinPipeline

            return list(Flux2KleinPipeline._get_qwen3_prompt_embeds(network, tokenizer, prompts))
        elif family == "hunyuan_video":
            from diffusers import HunyuanVideoPipeline
            from diffusers.pipelines.hunyuan_video.pipeline_hunyuan_video import DEFAULT_PROMPT_TEMPLATE

            pipe = HunyuanVideoPipeline(**parts, text_encoder_2=None, tokenizer_2=None)
            states, mask = pipe._get_llama_prompt_embeds(prompts, DEFAULT_PROMPT_TEMPLATE, device="cpu")
        elif kind == "gemma2":
            from diffusers import Lumina2Pipeline

            states, mask = Lumina2Pipeline(**parts)._get_gemma_prompt_embeds(prompts, device="cpu")
        else:
            from diffusers import ZImagePipeline

            return list(ZImagePipeline(**parts).encode_prompt(list(prompts), "cpu", False)[0])
    return [s[m.bool()] for s, m in zip(states, mask, strict=True)]


@pytest.mark.parametrize(
    ("family", "kind"),
    [
        ("lumina2", "qwen3"),
        ("qwen_image", "qwen2_5_vl"),
        pytest.param("lumina2", "gemma2", marks=pytest.mark.slow),
        pytest.param("flux2", "klein", marks=pytest.mark.slow),
        pytest.param("hunyuan_video", "llama", marks=pytest.mark.slow),
    ],
)
def test_states_equal_those_of_diffusers(family: str, kind: str, folder: Callable[[str], Path]) -> None:
    expected = _theirs(family, kind, folder(kind), PROMPTS)
    clip = _ours(family, kind)
    (encoder,) = clip.encoders.values()
    for text, states in zip(PROMPTS, expected, strict=True):
        tokens = encoder.tokenize(text)
        found = encoder.states(tokens)[0]
        assert found.shape == states.shape
        assert float((found - states).abs().max()) <= 1e-4
        assert bool(tokens.dropped) == (text == PROMPTS[2])
    found = encoder.states(encoder.tokenize(PROMPTS[0].replace("red", "rid")))[0]
    assert float((found - expected[0]).abs().max()) > 1e-2, "the check would not see a letter"


def test_a_prompt_ends_no_turn_and_what_is_cut_is_said(folder: Callable[[str], Path]) -> None:
    folder("qwen3")
    clip = _ours("lumina2", "qwen3")
    tokens = clip.tokenize("a<|im_end|>b")["qwen3_4b"]
    fast: Any = clip.encoders["qwen3_4b"].tokenizer.fast
    assert tokens.ids.count(fast.convert_tokens_to_ids("<|im_end|>")) == 1
    assert "not read" in clip.remarks(clip.tokenize("a cat " * 300))[0]
    assert clip.remarks(clip.tokenize("a (red:1.2) cat")) == []


def test_what_does_not_fit_a_type_is_said(folder: Callable[[str], Path]) -> None:
    folder("qwen3")
    with pytest.raises(LoadError, match="is a qwen3; the text encoder of Qwen-Image is a qwen2_5_vl"):
        _ours("qwen_image", "qwen3")
    twice = load_text_encoders("lumina2", ["qwen3/text_encoder"] * 2, PLACE)
    assert [*twice.encoders] == ["qwen3_4b"], "a folder that holds all encoders may be named in both places"
    with pytest.raises(LoadError, match="holds no further text encoder of Qwen-Image"):
        load_text_encoders("qwen_image", ["embedded/flux-tiny"], PLACE)
    folder("gemma2")
    encoder: Any = _ours("lumina2", "gemma2").encoders["gemma2_2b"]
    wrong = replace(encoder, facts=TEXT_FAMILIES["flux2"].language[0])
    with pytest.raises(ValueError, match="has 4 layers; qwen3_4b is read at 9"):
        wrong.states(encoder.tokenize("a"))


def test_a_second_encoder_gives_the_pooled_vector(folder: Callable[[str], Path]) -> None:
    folder("llama")
    clip = load_text_encoders("hunyuan_video", ["embedded/flux-tiny", "llama/text_encoder"], PLACE)
    flux = load_text_encoders("flux", ["embedded/flux-tiny"], PLACE)
    (states, extras), text = clip.encode(clip.tokenize("a red apple"))[0], "a red apple"
    assert states.ndim == 3 and [*extras] == ["pooled_output"]
    theirs = flux.encoders["clip_l"].pooled(flux.encoders["clip_l"].tokenize(text))
    assert torch.equal(extras["pooled_output"], theirs)
    with pytest.raises(ValueError, match="HunyuanVideo needs the text encoders clip_l too"):
        alone = load_text_encoders("hunyuan_video", ["llama/text_encoder"], PLACE)
        alone.encode(alone.tokenize("a"))


@pytest.mark.parametrize(
    ("family", "kind"), [("lumina2", "qwen3"), ("qwen_image", "qwen2_5_vl"), ("lumina2", "gemma2")]
)
def test_a_single_file_is_the_folder(
    family: str, kind: str, folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ComfyUI has them: names without ``language_model``, no configuration, the tokenizer elsewhere."""
    place = folder(kind)
    from_folder = _ours(family, kind)
    (name, encoder), *_ = from_folder.encoders.items()
    monkeypatch.setitem(language_file._HEAD, kind, 16)
    made = {
        k: v for k, v in encoder.loaded.network.state_dict().items() if k != "lm_head.weight" or kind == "qwen2_5_vl"
    }
    renamed = {
        k.replace("model.language_model.", "model.").replace("model.visual.", "visual."): v for k, v in made.items()
    }
    file = place.parents[1] / f"{kind}.safetensors"
    save_file({k: v.clone() for k, v in renamed.items()}, file)
    shutil.copytree(place.parent / "tokenizer", place.parents[2] / "tokenizers" / name, dirs_exist_ok=True)
    one: Any = load_text_encoders(family, [file.name], PLACE).encoders[name]
    theirs: Any = encoder
    told = theirs.loaded.network.config.get_text_config().to_dict()
    found = one.loaded.network.config.get_text_config().to_dict()
    for key in ("num_hidden_layers", "num_attention_heads", "num_key_value_heads", "hidden_size", "intermediate_size"):
        assert found[key] == told[key]
    for key, weight in made.items():
        assert torch.equal(one.loaded.network.state_dict()[key], weight)
    assert one.writes and theirs.writes
    if kind == "qwen2_5_vl":
        ids, seen = one.llm.vision.read(torch.rand(60, 90, 3), one.tokenizer)
        assert seen.grid == (2, 3) and len(ids) == 6 and theirs.llm.vision.processor is not None
    assert not ties("llama", 4096) and ties("qwen3", 2560)
    rotary, wanted = (n.get_decoder().rotary_emb for n in (one.loaded.network, theirs.loaded.network))
    assert not rotary.inv_freq.is_meta and rotary.inv_freq.shape == wanted.inv_freq.shape
    assert one.states(one.tokenize("a cat")).isfinite().all()
    with pytest.raises(LoadError, match=r"are missing: .*layers\.0\.mlp"):
        save_file({k: v.clone() for k, v in renamed.items() if "layers.0.mlp.up_proj" not in k}, file)
        load_text_encoders(family, [file.name], PLACE)
    file.unlink()


def test_a_graph_encodes_and_writes_with_one_clip(folder: Callable[[str], Path]) -> None:
    """ComfyUI's API form: a language model as CLIP serves CLIPTextEncode and TextGenerate."""
    folder("qwen3")
    load = {"clip_name": "qwen3/text_encoder", "type": "lumina2", "device": "default"}
    graph = pg.load(
        {
            "1": {"class_type": "CLIPLoader", "inputs": load},
            "2": {
                "class_type": "TextGenerate",
                "inputs": {
                    "clip": ["1", 0],
                    "prompt": "a cat",
                    "max_length": 6,
                    "sampling_mode": "on",
                    "sampling_mode.temperature": 0.7,
                    "sampling_mode.top_k": 64,
                    "sampling_mode.top_p": 0.95,
                    "sampling_mode.min_p": 0.05,
                    "sampling_mode.repetition_penalty": 1.05,
                    "sampling_mode.seed": 5,
                    "thinking": False,
                    "use_default_template": True,
                },
            },
            "3": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["1", 0], "text": ["2", 0]}},
            "4": {"class_type": "PreviewAny", "inputs": {"source": ["2", 0]}},
            "5": {"class_type": "PreviewAny", "inputs": {"source": ["3", 0]}},
        }
    )
    notes = graph.run().record["notes"]
    assert notes["2"]["llm"]["reply_tokens"] == 6 and notes["3"]["tokens"]["qwen3_4b"] > 10
    blank = {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8, "batch_size": 1, "color": 0}}
    ask = {"clip": ["1", 0], "prompt": "a cat", "max_length": 6, "sampling_mode": "off", "image": ["6", 0]}
    seeing = {"1": {"class_type": "CLIPLoader", "inputs": load}, "6": blank}
    seeing |= {
        "2": {"class_type": "TextGenerate", "inputs": ask},
        "4": {"class_type": "PreviewAny", "inputs": {"source": ["2", 0]}},
    }
    with pytest.raises(GraphError, match=r'the model of "1" reads text only'):
        pg.load(seeing).run()
    blind = {"1": {"class_type": "CLIPLoader", "inputs": {"clip_name": "embedded/flux-tiny", "type": "flux"}}}
    blind |= {"2": {"class_type": "TextGenerate", "inputs": {"clip": ["1", 0], "prompt": "a cat"}}, "4": seeing["4"]}
    with pytest.raises(RunError, match="write no text"):
        pg.load(blind).run()
