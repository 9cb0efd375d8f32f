"""``pipegraph graphs``: the ready-made graphs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from pipegraph.graphs import load, ready_made
from pipegraph.graphs.schema import Graph

from .show import columns, echo, json_line


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--draw", type=click.Path(path_type=Path), metavar="FOLDER", help="Draw each as an SVG in a folder.")
@click.option("--markdown", is_flag=True, help="Print the page docs/graphs.md.")
def command(as_json: bool, draw: Path | None, markdown: bool) -> None:
    """List the ready-made graphs; `pipegraph run NAME --help` shows the inputs of one."""
    graphs = {name: load.loads(ready_made.find(name) or b"", name) for name in ready_made.names()}
    if draw:
        _draw(graphs, draw)
    elif markdown:
        click.echo(page(graphs), nl=False)
    elif as_json:
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


def _draw(graphs: dict[str, Graph], folder: Path) -> None:
    from pipegraph.drawing.files import file_of
    from pipegraph.runtime.files import replace_file

    from .nodes import load_catalog

    catalog = load_catalog(())
    folder.mkdir(parents=True, exist_ok=True)
    for name, graph in graphs.items():
        path = (folder / name).with_suffix(".svg")
        replace_file(path, file_of(graph, catalog, path))
        echo(f"wrote {path}", err=True)


def page(graphs: dict[str, Graph]) -> str:
    """The page docs/graphs.md."""
    lines = [
        "# Ready-made graphs",
        "",
        "Written by `pipegraph graphs --markdown`; the pictures by `pipegraph graphs --draw docs/images/graphs`.",
        "`pipegraph run NAME --help` shows the inputs of one; in the pictures `$name` is an input of the graph.",
    ]
    for name, graph in graphs.items():
        picture = f"![{graph.title}](images/graphs/{Path(name).stem}.svg)"
        lines += ["", f"## {name}", "", graph.description or graph.title, "", picture]
    return "\n".join(lines) + "\n"
