"""Tokens equal those of transformers, weights act as told, and nothing is lost in silence."""

from typing import Any

import pytest
import torch

from pipegraph.models import paths
from pipegraph.models.checkpoints.load import load_text_encoders
from pipegraph.models.checkpoints.parts import encoder_files
from pipegraph.models.loading.place import Place
from pipegraph.models.text.encoder import Encoder, TextEncoder
from pipegraph.models.text.weights import weight_faults, weighted
from pipegraph.models.text.words import unread


@pytest.fixture(scope="module")
def clip() -> TextEncoder:
    return load_text_encoders("flux", ["embedded/flux-tiny"], Place(torch.device("cpu"), torch.float32))


@pytest.mark.parametrize(
    "text",
    ["", "a red apple", "a RED apple, on the beach", "a grey car", "zebra", "a cat " * 6, "a cat " * 7, "cat " * 40],
)
def test_tokens_equal_transformers(clip: TextEncoder, text: str) -> None:
    for encoder in clip.encoders.values():
        assert isinstance(encoder, Encoder)
        expected = encoder.tokenizer(text, padding="max_length", truncation=True, max_length=16)["input_ids"]
        assert list(encoder.tokenize(text).ids) == expected


def test_dropped_text_and_unknown_words(clip: TextEncoder) -> None:
    tokens = clip.tokenize("a red zebra on the beach and a blue car and a cat on the snow at night")
    assert tokens["t5xxl"].used == tokens["clip_l"].used == 16
    assert tokens["t5xxl"].dropped == "snow at night"
    assert tokens["clip_l"].dropped == "the snow at night"
    said = clip.remarks(tokens)
    assert said[0] == 'the prompt is longer than 16 tokens; not read: "snow at night"'
    assert said[1].startswith('unknown words are ignored: "zebra"; `pipegraph models embedded/flux-tiny`')
    assert clip.remarks(clip.tokenize("a red apple")) == []


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("红苹果 в снегу", ["红苹果", "в", "снегу"]),
        ("a café, 3 apples; cat's!", ["café", "3", "apples", "cat's"]),
        ("a cat\N{SLICE OF PIZZA} on the beach \N{RED APPLE}", ["cat\N{SLICE OF PIZZA}", "\N{RED APPLE}"]),
        ("a \N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}", ["\N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN}"]),
        ("a (red:1.2) (красный:1.3) cat", ["красный"]),
        ("a GREY hamburger at the seaside - \N{EM DASH} (really)...", ["really"]),
        ("a red cat" + " cat" * 20 + " 苹果", []),  # not read at all, which is another remark
    ],
)
def test_whatever_is_passed_over_is_told_as_written(clip: TextEncoder, text: str, unknown: list[str]) -> None:
    assert [*clip.tokenize(text)["t5xxl"].unknown] == unknown
    assert [*clip.tokenize(text)["clip_l"].unknown] == unknown


def test_a_rewritten_word_is_cut_off_whole(clip: TextEncoder) -> None:
    assert clip.tokenize("cat " * 15 + "seaside cat")["t5xxl"].dropped == "seaside cat"


def test_long_words_are_told_in_short(clip: TextEncoder) -> None:
    for text in ("z" * 10_000, " ".join(f"{i}" for i in range(1000)), "cat " * 10_000):
        (said,) = clip.remarks(clip.tokenize(text))
        assert "…" in said or "and 980 more" in said
        assert len(said) < 300


@pytest.mark.parametrize("normalizer", [None, "NFC", "NFKC"])
def test_a_tokenizer_of_bytes_passes_nothing_over(normalizer: str | None) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    bytes_ = Tokenizer(models.BPE(alphabet, []))
    bytes_.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if normalizer:
        bytes_.normalizer = getattr(normalizers, normalizer)()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_)
    text = "红 cafe\u0301 \u1112\u1161\u11ab \N{MAN}\N{ZERO WIDTH JOINER}\N{WOMAN} \ufb01 3½ ❤\ufe0f"
    read = tokenizer(text, return_offsets_mapping=True)
    assert [*unread(tokenizer, text, read, len(text))] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", [("", 1.0)]),
        ("a cat", [("a cat", 1.0)]),
        ("a (cat)", [("a ", 1.0), ("cat", 1.1)]),
        ("a (cat:1.5) here", [("a ", 1.0), ("cat", 1.5), (" here", 1.0)]),
        ("((a))", [("a", 1.21)]),
        ("((a) b:2)", [("a", 2.2), (" b", 2.0)]),
        ("(a (b:0.5):2)", [("a ", 2.0), ("b", 0.5)]),
        (r"\(a\)", [("(a)", 1.0)]),
        ("a ) b ( c", [("a ) b ( c", 1.0)]),
        ("(time 10:30 x)", [("time 10:30 x", 1.1)]),
        ("back\\slash", [("back\\slash", 1.0)]),
        ("(" * 5000, [("(" * 5000, 1.0)]),
    ],
)
def test_weights_are_read(text: str, expected: list[tuple[str, float]]) -> None:
    found = weighted(text)
    assert [t for t, _ in found] == [t for t, _ in expected]
    assert [w for _, w in found] == pytest.approx([w for _, w in expected])


def test_weights_act_on_their_tokens_only(clip: TextEncoder) -> None:
    plain, _ = clip.encode(clip.tokenize("a red apple"))[0]
    heavy, extras = clip.encode(clip.tokenize("a (red:1.5) apple"))[0]
    empty, _ = clip.encode(clip.tokenize(""))[0]
    assert torch.allclose(heavy[0, 1], empty[0, 1] + 1.5 * (plain[0, 1] - empty[0, 1]), atol=1e-5)
    others = [0, *range(2, 16)]
    assert torch.equal(heavy[0, others], plain[0, others])
    assert plain.shape == (1, 16, 128) and extras["pooled_output"].shape == (1, 128)


def test_states_equal_transformers(clip: TextEncoder) -> None:
    text = "a red apple on the beach"
    states, extras = clip.encode(clip.tokenize(text))[0]
    for name, network, ours in [
        ("clip_l", "text_encoder", extras["pooled_output"]),
        ("t5xxl", "text_encoder_2", states),
    ]:
        net, encoder = _stock(network), clip.encoders[name]
        assert isinstance(encoder, Encoder)
        ids = encoder.tokenizer(text, padding="max_length", max_length=16, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            out = net(input_ids=ids)
        expected = out.pooler_output if name == "clip_l" else out.last_hidden_state
        assert (ours - expected).abs().max() < 1e-4


def _stock(component: str) -> Any:
    from transformers import CLIPTextModel, T5EncoderModel

    cls = CLIPTextModel if component == "text_encoder" else T5EncoderModel
    return cls.from_pretrained(paths.EMBEDDED / "flux-tiny" / component, dtype=torch.float32)


def test_files_hold_tokenizers_and_card() -> None:
    names = {f.name for f in encoder_files(paths.EMBEDDED / "flux-tiny")}
    assert {"card.json", "tokenizer.json", "model.safetensors", "config.json"} <= names


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("a (red:1.2 fox", "its parenthesis is not closed"),
        ("(a:nan) fox", '"nan" is no number'),
        ("(a:-inf)", '"-inf" is no number'),
        ("(a:)", "there is no number behind the colon"),
        ("(a:1,2)", '"1,2" is no number'),
        ("((a:1.2) b:2x)", '"2x" is no number'),
    ],
)
def test_what_nearly_is_a_weight_is_said(prompt: str, words: str) -> None:
    [fault] = weight_faults(prompt)
    assert words in fault


@pytest.mark.parametrize(
    "prompt", ["(a:1.2)", "(a: 1.2 )", "a (b", "(portrait: blue)", "a) b", r"\(a:nan\)", "(a:.5)", ":)"]
)
def test_what_is_a_weight_or_plain_text_is_not_said(prompt: str) -> None:
    assert not weight_faults(prompt)
