"""A picture of a bench: for each subject a bar for each back end, as long as its fraction of the floor."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Final

from .run import Bench, Row

LINE, LEFT, WIDE, EDGE = 18, 430, 460, 14
COLOURS: Final = {
    "torch": "#8a8f98",
    "cudnn": "#5b6b82",
    "flash-attn": "#b0863b",
    "flashinfer": "#7d6bb0",
    "scaled-mm": "#9a6d62",
    "triton": "#2f7fd0",
    "triton-tma": "#1b4f9c",
    "triton-w8a8": "#2f9d6a",
}


def plot(bench: Bench, path: Path) -> None:
    """Draw the rows that were timed.

    Raises:
        OSError, ValueError: the file cannot be written, or its ending is no picture format.
    """
    from PIL import Image, ImageDraw, ImageFont

    rows = [row for row in bench.rows if row.ms is not None]
    groups = [(key, list(group)) for key, group in groupby(rows, lambda row: (row.op, row.shape))]
    height = 3 * LINE + sum(LINE * (len(group) + 1) + 6 for _, group in groups) + EDGE
    image = Image.new("RGB", (LEFT + WIDE + 150, height), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(12)
    where = bench.environment
    title = f"{where['device']}, torch {where['torch']}, triton {where['triton'] or '-'}, {where['date'][:10]}"
    draw.text((EDGE, EDGE), f"Fraction of the floor (ceilings of the same run): {title}", "black", font)
    top = 3 * LINE
    for quarter in range(5):
        x = LEFT + WIDE * quarter // 4
        draw.line([(x, top - 4), (x, height - EDGE)], "#dddddd")
        draw.text((x - 10, top - LINE), f"{25 * quarter} %", "#777777", font)
    for (op, shape), group in groups:
        draw.text((EDGE, top), f"{op}  {shape}", "black", font)
        top += LINE
        for row in group:
            _bar(draw, font, top, row)
            top += LINE
        top += 6
    image.save(path)


def _bar(draw: object, font: object, top: int, row: Row) -> None:
    fraction = row.fraction or 0.0
    draw.text((LEFT - 110, top), row.backend, "#333333", font)  # type: ignore[attr-defined]
    end = LEFT + min(fraction, 1.0) * WIDE
    draw.rectangle([(LEFT, top + 2), (max(end, LEFT + 1), top + LINE - 4)], COLOURS.get(row.backend, "#444444"))  # type: ignore[attr-defined]
    draw.text((LEFT + WIDE + 10, top), f"{fraction:.0%}  {row.ms:.3g} ms", "#333333", font)  # type: ignore[attr-defined]
