"""``pipegraph bench``: measure this machine."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def command() -> None:
    """Measure this machine."""


@command.command()
@click.option(
    "--suite", default="", help="Suites to run, comma between them: attention, linear, few-rows, decode, fused."
)
@click.option("--device", default="", help="Kind of device; the one runs would use if not given.")
@click.option("--budget", type=float, default=420, show_default=True, help="Seconds after which nothing new is begun.")
@click.option("--json", "json", type=click.Path(path_type=Path, dir_okay=False), help="Write the numbers to a file.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw them, e.g. to kernels.png.")
@click.option("--check", is_flag=True, help="Run the conformance kit over all back ends first.")
@click.pass_context
def kernels(
    ctx: click.Context, suite: str, device: str, budget: float, json: Path | None, plot: Path | None, check: bool
) -> None:
    """Time the kernels beside those of other libraries, each checked against float64 first.

    Exit code 1 if a back end is wrong. On a CPU the shapes are tiny: the times mean little there.
    """
    from pipegraph.api import default_device
    from pipegraph.kernels.bench.__main__ import main
    from pipegraph.kernels.dispatch import KernelError

    names = tuple(name for name in suite.split(",") if name)
    try:
        ctx.exit(main(names, device or default_device(), budget, json, plot, check))
    except KernelError as error:
        raise click.UsageError(str(error)) from None
