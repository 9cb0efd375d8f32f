"""Types of the node library for editors and type checkers: a stub of ``Graph`` with a method for each node."""

from __future__ import annotations

import keyword
from collections.abc import Iterable, Iterator

from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.spec import NodeSpec, Port

_PYTHON = {"INT": "int", "FLOAT": "float", "STRING": "str | Path", "COMBO": "str | Path", "BOOLEAN": "bool"}
_ALSO = {"FLOAT": ("INT",), "STRING": ("COMBO",), "COMBO": ("STRING",)}
"""Wire types that also fit an input of a type."""
_HEAD = '''\
"""Types of the nodes, written by `pipegraph nodes --stubs`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import Literal as L

from pipegraph.builder import Builder, Input, Node, Output
'''


def stub(catalog: Catalog) -> str:
    """The stub file: a class of outputs for each node, and ``Graph`` with a method for each."""
    specs = sorted((spec for spec in catalog if is_name(spec.id)), key=lambda spec: spec.id)
    classes = [line for spec in specs for line in _outputs(spec)]
    methods = [line for spec in specs for line in _method(spec)]
    return "\n".join([_HEAD, *classes, "", "class Graph(Builder):", *methods, ""])


def is_name(text: str) -> bool:
    """Whether a text is valid as an attribute or a keyword argument."""
    return text.isidentifier() and not keyword.iskeyword(text)


def _outputs(spec: NodeSpec) -> Iterator[str]:
    """Class of a node's outputs; a node with a single output can be connected itself."""
    base = f"Node, Output[{_wire(port.type for port in spec.outputs.values())}]" if len(spec.outputs) == 1 else "Node"
    outputs = [(name, port) for name, port in spec.outputs.items() if is_name(name)]
    yield f"class _{spec.id}({base}):" + ("" if outputs else " ...")
    for name, port in outputs:
        yield f"    {name}: Output[{_wire([port.type])}]"


def _method(spec: NodeSpec) -> Iterator[str]:
    yield f"    def {spec.id}("
    yield "        self,"
    yield "        inputs: Mapping[str, Any] | None = None,"
    yield "        /,"
    ports = [*_arguments(spec)]
    yield from (["        *,", *ports] if ports else [])
    yield f"    ) -> _{spec.id}:"
    yield f'        """{_text(spec)}"""'


def _arguments(spec: NodeSpec) -> Iterator[str]:
    """Keyword arguments, those without default first; a growing input is one mapping."""
    groups: dict[str, Port] = {}
    for port in spec.inputs.values():
        if port.grows:
            groups.setdefault(port.name.rpartition(".")[0], port)
    growing = {name: f"Mapping[str, {_type(port)}]" for name, port in groups.items()}
    plain = {p.name: _type(p) for p in spec.inputs.values() if not p.grows and is_name(p.name)}
    required = {p.name for p in spec.inputs.values() if p.required}
    for name, type in sorted((growing | plain).items(), key=lambda item: item[0] not in required):
        yield f"        {name}: {type}" + ("," if name in required else " = ...,")


def _type(port: Port) -> str:
    """Python type of an input."""
    kinds = port.type.split(",")
    values = [f"L[{', '.join(map(repr, port.choices))}]"] if isinstance(port.choices, tuple) and port.choices else []
    if not values:
        values = ["Any"] if "*" in kinds else [_PYTHON[kind] for kind in kinds if kind in _PYTHON]
    values += ["L['auto']"] * bool(port.auto) + ["None"] * (port.nullable or port.seed)
    wire = _wire(kind for own in kinds for kind in (own, *_ALSO.get(own, ())))
    return " | ".join(dict.fromkeys([*values, f"Output[{wire}]", "Input"]))


def _wire(types: Iterable[str]) -> str:
    kinds = dict.fromkeys(kind for type in types for kind in type.split(","))
    return "Any" if "*" in kinds else f"L[{', '.join(map(repr, kinds))}]"


def _text(spec: NodeSpec) -> str:
    """Docstring of a node and its inputs."""
    lines = [spec.doc.split("\nArgs:")[0].strip()]
    described = [(p.name, p.doc) for p in spec.inputs.values() if p.doc and not p.grows]
    if described:
        lines += ["", "Args:", *(f"    {name}: {' '.join(doc.split())}" for name, doc in described)]
    text = "\n".join(lines).replace("\\", "\\\\").replace('"""', "'''")
    return text.replace("\n", "\n        ").replace("\n        \n", "\n\n") + ("\n        " if described else "")
