"""The sixteen objects as pictures, and their painted versions: Fluent Emoji 3-D (MIT, Microsoft Corporation).

    python -m recipes.sprites FOLDER

makes ``sprites.webp`` again from two npm packages unpacked in FOLDER (see README.md); it is only needed to change the
objects.
"""

import argparse
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from .world import COLOURABLE, COLOURS, HUES, NATURAL, OBJECTS, Thing

SHEET = Path(__file__).with_name("sprites.webp")
SPRITE = 192
"""Longer side of a sprite in pixels."""
COLUMNS = 4


def hue_of(rgb: NDArray[Any]) -> NDArray[np.float32]:
    """Hue in 0..1 of colours in 0..1, [..., 3] -> [...] (0 for greys)."""
    high, low = rgb.max(-1), rgb.min(-1)
    chroma = np.maximum(high - low, 1e-12)
    r, g, b = np.moveaxis(rgb, -1, 0)
    hue = np.select(
        [high == low, high == r, high == g], [0, (g - b) / chroma, 2 + (b - r) / chroma], 4 + (r - g) / chroma
    )
    return np.asarray(hue / 6 % 1, np.float32)


def recolour(sprite: Image.Image, colour: str) -> Image.Image:
    """Move the dominant hue of an RGBA sprite to ``colour`` and its luminance to what reads as that colour."""
    target, luminance = HUES[colour]
    pixels = np.asarray(sprite).astype(np.float32) / 255
    rgb, alpha = pixels[..., :3], pixels[..., 3]
    high, chroma = rgb.max(-1), rgb.max(-1) - rgb.min(-1)
    hue = hue_of(rgb)
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


def _cell(index: int) -> tuple[int, int]:
    return index % COLUMNS * SPRITE, index // COLUMNS * SPRITE


@functools.cache
def sprites() -> dict[Thing, Image.Image]:
    """Every object in its natural and its seven painted colours, RGBA, longer side 192 pixels."""
    bank: dict[Thing, Image.Image] = {}
    with Image.open(SHEET) as file:
        sheet = file.convert("RGBA")
    for i, name in enumerate(OBJECTS):
        x, y = _cell(i)
        image = sheet.crop((x, y, x + SPRITE, y + SPRITE))
        bank[Thing(name)] = image = image.crop(image.getchannel("A").getbbox())
        if name in COLOURABLE:
            bank |= {Thing(name, colour): recolour(image, colour) for colour in COLOURS}
    return bank


def emoji_file(folder: Path, name: str) -> Path:
    """The picture of a Unicode emoji name: its code points, joined by dashes, are the file's name."""
    table = json.loads((folder / "unicode-emoji-json/package/data-by-emoji.json").read_text("utf-8"))
    emoji = next(e for e, facts in table.items() if facts["name"] == name)
    points = [f"{ord(c):04x}" for c in emoji]
    for parts in (points, [p for p in points if p != "fe0f"], [*points, "fe0f"]):
        path = folder / "lobehub-fluent-emoji-3d/package/assets" / ("-".join(parts) + ".webp")
        if path.is_file():
            return path
    raise FileNotFoundError(f"no sprite for the emoji {name!r} under {folder}")


def collect(folder: Path) -> None:
    """Write the sheet: each object cut out and scaled to 192 pixels, four in a row, in the order of ``OBJECTS``."""
    sheet = Image.new("RGBA", (COLUMNS * SPRITE, -(-len(OBJECTS) // COLUMNS) * SPRITE))
    for i, name in enumerate(OBJECTS):
        image = Image.open(emoji_file(folder, COLOURABLE.get(name) or NATURAL[name])).convert("RGBA")
        image = image.crop(image.getchannel("A").point(lambda v: 255 * (v > 24)).getbbox())
        scale = SPRITE / max(image.size)
        size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
        sheet.paste(image.resize(size, Image.Resampling.LANCZOS), _cell(i))
    sheet.save(SHEET, quality=95, method=6)


if __name__ == "__main__":
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("folder", type=Path)
    collect(ask.parse_args().folder)
