"""LTX-2's text encoder: the states of all layers of Gemma 3, and the connectors that make input of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .families.ltx2 import GEMMA, LTX2
from .loading import language
from .loading.headers import LoadError, read_header
from .loading.networks import build
from .loading.parts import part
from .paths import resolve
from .text import TextEncoder, Tokens
from .text_language import LanguageEncoder

if TYPE_CHECKING:
    from .llm.llm import LLM
    from .loading.load import Place


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


def load_joined_encoder(text_encoder: str, ckpt_name: str, place: Place) -> TextEncoder:
    """Gemma 3 of a folder or file, and the connectors of a checkpoint of LTX-2.

    Raises:
        LoadError: the one is no such file, or the other holds no connectors, or they do not fit.
    """
    llm = _load_gemma(resolve("text_encoders", text_encoder), text_encoder, place)
    connectors = build(part(resolve("checkpoints", ckpt_name), "connectors"), place.device, place.dtype)
    width, count = llm.network.config.get_text_config().hidden_size, llm.facts.layers + 1
    config: Any = connectors.config
    if (config.caption_channels, config.text_proj_in_factor) != (width, count):
        raise LoadError(
            f"{text_encoder} has {count} states of {width} numbers a token, {ckpt_name} reads "
            f"{config.text_proj_in_factor} of {config.caption_channels}: it wants Gemma 3 12B"
        )
    recipe = replace(GEMMA, layers=(*range(count - 1), -1))
    made: dict[str, Any] = {recipe.name: JoinedEncoder(llm.network, llm, recipe, connectors=connectors)}
    return TextEncoder(LTX2, made, text_encoder)


def _load_gemma(path: Path, name: str, place: Place) -> LLM:
    """The language model of a folder in transformers' layout, a GGUF file or a safetensors file."""
    folder = language.folder_of(path)
    if folder is not None:
        from .llm.load import load_folder

        tokenizer = language.tokenizer_of(path, [GEMMA])
        return load_folder(folder, place.device, place.dtype, place.quantize, name, tokenizer)
    if path.is_file() and read_header(path).form == "GGUF":
        from .llm.gguf import load_gguf

        return load_gguf(path, place.device, place.dtype, name=name)
    if not path.is_file() or language.kind_of(path) != "gemma3_text":
        raise LoadError(f"{path} is no Gemma 3: neither a folder in transformers' layout nor a file of it, GGUF or "
                        "safetensors with names as ComfyUI's files have them (`model.layers.0...`)")  # fmt: skip
    return language.load_file(path, GEMMA, name, place)
