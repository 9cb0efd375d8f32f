"""``pipegraph kernels``: which back end serves each op here, and why."""

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
@click.option("--device", default="", help="Device type, such as cpu or cuda; default: as for runs.")
@click.option("--dtype", type=click.Choice([*DTYPES]), default="fp32", show_default=True, help="Dtype.")
@click.option("--prove", metavar="BACKEND", help="Test a back end of OP against its definition, on the device.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, op: str | None, device: str, dtype: str, prove: str | None, as_json: bool) -> None:
    """Show which back end serves each operation, or the operation OP, and why.

    PIPEGRAPH_KERNELS=attention=torch,linear=torch, or --kernels of `run`, chooses others. A back end of another package
    is chosen by rank only after --prove has passed it on this kind of device; exit code 1 if it does not pass.
    """
    from pipegraph.api import default_device
    from pipegraph.kernels.dispatch import KernelError, explain

    device = (device or default_device()).split(":")[0]
    try:
        if prove:
            if not op:
                raise click.UsageError("--prove needs an operation: pipegraph kernels attention --prove NAME")
            ctx.exit(_prove(op, prove, device, as_json))
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
    source = report.source if report.source != "pipegraph" else ""
    return report.op, report.backend, report.version, mark, report.numerics, source, report.why


def _prove(op: str, name: str, device: str, as_json: bool) -> int:
    """Run the conformance kit, store the result for a back end of another package, and return the exit code."""
    from pipegraph.kernels.dispatch import backends
    from pipegraph.kernels.proven import record
    from pipegraph.kernels.testing import conformance

    report = conformance(op, name, device)
    source = backends(op)[name].source
    if source != "pipegraph":
        record(op, name, source, device, report.passed)
    if as_json:
        json_line(asdict(report) | {"passed": report.passed})
    else:
        click.echo(str(report))
        if not report.served:
            click.echo(f"no case is supported: {report.checks[0].why}")
    return 0 if report.passed else 1
