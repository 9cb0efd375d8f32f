"""The document: a graph as plain frozen values, whichever form of file it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from .errors import Problem

VERSION: Final = 1
"""Version of the native format."""
Form = Literal["native", "api", "editor"]
BAD: Final = object()
"""Placeholder for an invalid part whose problem is already reported."""


class Link(NamedTuple):
    """The value comes from an output, named or counted from 0, of another node."""

    node: str
    output: str | int


class InputRef(NamedTuple):
    """The value comes from an input of the graph: ``{"$input": name}``."""

    name: str


class WidgetValue(NamedTuple):
    """The value of a widget of a node of the editor's form, by its name; ``editor.naming`` puts the value itself."""

    node: str
    widget: str


@dataclass(frozen=True, slots=True)
class GraphInput:
    """An input of the whole graph: ``--name`` on the command line, a keyword argument in Python."""

    name: str
    type: str
    """``STRING``, ``INT``, ``FLOAT``, ``BOOLEAN`` or ``COMBO``; empty if invalid."""
    required: bool = True
    """Has no default."""
    default: Any = None
    description: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] | None = None
    multiline: bool = False


class NodeUse(NamedTuple):
    """A node in a graph; ``inputs`` holds JSON values, ``Link`` and ``InputRef``."""

    id: str
    type: str
    """Its ``class_type``."""
    inputs: Mapping[str, Any]
    title: str = ""
    within: str = ""
    """Titles of the subgraphs that it lies in, the outermost first, as ``Outer / Inner``."""

    @property
    def shown(self) -> str:
        """Title and subgraphs, as an editor shows them."""
        title = self.title if self.title != self.type else ""
        return f"{self.within} / {title or self.type}" if self.within else title


class Widgets(NamedTuple):
    """The values of a node's widgets as the editor's form has them."""

    type: str
    title: str
    within: str
    values: Sequence[Any]
    """By position."""
    named: Mapping[str, Any] | None
    """By name, if the file has them so."""
    promoted: Mapping[str, Any]
    """By name, from instances of subgraphs; they win."""
    sockets: Sequence[tuple[str, str, bool, bool]]
    """Inputs that the file lists: name, type, whether of a widget, whether linked."""


class FileSource(NamedTuple):
    """Where a file that a graph needs can be had, as the graph's file says."""

    name: str
    folder: str
    """Folder of models, such as ``vae``."""
    url: str
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Editor:
    """Further data of a graph in the editor's form."""

    widgets: Mapping[str, Widgets] = field(default_factory=dict)
    """By node id, of muted and bypassed nodes too; ``editor.naming`` makes inputs of them."""
    lost: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(node id, input) -> why nothing comes by its link, where the user wants it so."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Nodes, links and values, for reports."""
    notes: tuple[Problem, ...] = ()
    """Parts that were left out; no faults of the graph."""
    filled: Mapping[str, Mapping[str, tuple[Any, Any]]] = field(default_factory=dict)
    """Node id, or "" for the graph's inputs -> name -> the value in our form, and the value shown in its place."""
    files: tuple[FileSource, ...] = ()
    """Where the models that its nodes name can be had."""


class UsedFile(NamedTuple):
    """A model or input file that a picture was made with."""

    name: str | None
    """As in the graph; None if the node's default was used."""
    digest: str
    """Content hash, as ``runtime.hashes`` makes it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """How the picture or video with the graph was made."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """``device`` (its class, such as ``cuda``), ``dtype``, ``quantize``, ``kernels``, ``threads``, as far as known."""
    files: Mapping[str, UsedFile] = field(default_factory=dict)
    """By ``node.input``."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Versions of Python and packages, by name."""


@dataclass(frozen=True, slots=True)
class Graph:
    """A parsed graph. It is not yet checked against the node library."""

    nodes: Mapping[str, NodeUse]
    inputs: Mapping[str, GraphInput] = field(default_factory=dict)
    outputs: Mapping[str, Link] = field(default_factory=dict)
    title: str = ""
    description: str = ""
    form: Form = "native"
    """The form of the file it came from."""
    source: str = ""
    """Origin of the graph, for messages."""
    workflow: Any = None
    """The editor's form from the same file, passed on unread."""
    origin: Origin | None = None
    """If the graph was read from a picture or video that pipegraph saved."""
    problems: tuple[Problem, ...] = ()
    """Problems of a file that was read partially; the check reports them with its own."""
    unlisted: int = 0
    """Number of problems besides these."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What a native file holds besides, unread."""
    editor: Editor | None = None
    """If it was read from the editor's form: the values that have no names yet."""
