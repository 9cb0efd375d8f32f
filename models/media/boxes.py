"""Bounding boxes in pixels: read from JSON, written as prompt elements, drawn.

A box is ``{"x", "y", "width", "height"}`` in pixels with optional ``metadata`` (type ``obj`` or ``text``, text, desc,
palette). An element is what language models write, with a bbox of [top, left, bottom, right] in thousandths.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

    Font = FreeTypeFont | ImageFont

_SIDES: Final = ("x", "y", "width", "height")
_LONGEST: Final = 1024
"""Pixels of the longer side of a preview."""
_GRAY: Final = (140, 140, 140)
_COLOURS: Final = ((220, 50, 47), (133, 153, 0), (38, 139, 210), (203, 75, 22), (108, 113, 196), (42, 161, 152))
"""Colours by label."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in pixels with its content."""

    x: float
    y: float
    width: float
    height: float
    text: str | None = None
    """Text to render; None for objects."""
    desc: str = ""
    palette: tuple[str, ...] = ()
    """Colours as #rrggbb."""

    def pixels(self) -> dict[str, int]:
        """The box as a BOUNDING_BOX value."""
        return {name: round(getattr(self, name)) for name in _SIDES}

    def element(self, width: int, height: int) -> dict[str, Any]:
        """The box as a prompt element for an image of this size."""

        def place(value: float, side: int) -> int:
            return min(1000, max(0, round(1000 * value / side)))

        top, bottom = place(self.y, height), place(self.y + self.height, height)
        left, right = place(self.x, width), place(self.x + self.width, width)
        element: dict[str, Any] = {"type": "obj" if self.text is None else "text", "bbox": [top, left, bottom, right]}
        if self.text is not None:
            element["text"] = self.text
        element["desc"] = self.desc
        if self.palette:
            element["color_palette"] = list(self.palette[:5])
        return element


def read_boxes(value: Any, width: int, height: int) -> list[Box]:
    """Boxes of a BOUNDING_BOX or ARRAY value, or of JSON text; of several lists (one an image) the first.

    Raises:
        ValueError: they are no boxes.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else []
        except (ValueError, RecursionError) as e:
            raise ValueError(f"the boxes are no JSON: {e}") from e
    if value is None:
        return []
    if isinstance(value, Mapping):
        value = [value]
    if not isinstance(value, Sequence):
        raise ValueError(f"boxes are a list, got {type(value).__name__}")
    if value and isinstance(value[0], list | tuple):
        value = value[0]
    return [_read_box(entry, width, height) for entry in value]


def _read_box(entry: Any, width: int, height: int) -> Box:
    if not isinstance(entry, Mapping):
        raise ValueError(f"a box is an object, got {str(entry)[:60]}")
    if "bbox" in entry:
        top, left, bottom, right = _numbers(entry["bbox"], 4)
        top, bottom = sorted((round(top / 1000 * height), round(bottom / 1000 * height)))
        left, right = sorted((round(left / 1000 * width), round(right / 1000 * width)))
        rectangle: tuple[float, float, float, float] = (left, top, right - left, bottom - top)
        facts, palette = entry, entry.get("color_palette")
    elif all(name in entry for name in _SIDES):
        x, y, wide, high = _numbers([entry[name] for name in _SIDES], 4)
        rectangle = (min(x, x + wide), min(y, y + high), abs(wide), abs(high))
        metadata = entry.get("metadata")
        facts = metadata if isinstance(metadata, Mapping) else {}
        palette = facts.get("palette")
    else:
        raise ValueError(
            f"a box has x, y, width and height, an element a bbox; got {', '.join(map(str, entry)) or '{}'}"
        )
    text = str(facts.get("text") or "") if facts.get("type") == "text" else None
    return Box(*rectangle, text, str(facts.get("desc") or ""), tuple(_colours(palette)))


def _numbers(values: Any, count: int) -> list[float]:
    if not isinstance(values, Sequence) or len(values) != count:
        raise ValueError(f"a bbox is [top, left, bottom, right], got {str(values)[:60]}")
    if not all(type(v) in (int, float) and math.isfinite(v) and abs(v) < 1e6 for v in values):
        raise ValueError(f"the sides of a box are finite numbers, got {str(values)[:60]}")
    return [float(v) for v in values]


def _colours(palette: Any) -> Iterator[str]:
    """The valid colours of a palette, as #rrggbb."""
    for colour in palette if isinstance(palette, list | tuple) else ():
        if isinstance(colour, str) and (match := re.fullmatch(r"#?([0-9a-fA-F]{6}|[0-9a-fA-F]{3})", colour.strip())):
            digits = match[1] if len(match[1]) == 6 else "".join(2 * digit for digit in match[1])
            yield "#" + digits.lower()


def preview(boxes: Sequence[Box], width: int, height: int, background: Image | None = None) -> Image:
    """Boxes with numbers and descriptions, on a dark image of at most 1024 pixels a side.

    Args:
        boxes: In pixels of ``width`` x ``height``.
        width: Width of the image.
        height: Height of the image.
        background: Shown darkened below; gray without one.
    """
    from PIL import Image, ImageDraw, ImageEnhance, ImageFont

    size = (width, height) if background is None else background.size
    factor = min(1.0, _LONGEST / max(size))
    size = (max(1, round(size[0] * factor)), max(1, round(size[1] * factor)))
    if background is None:
        canvas = Image.new("RGB", size, (32, 32, 32))
    else:
        canvas = ImageEnhance.Brightness(background.convert("RGB").resize(size, Image.Resampling.LANCZOS)).enhance(0.25)
    draw, font = ImageDraw.Draw(canvas), ImageFont.load_default(max(10, size[1] // 64))
    for number, box in enumerate(boxes, 1):
        left, right = (round(v / width * size[0]) for v in (box.x, box.x + box.width))
        top, bottom = (round(v / height * size[1]) for v in (box.y, box.y + box.height))
        colour = _rgb(box.palette[0]) if box.palette else _GRAY
        draw.rectangle((left, top, right, bottom), outline=colour, width=2)
        words = " ".join(filter(None, (f'"{box.text}"' if box.text else "", box.desc)))
        _write(draw, font, f"{number:02} {words}".strip(), (left + 4, top + 4, right - 4, bottom), colour)
    return canvas


def drawn(image: Image, boxes: Sequence[Mapping[str, Any]]) -> Image:
    """An image with detected boxes, labels and scores."""
    from PIL import ImageDraw, ImageFont

    canvas, font = image.copy(), ImageFont.load_default(max(10, image.height // 48))
    draw = ImageDraw.Draw(canvas)
    labels = list(dict.fromkeys(str(box.get("label")) for box in boxes))
    for box in sorted(boxes, key=lambda box: float(box.get("score", 1.0))):
        x, y, wide, high = _numbers([box.get(name) for name in _SIDES], 4)
        label = box.get("label")
        colour = _COLOURS[labels.index(str(label)) % len(_COLOURS)]
        draw.rectangle((x, y, x + max(wide, 0), y + max(high, 0)), outline=colour, width=3)
        if label:
            score = f" {float(box['score']):.2f}" if "score" in box else ""
            draw.text((x + 4, y + 4), f"{label}{score}", colour, font)
    return canvas


def _write(draw: ImageDraw, font: Font, text: str, place: tuple[int, int, int, int], colour: tuple[int, ...]) -> None:
    """Write text into a rectangle, as many lines as fit."""
    left, top, right, bottom = place
    light = tuple(min(255, c + 100) for c in colour)
    line = ""
    for word in [*text.split(), None]:
        longer = f"{line} {word}".strip()
        if word is not None and (not line or draw.textlength(longer, font) <= right - left):
            line = longer
            continue
        box = draw.textbbox((left, top), line, font)
        if box[3] > bottom:
            return
        draw.text((left, top), line, light, font)
        top, line = round(box[3]) + 2, word or ""


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
