"""``pipegraph run``: run a graph, show progress, print results."""

from __future__ import annotations

import json
import signal
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from pipegraph.runtime.errors import RunError

from .call import ARGS, Call, GraphCommand, call_of, complete_graphs, typed_paths
from .nodes import load_catalog, nodes_option
from .show import echo, json_line
from .streams import results_apart

if TYPE_CHECKING:
    from pipegraph.api import Workflow


@click.command(cls=GraphCommand)
@click.argument("file", metavar="FILE", shell_complete=complete_graphs)
@click.option("--set", "settings", multiple=True, metavar="NODE.INPUT=VALUE", help="Set an input. May be repeated.")
@click.option("--out", default="output", show_default=True, type=click.Path(path_type=Path), help="Folder to save to.")
@click.option("--device", help="cpu, cuda, cuda:1, ...; auto: a GPU if there is one (default).")
@click.option("--dtype", type=click.Choice(["auto", "fp32", "fp16", "bf16"]), help="Dtype of networks; default: auto.")
@click.option("--kernels", metavar="OP=BACKEND,...", help="Choose back ends; `pipegraph kernels` lists them.")
@click.option(
    "--quantize",
    type=click.Choice(["none", "q8", "fp8", "w4"]),
    help="Quantize weights of models and text encoders to 8 or 4 bits while loading.",
)
@click.option(
    "--parallel",
    default=1,
    show_default=True,
    type=click.IntRange(min=1),
    metavar="N",
    help="Share the sampling of a video among N processes, each with its own GPU, or the CPU.",
)
@nodes_option
@click.option("--record", "keep_record", is_flag=True, help="Save the run record next to the first file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON event a line on stdout, and nothing else there.")
@click.option("--verbose", "-v", is_flag=True, help="Also show the value of each `auto`.")
@click.option("--debug", is_flag=True, help="Show the traceback of a node that fails.")
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    settings: tuple[str, ...],
    out: Path,
    device: str | None,
    dtype: str | None,
    kernels: str | None,
    quantize: str | None,
    parallel: int,
    packs: tuple[Path, ...],
    keep_record: bool,
    as_json: bool,
    verbose: bool,
    debug: bool,
) -> None:
    """Run a graph and save its results.

    FILE is a path, the name of a ready-made graph, a picture or video with its graph, or - for standard input.
    Options for the inputs of the graph come from the graph: `pipegraph run FILE --help` lists them. Paths of saved
    files go to stdout, progress to stderr. A picture or video is run with the settings it was made with; options win.
    """
    call = call_of(ctx, settings)

    from pipegraph.api import Workflow
    from pipegraph.quiet import quiet

    quiet()
    signal.signal(signal.SIGTERM, _interrupt)
    shared: dict[str, Any] = {"device": device, "dtype": dtype, "kernels": kernels, "quantize": quantize}
    workflow = Workflow(call.graph, load_catalog(packs), out=out, allow=typed_paths(call), **shared)
    checked = workflow.check(call.overrides, **call.inputs)  # before torch is imported
    if parallel == 1:
        try:
            _run(workflow, call, keep_record, as_json, verbose)
        except RunError as error:
            if where := locate(error.__cause__, debug):
                echo(where, err=True)
            raise
        return
    from . import parallel as processes

    process = processes.current_process()
    if process is None:
        processes.check(checked, file, device or workflow.made_with.get("device", "auto"))
        ctx.exit(processes.launch(ctx.meta[ARGS], parallel, checked.seeds, as_json))
    with processes.joined(process, workflow, debug):
        if process.rank:
            processes.follow(workflow, call)
        else:
            _run(workflow, call, keep_record, as_json, verbose, parallel)


def _run(
    workflow: Workflow, call: Call, keep_record: bool, as_json: bool, verbose: bool = False, processes: int = 1
) -> None:
    """Run a workflow and print its events; failures only if this is the only process."""
    from .progress import listener

    with results_apart(), listener(as_json, verbose) as tell:
        workflow.on_event = lambda event: tell(event) if processes == 1 or event.kind != "failed" else None
        result = workflow.run(call.overrides, **call.inputs)
    if not any(event.kind in ("saved", "text", "token") for event in result.events.since()):
        hint = "add a node that does, e.g. SaveImage or PreviewAny"
        echo(f"{click.style('warning', fg='yellow')}: no node of this graph saved or showed anything; {hint}", err=True)
    if not as_json:
        for line in _weights(result.record):
            echo(line, err=True)
    if keep_record:
        record = result.record if processes == 1 else {**result.record, "processes": processes}
        path = _save_record(record, [*result.files], workflow.out, result.run_id)
        json_line({"event": "record", "path": str(path)}) if as_json else echo(f"record {path}", err=True)


def _weights(record: dict[str, Any]) -> list[str]:
    """Storage of quantized weights, one line per network; the record names the layers."""
    from pipegraph.models.quantize import summary

    recorded = [noted["weights"] for noted in record["notes"].values() if "weights" in noted]
    return [f"weights of {name}: {summary(stored)}" for networks in recorded for name, stored in networks.items()]


def _interrupt(*_: Any) -> NoReturn:
    """Treat SIGTERM as Ctrl-C."""
    raise KeyboardInterrupt


def locate(cause: BaseException | None, debug: bool) -> str:
    """Where a node failed, in words; empty if unknown."""
    if cause and debug:
        return "".join(traceback.format_exception(cause))
    frames = traceback.extract_tb(cause.__traceback__) if cause else []
    return f"failed at {frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""


def _save_record(record: dict[str, Any], files: list[Path], out: Path, run_id: str) -> Path:
    from pipegraph.runtime.files import replace_file

    path = files[0].with_suffix(".record.json") if files else out / f"{run_id}.record.json"
    replace_file(path, (json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())
    return path
