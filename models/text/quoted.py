"""Text that is to be written in the picture: what a prompt has in quotes, byte by byte through a ByT5 encoder.

Facts: diffusers' HunyuanVideo15Pipeline. ``"..."`` and ``“...”`` count; each text is read once, as ``Text "..."``.
ByT5 (Xue and others 2021, arXiv 2105.13626) has no vocabulary: a byte b is the token b + 3, 1 ends the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from ..family import EncoderFacts
from .encoder import Encoder, Tokens

if TYPE_CHECKING:
    from ..adapters.lora import Lora

_FIRST: Final = 3
"""The token of byte 0."""
_END: Final = 1


@dataclass(frozen=True, eq=False)
class GlyphEncoder:
    """A ByT5 encoder for the quoted parts of a prompt. Nothing weighs a word."""

    facts: EncoderFacts
    network: Any
    device: torch.device
    loras: tuple[tuple[Lora, float], ...] = ()

    @property
    def limit(self) -> int:
        """Tokens that it reads: a byte each, and the end."""
        return self.facts.limit

    def tokenize(self, text: str) -> Tokens:
        """The tokens of what is in quotes; none where nothing is."""
        spoken = quoted(text)
        read = spoken.encode()
        ids = (*(_FIRST + b for b in read[: self.limit - 1]), _END) if spoken else ()
        dropped = read[self.limit - 1 :].decode(errors="ignore")
        return Tokens(ids, (1.0,) * len(ids), len(ids), dropped, part=True)

    def states(self, tokens: Tokens) -> Tensor:
        """State of each token, float32 [1, T, D] on the CPU; T is 0 where nothing is in quotes."""
        if not tokens.ids:
            return torch.zeros(1, 0, self.network.config.d_model)
        plain = Encoder(self.facts, self.network, None, self.device, 0, self.limit, self.loras)
        return plain.states(tokens)


def quoted(text: str) -> str:
    """What a prompt has in quotes, as ByT5 is told it; empty if there is nothing."""
    found = dict.fromkeys(a or b for a, b in re.findall(r'"(.*?)"|“(.*?)”', text))
    return "".join(f'Text "{one}". ' for one in found)
