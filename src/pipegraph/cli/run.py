"""``pipegraph run``: run a graph, tell how it goes, print what was made."""

from __future__ import annotations

import json
import signal
import traceback
from pathlib import Path
from typing import Any, NoReturn

import click

from pipegraph.runtime.errors import RunError

from .call import GraphCommand, allow_paths, call_of
from .nodes import load_catalog, nodes_option
from .show import echo, json_line


@click.command(cls=GraphCommand)
@click.argument("file", metavar="FILE")
@click.option("--set", "settings", multiple=True, metavar="NODE.INPUT=VALUE", help="Set an input. May be repeated.")
@click.option("--out", default="output", show_default=True, type=click.Path(path_type=Path), help="Folder to save to.")
@click.option(
    "--device", default="auto", show_default=True, help="cpu, cuda, cuda:1, ...; auto: a GPU if there is one."
)
@click.option("--dtype", type=click.Choice(["auto", "fp32", "fp16", "bf16"]), default="auto", show_default=True)
@click.option(
    "--kernels", default="", metavar="OP=BACKEND,...", help="Choose back ends; `pipegraph kernels` lists them."
)
@click.option(
    "--quantize",
    type=click.Choice(["q8", "fp8", "w4"]),
    help="Keep weights of models and text encoders in 8 or 4 bits; done while loading.",
)
@nodes_option
@click.option("--record", "keep_record", is_flag=True, help="Save the run record beside the first file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON event a line on stdout, and nothing else there.")
@click.option("--debug", is_flag=True, help="Show the traceback of a node that fails.")
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    settings: tuple[str, ...],
    out: Path,
    device: str,
    dtype: str,
    kernels: str,
    quantize: str | None,
    packs: tuple[Path, ...],
    keep_record: bool,
    as_json: bool,
    debug: bool,
) -> None:
    """Run a graph and save what it makes.

    FILE is a path, the name of a ready-made graph, a picture that holds its graph, or - for standard input. Options
    for the inputs of the graph come from the graph: `pipegraph run FILE --help` lists them. Paths of saved files go to
    stdout, progress to stderr.
    """
    call = call_of(ctx, settings)
    allow_paths([*call.inputs.values(), *call.overrides.values()])

    from pipegraph.api import Workflow
    from pipegraph.quiet import quiet

    from .progress import listener

    quiet()
    signal.signal(signal.SIGTERM, _interrupt)
    shared: dict[str, Any] = {
        "out": out, "device": device, "dtype": dtype, "kernels": kernels, "quantize": quantize or "",
    }  # fmt: skip
    workflow = Workflow(call.graph, load_catalog(packs), **shared)
    workflow.check(call.overrides, **call.inputs)  # before torch is imported
    try:
        with listener(as_json) as tell:
            workflow.on_event = tell
            result = workflow.run(call.overrides, **call.inputs)
    except RunError as error:
        if cause := error.__cause__:
            _locate(cause, debug)
        raise
    if not any(event.kind in ("saved", "text", "token") for event in result.events.since()):
        hint = "add a node that does, e.g. SaveImage or PreviewAny"
        echo(f"{click.style('warning', fg='yellow')}: no node of this graph saved or showed anything; {hint}", err=True)
    if not as_json:
        for line in _weights(result.record):
            echo(line, err=True)
    if keep_record:
        path = _save_record(result.record, [*result.files], out, result.run_id)
        json_line({"event": "record", "path": str(path)}) if as_json else echo(f"record {path}", err=True)


def _weights(record: dict[str, Any]) -> list[str]:
    """How packed weights are kept, a line a network; the record says which layers."""
    from pipegraph.models.quantize import summary

    found = [noted["weights"] for noted in record["notes"].values() if "weights" in noted]
    return [f"weights of {name}: {summary(told)}" for networks in found for name, told in networks.items()]


def _interrupt(*_: Any) -> NoReturn:
    """A request to end is treated as Ctrl-C."""
    raise KeyboardInterrupt


def _locate(cause: BaseException, debug: bool) -> None:
    """Tell on stderr where a node failed."""
    if debug:
        echo("".join(traceback.format_exception(cause)), err=True)
    elif frames := traceback.extract_tb(cause.__traceback__):
        echo(f"failed at {frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}", err=True)


def _save_record(record: dict[str, Any], files: list[Path], out: Path, run_id: str) -> Path:
    from pipegraph.runtime.files import replace_file

    path = files[0].with_suffix(".record.json") if files else out / f"{run_id}.record.json"
    replace_file(path, (json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())
    return path
