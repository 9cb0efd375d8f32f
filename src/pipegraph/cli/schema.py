"""``pipegraph schema``: a JSON Schema of graph files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from .nodes import load_catalog, nodes_option


@click.command()
@nodes_option
def command(packs: tuple[Path, ...]) -> None:
    """Print a JSON Schema of graph files with all nodes, for editors and language models.

    \b
    pipegraph schema > graph.schema.json       then "$schema": "./graph.schema.json" in a graph
    """
    from pipegraph.json_schema import json_schema

    click.echo(json.dumps(json_schema(load_catalog(packs)), indent=1, ensure_ascii=False))
