"""The families. Torch-free to import: each family's functions import what they need when called."""

from typing import Any

from ..family import Network
from ..text.facts import TextFamily
from .flux import FLUX
from .hunyuan import HUNYUAN_VIDEO, HUNYUAN_VIDEO_15
from .ltx import LTX2, LTXV
from .minimax import MINIMAX_H3
from .sdxl import SDXL
from .text_only import FLUX2, LUMINA2, QWEN_IMAGE
from .wan import WAN, WAN_5B, WAN_VACE

ALL = (FLUX, SDXL, WAN, WAN_5B, WAN_VACE, LTXV, LTX2, HUNYUAN_VIDEO, HUNYUAN_VIDEO_15, MINIMAX_H3)
FAMILIES = {family.id: family for family in ALL if family not in (WAN_5B, WAN_VACE)}
"""Families by id, without variants (these use another family's text encoders)."""
TEXT_FAMILIES: dict[str, TextFamily] = {
    name: family
    for family in (*FAMILIES.values(), QWEN_IMAGE, LUMINA2, FLUX2)
    for name in filter(None, (family.id, family.clip_type))
}
"""Text encoder families by CLIPLoader's type names."""
_BY_CLASS = {network.class_name: network for family in reversed(ALL) for network in family.networks}
_OTHER = Network(kind="", cls="", layouts=(), config=lambda pieces, base: {})


def facts_of(network: Any) -> Network:
    """The :class:`Network` of a loaded network's class; an empty one if no family has it."""
    return _BY_CLASS.get(type(network).__name__, _OTHER)
