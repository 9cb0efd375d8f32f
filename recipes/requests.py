"""Requests in everyday words for pictures of the shipped world: what the prompt writer is trained on and judged by.

A request says what it wants ("something red to eat, by the sea please"); the prompt writer answers with a caption of
the world ("a red apple on the beach"). Several answers may be right: a :class:`Wish` says which.
"""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass

from .world import BACKGROUNDS, COLOURABLE, COLOURS, OBJECTS, PLACES, RELATIONS, Scene, Thing, article, caption

HINTS: dict[str, str] = {
    "something to eat": "apple burger", "a snack": "apple burger", "a fruit": "apple", "something healthy": "apple",
    "a piece of fruit": "apple", "fast food": "burger", "my lunch": "burger", "something with cheese": "burger",
    "a vehicle": "car", "something to drive": "car", "something with wheels": "car", "a way to travel": "car",
    "something for a birthday party": "balloon", "something that floats in the air": "balloon",
    "a party toy": "balloon",
    "a symbol of love": "heart", "something romantic": "heart", "something for my valentine": "heart",
    "something from space": "star", "something that shines in the sky": "star", "a thing that twinkles": "star",
    "an animal": "fish cat panda penguin", "a pet": "cat fish", "something that swims": "fish penguin",
    "a creature with fins": "fish", "something from an aquarium": "fish", "something that purrs": "cat",
    "an animal that likes milk": "cat", "something that meows": "cat", "a bear": "panda",
    "an animal that eats bamboo": "panda", "a black and white bear": "panda", "a bird": "penguin",
    "a bird that cannot fly": "penguin", "something from the south pole": "penguin",
    "something to keep me dry": "umbrella", "something for a rainy day": "umbrella", "a thing against rain": "umbrella",
    "something that grows in the forest": "mushroom", "a fungus": "mushroom", "a toadstool": "mushroom",
    "something to wear": "dress", "clothes": "dress", "a piece of clothing": "dress", "something for a ball": "dress",
    "a musical instrument": "guitar", "something to play music on": "guitar", "something with strings": "guitar",
    "a building": "house", "a place to live": "house", "somewhere to sleep": "house", "a cottage": "house",
    "a plant": "cactus mushroom", "a prickly plant": "cactus", "something with thorns": "cactus",
    "a thing that grows without water": "cactus",
}  # fmt: skip
"""A description -> the objects that fit it."""
NAMES = {
    "cat": "cat|kitty|kitten",
    "car": "car|automobile",
    "house": "house|home",
    "burger": "burger|hamburger",
    "dress": "dress|gown",
}
PAINT = {
    "red": "red|crimson|scarlet|the colour of blood",
    "orange": "orange|the colour of a carrot",
    "yellow": "yellow|golden|the colour of a lemon",
    "green": "green|emerald|the colour of grass",
    "blue": "blue|azure|the colour of the sky",
    "purple": "purple|violet|the colour of a plum",
    "pink": "pink|rosy|the colour of a flamingo",
}
WHERE = {
    "in a meadow": "in a meadow|in the grass|on a field|in the countryside|outdoors in spring",
    "at night": "at night|in the dark|under the stars|after sunset|at midnight",
    "on the beach": "on the beach|at the seaside|by the sea|by the ocean|on holiday at the coast",
    "in the snow": "in the snow|in winter|where it is freezing|at the north pole|on a cold day",
    "in the desert": "in the desert|where it is hot and dry|among the dunes|on the sand under a hot sun",
}
BEHIND = ("on a {} background", "with a {} background", "in front of a {} wall", "with {} behind it", "on {}")
SIZED = {"small": "small|tiny|little", "big": "big|large|huge"}
OPENINGS = (
    "",
    "",
    "",
    "",
    "please draw ",
    "draw me ",
    "draw ",
    "i want ",
    "i would like ",
    "show me ",
    "paint ",
    "can you make ",
    "make a picture of ",
    "i'd love to see ",
    "a picture of ",
    "could you draw ",
    "give me ",
    "an image of ",
)
CLOSINGS = ("", "", "", "", ".", "!", " please", ", please", " thanks", "?")


@dataclass(frozen=True, slots=True)
class Wish:
    """What an answer must show; None is free."""

    objects: frozenset[str]
    colour: str | None = None
    background: str | None = None
    size: str | None = None
    scene: Scene | None = None
    """A request that names two objects in a relation wants just this."""

    @property
    def key(self) -> str:
        return "|".join([*sorted(self.objects), str(self.colour), str(self.background), str(self.scene)])

    @property
    def held_out(self) -> bool:
        """One combination of object, colour and background in eight is kept out of training."""
        return int(hashlib.md5(self.key.encode(), usedforsecurity=False).hexdigest(), 16) % 8 == 0


def request(rng: random.Random, *, held_out: bool = False) -> tuple[str, Wish]:
    """Draw a request and what it wishes."""
    while True:
        wording, wish = _pair(rng) if rng.random() < 0.12 else _single(rng)
        if wish.held_out == held_out and wish.colour != wish.background:
            return dress(wording, rng), wish


def answer(wish: Wish, rng: random.Random) -> str:
    """A caption that fulfils a wish: what it leaves free is drawn."""
    if wish.scene:
        return caption(wish.scene, _Straight(rng.random()))
    while True:
        name = rng.choice(sorted(wish.objects & set(COLOURABLE) if wish.colour else wish.objects))
        colour = wish.colour or (rng.choice(COLOURS) if name in COLOURABLE and rng.random() < 0.5 else None)
        scene = Scene((Thing(name, colour),), wish.background or rng.choice(BACKGROUNDS), size=wish.size)
        if colour != scene.background:
            return caption(scene, _Straight(rng.random()))


class _Straight(random.Random):
    """Never puts the background first."""

    def random(self) -> float:
        return 1.0


def read(prompt: str) -> Scene | None:
    """The scene of a caption, or None if it is none of this world: the inverse of ``world.caption``."""
    ends = [p for p in PLACES if prompt.endswith(f" {p}")]
    plain = re.fullmatch(r"(.+) on an? (\w+) background", prompt)
    if ends:
        head, background = prompt.removesuffix(f" {ends[0]}"), ends[0]
    elif plain and plain[2] in BACKGROUNDS:
        head, background = plain[1], plain[2]
    else:
        return None
    for relation in RELATIONS:
        first, found, second = head.partition(f" {relation} ")
        if found:
            things = read_thing(first), read_thing(second)
            return None if None in things else _real(Scene(things, background, relation))  # type: ignore[arg-type]
    size = next((s for s in SIZED if re.match(rf"an? {s} ", head)), None)
    thing = read_thing(re.sub(r"^an? (small|big) ", "a ", head), strict=size is None)
    return _real(Scene((thing,), background, size=size)) if thing else None


def fulfils(scene: Scene, wish: Wish) -> dict[str, bool | None]:
    """What of a wish a scene shows; None where the wish leaves it free."""
    if wish.scene:
        return {
            "object": [t.name for t in scene.things] == [t.name for t in wish.scene.things],
            "colour": [t.colour for t in scene.things] == [t.colour for t in wish.scene.things],
            "background": scene.background == wish.scene.background,
            "size": scene.relation == wish.scene.relation,
        }
    one = len(scene.things) == 1
    return {
        "object": one and scene.things[0].name in wish.objects,
        "colour": scene.things[0].colour == wish.colour if wish.colour else None,
        "background": scene.background == wish.background if wish.background else None,
        "size": scene.size == wish.size if wish.size else None,
    }


def read_thing(words: str, strict: bool = True) -> Thing | None:
    found = re.fullmatch(r"(an?) (?:(\w+) )?(\w+)", words)
    if not found or found[3] not in OBJECTS or (found[2] and (found[2] not in COLOURS or found[3] not in COLOURABLE)):
        return None
    thing = Thing(found[3], found[2])
    named = f"{thing.colour} {thing.name}" if thing.colour else thing.name
    return thing if not strict or words == article(named) else None


def _real(scene: Scene) -> Scene | None:
    """None for a thing in the colour of its background, which nobody could see."""
    return None if any(t.colour == scene.background for t in scene.things) else scene


def one_of(text: str, rng: random.Random) -> str:
    return rng.choice(text.split("|"))


def _single(rng: random.Random) -> tuple[str, Wish]:
    """A request for one object, by its name or by a hint."""
    if rng.random() < 0.45:
        objects = frozenset([rng.choice(OBJECTS)])
        what = one_of(NAMES.get(*objects) or next(iter(objects)), rng)
        named = True
    else:
        what = rng.choice(list(HINTS))
        objects, named = frozenset(HINTS[what].split()), False
    colour = rng.choice(COLOURS) if objects & set(COLOURABLE) and rng.random() < 0.6 else None
    size = rng.choice(list(SIZED)) if rng.random() < 0.2 else None
    background = rng.choice(BACKGROUNDS) if rng.random() < 0.65 else None
    paint = one_of(PAINT[colour], rng) if colour else None
    words = noun(what, paint, one_of(SIZED[size], rng) if size else None, named)
    if background:
        where = one_of(WHERE[background], rng) if background in WHERE else rng.choice(BEHIND).format(background)
        words = f"{where}, {words}" if rng.random() < 0.12 else f"{words} {where}"
    return words, Wish(objects, colour, background, size)


def noun(what: str, paint: str | None, size: str | None, named: bool) -> str:
    """The object with its adjectives, where English wants them."""
    behind = f" in {paint}" if paint and paint.startswith("the colour") else ""
    front = " ".join(w for w in (size, None if behind else paint) if w)
    if named:
        return f"{article(f'{front} {what}'.strip())}{behind}"
    if what.startswith("something"):
        return f"{what.replace('something', f'something {front}'.rstrip(), 1)}{behind}"
    first, _, rest = what.partition(" ")
    if first in ("a", "an"):
        return f"{article(f'{front} {rest}'.strip())}{behind}"
    return f"{what}, {front}{behind}".rstrip(", ") if front else f"{what}{behind}"


def _pair(rng: random.Random) -> tuple[str, Wish]:
    """A request for two named objects in a relation."""
    names = rng.sample(OBJECTS, 2)
    things = [Thing(n, rng.choice(COLOURS) if n in COLOURABLE and rng.random() < 0.5 else None) for n in names]
    background = rng.choice([b for b in BACKGROUNDS if b not in {t.colour for t in things}])
    scene = Scene((things[0], things[1]), background, relation=rng.choice(list(RELATIONS)))
    said = [noun(one_of(NAMES.get(t.name, t.name), rng), t.colour, None, True) for t in things]
    where = one_of(WHERE[background], rng) if background in WHERE else rng.choice(BEHIND).format(background)
    return f"{said[0]} {scene.relation} {said[1]} {where}", Wish(frozenset(names), None, background, None, scene)


def dress(words: str, rng: random.Random) -> str:
    """Put a sentence around a request, as people write it."""
    text = f"{rng.choice(OPENINGS)}{words}{rng.choice(CLOSINGS)}"
    return text[0].upper() + text[1:] if rng.random() < 0.5 else text
