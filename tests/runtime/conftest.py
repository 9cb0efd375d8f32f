"""Toy nodes without torch, and a fixture that runs a graph of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Le

from pipegraph.graphs.load import load
from pipegraph.runtime.cache import MemoryCache
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check
from pipegraph.runtime.events import Event
from pipegraph.runtime.node import (
    Auto,
    Choices,
    FileInput,
    Lazy,
    NodeEvent,
    Preview,
    Progress,
    RunContext,
    Saved,
    Seed,
    Text,
    Wire,
    node,
    outputs,
)
from pipegraph.runtime.plan import Settings, plan
from pipegraph.runtime.run import Result, Runner

CALLS: Counter[str] = Counter()
Picture = Annotated[Any, Wire("IMAGE")]
Anything = Annotated[Any, Wire("*")]
MODELS: dict[str, dict[str, Any]] = {
    "small": {"steps": 4, "cfg": 1.5},
    "large": {"steps": 20, "cfg": 3},
    "odd": {"steps": 0},
    "none": {},
}


class Pixels:
    """Stands for a tensor."""

    def __init__(self, nbytes: int = 1000, finite: bool = True) -> None:
        self.nbytes, self.finite, self.shape = nbytes, finite, (1, 1, nbytes, 1)

    def isfinite(self) -> Pixels:
        return self

    def all(self) -> bool:
        return self.finite


@node("Add", category="toy")
def add(a: int, b: int = 1) -> int:
    """Add whole numbers.

    Args:
        a: One.
        b: The other.
    """
    CALLS["Add"] += 1
    return a + b


@outputs
class Parts:
    """Quotient and remainder."""

    quotient: int
    remainder: int


@node("Divide", category="toy")
def divide(a: int, b: Annotated[int, Ge(1), Le(100)] = 2) -> Parts:
    """Divide whole numbers.

    Args:
        a: What to divide.
        b: By what.
    """
    CALLS["Divide"] += 1
    return Parts(a // b, a % b)


@node("Half", category="toy")
def half(value: float) -> float:
    """Half of a number.

    Args:
        value: The number.
    """
    if type(value) is not float:
        raise AssertionError(f"not a float: {value!r}")
    return value / 2


@node("Draw", category="toy", effect="random")
def draw(
    seed: Annotated[int, Ge(0), Le(2**64 - 1), Seed()],
    steps: Annotated[int, Ge(1), Le(100), Auto("steps")] = 20,
    cfg: Annotated[float, Ge(0), Auto("cfg")] = 7.0,
    name: Annotated[str, Choices(lambda: ["euler", "heun", "dpm_2"])] = "euler",
    mode: Literal["fast", "fine"] = "fast",
    tiled: bool = False,
    model: Annotated[Any, Wire("MODEL")] | None = None,
) -> Picture:
    """Draw a picture.

    Args:
        seed: Seed.
        steps: Steps.
        cfg: Guidance.
        name: Sampler.
        mode: Mode.
        tiled: In tiles, which gives NaN.
        model: Model.
    """
    CALLS["Draw"] += 1
    return Pixels(finite=not tiled)


@node("Load", category="toy", recommend=lambda model_name: MODELS[model_name])
def load_model(model_name: str) -> Annotated[Any, Wire("MODEL")]:
    """Load a model.

    Args:
        model_name: Its name.
    """
    return object()


@node("Count", category="toy")
def count(image: Picture) -> int:
    """Count pictures.

    Args:
        image: A picture.
    """
    return 1


@node("Read", category="toy")
def read(path: Annotated[str, FileInput(lambda name: [found(name)], lambda: ["there.txt"])]) -> str:
    """Read a file.

    Args:
        path: Its name.
    """
    CALLS["Read"] += 1
    return found(path).read_text()


def found(name: str) -> Path:
    if not Path(name).exists():
        raise LookupError(f"no file {name!r}; looked in the current folder")
    return Path(name)


@node("Switch", category="toy")
def switch(which: bool, yes: Lazy[Anything] | None = None, no: Lazy[Anything] | None = None) -> Anything:
    """Choose.

    Args:
        which: Which one.
        yes: One.
        no: The other.
    """
    chosen = yes if which else no
    assert chosen is not None
    return chosen.get()


@node("Same", category="toy")
def same(value: Anything) -> Anything:
    """Give a value on.

    Args:
        value: Any value.
    """
    CALLS["Same"] += 1
    return value


@node("Pair", category="toy")
def pair(a: Anything, b: Anything, steps: Annotated[int, Auto("steps")] = 1) -> Anything:
    """Give the first of two values on.

    Args:
        a: One.
        b: The other.
        steps: Steps.
    """
    return a


@node("Now", category="toy", effect="volatile")
def now() -> int:
    """A number that is never the same."""
    CALLS["Now"] += 1
    return time.perf_counter_ns()


class Beside(BaseException):
    """A library's own kind, beside Exception."""


class Mute(Exception):
    """Its message cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


HOW = Literal["raise", "nan", "wrong", "memory", "torch", "exit", "own base", "mute"]


@node("Fail", category="toy")
def fail(value: Anything, how: HOW = "raise") -> float:
    """Go wrong.

    Args:
        value: Any value.
        how: In which way.
    """
    CALLS["Fail"] += 1
    if how == "raise":
        raise ValueError("no luck")
    if how == "memory":
        raise MemoryError
    if how == "exit":
        raise SystemExit(3)
    if how == "own base":
        raise Beside("beside Exception")
    if how == "mute":
        raise Mute
    if how == "torch":
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:119] DefaultCPUAllocator: can't allocate memory: 9 bytes")
    return float("nan") if how == "nan" else "text"  # type: ignore[return-value]


@node("Steps", category="toy")
def steps(total: int, pause: float = 0.0) -> Generator[NodeEvent, None, int]:
    """Work in steps.

    Args:
        total: How many.
        pause: Seconds each.
    """
    CALLS["Steps"] += 1
    for i in range(total):
        time.sleep(pause)
        CALLS["step"] += 1
        yield Progress(i + 1, total)
        yield Preview(Pixels())
        yield Text(f"{i} ")
    return total


@node("Save", category="toy", effect="writes", output_node=True)
def save(
    text: Anything, ctx: RunContext, name: str = "out_%n.txt", temporary: bool = False
) -> Generator[NodeEvent, None, None]:
    """Save a text.

    Args:
        text: What to save.
        name: File name.
        temporary: Into the folder for previews.
    """
    CALLS["Save"] += 1
    ctx.note("length", len(str(text)))
    if temporary:
        ctx.warn("for a short time only")
    yield Saved(ctx.write(name, str(text).encode(), temporary=temporary), "text", temporary)


@node("Where", category="toy", effect="volatile")
def where(ctx: RunContext) -> str:
    """Say what the context says."""
    return f"{ctx.node_id} {ctx.device} {ctx.dtype} {sorted(ctx.reproduce)}"


@node("Doubt", category="toy")
def doubt(ctx: RunContext, value: int) -> int:
    """Give a value back, and say that it was not used whole.

    Args:
        value: What to give back.
    """
    ctx.warn(f"{value} was not used whole")
    ctx.note("used", value)
    return value


NODES = (
    doubt,
    add,
    divide,
    half,
    draw,
    load_model,
    count,
    read,
    switch,
    same,
    pair,
    now,
    fail,
    steps,
    save,
    where,
)


@pytest.fixture
def calls() -> Counter[str]:
    """How often each toy node was called in this test."""
    CALLS.clear()
    return CALLS


@pytest.fixture
def catalog() -> Catalog:
    return Catalog.of(*NODES)


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setenv("PIPEGRAPH_CACHE", str(tmp_path / "cache"))
    return Runner(cache=MemoryCache(8 << 20))


Go = Callable[..., Result]


@pytest.fixture
def go(catalog: Catalog, runner: Runner, tmp_path: Path, calls: Counter[str]) -> Go:
    """Runs nodes, given as ``{id: (class, inputs)}`` or as a document, with inputs of the graph as keywords."""

    def run(
        nodes: Mapping[str, Any],
        end: str | None = None,
        *,
        on_event: Callable[[Event], None] | None = None,
        settings: Settings | None = None,
        run_id: str | None = None,
        **inputs: Any,
    ) -> Result:
        document = nodes if "pipegraph" in nodes else short(nodes, end)
        planned = plan(check(load(document), catalog, inputs), settings)
        return runner.run(planned, output_dir=tmp_path / "out", on_event=on_event, run_id=run_id)

    return run


def short(nodes: Mapping[str, Any], end: str | None = None) -> dict[str, Any]:
    """A native document from ``{id: (class, inputs)}``; ``end`` names the node whose first output counts."""
    made = {id: {"class_type": kind, "inputs": inputs} for id, (kind, inputs) in nodes.items()}
    return {"pipegraph": 1, "nodes": made, "outputs": {"out": [end, 0]} if end else {}}


@pytest.fixture(name="short")
def short_fixture() -> Callable[..., dict[str, Any]]:
    return short
