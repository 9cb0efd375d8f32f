"""Families of which only the text encoders are supported. Torch-free.

Facts: the pipelines of diffusers (tests/models/test_text_language.py compares with them).
"""

from __future__ import annotations

from typing import Final

from ..text.facts import EncoderFacts, TextFamily, states_of_language_model

_ASKS: Final = "<|im_start|>user\n"
_ANSWERS: Final = "<|im_end|>\n<|im_start|>assistant\n"
_QWEN_IMAGE: Final = (
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial "
    "relationships of the objects and background:<|im_end|>\n<|im_start|>user\n"
)

QWEN_IMAGE = TextFamily(
    id="qwen_image",
    title="Qwen-Image",
    encoders=(
        EncoderFacts(
            "qwen25_7b",
            models=("qwen2_5_vl",),
            masked=True,
            limit=1024 + 34,
            drop=34,
            before=_QWEN_IMAGE,
            after=_ANSWERS,
            repos=("Qwen/Qwen-Image", "Qwen/Qwen-Image-Edit"),
        ),
    ),
    encode=states_of_language_model(),
)
LUMINA2 = TextFamily(
    id="lumina2",
    title="Z-Image or Lumina 2",
    encoders=(
        EncoderFacts(
            "qwen3_4b",
            models=("qwen3",),
            layers=(-2,),
            masked=True,
            limit=512,
            before=_ASKS,
            after=_ANSWERS,
            repos=("Tongyi-MAI/Z-Image-Turbo", "Tongyi-MAI/Z-Image"),
        ),
        EncoderFacts(
            "gemma2_2b",
            models=("gemma2",),
            layers=(-2,),
            masked=True,
            limit=256,
            repos=("Alpha-VLLM/Lumina-Image-2.0",),
        ),
    ),
    encode=states_of_language_model(),
)
FLUX2 = TextFamily(
    id="flux2",
    title="FLUX.2 klein",
    encoders=(
        EncoderFacts(
            "qwen3_4b",
            models=("qwen3",),
            layers=(9, 18, 27),
            masked=True,
            limit=512,
            pad_to=512,
            before=_ASKS,
            after=_ANSWERS + "<think>\n\n</think>\n\n",
            repos=("black-forest-labs/FLUX.2-klein-4B", "black-forest-labs/FLUX.2-klein-9B"),
        ),
    ),
    encode=states_of_language_model(),
)
