"""Chats with pictures: placing, positions and greedy replies equal those of transformers on tiny random weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

import pipegraph as pg
from pipegraph.generators import finish
from pipegraph.graphs.errors import GraphError
from pipegraph.kernels.audit import strict
from pipegraph.models.llm.chat.conversation import Conversation
from pipegraph.models.llm.chat.template import ChatError, messages_of, write_chat
from pipegraph.models.llm.decode.decode import decode
from pipegraph.models.llm.decode.prefill import prefill
from pipegraph.models.llm.decode.sampling import SamplingParams
from pipegraph.models.llm.decode.session import Session
from pipegraph.models.llm.llm import LLM
from pipegraph.models.llm.load import SEEING, load_llm
from pipegraph.models.llm.network.images import positions
from pipegraph.models.llm.network.vision import KINDS, shown
from pipegraph.models.llm.tokens import Tokens

from .conftest import train

STEPS = 24
SPECIAL = [
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<image>",
    "<fake_token_around_image>",
    "<global-img>",
]
SPECIAL += [f"<row_{r}_col_{c}>" for r in range(1, 5) for c in range(1, 5)]
PAD = "<|vision_start|><|image_pad|><|vision_end|>"
WRAPS = {"qwen2_vl": PAD, "qwen2_5_vl": PAD, "qwen3_vl": PAD, "smolvlm": "<image>", "idefics3": "<image>"}
"""What templates write for a picture."""
TEMPLATE = (
    "{%% for m in messages %%}{{ '<|im_start|>' + m['role'] + '\n' }}{%% for p in m['content'] %%}"
    "{%% if p['type'] == 'image' %%}{{ '%s' }}{%% else %%}{{ p['text'] }}{%% endif %%}{%% endfor %%}"
    "{{ '<|im_end|>\n' }}{%% endfor %%}{%% if add_generation_prompt %%}{{ '<|im_start|>assistant\n' }}{%% endif %%}"
)
FAMILIES = [f if f in ("qwen2_5_vl", "smolvlm") else pytest.param(f, marks=pytest.mark.slow) for f in WRAPS]
TEXT: dict[str, Any] = dict(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=3,
    num_attention_heads=2,
    num_key_value_heads=1,
    max_position_embeddings=512,
    eos_token_id=None,
    bos_token_id=None,
    pad_token_id=0,
    tie_word_embeddings=False,
)
TOWER: dict[str, Any] = dict(hidden_size=32, intermediate_size=48, num_heads=2, out_hidden_size=32, depth=3)


def _config(family: str, tokenizer: Any) -> Any:
    text = TEXT | {"vocab_size": tokenizer.size}
    id_of = tokenizer.fast.convert_tokens_to_ids
    ids = {"image_token_id": id_of("<|image_pad|>"), "vision_start_token_id": id_of("<|vision_start|>")}
    rope = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
    if family == "qwen2_vl":
        vision: dict[str, Any] = dict(embed_dim=32, hidden_size=32, num_heads=2, mlp_ratio=2, depth=2)
        return hf.Qwen2VLConfig(text_config=text | {"rope_parameters": rope}, vision_config=vision, **ids)
    if family == "qwen2_5_vl":
        vision = TOWER | {"window_size": 56, "fullatt_block_indexes": [1]}
        return hf.Qwen2_5_VLConfig(text_config=text | {"rope_parameters": rope}, vision_config=vision, **ids)
    if family == "qwen3_vl":
        more = {"rope_parameters": rope | {"mrope_interleaved": True}, "head_dim": 16}
        vision = TOWER | {"deepstack_visual_indexes": [0, 1], "num_position_embeddings": 64}
        return hf.Qwen3VLConfig(text_config=text | more, vision_config=vision, **ids)
    kind: Any = hf.SmolVLMConfig if family == "smolvlm" else hf.Idefics3Config
    vision = dict(
        hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, image_size=32, patch_size=8
    )
    return kind(
        text_config={**text, "model_type": "llama"},
        vision_config=vision,
        scale_factor=2,
        image_token_id=id_of("<image>"),
        pad_token_id=0,
        tie_word_embeddings=False,
    )


def _preparing(family: str) -> dict[str, Any]:
    if family in ("smolvlm", "idefics3"):
        return {"size": {"longest_edge": 64}, "max_image_size": {"longest_edge": 32}, "do_image_splitting": True}
    patch = 16 if family == "qwen3_vl" else 14
    return {"patch_size": patch, "size": {"shortest_edge": 4 * patch * patch, "longest_edge": 64 * patch * patch}}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A model of random weights in transformers' layout, by family."""

    root = tmp_path_factory.mktemp("models") / "llm"

    @cache
    def made(family: str) -> Path:
        tokenizer = train(TEMPLATE % WRAPS[family])
        tokenizer.fast.add_special_tokens({"additional_special_tokens": SPECIAL})
        network: Any = hf.AutoModelForImageTextToText.from_config(_config(family, tokenizer))
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for p in network.parameters():
                if p.ndim >= 2:
                    p.copy_(torch.randn(p.shape, generator=generator) * 2 / p[0].numel() ** 0.5)
        place = root / family
        network.save_pretrained(place)
        tokenizer.fast.save_pretrained(place)
        (place / "preprocessor_config.json").write_text(json.dumps(_preparing(family)))
        return place

    return made


@pytest.fixture(autouse=True)
def models(folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(folder("smolvlm").parents[1]))


def load(folder: Path) -> LLM:
    """The model; nothing that it says ends its reply."""
    llm = load_llm(folder.name, torch.device("cpu"), torch.float32)
    return replace(llm, facts=replace(llm.facts, stop_ids=frozenset()))


def picture(height: int, width: int, seed: int) -> Tensor:
    """Random blocks, so that pictures differ in the large."""
    blocks = torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.interpolate(blocks, size=(height, width), mode="nearest")[0].permute(1, 2, 0)


def chats(llm: LLM) -> Tokens:
    """Two conversations: one with two pictures, one with one of another size."""
    assert llm.tokenizer is not None
    both = [picture(70, 110, 1), picture(96, 60, 2)], [picture(40, 80, 3)]
    texts = (
        '[{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "a or"}, {"type": "image"}]}]',
        "Hi",
    )
    made = []
    for text, pictures in zip(texts, both, strict=True):
        chat = write_chat(llm.tokenizer, messages_of(text, pictures=len(pictures)), sees=True)
        made.append(shown(llm, chat.ids, pictures))
    return Tokens.of([m.ids[0] for m in made], [m.pictures_of(0) for m in made])


def inputs_of(llm: LLM, tokens: Tokens, row: int) -> dict[str, Tensor]:
    """What transformers takes for one conversation."""
    seen = tokens.pictures_of(row)
    along = 1 if "pixel_attention_mask" in seen[0].inputs else 0
    ids = torch.tensor([tokens.ids[row]])
    made = {name: torch.cat([p.inputs[name] for p in seen], along) for name in seen[0].inputs}
    kinds = {} if along else {"mm_token_type_ids": (ids == llm.loaded.network.config.image_token_id).int()}
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **made, **kinds}


def theirs(folder: Path, llm: LLM, tokens: Tokens) -> tuple[list[tuple[int, ...]], list[Tensor]]:
    network: Any = hf.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    replies, logits = [], []
    for row in range(len(tokens)):
        made = inputs_of(llm, tokens, row)
        out = network.generate(
            **made, max_new_tokens=STEPS, do_sample=False, return_dict_in_generate=True, output_logits=True
        )
        replies.append(tuple(out.sequences[0, made["input_ids"].shape[1] :].tolist()))
        logits.append(torch.cat(out.logits))
        assert len(set(replies[-1])) >= 15, f"says too little: {replies[-1]}"
    return replies, logits


def ours(
    llm: LLM, tokens: Tokens, given: list[tuple[int, ...]], chunk: int
) -> tuple[list[tuple[int, ...]], list[Tensor]]:
    """Greedy replies, and the logits along the given ones."""
    ready = finish(prefill(llm, tokens, chunk=chunk))
    replies = finish(decode(llm, ready, SamplingParams(max_tokens=STEPS), go_on=False)).tokens.ids
    logits = [ready.logits]
    with Session.open(llm, ready.cache) as session:
        for step in range(STEPS - 1):
            logits.append(session.step([(row, [ids[step]]) for row, ids in enumerate(given)]))
    return list(replies), list(torch.stack(logits, 1))


@pytest.mark.parametrize("family", FAMILIES)
def test_replies_about_pictures_equal_those_of_transformers(family: str, folder: Callable[[str], Path]) -> None:
    llm = load(folder(family))
    tokens = chats(llm)
    replies, logits = theirs(folder(family), llm, tokens)
    for chunk in (512, 7):
        mine, near = ours(llm, tokens, replies, chunk)
        worst = max(float((a - b).abs().max()) for a, b in zip(near, logits, strict=True))
        assert worst <= 1e-4, f"logits differ by {worst}"
        assert mine == replies
    with torch.no_grad():
        name = next(n for n, p in llm.loaded.network.named_parameters() if "vis" in n and p.ndim == 2)
        llm.loaded.network.get_parameter(name).mul_(1.02)
    changed = finish(prefill(llm, tokens)).logits
    worst = max(float((a - b[0]).abs().max()) for a, b in zip(changed, logits, strict=True))
    assert worst > 1e-3, "the check would not see a change of the vision tower"


@pytest.mark.parametrize("family", ["qwen2_5_vl", "smolvlm"])
def test_pictures_are_placed_as_by_transformers(family: str, folder: Callable[[str], Path]) -> None:
    """The tokens, the positions, and nothing round the kernel layer."""
    llm = load(folder(family))
    tokens, network = chats(llm), llm.loaded.network
    assert llm.tokenizer is not None
    made = inputs_of(llm, tokens, 0)
    if family == "smolvlm":
        from transformers.models.smolvlm.processing_smolvlm import get_image_prompt_string

        marks = ("<fake_token_around_image>", "<image>", "<global-img>")
        one, two = (get_image_prompt_string(*grid, 4, *marks) for grid in ((2, 2), (2, 2)))
        text = f"<|im_start|>user\n{one}a or{two}<|im_end|>\n<|im_start|>assistant\n"
        assert tokens.ids[0] == llm.tokenizer.encode(text, control=True)
    else:
        counts = (made["image_grid_thw"].prod(-1) // 4).tolist()
        one, two = (PAD.replace("<|image_pad|>", "<|image_pad|>" * count) for count in counts)
        text = f"<|im_start|>user\n{one}a or{two}<|im_end|>\n<|im_start|>assistant\n"
        assert tokens.ids[0] == llm.tokenizer.encode(text, control=True)
        known = {name: made[name] for name in ("input_ids", "image_grid_thw", "mm_token_type_ids")}
        expected = network.model.get_rope_index(**known)[0][:, 0]
        for start in (0, 1, 9, 20):
            assert torch.equal(positions(tokens.pictures_of(0), start, len(tokens.ids[0])), expected[:, start:])
        assert len(set(counts)) == 2
    with strict() as seen:
        finish(prefill(llm, tokens))
    vision, text_layers = network.config.vision_config, network.config.text_config.num_hidden_layers
    assert seen.attention > text_layers + (getattr(vision, "depth", 0) or vision.num_hidden_layers)


def test_a_chat_goes_on_after_pictures_and_forks(folder: Callable[[str], Path]) -> None:
    llm = load(folder("qwen2_5_vl"))
    tokens = chats(llm)
    whole = finish(prefill(llm, tokens)).logits
    one = Tokens.of([tokens.ids[0]], [tokens.pictures_of(0)])
    early, late = one.pictures_of(0)
    cut = late.spots[0] - 1
    first, rest = Tokens.of([one.ids[0][:cut]], [[early]]), Tokens.of([one.ids[0][cut:]], [[late.moved(-cut)]])
    assert (first + rest).ids == one.ids and (first + rest).pictures_of(0)[1].spots == one.pictures_of(0)[1].spots
    held = finish(prefill(llm, first))
    for start in (held.cache, held.select([0]).cache):
        again = finish(prefill(llm, rest, cache=start)).logits
        assert float((again - whole[:1]).abs().max()) <= 1e-4
    brighter = replace(late, inputs={**late.inputs, "pixel_values": late.inputs["pixel_values"] + 0.5})
    other = finish(prefill(llm, Tokens.of(one.ids, [[early, brighter]]))).logits
    assert float((other - whole[:1]).abs().max()) > 1e-2, "equal tokens with another picture are something else"


def test_a_conversation_sees_each_picture_once(folder: Callable[[str], Path]) -> None:
    """Later turns go on from what was read of pictures, of whatever sizes: the same as if all is read again."""
    llm = load(folder("smolvlm"))
    assert llm.tokenizer is not None
    chat = Conversation(llm, SamplingParams(max_tokens=4, logit_bias={llm.tokenizer.encode(" fox")[0]: 1e4}))
    read = []
    pictures = [[picture(70, 110, 1), picture(96, 60, 2)], [], [picture(40, 80, 3)]]
    for text, new in zip(("What is it?", "And?", "Now?"), pictures, strict=True):
        chat.show(new)
        made = finish(chat.say(text))
        assert made.text == " fox" * 4 and not chat.waiting
        read.append(made.stats.prompt_tokens)
    assert len(chat.pictures) == 3
    assert read[1] < 20 < read[2] < read[0]
    last = chat._held
    assert last is not None
    fresh = finish(prefill(llm, last.cache.tokens)).logits
    assert float((fresh - last.logits).abs().max()) <= 1e-4


def test_what_does_not_fit_is_said(folder: Callable[[str], Path], llm_folder: Path) -> None:
    llm = load(folder("smolvlm"))
    assert llm.tokenizer is not None
    chat = write_chat(llm.tokenizer, messages_of("<image> is no picture", pictures=1), sees=True)
    image = llm.loaded.network.config.image_token_id
    assert chat.ids.count(image) == 1, "what users write is text"
    with pytest.raises(ValueError, match="places for 1 pictures, but there are 2"):
        shown(llm, chat.ids, [picture(8, 8, 1)] * 2)
    with pytest.raises(ValueError, match="places for 1 pictures, but there are 0"):
        shown(llm, chat.ids, [])
    with pytest.raises(ChatError, match=r"turn 1 .* type 'video'; this model reads texts and pictures"):
        write_chat(llm.tokenizer, [{"role": "user", "content": [{"type": "video"}]}], sees=True)
    with pytest.raises(ChatError, match="no user turn"):
        messages_of('[{"role": "assistant", "content": "Hm"}]', pictures=1)
    blind = LLM.of(hf.LlamaForCausalLM(hf.LlamaConfig(**TEXT, vocab_size=400)), llm.tokenizer, "blind")
    with pytest.raises(ValueError, match=r"blind \(llama\) reads text only"):
        finish(prefill(blind, chats(llm)))


def _graph(llm: str, **nodes: tuple[str, dict[str, Any]]) -> Any:
    made = {name: {"class_type": kind, "inputs": inputs} for name, (kind, inputs) in nodes.items()}
    load = {"class_type": "LoadLLM", "inputs": {"llm_name": llm}}
    blank = {"class_type": "EmptyImage", "inputs": {"width": 60, "height": 40, "batch_size": 2, "color": 255}}
    return pg.load({"pipegraph": 1, "nodes": {"llm": load, "image": blank, **made}, "outputs": {"text": ["say", 0]}})


def test_nodes_show_pictures(folder: Callable[[str], Path], llm_folder: Path) -> None:
    place = folder("qwen2_5_vl")
    picture = ["image", 0]
    template = place / "chat_template.jinja"
    (place / "chat_template.json").write_text(json.dumps({"chat_template": template.read_text()}))
    template.unlink()
    ask = {"clip": ["llm", 0], "prompt": "What is it?", "max_length": 9}
    said = _graph(place.name, say=("TextGenerate", ask | {"image": picture})).run()["text"]
    assert said != _graph(place.name, say=("TextGenerate", ask)).run()["text"]
    one = ("ImageFromBatch", {"image": picture, "batch_index": 0})
    each = {"images.image_0": ["one", 0], "images.image_1": ["one", 0]}  # as ComfyUI has it: an image each
    assert said == _graph(place.name, say=("TextGenerate", ask | each), one=one).run()["text"]
    chat = ("ChatTemplate", {"llm": ["llm", 0], "message": "What is it?", "image": picture})
    read = ("LLMPrefill", {"llm": ["llm", 0], "tokens": ["chat", "tokens"]})
    say = ("LLMDecode", {"llm": ["llm", 0], "cache": ["read", 0], "max_tokens": 9})
    assert said == _graph(place.name, chat=chat, read=read, say=say).run()["text"]
    film = {"clip": ["llm", 0], "prompt": "What is it?", "max_length": 9, "video": ["film", 0]}
    frames = ("EmptyImage", {"width": 60, "height": 40, "batch_size": 48, "color": 255})  # two seconds
    assert said == _graph(place.name, say=("TextGenerate", film), film=frames).run()["text"]
    drawn = ask | {"image": picture, "sampling_mode": "on", "sampling_mode.temperature": 2.0}
    assert said != _graph(place.name, say=("TextGenerate", drawn | {"sampling_mode.seed": 3})).run()["text"]
    clip = ("CreateVideo", {"images": picture})
    parts = ("GetVideoComponents", {"video": ["clip", 0]})
    with pytest.raises(GraphError, match=r'audio.*the model of "llm" reads text and images, no audio'):
        _graph(place.name, say=("TextGenerate", ask | {"audio": ["parts", 1]}), clip=clip, parts=parts).run()
    shutil.copytree(llm_folder, place.parent / "blind", dirs_exist_ok=True)
    with pytest.raises(GraphError, match=r'image.*the model of "llm" reads text only'):
        _graph("blind", say=("TextGenerate", ask | {"image": picture})).run()
    with pytest.raises(GraphError, match=r'images\.image_0.*the model of "llm" reads text only'):
        _graph("blind", say=("TextGenerate", ask | {"images.image_0": picture})).run()


def test_the_list_of_models_that_see_is_one() -> None:
    assert set(SEEING) == set(KINDS)
