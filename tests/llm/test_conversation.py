"""Chats that go on: what is remembered, what is read again, and how an answer is stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from pipegraph.generators import finish
from pipegraph.models.llm.chat.conversation import Answer, Conversation
from pipegraph.models.llm.decode.prefill import ContextOverflow
from pipegraph.models.llm.decode.sampling import SamplingParams
from pipegraph.models.llm.llm import LLM
from pipegraph.models.llm.load import load_folder
from pipegraph.models.llm.tokenizer import Tokenizer

from .conftest import CHATML, save_llm
from .networks import make as make_network


@pytest.fixture
def llm(tmp_path: Path, tokenizer: Tokenizer) -> LLM:
    folder = save_llm(tmp_path / "chatty", tokenizer, max_position_embeddings=512)
    return load_folder(folder, torch.device("cpu"), torch.float32, "", "chatty")


def conversation(llm: LLM, count: int = 8, **more: Any) -> Conversation:
    return Conversation(llm, SamplingParams(max_tokens=count), **more)


def answer(chat: Conversation, text: str) -> Answer:
    return finish(chat.say(text))


def test_turns_are_remembered_and_only_what_is_new_is_read(llm: LLM) -> None:
    chat = conversation(llm, system="Be brief.")
    first = answer(chat, "What is a lighthouse?")
    second = answer(chat, "And a fox?")
    assert [t["role"] for t in chat.turns] == ["system", "user", "assistant", "user", "assistant"]
    assert [t["content"] for t in chat.turns] == [
        "Be brief.",
        "What is a lighthouse?",
        first.text,
        "And a fox?",
        second.text,
    ]
    other = conversation(LLM.of(llm.loaded.network, llm.tokenizer), system="Be brief.")  # has read nothing yet
    other.turns = chat.turns[:3]
    assert answer(other, "And a fox?").text == second.text


def read_in(made: Answer) -> int:
    return made.stats.prompt_tokens - made.stats.reused_tokens


def test_a_long_chat_reads_each_turn_once(llm: LLM) -> None:
    chat = conversation(llm)
    turn = "The quick brown fox jumps over the lazy dog, {} times."
    read = [read_in(answer(chat, turn.format(n))) for n in range(6)]
    assert len(chat.turns) == 12 and sum(read) > 200
    assert max(read) < 80  # a turn, and what of a block was read before


def test_models_with_states_go_on_from_theirs(tokenizer: Tokenizer) -> None:
    """Nothing is kept by blocks of a state-space model; a chat that goes on holds its state."""
    fox = tokenizer.encode(" fox")[0]
    network = make_network("bamba")
    network.resize_token_embeddings(tokenizer.size, mean_resizing=False)
    llm = LLM.of(network, tokenizer)
    chat = Conversation(llm, SamplingParams(max_tokens=4, logit_bias={fox: 1e4}))
    first, second = answer(chat, "The quick brown fox"), answer(chat, "jumps")
    assert first.text == second.text == " fox" * 4
    assert read_in(second) == 12  # of 28


def test_reset_forgets_all_but_the_system(llm: LLM) -> None:
    chat = conversation(llm, system="Be brief.")
    first = answer(chat, "What is a lighthouse?")
    chat.reset()
    assert [t["role"] for t in chat.turns] == ["system"]
    assert answer(chat, "What is a lighthouse?").text == first.text


def test_an_answer_that_is_stopped_is_remembered_as_far_as_it_came(llm: LLM) -> None:
    chat = conversation(llm, 200)
    pieces = []
    writing = chat.say("What is a lighthouse?")
    while True:
        try:
            pieces.append(next(writing))
        except StopIteration as end:
            made = end.value
            break
        if "".join(pieces):
            chat.stop()
    assert made.finish == "interrupted" and made.text == "".join(pieces)
    assert chat.turns[-1] == {"role": "assistant", "content": made.text}
    assert answer(chat, "And a fox?").finish in ("stop", "length")


def test_an_answer_that_is_stopped_before_it_begins_is_forgotten(llm: LLM) -> None:
    chat = conversation(llm)
    writing = chat.say("The quick brown fox. " * 20)
    assert next(writing) == ""
    chat.stop()
    assert finish(writing) == Answer("", "interrupted", ())
    assert chat.turns == []


def test_a_chat_that_is_too_long_is_said_and_the_turn_forgotten(llm: LLM) -> None:
    chat = conversation(llm)
    answer(chat, "hi")
    with pytest.raises(ContextOverflow, match="reads 512 at most"):
        answer(chat, "fox " * 600)
    assert len(chat.turns) == 2
    assert answer(chat, "hi").finish in ("stop", "length")


def test_thinking_is_kept_apart(tmp_path: Path, make: Any) -> None:
    tokenizer = make(CHATML.replace("assistant\n", "assistant\n<think>"))
    llm = load_folder(save_llm(tmp_path / "thinks", tokenizer), torch.device("cpu"), torch.float32, "", "thinks")
    chat = conversation(llm)
    made = answer(chat, "hi")
    assert chat.turns[-1] == {"role": "assistant", "content": "", "reasoning_content": made.text.strip()}


def test_what_the_template_leaves_out_is_said_once(tmp_path: Path, make: Any) -> None:
    tokenizer = make("{% for m in messages if m.role != 'system' %}{{ m.content }}|{% endfor %}")
    llm = load_folder(save_llm(tmp_path / "deaf", tokenizer), torch.device("cpu"), torch.float32, "", "deaf")
    chat = conversation(llm, system="Be brief.")
    assert "leaves out the text of turn 1 (system)" in answer(chat, "hi").remarks[0]
    assert answer(chat, "hi").remarks == ()


def test_a_model_that_cannot_chat_or_see(tmp_path: Path, make: Any, llm: LLM) -> None:
    deaf = load_folder(save_llm(tmp_path / "x", make(None)), torch.device("cpu"), torch.float32, "", "x")
    with pytest.raises(ValueError, match="x cannot chat: it comes without a chat template"):
        conversation(deaf)
    with pytest.raises(ValueError, match="reads text only"):
        conversation(llm).show([torch.zeros(4, 4, 3)])
