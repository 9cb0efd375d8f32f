"""MiniMax-H3: video and sound together."""

from .family import MINIMAX_H3

__all__ = ["MINIMAX_H3"]
