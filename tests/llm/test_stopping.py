"""Streaming text: whole characters only, and never a piece of a stop string."""

from __future__ import annotations

import random

import pytest

from pipegraph.models.llm.decode.stopping import Stopper, TextStream, split_stops
from pipegraph.models.llm.tokenizer import Tokenizer

TEXT = "naïve 😀👍🏽 日本語 The quick brown fox, END of it."


def run(tokenizer: Tokenizer, ids: list[int], stop: list[str]) -> tuple[list[str], bool]:
    """The pieces as they are shown, and whether a stop string ended them."""
    stopper, shown = Stopper(tokenizer, stop), []
    for id in ids:
        text, stopped = stopper.push(0, id)
        shown.append(text)
        if stopped:
            assert stopper.finish(0) == ""
            return shown, True
    shown.append(stopper.finish(0))
    return shown, False


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    return [*tokenizer.encode(text)]


def bytes_of(tokenizer: Tokenizer, text: str) -> list[int]:
    """One id a byte, so that most characters are of several."""
    from tokenizers.pre_tokenizers import ByteLevel

    letters = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
    return [tokenizer.fast.convert_tokens_to_ids(c) for word, _ in letters for c in word]


@pytest.mark.parametrize("split", [ids_of, bytes_of])
def test_pieces_are_whole_characters_and_add_up(tokenizer: Tokenizer, split: object) -> None:
    ids = split(tokenizer, TEXT)  # type: ignore[operator]
    shown, stopped = run(tokenizer, ids, [])
    assert not stopped
    assert "".join(shown) == tokenizer.decode(ids) == TEXT
    assert not any("\ufffd" in piece for piece in shown)


def test_text_is_shown_as_soon_as_it_is_sure(tokenizer: Tokenizer) -> None:
    ids = bytes_of(tokenizer, "é!")
    shown, _ = run(tokenizer, ids, [])
    assert shown == ["", "é", "!", ""]


def test_broken_bytes_hold_back_nothing_for_ever(tokenizer: Tokenizer) -> None:
    broken = bytes_of(tokenizer, "😀")[:2]
    ids = [*broken, *ids_of(tokenizer, "fox"), *broken]
    shown, _ = run(tokenizer, ids, [])
    assert "".join(shown) == tokenizer.decode(ids)
    assert "fox" in "".join(shown[:-1])


def cut_texts(tokenizer: Tokenizer, count: int) -> list[list[int]]:
    """Ids of random texts, cut anywhere, with bytes and special tokens strewn in."""
    chance = random.Random(1)
    strewn = [*sorted(tokenizer.byte_ids), *sorted(tokenizer.special_ids), tokenizer.size + 5]
    rows = []
    for _ in range(count):
        ids = ids_of(tokenizer, "".join(chance.choices("日本é😀👍🏽 ab.\ufffd", k=8)))[: chance.randint(1, 24)]
        for _ in range(chance.choice((0, 0, 1, 2))):
            ids.insert(chance.randint(0, len(ids)), chance.choice(strewn))
        rows.append(ids)
    return rows


@pytest.mark.parametrize("control", [False, True])
def test_pieces_of_random_cuts_add_up_to_the_text_of_all_ids(falling_back: Tokenizer, control: bool) -> None:
    wrong = []
    for ids in cut_texts(falling_back, 1500):
        stream = TextStream(falling_back, control)
        shown = "".join(map(stream.push, ids)) + stream.finish()
        if shown != falling_back.fast.decode(ids, skip_special_tokens=not control):
            wrong.append(ids)
    assert not wrong


def test_pieces_of_random_cuts_of_byte_level_ids_add_up(tokenizer: Tokenizer) -> None:
    wrong = []
    for ids in cut_texts(tokenizer, 500):
        stream = TextStream(tokenizer)
        if "".join(map(stream.push, ids)) + stream.finish() != tokenizer.decode(ids):
            wrong.append(ids)
    assert not wrong


def test_text_of_single_bytes_is_shown_when_their_row_ends(falling_back: Tokenizer) -> None:
    stream = TextStream(falling_back)
    first, *rest = ids_of(falling_back, "a日b")[-5:]
    assert stream.push(first).strip() == "a"
    assert [stream.push(id) for id in rest] == ["", "", "", "日b"]


def test_a_bad_byte_hides_neither_what_follows_nor_stop_strings(falling_back: Tokenizer) -> None:
    bad = falling_back.fast.convert_tokens_to_ids("<0x80>")
    ids = ids_of(falling_back, "日END and more")
    ids.insert(ids.index(falling_back.fast.convert_tokens_to_ids("E")), bad)
    shown, stopped = run(falling_back, ids, ["END"])
    assert stopped
    assert "".join(shown).strip() == "\ufffd" * 4  # as one row of bytes it is no text
    assert len(shown) == ids.index(falling_back.fast.convert_tokens_to_ids("D")) + 1


def test_a_stop_string_of_single_bytes_ends_at_its_last_byte(falling_back: Tokenizer) -> None:
    ids = ids_of(falling_back, "a日本語")
    shown, stopped = run(falling_back, ids, ["本"])
    assert stopped
    assert "".join(shown).strip() == "a日"
    assert len(shown) == len(ids) - 3


def test_bad_bytes_of_byte_level_ids_are_shown_one_behind(tokenizer: Tokenizer) -> None:
    stream, bad = TextStream(tokenizer), bytes_of(tokenizer, "日")[1]
    assert [stream.push(bad) for _ in range(4)] == ["", *["\ufffd"] * 3]


def test_special_tokens_are_no_text(tokenizer: Tokenizer) -> None:
    ids = [*ids_of(tokenizer, "a"), tokenizer.control["<|im_end|>"], *ids_of(tokenizer, " b")]
    for control, text in ((False, "a b"), (True, "a<|im_end|> b")):
        stream = TextStream(tokenizer, control)
        assert "".join([stream.push(i) for i in ids]) + stream.finish() == text


@pytest.mark.parametrize("split", [ids_of, bytes_of])
@pytest.mark.parametrize(
    ("stop", "left"),
    [
        (["END"], "naïve 😀👍🏽 日本語 The quick brown fox, "),
        (["fox", "quick brown fox"], "naïve 😀👍🏽 日本語 The "),
        (["never", "語 T"], "naïve 😀👍🏽 日本"),
        (["😀"], "naïve "),
        (["it.", "it. And"], "naïve 😀👍🏽 日本語 The quick brown fox, END of "),
    ],
)
def test_a_stop_string_cuts_before_it(tokenizer: Tokenizer, split: object, stop: list[str], left: str) -> None:
    shown, stopped = run(tokenizer, split(tokenizer, TEXT), stop)  # type: ignore[operator]
    assert stopped
    assert "".join(shown) == left


def test_what_only_looked_like_a_stop_is_shown_in_the_end(tokenizer: Tokenizer) -> None:
    shown, stopped = run(tokenizer, bytes_of(tokenizer, "so ENE E EN"), ["END"])
    assert not stopped
    assert "".join(shown) == "so ENE E EN"
    assert shown[-1] == "EN"
    assert "".join(shown[:-1]) == "so ENE E "


def test_nothing_of_a_stop_is_ever_shown_whatever_the_tokens(tokenizer: Tokenizer) -> None:
    """Against a plain search in the whole text, over random texts of few letters."""
    chance = random.Random(0)
    for _ in range(300):
        text = "".join(chance.choices("ab", k=12))
        stop = ["".join(chance.choices("ab", k=chance.randint(2, 4))) for _ in range(2)]
        ends = [(text.find(s) + len(s), text.find(s)) for s in stop if s in text]
        wanted = text[: min(ends)[1]] if ends else text
        for ids in (ids_of(tokenizer, text), bytes_of(tokenizer, text)):
            shown, stopped = run(tokenizer, ids, stop)
            assert ("".join(shown), stopped) == (wanted, bool(ends))


def test_sequences_end_by_themselves(tokenizer: Tokenizer) -> None:
    stopper = Stopper(tokenizer, ["!"])
    a, b, end = (bytes_of(tokenizer, c)[0] for c in "ab!")
    assert stopper.push(0, a) == ("a", False)
    assert stopper.push(1, b) == ("b", False)
    assert stopper.push(0, end) == ("", True)
    assert stopper.push(1, a) == ("a", False)
    assert stopper.push(0, a) == ("", True)


def test_special_tokens_among_stop_strings_are_ids(tokenizer: Tokenizer) -> None:
    """No text of a reply shows them, so a search for them would find nothing."""
    start = tokenizer.control["<|im_start|>"]
    assert split_stops(tokenizer, ["END", "<|im_start|>", "<tool_call>"]) == (("END", "<tool_call>"), (start,))
    with pytest.raises(ValueError, match="would never be seen"):
        split_stops(tokenizer, ["<|im_start|>user"])


def test_an_empty_stop_string_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="empty stop string"):
        Stopper(tokenizer, [""])
