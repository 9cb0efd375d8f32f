"""``pipegraph show``: a picture of a graph."""

from __future__ import annotations

from pathlib import Path

import click

from pipegraph.graphs.editor.naming import named
from pipegraph.graphs.errors import GraphError
from pipegraph.graphs.schema import Graph
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import examine

from .call import Call, GraphCommand, call_of, complete_graphs
from .nodes import load_catalog, nodes_option
from .show import echo

MISSING = ("unknown_node", "unknown_file")
"""Codes of problems with what is not here; the others are faults of the graph."""


@click.command("show", cls=GraphCommand)
@click.argument("file", metavar="FILE", shell_complete=complete_graphs)
@click.option("--set", "settings", multiple=True, metavar="NODE.INPUT=VALUE", help="Set an input. May be repeated.")
@click.option("--out", type=click.Path(path_type=Path), help="graph.svg, .png or .mmd; default: Mermaid on stdout.")
@nodes_option
@click.pass_context
def command(
    ctx: click.Context, file: str, settings: tuple[str, ...], out: Path | None, packs: tuple[Path, ...]
) -> None:
    """Draw a graph, also one with faults: what is missing, wrong or not needed is marked.

    FILE is a path, the name of a ready-made graph, a picture or video with its graph, or - for standard input.

    \b
    pipegraph show flux.json --out flux.svg
    """
    from pipegraph.drawing.files import file_of
    from pipegraph.drawing.mermaid import mermaid
    from pipegraph.runtime.files import replace_file

    call, catalog = call_of(ctx, settings), load_catalog(packs)
    graph = named(call.graph, catalog.slots)
    marks = _marks(graph, catalog, call)
    if out is None:
        echo(mermaid(graph, catalog, marks).rstrip("\n"))
        return
    try:
        data = file_of(graph, catalog, out, marks)
    except ValueError as error:
        raise click.UsageError(f"--out: {error}") from error
    replace_file(out, data)
    echo(f"wrote {out}", err=True)


def _marks(graph: Graph, catalog: Catalog, call: Call) -> dict[str, str]:
    """What checking says of nodes, by id."""
    try:
        notes = examine(graph, catalog, call.inputs, overrides=call.overrides).notes
        return {note.node: "not needed" for note in notes if note.code == "idle_node"}
    except GraphError as error:
        marks: dict[str, str] = {}
        for problem in error.problems:
            if problem.node and marks.get(problem.node) != "missing":
                marks[problem.node] = "missing" if problem.code in MISSING else "error"
        return marks
