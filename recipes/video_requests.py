"""Requests in everyday words for clips: as ``requests.py``, with a word for where the object goes.

What tells a request for a clip from one for a picture is that something moves in it ("a pet that drifts to the left
under water"); the prompt writer answers with a caption of the video model's world ("a fish moving left in the sea").
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from .requests import BEHIND, HINTS, NAMES, PAINT, WHERE, Wish, dress, noun, one_of, read_thing
from .video_world import BACKGROUNDS, MOTIONS, OBJECTS, PLACES, WORDS, Moving, caption
from .world import COLOURABLE, COLOURS, Thing

CLIP_HINTS = {said: fit for said, found in HINTS.items() if (fit := frozenset(found.split()) & set(OBJECTS))}
"""A description -> the objects of the video world that fit it."""
GOING = {
    "left": "moving left|going left|moving to the left|that drifts to the left|on its way left|heading left",
    "right": "moving right|going right|moving to the right|that drifts to the right|on its way right|heading right",
    "up": "rising|moving up|going up|that flies upwards|on its way up|that takes off",
    "down": "falling|moving down|going down|that sinks|on its way down|that drops",
}
CLIP_WHERE = {
    **{place: words for place, words in WHERE.items() if place in PLACES},
    "in the sea": "in the sea|under water|in the ocean|below the waves|deep down in the sea",
}


@dataclass(frozen=True, slots=True)
class ClipWish(Wish):
    """What an answer must show: a :class:`Wish`, and a direction."""

    motion: str = "left"

    @property
    def key(self) -> str:
        return "|".join([*sorted(self.objects), str(self.colour), str(self.background), self.motion])


def request(rng: random.Random, *, held_out: bool = False) -> tuple[str, ClipWish]:
    """Draw a request for a clip and what it wishes."""
    while True:
        if rng.random() < 0.45:
            objects, named = frozenset([rng.choice(OBJECTS)]), True
            what = one_of(NAMES.get(*objects) or next(iter(objects)), rng)
        else:
            what, named = rng.choice(list(CLIP_HINTS)), False
            objects = CLIP_HINTS[what]
        colour = rng.choice(COLOURS) if objects & set(COLOURABLE) and rng.random() < 0.6 else None
        background = rng.choice(BACKGROUNDS) if rng.random() < 0.65 else None
        wish = ClipWish(objects, colour, background, motion=rng.choice(list(MOTIONS)))
        if wish.held_out == held_out and not _hidden(colour, background):
            return dress(_words(wish, what, named, rng), rng), wish


def _words(wish: ClipWish, what: str, named: bool, rng: random.Random) -> str:
    paint = one_of(PAINT[wish.colour], rng) if wish.colour else None
    words = f"{noun(what, paint, None, named)} {one_of(GOING[wish.motion], rng)}"
    if wish.background is None:
        return words
    known = CLIP_WHERE.get(wish.background)
    where = one_of(known, rng) if known else rng.choice(BEHIND).format(wish.background)
    return f"{where}, {words}" if rng.random() < 0.12 else f"{words} {where}"


def _hidden(colour: str | None, background: str | None) -> bool:
    return colour is not None and (colour == background or (colour == "blue" and background == "in the sea"))


def answer(wish: ClipWish, rng: random.Random) -> str:
    """A caption that fulfils a wish: what it leaves free is drawn."""
    while True:
        name = rng.choice(sorted(wish.objects & set(COLOURABLE) if wish.colour else wish.objects))
        colour = wish.colour or (rng.choice(COLOURS) if name in COLOURABLE and rng.random() < 0.5 else None)
        scene = Moving(Thing(name, colour), wish.motion, wish.background or rng.choice(BACKGROUNDS))
        if not _hidden(colour, scene.background):
            return caption(scene, rng)


def read(prompt: str) -> Moving | None:
    """The scene of a caption, or None if it is none of this world: the inverse of ``video_world.caption``."""
    ways = {words: motion for motion, said in WORDS.items() for words in said}
    found = re.fullmatch(rf"(an? .+?) ({'|'.join(ways)}) (?:on an? (\w+) background|({'|'.join(PLACES)}))", prompt)
    if not found:
        return None
    thing, background = read_thing(found[1]), found[3] or found[4]
    if not thing or thing.name not in OBJECTS or background not in BACKGROUNDS or _hidden(thing.colour, background):
        return None
    return Moving(thing, ways[found[2]], background)


def fulfils(scene: Moving, wish: ClipWish) -> dict[str, bool | None]:
    """What of a wish a scene shows; None where the wish leaves it free."""
    return {
        "object": scene.thing.name in wish.objects,
        "colour": scene.thing.colour == wish.colour if wish.colour else None,
        "background": scene.background == wish.background if wish.background else None,
        "motion": scene.motion == wish.motion,
    }
