"""``pipegraph models``: list models and their folders, or show one model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pipegraph.models import paths
from pipegraph.models.checkpoints.parts import contents
from pipegraph.models.loading.card import read_card

from .nodes import nodes_option
from .show import columns, echo, json_line

if TYPE_CHECKING:
    from pipegraph.missing_files import MissingFile

_STATES: Final = {
    "unknown_file": "not here",
    "unknown_network": "here, but no network that pipegraph knows",
    "damaged_file": "here, but damaged",
}


def complete_models(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Complete names of models."""
    every = dict.fromkeys(name for names in _names().values() for name in names)
    return [name for name in every if name.lower().startswith(incomplete.lower())]


@click.command()
@click.argument("name", required=False, metavar="[NAME | WORD]", shell_complete=complete_models)
@click.argument("added", metavar="[MODEL | FILE]", required=False)
@nodes_option
@click.option("--yes", is_flag=True, help="Fetch without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(name: str | None, added: str | None, packs: tuple[Path, ...], yes: bool, as_json: bool) -> None:
    """List models and their folders, or show the model NAME.

    A WORD lists the models with the word in their name.

    \b
    pipegraph models add smollm2      fetch a small language model (Apache-2.0, 98 MB) into your model folder
    pipegraph models missing FILE     list the files that a graph needs and that are not here, with their addresses
    pipegraph models fetch FILE       download them into your model folders, after you have said yes
    """
    if name == "add":
        _add(added, as_json)
    elif name in ("missing", "fetch"):
        if not added:
            raise click.UsageError(f"name a graph: pipegraph models {name} FILE")
        (_missing if name == "missing" else _fetch)(_lacking(added, packs), yes, as_json)
    elif added:
        raise click.UsageError(f'"{name} {added}" is no model; to fetch one: pipegraph models add {added}')
    elif name:
        _show(name, as_json)
    else:
        _list(as_json)


def _names(word: str = "") -> dict[str, list[str]]:
    """Names of models that contain a word, by kind."""
    kinds = [kind for kind in paths.KINDS if kind != "input"]
    return {kind: [n for n in paths.names(kind) if word.lower() in n.lower()] for kind in kinds}


def _list(as_json: bool) -> None:
    models = _names()
    kinds = [*models]
    searched = {kind: [str(p) for p in paths.searched(kind)] for kind in kinds}
    if as_json:
        return json_line({"models": models, "searched": searched})
    for kind, names in models.items():
        echo(kind)
        columns([(n, _summary(kind, n)) for n in names] or [("(none)", "")], indent="  ")
    echo("looked in")
    columns(((place,) for place in dict.fromkeys(p for places in searched.values() for p in places)), indent="  ")
    echo('Folders of your own: PIPEGRAPH_MODELS, laid out as ComfyUI\'s "models" folder.')
    return None


def _add(name: str | None, as_json: bool) -> None:
    from pipegraph.models.llm.add import KNOWN, add

    known = ", ".join(f"{key} ({model.summary})" for key, model in KNOWN.items())
    if name is None:
        raise click.UsageError(f"name a model to add: {known}")
    try:
        folder = add(name)
    except (LookupError, OSError) as error:
        raise click.ClickException(str(error.args[0] if error.args else error)) from None
    if as_json:
        return json_line({"name": name, "path": str(folder), "licence": KNOWN[name].licence})
    echo(f"{name}: {KNOWN[name].summary}, {KNOWN[name].licence}\n{folder}")
    return None


def _lacking(source: str, packs: tuple[Path, ...]) -> list[MissingFile]:
    from pipegraph.api import load
    from pipegraph.missing_files import missing_files

    return missing_files(load(source, nodes=packs))


def _missing(files: list[MissingFile], yes: bool, as_json: bool) -> None:
    if as_json:
        return json_line({"missing": [file.as_dict() for file in files]})
    if not files:
        return echo("Nothing is missing.")
    for file in files:
        echo(f"{file.folder or '?'}/{file.name}  ({_STATES[file.code]})")
        rows = [("asked by", asked) for asked in file.asked_by] + [("address", file.url or "the graph names none")]
        columns(rows + [("sha256", file.sha256)] * bool(file.sha256), indent="  ")
    return None


def _fetch(files: list[MissingFile], yes: bool, as_json: bool) -> None:
    from pipegraph.missing_files import FetchError, fetch, place_of

    wanted = [file for file in files if file.url and file.code != "unknown_network"]
    if not yes and not as_json:
        _missing(files, yes, as_json)
    if not wanted:
        raise click.ClickException("there is nothing to fetch" + (": the graph names no addresses" if files else ""))
    if not yes and (as_json or not click.confirm(f"Download {len(wanted)} of {len(files)} files?")):
        raise click.ClickException("nothing was fetched: --yes fetches without asking")
    fetched: list[str] = []
    for file in wanted:
        try:
            if not as_json:
                echo(f"{file.url}\n  -> {place_of(file)}")
            fetched.append(str(fetch(file)))
        except (FetchError, OSError) as error:
            raise click.ClickException(str(error)) from None
    if as_json:
        json_line({"fetched": fetched})
    left = [file.name for file in files if file not in wanted]
    if left and not as_json:
        echo(f"still missing: {', '.join(left)}", err=True)


def _show(name: str, as_json: bool) -> None:
    place, errors = None, []
    for kind in paths.KINDS:
        try:
            place = paths.resolve(kind, name)
            break
        except LookupError as error:
            errors.append(str(error.args[0]))
    if place is None:
        models = {kind: names for kind, names in _names(name).items() if names}
        if not models:
            raise click.UsageError(errors[0])
        if as_json:
            return json_line({"models": models})
        for kind, names in models.items():
            echo(kind)
            columns([(n, _summary(kind, n)) for n in names], indent="  ")
        return None
    card = read_card(place)
    holds = contents(place)
    if as_json:
        return json_line({"name": name, "path": str(place), "card": card, "contents": holds})
    echo(f"{name}  ({_size(place) / 1e6:.1f} MB)\n{place}\n{holds}")
    for key, value in card.items():
        echo(f"\n{key.replace('_', ' ')}")
        columns(_rows(value), indent="  ")
    if not card:
        echo("It has no card.json.")
    return None


def _rows(value: Any) -> list[tuple[str, ...]]:
    """A JSON value as rows of text."""
    if isinstance(value, dict):
        return [(str(k), v if isinstance(v, str) else _inline(v)) for k, v in value.items()]
    return [(_inline(value),)]


def _inline(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_inline, value))
    if isinstance(value, dict):
        return ", ".join(f"{k} {_inline(v)}" for k, v in value.items())
    return str(value)


def _summary(kind: str, name: str) -> str:
    place = paths.resolve(kind, name)
    return str(read_card(place).get("summary", "") or f"{_size(place) / 1e6:.1f} MB")


def _size(place: Path) -> int:
    """Bytes of a file, or of all files of a folder."""
    return sum(f.stat().st_size for f in (place.rglob("*") if place.is_dir() else [place]) if f.is_file())
