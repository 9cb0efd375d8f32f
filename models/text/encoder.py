"""A text encoder with its tokenizer, and the value on a CLIP wire: the text encoders of a family.

A prompt weight w moves a token's state away from that of the empty prompt at its place: e + w (s - e). Language models
read prompts as they are. No loss is silent: :meth:`TextEncoder.remarks` names truncated text and unknown words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..loaded import Loaded
from .facts import EncoderFacts, TextFamily
from .tokens import Tokens, quoted_tokens, template_tokens, weighted_tokens
from .weights import shortened

if TYPE_CHECKING:
    from ..adapters.lora import Lora
    from ..llm.llm import LLM


@dataclass(frozen=True, eq=False)
class Encoder:
    """One text encoder with its tokenizer."""

    facts: EncoderFacts
    loaded: Loaded
    tokenizer: Any
    """A fast tokenizer of transformers, that of a language model, or None for bytes."""
    limit: int
    """Tokens that are read: the facts' limit, or less where the network reads fewer."""
    pad_to: int = 0
    loras: tuple[tuple[Lora, float], ...] = ()
    source: LLM | None = None
    """The language model as it was loaded, without LoRAs; its weights may be packed in ``loaded``."""
    writes: bool = False
    """Whether a language model's files hold its output layer; without one it only encodes."""
    connector: Callable[[Tensor], Tensor] | None = None
    """A network of the family that turns the states into what its diffusion network reads."""

    @property
    def llm(self) -> LLM:
        """The language model, which can also write; its LoRAs act within :meth:`running`.

        With LoRAs it is a new value at each call: what was read without them cannot be continued.
        """
        assert self.source is not None
        same = self.source.loaded.network is self.loaded.network and not self.loras
        return self.source if same else replace(self.source, loaded=self.loaded)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the user should know of a language model's tokenizer."""
        return self.source.tokenizer.remarks if self.source is not None and self.source.tokenizer else ()

    def tokenize(self, text: str) -> Tokens:
        """The tokens of a prompt: in windows, cut and padded, in a template, or the bytes of what is in quotes."""
        if self.facts.quoted:
            return quoted_tokens(text, self.limit)
        if self.facts.models:
            return template_tokens(self.facts, self.tokenizer, text, self.pad_to, self.limit)
        return weighted_tokens(self.facts, self.tokenizer, text, self.pad_to, self.limit)

    def windows(self, tokens: Tokens) -> int:
        """Number of windows that the tokens of a prompt fill."""
        return len(tokens.ids) // self.facts.window if self.facts.window else 1

    def lengthened(self, tokens: Tokens, windows: int) -> Tokens:
        """The tokens with empty windows appended, up to ``windows``."""
        empty, more = self.tokenize(""), windows - self.windows(tokens)
        return replace(tokens, ids=tokens.ids + empty.ids * more, weights=tokens.weights + empty.weights * more)

    def states(self, tokens: Tokens) -> Tensor:
        """State of each token, weights applied, float32 [1, T, D] on the CPU; T is 0 where there are no tokens."""
        if not tokens.ids:
            return torch.zeros(1, 0, self.loaded.config.hidden_size)
        states = self._states(tokens)
        if any(w != 1 for w in tokens.weights):
            if self.facts.window:
                base = self._states(self.tokenize("")).repeat(1, self.windows(tokens), 1)
            else:
                base = self._states(replace(self, pad_to=len(tokens.ids)).tokenize(""))
            weights = torch.tensor(tokens.weights)[:, None]
            states = torch.where(weights == 1, states, base + weights * (states - base))
        states = states[:, self.facts.drop :]
        return self.connector(states) if self.connector else states

    def pooled(self, tokens: Tokens) -> Tensor:
        """One vector for the whole prompt, of its first window, float32 [1, P] on the CPU. Weights do not act on it.

        Raises:
            ValueError: a language model, which has no such vector.
        """
        if self.facts.models:
            raise ValueError(f"{self.facts.name} has states only, no pooled vector")
        with torch.no_grad(), self.running() as network:
            out = network(**self._inputs(tokens))
        pooled: Tensor = out.text_embeds if self.facts.projected else out.pooler_output
        return pooled[:1].float().cpu()

    @contextmanager
    def running(self) -> Iterator[Any]:
        """The network while it is resident, with its LoRAs."""
        with self.loaded.resident() as network:
            around: Any = nullcontext()
            if self.loras:
                from ..adapters.lora import active

                around = active(network, self.loras)
            with around:
                yield network

    @torch.no_grad()
    def _states(self, tokens: Tokens) -> Tensor:
        """The hidden states that are taken, all windows in a row, float32 [1, T, D] on the CPU."""
        if self.source is not None:
            deepest = self.source.facts.layers
            if bad := [layer for layer in self.facts.layers if not -deepest - 1 <= layer <= deepest]:
                raise ValueError(
                    f"{self.loaded.name} has {deepest} layers; {self.facts.name} is read at {bad[0]}: another model?"
                )
        with self.running() as network:
            body = network.get_decoder() if self.facts.models else network
            return self.read(body, **self._inputs(tokens)).flatten(0, 1)[None]

    def read(self, network: Any, **inputs: Any) -> Tensor:
        """The hidden states of ``facts.layers`` for these inputs, concatenated: float32 [B, T, D] on the CPU."""
        last: list[Tensor] = []
        depth = self.source.facts.layers if self.source is not None and self.facts.before_norm else None
        hook: Any = nullcontext()
        if depth is not None:  # transformers applies the final norm to the last hidden state
            norm = self.loaded.network.get_decoder().norm
            hook = _removed(norm.register_forward_pre_hook(lambda _, args: last.append(args[0])))
        options = {"use_cache": False} if self.facts.models else {}
        if self.facts.layers != (-1,):
            options["output_hidden_states"] = True
        with hook:
            out = network(**inputs, **options)

        def layer(number: int) -> Tensor:
            if number == depth:
                return last[0]
            hidden: Tensor = out.last_hidden_state if number == -1 else out.hidden_states[number]
            return network.final_layer_norm(hidden) if self.facts.normed and number != -1 else hidden

        return torch.cat([layer(number) for number in self.facts.layers], -1).float().cpu()

    def _inputs(self, tokens: Tokens) -> dict[str, Tensor]:
        """Ids [windows, T] and, where it is masked, the attention mask."""
        device = self.loaded.device
        ids = torch.tensor(tokens.ids, device=device).reshape(self.windows(tokens), -1)
        if not self.facts.masked:
            return {"input_ids": ids}
        mask = (torch.arange(ids.shape[1], device=device) < tokens.used).long()[None]
        return {"input_ids": ids, "attention_mask": mask}


@contextmanager
def _removed(handle: Any) -> Iterator[None]:
    """A hook for the time of the block."""
    try:
        yield
    finally:
        handle.remove()


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """The text encoders of one family. Never changed."""

    family: TextFamily
    encoders: Mapping[str, Encoder]
    name: str = ""
    vocabulary: Sequence[str] = field(default=(), repr=False)
    """All words it knows, for models that know few."""

    @property
    def weighs(self) -> bool:
        """Whether parentheses weight words; language models read them as text."""
        return not any(encoder.facts.models for encoder in self.encoders.values())

    @property
    def writer(self) -> Encoder:
        """The encoder that can also write text.

        Raises:
            ValueError: none can.
        """
        language_models = [encoder for encoder in self.encoders.values() if encoder.source is not None]
        if not language_models:
            raise ValueError(
                f"the text encoders {', '.join(self.encoders)} write no text; load a language model, with LoadLLM, or "
                "with CLIPLoader and a type whose text encoder is one"
            )
        if not language_models[0].writes:
            raise ValueError(
                f"the files of {language_models[0].loaded.name} hold no output layer: it encodes prompts and writes "
                "no text"
            )
        return language_models[0]

    def with_lora(self, encoder: str, lora: Lora, strength: float) -> TextEncoder:
        """The same with one more LoRA on one of the encoders."""
        own = self.encoders[encoder]
        loaded = own.loaded.with_network(lora.changed(own.loaded.network, strength))
        changed = replace(own, loaded=loaded, loras=(*own.loras, (lora, strength)))
        return replace(self, encoders={**self.encoders, encoder: changed})

    def tokenize(self, prompts: str | Mapping[str, str]) -> dict[str, Tokens]:
        """Tokens by encoder; one prompt for all, or one for each by its name."""
        texts = {name: prompts for name in self.encoders} if isinstance(prompts, str) else prompts
        return {name: encoder.tokenize(texts[name]) for name, encoder in self.encoders.items()}

    def encode(self, tokens: Mapping[str, Tokens]) -> list[list[Any]]:
        """A CONDITIONING of one item: text states [1, T, D] and what else the family takes from text.

        Raises:
            ValueError: an encoder of the family is missing.
        """
        family = self.family
        if missing := [e.name for e in family.encoders if not e.models and e.name not in self.encoders]:
            raise ValueError(f"{family.title} needs the text encoders {', '.join(missing)} too")
        if family.language and self.weighs:
            names = " or ".join(e.name for e in family.language)
            raise ValueError(f"{family.title} needs the text encoder {names} too")
        states, extras = family.encode(self.encoders, tokens)
        return [[states, extras]]

    def remarks(self, tokens: Mapping[str, Tokens]) -> list[str]:
        """What the user should know: truncated text and unknown words."""
        sentences = []
        readers = [name for name, t in tokens.items() if not t.part]
        unread_by_all = bool(readers) and all(tokens[n].dropped for n in readers)
        short = [min(readers, key=lambda n: len(tokens[n].dropped))] if unread_by_all else []
        for name in [*short, *(n for n, t in tokens.items() if t.part and t.dropped)]:
            limit, dropped = self.encoders[name].limit, shortened(tokens[name].dropped.strip(), 200)
            label = "the text in quotes" if tokens[name].part else "the prompt"
            sentences.append(f'{label} is longer than {limit} tokens; not read: "{dropped}"')
        if unknown := dict.fromkeys(w for t in tokens.values() for w in t.unknown):
            listed = ", ".join(f'"{shortened(w, 40)}"' for w in [*unknown][:20])
            listed += f" and {len(unknown) - 20} more" if len(unknown) > 20 else ""
            sentences.append(
                f"unknown words are ignored: {listed}; `pipegraph models {self.name}` lists the known ones"
            )
        return sentences
