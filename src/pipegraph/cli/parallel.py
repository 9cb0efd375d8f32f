"""``pipegraph run --parallel N``: several processes of this machine share the sampling of one graph.

The parent checks, starts N processes of the same call and waits. Rank 0 runs the graph, saves and prints; the others
run only sampling nodes and their inputs. A process that fails writes a note; the earliest is reported, as the others
fail because of it.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click

from pipegraph.access import granted
from pipegraph.runtime.errors import Cancelled, GraphError, Problem, RunError, message_of

from . import FAILED, INTERRUPTED, WRONG
from .show import echo, json_line, problems

if TYPE_CHECKING:
    from pipegraph.api import Workflow
    from pipegraph.runtime.checked import CheckedGraph, CheckedNode

    from .call import Call

_PROCESS: Final = "PIPEGRAPH_PROCESS"
"""Environment variable of a started process: rank, world size, folder."""
_ALONE: Final = ("SamplerARVideo", "StreamARVideo")
"""Nodes whose sampling cannot be shared."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process that shares a run."""

    rank: int
    count: int
    folder: Path

    def device(self, asked: str) -> str:
        """The device of this process: ``cuda:rank`` on machines with GPUs.

        Raises:
            GraphError: not enough GPUs.
        """
        import torch

        if asked == "cpu" or (asked == "auto" and not torch.cuda.is_available()):
            return "cpu"
        if self.count > (available := torch.cuda.device_count()):
            raise GraphError(
                [
                    _bad(
                        f"{self.count} processes need a GPU each",
                        got=f"{available} GPUs",
                        hint="Ask for fewer, or for --device cpu.",
                    )
                ]
            )
        return f"cuda:{self.rank}"

    def tell(self, listed: Sequence[Problem], code: int, where: str = "") -> None:
        """Write a note with the problems."""
        note = {
            "time": time.time(),
            "rank": self.rank,
            "where": where,
            "code": code,
            "problems": [p.as_dict() for p in listed],
        }
        (self.folder / f"{self.rank}.failed").write_text(json.dumps(note), encoding="utf-8")


def current_process() -> Process | None:
    """The current process of a shared run; None in the parent."""
    encoded = os.environ.pop(_PROCESS, "")
    rank, count, folder = encoded.split(":", 2) if encoded else ("", "", "")
    return Process(int(rank), int(count), Path(folder)) if encoded else None


def check(checked: CheckedGraph, source: str, device: str) -> None:
    """Check, without torch, that the run can be shared.

    Raises:
        GraphError: with all reasons against it.
    """
    faults = []
    if source == "-":
        faults.append(_bad("several processes cannot read one standard input", hint="Give the graph as a file."))
    if device not in ("auto", "cpu", "cuda"):
        faults.append(_bad("each process takes a GPU of its own", got=device, wanted="auto, cpu or cuda"))
    samplers = _samplers(checked)
    if not samplers:
        faults.append(_bad("no node of this graph samples: there is nothing that several processes could share"))
    sure = _sure(checked)
    for node in checked.nodes.values():
        if node.entry.spec.id in _ALONE:
            faults.append(_bad("a video sampled block by block cannot be shared by several processes", node))
    for node in samplers:
        if node.id not in sure:
            faults.append(_bad("it may or may not run; several processes can share only what runs for certain", node))
        for id in sorted(_upstream(checked, [node.id], lazy=True)):
            if checked.nodes[id].entry.spec.effect in ("writes", "volatile"):
                faults.append(
                    _bad(
                        f'every process runs what it needs, and "{id}" must run once: it saves, or gives '
                        "something else each time",
                        node,
                    )
                )
        for loader, facts in _loaders(checked, node):
            if facts and not facts.get("parallel"):
                faults.append(
                    _bad(
                        f'several processes cannot share the work of the model of "{loader}" yet; they can '
                        "that of Wan's models",
                        node,
                    )
                )
    if faults:
        raise GraphError(faults)


def launch(args: Sequence[str], count: int, seeds: Mapping[str, int], as_json: bool) -> int:
    """Run the same call, with drawn seeds, in ``count`` processes; return the exit code."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException, Std, start_processes

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    call = ("-P", "-m", "pipegraph", *args, *(a for name, seed in seeds.items() for a in ("--set", f"{name}={seed}")))
    threads = str(max(1, (os.cpu_count() or 1) // count))
    with TemporaryDirectory(prefix="pipegraph-") as name:
        folder = Path(name)
        (folder / "logs").mkdir()
        shared = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads)}
        processes = start_processes(
            "pipegraph",
            sys.executable,
            dict.fromkeys(range(count), call),
            {rank: {**shared, _PROCESS: f"{rank}:{count}:{folder}"} for rank in range(count)},
            DefaultLogsSpecs(log_dir=str(folder / "logs"), redirects=dict.fromkeys(range(1, count), Std.ALL)),
        )
        try:
            result = processes.wait(period=0.2)
        except (SignalException, KeyboardInterrupt) as stopped:
            raise KeyboardInterrupt from stopped
        finally:
            processes.close()
        assert result is not None
        return _report(result, folder, count, as_json) if result.is_failed() else 0


@contextmanager
def joined(process: Process, workflow: Workflow, debug: bool) -> Iterator[None]:
    """Join the process group on this process's device; errors become notes for the parent."""
    from .run import locate

    try:
        workflow.device = process.device(workflow.device or workflow.made_with.get("device", "auto"))
        from pipegraph.models.parallel import together

        with together(process.rank, process.count, process.folder / "store", workflow.device):
            yield
    except click.exceptions.Exit:
        raise
    except (KeyboardInterrupt, Cancelled) as stopped:
        raise click.exceptions.Exit(INTERRUPTED) from stopped
    except GraphError as error:
        process.tell(error.problems, WRONG)
        raise click.exceptions.Exit(WRONG) from error
    except RunError as error:
        process.tell([error.problem], FAILED, locate(error.__cause__, debug))
        raise click.exceptions.Exit(FAILED) from error
    except Exception as error:
        problem = Problem(code="crashed", message=message_of(error))
        process.tell([problem], FAILED, locate(error, debug))
        raise click.exceptions.Exit(FAILED) from error


def follow(workflow: Workflow, call: Call) -> None:
    """Run only sampling nodes and their inputs; rank 0 runs the rest."""
    from pipegraph.api import runner
    from pipegraph.kernels.dispatch import use

    planned = workflow.plan(call.overrides, **call.inputs)
    roots = sorted({planned.step_of[node.id] for node in _samplers(planned.checked)})
    with use(**planned.settings.kernels):
        runner().run(replace(planned, roots=roots, outputs={}), output_dir=workflow.out)


def _samplers(checked: CheckedGraph) -> list[CheckedNode]:
    """Nodes with a model and a LATENT output that the graph's results may need."""
    needed = _upstream(checked, [*checked.roots], lazy=True)
    return [
        node
        for node in checked.nodes.values()
        if node.id in needed
        and {"MODEL", "GUIDER"} & _types(node, [name for name, _, _ in node.links])
        and any(port.type == "LATENT" for port in node.entry.spec.outputs.values())
    ]


def _loaders(checked: CheckedGraph, node: CheckedNode) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Model loaders upstream of a node, and the facts of their models."""
    from pipegraph.runtime.auto import recommended

    for id in sorted(_upstream(checked, [node.id], lazy=True)):
        loader = checked.nodes[id]
        spec = loader.entry.spec
        if spec.recommend and any(port.type == "MODEL" for port in spec.outputs.values()):
            with granted(checked.access):
                facts = recommended(loader, [])
            yield id, facts


def _types(node: CheckedNode, names: Sequence[str]) -> set[str]:
    return {kind for name in names for kind in node.entry.spec.inputs[name].type.split(",")}


def _sure(checked: CheckedGraph) -> set[str]:
    """Nodes that run for certain, by no lazy link."""
    return _upstream(checked, [*checked.roots], lazy=False)


def _upstream(checked: CheckedGraph, start: Sequence[str], *, lazy: bool) -> set[str]:
    reached, stack = set[str](), [*start]
    while stack:
        id = stack.pop()
        if id in reached:
            continue
        reached.add(id)
        node = checked.nodes[id]
        stack += [source for name, source, _ in node.links if lazy or not node.entry.spec.inputs[name].lazy]
    return reached


def _report(result: Any, folder: Path, count: int, as_json: bool) -> int:
    """Report the first failure; return its exit code.

    A process killed by a signal writes no note, and the others fail because of it: it takes precedence over notes.
    """
    killed = {rank: f for rank, f in result.failures.items() if f.exitcode < 0 and f.exitcode != -signal.SIGTERM}
    notes = [] if killed else [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.failed")]
    if notes:
        note = min(notes, key=lambda n: float(n["time"]))
        listed, where, code, rank = [Problem(**p) for p in note["problems"]], note["where"], note["code"], note["rank"]
    else:
        rank, failure = next(iter((killed or result.failures).items()))
        ended = f"signal {-failure.exitcode}" if failure.exitcode < 0 else f"exit code {failure.exitcode}"
        log = Path(result.stderrs[rank]) if rank else Path(os.devnull)
        where = "\n".join(log.read_text(errors="replace", encoding="utf-8").splitlines()[-20:])
        hint = "The system ends processes so when memory runs out." if failure.exitcode == -signal.SIGKILL else ""
        listed, code = [Problem(code="crashed", message=f"a process ended with {ended}", hint=hint)], FAILED
    listed[-1] = replace(listed[-1], hint=f"{listed[-1].hint} (Process {rank} of {count}; all were ended.)".strip())
    if where:
        echo(where, err=True)
    if as_json:
        json_line({"event": "error", "problems": [p.as_dict() for p in listed]})
    else:
        problems(listed)
    return int(code)


def _bad(message: str, node: CheckedNode | None = None, **facts: Any) -> Problem:
    place: dict[str, Any] = {} if node is None else {"node": node.id, "title": node.title}
    return Problem(code="bad_parallel", message=message, **place, **facts)
