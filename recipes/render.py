"""Draw a scene: sprites on a procedural background."""

import random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

from .sprites import SPRITE, sprites
from .world import PLAIN, RELATIONS, SIZES, Scene, Thing

SIZE = 128
"""Side of a picture in pixels."""
PAIR_SIZE, PAIR_DISTANCE = 57, 31
"""Height of each of two objects, and how far each stands from the middle, in pixels."""

SKY = {
    "in a meadow": ((130, 190, 245), (205, 232, 252)),
    "at night": ((16, 20, 58), (50, 52, 110)),
    "on the beach": ((120, 200, 248), (200, 236, 250)),
    "in the snow": ((188, 212, 236), (232, 240, 250)),
    "in the desert": ((250, 206, 140), (252, 232, 190)),
}
GROUND = {
    "in a meadow": ((120, 190, 80), (78, 150, 60)),
    "at night": ((38, 48, 70), (24, 32, 50)),
    "on the beach": ((244, 222, 166), (226, 196, 130)),
    "in the snow": ((250, 252, 255), (222, 232, 244)),
    "in the desert": ((232, 176, 104), (206, 142, 76)),
}
HILLS = {"in a meadow": 5, "at night": 3, "on the beach": 0, "in the snow": 6, "in the desert": 5}
"""Height of the waves of the horizon in pixels."""


def draw_background(kind: str, rng: random.Random) -> Image.Image:
    """A plain colour with a soft gradient, or a place with sky, horizon and ground."""
    y, x = np.mgrid[:SIZE, :SIZE].astype(np.float32)
    if kind in PLAIN:
        flat = (np.array(PLAIN[kind], np.float32) + rng.uniform(-6, 6)) * np.linspace(1.03, 0.95, SIZE)[:, None, None]
        return Image.fromarray(np.broadcast_to(flat, (SIZE, SIZE, 3)).clip(0, 255).astype(np.uint8))
    horizon = rng.uniform(0.55, 0.68) * SIZE
    line = horizon + HILLS[kind] * np.sin(x / SIZE * 2 * np.pi * rng.uniform(0.5, 1.3) + rng.uniform(0, 6.28))

    def blend(colours: tuple[tuple[int, ...], ...], amount: NDArray[Any]) -> NDArray[Any]:
        top, bottom = (np.array(c, np.float32) for c in colours)
        return np.asarray(top + (bottom - top) * np.clip(amount, 0, 1)[..., None])

    below = np.clip(y - line, 0, 1)[..., None]
    ground = blend(GROUND[kind], (y - horizon) / (SIZE - horizon))
    picture = blend(SKY[kind], y / horizon) * (1 - below) + ground * below
    if kind == "on the beach":
        sea = (np.clip(y - (horizon - 12), 0, 1) * np.clip(horizon - y, 0, 1))[..., None]
        picture = picture * (1 - sea) + np.array([40, 140, 200], np.float32) * sea
    image = Image.fromarray(picture.clip(0, 255).astype(np.uint8))
    if kind == "at night":
        draw = ImageDraw.Draw(image)
        for _ in range(12):
            sx, sy, r = rng.uniform(2, SIZE - 3), rng.uniform(2, horizon - 10), rng.choice((0.6, 1, 1.3))
            draw.ellipse((sx - r, sy - r, sx + r, sy + r), fill=(250, 245, 200))
    return image


def put(image: Image.Image, thing: Thing, cx: float, cy: float, height: float) -> None:
    """Paste a sprite with its shadow, centred at (cx, cy), its longer side ``height`` pixels."""
    sprite = sprites()[thing]
    scale = height / SPRITE
    w, h = max(1, round(sprite.width * scale)), max(1, round(sprite.height * scale))
    sprite = sprite.resize((w, h), Image.Resampling.BILINEAR, reducing_gap=2.0)
    x, y = round(cx - w / 2), round(cy - h / 2)
    shadow = Image.new("L", (w, max(3, w // 7)), 0)
    ImageDraw.Draw(shadow).ellipse((w * 0.08, 0, w * 0.92, shadow.height - 1), fill=70)
    dark = Image.new("RGB", shadow.size, (20, 20, 30))
    image.paste(dark, (x, y + h - shadow.height // 2), shadow.filter(ImageFilter.GaussianBlur(2)))
    image.paste(sprite, (x, y), sprite)


def slots(scene: Scene) -> list[tuple[Thing, float, float, float]]:
    """Where each thing of a scene belongs without jitter: (thing, cx, cy, height) in pixels."""
    if scene.relation is None:
        return [(scene.things[0], SIZE / 2, SIZE * 0.52, SIZES[scene.size])]
    ax, ay = RELATIONS[scene.relation]
    return [
        (thing, SIZE / 2 + ax * sign * PAIR_DISTANCE, SIZE / 2 + ay * sign * PAIR_DISTANCE, PAIR_SIZE)
        for thing, sign in zip(scene.things, (1, -1), strict=True)
    ]


def draw(scene: Scene, rng: random.Random) -> Image.Image:
    """Render a scene, with small random shifts of place and size, as a 128 x 128 RGB picture."""
    image = draw_background(scene.background, rng)
    shift = 3.0 if scene.relation else {None: 8.0, "small": 8.0, "big": 3.0}[scene.size]
    grow = 4.0 if scene.relation else 6.0
    for thing, cx, cy, height in slots(scene):
        dx, dy = rng.uniform(-shift, shift), rng.uniform(-shift, shift) * (1.0 if scene.relation else 0.7)
        put(image, thing, cx + dx, cy + dy, height + rng.uniform(-grow, grow))
    return image
