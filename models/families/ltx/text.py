"""LTX-2's text encoder: the states of all layers of Gemma 3, and the connectors that make input of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...loading.header_values import LoadError
from ...loading.networks import build
from ...text.encoder import TextEncoder, Tokens
from ...text.language import LanguageEncoder
from .ltx2 import GEMMA, LTX2

if TYPE_CHECKING:
    from ...llm.llm import LLM
    from ...loading.detect import Part
    from ...loading.place import Place


@dataclass(frozen=True, eq=False, kw_only=True)
class JoinedEncoder(LanguageEncoder):
    """A language model with LTX-2's connectors behind it. A prompt is read as it is, without a template."""

    connectors: Any

    def tokenize(self, text: str) -> Tokens:
        return super().tokenize(text.strip())

    @torch.no_grad()
    def states(self, tokens: Tokens) -> Tensor:
        """What the network reads, for clip and sound side by side: float32 [1, limit, D + E] on the CPU.

        diffusers pads before the prompt. What is padded is seen by nothing and the connectors put the prompt first, so
        padding behind it gives the same.
        """
        layers = len(self.recipe.layers)
        read = super().states(tokens).unflatten(2, (layers, -1)).transpose(2, 3)
        weight = next(self.connectors.parameters())
        padded = read.new_zeros(1, self.limit, *read.shape[2:])
        padded[:, : read.shape[1]] = read
        mask = (torch.arange(self.limit, device=weight.device) < read.shape[1]).long()[None]
        clip, sound, _ = self.connectors(padded.to(weight), mask, padding_side="right")
        return torch.cat([clip, sound], -1).float().cpu()


def joined_encoder(llm: LLM, connectors: Part, place: Place, names: tuple[str, str]) -> TextEncoder:
    """Gemma 3 and the connectors of a checkpoint of LTX-2.

    Args:
        llm: The language model.
        connectors: In a checkpoint.
        place: Where they compute.
        names: What the user called the files of both.

    Raises:
        LoadError: they do not fit.
    """
    network = build(connectors, place.device, place.dtype)
    width, count = llm.loaded.network.config.get_text_config().hidden_size, llm.facts.layers + 1
    config: Any = network.config
    if (config.caption_channels, config.text_proj_in_factor) != (width, count):
        raise LoadError(
            f"{names[0]} has {count} states of {width} numbers a token, {names[1]} reads "
            f"{config.text_proj_in_factor} of {config.caption_channels}: it wants Gemma 3 12B"
        )
    recipe = replace(GEMMA, layers=(*range(count - 1), -1))
    encoder: Any = JoinedEncoder(llm.loaded.network, llm, recipe, connectors=network)
    return TextEncoder(LTX2, {recipe.name: encoder}, names[0])
