"""``pipegraph graphs``: the ready-made graphs."""

from __future__ import annotations

from dataclasses import asdict

import click

from pipegraph.graphs import load, ready_made

from .show import columns, json_line


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(as_json: bool) -> None:
    """List the ready-made graphs; `pipegraph run NAME --help` shows the inputs of one."""
    graphs = {name: load.loads(ready_made.find(name) or b"", name) for name in ready_made.names()}
    if as_json:
        json_line(
            [
                {
                    "name": name,
                    "title": graph.title,
                    "description": graph.description,
                    "inputs": [asdict(port) for port in graph.inputs.values()],
                    "outputs": [*graph.outputs],
                }
                for name, graph in graphs.items()
            ]
        )
    else:
        columns([(name, graph.description or graph.title) for name, graph in graphs.items()])
