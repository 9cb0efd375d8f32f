"""``pipegraph validate``: report every problem of a graph, without torch and weights."""

from __future__ import annotations

from pathlib import Path

import click

from pipegraph.access import Access
from pipegraph.runtime.check import examine

from .call import JSON, GraphCommand, call_of, complete_graphs, typed_paths
from .nodes import load_catalog, nodes_option
from .show import echo, json_line


@click.command(cls=GraphCommand)
@click.argument("file", metavar="FILE", shell_complete=complete_graphs)
@click.option("--set", "settings", multiple=True, metavar="NODE.INPUT=VALUE", help="Set an input. May be repeated.")
@nodes_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, file: str, settings: tuple[str, ...], packs: tuple[Path, ...], as_json: bool) -> None:
    """Report every problem of a graph, without running it; exit code 2 if there is one.

    FILE is a path, the name of a ready-made graph, a picture or video with its graph, or - for standard input.
    Inputs of the graph can be given as for `run`; missing required inputs are no error here.
    """
    call = call_of(ctx, settings)
    nodes = len(call.graph.nodes)
    access = Access.to(*typed_paths(call))
    needs, notes = examine(call.graph, load_catalog(packs), call.inputs, overrides=call.overrides, access=access)
    if ctx.meta[JSON]:
        listed = {"notes": [note.as_dict() for note in notes]} if notes else {}
        json_line({"valid": True, "nodes": nodes, "needs": needs, **listed})
        return
    for note in notes:
        echo(f"note[{note.code}] {note}", err=True)
    lacking = f"; needs a value for {', '.join(needs)}" if needs else ""
    echo(f"{call.graph.source}: no errors, {nodes} nodes{lacking}")
