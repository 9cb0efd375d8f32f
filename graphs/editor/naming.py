"""Names for the values of widgets: the editor keeps most of them by position only.

By position they follow the widgets in the order of the node's inputs; after a seed may stand what becomes of it, after
a file the label of a button. Names in the file win, then the file's own list of widgets if it is whole, then the ports
of the node as this version of it has them. What fits none of these is an error, not a guess.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from ..errors import Problem, Problems, shown
from ..schema import BAD, Editor, Graph, GraphInput, InputRef, NodeUse, Widgets, WidgetValue

CONTROL: Final = frozenset(("fixed", "increment", "decrement", "randomize", "increment-wrap"))
"""Editor widgets for a seed after a run; no inputs of nodes."""
SEEDS: Final = frozenset(("seed", "noise_seed"))
"""Inputs that have such a word after them, whatever the node says."""
TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "INT": (int,),
    "FLOAT": (int, float),
    "STRING": (str,),
    "BOOLEAN": (bool,),
    "COMBO": (str, int, float, bool),
}
"""Types of inputs that have widgets, and the values that these hold."""
BUTTONS: Final = frozenset(("", "image", "video", "audio", "upload"))
"""Values of buttons and previews after a file."""


class Slot(NamedTuple):
    """An input of a node that may have a widget."""

    name: str
    type: str
    seed: bool = False
    auto: bool = False
    """It may be the word ``auto``."""
    optional: bool = False
    """A widget that only the editor reads, and of which there may be none."""
    choice: str = ""
    """It is there only while the input of this name has one of ``values``."""
    values: tuple[str, ...] = ()


PLAIN: Final[Mapping[type, str]] = {int: "INT", float: "FLOAT", str: "STRING", bool: "BOOLEAN"}
_DYNAMIC: Final = re.compile(r"(?<!\\)\{[^{}]*\|[^{}]*\}|(?<!:)//[^\n]*|/\*.*?\*/", re.S)
"""A choice ``{a|b}`` or a comment in a prompt."""
_LACKING: Final = object()
"""Stands for a value that the file does not have."""
Slots = Callable[[str], Sequence[Slot] | None]
"""The inputs of a type of node that may have widgets, in order; None if the type is not known."""


def named(graph: Graph, slots: Slots, *, strict: bool = False) -> Graph:
    """The graph with the values of its widgets as inputs of its nodes; values that cannot be named are problems.

    Args:
        graph: As it was read.
        slots: What is known of the types of nodes.
        strict: Values of types that are not known are problems too; checking tells of the types themselves.
    """
    if graph.editor is None or not graph.editor.widgets:
        return graph
    return _Naming(graph, graph.editor, slots, strict).run()


class _Naming:
    def __init__(self, graph: Graph, editor: Editor, slots: Slots, strict: bool) -> None:
        self.graph, self.editor, self.slots, self.strict = graph, editor, slots, strict
        self.problems = Problems(graph.problems, graph.unlisted)
        self.by_node: dict[str, dict[str, Any]] = {}
        self.notes = [*editor.notes]
        self.counts: Counter[str] = Counter(editor.counts)

    def run(self) -> Graph:
        nodes = {id: self.node(use) for id, use in self.graph.nodes.items()}
        inputs, fixed = self.inputs()
        if fixed:
            nodes = {id: use._replace(inputs=_filled(use.inputs, fixed)) for id, use in nodes.items()}
        listed, unlisted = tuple(self.problems.listed), self.problems.unlisted
        editor = replace(self.editor, widgets={}, notes=tuple(self.notes), counts=dict(self.counts))
        return replace(self.graph, nodes=nodes, inputs=inputs, problems=listed, unlisted=unlisted, editor=editor)

    def inputs(self) -> tuple[dict[str, GraphInput], dict[str, Any]]:
        """The inputs of the graph with their defaults, and replacements for those that cannot be inputs, by name."""
        inputs: dict[str, GraphInput] = {}
        fixed: dict[str, Any] = {}
        for name, port in self.graph.inputs.items():
            value, type = port.default, port.type
            if isinstance(value, WidgetValue):
                value, type = self.own(value, type)
            type = type or PLAIN.get(value.__class__, "")
            stored = self.editor.filled.get("", {}).get(name)
            if stored:
                value = stored[0] if _same(value, stored[1]) else value
                inputs[name] = replace(port, default=value, required=port.required and _same(value, stored[0]))
            elif type and value is not _LACKING and value.__class__ in TYPES[type] + (str,):
                inputs[name] = replace(port, type=type, default=value, multiline=type == "STRING")
            else:
                fixed[name] = value
        return inputs, fixed

    def own(self, at: WidgetValue, type: str) -> tuple[Any, str]:
        """The value that the file has for a widget, and the type of its input."""
        widgets = self.editor.widgets.get(at.node)
        if widgets is None:
            return _LACKING, ""
        named = self.name(at.node, widgets._replace(promoted={}), aloud=False)
        slot = next((slot for slot in self.slots(widgets.type) or () if slot.name == at.widget), None)
        unknown = BAD if self.slots(widgets.type) is None else _LACKING  # checking tells of a type that is not known
        return named.get(at.widget, unknown), type or (slot.type if slot else "")

    def node(self, use: NodeUse) -> NodeUse:
        inputs = dict(self.values(use.id))
        self.count(use, inputs)
        for name, value in use.inputs.items():
            if isinstance(value, WidgetValue):
                values = self.values(value.node)
                widgets = self.editor.widgets.get(value.node)
                if value.widget in values:
                    inputs[name] = values[value.widget]
                elif widgets is None or self.slots(widgets.type) is None:
                    inputs[name] = BAD  # checking tells of the type that is not known
                else:
                    message = f'it takes the value of "{value.widget}" of the node "{value.node}", which the file lacks'
                    self.problems.add("unnamed_values", message, node=use.id, title=use.shown, input=name)
                    inputs[name] = BAD
            else:
                inputs[name] = value
        for name, (ours, shown_value) in self.editor.filled.get(use.id, {}).items():
            if name in inputs and _same(inputs[name], shown_value):
                inputs[name] = ours
        if "TextEncode" in use.type:
            self.prompts(use, inputs)
        return use._replace(inputs=inputs)

    def prompts(self, use: NodeUse, inputs: Mapping[str, Any]) -> None:
        """Say which prompts ComfyUI's editor changes before it sends them: choices are drawn, comments cut out."""
        for name, value in inputs.items():
            text = self.graph.inputs[value.name].default if isinstance(value, InputRef) else value
            if isinstance(text, WidgetValue):
                text = self.own(text, "")[0]
            if isinstance(text, str) and (match := _DYNAMIC.search(text)):
                message = "the editor draws one of {a|b} and cuts comments out of a prompt; here it is read as it is"
                more: dict[str, Any] = {"node": use.id, "title": use.shown, "input": name, "got": shown(match[0])}
                self.notes.append(Problem(code="dynamic_prompt", message=message, **more))

    def count(self, use: NodeUse, named: Mapping[str, Any]) -> None:
        """The node's named values, for reports."""
        widgets = self.editor.widgets.get(use.id)
        values = len(widgets.values if widgets.named is None else widgets.named) if widgets else 0
        own = len(named.keys() - widgets.promoted.keys()) if widgets else 0
        self.counts["values"] += values
        self.counts["values named"] += own
        known = widgets is not None and (own or self.slots(use.type) is not None)
        self.counts["values of the form" if known else "values without a name"] += values - own
        self.counts["values replaced by links"] += len(named.keys() & use.inputs.keys())

    def values(self, id: str) -> dict[str, Any]:
        """The values of a node's widgets by name; nodes that do not run are asked only if another takes a value."""
        if id not in self.by_node:
            widgets = self.editor.widgets.get(id)
            self.by_node[id] = self.name(id, widgets) if widgets else {}
        return self.by_node[id]

    def name(self, id: str, widgets: Widgets, *, aloud: bool = True) -> dict[str, Any]:
        if widgets.named is not None or not widgets.values:
            slots = self.slots(widgets.type)
            names = {slot.name for slot in slots or ()}
            own = {k: v for k, v in (widgets.named or {}).items() if slots is None or k in names or not _is_form(v)}
            return {**own, **widgets.promoted}
        sockets = {name for name, _, is_widget, _ in widgets.sockets if not is_widget}
        named = self.aligned(widgets, sockets)
        if named is None:
            named = {slot.name: BAD for slot in self.slots(widgets.type) or () if not (slot.choice or slot.optional)}
            slots = self.slots(widgets.type)
            if aloud and (slots or (self.strict and id in self.graph.nodes)):
                self.cannot(id, widgets, slots or ())
        elif aloud:
            self.lacking(id, widgets, named, sockets)
        return {**{name: value for name, value in named.items() if name not in sockets}, **widgets.promoted}

    def aligned(self, widgets: Widgets, sockets: Collection[str]) -> dict[str, Any] | None:
        """The values by name, or None if they fit no list of inputs."""
        values = widgets.values
        own = [Slot(name, type, auto=True) for name, type, is_widget, _ in widgets.sockets if is_widget]
        if any(is_widget and not linked for _, _, is_widget, linked in widgets.sockets):
            # Editors of today list every widget; old ones and shortened lists have those that are linked only.
            if (named := align(values, own, whole=True)) is not None:
                return named
        slots = self.slots(widgets.type)
        if slots is None:
            return align(values, own, whole=True)
        slots = [slot for slot in slots if slot.type in TYPES or slot.optional]
        if not slots:
            return {}  # what such a node keeps is what it has shown
        # In files of old editors inputs that must be linked have a value too.
        orders = [slot for slot in slots if slot.name not in sockets], slots
        for order in orders:
            if (named := align(values, order, whole=True)) is not None:
                return named
        named = next((named for order in orders if (named := align(values, order, whole=False)) is not None), None)
        if named is None:
            named = with_gap(values, orders[0])
        return named

    def lacking(self, id: str, widgets: Widgets, named: Mapping[str, Any], sockets: Collection[str]) -> None:
        """Say which inputs the file has no value for."""
        slots = [slot for slot in self.slots(widgets.type) or () if slot.type in TYPES and slot.name not in sockets]
        names = [slot.name for slot in slots if not (slot.name in named or slot.optional) and _is_there(slot, named)]
        if names:
            message = f"the file is older than {', '.join(names)} of this node: defaults count"
            self.notes.append(Problem(code="default_counts", message=message, node=id, title=_title(widgets)))

    def cannot(self, id: str, widgets: Widgets, slots: Iterable[Slot]) -> None:
        names = [slot.name for slot in slots if not slot.optional]
        count, listed = len(widgets.values), ", ".join(shown(value, 20) for value in widgets.values[:12])
        more: dict[str, Any] = {"node": id, "title": _title(widgets), "got": f"[{listed}]"}
        if names:
            message = f"{count} values stand by position, and do not fit the inputs of {widgets.type}"
            hint = "Another version of the node wrote the file: open and save it in today's editor, or set the inputs."
            more |= {"input": names[0], "wanted": f"values of: {', '.join(names)}", "hint": hint}
        else:
            message = f"{count} values stand by position, and no node {widgets.type} is known that would name them"
        self.problems.add("unnamed_values", message, **more)


def _same(value: Any, other: Any) -> bool:
    return value.__class__ is other.__class__ and bool(value == other)


def _filled(inputs: Mapping[str, Any], fixed: Mapping[str, Any]) -> dict[str, Any]:
    """Inputs with values in the place of references to what is no input of the graph."""
    filled = {}
    for name, value in inputs.items():
        if isinstance(value, InputRef) and value.name in fixed:
            value = fixed[value.name]
        if value is not _LACKING:
            filled[name] = value
    return filled


def align(values: Sequence[Any], slots: Sequence[Slot], *, whole: bool) -> dict[str, Any] | None:
    """Values by the names of ``slots``, or None if they do not fit.

    Args:
        values: By position.
        slots: Inputs of the node that have widgets, in order.
        whole: Every slot must have a value; else the last ones may have none, and their defaults count.
    """
    named: dict[str, Any] = {}
    at = 0
    for number, slot in enumerate(slots):
        if not _is_there(slot, named):
            continue
        if at == len(values):
            if slot.optional:
                continue
            if whole:
                return None
            break
        if not _holds(slot, values[at]):
            return None
        named[slot.name] = values[at]
        at += 1
        if at < len(values) and _is_control(values[at], slot, slots[number + 1 :]):
            at += 1
    return named if all(_is_form(value) for value in values[at:]) else None


def with_gap(values: Sequence[Any], slots: Sequence[Slot]) -> dict[str, Any] | None:
    """Values by name where an input is new since the file was written; None where it is not certain which.

    New inputs come last among those that a choice brings. Elsewhere the types must leave one place only.
    """
    gaps: list[tuple[Slot, dict[str, Any], bool]] = []
    for number, slot in enumerate(slots):
        rest = [*slots[:number], *slots[number + 1 :]]
        named = align(values, rest, whole=True)
        if named is not None and _is_there(slot, named):
            gaps.append((slot, named, not rest[number:] or rest[number].choice != slot.choice))
    last = [gap for gap in gaps if gap[0].choice and gap[2]]
    certain = last if len(last) == 1 else gaps
    return certain[0][1] if len(certain) == 1 else None


def _is_there(slot: Slot, named: Mapping[str, Any]) -> bool:
    """Whether a choice among the values brings the input, if it needs one."""
    return not slot.choice or named.get(slot.choice) in slot.values


def _title(widgets: Widgets) -> str:
    return " / ".join(filter(None, (widgets.within, widgets.title or widgets.type)))


def _holds(slot: Slot, value: Any) -> bool:
    """Whether a widget could have the value."""
    kinds = TYPES.get(slot.type)
    if kinds is None or value is None or value is BAD or type(value) in kinds:
        return True
    return (slot.auto and value == "auto") or (slot.seed and value == "random")


def _is_control(value: Any, slot: Slot, after: Sequence[Slot]) -> bool:
    """Whether the value after that of ``slot`` says what becomes of it after a run."""
    if type(value) is not str or value not in CONTROL:
        return False
    if slot.seed or slot.name in SEEDS:
        return True
    return slot.type in ("INT", "FLOAT", "COMBO") and not (after and after[0].type in ("STRING", "COMBO"))


def _is_form(value: Any) -> bool:
    """Whether a value is of the editor's form only."""
    return value is None or (type(value) is str and (value in CONTROL or value in BUTTONS))
