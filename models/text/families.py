"""Families whose text encoder is a language model: templates, layers and lengths. Torch-free to import.

Facts: the pipelines of diffusers (tests/models/test_text_language.py compares with them) and the types of ComfyUI's
CLIPLoader. Which model of a type a file is, is told by its content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ..family import EncoderFacts

if TYPE_CHECKING:
    from torch import Tensor

    from .encoder import Tokens


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a language model makes a conditioning of a prompt."""

    name: str
    """Of the encoder, as ComfyUI's files say."""
    kinds: tuple[str, ...]
    """``model_type`` of the models it is for."""
    layers: tuple[int, ...]
    """Which hidden states, side by side: 0 is what goes into the first layer, -1 what comes out of the last norm."""
    raw: bool = False
    """The states behind the last layer are taken without the last norm."""
    limit: int
    """Tokens that are read, template included."""
    before: str = ""
    after: str = ""
    """The template around the prompt, with control tokens."""
    blank: str = ""
    """What an empty prompt is read as."""
    spelled: tuple[str, ...] = ()
    """Control tokens that are part of how prompts are written; others that a prompt spells are text."""
    drop: int = 0
    """So many tokens at the beginning, the template's, are no part of the conditioning."""
    padded: bool = False
    """Whether there are states of pads up to the limit, which attend to the prompt only."""
    repos: tuple[str, ...] = ()
    """Hub repositories with its tokenizer in ``tokenizer``."""


@dataclass(frozen=True, kw_only=True)
class LanguageFamily:
    """A family as far as its text goes."""

    id: str
    """The type that ComfyUI's loaders give it."""
    title: str
    recipes: tuple[Recipe, ...]
    """One of them, by the kind of model."""
    others: tuple[EncoderFacts, ...] = ()
    """Text encoders besides."""
    repos: tuple[str, ...] = ()
    """Hub repositories with their tokenizers."""
    extras: Mapping[str, str] = field(default_factory=dict)
    """Entries of a CONDITIONING that the pooled vectors of these encoders are, by encoder name."""
    beside: Mapping[str, str] = field(default_factory=dict)
    """Entries that the states of these encoders are, where there are any."""

    @property
    def encoders(self) -> tuple[EncoderFacts, ...]:
        """Those that are always needed besides the language model."""
        return self.others

    @property
    def encode(self) -> Callable[[Mapping[str, Any], Mapping[str, Tokens]], tuple[Tensor, dict[str, Any]]]:
        """As of any family."""
        return self._encode

    def _encode(self, encoders: Mapping[str, Any], tokens: Mapping[str, Tokens]) -> tuple[Tensor, dict[str, Any]]:
        names = [r.name for r in self.recipes if r.name in encoders]
        if not names:
            raise ValueError(f"{self.title} needs the text encoder {' or '.join(r.name for r in self.recipes)} too")
        states = encoders[names[0]].states(tokens[names[0]])
        extras = {entry: encoders[name].pooled(tokens[name]) for name, entry in self.extras.items()}
        found = {entry: encoders[name].states(tokens[name]) for name, entry in self.beside.items()}
        return states, extras | {entry: second for entry, second in found.items() if second.shape[1]}


_ASKS: Final = "<|im_start|>user\n"
_ANSWERS: Final = "<|im_end|>\n<|im_start|>assistant\n"
_QWEN_IMAGE: Final = (
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial "
    "relationships of the objects and background:<|im_end|>\n<|im_start|>user\n"
)
_HUNYUAN_VIDEO: Final = (
    "<|start_header_id|>system<|end_header_id|>\n\nDescribe the video by detailing the following aspects: "
    "1. The main content and theme of the video."
    "2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects."
    "3. Actions, events, behaviors temporal relationships, physical movement changes of the objects."
    "4. background environment, light, style and atmosphere."
    "5. camera angles, movements, and transitions used in the video:<|eot_id|>"
    "<|start_header_id|>user<|end_header_id|>\n\n"
)

_HUNYUAN_VIDEO_15: Final = (
    "<|im_start|>system\nYou are a helpful assistant. Describe the video by detailing the following aspects:"
    "         1. The main content and theme of the video."
    "         2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects."
    "         3. Actions, events, behaviors temporal relationships, physical movement changes of the objects."
    "         4. background environment, light, style and atmosphere."
    "         5. camera angles, movements, and transitions used in the video.<|im_end|>\n<|im_start|>user\n"
)
"""With the blanks that indent diffusers' source: they are tokens of the model's template."""

LANGUAGE_FAMILIES: Final = {
    family.id: family
    for family in (
        LanguageFamily(
            id="qwen_image",
            title="Qwen-Image",
            recipes=(
                Recipe(
                    name="qwen25_7b", kinds=("qwen2_5_vl",), layers=(-1,), limit=1024 + 34, drop=34,
                    before=_QWEN_IMAGE, after=_ANSWERS, repos=("Qwen/Qwen-Image", "Qwen/Qwen-Image-Edit"),
                ),
            ),
        ),
        LanguageFamily(
            id="lumina2",
            title="Z-Image or Lumina 2",
            recipes=(
                Recipe(
                    name="qwen3_4b", kinds=("qwen3",), layers=(-2,), limit=512, before=_ASKS, after=_ANSWERS,
                    repos=("Tongyi-MAI/Z-Image-Turbo", "Tongyi-MAI/Z-Image"),
                ),
                Recipe(
                    name="gemma2_2b", kinds=("gemma2",), layers=(-2,), limit=256,
                    repos=("Alpha-VLLM/Lumina-Image-2.0",),
                ),
            ),
        ),
        LanguageFamily(
            id="flux2",
            title="FLUX.2 klein",
            recipes=(
                Recipe(
                    name="qwen3_4b", kinds=("qwen3",), layers=(9, 18, 27), limit=512, padded=True,
                    before=_ASKS, after=_ANSWERS + "<think>\n\n</think>\n\n",
                    repos=("black-forest-labs/FLUX.2-klein-4B", "black-forest-labs/FLUX.2-klein-9B"),
                ),
            ),
        ),
        LanguageFamily(
            id="hunyuan_video",
            title="HunyuanVideo",
            recipes=(
                Recipe(
                    name="llama", kinds=("llama",), layers=(-3,), limit=256 + 95, drop=95,
                    before=_HUNYUAN_VIDEO, after="<|eot_id|>", repos=("hunyuanvideo-community/HunyuanVideo",),
                ),
            ),
            others=(EncoderFacts("clip_l", kind="clip", folder="text_encoder_2", pad_to=77, limit=77),),
            extras={"clip_l": "pooled_output"},
        ),
        LanguageFamily(
            id="minimax",
            title="MiniMax-H3",
            recipes=(
                Recipe(
                    name="qwen3vl_32b", kinds=("qwen3_vl",), layers=(50,), raw=True, limit=32768, blank=" ",
                    spelled=(
                        "<d>", "</d>", "<|cutoff|>", "<|lyrics_start|>", "<|lyrics_end|>", "<|caption_start|>",
                        "<|caption_end|>",
                    ),
                    repos=("MiniMaxAI/MiniMax-H3",),
                ),
            ),
        ),
        LanguageFamily(
            id="hunyuan_video_15",
            title="HunyuanVideo 1.5",
            recipes=(
                Recipe(
                    name="qwen25_7b", kinds=("qwen2_5_vl", "qwen2_5_vl_text"), layers=(-3,), limit=1000 + 108,
                    drop=108, before=_HUNYUAN_VIDEO_15, after=_ANSWERS, blank=" ",
                    repos=(
                        "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_t2v",
                        "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-720p_t2v", "Qwen/Qwen-Image",
                    ),
                ),
            ),
            others=(EncoderFacts("byt5_small", kind="byt5", folder="text_encoder_2", pad_to=0, limit=256),),
            beside={"byt5_small": "conditioning_byt5small"},
        ),
    )
}  # fmt: skip
"""By the type that ComfyUI's loaders give them."""
