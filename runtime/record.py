"""What a run was: the whole of it for a file beside the output, and what makes it again for inside every picture."""

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
    """Versions of Python and of the packages that decide about numbers; nothing is imported for it."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def reproducible(plan: Plan) -> dict[str, Any]:
    """What makes the same output again, and nothing that differs between two runs of it: no times, no paths.

    Which seeds were drawn is not told either: they are among the inputs, and given the second time.

    ``graph`` is the native form with the values of this run as defaults; ``pipegraph run`` reads it from a picture.
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
    """The texts of a picture, as JSON values: ``prompt``, ``pipegraph`` and, if the file had one, ``workflow``."""
    made = {"prompt": api_form(plan), "pipegraph": reproducible(plan)}
    return made if plan.checked.graph.workflow is None else {**made, "workflow": plan.checked.graph.workflow}


def api_form(plan: Plan) -> dict[str, Any]:
    """ComfyUI's API form of the graph as it ran: inputs filled in, each ``auto`` replaced by what it became."""
    checked = plan.checked
    nodes = dict(checked.graph.nodes)
    for r in plan.resolved:
        nodes[r.node] = nodes[r.node]._replace(inputs={**nodes[r.node].inputs, r.input: r.value})
    entries = checked.catalog.entries

    def index(link: Link) -> int:
        found = entries[nodes[link.node].type].output_index
        return found[link.output] if isinstance(link.output, str) else link.output

    return write.api(Graph(nodes=nodes, inputs=checked.graph.inputs), checked.inputs, index)


def record(plan: Plan, run: Mapping[str, Any], notes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The whole record of a run, as JSON values.

    Args:
        plan: What was run.
        run: Facts of this run: id, begin, status, seconds, timings, cached, saved files, warnings, peak memory.
        notes: What nodes noted, by node id.
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
        "notes": {id: dict(found) for id, found in notes.items()},
        "platform": {"system": platform.platform(), "machine": platform.machine()},
        "source": plan.checked.graph.source,
    }


def peak_memory() -> int:
    """The largest resident memory of this process so far, in bytes; 0 where the system does not say."""
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def told(messages: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Warnings as JSON values."""
    return [{"node": node, "message": message} for node, message in messages]
