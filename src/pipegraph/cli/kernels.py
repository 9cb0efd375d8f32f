"""``pipegraph kernels``: which back end serves each operation here, and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from .show import columns, json_line

if TYPE_CHECKING:
    from pipegraph.kernels.dispatch import Report

DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


@click.command()
@click.argument("op", required=False)
@click.option("--device", default="", help="Kind of device, such as cpu or cuda; the one runs would use if not given.")
@click.option("--dtype", type=click.Choice([*DTYPES]), default="fp32", show_default=True, help="Number format.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(op: str | None, device: str, dtype: str, as_json: bool) -> None:
    """Show which back end serves each operation, or the operation OP, and why.

    PIPEGRAPH_KERNELS=attention=torch,linear=torch, or --kernels of `run`, chooses others.
    """
    from pipegraph.api import default_device
    from pipegraph.kernels.dispatch import KernelError, explain

    device = (device or default_device()).split(":")[0]
    try:
        reports = explain(op, device, DTYPES[dtype])
    except KernelError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        json_line([asdict(report) for report in reports])
    else:
        click.echo(f"on {device} in {dtype}")
        columns([_row(report) for report in reports])


def _row(report: Report) -> tuple[str, ...]:
    mark = "used" if report.chosen else "" if report.usable else "cannot"
    return report.op, report.backend, mark, report.numerics, report.source, report.why
