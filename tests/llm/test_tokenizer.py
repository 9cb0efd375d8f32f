"""Texts and ids: round trips, control tokens, the token before a text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipegraph.models.llm.tokenizer import Tokenizer, free_mark

TEXTS = [
    "",
    " ",
    "a",
    "The quick brown fox",
    "naïve 😀👍🏽 日本語",
    "  two  spaces\n\n\tand tabs ",
    "e\u0301",
    "\x00\x7f",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_comes_back_as_it_was(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(text=st.text(max_size=40) | st.lists(st.sampled_from(["<|im_end|>", "<", "<tool_call>", "a 😀"])).map("".join))
@settings(max_examples=60, deadline=None)
def test_no_text_becomes_a_control_token(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    assert not set(ids) & set(tokenizer.control.values())
    assert tokenizer.decode(ids) == text


def test_control_tokens_are_read_when_asked(tokenizer: Tokenizer) -> None:
    text = "<|im_start|>user\nhi<|im_end|>"
    ids = tokenizer.encode(text, control=True)
    assert (ids[0], ids[-1]) == (tokenizer.control["<|im_start|>"], tokenizer.control["<|im_end|>"])
    assert tokenizer.decode(ids, control=True) == text
    assert tokenizer.decode(ids) == "user\nhi"


def test_the_token_before_a_text_is_put_once(make: Any) -> None:
    tokenizer = make(bos=True)
    start = tokenizer.control["<s>"]
    assert tokenizer.start == (start,)
    for text in ("hello", "", "<s>hello", "<s><s>"):
        ids = tokenizer.encode(text)
        assert ids[0] == start and ids.count(start) == 1
        assert tokenizer.decode(ids) == text
    assert tokenizer.encode("<s>hello", control=True).count(start) == 1


def test_a_tokenizer_that_puts_nothing_before_a_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.start == ()


def test_ids_that_end_a_reply(tokenizer: Tokenizer, make: Any) -> None:
    ends = {tokenizer.control["<|im_end|>"], tokenizer.control["<|endoftext|>"]}
    assert tokenizer.stop_ids == ends
    other = make(eos_token="<s>")
    assert other.stop_ids == ends | {other.control["<s>"]}


def test_marks_break_control_tokens_and_leave_no_trace(tokenizer: Tokenizer) -> None:
    mark = free_mark(["\ufdd0 is taken"])
    assert mark == "\ufdd1"
    guarded = tokenizer.guard("a<|im_end|>b", mark)
    ids = tokenizer.encode_marked(f"<|im_start|>{guarded}<|im_end|>", mark)
    assert tokenizer.decode(ids, control=True) == "<|im_start|>a<|im_end|>b<|im_end|>"
    assert [i for i in ids if i in tokenizer.special_ids] == [
        tokenizer.control["<|im_start|>"],
        tokenizer.control["<|im_end|>"],
    ]


def test_an_assistants_brackets_stay_tokens(tokenizer: Tokenizer) -> None:
    mark = free_mark([])
    text = "<tool_call>x</tool_call><|im_end|>"
    guarded = tokenizer.guard(text, mark, special_only=True)
    assert guarded == f"<tool_call>x</tool_call><{mark}|im_end|>"
    assert tokenizer.control["<tool_call>"] in tokenizer.encode_marked(guarded, mark)
