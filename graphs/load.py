"""Read a graph: native form or one of ComfyUI's; from a file, a picture, a video, a ready-made name or a mapping.

    graph = load("flux.json")

Problems that need no node library are found here, all at once; ``runtime.check`` finds the others.
"""

from __future__ import annotations

import io
import math
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Final

from pipegraph.limits import GRAPH_BYTES

from . import origin, picture, ready_made, strict_json, video
from .bulk import bulk
from .editor import read as editor
from .editor.document import is_editor
from .errors import GraphError, Problem, Problems, closest, did_you_mean, shown
from .item import alone
from .plain import plain
from .schema import BAD, VERSION, Graph, GraphInput, InputRef, Link, NodeUse

INPUT_TYPES: Final = ("STRING", "INT", "FLOAT", "BOOLEAN", "COMBO")
_ROOT_KEYS: Final = ("$schema", "pipegraph", "title", "description", "inputs", "nodes", "outputs", "meta")
_NODE_KEYS: Final = ("class_type", "inputs", "title", "_meta")
_INPUT_KEYS: Final = ("type", "default", "description", "min", "max", "choices", "multiline")
_FORM_KEYS: Final = frozenset(("upload", "choose file to upload", "control_after_generate", "audioUI"))
"""UI fields of ComfyUI that files list among a node's inputs; ignored."""
_SOUND: Final = frozenset((str, int, bool, type(None)))


def load(source: Path | str | Mapping[Any, Any], *, partial: bool = False) -> Graph:
    """Read a graph.

    Args:
        source: A path to a JSON file, or to a picture or video that holds its graph, the name of a ready-made graph
            (``flux.json``; a file of that name wins), or the document as a mapping.
        partial: Read the valid parts of a graph with problems, and keep these in ``problems`` for the check to report
            with its own.

    Raises:
        GraphError: with every problem that needs no node library.
    """
    if isinstance(source, Mapping):
        return parse(source, source="", partial=partial)
    path = Path(source)
    folder = os.path.isdir(source)
    if folder or not os.path.exists(source):
        ready = ready_made.find(str(source))
        if ready is None:
            message = f'"{source}" is a folder' if folder else f'no file and no ready-made graph is called "{source}"'
            near = ready_made.near(str(source))
            hint = did_you_mean(near) or "`pipegraph graphs` lists the ready-made graphs."
            mend = {"names": near} if near else {}
            raise GraphError([Problem(code="file_not_found", message=message, hint=hint, mend=mend)])
        return loads(ready, source=path.name, partial=partial)
    try:
        if not _may_read(path):
            raise GraphError([Problem(code="file_not_found", message=f'"{path}" is no regular file')])
        with path.open("rb") as file:
            return read(file, str(path), partial=partial)
    except OSError as e:
        message = f'cannot read "{path}": {e.strerror or e}'
        raise GraphError([Problem(code="file_not_found", message=message)]) from e


def read(file: BinaryIO, source: str, *, partial: bool = False) -> Graph:
    """Read a graph from an open file or pipe; ``partial`` as for ``load``.

    Only the metadata of pictures and videos is read; other files up to ``GRAPH_BYTES``.
    """
    head = file.read(12)
    if file.seekable() and picture.is_picture(head):
        return _from_texts(picture.texts(file), source, partial)
    if file.seekable() and video.is_video(head):
        return _from_texts(video.texts(file), source, partial)
    # A pipe cannot seek. One extra byte makes a file that is too large an error.
    return loads(head + file.read(GRAPH_BYTES + 1 - len(head)), source=source, partial=partial)


def _may_read(path: Path) -> bool:
    """Whether a file has an end: a regular one, or a pipe that the caller opened, as the shell does for ``<(...)``.

    Raises:
        OSError: it cannot be looked at.
    """
    mode = path.stat().st_mode
    opened = path.is_relative_to("/dev/fd") or path.is_relative_to("/proc/self/fd") or path == Path("/dev/stdin")
    return stat.S_ISREG(mode) or (opened and stat.S_ISFIFO(mode))


@bulk()
def loads(data: bytes | str, source: str = "", *, partial: bool = False) -> Graph:
    """Read a graph from the bytes of a JSON file, picture or video, or from JSON text; ``partial`` as for ``load``."""
    if isinstance(data, bytes):
        if picture.is_picture(data):
            return _from_texts(picture.texts(data), source, partial)
        if video.is_video(data):
            return _from_texts(video.texts(io.BytesIO(data)), source, partial)
        if picture.is_other_media(data):
            return _from_texts({}, source, partial)
        data = strict_json.decode(data, source)
    return parse(strict_json.parse(data, source), source=source, partial=partial)


def _from_texts(texts: Mapping[str, str], source: str, partial: bool) -> Graph:
    """The graph in the metadata of a picture or video; texts that are no JSON objects are ignored."""
    texts = {key: text for key, text in texts.items() if text.lstrip().startswith("{")}
    record: Any = None
    if "pipegraph" in texts:
        record = strict_json.parse(texts["pipegraph"], source)
        document = record.get("graph", record) if isinstance(record, dict) else record
    elif "prompt" in texts:
        document = strict_json.parse(texts["prompt"], source)
    elif "workflow" in texts:
        return parse(strict_json.parse(texts["workflow"], source), source=source, partial=partial)
    else:
        hint = "Only pictures and videos saved by pipegraph or ComfyUI with their metadata can be run."
        problem = Problem(code="no_graph_in_picture", message="the file holds no graph", place=source, hint=hint)
        raise GraphError([problem])
    workflow = strict_json.parse(texts["workflow"], source) if "workflow" in texts else None
    graph = parse(document, source=source, workflow=workflow)
    if not isinstance(record, dict):
        return graph
    if graph.form == "native" and type(index := record.get("batch_index")) is int:
        item_graph = alone(document, index)  # one item of a batch: reproduce it without the others
        graph = parse(item_graph, source=source, workflow=workflow) if item_graph else graph
    return replace(graph, origin=origin.read(record, graph))


def parse(document: Any, *, source: str = "", workflow: Any = None, partial: bool = False) -> Graph:
    """Turn a JSON document into a graph, whichever form it is in; ``partial`` as for ``load``."""
    reader = _Reader(source, workflow)
    graph = reader.read(document)
    if not reader.problems:
        return graph
    if partial and graph.nodes:
        return replace(graph, problems=tuple(reader.problems.listed), unlisted=reader.problems.unlisted)
    raise reader.problems.error()


class _Reader:
    """Collects problems while it reads, so that all are reported at once."""

    def __init__(self, source: str, workflow: Any) -> None:
        self.source, self.workflow = source, workflow
        self.problems = Problems()

    def bad(self, code: str, message: str, place: str = "", **more: Any) -> None:
        self.problems.add(code, message, place=place, **more)

    def read(self, document: Any) -> Graph:
        if isinstance(document, Mapping) and _is_api(inner := document.get("prompt")):  # the body of a /prompt request
            document = inner
        if not isinstance(document, Mapping):
            self.bad("unknown_form", "a graph is a JSON object", self.source, got=shown(document))
        elif "pipegraph" in document:
            return self.native(document)
        elif is_editor(document):
            return editor.read(document, self.source, self.problems)
        elif _is_api(document):
            nodes = self.nodes(document, "", strict=False)
            return Graph(nodes=nodes, form="api", source=self.source, workflow=self.workflow)
        else:
            self.unknown(document)
        return Graph({})

    def unknown(self, document: Mapping[Any, Any]) -> None:
        wanted = '"pipegraph": 1 with "nodes", or ComfyUI\'s API form: nodes by id, each with "class_type"'
        lacking = [str(k) for k, n in document.items() if not (isinstance(n, Mapping) and "class_type" in n)]
        if lacking and len(lacking) < len(document):
            for key in lacking:
                self.bad("bad_graph", f'the node "{key}" has no "class_type"', key, node=key)
        else:
            self.bad("unknown_form", "this JSON is no graph", self.source, wanted=wanted)

    def native(self, document: Mapping[Any, Any]) -> Graph:
        version = document["pipegraph"]
        if type(version) is not int or version != VERSION:
            hint = "A newer pipegraph may read it." if type(version) is int and version > VERSION else ""
            message = "unknown version of the graph format"
            self.bad("unknown_version", message, "pipegraph", got=shown(version), wanted=str(VERSION), hint=hint)
            return Graph({})
        self.known(document, _ROOT_KEYS, "")
        inputs = self.section(document, "inputs")
        outputs = self.section(document, "outputs")
        return Graph(
            nodes=self.nodes(self.section(document, "nodes"), "nodes.", strict=True),
            inputs={str(k): self.graph_input(str(k), v) for k, v in inputs.items()},
            outputs={k: link for k, v in outputs.items() if (link := self.output(str(k), v))},
            title=self.text(document, "title", ""),
            description=self.text(document, "description", ""),
            source=self.source,
            workflow=self.workflow,
            meta=self.section(document, "meta"),
        )

    def section(self, document: Mapping[Any, Any], key: str) -> Mapping[Any, Any]:
        value = document.get(key, {})
        if isinstance(value, Mapping):
            return value
        self.bad("bad_graph", f'"{key}" must be an object', key, got=shown(value))
        return {}

    def text(self, mapping: Mapping[Any, Any], key: str, place: str) -> str:
        value = mapping.get(key, "")
        if isinstance(value, str):
            return value
        self.bad("bad_graph", f'"{key}" must be text', place + key, got=shown(value))
        return ""

    def known(self, mapping: Mapping[Any, Any], keys: tuple[str, ...], place: str) -> None:
        for key in mapping:
            if key not in keys:
                names, hint = closest(str(key), keys), "Known keys: " + ", ".join(keys) + "."
                self.bad("unknown_key", f'unknown key "{key}"', f"{place}{key}", names=names, hint=hint)

    def nodes(self, uses: Mapping[Any, Any], place: str, *, strict: bool) -> dict[str, NodeUse]:
        nodes: dict[str, NodeUse] = {}
        for key, node in uses.items():
            id = key if type(key) is str else str(key)
            if id in nodes:
                self.bad("ambiguous_id", f'the ids "{id}" (text) and {id} (number) are the same', place + id, node=id)
            nodes[id] = self.node(id, node, place, strict)
        return nodes

    def node(self, id: str, node: Any, place: str, strict: bool) -> NodeUse:
        kind = node.get("class_type") if _is_map(node) else None
        if type(kind) is not str or not kind:
            self.bad("bad_graph", 'a node is an object with a "class_type"', place + id, node=id, got=shown(node))
            return NodeUse(id, "", {})
        if strict:
            self.known(node, _NODE_KEYS, f"{place}{id}.")
        title = node.get("title") or ""
        if not title and "_meta" in node and _is_map(meta := node["_meta"]):
            title = meta.get("title") or ""
        raw = node.get("inputs", {})
        if not _is_map(raw):
            self.bad("bad_graph", '"inputs" of a node must be an object', place + id, node=id, got=shown(raw))
            raw = {}
        if not strict and not _FORM_KEYS.isdisjoint(raw):
            raw = {name: value for name, value in raw.items() if name not in _FORM_KEYS}
        inputs = {name: value if type(value) in _SOUND else self.value(value, id, name) for name, value in raw.items()}
        return NodeUse(id, kind, inputs, title if type(title) is str else "")

    def value(self, value: Any, node: str, name: str) -> Any:
        """An input as a JSON value, a Link, an InputRef, or BAD."""
        if type(value) in (list, tuple):
            if len(value) == 2 and type(value[0]) is str and type(value[1]) in (int, str):
                return Link(value[0], value[1])
            hint = 'A link is ["node id", output]; a list as a value is {"__value__": [...]}.'
            if len(value) == 2 and type(value[0]) is int and type(value[1]) in (int, str):
                hint = f'Node ids are text: write ["{value[0]}", {value[1]!r}] for a link.'
            self.bad("bad_link", "a bare list must be a link", node=node, input=name, got=shown(value), hint=hint)
            return BAD
        if isinstance(value, Mapping):
            if "$input" in value:
                if len(value) == 1 and type(value["$input"]) is str:
                    return InputRef(value["$input"])
                self.bad("bad_graph", '"$input" is the name of a graph input, alone', node=node, input=name)
                return BAD
            if value.keys() == {"__value__"}:
                value = value["__value__"]
        try:
            return plain(value)
        except ValueError as e:
            self.bad("bad_value", str(e), node=node, input=name)
            return BAD

    def output(self, name: str, value: Any) -> Link | None:
        link = self.value(value, "", name) if isinstance(value, list | tuple) else None
        if isinstance(link, Link):
            return link
        self.bad("bad_link", f'the output "{name}" must be a link', f"outputs.{name}", got=shown(value))
        return None

    def graph_input(self, name: str, declared: Any) -> GraphInput:
        place = f"inputs.{name}"
        kind = declared.get("type") if isinstance(declared, Mapping) else None
        if kind not in INPUT_TYPES:
            wanted = 'an object with a "type", one of ' + ", ".join(INPUT_TYPES)
            got = shown(kind if isinstance(declared, Mapping) else declared)
            self.bad("bad_graph", f'the graph input "{name}" has no known type', place, got=got, wanted=wanted)
            return GraphInput(name, "")
        self.known(declared, _INPUT_KEYS, place + ".")
        if faults := [*_input_faults(kind, declared)]:
            for key, wanted in faults:
                self.bad("bad_graph", f'"{key}" must be {wanted}', f"{place}.{key}", got=shown(declared[key]))
            return GraphInput(name, "")
        choices = declared.get("choices")
        return GraphInput(
            name=name,
            type=kind,
            required="default" not in declared,
            default=declared.get("default"),
            description=self.text(declared, "description", place + "."),
            minimum=declared.get("min"),
            maximum=declared.get("max"),
            choices=tuple(choices) if choices is not None else None,
            multiline=declared.get("multiline", False),
        )


def _input_faults(kind: str, declared: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """(key, expected value) of each invalid entry of a graph input."""
    numbers = {"INT": (int,), "FLOAT": (int, float)}.get(kind, ())
    low, high = declared.get("min"), declared.get("max")
    for key, limit in (("min", low), ("max", high)):
        if limit is not None and (type(limit) not in numbers or limit in (math.inf, -math.inf) or limit != limit):
            yield key, "a whole number" if kind == "INT" else "a number" if numbers else "left out: it is for numbers"
            return
    if low is not None and high is not None and low > high:
        yield "max", f'at least "min", which is {low}'
    choices = declared.get("choices")
    if choices is not None and kind not in ("STRING", "COMBO"):
        yield "choices", "left out: it is for STRING and COMBO"
    elif choices is not None and not (
        isinstance(choices, list | tuple) and choices and all(type(choice) is str for choice in choices)
    ):
        yield "choices", "a list of texts"
    if isinstance(declared.get("default"), Mapping | list | tuple):
        yield "default", "a plain value"
    if type(declared.get("multiline", False)) is not bool:
        yield "multiline", "true or false"


def _is_api(value: Any) -> bool:
    """Whether a mapping is not empty and all its values are nodes."""
    return _is_map(value) and bool(value) and all(_is_map(n) and "class_type" in n for n in value.values())


def _is_map(value: Any) -> bool:
    """``isinstance(value, Mapping)``, fast for what JSON gives."""
    return type(value) is dict or isinstance(value, Mapping)
