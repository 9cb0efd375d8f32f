"""The node declaration: a typed function is the schema, such as ``ImageInvert`` in ``nodes/image/edit.py``.

Types come from annotations, limits from ``annotated_types`` and the markers of ``marks.py``, texts from the docstring.
An invalid declaration raises ``DeclarationError`` on import. Torch-free.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from types import FunctionType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    ParamSpec,
    TypeVar,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from annotated_types import Ge, Gt, Le, Lt, MultipleOf

from .errors import DeclarationError
from .marks import (
    Auto,
    Choices,
    Doc,
    Extra,
    FileInput,
    FileName,
    Formerly,
    Grows,
    Multiline,
    Needs,
    NotBelow,
    OneMoreThan,
    Seed,
    Step,
    Under,
    Wire,
)
from .spec import MISSING, PLAIN_TYPES, Effect, Lazy, Linked, NodeSpec, Port, RunContext, broken_limit
from .yields import NodeEvent, Preview, Progress, Saved, Text, Token

__all__ = [
    "MISSING", "PLAIN_TYPES", "Auto", "Choices", "DeclarationError", "Doc", "Effect", "Extra", "FileInput",
    "FileName", "Formerly", "Grows", "Lazy", "Linked", "Multiline", "Needs", "NodeEvent", "NodeSpec", "NotBelow",
    "OneMoreThan", "Port", "Preview", "Progress", "RunContext", "Saved", "Seed", "Step", "Text", "Token", "Under",
    "Wire", "broken_limit", "is_outputs", "node", "outputs",
]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_OUTPUTS: set[type] = set()


def is_outputs(cls: type) -> bool:
    """Whether ``outputs`` made this class: its fields are a node's outputs."""
    return cls in _OUTPUTS


@dataclass_transform(frozen_default=True)
def outputs(cls: type[T]) -> type[T]:
    """Mark a class as the named outputs of a node: a frozen dataclass, one field an output."""
    frozen = dataclass(frozen=True)(cls)
    _OUTPUTS.add(frozen)
    return frozen


def node(
    id: str,
    *,
    category: str = "",
    title: str = "",
    effect: Effect = "pure",
    version: int = 1,
    output_node: bool = False,
    output: str = "",
    ignores: str = "",
    rest: str = "",
    check: Callable[[Mapping[str, Any], Linked], Iterable[tuple[str, str]]] | None = None,
    recommend: Callable[..., Mapping[str, Any]] | None = None,
    changes: Mapping[str, Any] | None = None,
    check_model: Callable[[Mapping[str, Any], Mapping[str, Any]], Iterable[tuple[str, str]]] | None = None,
    size: Callable[[Mapping[str, Any]], int] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Declare a function as the node ``id``; returns the function with its spec as ``node_spec``.

    Args:
        id: ComfyUI's class name where ComfyUI has the node, CamelCase otherwise.
        category: Folder in menus, e.g. ``image/transform``; must be given.
        title: Name for people; the id split into words if empty.
        effect: See ``Effect``.
        version: Increase it if the same inputs give a new result.
        output_node: Runs even if nothing reads its outputs.
        output: Name of a single output; its wire type if empty.
        ignores: See ``NodeSpec.ignores``.
        rest: See ``NodeSpec.rest``.
        check: See ``NodeSpec.check``.
        recommend: For loaders; see ``NodeSpec.recommend``.
        changes: See ``NodeSpec.changes``.
        check_model: See ``NodeSpec.check_model``.
        size: See ``NodeSpec.size``.

    Raises:
        DeclarationError: the declaration is invalid; says where, why, and how to fix it.
    """
    if not isinstance(id, str) or not id:
        code = getattr(id, "__code__", None)
        where = f"{code.co_filename}:{code.co_firstlineno}" if code else repr(id)
        raise DeclarationError(where, "a node needs an id", 'write `@node("MyNode", category="...")`')

    def declare(fn: Callable[P, R]) -> Callable[P, R]:
        spec = _read(fn, id, output)
        if not category:
            fix = 'write the folder in menus: `category="image"`'
            raise DeclarationError(spec["where"], f"node `{id}` has no category", fix)
        words = title or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", id)
        fn.node_spec = NodeSpec(  # type: ignore[attr-defined]
            id=id,
            category=category,
            title=words,
            effect=effect,
            version=version,
            output_node=output_node,
            ignores=ignores,
            rest=rest,
            check=check,
            recommend=recommend,
            changes=changes or {},
            check_model=check_model,
            size=size,
            **spec,
        )
        return fn

    return declare


def _read(fn: Callable[..., Any], id: str, output: str) -> dict[str, Any]:
    """The parts of a NodeSpec from a function's signature and docstring."""
    if not isinstance(fn, FunctionType):
        raise DeclarationError(repr(fn), "a node is a plain function", "decorate a `def`")
    where = f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}"
    label = f"node `{id}`"
    doc = inspect.getdoc(fn) or ""
    if not doc:
        raise DeclarationError(where, f"{label} has no docstring", "say in one line what it does")
    try:
        hints = get_type_hints(fn, include_extras=True)
    except NameError as e:
        raise DeclarationError(where, f"{label}: {e}", "import the type at module level") from e
    described = _described(doc)
    inputs: dict[str, Port] = {}
    context = None
    for p in inspect.signature(fn).parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise DeclarationError(where, f"{label}: `*{p.name}` is no input", "name each input")
        if p.name not in hints:
            raise DeclarationError(where, f"{label}: input `{p.name}` has no type", f"write `{p.name}: <type>`")
        if hints[p.name] is RunContext:
            context = p.name
            continue
        default = MISSING if p.default is p.empty else p.default
        port = _port(p.name, hints[p.name], where, label, doc=described.get(p.name, ""), default=default)
        if not port.doc:
            fix = f"add `{p.name}: ...` under `Args:` in the docstring"
            raise DeclarationError(where, f"{label}: input `{p.name}` is not described", fix)
        if port.grows:  # each of them may be left out
            inputs |= {n: replace(port, name=n, default=None) for n in (f"{p.name}.{x}" for x in port.grows.names)}
            continue
        if port.under:
            if port.under.choice not in inputs:
                raise DeclarationError(
                    where, f"{label}: `{p.name}` is under `{port.under.choice}`, which comes before it"
                )
            port = replace(port, name=f"{port.under.choice}.{p.name}")
        problem = default is not MISSING and broken_limit(port, default)
        if problem:
            raise DeclarationError(where, f"{label}: default {default!r} of `{p.name}` is not {problem}")
        inputs[port.name] = port
    groups = frozenset(name.partition(".")[0] for name, port in inputs.items() if port.grows)
    for port in inputs.values():
        if port.not_below and port.not_below not in inputs:
            raise DeclarationError(where, f"{label}: `{port.name}` is not below `{port.not_below}`, which is no input")
    if extra := described.keys() - {name.rpartition(".")[2] for name in inputs} - groups:
        raise DeclarationError(where, f"{label}: docstring describes {sorted(extra)}, which it does not take")
    if "return" not in hints:
        raise DeclarationError(where, f"{label}: no return type", "write `-> <type>`")
    result, streams = hints["return"], False
    if get_origin(result) is Generator:
        result, streams = get_args(result)[2], True
    outs = _output_ports(result, where, label, output)
    return dict(
        fn=fn, inputs=inputs, outputs=outs, doc=doc, context=context, streams=streams, groups=groups, where=where
    )


def _port(name: str, hint: Any, where: str, label: str, *, doc: str = "", default: Any = MISSING) -> Port:
    """A port from a type hint; ``doc`` takes precedence over the type's ``Doc``."""
    facts: dict[str, Any] = {}
    wires: list[str] = []

    def visit(h: Any) -> None:
        origin, args = get_origin(h), get_args(h)
        if origin is Annotated:
            marks = args[1:]
            for mark in marks:
                facts.update(_facts(mark))
            wire = next((m.name for m in marks if isinstance(m, Wire)), None)
            if wire:
                wires.append(wire)
            else:
                visit(args[0])
        elif origin is Lazy:
            facts["lazy"] = True
            visit(args[0])
        elif origin in (Union, UnionType):
            for a in args:
                visit(a)
        elif h is NoneType:
            facts["nullable"] = True
        elif origin is Literal:
            wires.append("COMBO")
            facts["choices"] = tuple(args)
        elif h in PLAIN_TYPES:
            wires.append(PLAIN_TYPES[h])
        else:
            fix = "use int, float, str, bool, Literal, or a type of pipegraph.nodes.wire"
            raise DeclarationError(where, f"{label}: `{name}` has a type that is no wire type: {h!r}", fix)

    visit(hint)
    if callable(facts.get("choices")) or facts.get("file"):
        wires = ["COMBO"]
    facts["doc"] = doc or facts.get("doc", "")
    return Port(name, ",".join(dict.fromkeys(wires)), default=default, **facts)


def _facts(mark: Any) -> dict[str, Any]:
    """The port fields of one marker."""
    match mark:
        case Ge(ge=v):
            return {"minimum": v}
        case Le(le=v):
            return {"maximum": v}
        case Gt(gt=v):
            return {"above": v}
        case Lt(lt=v):
            return {"below": v}
        case MultipleOf(multiple_of=v):
            return {"multiple_of": v}
        case Doc():
            return {"doc": mark.text}
        case Choices():
            return {"choices": mark.names}
        case OneMoreThan():
            return {"multiple_of": mark.multiple, "offset": mark.by}
        case FileInput():
            return {"file": mark}
        case FileName():
            return {"file_name": mark}
        case Auto():
            return {"auto": mark.key}
        case Step():
            return {"step": mark.by}
        case NotBelow():
            return {"not_below": mark.input}
        case Seed():
            return {"seed": True}
        case Under() | Formerly():
            return {type(mark).__name__.lower(): mark}
        case Grows():
            return {"grows": mark, "nullable": True}
        case Needs():
            return {"needs": mark}
        case Multiline():
            return {"multiline": True}
        case Extra():
            return {"extra": True}
        case _:
            return {}


def _output_ports(result: Any, where: str, label: str, output: str) -> dict[str, Port]:
    if result is None or result is NoneType:  # a generator of collections.abc keeps None as it is
        return {}
    if isinstance(result, type) and result in _OUTPUTS and is_dataclass(result):
        hints = get_type_hints(result, include_extras=True)
        return {f.name: _port(f.name, hints[f.name], where, label) for f in fields(result)}
    port = _port(output, result, where, label)
    name = output or port.type
    return {name: replace(port, name=name)}


def _described(doc: str) -> dict[str, str]:
    """Names and texts under ``Args:`` of a docstring; indented lines continue a text."""
    block = re.search(r"^Args:\n((?:[ \t]+.*\n?|\n)+)", doc, re.M)
    entries = re.findall(r"^ {4}(\w+): (.+(?:\n {5,}.+)*)", block[1], re.M) if block else []
    return {name: " ".join(text.split()) for name, text in entries}
