"""Text encoders as facts: how a prompt is read, and which hidden states a family takes. Torch-free."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from .encoder import Encoder
    from .tokens import Tokens

Encode = Callable[["Mapping[str, Encoder]", "Mapping[str, Tokens]"], "tuple[Tensor, dict[str, Any]]"]
"""Encoders and tokens by encoder name -> text states [1, T, D] and the extra entries of a CONDITIONING item."""


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """One text encoder of a family: a CLIP or T5 of its own (``kind``), or a language model (``models``)."""

    name: str
    """``clip_l``, ``t5xxl``, ``qwen3_4b``, ...: as ComfyUI's nodes and files say."""
    limit: int
    """Tokens that are read, template included; text beyond is truncated, with a warning."""
    kind: str = ""
    """Kind of the network among those of the family: ``clip``, ``t5``, ``umt5``, ``byt5``."""
    models: tuple[str, ...] = ()
    """``model_type`` of the language models it may be; several such encoders of a family are alternatives."""
    folder: str = "text_encoder"
    """Component of a diffusers folder; its tokenizer's is the same with ``tokenizer`` for ``text_encoder``."""
    repos: tuple[str, ...] = ()
    """Hub repositories with its tokenizer in ``tokenizer``."""
    tokenizer: str = ""
    """The kind whose tokenizer it has; ``kind`` if empty."""
    # How a prompt is read
    pad_to: int = 0
    """A prompt is padded to at least this many tokens."""
    pad: int | None = None
    """Padding token; None: the tokenizer's."""
    masked: bool = False
    """The padding is masked in attention; else it is attended to, as in the family's training."""
    window: int = 0
    """Long prompts are read in windows of this many tokens, each with start and end; 0: in one, cut at ``limit``."""
    quoted: bool = False
    """Only the text in quotes is read, byte by byte (ByT5)."""
    before: str = ""
    """Template before the prompt, control tokens included."""
    after: str = ""
    """Template after the prompt."""
    blank: str = ""
    """What an empty prompt is read as."""
    strip: bool = False
    """Blanks around the prompt are removed."""
    spelled: tuple[str, ...] = ()
    """Control tokens that users write in prompts; others that a prompt spells are text."""
    # Which states are taken
    layers: tuple[int, ...] = (-1,)
    """Hidden states, concatenated: 0 enters the first layer, -2 the last, -1 follows the final norm."""
    normed: bool = False
    """The final norm is applied to earlier layers, too: CLIP skip of SD 1.5."""
    before_norm: bool = False
    """The last layer's output, given by its number, is taken before the final norm."""
    drop: int = 0
    """Tokens dropped from the front of the states: the template's."""
    projected: bool = False
    """The pooled vector goes through the text projection."""

    @property
    def tokenizer_kind(self) -> str:
        """``clip``, ``t5`` or ``umt5``."""
        return self.tokenizer or self.kind


@dataclass(frozen=True, kw_only=True)
class TextFamily:
    """A family as far as its text goes."""

    id: str
    title: str
    encoders: tuple[EncoderFacts, ...]
    encode: Encode
    repos: tuple[str, ...] = ()
    """Hub repositories whose tokenizers and configs fit, for weights that come without them."""
    clip_type: str = ""
    """The ``type`` that ComfyUI's CLIPLoader gives it; its id if empty."""
    language: tuple[EncoderFacts, ...] = field(init=False)
    """Those of its encoders that are language models: one of them is needed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", tuple(e for e in self.encoders if e.models))


def states_of_language_model(
    pooled: Mapping[str, str] | None = None, second: Mapping[str, str] | None = None
) -> Encode:
    """Conditioning from a language model's states and what smaller encoders add.

    Args:
        pooled: Entries of the CONDITIONING item that are the pooled vectors of encoders, by encoder name.
        second: Entries that are the states of encoders, left out where these have none.
    """

    def encode(encoders: Mapping[str, Encoder], tokens: Mapping[str, Tokens]) -> tuple[Tensor, dict[str, Any]]:
        name = next(name for name, encoder in encoders.items() if encoder.facts.models)
        states = encoders[name].states(tokens[name])
        extras = {entry: encoders[other].pooled(tokens[other]) for other, entry in (pooled or {}).items()}
        more = {entry: encoders[other].states(tokens[other]) for other, entry in (second or {}).items()}
        return states, extras | {entry: own for entry, own in more.items() if own.shape[1]}

    return encode
