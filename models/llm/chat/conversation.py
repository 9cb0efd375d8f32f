"""A multi-turn chat: turns, images, and the KV cache of earlier turns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Literal, TypeVar

from torch import Tensor

from ..decode.decode import TokenEvent, decode
from ..decode.prefill import ContextOverflow, Prefilled, prefill
from ..decode.sampling import SamplingParams
from ..decode.stats import Stats
from ..decode.stopping import Stopper
from ..llm import LLM
from ..network.vision import check_vision, shown
from ..tokens import Tokens
from .reply import parse_reply
from .template import Chat, Message, write_chat

E = TypeVar("E")
R = TypeVar("R")
CHUNK: Final = 128
"""Tokens of a prefill chunk: a chat can be stopped after each chunk."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The model's answer to a turn."""

    text: str
    """The reply, thinking included."""
    finish: Literal["stop", "length", "constraint", "interrupted"]
    remarks: tuple[str, ...]
    """Warnings not shown in an earlier turn."""
    stats: Stats = field(default_factory=Stats)


class Conversation:
    """The turns of a user and a model. Tokens of earlier turns stay in the KV cache."""

    def __init__(self, llm: LLM, params: SamplingParams, *, system: str = "", thinking: bool | None = None) -> None:
        """See ``write_chat`` for ``thinking``.

        Raises:
            ValueError: the model has no tokenizer or no chat template.
        """
        if llm.tokenizer is None or not llm.tokenizer.chat_template:
            raise ValueError(f"{llm.loaded.name} cannot chat: it comes without a chat template")
        self.llm, self.params, self.thinking = llm, params, thinking
        self._tokenizer = llm.tokenizer
        self._system: list[Message] = [{"role": "system", "content": system}] if system else []
        self._remarked: set[str] = set()
        self.reset()

    def reset(self) -> None:
        """Forget all turns."""
        self.turns: list[Message] = [*self._system]
        self.pictures: list[Tensor] = []
        self.waiting: list[Tensor] = []
        """Images for the next turn."""
        self._held: Prefilled | None = None
        self._stopped = False

    def show(self, pictures: Sequence[Tensor]) -> None:
        """Put images, each float32 [H, W, C] in 0..1, before the text of the next turn.

        Raises:
            ValueError: the model reads text only.
        """
        check_vision(self.llm)
        self.waiting += pictures

    def stop(self) -> None:
        """Stop the current answer at its next token; safe in a signal handler or another thread."""
        self._stopped = True

    def say(self, text: str) -> Generator[str, None, Answer]:
        """Stream the answer to a turn of the user; pieces are empty during the prefill.

        A turn that fails, or is stopped before its answer begins, is forgotten.

        Raises:
            ContextOverflow: the chat is longer than the model's context.
            ChatError: the template refuses the turn.
        """
        self._stopped = False
        parts: Any = [*[{"type": "image"}] * len(self.waiting), {"type": "text", "text": text}]
        turn = {"role": "user", "content": parts if self.waiting else text}
        turns, pictures = [*self.turns, turn], [*self.pictures, *self.waiting]
        chat = write_chat(self._tokenizer, turns, thinking=self.thinking, sees=self.llm.vision is not None)
        tokens = shown(self.llm, chat.ids, pictures)
        if tokens.lengths[0] >= self.llm.facts.context:
            raise ContextOverflow(
                f"the chat has {tokens.lengths[0]} tokens, and {self.llm.loaded.name} reads "
                f"{self.llm.facts.context} at most"
            )
        answer = yield from self._answer(tokens)
        remarks = [r for r in chat.remarks if r not in self._remarked]
        self._remarked.update(remarks)
        if answer.text or answer.finish != "interrupted":
            self.turns, self.pictures, self.waiting = [*turns, _turn(chat, answer.text)], pictures, []
        return Answer(answer.text, answer.finish, tuple(remarks), answer.stats)

    def _answer(self, tokens: Tokens) -> Generator[str, None, Answer]:
        held = None if self.llm.facts.long_positions else self._held
        rest = held and _rest(held.cache.tokens, tokens)
        before = held.cache if held and rest else None
        read = yield from self._run(prefill(self.llm, rest or tokens, cache=before, chunk=CHUNK), lambda _: "")
        if read is None:
            return Answer("", "interrupted", ())
        self._held = read
        pieces: list[str] = []

        def text(event: TokenEvent) -> str:
            pieces.append(event.text)
            return event.text

        stopper = Stopper(self._tokenizer, self.params.stop)
        reply = yield from self._run(decode(self.llm, read, self.params, stopper=stopper), text)
        if reply is None:
            return Answer("".join(pieces), "interrupted", ())
        self._held = reply.prefilled
        return Answer(reply.texts[0], reply.finish[0], (), reply.stats)

    def _run(self, events: Generator[E, None, R], text: Callable[[E], str]) -> Generator[str, None, R | None]:
        """The texts of events; returns their result, or None if stopped."""
        while not self._stopped:
            try:
                event = next(events)
            except StopIteration as end:
                result: R = end.value
                return result
            yield text(event)
        return None


def _turn(chat: Chat, text: str) -> Message:
    """The assistant's turn, thinking separated: templates leave out that of earlier turns."""
    parsed = parse_reply(text, thinking=chat.begins_thinking)
    if not parsed.thinking:
        return {"role": "assistant", "content": text}
    return {"role": "assistant", "content": parsed.answer, "reasoning_content": parsed.thinking}


def _rest(held: Tokens, tokens: Tokens) -> Tokens | None:
    """Tokens of a sequence after those held; None if it does not begin with them."""
    count = held.lengths[0]
    held_pictures, pictures = held.pictures_of(0), tokens.pictures_of(0)
    if tokens.ids[0][:count] != held.ids[0] or len(tokens.ids[0]) <= count or len(held_pictures) > len(pictures):
        return None
    later = pictures[len(held_pictures) :]
    if any(spot < count for spot in chain.from_iterable(p.spots for p in later)):
        return None
    return Tokens.of([tokens.ids[0][count:]], [[p.moved(-count) for p in later]])
