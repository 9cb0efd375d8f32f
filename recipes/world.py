"""The world of the shipped models: objects, colours, backgrounds, captions, and the words that name them.

A scene is one object (three of four scenes) or two objects in a relation, on one of fifteen backgrounds.
Some object-colour pairs are held out of training on purpose, to measure whether the model combines words.
"""

import hashlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

# Word in a caption -> Unicode name of its emoji. The first group can be recoloured.
COLOURABLE = {
    "apple": "red apple",
    "car": "automobile",
    "balloon": "balloon",
    "heart": "red heart",
    "star": "star",
    "fish": "fish",
    "umbrella": "umbrella",
    "mushroom": "mushroom",
    "dress": "dress",
    "guitar": "guitar",
}
NATURAL = {
    "cat": "cat face",
    "panda": "panda",
    "penguin": "penguin",
    "burger": "hamburger",
    "house": "house",
    "cactus": "cactus",
}
OBJECTS = [*COLOURABLE, *NATURAL]

# Hue of each colour on the HSV circle (0..1) and the luminance (0..1) that reads as that colour.
HUES = {
    "red": (0.99, 0.42),
    "orange": (0.075, 0.62),
    "yellow": (0.145, 0.80),
    "green": (0.36, 0.55),
    "blue": (0.59, 0.50),
    "purple": (0.74, 0.42),
    "pink": (0.90, 0.66),
}
COLOURS = list(HUES)

PLAIN = {
    "white": (250, 250, 250),
    "gray": (170, 172, 178),
    "black": (28, 28, 32),
    "red": (226, 120, 118),
    "orange": (247, 190, 130),
    "yellow": (250, 232, 150),
    "green": (160, 214, 160),
    "blue": (150, 196, 240),
    "purple": (196, 170, 232),
    "pink": (250, 196, 216),
}
PLACES = ["in a meadow", "at night", "on the beach", "in the snow", "in the desert"]
BACKGROUNDS = [*PLAIN, *PLACES]
RELATIONS = {"left of": (-1, 0), "right of": (1, 0), "above": (0, -1), "below": (0, 1)}
SIZES = {None: 84, "small": 46, "big": 112}
"""Height of a lone object in pixels of a 128-pixel picture."""
SIZE_MIX = (None, None, None, "small", "big")
"""Sizes of lone objects as the measure draws them."""

FUNCTION_WORDS = "a an and at background below big above desert green in left meadow night of on right small snow the"
SYNONYMS = {
    "grey": "gray",
    "grass": "meadow",
    "field": "meadow",
    "seaside": "beach",
    "hamburger": "burger",
    "automobile": "car",
    "kitty": "cat",
    "kitten": "cat",
    "gown": "dress",
    "home": "house",
    "tiny": "small",
    "little": "small",
    "large": "big",
    "huge": "big",
    "violet": "purple",
    "under": "below",
    "over": "above",
}
"""Other words that mean a word of the world; the tokenizer rewrites them."""


@dataclass(frozen=True, slots=True)
class Thing:
    """One object; ``colour`` None leaves its natural colours."""

    name: str
    colour: str | None = None


@dataclass(frozen=True, slots=True)
class Scene:
    """What a caption says: one thing with a size, or two things in a relation."""

    things: tuple[Thing, ...]
    background: str
    relation: str | None = None
    size: str | None = None


def _hash(*parts: str) -> int:
    return int(hashlib.md5("|".join(parts).encode(), usedforsecurity=False).hexdigest(), 16)


HELD_OUT = frozenset(Thing(name, COLOURS[_hash("oc", name) % len(COLOURS)]) for name in COLOURABLE)
"""Object-colour pairs that training never sees: one colour for each object that can be recoloured."""


def is_held_out(scene: Scene) -> bool:
    """True if the scene shows a held-out object-colour pair or a held-out pair of objects (one in ten)."""
    pair = len(scene.things) == 2 and _hash("pair", *sorted(t.name for t in scene.things)) % 10 == 0
    return pair or any(t in HELD_OUT for t in scene.things)


def sample_scene(
    rng: random.Random, *, two: float = 0.25, sizes: Sequence[str | None] = SIZE_MIX, held_out: bool = False
) -> Scene:
    """Draw a scene; ``two`` is the share of two-object scenes, ``sizes`` those of lone ones, ``held_out`` the split."""

    def thing() -> Thing:
        name = rng.choice(OBJECTS)
        return Thing(name, rng.choice(COLOURS) if name in COLOURABLE and rng.random() < 0.75 else None)

    while True:
        background = rng.choice(list(PLAIN)) if rng.random() < 0.65 else rng.choice(PLACES)
        first, second = thing(), thing()
        if rng.random() < two:
            if first.name == second.name:
                continue
            scene = Scene((first, second), background, relation=rng.choice(list(RELATIONS)))
        else:
            scene = Scene((first,), background, size=rng.choice(sizes))
        if any(t.colour == background for t in scene.things):
            continue  # red on red shows nothing
        if is_held_out(scene) == held_out:
            return scene


def article(words: str) -> str:
    """``words`` with "a" or "an" before it."""
    return f"an {words}" if words[0] in "aeiou" else f"a {words}"


def caption(scene: Scene, rng: random.Random) -> str:
    """The sentence of a scene, e.g. ``a red apple left of a cat on a blue background``."""
    names = [f"{t.colour} {t.name}" if t.colour else t.name for t in scene.things]
    if scene.relation:
        head = f"{article(names[0])} {scene.relation} {article(names[1])}"
    else:
        head = article(f"{scene.size} {names[0]}" if scene.size else names[0])
    tail = scene.background if scene.background in PLACES else f"on {article(scene.background)} background"
    return f"{tail}, {head}" if rng.random() < 0.06 else f"{head} {tail}"


SPECIAL_TOKENS = ["<pad>", "</s>", "<unk>", "<|startoftext|>", "<|endoftext|>"]


def vocabulary() -> list[str]:
    """Every token of the shipped tokenizers, special ones first; the index is the id."""
    words = {*FUNCTION_WORDS.split(), ",", *OBJECTS, *COLOURS, *PLAIN}
    words |= {w for place in PLACES for w in place.split()}
    return [*SPECIAL_TOKENS, *sorted(words)]


def split_words(text: str) -> list[str]:
    """Lower-case words and commas of a prompt, synonyms rewritten: what the tokenizers see."""
    return [SYNONYMS.get(w, w) for w in re.findall(r"[a-z\-]+|,", text.lower())]
