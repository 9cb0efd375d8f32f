"""Which back ends of other packages have passed the conformance kit on this machine.

A back end from another package is chosen automatically only after it has (``pipegraph kernels OP --prove NAME``);
requested by name it runs anyway. Proofs are stored per op, device and version in the user's cache folder.
"""

from __future__ import annotations

import json
import os
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pipegraph.folders import cache_folder


def proven(op: str, backend: str, source: str, device: str) -> bool:
    """Whether this version of a back end has passed on this device type."""
    return _read().get(f"{op}/{backend}/{device}") == stamp(source)


def record(op: str, backend: str, source: str, device: str, passed: bool) -> None:
    """Store that a back end has passed, or remove its proof."""
    known = dict(_read())
    known.pop(key := f"{op}/{backend}/{device}", None)
    if passed:
        known[key] = stamp(source)
    path = _file()
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
    part.replace(path)
    _parse.cache_clear()


def stamp(source: str) -> str:
    """Versions of a proof: of the back end's package, torch and pipegraph."""
    return ", ".join(f"{name} {version_of(name) or 'unversioned'}" for name in (source, "torch", "pipegraph"))


@cache
def version_of(package: str) -> str:
    """The installed version of a package, without importing it; empty if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _file() -> Path:
    return cache_folder() / "proven_kernels.json"


def _read() -> dict[str, str]:
    return _parse(_file())


@cache
def _parse(path: Path) -> dict[str, str]:
    try:
        proofs = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return proofs if isinstance(proofs, dict) else {}
