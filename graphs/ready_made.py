"""The graphs that come with pipegraph, found by name."""

from __future__ import annotations

from importlib.resources import files

from .errors import closest


def names() -> list[str]:
    """Names of the ready-made graphs, e.g. ``flux.json``."""
    folder = files("pipegraph.graphs") / "library"
    return sorted(f.name for f in folder.iterdir() if f.name.endswith(".json")) if folder.is_dir() else []


def find(name: str) -> bytes | None:
    """The file of a ready-made graph, with or without ``.json``, or None."""
    full = name if name.endswith(".json") else f"{name}.json"
    return (files("pipegraph.graphs") / "library" / full).read_bytes() if full in names() else None


def near(name: str) -> list[str]:
    """The ready-made graphs of similar names."""
    close = closest(name.removesuffix(".json"), [known.removesuffix(".json") for known in names()])
    return [f"{stem}.json" for stem in close]
