"""The families. Torch-free to import: each family's functions import what they need when called."""

from collections.abc import Mapping
from typing import Any

from ..family import Family
from .flux import FLUX
from .hunyuan_video import HUNYUAN_VIDEO
from .hunyuan_video_15 import HUNYUAN_VIDEO_15
from .ltx import LTXV
from .ltx2 import LTX2
from .minimax import MINIMAX_H3
from .wan import WAN
from .wan_variants import WAN_5B, WAN_VACE

FAMILIES = {family.id: family for family in (FLUX, WAN, LTXV, LTX2, HUNYUAN_VIDEO, HUNYUAN_VIDEO_15, MINIMAX_H3)}
"""Every family by its id, but for variants: those have the text encoders of another one."""
VARIANTS = (WAN_5B, WAN_VACE)


def family_of_network(class_name: str, config: Mapping[str, Any]) -> Family | None:
    """The family whose networks are of this diffusers class and config."""
    known = (f for f in (*VARIANTS, *FAMILIES.values()) if f.network == class_name)
    return next((f for f in known if f.fits is None or f.fits(config)), None)


def family_of_control(class_name: str) -> Family | None:
    """The family whose ControlNets are of this diffusers class."""
    return next((f for f in FAMILIES.values() if f.control_network == class_name != ""), None)
