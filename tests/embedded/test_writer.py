"""The shipped prompt writer: its scores are its own, and on this project's decoding it writes what is asked."""

from __future__ import annotations

import json
import random

import torch
from recipes.requests import fulfils, read, request
from recipes.train_writer import OUT, weights_id

from pipegraph.generators import finish
from pipegraph.models.llm.chat.template import write_chat
from pipegraph.models.llm.decode.decode import decode
from pipegraph.models.llm.decode.prefill import prefill
from pipegraph.models.llm.decode.sampling import SamplingParams
from pipegraph.models.llm.decode.stopping import Stopper
from pipegraph.models.llm.load import load_llm
from pipegraph.models.llm.tokens import Tokens


def test_scores_are_of_these_weights_and_reach_the_gates() -> None:
    scores = json.loads((OUT / "scores.json").read_text("utf-8"))
    assert scores["weights"] == weights_id(OUT)
    assert scores["valid"]["low"] >= 0.95 and scores["valid"]["of"] >= 200
    assert scores["object"]["low"] >= 0.85 and scores["colour"]["low"] >= 0.85
    clips = scores["clips"]
    assert clips["valid"]["low"] >= 0.95 and all(clips[k]["low"] >= 0.85 for k in ("object", "colour", "motion"))


def test_writes_what_is_asked() -> None:
    rng = random.Random(11)
    asked = [request(rng, held_out=True) for _ in range(48)]
    llm = load_llm("embedded/prompt-writer", torch.device("cpu"), torch.float32)
    assert llm.tokenizer is not None
    chats = [write_chat(llm.tokenizer, [{"role": "user", "content": text}]) for text, _ in asked]
    ready = finish(prefill(llm, Tokens(tuple(chat.ids for chat in chats))))
    reply = finish(decode(llm, ready, SamplingParams(temperature=0, max_tokens=32), stopper=Stopper(llm.tokenizer)))
    scenes = [read(text) for text in reply.texts]
    right = [s is not None and False not in fulfils(s, w).values() for s, (_, w) in zip(scenes, asked, strict=True)]
    assert sum(right) >= 42, [(q, t) for (q, _), t, r in zip(asked, reply.texts, right, strict=True) if not r]
