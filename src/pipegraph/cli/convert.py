"""``pipegraph convert``: a graph in another form."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pipegraph.convert import FORMS, Form, convert

from .call import complete_graphs, read
from .nodes import load_catalog, nodes_option
from .show import echo


@click.command()
@click.argument("file", metavar="FILE", shell_complete=complete_graphs)
@click.option("--to", type=click.Choice(FORMS), default="native", show_default=True, help="The form that is wanted.")
@click.option("--out", type=click.Path(path_type=Path), help="File to write; default: standard output.")
@nodes_option
def command(file: str, to: Form, out: Path | None, packs: tuple[Path, ...]) -> None:
    """Write a graph in another form: pipegraph's own, ComfyUI's API form, or a file that ComfyUI's editor opens.

    FILE is a path, the name of a ready-made graph, a picture or video with its graph, or - for standard input. In
    ComfyUI's forms `auto` becomes what the models recommend, if they are here, and a seed to be drawn becomes 0.

    \b
    pipegraph convert workflow.json --out graph.json
    pipegraph convert flux.json --to editor --out flux_for_comfyui.json
    """
    document, notes = convert(read(file), to, load_catalog(packs))
    for note in notes:
        echo(f"note: {note}", err=True)
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    if out is None:
        echo(text)
        return
    from pipegraph.runtime.files import replace_file

    replace_file(out, (text + "\n").encode())
    echo(f"wrote {out}", err=True)
