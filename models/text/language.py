"""Language models as text encoders: a prompt in its family's template, and the states of some of their layers."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..llm.tokenizer import free_mark
from .encoder import Tokens
from .families import Recipe

if TYPE_CHECKING:
    from ..adapters.lora import Lora
    from ..llm.llm import LLM


@dataclass(frozen=True, eq=False)
class LanguageEncoder:
    """A language model with what a family makes of its states. Prompts are read as they are: nothing weighs a word."""

    network: Any
    source: LLM
    """What was loaded; its network may be another one than ``network``, which counts."""
    recipe: Recipe
    loras: tuple[tuple[Lora, float], ...] = ()
    writes: bool = True
    """Whether its files hold an output layer; without one it only encodes."""

    @property
    def llm(self) -> LLM:
        """The language model, which can also write, its LoRAs within :meth:`adapted`.

        With LoRAs it is another one at each call: what was read without them is nothing to go on from.
        """
        same = self.source.loaded.network is self.network and not self.loras
        return self.source if same else replace(self.source, loaded=self.source.loaded.with_network(self.network))

    @property
    def limit(self) -> int:
        """Tokens that it reads."""
        return min(self.recipe.limit, self.source.facts.context)

    def tokenize(self, text: str) -> Tokens:
        """A prompt in the template, cut at the limit; control tokens that it spells are text."""
        tokenizer, recipe = self.source.tokenizer, self.recipe
        assert tokenizer is not None
        mark = free_mark([text])
        guarded = tokenizer.guard(text or recipe.blank, mark)
        for token in recipe.spelled:
            guarded = guarded.replace(token[0] + mark + token[1:], token)
        whole = recipe.before + guarded + recipe.after
        ids = (*tokenizer.start, *tokenizer.encode_marked(whole, mark))
        kept, cut = ids[: self.limit], ids[self.limit : len(ids) - len(tokenizer.encode(recipe.after, control=True))]
        return Tokens(kept, (1.0,) * len(kept), len(kept), tokenizer.decode(cut))

    @torch.no_grad()
    def states(self, tokens: Tokens) -> Tensor:
        """The states of the tokens after the template's beginning, float32 [1, T, D * layers] on the CPU."""
        recipe, llm = self.recipe, self.source
        deepest = llm.facts.layers
        if bad := [layer for layer in recipe.layers if not -deepest - 1 <= layer <= deepest]:
            raise ValueError(
                f"{llm.loaded.name} has {deepest} layers; {recipe.name} is read at {bad[0]}: another model?"
            )
        fast = llm.tokenizer.fast if llm.tokenizer else None
        pads = self.limit - len(tokens.ids) if recipe.padded else 0
        pad = fast.pad_token_id if fast is not None and fast.pad_token_id is not None else 0
        ids = torch.tensor([[*tokens.ids, *[pad] * pads]], device=llm.loaded.device)
        mask = torch.tensor([[1] * len(tokens.ids) + [0] * pads], device=llm.loaded.device)
        decoder = self.network.get_decoder()
        with self.adapted():
            found = self.read(decoder, input_ids=ids, attention_mask=mask)
        return found[:, recipe.drop :]

    def read(self, network: Any, **inputs: Any) -> Tensor:
        """The recipe's states of what a network is given, float32 [1, T, D * layers] on the CPU."""
        recipe, last = self.recipe, list[Tensor]()
        # transformers gives the states behind the last layer with the last norm on them.
        hook = self.network.get_decoder().norm.register_forward_pre_hook(lambda _, given: last.append(given[0]))
        try:
            out = network(**inputs, output_hidden_states=True, use_cache=False)
        finally:
            hook.remove()
        raw = self.source.facts.layers if recipe.raw else None
        states = torch.cat([last[0] if n == raw else out.hidden_states[n] for n in recipe.layers], -1)
        return states.float().cpu()

    def pooled(self, tokens: Tokens) -> Tensor:
        """Language models have no vector for the whole prompt."""
        raise ValueError(f"{self.recipe.name} gives states only")

    def adapted(self) -> Any:
        """A context in which its LoRAs act."""
        if not self.loras:
            return nullcontext()
        from ..adapters.lora import active

        return active(self.network, self.loras)
