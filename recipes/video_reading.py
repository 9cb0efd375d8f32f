"""Teach the video model's text encoder what a caption says, beside what the clips teach it.

As ``reading.py``: linear heads, thrown away after training, read object, colour, motion and background from the state
of the caption's end, and from each word which part of the sentence it stands in and what that part says. Read from the
end alone, "a yellow fish on a blue background" still gave blue fish on yellow.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .video_world import BACKGROUNDS, MOTIONS, OBJECTS, TOKENS, Moving
from .world import COLOURS

IGNORE = -100
FACTS = {"object": len(OBJECTS), "colour": len(COLOURS) + 1, "motion": len(MOTIONS), "background": len(BACKGROUNDS)}
"""What a caption says, with the number of classes; colour 0 is the natural one."""
WORDS = {"part": 3, **FACTS}
"""Read from the state of one word: its part of the sentence, and what that part says."""
SAYS = [(1, 2), (3,), (4,)]
"""Part of the sentence -> which of ``WORDS`` it tells."""

Facts = tuple[list[int], list[list[int]]]
"""The classes of one caption: of its end, and of each word."""
NOTHING: Facts = ([IGNORE] * len(FACTS), [[IGNORE] * len(WORDS)] * TOKENS)
"""Facts of the empty prompt: none are asked."""


def facts(scene: Moving, parts: Sequence[str]) -> Facts:
    """What a caption of a scene says; ``parts`` are its object, motion and background, "" where left out."""
    colour = COLOURS.index(scene.thing.colour) + 1 if scene.thing.colour else 0
    known = [OBJECTS.index(scene.thing.name), colour, list(MOTIONS).index(scene.motion)]
    known.append(BACKGROUNDS.index(scene.background))
    end, words = [IGNORE] * len(FACTS), []
    for i, part in enumerate(parts):
        if not part:
            continue
        row = [i] + [IGNORE] * len(FACTS)
        for column in SAYS[i]:
            row[column] = end[column - 1] = known[column - 1]
        words += [row] * len(part.split())
    return end, words + [[IGNORE] * len(WORDS)] * (TOKENS - len(words))


class Reader(nn.Module):
    """The linear heads, and their loss."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(width, classes) for classes in FACTS.values())
        self.words = nn.ModuleList(nn.Linear(width, classes) for classes in WORDS.values())

    def forward(self, states: Tensor, ends: Tensor, asked: Sequence[Facts]) -> Tensor:
        """Sum of the heads' mean cross entropies, for states [B, 16, width], those of the ends [B, width], B facts."""
        whole, each = torch.tensor([f[0] for f in asked]), torch.tensor([f[1] for f in asked])
        loss = ends.new_zeros(())
        for heads, inputs, classes in ((self.heads, ends, whole), (self.words, states, each)):
            for i, head in enumerate(heads):
                known = classes[..., i] != IGNORE
                if known.any():
                    loss = loss + cross_entropy(head(inputs[known]), classes[..., i][known])
        return loss
