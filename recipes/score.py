"""Does a picture show what its scene says? A scorer without any trained model.

    python -m recipes.score        (scores real renders, and the same with shuffled scenes)

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
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from PIL import Image

from .render import SIZE, draw, draw_background, put, slots
from .sprites import sprites
from .world import BACKGROUNDS, Scene, Thing, sample_scene

Pixels = NDArray[np.float32]
PAD = 32
"""Pixels by which pictures are continued at their edges, so that windows may overhang."""
REACH = {None: 8, "small": 8, "big": 4}
"""How far from its place a lone object of each size is looked for, in pixels; 4 for one of two."""
STRIDE = 2
"""Shifts are whole pixels of the half-size picture."""


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
    rows = pictures[..., ::2, :, :] + pictures[..., 1::2, :, :]
    return np.asarray((rows[..., ::2, :] + rows[..., 1::2, :]) / 4, np.float32)


def _window(place: tuple[float, float, float]) -> tuple[int, int, int]:
    """Centre (x, y) of a place (cx, cy, height) in the padded picture, and half the side of the window around it."""
    return round(place[0]) + PAD, round(place[1]) + PAD, int(place[2] * 0.31) * 2


@functools.cache
def _cut_outs(place: tuple[float, float, float]) -> tuple[list[Thing], Pixels, Pixels]:
    """All things drawn at a place, from two drawings: premultiplied colour and opacity in the half-size window."""
    x, y, half = _window(place)
    drawn = []
    for level in (0, 255):
        pictures = []
        for thing in sprites():
            image = Image.new("RGB", (SIZE, SIZE), (level,) * 3)
            put(image, thing, *place)
            pictures.append(_pad(np.asarray(image, np.float32))[y - half : y + half, x - half : x + half])
        drawn.append(_halve(np.stack(pictures)))
    return list(sprites()), drawn[0], 1 - (drawn[1] - drawn[0]) / np.float32(255)


def _distances(picture: Pixels, background: str, place: tuple[float, float, float], reach: int) -> dict[Thing, float]:
    """Squared distance of the picture from each thing drawn at ``place``, best of all shifts up to ``reach``."""
    things, colour, opacity = _cut_outs(place)
    x, y, half = _window(place)
    behind = _halve(_pad(ideal(background))[y - half : y + half, x - half : x + half])
    candidates = (colour + (1 - opacity) * behind).reshape(len(things), -1)

    reach = min(reach, x - half, y - half, SIZE + 2 * PAD - half - max(x, y)) // STRIDE * STRIDE
    around = slice(y - half - reach, y + half + reach), slice(x - half - reach, x + half + reach)
    seen = sliding_window_view(_halve(_pad(picture)[around]), (half, half), axis=(0, 1))
    seen = np.moveaxis(seen, 2, -1).reshape(-1, candidates.shape[1])
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
    for wanted, x, y, height in slots(scene):
        distance = _distances(picture, scene.background, (x, y, height), reach)
        objects.append(min(distance, key=distance.__getitem__).name == wanted.name)
        painted = {thing: d for thing, d in distance.items() if thing.name == wanted.name and thing.colour}
        colours.append(min(painted, key=painted.__getitem__) == wanted if wanted.colour else None)
    mask = _border()
    border = {k: float(np.median(np.abs(picture[mask] - ideal(k)[mask]).sum(-1))) for k in BACKGROUNDS}
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
