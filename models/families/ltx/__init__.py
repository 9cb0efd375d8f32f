"""LTX-Video and LTX-2, with its sound."""

from .ltx2 import LTX2
from .video import LTXV

__all__ = ["LTX2", "LTXV"]
