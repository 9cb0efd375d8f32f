"""Moving scenes: one object of the shipped world, a colour, a direction, a place; their sentences and their frames.

python -m recipes.video_world clips.png     (a contact sheet: a row a clip)
"""

import functools
import random
import re
import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from .render import SIZE as DRAWN
from .render import draw_background, put
from .sprites import SPRITE, sprites
from .world import COLOURABLE, COLOURS, HELD_OUT, SPECIAL_TOKENS, Thing, article

SIZE = 64
"""Side of a frame in pixels."""
FRAMES = 13
"""4n + 1."""
FPS = 8
OBJECTS = ["fish", "car", "balloon", "star", "heart", "apple", "cat", "penguin"]
PLAIN = ["white", "yellow", "blue", "pink"]
PLACES = ["in a meadow", "at night", "on the beach", "in the sea"]
BACKGROUNDS = [*PLAIN, *PLACES]
MOTIONS = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}
WORDS = {
    "left": ["moving left"],
    "right": ["moving right"],
    "up": ["rising", "moving up"],
    "down": ["falling", "moving down"],
}
SYNONYMS = {
    "grass": "meadow",
    "field": "meadow",
    "seaside": "beach",
    "automobile": "car",
    "kitty": "cat",
    "ocean": "sea",
    "water": "sea",
    "underwater": "sea",
    "going": "moving",
    "flying": "moving",
    "swimming": "moving",
    "driving": "moving",
    "walking": "moving",
    "upwards": "up",
    "downwards": "down",
    "sinking": "falling",
}
TOKENS = 16
"""Length of every prompt in tokens."""
HEIGHT, GROW = 28, 4
"""Longer side of the object in pixels, and how much it varies."""
WAY, STRETCH = 26, 6
"""How far it moves from the first frame to the last in pixels, and how much that varies."""
BEGUN_HEIGHT = 20, 46
"""Longer side of the object in clips that begin with a given picture."""
JITTER = 3.0
"""How far the middle of its way is from the middle of the frame, at most, in pixels."""

Clip = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Moving:
    """What a caption says."""

    thing: Thing
    motion: str
    background: str


@dataclass(frozen=True, slots=True)
class Way:
    """How a scene is drawn this time: height of the object, and its middle in the first and the last frame."""

    height: float
    start: tuple[float, float]
    end: tuple[float, float]

    @classmethod
    def of(cls, motion: str, rng: random.Random, *, plain: bool = False) -> "Way":
        """Drawn by chance, or just in the middle (``plain``)."""

        def by(limit: float) -> float:
            return 0.0 if plain else rng.uniform(-limit, limit)

        dx, dy = MOTIONS[motion]
        x, y, half = SIZE / 2 + by(JITTER), SIZE / 2 + by(JITTER), (WAY + by(STRETCH)) / 2
        return cls(HEIGHT + by(GROW), (x - dx * half, y - dy * half), (x + dx * half, y + dy * half))

    def place(self, frame: int, frames: int = FRAMES) -> tuple[float, float]:
        """Its middle in a frame."""
        t = frame / max(1, frames - 1)
        return tuple(a + (b - a) * t for a, b in zip(self.start, self.end, strict=True))  # type: ignore[return-value]


def sample(rng: random.Random, *, held_out: bool = False) -> Moving:
    """Draw a scene; ``held_out``: its object and colour are kept out of training."""
    while True:
        name = rng.choice(OBJECTS)
        colour = rng.choice(COLOURS) if name in COLOURABLE and rng.random() < 0.75 else None
        scene = Moving(Thing(name, colour), rng.choice(list(MOTIONS)), rng.choice(BACKGROUNDS))
        hidden = colour == scene.background or (colour == "blue" and scene.background == "in the sea")
        if not hidden and (scene.thing in HELD_OUT) == held_out:
            return scene


def phrases(scene: Moving, rng: random.Random) -> list[str]:
    """The three parts of a scene's sentence: the object, where it goes, on which background."""
    name = f"{scene.thing.colour} {scene.thing.name}" if scene.thing.colour else scene.thing.name
    tail = scene.background if scene.background in PLACES else f"on {article(scene.background)} background"
    return [article(name), rng.choice(WORDS[scene.motion]), tail]


def caption(scene: Moving, rng: random.Random) -> str:
    """The sentence of a scene, e.g. ``a yellow fish moving left in the sea``."""
    return " ".join(phrases(scene, rng))


def vocabulary() -> list[str]:
    """Every token, special ones first; the index is the id."""
    words = set("a an and on background in at the moving rising falling left right up down".split())
    words |= {*OBJECTS, *COLOURS, *PLAIN} | {w for place in PLACES for w in place.split()}
    return [*SPECIAL_TOKENS[:3], *sorted(words)]


TOKEN_ID = {word: i for i, word in enumerate(vocabulary())}


def ids(prompt: str) -> tuple[list[int], int]:
    """Ids of the words, ``</s>`` and padding, and how many come before the padding."""
    words = [SYNONYMS.get(w, w) for w in re.findall(r"[a-z\-]+", prompt.lower())]
    known = [TOKEN_ID.get(w, TOKEN_ID["<unk>"]) for w in words]
    found = [*known[: TOKENS - 1], TOKEN_ID["</s>"]]
    return found + [TOKEN_ID["<pad>"]] * (TOKENS - len(found)), len(found)


def background(kind: str, rng: random.Random) -> Image.Image:
    """A background of twice the frame's size; the sea is drawn here, the others by ``render``."""
    if kind != "in the sea":
        return draw_background(kind, rng)
    y, x = np.mgrid[:DRAWN, :DRAWN].astype(np.float32) / DRAWN
    top, bottom = np.array([86, 190, 226], np.float32), np.array([14, 74, 138], np.float32)
    light = 12 * np.sin((x + 0.4 * y) * rng.uniform(9, 12) + rng.uniform(0, 6.28)) * (1 - y)
    picture = top + (bottom - top) * y[..., None] + light[..., None]
    return Image.fromarray(picture.clip(0, 255).astype(np.uint8))


def sprite(thing: Thing, motion: str, height: float) -> Image.Image:
    """The object, RGBA, longer side ``height`` pixels of a frame of twice the size; looking to where it moves."""
    found = sprites()[thing]
    scale = 2 * height / SPRITE
    size = max(1, round(found.width * scale)), max(1, round(found.height * scale))
    found = found.resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0)
    return ImageOps.mirror(found) if motion == "right" else found


def frame(behind: Image.Image, thing: Image.Image, place: tuple[float, float]) -> Clip:
    """One frame, uint8 [64, 64, 3]: drawn at twice the size, so that half pixels are seen."""
    picture = behind.copy()
    picture.paste(thing, (round(2 * place[0] - thing.width / 2), round(2 * place[1] - thing.height / 2)), thing)
    return np.asarray(picture.reduce(2))


def draw_begun(scene: Moving, rng: random.Random) -> Clip:
    """Render a scene that begins as a picture of ``render.py`` (object in the middle, of any size) and moves on."""
    dx, dy = MOTIONS[scene.motion]
    x, y, far = (
        SIZE / 2 + rng.uniform(-2, 2),
        0.52 * SIZE + rng.uniform(-2, 2),
        (WAY + rng.uniform(-STRETCH, STRETCH)) / 2,
    )
    way = Way(rng.uniform(*BEGUN_HEIGHT), (x, y), (x + dx * far, y + dy * far))
    behind, frames = background(scene.background, rng), []
    for i in range(FRAMES):
        picture, place = behind.copy(), way.place(i)
        put(picture, scene.thing, 2 * place[0], 2 * place[1], 2 * way.height)
        frames.append(np.asarray(picture.reduce(2)))
    return np.stack(frames)


def draw(scene: Moving, rng: random.Random, way: Way | None = None, frames: int = FRAMES) -> Clip:
    """Render a scene, uint8 [frames, 64, 64, 3]."""
    way = way or Way.of(scene.motion, rng)
    behind, thing = background(scene.background, rng), sprite(scene.thing, scene.motion, way.height)
    return np.stack([frame(behind, thing, way.place(i, frames)) for i in range(frames)])


@functools.cache
def ideal(kind: str) -> NDArray[np.float32]:
    """The mean of twelve drawings of a background, [64, 64, 3] in 0..255."""
    found = [np.asarray(background(kind, random.Random(i)).reduce(2), np.float32) for i in range(12)]
    return np.asarray(np.mean(found, axis=0), np.float32)


if __name__ == "__main__":
    chance = random.Random(0)
    rows = [np.concatenate(list(draw(sample(chance), chance)[::3]), 1) for _ in range(12)]
    Image.fromarray(np.concatenate(rows)).save(sys.argv[1])
