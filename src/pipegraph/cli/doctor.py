"""``pipegraph doctor``: check the machine and the installation."""

from __future__ import annotations

import importlib.metadata as metadata
import os
import platform
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from .show import columns, json_line


class Check(NamedTuple):
    """One check: ``ok``, ``note`` (works, with limits) or ``missing`` (does not work)."""

    status: str
    what: str
    found: str


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Check this machine and this installation; exit code 1 if something needed is missing."""
    checks = [*_python(), *_packages(), *_torch(), *_models(), *_output()]
    if as_json:
        json_line([check._asdict() for check in checks])
    else:
        columns(checks)
    ctx.exit(any(check.status == "missing" for check in checks))


def _python() -> Iterator[Check]:
    yield Check("ok", "python", f"{platform.python_version()} on {platform.platform()}, {os.cpu_count()} cores")


def _packages() -> Iterator[Check]:
    """Required packages and versions, without importing them."""
    from packaging.requirements import Requirement

    place = Path(__file__).parents[1]
    try:
        yield Check("ok", "pipegraph", f"{metadata.version('pipegraph')}, {place}")
    except metadata.PackageNotFoundError:
        yield Check("note", "pipegraph", f"not installed, used from {place}")
    for line in _needed():
        wanted = Requirement(line)
        if wanted.marker and not wanted.marker.evaluate():
            continue
        try:
            version = metadata.version(wanted.name)
        except metadata.PackageNotFoundError:
            yield Check("missing", wanted.name, f"not installed: pip install '{wanted}'")
            continue
        fits = wanted.specifier.contains(version, prereleases=True)
        yield Check(
            "ok" if fits else "missing",
            wanted.name,
            version if fits else f"{version}, but {wanted.specifier} is needed",
        )


def _needed() -> list[str]:
    """Requirements of the installation, or of the checkout."""
    try:
        return metadata.requires("pipegraph") or []
    except metadata.PackageNotFoundError:
        project = Path(__file__).parents[3] / "pyproject.toml"
        project_table = tomllib.loads(project.read_text(encoding="utf-8"))["project"] if project.is_file() else {}
        return [*project_table.get("dependencies", ())]


def _torch() -> Iterator[Check]:
    try:
        import torch
    except Exception as error:  # a broken build raises OSError and others
        yield Check("missing", "torch", "cannot be imported: " + " ".join(str(error).split()))
        return
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            card = torch.cuda.get_device_properties(i)
            yield Check("ok", f"cuda:{i}", f"{card.name}, {card.total_memory / 2**30:.1f} GiB")
    elif torch.backends.mps.is_available():
        yield Check("ok", "mps", "Metal")
    else:
        build = f"torch is built for CUDA {torch.version.cuda}" if torch.version.cuda else "torch is a CPU build"
        yield Check("note", "gpu", f"none found ({build}); graphs run on the CPU")


def _models() -> Iterator[Check]:
    from pipegraph.models import paths

    for kind in ("checkpoints", "diffusion_models", "text_encoders", "vae", "loras", "controlnet"):
        names = paths.names(kind)
        shipped = sum(n.startswith("embedded/") for n in names)
        status = "missing" if kind == "checkpoints" and not shipped else "ok"
        yield Check(status, kind, f"{shipped} shipped, {len(names) - shipped} of yours")
    for root in paths.model_roots():
        yield Check("ok" if root.is_dir() else "note", "model folder", f"{root}{'' if root.is_dir() else ' (absent)'}")
    yield Check("ok" if paths.hub_cache().is_dir() else "note", "hub cache", str(paths.hub_cache()))


def _output() -> Iterator[Check]:
    folder = Path("output")
    base = folder if folder.is_dir() else Path(".")
    try:
        with tempfile.TemporaryFile(dir=base):
            yield Check("ok", "output", f"{folder.resolve()} can be written")
    except OSError as error:
        yield Check("note", "output", f"{folder.resolve()} cannot be written ({error.strerror}); use --out")
    yield Check(
        "ok", "terminal", f"stdout {sys.stdout.encoding}, progress bars {'on' if sys.stderr.isatty() else 'off'}"
    )
