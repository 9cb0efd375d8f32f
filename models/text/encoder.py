r"""The value on a CLIP wire: the text encoders of a family with their tokenizers.

Prompts may weigh words as in ComfyUI: ``(word:1.2)`` weighs by 1.2, ``(word)`` by 1.1 (groups nest), ``\(`` is a
parenthesis. A weight w moves a token's state away from that of the empty prompt at its place: e + w (s - e).
Nothing is lost in silence: :meth:`TextEncoder.remarks` says what was cut off and which words are unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..family import EncoderFacts, Family
from .families import LanguageFamily
from .words import unread, words

if TYPE_CHECKING:
    from ..adapters.lora import Lora
    from .language import LanguageEncoder


LONG_WORD = 8
"""Tokens from which on a word may be cut by the end of a window, as ComfyUI has it."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """A prompt as one encoder reads it."""

    ids: tuple[int, ...]
    """With start, end and padding."""
    weights: tuple[float, ...]
    """One a token."""
    used: int
    """Tokens before the padding."""
    dropped: str = ""
    """The end of the prompt that the encoder does not read."""
    unknown: tuple[str, ...] = ()
    """Words, as written, that the tokenizer has no token for or reads in part only."""
    part: bool = False
    """Only a part of the prompt is this encoder's, such as what is in quotes; others read the whole."""


@dataclass(frozen=True, eq=False)
class Encoder:
    """One text encoder with its tokenizer."""

    facts: EncoderFacts
    network: Any
    tokenizer: Any
    """A fast tokenizer of transformers."""
    device: torch.device
    pad_to: int
    limit: int
    loras: tuple[tuple[Lora, float], ...] = ()

    def tokenize(self, text: str) -> Tokens:
        """The tokens of a prompt, padded to ``pad_to`` and cut at ``limit``, or in windows of one length."""
        start, end, pad = self._special()
        if self.facts.window:
            return self._in_windows(self._words(text), start, end, pad)
        room = self.limit - len(start) - 1
        ids: list[int] = []
        weights: list[float] = []
        unknown: dict[str, None] = {}
        dropped: list[str] = []
        for piece, weight in weighted(text):
            read = self._read(piece)
            kept = read["input_ids"][: room - len(ids)]
            end_read = _end_read(piece, read["offset_mapping"], len(kept))
            dropped.append(piece[end_read:])
            unknown |= dict.fromkeys(unread(self.tokenizer, piece, read, end_read))
            ids += kept
            weights += [weight] * len(kept)
        used = len(start) + len(ids) + 1
        pads = max(0, self.pad_to - used)
        return Tokens(
            ids=(*start, *ids, end, *[pad] * pads),
            weights=(*[1.0] * len(start), *weights, 1.0, *[1.0] * pads),
            used=used,
            dropped="".join(dropped),
            unknown=tuple(unknown),
        )

    def _special(self) -> tuple[list[int], int, int]:
        """Tokens at the start, at the end, and of the padding."""
        tokenizer, end = self.tokenizer, self.tokenizer.eos_token_id
        start = [tokenizer.bos_token_id] if self.facts.tokenizer_kind == "clip" else []
        usual = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else end
        return start, end, usual if self.facts.pad is None else self.facts.pad

    def _read(self, text: str) -> Any:
        return self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)

    def _words(self, text: str) -> Iterator[tuple[list[int], float, list[str]]]:
        """Tokens of each word between blanks, its weight, and what of it is unknown."""
        for piece, weight in weighted(text):
            for word in piece.split():
                read = self._read(word)
                yield read["input_ids"], weight, [*unread(self.tokenizer, word, read, len(word))]

    def _in_windows(
        self, words: Iterable[tuple[list[int], float, list[str]]], start: list[int], end: int, pad: int
    ) -> Tokens:
        """Words in windows, each with its start, end and padding, as ComfyUI does it.

        A word that does not fit begins the next window; one of ``LONG_WORD`` tokens or more is cut.
        """
        room = self.facts.window - len(start) - 1
        windows: list[list[tuple[int, float]]] = [[]]
        unknown: dict[str, None] = {}
        for ids, weight, strange in words:
            unknown |= dict.fromkeys(strange)
            rest = [(token, weight) for token in ids]
            while len(windows[-1]) + len(rest) > room:
                fits = room - len(windows[-1]) if len(ids) >= LONG_WORD else 0
                windows[-1] += rest[:fits]
                rest = rest[fits:]
                windows.append([])
            windows[-1] += rest
        tokens: list[tuple[int, float]] = []
        for window in windows:
            pads = [(pad, 1.0)] * (room - len(window))
            tokens += [*((token, 1.0) for token in start), *window, (end, 1.0), *pads]
        used = len(tokens) - (room - len(windows[-1]))
        every, weights = zip(*tokens, strict=True)
        return Tokens(ids=tuple(every), weights=tuple(weights), used=used, unknown=tuple(unknown))

    def windows(self, tokens: Tokens) -> int:
        """How many windows the tokens of a prompt are in."""
        return len(tokens.ids) // self.facts.window if self.facts.window else 1

    def lengthened(self, tokens: Tokens, windows: int) -> Tokens:
        """The tokens with empty windows behind them, so that there are so many."""
        empty, more = self.tokenize(""), windows - self.windows(tokens)
        return replace(tokens, ids=tokens.ids + empty.ids * more, weights=tokens.weights + empty.weights * more)

    def states(self, tokens: Tokens) -> Tensor:
        """State of each token, weights applied, float32 [1, T, D] on the CPU."""
        states = self._states(tokens)
        if any(w != 1 for w in tokens.weights):
            if self.facts.window:
                base = self._states(self.tokenize("")).repeat(1, self.windows(tokens), 1)
            else:
                base = self._states(replace(self, pad_to=len(tokens.ids)).tokenize(""))
            weights = torch.tensor(tokens.weights)[:, None]
            states = torch.where(weights == 1, states, base + weights * (states - base))
        return states

    def _states(self, tokens: Tokens) -> Tensor:
        """The hidden states that are taken, of all windows in a row."""
        out = self._run(tokens)
        layers = [out.last_hidden_state if n == -1 else out.hidden_states[n] for n in self.facts.layers]
        return torch.cat(layers, -1).float().cpu().flatten(0, 1)[None]

    def pooled(self, tokens: Tokens) -> Tensor:
        """One vector for the whole prompt, of its first window, float32 [1, P] on the CPU. Weights do not act on it."""
        out = self._run(tokens)
        pooled: Tensor = out.text_embeds if self.facts.projected else out.pooler_output
        return pooled[:1].float().cpu()

    @torch.no_grad()
    def _run(self, tokens: Tokens) -> Any:
        ids = torch.tensor(tokens.ids, device=self.device).reshape(self.windows(tokens), -1)
        inputs: dict[str, Any] = {"input_ids": ids}
        if self.facts.masked:
            inputs["attention_mask"] = (torch.arange(ids.shape[1], device=self.device) < tokens.used).long()[None]
        if self.facts.layers != (-1,):
            inputs["output_hidden_states"] = True
        with self._adapted():
            return self.network(**inputs)

    def _adapted(self) -> Any:
        if not self.loras:
            return nullcontext()
        from ..adapters.lora import active

        return active(self.network, self.loras)


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """The text encoders of one family. Never changed."""

    family: Family | LanguageFamily
    encoders: Mapping[str, Encoder | LanguageEncoder]
    name: str = ""
    vocabulary: Sequence[str] = field(default=(), repr=False)
    """All words it knows, for models that know few."""

    @property
    def weighs(self) -> bool:
        """Whether parentheses weigh words; language models read them as text."""
        return not isinstance(self.family, LanguageFamily)

    def with_lora(self, encoder: str, lora: Lora, strength: float) -> TextEncoder:
        """The same with one LoRA more on one of the encoders."""
        one = self.encoders[encoder]
        made = replace(one, network=lora.changed(one.network, strength), loras=(*one.loras, (lora, strength)))
        return replace(self, encoders={**self.encoders, encoder: made})

    def tokenize(self, prompts: str | Mapping[str, str]) -> dict[str, Tokens]:
        """Tokens by encoder; one prompt for all, or one for each by its name."""
        texts = {name: prompts for name in self.encoders} if isinstance(prompts, str) else prompts
        return {name: encoder.tokenize(texts[name]) for name, encoder in self.encoders.items()}

    def encode(self, tokens: Mapping[str, Tokens]) -> list[list[Any]]:
        """A CONDITIONING of one item: text states [1, T, D] and what else the family takes from text.

        Raises:
            ValueError: an encoder of the family is missing.
        """
        if missing := [f.name for f in self.family.encoders if f.name not in self.encoders]:
            raise ValueError(f"{self.family.title} needs the text encoders {', '.join(missing)} too")
        encoders: Mapping[str, Any] = self.encoders
        states, extras = self.family.encode(encoders, tokens)
        return [[states, extras]]

    def remarks(self, tokens: Mapping[str, Tokens]) -> list[str]:
        """What the user should know: text that no encoder reads to its end, and unknown words."""
        said = []
        readers = [name for name, t in tokens.items() if not t.part]
        unread_by_all = bool(readers) and all(tokens[n].dropped for n in readers)
        short = [min(readers, key=lambda n: len(tokens[n].dropped))] if unread_by_all else []
        for name in [*short, *(n for n, t in tokens.items() if t.part and t.dropped)]:
            limit, dropped = self.encoders[name].limit, _short(tokens[name].dropped.strip(), 200)
            what = "the text in quotes" if tokens[name].part else "the prompt"
            said.append(f'{what} is longer than {limit} tokens; not read: "{dropped}"')
        if unknown := dict.fromkeys(w for t in tokens.values() for w in t.unknown):
            listed = ", ".join(f'"{_short(w, 40)}"' for w in [*unknown][:20])
            listed += f" and {len(unknown) - 20} more" if len(unknown) > 20 else ""
            said.append(f"unknown words are ignored: {listed}; `pipegraph models {self.name}` lists the known ones")
        return said


def _end_read(text: str, offsets: Sequence[tuple[int, int]], kept: int) -> int:
    """Where the part of a text begins that no kept token holds; a word of which nothing was read belongs to it."""
    if kept >= len(offsets):
        return len(text)
    at = offsets[kept][0]
    start = next((start for start, stop in words(text) if start <= at < stop), at)
    return max(start, offsets[kept - 1][1]) if kept else start


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"


def embeddings(text: str) -> list[str]:
    """The textual inversions that a prompt names as ComfyUI does: ``embedding:NAME``, each once."""
    return list(dict.fromkeys(re.findall(r"(?<![^\s(,])embedding:[^\s,():]+", text)))


def weight_faults(text: str) -> list[str]:
    """What of a prompt looks like a weight and is read as text, as sentences.

    That is a parenthesis that is not closed and holds a colon and a number, and a closed one whose part after the last
    colon should be a number and is none.
    """
    faults, starts = [], list[int]()
    for part in re.finditer(r"\\[()\\]|[()]", text):
        if part[0] == "(":
            starts.append(part.end())
        elif part[0] == ")" and starts:
            group = text[starts.pop() : part.start()]
            weight = re.search(r":\s*([^:\s()]*)\s*$", group)
            if weight and _NEARLY.fullmatch(weight[1]) and not _WEIGHT.fullmatch(weight[1]):
                what = f'"{weight[1]}" is no number' if weight[1] else "there is no number behind the colon"
                faults.append(f'"({_short(group, 60)})": {what}; it is read as text, and weighs 1.1')
    for start in starts:
        if re.match(r"[^()]*:\s*[+-]?[\d.]", text[start:]):
            faults.append(f'"({_short(text[start:].strip(), 60)}": its parenthesis is not closed; it is read as text')
    return faults


_WEIGHT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)")
_NEARLY = re.compile(r"(?i)[+-]?(?:nan|inf(?:inity)?|[\d.,]+(?:e[+-]?\d+|f|x|%)?|)")


def weighted(text: str) -> list[tuple[str, float]]:
    """Split a prompt into texts and their weights; parentheses that do not pair are text."""
    # A group is its pieces (text, factor, fixed); a fixed factor is not multiplied by outer groups.
    groups: list[list[tuple[str, float, bool]]] = [[]]
    for part in re.findall(r"\\[()\\]|[()]|[^()\\]+|\\", text):
        if part == "(":
            groups.append([])
        elif part == ")" and len(groups) > 1:
            group = groups.pop()
            groups[-1] += _weighed(group)
        else:
            groups[-1].append((part[1] if re.fullmatch(r"\\[()\\]", part) else part, 1.0, False))
    while len(groups) > 1:
        group = groups.pop()
        groups[-1] += [("(", 1.0, False), *group]
    merged: list[tuple[str, float]] = []
    for piece, factor, _ in (p for p in groups[0] if p[0]):
        if merged and merged[-1][1] == factor:
            merged[-1] = (merged[-1][0] + piece, factor)
        else:
            merged.append((piece, factor))
    return merged or [("", 1.0)]


def _weighed(group: list[tuple[str, float, bool]]) -> list[tuple[str, float, bool]]:
    """The pieces of a closed group: 1.1 times, or the number after its last colon."""
    ends = re.fullmatch(rf"(.*):\s*({_WEIGHT.pattern})\s*", group[-1][0], re.S) if group else None
    if ends and not group[-1][2]:
        group = [*group[:-1], (ends[1], group[-1][1], False)]
        return [(t, f if fixed else f * float(ends[2]), True) for t, f, fixed in group]
    return [(t, f if fixed else f * 1.1, fixed) for t, f, fixed in group]
