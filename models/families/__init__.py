"""The families. Torch-free to import: each family's functions import what they need when called."""

from ..family import Family
from .flux import FLUX
from .hunyuan_video import HUNYUAN_VIDEO
from .hunyuan_video_15 import HUNYUAN_VIDEO_15
from .ltx import LTXV
from .wan import WAN

FAMILIES = {family.id: family for family in (FLUX, WAN, LTXV, HUNYUAN_VIDEO, HUNYUAN_VIDEO_15)}
"""Every family by its id."""


def family_of_network(class_name: str) -> Family | None:
    """The family whose networks are of this diffusers class."""
    return next((f for f in FAMILIES.values() if f.network == class_name), None)


def family_of_control(class_name: str) -> Family | None:
    """The family whose ControlNets are of this diffusers class."""
    return next((f for f in FAMILIES.values() if f.control_network == class_name != ""), None)
