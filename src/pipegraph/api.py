"""Run graphs from Python.

workflow = pg.load("flux.json")
result = workflow.run(prompt="a red umbrella on the beach", seed=7)
result["image"], result.files, result.record, result.timings
"""

from __future__ import annotations

import operator
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

from pipegraph.access import Access
from pipegraph.graphs.editor.naming import named as name_values
from pipegraph.graphs.load import load as load_graph
from pipegraph.graphs.schema import Graph
from pipegraph.in_memory import is_picture, named
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.check import check, examine
from pipegraph.runtime.checked import CheckedGraph
from pipegraph.runtime.errors import Cancelled, GraphError, NoSuchRun, Problem, RunFinished
from pipegraph.runtime.events import Event
from pipegraph.runtime.files import check_folder
from pipegraph.runtime.hashes import FileHashes
from pipegraph.runtime.plan import Plan, Settings, plan
from pipegraph.runtime.run import Result, Runner

__all__ = ["Result", "Workflow", "catalog", "default_device", "load", "runner"]
HASHED_BYTES = 100_000_000
"""Smaller files are hashed without an event."""
DTYPES = ("auto", "fp32", "fp16", "bf16")
QUANTIZE = ("none", "q8", "fp8", "w4")


@cache
def runner() -> Runner:
    """The runner of this process: all workflows share its cache, so a model is loaded once.

    Raises:
        GraphError: ``PIPEGRAPH_CACHE_MEMORY`` is not a size.
    """
    try:
        return Runner()
    except ValueError as error:
        text = os.environ.get("PIPEGRAPH_CACHE_MEMORY", "")
        raise _wrong("cache_memory", text, "a number of bytes like 512M or 1.5GiB", str(error)) from error


@cache
def default_device() -> str:
    """``cuda:0`` if torch sees a CUDA GPU, else ``cpu``. Imports torch."""
    import torch

    return "cuda:0" if torch.cuda.is_available() else "cpu"


def catalog(nodes: str | Path | Iterable[str | Path] = ()) -> Catalog:
    """The node library, with one or more further files or folders of nodes.

    Raises:
        GraphError: a given file fails to load. Installed packs that fail are in ``broken`` instead.
    """
    paths = [nodes] if isinstance(nodes, str | Path) else [*nodes]
    library = Catalog.load([Path(p) for p in paths]) if paths else _installed()
    named = [pack for pack in library.broken if Path(pack.source).is_absolute()]
    if named:
        raise GraphError(Problem(code="broken_nodes", message=p.error, place=p.source) for p in named)
    return library


@cache
def _installed() -> Catalog:
    """The node library and installed packs: they do not change while the process lives."""
    return Catalog.load()


class Workflow:
    """A graph with the nodes and settings it runs with. Its graph inputs are the keyword arguments of ``run``."""

    def __init__(
        self,
        graph: Graph,
        library: Catalog,
        *,
        out: str | Path = "output",
        device: str | None = None,
        dtype: str | None = None,
        kernels: str | None = None,
        quantize: str | None = None,
        allow: Iterable[str | Path] = (),
        save: bool = True,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        """See ``load``."""
        self.allow, self.save = [*allow], save
        self.graph, self.catalog = name_values(graph, library.slots), library
        self.out, self.on_event = Path(out), on_event
        if dtype is not None and dtype not in DTYPES:
            raise _wrong("dtype", dtype, "one of " + ", ".join(DTYPES))
        if quantize and quantize not in QUANTIZE:
            raise _wrong("quantize", quantize, "one of " + ", ".join(QUANTIZE))
        self.device, self.dtype, self.kernels, self.quantize = device, dtype, kernels, quantize
        self._running: dict[str, bool] = {}  # run id -> whether it is cancelled

    @property
    def made_with(self) -> Mapping[str, Any]:
        """Settings of the run that made the picture of the graph; defaults for settings that are None."""
        return self.graph.origin.settings if self.graph.origin else {}

    @property
    def inputs(self) -> dict[str, Any]:
        """The graph's inputs and their defaults; None for required inputs and drawn seeds."""
        return {name: port.default for name, port in self.graph.inputs.items()}

    def check(self, overrides: Mapping[str, Any] | None = None, /, **inputs: Any) -> CheckedGraph:
        """Check the graph and these values against the node library; arguments as for ``run``.

        Raises:
            GraphError: with every problem.
        """
        if overrides is not None and not isinstance(overrides, Mapping):
            names = ", ".join(self.graph.inputs) or "none"
            raise TypeError(f"give inputs of the graph by name ({names}), those of nodes as {{'node.input': value}}")
        graph, values, changed = self.graph, inputs, dict(overrides or {})
        if any(map(is_picture, [*values.values(), *changed.values()])):
            graph, values, changed = named(graph, self.catalog, values, changed)
        paths = [value for value in [*values.values(), *changed.values()] if isinstance(value, Path)]
        access = Access.to(*self.allow, *paths)
        return check(graph, self.catalog, _plain(values), overrides=_plain(changed), access=access)

    def plan(self, overrides: Mapping[str, Any] | None = None, /, **inputs: Any) -> Plan:
        """The plan of a run; arguments as for ``run``."""
        return self._plan(overrides, inputs, "")

    def _plan(self, overrides: Mapping[str, Any] | None, inputs: Mapping[str, Any], run_id: str) -> Plan:
        """The plan of a run, with events for large files that are hashed."""
        start = time.perf_counter()

        def reading(path: Path, size: int) -> None:
            if self.on_event and run_id and size >= HASHED_BYTES:
                seconds, data = time.perf_counter() - start, {"path": path, "bytes": size}
                self.on_event(Event(0, run_id, "hashing", seconds, data=data))

        checked = self.check(overrides, **inputs)
        hashes = FileHashes(on_read=reading)
        return plan(checked if self.save else checked.outputs_only(), self.settings(), hashes=hashes)

    def run(self, overrides: Mapping[str, Any] | None = None, /, **inputs: Any) -> Result:
        """Run the graph and wait for its end.

        Args:
            overrides: Other inputs of nodes, ``{"node.input": value}``.
            inputs: Values of the graph's inputs. For a file, a string is resolved as a name, and a ``pathlib.Path`` may
                be anywhere; an image may be a PIL image, a numpy array or a tensor, channels last, of uint8, uint16 or
                floating point in 0..1.

        Raises:
            GraphError: the graph or the values are invalid; nothing was run.
            RunError: a node failed.
            Cancelled: ``cancel`` was called, or Ctrl-C pressed.
        """
        run_id = uuid4().hex[:12]
        self._running[run_id] = False
        try:
            return self._run(run_id, self._plan(overrides, inputs, run_id))
        finally:
            del self._running[run_id]

    def _run(self, run_id: str, planned: Plan) -> Result:
        if any(step.node.entry.spec.saves for step in planned.steps):
            _writable(self.out)

        def tell(event: Event) -> None:
            if event.kind == "plan" and self._running[run_id]:  # cancelled before the runner knew the run
                runner().cancel(run_id)
            if self.on_event:
                self.on_event(event)

        if self._running[run_id]:
            raise Cancelled("the run was cancelled while it was planned")
        if not planned.settings.kernels:
            return runner().run(planned, output_dir=self.out, on_event=tell, run_id=run_id)
        from pipegraph.kernels.dispatch import use

        with use(**planned.settings.kernels):
            return runner().run(planned, output_dir=self.out, on_event=tell, run_id=run_id)

    def __repr__(self) -> str:
        return f"<Workflow of {len(self.graph.nodes)} nodes: inputs {', '.join(self.graph.inputs) or 'none'}>"

    def _repr_html_(self) -> str:
        from pipegraph.runtime.html import of_graph

        return of_graph(self.graph)

    def show(self, out: str | Path, overrides: Mapping[str, Any] | None = None, /, **inputs: Any) -> Path:
        """Draw the graph; nodes whose results are in the cache, and those that need not run, are marked.

        Args:
            out: File to write: ``.svg``, ``.png``, or ``.mmd`` or ``.md`` for Mermaid text.
            overrides: As for ``run``.
            inputs: As for ``run``.

        Raises:
            GraphError: the graph or the values are wrong; ``pipegraph show`` draws such graphs too.
            ValueError: ``out`` has another suffix.
        """
        from pipegraph.drawing.files import file_of
        from pipegraph.runtime.files import replace_file

        planned = self.plan(overrides, **inputs)
        marks = {id: "not needed" for id in self.graph.nodes if id not in planned.step_of}
        marks |= {id: "cached" for id, at in planned.step_of.items() if planned.steps[at].key in runner().cache}
        replace_file(Path(out), file_of(self.graph, self.catalog, Path(out), marks))
        return Path(out)

    def cancel(self) -> None:
        """Stop the runs of this workflow, from any thread: each ends within a step and raises ``Cancelled``."""
        for run_id in [*self._running]:
            self._running[run_id] = True
            try:
                runner().cancel(run_id)
            except (NoSuchRun, RunFinished):
                continue

    def settings(self) -> Settings:
        """Settings that affect numerical results; GraphError if this machine does not support them."""
        recorded = self.made_with
        device = _device(self.device) if self.device else _device_like(recorded.get("device", "auto"))
        kernels = _kernels(self.kernels) if self.kernels is not None else _kernels_like(recorded.get("kernels", {}))
        dtype = self.dtype or _among(DTYPES, recorded.get("dtype"))
        quantize = self.quantize if self.quantize is not None else _among(QUANTIZE, recorded.get("quantize"))
        return Settings(device, dtype, kernels, "" if quantize == "none" else quantize, _threads())


def load(
    source: str | Path | Mapping[str, Any],
    *,
    nodes: str | Path | Iterable[str | Path] = (),
    out: str | Path = "output",
    device: str | None = None,
    dtype: str | None = None,
    kernels: str | None = None,
    quantize: str | None = None,
    allow: Iterable[str | Path] = (),
    save: bool = True,
    on_event: Callable[[Event], None] | None = None,
) -> Workflow:
    """Load a graph as a workflow.

    A picture or video runs with the settings it was made with, as far as this machine supports them; arguments take
    precedence. ``Result.warnings`` names each setting, file and package version that differs from the first run.

    Args:
        source: Path to a graph or to a picture with one, name of a ready-made graph, or the document.
        nodes: Python files or folders with further nodes. Their code is run.
        out: Output folder.
        device: ``auto`` (a CUDA GPU if there is one), ``cpu``, ``cuda:1``, ...; None: as recorded in the
            picture, else ``auto``. The same for the next three.
        dtype: ``auto`` (as suits device and model), ``fp32``, ``fp16`` or ``bf16``.
        kernels: Back ends to use, such as ``attention=torch,linear=torch``.
        quantize: Weights of models and text encoders as ``q8``, ``fp8`` or ``w4``, quantized on loading, except fragile
            layers and weights that are quantized already. ``none``: weights as in their files.
        allow: Files and folders that the graph may name, besides those of models and inputs.
        save: False: run only what the graph's outputs need, without nodes that save or show.
        on_event: Called with every event of a run.

    Raises:
        GraphError: the file is invalid, with every problem of the graph; or a file of nodes does not load.
    """
    shared: dict[str, Any] = {
        "out": out,
        "device": device,
        "dtype": dtype,
        "kernels": kernels,
        "quantize": quantize,
        "allow": allow,
        "save": save,
        "on_event": on_event,
    }
    graph, library = load_graph(source, partial=True), catalog(nodes)
    if graph.problems:
        examine(graph, library)  # raises with every problem of the graph
    return Workflow(graph, library, **shared)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert values to JSON types: paths, and numbers and strings of other libraries and of subclasses."""
    return {name: value if type(value) in (str, int, float, bool) else _json(value) for name, value in values.items()}


def _json(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value.expanduser().resolve())
    if getattr(value, "shape", None) == ():  # of numpy or torch
        return value.item()
    value = value.value if isinstance(value, Enum) else value
    if isinstance(value, str | float):
        return str.__str__(value) if isinstance(value, str) else float(value)
    try:
        return operator.index(value)
    except TypeError:
        return value


def _device(name: str) -> str:
    """An available device with its index; ``auto`` is the default device."""
    if name == "auto":
        return default_device()
    import torch

    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError, ImportError) as error:
        raise _wrong("device", name, "auto, cpu, cuda or cuda:0, ...", str(error).split("\n")[0]) from error
    return f"{device.type}:{device.index or 0}" if device.type == "cuda" else str(device)


def _device_like(kind: str) -> str:
    """A device of this type, e.g. ``cuda``; the default device if there is none."""
    try:
        return _device(kind)
    except GraphError:
        return default_device()


def _among(names: Sequence[str], recorded: str | None) -> str:
    """The recorded name if it is known, else the first name."""
    return recorded if recorded and recorded in names else names[0]


def _threads() -> int:
    import torch

    return torch.get_num_threads()


def _writable(out: Path) -> None:
    """Check before the run that results can be saved."""
    try:
        check_folder(out)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise _wrong("out", str(out), "a folder that can be written", why) from error


def _kernels(choices: str) -> dict[str, str]:
    """Requested back ends, over those of the environment."""
    if not choices and not os.environ.get("PIPEGRAPH_KERNELS"):
        return {}
    from pipegraph.kernels import dispatch

    try:
        asked = dispatch.parse(os.environ.get("PIPEGRAPH_KERNELS", "")) | dispatch.parse(choices)
        with dispatch.use(**asked):
            return asked
    except dispatch.KernelError as error:
        raise _wrong("kernels", choices, "op=backend,op=backend", str(error)) from error


def _kernels_like(recorded: Mapping[str, Any]) -> dict[str, str]:
    """Recorded back ends, over those of the environment; the latter alone if they are not available."""
    try:
        return _kernels(",".join(f"{op}={backend}" for op, backend in recorded.items()))
    except GraphError:
        return _kernels("")


def _wrong(setting: str, got: str, wanted: str, why: str = "") -> GraphError:
    hint = f"{why[:1].upper()}{why[1:]}" if why else ""
    return GraphError(
        [Problem(code=f"bad_{setting}", message=f"{setting} cannot be used", got=got, wanted=wanted, hint=hint)]
    )
