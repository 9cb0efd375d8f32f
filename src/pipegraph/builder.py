"""Build a graph in Python: nodes are called by name, and their outputs are connected.

    g = pg.Graph(title="An apple")
    ckpt = g.CheckpointLoaderSimple(ckpt_name="embedded/flux-tiny")
    positive = g.CLIPTextEncode(clip=ckpt.CLIP, text=g.input("prompt", "a red apple"))
    ...
    g.output("image", image)
    g.save("apple.json")
    g.run(prompt="a blue umbrella")["image"]

The graph is written in the native form and checked like a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pipegraph.api import Result, Workflow, catalog, load
from pipegraph.graphs.errors import nearest
from pipegraph.graphs.schema import VERSION
from pipegraph.runtime.spec import PLAIN_TYPES, NodeSpec

Kind_co = TypeVar("Kind_co", covariant=True)
"""Wire types as ``Literal`` of their names: the type of an output, or all types of an input."""


class Output(Generic[Kind_co]):
    """An output of a node, to be connected to inputs of others."""

    def __init__(self, node: Node, name: str) -> None:
        self.node, self.name = node, name


@dataclass(frozen=True, slots=True, eq=False)
class Input:
    """An input of the whole graph, to be connected to inputs of nodes."""

    graph: Builder
    name: str


class Node:
    """A node of a graph under construction. Its outputs are attributes, or items by name or number.

    A node with a single output can be connected itself.
    """

    def __init__(self, graph: Builder, id: str, spec: NodeSpec) -> None:
        self._graph, self._id, self._spec = graph, id, spec

    def __getitem__(self, output: str | int) -> Output[Any]:
        names = [*self._spec.outputs]
        if isinstance(output, int) and 0 <= output < len(names):
            return Output(self, names[output])
        if output not in self._spec.outputs:
            gives = ", ".join(names) or "nothing"
            raise LookupError(f"{self._spec.id} gives {gives}, no {output!r}. {nearest(str(output), names)}".strip())
        return Output(self, str(output))

    if not TYPE_CHECKING:  # type checkers know the outputs of each node from typed_graph.pyi

        def __getattr__(self, output: str) -> Output[Any]:
            if output.startswith("_"):
                raise AttributeError(output)
            try:
                return self[output]
            except LookupError as e:
                raise AttributeError(str(e)) from None

    def __dir__(self) -> list[str]:
        return [*self._spec.outputs]

    def __repr__(self) -> str:
        return f"<{self._spec.id} {self._id!r}: {', '.join(self._spec.outputs) or 'no outputs'}>"


class Builder:
    """A graph under construction: every node of the library is a method, and :meth:`node` takes any by its name."""

    def __init__(
        self, title: str = "", description: str = "", *, nodes: str | Path | Iterable[str | Path] = ()
    ) -> None:
        """An empty graph.

        Args:
            title: Title for display.
            description: Purpose of the graph.
            nodes: Python files or folders with further nodes. Their code is run.
        """
        self._packs = nodes if isinstance(nodes, str | Path) else [*nodes]
        self._catalog = catalog(self._packs)
        self._texts = {"title": title, "description": description}
        self._inputs: dict[str, dict[str, Any]] = {}
        self._nodes: dict[str, dict[str, Any]] = {}
        self._outputs: dict[str, list[str]] = {}

    def input(
        self,
        name: str,
        default: Any = ...,
        *,
        type: str = "",
        description: str = "",
        min: float | None = None,
        max: float | None = None,
        choices: Iterable[str] | None = None,
        multiline: bool = False,
    ) -> Input:
        """An input of the graph: a keyword of ``run``, an option of the command line.

        Args:
            name: Its name.
            default: Default value; required if left out.
            type: ``STRING``, ``INT``, ``FLOAT``, ``BOOLEAN`` or ``COMBO``; the type of the default if left out.
            description: Description for display.
            min: Least number.
            max: Greatest number.
            choices: Legal texts.
            multiline: A text of several lines, such as a prompt.

        Raises:
            ValueError: the name is taken, or the type is unknown.
        """
        if name in self._inputs:
            raise ValueError(f"the graph has an input {name!r} already")
        kind = type or PLAIN_TYPES.get(default.__class__, "")
        if not kind:
            raise ValueError(f"the type of input {name!r} is not known: give type='STRING', 'INT', 'FLOAT', ...")
        facts = {"default": default, "description": description, "min": min, "max": max, "multiline": multiline}
        facts["choices"] = None if choices is None else [*choices]
        declared = {k: v for k, v in facts.items() if v not in (None, "", False) or (k == "default" and v is not ...)}
        self._inputs[name] = {"type": kind} | {k: v for k, v in declared.items() if v is not ...}
        return Input(self, name)

    def output(self, name: str, value: Node | Output[Any]) -> None:
        """Give an output of the graph a name: ``run(...)[name]``."""
        self._outputs[name] = self._link(value)

    def node(
        self, type: str, inputs: Mapping[str, Any] | None = None, /, *, id: str = "", title: str = "", **more: Any
    ) -> Node:
        """Add a node.

        Args:
            type: Name in ``pipegraph nodes``.
            inputs: Inputs by name, for names that are no Python identifiers, such as ``format.codec``.
            id: Id in the file; derived from the type if left out.
            title: Title for display.
            more: Inputs by name: outputs of nodes, inputs of the graph, values; a mapping for a growing input.

        Raises:
            LookupError: unknown node.
            ValueError: the id is taken, or a value belongs to another graph.
            TypeError: a node with several outputs is connected instead of one of them.
        """
        spec = self._catalog[type]
        if id in self._nodes:
            raise ValueError(f"the graph has a node {id!r} already")
        id = id or self._free_id(type)
        values = dict(self._flat({**(inputs or {}), **more}))
        self._nodes[id] = {"class_type": type, **({"title": title} if title else {}), "inputs": values}
        return Node(self, id, spec)

    if not TYPE_CHECKING:

        def __getattr__(self, type: str) -> Any:
            if type.startswith("_"):
                raise AttributeError(type)
            if type not in self._catalog.entries:
                raise AttributeError(f'no node is called "{type}". {nearest(type, self._catalog.entries)}'.strip())
            return partial(self.node, type)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._catalog.entries]

    def document(self) -> dict[str, Any]:
        """The graph in the native form, as JSON values."""
        texts = {key: text for key, text in self._texts.items() if text}
        parts = {"inputs": self._inputs, "nodes": self._nodes, "outputs": self._outputs}
        return {"pipegraph": VERSION, **texts, **json.loads(json.dumps({k: v for k, v in parts.items() if v}))}

    def save(self, path: str | Path) -> None:
        """Write the graph as a file."""
        Path(path).write_text(json.dumps(self.document(), indent=2, ensure_ascii=False) + "\n", "utf-8")

    def workflow(self, **settings: Any) -> Workflow:
        """The graph ready to run; settings as of ``pg.load``.

        Raises:
            GraphError: with every problem.
        """
        workflow = load(self.document(), nodes=self._packs, **settings)
        return workflow

    def run(self, **inputs: Any) -> Result:
        """Check the graph and run it with values of its inputs; raises as ``Workflow.run``."""
        return self.workflow().run(**inputs)

    def _free_id(self, type: str) -> str:
        """``k_sampler``, ``k_sampler_2``, ... for ``KSampler``."""
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", type) or ["node"]
        stem, number = "_".join(words).lower(), 1
        while (id := stem if number == 1 else f"{stem}_{number}") in self._nodes:
            number += 1
        return id

    def _flat(self, inputs: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
        """Inputs as in the file; entries of a mapping are called ``name.key``."""
        for name, value in inputs.items():
            if isinstance(value, Mapping):
                yield from ((f"{name}.{key}", self._value(each)) for key, each in value.items())
            else:
                yield name, self._value(value)

    def _value(self, value: Any) -> Any:
        if isinstance(value, Node | Output):
            return self._link(value)
        if isinstance(value, Input):
            if value.graph is not self:
                raise ValueError(f"input {value.name!r} is of another graph")
            return {"$input": value.name}
        if isinstance(value, list | tuple):
            return {"__value__": [*value]}
        return str(value) if isinstance(value, Path) else value

    def _link(self, value: Node | Output[Any]) -> list[str]:
        if isinstance(value, Node):
            names = [*value._spec.outputs]
            if len(names) != 1:
                choose = f"connect one of {', '.join(names)}" if names else "it gives nothing to connect"
                raise TypeError(f"{value._spec.id} has {len(names)} outputs: {choose}")
            value = value[0]
        if value.node._graph is not self:
            raise ValueError(f"{value.node!r} is a node of another graph")
        return [value.node._id, value.name]
