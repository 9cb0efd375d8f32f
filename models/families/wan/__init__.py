"""Wan 2.1 and 2.2, the 5B model, VACE and the Fun models."""

from .family import WAN
from .variants import WAN_5B, WAN_VACE

__all__ = ["WAN", "WAN_5B", "WAN_VACE"]
