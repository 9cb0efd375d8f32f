"""Draw a scene: Fluent 3-D emoji (MIT, Microsoft Corporation) on a procedural background.

``sprites()`` reads the two npm packages named in the README of this folder; nothing of them is shipped.
"""

import colorsys
import functools
import json
import os
import random
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from .world import COLOURABLE, COLOURS, HUES, NATURAL, OBJECTS, PLACES, PLAIN, RELATIONS, SIZES, Scene, Thing

SIZE = 128
"""Side of a picture in pixels."""
SPRITE = 192
"""Longer side of a stored sprite in pixels."""
PAIR_SIZE, PAIR_DISTANCE = 57, 31
"""Height of each of two objects, and how far each stands from the middle, in pixels."""

SKY = {
    "in a meadow": ((130, 190, 245), (205, 232, 252)), "at night": ((16, 20, 58), (50, 52, 110)),
    "on the beach": ((120, 200, 248), (200, 236, 250)), "in the snow": ((188, 212, 236), (232, 240, 250)),
    "in the desert": ((250, 206, 140), (252, 232, 190)),
}  # fmt: skip
GROUND = {
    "in a meadow": ((120, 190, 80), (78, 150, 60)), "at night": ((38, 48, 70), (24, 32, 50)),
    "on the beach": ((244, 222, 166), (226, 196, 130)), "in the snow": ((250, 252, 255), (222, 232, 244)),
    "in the desert": ((232, 176, 104), (206, 142, 76)),
}  # fmt: skip
HILLS = {"in a meadow": 5, "at night": 3, "on the beach": 0, "in the snow": 6, "in the desert": 5}
"""Height of the waves of the horizon in pixels."""


def recolour(sprite: Image.Image, colour: str) -> Image.Image:
    """Move the dominant hue of an RGBA sprite to ``colour`` and its luminance to what reads as that colour."""
    target, luminance = HUES[colour]
    pixels = np.asarray(sprite).astype(np.float32) / 255
    rgb, alpha = pixels[..., :3], pixels[..., 3]
    high, chroma = rgb.max(-1), rgb.max(-1) - rgb.min(-1)
    hue = np.array([colorsys.rgb_to_hsv(*p)[0] for p in rgb.reshape(-1, 3)], np.float32).reshape(high.shape)
    weight = (chroma > 0.18) * alpha * chroma
    dominant = np.angle((weight * np.exp(2j * np.pi * hue)).sum()) / (2 * np.pi)
    offset = (hue - dominant + 0.5) % 1 - 0.5
    near = np.clip((0.16 - np.abs(offset)) / 0.04, 0, 1) * np.clip((chroma - 0.08) / 0.1, 0, 1)

    new_hue = (target + offset * 0.5) % 1
    saturation = np.clip(chroma / np.maximum(high, 1e-4), 0, 1) * 0.5 + 0.45
    channel = (np.array([5, 3, 1]) + new_hue[..., None] * 6) % 6
    painted = high[..., None] * (1 - saturation[..., None] * np.clip(np.minimum(channel, 4 - channel), 0, 1))
    grey = (painted * [0.299, 0.587, 0.114]).sum(-1)
    mean = (grey * near * alpha).sum() / max(float((near * alpha).sum()), 1e-3)
    painted = np.clip(painted * min(luminance / max(mean, 1e-3), 1.6), 0, 1)
    if colour == "pink":
        painted = painted + (1 - painted) * 0.25
    out = rgb * (1 - near[..., None]) + painted * near[..., None]
    return Image.fromarray((np.concatenate([out, alpha[..., None]], -1).clip(0, 1) * 255).astype(np.uint8), "RGBA")


def _emoji_file(folder: Path, name: str) -> Path:
    """The sprite of a Unicode emoji name: its code points, joined by dashes, are the file's name."""
    table = json.loads((folder / "unicode-emoji-json/package/data-by-emoji.json").read_text("utf-8"))
    emoji = next(e for e, facts in table.items() if facts["name"] == name)
    points = [f"{ord(c):04x}" for c in emoji]
    for parts in (points, [p for p in points if p != "fe0f"], [*points, "fe0f"]):
        path = folder / "lobehub-fluent-emoji-3d/package/assets" / ("-".join(parts) + ".webp")
        if path.is_file():
            return path
    raise FileNotFoundError(f"no sprite for the emoji {name!r} under {folder}")


@functools.cache
def sprites() -> dict[Thing, Image.Image]:
    """Every object in its natural and its seven painted colours, RGBA, longer side 192 pixels."""
    folder = Path(os.environ["PIPEGRAPH_EMOJI"])
    bank: dict[Thing, Image.Image] = {}
    for name in OBJECTS:
        image = Image.open(_emoji_file(folder, COLOURABLE.get(name) or NATURAL[name])).convert("RGBA")
        image = image.crop(image.getchannel("A").point(lambda v: 255 * (v > 24)).getbbox())
        scale = SPRITE / max(image.size)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        bank[Thing(name)] = image = image.resize(size, Image.Resampling.LANCZOS)
        if name in COLOURABLE:
            bank |= {Thing(name, colour): recolour(image, colour) for colour in COLOURS}
    return bank


def draw_background(kind: str, rng: random.Random) -> Image.Image:
    """A plain colour with a soft gradient, or a place with sky, horizon and ground."""
    y, x = np.mgrid[:SIZE, :SIZE].astype(np.float32)
    if kind in PLAIN:
        flat = (np.array(PLAIN[kind], np.float32) + rng.uniform(-6, 6)) * np.linspace(1.03, 0.95, SIZE)[:, None, None]
        return Image.fromarray(np.broadcast_to(flat, (SIZE, SIZE, 3)).clip(0, 255).astype(np.uint8))
    horizon = rng.uniform(0.55, 0.68) * SIZE
    line = horizon + HILLS[kind] * np.sin(x / SIZE * 2 * np.pi * rng.uniform(0.5, 1.3) + rng.uniform(0, 6.28))

    def blend(colours: tuple[tuple[int, ...], ...], amount: np.ndarray) -> np.ndarray:
        top, bottom = (np.array(c, np.float32) for c in colours)
        return top + (bottom - top) * np.clip(amount, 0, 1)[..., None]

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
    shift = 3.0 if scene.relation else {None: 8.0, "small": 24.0, "big": 3.0}[scene.size]
    grow = 4.0 if scene.relation else 6.0
    for thing, cx, cy, height in slots(scene):
        dx, dy = rng.uniform(-shift, shift), rng.uniform(-shift, shift) * (1.0 if scene.relation else 0.7)
        put(image, thing, cx + dx, cy + dy, height + rng.uniform(-grow, grow))
    return image


__all__ = ["PLACES", "SIZE", "draw", "draw_background", "put", "slots", "sprites"]
