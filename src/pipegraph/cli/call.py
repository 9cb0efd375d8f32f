"""A call of a graph: FILE, the graph's own inputs as options, and --set. Shared by ``run`` and ``validate``."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from glob import escape, glob
from typing import Final

import click
from click.shell_completion import CompletionItem

from pipegraph.graphs import load, ready_made
from pipegraph.graphs.editor.naming import named
from pipegraph.graphs.schema import BAD, Graph, GraphInput, Link
from pipegraph.runtime.errors import GraphError, nearest

from .show import problems

ARGS: Final = "pipegraph.args"
"""Key in a click context's ``meta``: the arguments, the command's name first."""
JSON: Final = "pipegraph.json"
"""Key in a click context's ``meta``: stdout is for JSON lines."""
_GRAPH: Final = "pipegraph.graph"
_OPTIONS: Final = "pipegraph.options"
_INPUTS: Final = "pipegraph.inputs"


@dataclass(frozen=True, slots=True)
class Call:
    """A graph and its inputs from the command line; values are text, as typed."""

    graph: Graph
    inputs: dict[str, str]
    overrides: dict[str, str]


def complete_graphs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete names of ready-made graphs and files."""
    names = [name for name in ready_made.names() if name.startswith(incomplete)]
    if not names:
        return [CompletionItem(incomplete, type="file")]  # the shell looks for files itself
    return [CompletionItem(name) for name in dict.fromkeys([*names, *glob(f"{escape(incomplete)}*")])]


class GraphCommand(click.Command):
    """A command with an argument FILE and, besides its own options, one option for each input of that graph."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        source, flags = self._look_ahead(ctx, args)
        ctx.meta[JSON] = "--json" in flags
        ctx.meta[ARGS] = [ctx.info_name, *args]
        if source is not None:
            try:
                ctx.meta[_GRAPH] = read(source)
            except GraphError as error:
                if ctx.resilient_parsing:  # shell completion
                    return super().parse_args(ctx, args)
                if "--help" not in flags:
                    raise
                problems(error.problems, error.unlisted)
        graph: Graph | None = ctx.meta.get(_GRAPH)
        if graph and "--help" in flags:
            graph = ctx.meta[_GRAPH] = _with_names(graph)
        taken = {name for param in self.params for name in param.opts}
        ctx.meta[_OPTIONS] = [*_options(graph.inputs.values(), taken)] if graph else []
        ctx.meta[_INPUTS] = {}
        ctx.ignore_unknown_options = ctx.allow_extra_args = True
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *ctx.meta.get(_OPTIONS, ())]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        graph: Graph | None = ctx.meta.get(_GRAPH)
        theirs = [record for p in ctx.meta.get(_OPTIONS, ()) if (record := p.get_help_record(ctx))]
        ours = [p.get_help_record(ctx) for p in super().get_params(ctx) if isinstance(p, click.Option)]
        if graph:
            with formatter.section(f"Inputs of {graph.source}"):
                if theirs:
                    formatter.write_dl(theirs)
                else:
                    formatter.write_text("none; --set NODE.INPUT=VALUE changes any input of a node:")
                    formatter.write_dl([*_nodes(graph)])
        with formatter.section("Options"):
            formatter.write_dl([record for record in ours if record])

    def _look_ahead(self, ctx: click.Context, args: Sequence[str]) -> tuple[str | None, set[str]]:
        """FILE and the given flags, before the inputs of the graph are known. Every unknown option takes a value."""
        own = {name: p for p in super().get_params(ctx) for name in p.opts if isinstance(p, click.Option)}
        source, flags, at = None, set[str](), 0
        while at < len(args):
            arg, param = args[at], own.get(args[at])
            at += 1
            if arg == "-" or not arg.startswith("-"):
                source = arg if source is None else source
            elif isinstance(param, click.Option) and param.is_flag:
                flags |= {max(param.opts, key=len)}
            elif "=" not in arg:
                at += 1
        return source, flags


def _with_names(graph: Graph) -> Graph:
    """The graph with the defaults of its inputs: in a file of ComfyUI's editor the nodes tell which values they are."""
    if graph.editor is None:
        return graph
    from .nodes import load_catalog

    return named(graph, load_catalog(()).slots)


def _nodes(graph: Graph) -> Iterator[tuple[str, str]]:
    """The nodes of a graph by id, with their titles and the inputs that have values."""
    for use in graph.nodes.values():
        values = [name for name, value in use.inputs.items() if not isinstance(value, Link) and value is not BAD]
        if values:
            title = f"{use.shown} ({use.type})" if use.shown else use.type
            yield use.id, f"{title}: {', '.join(values)}"


def read(source: str) -> Graph:
    """The graph of FILE, as far as it is valid; ``-`` reads standard input."""
    if source == "-":
        return load.read(sys.stdin.buffer, "standard input", partial=True)
    return load.load(source, partial=True)


def call_of(ctx: click.Context, settings: Sequence[str]) -> Call:
    """The call, from a parsed context and the values of ``--set``."""
    graph: Graph = ctx.meta[_GRAPH]
    inputs: dict[str, str] = ctx.meta[_INPUTS] | _unknown(ctx)
    overrides: dict[str, str] = {}
    for setting in settings:
        address, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError(f'--set takes NODE.INPUT=VALUE, got "{setting}"')
        (inputs if address in graph.inputs else overrides)[address] = value
    _read_stdin(graph, inputs, taken=ctx.params.get("file") == "-")
    return Call(graph, inputs, overrides)


def _read_stdin(graph: Graph, inputs: dict[str, str], taken: bool) -> None:
    """Replace ``-`` as the value of a long text by standard input."""
    names = [name for name, value in inputs.items() if value == "-" and _is_long(graph, name)]
    if not names:
        return
    if taken or len(names) > 1:
        which = " and ".join([*["FILE"] * taken, *(f"--{name}" for name in names)])
        raise click.UsageError(f"standard input can be read once, and {which} are to be read from it")
    try:
        inputs[names[0]] = sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise click.UsageError(f"--{names[0]} -: standard input is no UTF-8 text: {error}") from error


def _is_long(graph: Graph, name: str) -> bool:
    port = graph.inputs.get(name)
    return port is not None and port.type == "STRING" and port.multiline


def typed_paths(call: Call) -> list[str]:
    """Files and folders among the typed values: they may be read anywhere."""
    values = [*call.inputs.values(), *call.overrides.values()]
    return [value for value in values if value and os.path.exists(os.path.expanduser(value))]


def _unknown(ctx: click.Context) -> dict[str, str]:
    """Unknown options, as graph inputs: checking reports all of them at once."""
    inputs: dict[str, str] = {}
    args = iter(ctx.args)
    for arg in args:
        if not arg.startswith("-"):
            raise click.UsageError(f'unexpected argument "{arg}"; quote texts that hold spaces')
        name, equals, value = arg.lstrip("-").partition("=")
        own = [n for p in ctx.command.params for n in p.opts]
        graph: Graph = ctx.meta[_GRAPH]
        if not nearest(name, graph.inputs) and (hint := nearest(f"--{name}", own)):
            raise click.UsageError(f"no such option: --{name}. {hint}")
        inputs[name] = value if equals else next(args, "")
    return inputs


def _options(ports: Iterable[GraphInput], taken: set[str]) -> Iterator[click.Option]:
    """Options for the graph's inputs; inputs whose name is taken need ``--set NAME=VALUE``."""
    for number, port in enumerate(ports):
        names = {f"--{port.name.replace('_', '-')}", f"--{port.name}"} - taken
        if names and re.fullmatch(r"[\w-]+", port.name):
            decls = [f"graph_input_{number}", *sorted(names, key=lambda n: "_" in n)]
            keep = partial(_keep, port.name)
            complete = partial(_complete_choices, port.choices or ())
            yield click.Option(
                decls, metavar=port.type, help=_help(port), expose_value=False, callback=keep, shell_complete=complete
            )


def _complete_choices(choices: Sequence[str], ctx: object, param: object, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(choice) for choice in choices if choice.startswith(incomplete)]


def _keep(name: str, ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.meta[_INPUTS][name] = value


def _help(port: GraphInput) -> str:
    low, high = port.minimum, port.maximum
    span = f"{'' if low is None else low}..{'' if high is None else high}"
    facts = [
        ", ".join(port.choices or ()),
        span.replace(str(2**64 - 1), "2^64-1") if span != ".." else "",
        "required" if port.required else f"default: {port.default if port.default is not None else 'drawn'}",
    ]
    return f"{port.description}  [{'; '.join(filter(None, facts))}]"
