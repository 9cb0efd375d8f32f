"""CLIP as SD and SDXL read it: windows of 77 tokens, states before the last layer, a projected vector."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor
from transformers import CLIPTextConfig, CLIPTextModelWithProjection, PreTrainedTokenizerFast

from pipegraph.models.loaded import Loaded
from pipegraph.models.text.encoder import Encoder
from pipegraph.models.text.facts import EncoderFacts

START, END = 0, 1
WORDS = [f"w{i}" for i in range(40)]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """A word is a token; one with dashes is as many as it has parts."""
    vocabulary = {word: i for i, word in enumerate(["<s>", "</s>", "!", "-", *WORDS])}
    library = Tokenizer(models.WordLevel(vocabulary, unk_token="!"))
    library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()])
    return PreTrainedTokenizerFast(tokenizer_object=library, bos_token="<s>", eos_token="</s>", unk_token="!")


def network(width: int, projection: int, seed: int) -> CLIPTextModelWithProjection:
    torch.manual_seed(seed)
    config = CLIPTextConfig(
        vocab_size=44,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=3,
        num_attention_heads=2,
        max_position_embeddings=12,
        projection_dim=projection,
        bos_token_id=START,
        eos_token_id=END,
        hidden_act="gelu",
    )
    model: CLIPTextModelWithProjection = CLIPTextModelWithProjection(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def encoder(tokenizer: Any, **facts: Any) -> Encoder:
    known = EncoderFacts("clip_g", kind="clip", folder="text_encoder_2", pad_to=12, limit=12, window=12, **facts)
    return Encoder(known, Loaded(network(16, 8, seed=1), torch.device("cpu"), torch.float32), tokenizer, 12, 12)


def ids(words: str) -> list[int]:
    return [4 + int(word[1:]) for word in words.split()]


def windows(*parts: str, pad: int) -> tuple[int, ...]:
    """Windows of 12 tokens as ComfyUI makes them."""
    rows = [[START, *ids(part), END, *[pad] * (10 - len(part.split()))] for part in parts]
    return tuple(token for row in rows for token in row)


def test_a_long_prompt_is_read_in_windows(tokenizer: Any) -> None:
    clip = encoder(tokenizer, pad=2)
    assert clip.tokenize("w1 w2").ids == windows("w1 w2", pad=2)
    words = " ".join(WORDS[:23])
    parts = [" ".join(WORDS[:10]), " ".join(WORDS[10:20]), " ".join(WORDS[20:23])]
    tokens = clip.tokenize(words)
    assert tokens.ids == windows(*parts, pad=2) and clip.windows(tokens) == 3 and not tokens.dropped
    assert encoder(tokenizer).tokenize("w1").ids == windows("w1", pad=END), "else the tokenizer's own padding"


def test_a_word_that_does_not_fit_begins_the_next_window_and_a_long_one_is_cut(tokenizer: Any) -> None:
    clip = encoder(tokenizer, pad=2)
    first = " ".join(WORDS[:8])
    short, long = clip.tokenize(f"{first} w1-w2-w3"), clip.tokenize(f"{first} w1-w2-w3-w4-w5")
    assert short.ids[9:13] == (END, 2, 2, START), "5 tokens do not fit into 2"
    assert short.ids[13:18] == (5, 3, 6, 3, 7)
    assert long.ids[9:13] == (5, 3, END, START), "9 tokens are cut where the window ends"
    assert long.ids[13:20] == (6, 3, 7, 3, 8, 3, 9)


def reference(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """States before the last layer, of windows in a row, and the projected vector of the first, by transformers."""
    with torch.no_grad():
        out = network(16, 8, seed=1)(input_ids=torch.tensor(rows), output_hidden_states=True)
    return out.hidden_states[-2].flatten(0, 1)[None], out.text_embeds[:1]


def test_states_and_vector_are_those_of_transformers(tokenizer: Any) -> None:
    clip = encoder(tokenizer, layers=(-2,), projected=True, pad=2)
    tokens = clip.tokenize(" ".join(WORDS[:13]))
    states, vector = reference(torch.tensor(tokens.ids).reshape(2, 12).tolist())
    torch.testing.assert_close(clip.states(tokens), states)
    torch.testing.assert_close(clip.pooled(tokens), vector)
    last = encoder(tokenizer).states(tokens)
    assert last.shape == states.shape and not torch.allclose(last, states, atol=1e-2)


def test_weights_move_states_from_those_of_the_empty_prompt(tokenizer: Any) -> None:
    clip = encoder(tokenizer, layers=(-2,), pad=2)
    words = " ".join(WORDS[:12])
    plain, weighed = clip.tokenize(words), clip.tokenize(f"(w0:1.5) {' '.join(WORDS[1:11])} (w11:0.5)")
    assert plain.ids == weighed.ids
    states, empty = clip.states(plain), clip.states(clip.tokenize("")).repeat(1, 2, 1)
    expected = states.clone()
    for place, weight in ((1, 1.5), (12 + 2, 0.5)):
        expected[:, place] = empty[:, place] + weight * (states[:, place] - empty[:, place])
    torch.testing.assert_close(clip.states(weighed), expected)


def test_empty_windows_make_two_encoders_equally_long(tokenizer: Any) -> None:
    clip = encoder(tokenizer, pad=2)
    longer = clip.lengthened(clip.tokenize("w1"), 3)
    assert longer.ids == windows("w1", "", "", pad=2) and len(longer.weights) == 36
    assert clip.lengthened(longer, 3) == longer
