"""A JSON Schema of graph files with all nodes, so that editors and language models can write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pipegraph.graphs.schema import VERSION
from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.spec import MISSING, PLAIN_TYPES, NodeSpec, Port

_LINK: Final = {
    "description": "A link: id of a node, and one of its outputs by name or number.",
    "type": "array",
    "prefixItems": [{"type": "string"}, {"type": ["string", "integer"]}],
    "items": False,
    "minItems": 2,
}
_GRAPH_INPUT: Final = {
    "type": "object",
    "required": ["type"],
    "additionalProperties": False,
    "properties": {
        "type": {"enum": [*PLAIN_TYPES.values(), "COMBO"]},
        "default": {"description": "Without one the input must be given."},
        "description": {"type": "string"},
        "min": {"type": "number"},
        "max": {"type": "number"},
        "choices": {"type": "array", "items": {"type": "string"}},
        "multiline": {"type": "boolean"},
    },
}
_REFERENCE: Final = {
    "description": "The value of an input of the graph.",
    "type": "object",
    "required": ["$input"],
    "additionalProperties": False,
    "properties": {"$input": {"type": "string"}},
}
_TYPES: Final = {"INT": "integer", "FLOAT": "number", "STRING": "string", "COMBO": "string", "BOOLEAN": "boolean"}


def json_schema(catalog: Catalog) -> dict[str, Any]:
    """The schema (draft 2020-12) of graphs in the native form that use the nodes of a catalogue."""
    specs = sorted(catalog, key=lambda spec: spec.id)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "pipegraph graph",
        "type": "object",
        "required": ["pipegraph", "nodes"],
        "additionalProperties": False,
        "properties": {
            "pipegraph": {"const": VERSION},
            "title": {"type": "string"},
            "description": {"type": "string"},
            "inputs": {"type": "object", "additionalProperties": {"$ref": "#/$defs/graph_input"}},
            "nodes": {
                "type": "object",
                "additionalProperties": {"anyOf": [{"$ref": f"#/$defs/nodes/{_escaped(s.id)}"} for s in specs]},
            },
            "outputs": {"type": "object", "additionalProperties": {"$ref": "#/$defs/link"}},
            "meta": {"description": "Anything else to keep in the file."},
            "$schema": {"type": "string"},
        },
        "$defs": {
            "link": _LINK,
            "graph_input": _GRAPH_INPUT,
            "reference": _REFERENCE,
            "nodes": {spec.id: _node(spec) for spec in specs},
        },
    }


def _escaped(id: str) -> str:
    """Escape a name for a JSON pointer."""
    return id.replace("~", "~0").replace("/", "~1").replace("%", "%25").replace(" ", "%20")


def _node(spec: NodeSpec) -> dict[str, Any]:
    required = [port.name for port in spec.inputs.values() if port.required]
    inputs: dict[str, Any] = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            **{port.name: _input(port) for port in spec.inputs.values()},
            **{p.formerly.name: {**_input(p), "deprecated": True} for p in spec.inputs.values() if p.formerly},
        },
    }
    gives = ", ".join(n if n == p.type else f"{n}: {p.type}" for n, p in spec.outputs.items())
    text = spec.doc.split("\nArgs:")[0].strip()
    return {
        "description": f"{text}\nGives {gives}." if gives else text,
        "type": "object",
        "required": ["class_type", *(["inputs"] if required else [])],
        "additionalProperties": False,
        "properties": {
            "class_type": {"const": spec.id},
            "title": {"type": "string"},
            "_meta": {"type": "object"},
            "inputs": inputs | ({"required": required} if required else {}),
        },
    }


def _input(port: Port) -> dict[str, Any]:
    """Schema of an input: a link; for plain types also a value or a graph input."""
    kinds = port.type.split(",")
    forms: list[Mapping[str, Any]] = [{"$ref": "#/$defs/link"}]
    if "*" in kinds:
        forms += [{"$ref": "#/$defs/reference"}, {"type": ["string", "number", "boolean", "null"]}, _list_value()]
    elif plain := [kind for kind in kinds if kind in _TYPES]:
        forms += [{"$ref": "#/$defs/reference"}, *(_value(port, kind) for kind in plain)]
    forms += [{"const": "auto"}] if port.auto else []
    forms += [{"const": "random"}] if port.seed else []
    forms += [{"type": "null"}] if port.nullable or port.seed else []
    facts: dict[str, Any] = {"anyOf": forms}
    if port.doc:
        facts["description"] = port.doc
    if port.default is not MISSING:
        facts["default"] = port.default
    return facts


def _list_value() -> dict[str, Any]:
    return {"type": "object", "required": ["__value__"], "additionalProperties": False, "properties": {"__value__": {}}}


def _value(port: Port, kind: str) -> dict[str, Any]:
    if isinstance(port.choices, tuple):
        return {"enum": [*port.choices]}
    facts: dict[str, Any] = {"type": _TYPES[kind]}
    if kind in ("INT", "FLOAT"):
        limits = {"minimum": port.minimum, "maximum": port.maximum}
        limits |= {"exclusiveMinimum": port.above, "exclusiveMaximum": port.below}
        limits |= {"multipleOf": None if port.offset else port.multiple_of}
        facts |= {key: limit for key, limit in limits.items() if limit is not None}
    return facts
