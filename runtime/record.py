"""Run records: the full record for a file next to the output, and metadata that reproduces it, for each picture."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from pipegraph.graphs import write
from pipegraph.graphs.schema import Graph, Link

if TYPE_CHECKING:
    from .plan import Plan

_PACKAGES: Final = (
    "pipegraph",
    "torch",
    "diffusers",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "scipy",
    "pillow",
    "av",
    "triton",
)


@cache
def versions() -> Mapping[str, str]:
    """Versions of Python and of packages that affect numerical results, without importing them."""
    installed = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            installed[name] = version(name)
        except PackageNotFoundError:
            continue
    return installed


def reproducible(plan: Plan) -> dict[str, Any]:
    """Data that reproduces the output, and nothing that differs between two runs: no times, no paths.

    Drawn seeds are among the inputs. ``graph`` is the native form with the values of this run as defaults; ``pipegraph
    run`` reads it from a picture.
    """
    return {
        "graph": write.native(plan.checked.graph, plan.checked.inputs),
        "inputs": dict(plan.checked.inputs),
        "resolved": [asdict(r) for r in plan.resolved],
        "files": {f"{step.node.id}.{name}": digest for step in plan.steps for name, digest in step.files.items()},
        "settings": plan.settings.as_dict(),
        "versions": dict(versions()),
    }


def metadata(plan: Plan) -> dict[str, Any]:
    """Metadata of a picture, as JSON values: ``prompt``, ``pipegraph`` and, if the graph had one, ``workflow``."""
    texts = {"prompt": api_form(plan), "pipegraph": reproducible(plan)}
    return texts if plan.checked.graph.workflow is None else {**texts, "workflow": plan.checked.graph.workflow}


def api_form(plan: Plan) -> dict[str, Any]:
    """ComfyUI's API form of the graph as it ran: inputs filled in, each ``auto`` replaced by its value."""
    checked = plan.checked
    nodes = dict(checked.graph.nodes)
    for r in plan.resolved:
        nodes[r.node] = nodes[r.node]._replace(inputs={**nodes[r.node].inputs, r.input: r.value})
    entries = checked.catalog.entries

    def index(link: Link) -> int:
        output_index = entries[nodes[link.node].type].output_index
        return output_index[link.output] if isinstance(link.output, str) else link.output

    return write.api(Graph(nodes=nodes, inputs=checked.graph.inputs), checked.inputs, index)


def record(plan: Plan, run: Mapping[str, Any], notes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The whole record of a run, as JSON values.

    Args:
        plan: The plan.
        run: Facts of this run: id, start, status, seconds, timings, cached, saved files, warnings, peak memory.
        notes: Notes of nodes by node id.
    """
    files = {
        f"{step.node.id}.{name}": [str(path) for path in paths]
        for step in plan.steps
        for name, paths in step.node.files.items()
    }
    return {
        **reproducible(plan),
        "run": dict(run),
        "seeds": dict(plan.checked.seeds),
        "device": plan.settings.device,
        "paths": files,
        "notes": {id: dict(values) for id, values in notes.items()},
        "platform": {"system": platform.platform(), "machine": platform.machine()},
        "source": plan.checked.graph.source,
    }


def peak_memory() -> int:
    """Peak resident memory of this process in bytes; 0 if unknown."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def warnings(messages: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Warnings as JSON values."""
    return [{"node": node, "message": message} for node, message in messages]
