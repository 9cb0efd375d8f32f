"""Teach the two text encoders what a caption says, beside what the pictures teach them.

Through the picture loss alone the encoders stay bags of words for long ("a yellow umbrella on a blue background" gives
a blue umbrella on yellow). So linear heads, thrown away after training, read the scene from CLIP's pooled vector and,
word by word, from T5's states: which object a word belongs to, of what colour, where, or on which background.

Where an object stands follows from two facts, neither of which tells it alone: which relation the caption names, and
whether the object is named first. Asked for the place only, the encoder had not begun to learn it after 200,000
pictures (.5 right: a guess); asked for both as well, it had after 400 batches of 64 captions.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from .networks import TEXT_TOKENS
from .world import BACKGROUNDS, COLOURS, OBJECTS, PLACES, RELATIONS, SIZES, Scene, split_words

IGNORE = -100
PLACE_OF = {None: 0} | {offset: i + 1 for i, offset in enumerate(RELATIONS.values())}
SLOTS = {"object": len(OBJECTS) + 1, "colour": len(COLOURS) + 1}
POOLED = {
    "object 1": SLOTS["object"],
    "colour 1": SLOTS["colour"],
    "object 2": SLOTS["object"],
    "colour 2": SLOTS["colour"],
    "background": len(BACKGROUNDS),
    "relation": len(RELATIONS) + 1,
    "size": len(SIZES),
}
"""Facts read from the pooled vector, with their number of classes; class 0 of a slot means "none"."""
WORDS = {
    "role": 3,
    "object": SLOTS["object"],
    "colour": SLOTS["colour"],
    "place": 5,
    "background": len(BACKGROUNDS),
    "relation": len(RELATIONS) + 1,
    "order": 2,
}
"""Facts read from the state of one word; facts that a word has no part in are not asked of it."""


def pooled_facts(scene: Scene) -> list[int]:
    """Classes of ``POOLED`` for a scene."""
    slots = []
    for i in range(2):
        thing = scene.things[i] if i < len(scene.things) else None
        slots.append(OBJECTS.index(thing.name) + 1 if thing else 0)
        slots.append(COLOURS.index(thing.colour) + 1 if thing and thing.colour else 0)
    relation = list(RELATIONS).index(scene.relation) + 1 if scene.relation else 0
    return [*slots, BACKGROUNDS.index(scene.background), relation, list(SIZES).index(scene.size)]


def word_facts(scene: Scene, words: str) -> list[list[int]]:
    """Classes of ``WORDS`` for each of the 16 positions of a caption of the scene; ``IGNORE`` where not asked."""
    background = [2, IGNORE, IGNORE, IGNORE, BACKGROUNDS.index(scene.background), IGNORE, IGNORE]
    tail = scene.background if scene.background in PLACES else f"{scene.background} background"
    names = [f"{t.colour} {t.name}" if t.colour else t.name for t in scene.things]
    offset = RELATIONS[scene.relation] if scene.relation else None
    relation = list(RELATIONS).index(scene.relation) + 1 if scene.relation else 0
    facts = [[0] + [IGNORE] * (len(WORDS) - 1) for _ in range(TEXT_TOKENS)]
    tokens = split_words(words)

    def mark(phrase: str, fact: list[int]) -> None:
        part = phrase.split()
        for i in range(len(tokens) - len(part) + 1):
            if tokens[i : i + len(part)] == part:
                facts[i : i + len(part)] = [fact] * len(part)
                return

    mark(tail, background)
    for order, (thing, name, sign) in enumerate(zip(scene.things, names, (1, -1), strict=False)):
        place = PLACE_OF[(offset[0] * sign, offset[1] * sign) if offset else None]
        colour = COLOURS.index(thing.colour) + 1 if thing.colour else 0
        mark(name, [1, OBJECTS.index(thing.name) + 1, colour, place, IGNORE, relation, order])
    return facts


Facts = tuple[list[int], list[list[int]]]
"""The classes of one caption: of the pooled vector, and of each word."""
NOTHING: Facts = ([IGNORE] * len(POOLED), [[IGNORE] * len(WORDS)] * TEXT_TOKENS)
"""Facts of the empty prompt: none are asked."""


def facts(scene: Scene, words: str) -> Facts:
    """All facts of a caption of a scene."""
    return pooled_facts(scene), word_facts(scene, words)


class Reader(nn.Module):
    """The linear heads, and their loss."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.pooled = nn.ModuleList(nn.Linear(width, classes) for classes in POOLED.values())
        self.words = nn.ModuleList(nn.Linear(width, classes) for classes in WORDS.values())

    def forward(self, encoded: tuple[Tensor, Tensor], asked: Sequence[Facts]) -> Tensor:
        """Sum of the heads' cross entropies, for (T5's states [B, 16, width], pooled [B, width]) and B facts."""
        states, pooled = encoded
        whole, each = torch.tensor([f[0] for f in asked]), torch.tensor([f[1] for f in asked])
        loss = pooled.new_zeros(())
        for i, head in enumerate(self.pooled):
            loss = loss + cross_entropy(head(pooled), whole[:, i])
        for i, head in enumerate(self.words):
            loss = loss + cross_entropy(head(states).flatten(0, 1), each[..., i].flatten(), ignore_index=IGNORE)
        return loss

    def accuracy(self, encoded: tuple[Tensor, Tensor], asked: Sequence[Facts]) -> dict[str, float]:
        """Share of right answers of each of T5's heads."""
        each = torch.tensor([f[1] for f in asked])
        shares = {}
        for i, (name, head) in enumerate(zip(WORDS, self.words, strict=True)):
            known = each[..., i] != IGNORE
            shares[name] = round(float((head(encoded[0]).argmax(-1) == each[..., i])[known].float().mean()), 3)
        return shares
