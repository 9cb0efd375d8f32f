"""A scene as SVG text or as a PNG picture: the same strokes, by two brushes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from hashlib import blake2b
from html import escape
from typing import Any, Final, Protocol

from pipegraph.graphs.errors import visible

from .scene import MARKS, ROW, TITLE, WIDTH, Edge, Node, Scene

COLORS: Final = {
    "MODEL": "#7e57c2",
    "CLIP": "#c0a000",
    "VAE": "#d84343",
    "CONDITIONING": "#ef8f2f",
    "LATENT": "#d94fb0",
    "IMAGE": "#3d85c6",
    "MASK": "#4caf50",
    "VIDEO": "#00838f",
    "AUDIO": "#8d6e63",
}
"""Colors of links by type; the others get one by their name."""
INK, SOFT, PAPER, LINE = "#222222", "#6b6b6b", "#ffffff", "#b8b8b8"
MOST_PIXELS: Final = 60_000_000
"""A PNG is made smaller than its size in points rather than larger than this."""


class Brush(Protocol):
    """What strokes a drawing needs."""

    def box(self, x: int, y: int, width: int, height: int, fill: str, stroke: str, dashed: bool = False) -> None: ...

    def curve(self, edge: Edge, color: str) -> None: ...

    def dot(self, x: int, y: int, color: str) -> None: ...

    def text(
        self, x: int, y: int, text: str, size: int, color: str, *, bold: bool = False, end: bool = False
    ) -> None: ...


def svg(scene: Scene) -> str:
    """The scene as a file of SVG."""
    brush = _Svg()
    _draw(scene, brush)
    title = escape(visible(scene.title, lines=False))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{scene.width}" height="{scene.height}" '
        f'viewBox="0 0 {scene.width} {scene.height}" font-family="Helvetica, Arial, sans-serif">'
    )
    background = f'<rect width="100%" height="100%" fill="{PAPER}"/>'
    return "\n".join([head, f"<title>{title}</title>", background, *brush.parts, "</svg>", ""])


def png(scene: Scene, scale: float = 2) -> bytes:
    """The scene as a PNG picture, ``scale`` pixels a point."""
    from PIL import Image

    scale = min(scale, (MOST_PIXELS / max(1, scene.width * scene.height)) ** 0.5)
    picture = Image.new("RGB", (max(1, round(scene.width * scale)), max(1, round(scene.height * scale))), PAPER)
    _draw(scene, _Picture(picture, scale))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()


def color_of(type: str) -> str:
    """The color of links of a type."""
    if type in COLORS:
        return COLORS[type]
    red, green, blue = (60 + byte % 140 for byte in blake2b(type.encode(), digest_size=3).digest())
    return f"#{red:02x}{green:02x}{blue:02x}"


def _draw(scene: Scene, brush: Brush) -> None:
    for frame in scene.frames:
        brush.box(frame.x, frame.y, frame.width, frame.height, "#f4f6fb", LINE)
        brush.text(frame.x + 10, frame.y + 18, frame.title, 14, SOFT, bold=True)
    for edge in scene.edges:
        brush.curve(edge, color_of(edge.type))
    for node in scene.nodes:
        _node(node, brush)
    for edge in scene.edges:
        brush.dot(*edge.start, color_of(edge.type))
        brush.dot(*edge.end, color_of(edge.type))


def _node(node: Node, brush: Brush) -> None:
    color = MARKS.get(node.mark, "#757575")
    fill = "#fdecea" if node.mark in ("missing", "error") else "#eaf5ea" if node.mark == "cached" else PAPER
    brush.box(node.x, node.y, WIDTH, node.height, fill, color, dashed=node.mark == "not needed")
    brush.text(node.x + 10, node.y + 17, node.title, 13, SOFT if node.mark == "not needed" else INK, bold=True)
    brush.text(node.x + 10, node.y + 31, node.subtitle, 9, SOFT)
    if node.mark:
        brush.text(node.x + WIDTH - 8, node.y - 4, node.mark, 10, color, bold=True, end=True)
    top = node.y + TITLE
    for row, name in enumerate(node.inputs):
        brush.text(node.x + 10, top + ROW * row + 13, name, 10, INK)
    for row, name in enumerate(node.outputs):
        brush.text(node.x + WIDTH - 10, top + ROW * row + 13, name, 10, INK, end=True)
    top += ROW * max(len(node.inputs), len(node.outputs))
    for row, line in enumerate(node.lines):
        brush.text(node.x + 10, top + ROW * row + 13, line, 10, SOFT)


class _Svg:
    def __init__(self) -> None:
        self.parts: list[str] = []

    def box(self, x: int, y: int, width: int, height: int, fill: str, stroke: str, dashed: bool = False) -> None:
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        shape = f'x="{x}" y="{y}" width="{width}" height="{height}" rx="6"'
        self.parts.append(f'<rect {shape} fill="{fill}" stroke="{stroke}" stroke-width="1.5"{dashes}/>')

    def curve(self, edge: Edge, color: str) -> None:
        path = f"M{edge.start[0]} {edge.start[1]}"
        for (x, y), (a, b), bend in _pieces(edge):
            path += f" C{x + bend} {y} {a - bend} {b} {a} {b}" if bend else f" L{a} {b}"
        self.parts.append(f'<path d="{path}" fill="none" stroke="{color}" stroke-width="2" stroke-opacity="0.8"/>')

    def dot(self, x: int, y: int, color: str) -> None:
        self.parts.append(f'<circle cx="{x}" cy="{y}" r="3.5" fill="{color}"/>')

    def text(self, x: int, y: int, text: str, size: int, color: str, *, bold: bool = False, end: bool = False) -> None:
        style = (' font-weight="bold"' if bold else "") + (' text-anchor="end"' if end else "")
        words = escape(visible(text, lines=False), quote=False)
        self.parts.append(f'<text x="{x}" y="{y}" font-size="{size}" fill="{color}"{style}>{words}</text>')


class _Picture:
    def __init__(self, picture: Any, scale: float) -> None:
        from PIL import ImageDraw

        self.draw, self.scale = ImageDraw.Draw(picture), scale
        self.fonts: dict[int, Any] = {}

    def box(self, x: int, y: int, width: int, height: int, fill: str, stroke: str, dashed: bool = False) -> None:
        s = self.scale
        corners = [x * s, y * s, (x + width) * s, (y + height) * s]
        color = LINE if dashed else stroke
        self.draw.rounded_rectangle(corners, 6 * s, fill=fill, outline=color, width=max(1, round(1.5 * s)))

    def curve(self, edge: Edge, color: str) -> None:
        points = [(edge.start[0] * self.scale, edge.start[1] * self.scale)]
        for (x, y), (a, b), bend in _pieces(edge):
            for i in range(1, 25) if bend else [24]:
                t = i / 24
                u = 1 - t
                across = u**3 * x + 3 * u * u * t * (x + bend) + 3 * u * t * t * (a - bend) + t**3 * a
                down = u**3 * y + 3 * u * u * t * y + 3 * u * t * t * b + t**3 * b
                points.append((across * self.scale, down * self.scale))
        self.draw.line(points, fill=color, width=max(1, round(2 * self.scale)), joint="curve")

    def dot(self, x: int, y: int, color: str) -> None:
        s = self.scale
        self.draw.ellipse([(x - 3.5) * s, (y - 3.5) * s, (x + 3.5) * s, (y + 3.5) * s], fill=color)

    def text(self, x: int, y: int, text: str, size: int, color: str, *, bold: bool = False, end: bool = False) -> None:
        from PIL import ImageFont

        if size not in self.fonts:
            self.fonts[size] = ImageFont.load_default(max(1, round(size * self.scale)))
        anchor, at = "rs" if end else "ls", (x * self.scale, y * self.scale)
        width = round(0.4 * self.scale) if bold else 0
        self.draw.text(
            at, visible(text, lines=False), fill=color, font=self.fonts[size], anchor=anchor, stroke_width=width
        )


def _pieces(edge: Edge) -> Iterator[tuple[tuple[int, int], tuple[int, int], int]]:
    """The parts of a link: from, to, and how far it goes straight before it turns; 0 for a line."""
    at = edge.start
    for left, right, y in edge.lanes:
        yield at, (left, y), _bend(at[0], left)
        yield (left, y), (right, y), 0
        at = (right, y)
    yield at, edge.end, _bend(at[0], edge.end[0])


def _bend(start: int, end: int) -> int:
    return max(40, abs(end - start) // 2)
