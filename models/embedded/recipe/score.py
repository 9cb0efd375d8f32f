"""Does a picture show what its scene says? A scorer without any trained model.

    python -m pipegraph.models.embedded.recipe.score        (scores real renders, and the same with shuffled scenes)

Analysis by synthesis: where the scene asks for an object, every object in every colour is drawn on the asked
background, and the one nearest to the picture (squared distance of half-size RGB, best of small shifts) is what the
picture shows there. A right object in the wrong place counts as wrong. The background is the nearest of all
backgrounds on the border of the picture.
"""

import functools
import json
import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .render import SIZE, draw, draw_background, put, slots
from .sprites import sprites
from .world import BACKGROUNDS, Scene, Thing, sample_scene

Pixels = NDArray[np.float32]
PAD = 32
"""Pixels by which pictures are continued at their edges, so that windows may overhang."""
REACH = {None: 8, "small": 22, "big": 4}
"""How far from its place a lone object of each size is looked for, in pixels; 4 for one of two."""
STRIDE = 2


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is right, for each thing of the scene in order; ``colours`` is None where none was asked."""

    objects: tuple[bool, ...]
    colours: tuple[bool | None, ...]
    background: bool

    @property
    def exact(self) -> bool:
        return all(self.objects) and False not in self.colours and self.background


@functools.cache
def ideal(background: str) -> Pixels:
    """The mean of twelve drawings of a background, [128, 128, 3] in 0..255."""
    drawings = [np.asarray(draw_background(background, random.Random(i)), np.float32) for i in range(12)]
    return np.asarray(np.mean(drawings, axis=0), np.float32)


def _pad(picture: Pixels) -> Pixels:
    return np.pad(picture, ((PAD, PAD), (PAD, PAD), (0, 0)), mode="edge")


def _halve(pictures: Pixels) -> Pixels:
    """Mean of 2 x 2 pixels: [..., H, W, C] -> [..., H/2, W/2, C]."""
    *n, h, w, c = pictures.shape
    halves: Pixels = pictures.reshape(*n, h // 2, 2, w // 2, 2, c).mean((-4, -2), dtype=np.float32)
    return halves


@functools.cache
def _cut_outs(cx: float, cy: float, height: float) -> tuple[list[Thing], Pixels, Pixels]:
    """All things drawn at one place: premultiplied colour and opacity, [things, 192, 192, 3], from two drawings."""
    drawn = []
    for level in (0, 255):
        pictures = []
        for thing in sprites():
            image = Image.new("RGB", (SIZE, SIZE), (level,) * 3)
            put(image, thing, cx, cy, height)
            pictures.append(np.pad(np.asarray(image, np.float32), ((PAD, PAD), (PAD, PAD), (0, 0)), mode="edge"))
        drawn.append(np.stack(pictures))
    return list(sprites()), drawn[0], 1 - (drawn[1] - drawn[0]) / np.float32(255)


def _distances(picture: Pixels, background: str, place: tuple[float, float, float], reach: int) -> dict[Thing, float]:
    """Squared distance of the picture from each thing drawn at ``place`` (cx, cy, height), best of all shifts."""
    things, colour, opacity = _cut_outs(*place)
    x, y, half = round(place[0]) + PAD, round(place[1]) + PAD, int(place[2] * 0.31) * 2
    window = slice(y - half, y + half), slice(x - half, x + half)
    candidates = colour[:, *window] + (1 - opacity[:, *window]) * _pad(ideal(background))[window]
    candidates = _halve(candidates).reshape(len(things), -1)

    padded, limit, cuts = _pad(picture), SIZE + 2 * PAD, []
    shifts = range(-reach, reach + 1, STRIDE)
    for top in (y - half + d for d in shifts):
        for left in (x - half + d for d in shifts):
            if min(top, left) >= 0 and max(top, left) + 2 * half <= limit:
                cuts.append(padded[top : top + 2 * half, left : left + 2 * half])
    seen = _halve(np.stack(cuts)).reshape(len(cuts), -1)
    squares = (candidates**2).sum(1)[:, None] + (seen**2).sum(1) - 2 * candidates @ seen.T
    return dict(zip(things, squares.min(1).tolist(), strict=True))


@functools.cache
def _border() -> NDArray[np.bool_]:
    mask = np.zeros((SIZE, SIZE), bool)
    mask[:3] = mask[:, :2] = mask[:, -2:] = True
    return mask


def score(picture: Pixels, scene: Scene) -> Verdict:
    """Judge one picture, [128, 128, 3] in 0..255, by its scene."""
    reach = 4 if scene.relation else REACH[scene.size]
    objects, colours = [], []
    for wanted, *place in slots(scene):
        distance = _distances(picture, scene.background, (place[0], place[1], place[2]), reach)
        objects.append(min(distance, key=distance.__getitem__).name == wanted.name)
        painted = {thing: d for thing, d in distance.items() if thing.name == wanted.name and thing.colour}
        colours.append(min(painted, key=painted.__getitem__) == wanted if wanted.colour else None)
    border = {k: float(np.median(np.abs(picture - ideal(k))[_border()].sum(-1))) for k in BACKGROUNDS}
    return Verdict(tuple(objects), tuple(colours), min(border, key=border.__getitem__) == scene.background)


def wilson(hits: int, count: int) -> float:
    """Lower end of the 95 % interval of a share (Wilson 1927)."""
    if not count:
        return 0.0
    z, p = 1.96, hits / count
    centre, spread = p + z * z / (2 * count), z * math.sqrt(p * (1 - p) / count + z * z / (4 * count * count))
    return (centre - spread) / (1 + z * z / count)


def table(verdicts: Sequence[Verdict]) -> dict[str, dict[str, float]]:
    """Share, lower end of its 95 % interval and count, for each thing judged."""

    def row(answers: Iterable[bool | None]) -> dict[str, float]:
        asked = [a for a in answers if a is not None]
        share = sum(asked) / len(asked) if asked else 0.0
        return {"share": round(share, 3), "low": round(wilson(sum(asked), len(asked)), 3), "of": len(asked)}

    return {
        "object": row(a for v in verdicts for a in v.objects),
        "colour": row(a for v in verdicts for a in v.colours),
        "background": row(v.background for v in verdicts),
        "exact": row(v.exact for v in verdicts),
    }


def check(count: int = 200, seed: int = 1) -> dict[str, dict[str, dict[str, float]]]:
    """The scorer's own score: real renders (should be near 1) and the same pictures with shuffled scenes (near 0)."""
    rng = random.Random(seed)
    scenes = [sample_scene(rng) for _ in range(count)]
    pictures = [np.asarray(draw(scene, rng), np.float32) for scene in scenes]
    shuffled = scenes[1:] + scenes[:1]
    return {
        "real": table([score(p, s) for p, s in zip(pictures, scenes, strict=True)]),
        "shuffled": table([score(p, s) for p, s in zip(pictures, shuffled, strict=True)]),
    }


if __name__ == "__main__":
    print(json.dumps(check(), indent=1))
