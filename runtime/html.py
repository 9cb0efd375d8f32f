"""HTML of workflows, plans and results for notebooks."""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from pipegraph.graphs.errors import shown

if TYPE_CHECKING:
    from pipegraph.graphs.schema import Graph

    from .execution import Result
    from .plan import Plan

SIDE: Final = 256
"""Pixels of the longer side of a thumbnail."""
MOST_IMAGES: Final = 8
MOST_ROWS: Final = 50
LONGEST: Final = 2000
"""Longest text that is shown, in characters."""


def of_result(result: Result) -> str:
    """Outputs, images as thumbnails, the files that were saved, and warnings."""
    rows = [(name, _value(value)) for name, value in result.outputs.items()]
    rows += [("saved", escape(str(path))) for path in result.files]
    rows += [("warning", escape(str(warning))) for warning in result.warnings]
    seconds = sum(result.timings.values())
    return _table(f"Run {result.run_id}: {seconds:.1f} s, {len(result.cached)} nodes from the cache", rows)


def of_plan(plan: Plan) -> str:
    """The steps in their order."""
    rows = [(step.node.id, escape(f"{step.node.title} ({step.node.entry.spec.id})")) for step in plan.steps]
    return _table(f"Plan of {len(plan.steps)} steps on {plan.settings.device}", rows)


def of_graph(graph: Graph) -> str:
    """The inputs of a graph, their types and defaults, and its outputs."""
    rows = [(name, escape(_input(port))) for name, port in graph.inputs.items()]
    rows += [(f"→ {name}", escape(".".join(map(str, source)))) for name, source in graph.outputs.items()]
    return _table(f"Workflow of {len(graph.nodes)} nodes", rows)


def _input(port: Any) -> str:
    default = getattr(port, "default", None)
    return f"{port.type}" + (f" = {shown(default)}" if default is not None else "")


def _table(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A table; the second column is HTML already."""
    more = [("", f"and {len(rows) - MOST_ROWS} more")] if len(rows) > MOST_ROWS else []
    lines = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{cell}</td></tr>'
        for name, cell in [*rows[:MOST_ROWS], *more]
    )
    return f"<table><caption>{escape(title)}</caption>{lines}</table>"


def _value(value: Any) -> str:
    shape = tuple(getattr(value, "shape", ()))
    if len(shape) == 4 and shape[-1] in (1, 3, 4):
        more = f" and {shape[0] - MOST_IMAGES} more" if shape[0] > MOST_IMAGES else ""
        return "".join(_thumbnails(value[:MOST_IMAGES])) + more
    if isinstance(value, str):
        return f"<pre>{escape(value[:LONGEST])}{'…' if len(value) > LONGEST else ''}</pre>"
    if isinstance(value, bool | int | float | Mapping | list | tuple):
        return escape(shown(value))
    return escape(f"{type(value).__name__} {list(shape) if shape else ''}".strip())


def _thumbnails(images: Any) -> Iterable[str]:
    """An ``<img>`` for each of the images [B, H, W, C] in 0..1."""
    from PIL import Image

    for image in images:
        levels = (image.detach().float().clamp(0, 1) * 255).round().byte().cpu().numpy()
        thumbnail = Image.fromarray(levels[..., 0] if levels.shape[-1] == 1 else levels)
        thumbnail.thumbnail((SIDE, SIDE))
        file = io.BytesIO()
        thumbnail.save(file, "PNG")
        height, width = image.shape[:2]
        data = b64encode(file.getvalue()).decode()
        yield f'<img src="data:image/png;base64,{data}" title="{width} x {height}" style="margin:2px">'
