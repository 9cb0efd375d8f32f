"""Typed graphs of generative media: run JSON graphs of language, image and video models.

    import pipegraph as pg

    result = pg.load("flux.json").run(prompt="a red umbrella on the beach", seed=7)
    result["image"]  # float32 [B, H, W, C]

Names are imported when they are used: ``import pipegraph`` costs nothing.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

_checkout = Path(__file__).resolve().parents[2]
if (_checkout / "pyproject.toml").is_file():  # not installed from a wheel: the folders are at the root
    __path__.insert(0, str(_checkout))

if TYPE_CHECKING:
    from pipegraph.api import Result, Workflow, load
    from pipegraph.runtime.errors import Cancelled, DeclarationError, GraphError, PipegraphError, Problem, RunError
    from pipegraph.runtime.node import (
        Auto,
        Choices,
        Doc,
        FileInput,
        FileName,
        Lazy,
        Multiline,
        NodeEvent,
        NotBelow,
        Preview,
        Progress,
        RunContext,
        Saved,
        Seed,
        Step,
        Text,
        Token,
        Wire,
        node,
        outputs,
    )
    from pipegraph.typed_graph import Graph

__all__ = [  # noqa: RUF022 - what a caller needs comes first
    "load",
    "Graph",
    "Workflow",
    "Result",
    "Cancelled",
    "DeclarationError",
    "GraphError",
    "PipegraphError",
    "Problem",
    "RunError",
    "Auto",
    "Choices",
    "FileInput",
    "FileName",
    "Lazy",
    "Doc",
    "Multiline",
    "NodeEvent",
    "NotBelow",
    "Preview",
    "Progress",
    "RunContext",
    "Saved",
    "Seed",
    "Step",
    "Text",
    "Token",
    "Wire",
    "node",
    "outputs",
]
_HOMES = dict.fromkeys(("load", "Workflow", "Result"), "api") | {"Graph": "typed_graph"}
_ERRORS = {"Cancelled", "DeclarationError", "GraphError", "PipegraphError", "Problem", "RunError"}


def _version() -> str:
    """The installed version, or that of the checkout."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("pipegraph")
    except PackageNotFoundError:
        import tomllib

        return str(tomllib.loads((_checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def __getattr__(name: str) -> Any:
    if name in __all__:
        home = _HOMES.get(name) or ("runtime.errors" if name in _ERRORS else "runtime.node")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
    if name == "__version__":
        return _version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
