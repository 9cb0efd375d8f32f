"""``pipegraph bench``: measure this machine."""

from __future__ import annotations

from pathlib import Path

import click


@click.group()
def command() -> None:
    """Measure this machine."""
    from pipegraph.quiet import quiet

    quiet()


@command.command()
@click.option(
    "--suite", default="", help="Suites to run, separated by commas: attention, linear, few-rows, decode, fused."
)
@click.option("--device", default="", help="Device type; default: as for runs.")
@click.option(
    "--budget", type=float, default=420, show_default=True, help="Seconds after which no new benchmark starts."
)
@click.option("--json", "json", type=click.Path(path_type=Path, dir_okay=False), help="Write the numbers to a file.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw them, e.g. to kernels.png.")
@click.option("--check", is_flag=True, help="Run the conformance kit over all back ends first.")
@click.pass_context
def kernels(
    ctx: click.Context, suite: str, device: str, budget: float, json: Path | None, plot: Path | None, check: bool
) -> None:
    """Time the kernels against those of other libraries, each checked against float64 first.

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


@command.command()
@click.option(
    "--shape", default="135m", show_default=True, type=click.Choice(["135m", "tiny"]), help="Size of a Llama."
)
@click.option("--model", help="A GGUF file among your models, compared with llama.cpp if xllamacpp is installed.")
@click.option("--formats", default="fp32,q8,w4", show_default=True, help="Weight formats, separated by commas.")
@click.option("--prompt", type=click.IntRange(1, 4000), default=64, show_default=True, help="Prompt tokens.")
@click.option("--tokens", type=click.IntRange(1), default=16, show_default=True, help="Generated tokens.")
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Repetitions of each measurement.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="CPU threads.")
def llm(shape: str, model: str | None, formats: str, prompt: int, tokens: int, rounds: int, threads: int) -> None:
    """Time a language model on the CPU against transformers' generate on the same weights."""
    from pipegraph.models.llm.bench import bench, bench_file

    if model:
        try:
            result = bench_file(model, prompt, tokens, rounds, threads)
        except (LookupError, ImportError) as error:
            raise click.UsageError(str(error)) from None
        return click.echo(result.table())

    names = tuple(name for name in formats.split(",") if name)
    if unknown := set(names) - {"fp32", "q8", "w4", "fp8"}:
        raise click.UsageError(f"no such format: {', '.join(sorted(unknown))}; there are fp32, q8, w4, fp8")
    click.echo(bench(shape, names, prompt, tokens, rounds, threads).table())
