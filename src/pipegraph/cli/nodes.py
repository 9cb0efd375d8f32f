"""``pipegraph nodes``: the node library, or the inputs and outputs of one node."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.errors import nearest
from pipegraph.runtime.spec import MISSING, NodeSpec, Port

from .show import columns, echo, json_line

SHOWN_CHOICES = 30
nodes_option = click.option(
    "--nodes",
    "packs",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    help="Load nodes from a Python file or a folder of them; runs its code. May be repeated.",
)


def complete_nodes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of nodes."""
    from pipegraph.api import catalog

    return [spec.id for spec in catalog() if spec.id.lower().startswith(incomplete.lower())]


def search(catalog: Catalog, words: Iterable[str]) -> list[NodeSpec]:
    """Nodes with all words in their name, title, category or description, by category."""
    wanted = [word.lower() for word in words]

    def text(spec: NodeSpec) -> str:
        return f"{spec.id} {spec.title} {spec.category} {spec.doc}".lower()

    matches = (spec for spec in catalog if all(word in text(spec) for word in wanted))
    return sorted(matches, key=lambda spec: (spec.category, spec.id))


@click.command()
@click.argument("words", nargs=-1, metavar="[NAME | WORDS...]", shell_complete=complete_nodes)
@nodes_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--markdown", is_flag=True, help="Print the page docs/nodes.md.")
@click.option("--stubs", is_flag=True, help="Print types of the nodes for pg.Graph, to be kept as a .pyi file.")
def command(words: tuple[str, ...], packs: tuple[Path, ...], as_json: bool, markdown: bool, stubs: bool) -> None:
    """List the nodes, show the inputs and outputs of the node NAME, or list the nodes that have all WORDS.

    \b
    pipegraph nodes KSampler          one node
    pipegraph nodes lora              nodes that have a word in their name, title, category or description
    """
    catalog = load_catalog(packs)
    name = words[0] if len(words) == 1 and words[0] in catalog.entries else ""
    specs = [catalog[name]] if name else search(catalog, words)
    if not specs:
        hint = nearest(words[0], catalog.entries) if len(words) == 1 else ""
        message = f"no node has {' and '.join(words)} in its name, title, category or description. {hint}"
        raise click.UsageError(message.strip())
    if stubs:
        from pipegraph.stubs import stub

        click.echo(stub(catalog), nl=False)
    elif as_json:
        json_line([as_dict(spec) for spec in specs])
    elif markdown:
        click.echo(page(specs), nl=False)
    elif name:
        _show(specs[0], catalog.entries[name].source)
    else:
        for category, group in by_category(specs):
            echo(click.style(category, bold=True))
            columns([(s.id, first_line(s)) for s in group], indent="  ")


def load_catalog(packs: Iterable[Path]) -> Catalog:
    """The node library with the user's files; packs that fail to load are reported on stderr."""
    from pipegraph.api import catalog

    loaded = catalog(packs)
    for pack in loaded.broken:
        echo(f"warning: the nodes of {pack.source} could not be loaded: {pack.error}", err=True)
    return loaded


def first_line(spec: NodeSpec) -> str:
    return spec.doc.split("\n", 1)[0]


def by_category(specs: Iterable[NodeSpec]) -> Iterator[tuple[str, list[NodeSpec]]]:
    groups: dict[str, list[NodeSpec]] = {}
    for spec in specs:
        groups.setdefault(spec.category, []).append(spec)
    yield from groups.items()


def default(port: Port) -> str:
    """The default as JSON; empty for a required input."""
    if port.default is MISSING:
        return ""
    return port.default if isinstance(port.default, str) else json.dumps(port.default)


def limits(port: Port) -> str:
    """Range or choices in words, including computed choices."""
    parts = []
    if port.choices is not None or port.file:
        names = _names(port)
        more = f", ... ({len(names)})" if len(names) > SHOWN_CHOICES else ""
        parts.append("one of " + ", ".join(names[:SHOWN_CHOICES]) + more if names else "none found here")
    low, high = port.minimum, port.maximum
    if low is not None or high is not None:
        parts.append(f"{_number(low)}..{_number(high)}")
    for words, value in (("above", port.above), ("below", port.below), ("a multiple of", port.multiple_of)):
        if value is not None:
            parts.append(f"{words} {_number(value)}")
    parts += [f"plus {port.offset}"] * bool(port.offset)
    parts += [f"at least {port.not_below}"] if port.not_below else []
    parts += ["or auto"] * bool(port.auto) + ["lazy"] * port.lazy + ["may be null: one is drawn"] * port.seed
    return "; ".join(parts)


def _names(port: Port) -> list[str]:
    names = port.file.names() if port.file else port.choices
    return [str(name) for name in (names() if callable(names) else names or ())]


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return "2^64-1" if value == 2**64 - 1 else f"{value:g}" if isinstance(value, float) else str(value)


def _show(spec: NodeSpec, source: str) -> None:
    echo(f"{click.style(spec.id, bold=True)}  {spec.category}  ({source})")
    echo("\n" + spec.doc.split("\nArgs:")[0].rstrip())
    echo("\ninputs")
    columns([(name, p.type, _need(p), " ".join(filter(None, (p.doc, _bracket(p))))) for name, p in _listed(spec)], "  ")
    echo("\noutputs")
    columns([(name, p.type) for name, p in spec.outputs.items()], "  ")


def _need(port: Port) -> str:
    return "required" if port.required else f"= {default(port)}"


def _bracket(port: Port) -> str:
    return f"[{text}]" if (text := limits(port)) else ""


def as_dict(spec: NodeSpec) -> dict[str, Any]:
    """A node as JSON values."""
    inputs = []
    for p in spec.inputs.values():
        facts: dict[str, Any] = {"name": p.name, "type": p.type, "required": p.required, "doc": p.doc}
        if p.default is not MISSING:
            facts["default"] = p.default
        for key in ("minimum", "maximum", "above", "below", "multiple_of", "not_below", "step", "auto"):
            if (value := getattr(p, key)) is not None:
                facts[key] = value
        if p.choices is not None or p.file:
            facts["choices"] = _names(p)
        facts |= {"offset": p.offset} if p.offset else {}
        facts |= {key: True for key in ("seed", "multiline", "lazy", "nullable") if getattr(p, key)}
        inputs.append(facts)
    return {
        "id": spec.id,
        "title": spec.title,
        "category": spec.category,
        "doc": spec.doc.split("\nArgs:")[0].rstrip(),
        "effect": spec.effect,
        "version": spec.version,
        "output_node": spec.output_node,
        "inputs": inputs,
        "outputs": [{"name": name, "type": p.type} for name, p in spec.outputs.items()],
    }


def page(specs: Iterable[NodeSpec]) -> str:
    """The page docs/nodes.md: inputs and outputs of nodes, independent of the machine."""
    lines = [
        "# Nodes",
        "",
        "Written by `pipegraph nodes --markdown`. An input without a default is required; `auto` takes what the model"
        " recommends.",
    ]
    for category, group in by_category(specs):
        lines += ["", f"## {category}"]
        for spec in group:
            outputs = ", ".join(n if n == p.type else f"{n}: {p.type}" for n, p in spec.outputs.items())
            lines += ["", f"### {spec.id}", "", first_line(spec) + (f" Gives {outputs}." if outputs else "")]
            if spec.inputs:
                lines += ["", "| input | type | default | |", "| --- | --- | --- | --- |"]
                lines += [_row(name, port) for name, port in _listed(spec)]
    return "\n".join(lines) + "\n"


def _listed(spec: NodeSpec) -> list[tuple[str, Port]]:
    """Inputs by name; a growing input as one."""
    inputs: dict[str, Port] = {}
    for name, port in spec.inputs.items():
        group = name.partition(".")[0]
        inputs.setdefault(f"{group}.{port.grows.names[0]} ... {port.grows.names[-1]}" if port.grows else name, port)
    return list(inputs.items())


def _row(name: str, port: Port) -> str:
    limit = limits(port) if isinstance(port.choices, tuple) or not (port.choices or port.file) else ""
    text = " ".join(filter(None, (port.doc, f"[{limit}]" if limit else "")))
    value = default(port)
    cells = (f"`{name}`", port.type.replace(",", ", "), f"`{value}`" if value else "", text)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
