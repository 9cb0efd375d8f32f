"""How LoRA files name their tensors: kohya, diffusers/peft, the original FLUX layout, ComfyUI, XLabs. Torch-free.

A key is <where><layer><role>: the part of the model (``lora_unet_``, ``transformer.``, ``lora_te1_``, ...), the layer
in some spelling, and what the tensor is (``.lora_down.weight``, ``.lora_B.weight``, ``.alpha``, ...).
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

NETWORK: Final = "model"
"""The part that is the diffusion network; text encoders are parts of their own names (``clip_l``, ``t5xxl``)."""

_ROLES: Final = {
    ".lora_down.weight": "down",
    ".lora_A.weight": "down",
    ".lora_A.default.weight": "down",
    ".lora.down.weight": "down",
    ".lora_linear_layer.down.weight": "down",
    ".down.weight": "down",
    ".lora_up.weight": "up",
    ".lora_B.weight": "up",
    ".lora_B.default.weight": "up",
    ".lora.up.weight": "up",
    ".lora_linear_layer.up.weight": "up",
    ".up.weight": "up",
    ".alpha": "alpha",
    ".diff": "weight",
    ".diff_b": "bias",
}
_OTHER_KINDS: Final = {
    "dora_scale": "DoRA",
    "lora_magnitude_vector": "DoRA",
    "lokr_": "LoKr",
    "hada_": "LoHa",
    "oft_": "OFT",
    "lora_mid": "LoCon with a middle factor",
    "lora_embedding": "LoRA on embeddings",
    "lora_B.bias": "LoRA with a bias",
}
_FOLDERS: Final = {
    "text_encoder": ("lora_te1_", "lora_te_", "text_encoder."),
    "text_encoder_2": ("lora_te2_", "text_encoder_2."),
    "text_encoder_3": ("lora_te3_", "text_encoder_3."),
}
_NAMELESS: Final = "text_encoders.transformer."
_NETWORK_PREFIXES: Final = (
    "model.diffusion_model.",
    "diffusion_model.",
    "transformer.",
    "unet.",
    "lora_unet_",
    "lora_transformer_",
)


class Key(NamedTuple):
    """One key of a file, read."""

    part: str
    """``model`` or the name of a text encoder."""
    layer: str
    """The layer's name in the file's spelling, dots as underscores."""
    role: str
    """``down`` (R, K), ``up`` (N, R), ``alpha`` (a number); ``weight`` or ``bias``: what is added to it whole."""


def read_key(key: str, encoders: dict[str, str]) -> Key | str:
    """Take a key apart, or say why it cannot be used.

    Args:
        key: As in the file.
        encoders: Names of the family's text encoders by their folder, e.g. ``{"text_encoder": "clip_l"}``; by the empty
            name that of the only one.
    """
    suffix = next((s for s in _ROLES if key.endswith(s)), None)
    if suffix is None:
        kind = next((words for mark, words in _OTHER_KINDS.items() if mark in key), None)
        return f"{kind}, which is not supported" if kind else "no tensor of a LoRA"
    part, layer = _part(key[: -len(suffix)].removeprefix("base_model.model."), encoders)
    return Key(part, layer.replace(".", "_"), _ROLES[suffix])


def _part(stem: str, encoders: dict[str, str]) -> tuple[str, str]:
    """Part and layer of a key without its role. ComfyUI writes text encoders as text_encoders.clip_l.transformer.

    Without a name of an encoder, as in files that ComfyUI has extracted, the only one is meant.
    """
    if stem.startswith(_NAMELESS):
        return encoders.get("", "a text encoder"), stem.removeprefix(_NAMELESS)
    if comfy := re.match(r"text_encoders\.(\w+)\.(?:transformer\.)?", stem):
        return comfy[1], stem[comfy.end() :]
    for folder, prefixes in _FOLDERS.items():
        for prefix in prefixes:
            if stem.startswith(prefix):
                return encoders.get(folder, folder), stem.removeprefix(prefix)
    for prefix in _NETWORK_PREFIXES:
        if stem.startswith(prefix):
            return NETWORK, stem.removeprefix(prefix)
    return NETWORK, stem
