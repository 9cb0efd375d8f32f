"""LTX-2's text encoder: hidden states of all layers of Gemma 3, and the connectors that project them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...loaded import Loaded
from ...loading.header_values import LoadError
from ...loading.networks import build
from ...text.encoder import Encoder, TextEncoder
from .ltx2 import GEMMA, LTX2

if TYPE_CHECKING:
    from ...llm.llm import LLM
    from ...loading.detect import Part
    from ...loading.place import Place


@dataclass(frozen=True, eq=False)
class Connectors:
    """Projects the hidden states of all Gemma 3 layers to the diffusion network's input."""

    loaded: Loaded
    layers: int
    limit: int
    """Number of tokens they return."""

    @torch.no_grad()
    def __call__(self, states: Tensor) -> Tensor:
        """States [1, T, layers * D] to those for video and audio, concatenated: float32 [1, limit, V + A] on the CPU.

        diffusers pads on the left. Padding is masked and the connectors move the prompt to the front, so padding on the
        right gives the same.
        """
        read = states.unflatten(2, (self.layers, -1)).transpose(2, 3)
        padded = read.new_zeros(1, self.limit, *read.shape[2:])
        padded[:, : read.shape[1]] = read
        with self.loaded.resident() as network:
            weight = next(network.parameters())
            mask = (torch.arange(self.limit, device=weight.device) < read.shape[1]).long()[None]
            video, audio, _ = network(padded.to(weight), mask, padding_side="right")
        return torch.cat([video, audio], -1).float().cpu()


def joined_encoder(llm: LLM, connectors: Part, place: Place, names: tuple[str, str]) -> TextEncoder:
    """Gemma 3 with the connectors of an LTX-2 checkpoint.

    Args:
        llm: The language model.
        connectors: In a checkpoint.
        place: Where they compute.
        names: The user's names for both files.

    Raises:
        LoadError: they do not fit.
    """
    loaded = Loaded(build(connectors, place.device, place.dtype), place.device, place.dtype, names[1])
    width, count = llm.loaded.network.config.get_text_config().hidden_size, llm.facts.layers + 1
    config: Any = loaded.config
    if (config.caption_channels, config.text_proj_in_factor) != (width, count):
        raise LoadError(
            f"{names[0]} has {count} states of {width} numbers a token, {names[1]} reads "
            f"{config.text_proj_in_factor} of {config.caption_channels}: it wants Gemma 3 12B"
        )
    facts, limit = replace(GEMMA, layers=(*range(count - 1), -1)), min(GEMMA.limit, llm.facts.context)
    connector = Connectors(loaded, count, limit)
    encoder = Encoder(facts, llm.loaded, llm.tokenizer, limit, source=llm, writes=True, connector=connector)
    return TextEncoder(LTX2, {facts.name: encoder}, names[0])
