"""How a picture or video was made: settings, file hashes and versions in its metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .schema import Graph, InputRef, Origin, UsedFile

_SETTINGS = {"device": str, "dtype": str, "quantize": str, "kernels": dict, "threads": int}


def read(record: Mapping[str, Any], graph: Graph) -> Origin:
    """Read settings, hashes and versions from ``record``, the JSON value under the key ``pipegraph`` of a file.

    Files are not trusted: entries of a wrong type are left out.
    """
    settings = _mapping(record.get("settings"))
    files = _mapping(record.get("files"))
    return Origin(
        settings={key: settings[key] for key, kind in _SETTINGS.items() if type(settings.get(key)) is kind},
        files={address: UsedFile(_name(graph, address), digest) for address, digest in _texts(files).items()},
        versions=_texts(_mapping(record.get("versions"))),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {key: value for key, value in values.items() if type(value) is str}


def _name(graph: Graph, address: str) -> str | None:
    """The value of the input ``node.input`` in the graph; None if the node's default is used."""
    node, _, name = address.rpartition(".")
    value = graph.nodes[node].inputs.get(name) if node in graph.nodes else None
    if isinstance(value, InputRef):
        value = graph.inputs[value.name].default if value.name in graph.inputs else None
    return value if isinstance(value, str) else None
