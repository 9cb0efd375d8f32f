"""The catalogue of nodes: pipegraph's own, installed packs, and files the user names."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pipegraph.graphs.editor.naming import TYPES, Slot
from pipegraph.graphs.editor.write import Facts
from pipegraph.graphs.errors import message_of, nearest

from .errors import DeclarationError
from .marks import Under
from .spec import MISSING, NodeSpec, Port
from .values import is_plain, unlimited

GROUP: Final = "pipegraph.nodes"
"""Entry-point group of installed packs, and the package of pipegraph's own nodes."""


@dataclass(frozen=True, slots=True)
class BrokenPack:
    """A module of nodes that could not be imported."""

    source: str
    error: str
    """One line."""
    trace: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """A node in the catalogue, with precomputed facts for checking and planning."""

    spec: NodeSpec
    source: str
    """Module, distribution or file of origin."""
    defaults: Mapping[str, Any] = field(init=False)
    """Port name -> default of optional ports, in port order."""
    required: frozenset[str] = field(init=False)
    output_index: Mapping[str, int] = field(init=False)
    output_types: tuple[str, ...] = field(init=False)
    plain: frozenset[str] = field(init=False)
    """Inputs of numbers, strings or booleans."""
    lazy: frozenset[str] = field(init=False)
    own: bool = field(init=False)
    """Declared by pipegraph itself."""
    shared: bool = field(init=False)
    """Has inputs, such as tensors, that a node could change in place."""
    unlimited: Mapping[str, type] = field(init=False)
    """Inputs without limits: any value of this Python type fits."""
    file_inputs: frozenset[str] = field(init=False)
    seed_inputs: frozenset[str] = field(init=False)
    ordered: bool = field(init=False)
    """Has an input that must not be less than another."""
    formerly: Mapping[str, str] = field(init=False)
    """Older names of inputs -> their names."""
    under: Mapping[str, Under] = field(init=False)
    """Inputs that exist only for some values of another input."""
    slots: tuple[Slot, ...] = field(init=False)
    """Inputs that may have widgets in ComfyUI's editor."""

    def __post_init__(self) -> None:
        ports = self.spec.inputs.values()
        put = object.__setattr__
        put(self, "defaults", {p.name: p.default for p in ports if p.default is not MISSING})
        put(self, "required", frozenset(p.name for p in ports if p.required))
        put(self, "output_index", {name: i for i, name in enumerate(self.spec.outputs)})
        put(self, "output_types", tuple(p.type for p in self.spec.outputs.values()))
        put(self, "plain", frozenset(p.name for p in ports if is_plain(p)))
        put(self, "lazy", frozenset(p.name for p in ports if p.lazy))
        put(self, "own", self.source.startswith(f"{GROUP}."))
        put(self, "shared", any(not is_plain(p) for p in ports))
        put(self, "unlimited", {p.name: kind for p in ports if (kind := unlimited(p))})
        put(self, "file_inputs", frozenset(p.name for p in ports if p.file))
        put(self, "seed_inputs", frozenset(p.name for p in ports if p.seed))
        put(self, "ordered", any(p.not_below is not None for p in ports))
        slots = [_slot(p) for p in ports if p.type in TYPES and not (p.grows or p.extra)]
        put(self, "slots", (*slots, *_ignored(self.spec.ignores)))
        put(self, "formerly", {p.formerly.name: p.name for p in ports if p.formerly})
        put(self, "under", {p.name: p.under for p in ports if p.under})


def _slot(port: Port) -> Slot:
    under = port.under
    choice, values = (under.choice, under.values) if under else ("", ())
    return Slot(port.name, port.type, port.seed, bool(port.auto), choice=choice, values=values)


def _ignored(pattern: str) -> Iterator[Slot]:
    """The widgets behind ``NodeSpec.ignores``: names with bars between, or one with a count."""
    counted = pattern.endswith("[0-9]+")
    names = [f"{pattern[:-6]}{i}" for i in range(1, 51)] if counted else pattern.split("|") if pattern else []
    yield from (Slot(name, "*", optional=True) for name in names)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Nodes by id, and the packs that could not be loaded."""

    entries: Mapping[str, Entry]
    broken: tuple[BrokenPack, ...] = ()

    @classmethod
    def load(cls, extra: Sequence[Path] = ()) -> Catalog:
        """Collect pipegraph's own nodes, installed packs, and the files and folders in ``extra``.

        Raises:
            DeclarationError: two packs declare one id.
            FileNotFoundError: a path in ``extra`` does not exist.
        """
        collector = _Collector()
        collector.own()
        collector.installed()
        for path in extra:
            collector.path(Path(path))
        return cls(collector.entries, tuple(collector.broken))

    @classmethod
    def of(cls, *nodes: Any) -> Catalog:
        """A catalogue of these node functions or modules only."""
        collector = _Collector()
        for node in nodes:
            collector.take(node, str(getattr(node, "__module__", None) or getattr(node, "__name__", "?")))
        return cls(collector.entries)

    def slots(self, id: str) -> tuple[Slot, ...] | None:
        """The inputs of a node that may have widgets in ComfyUI's editor, or None if it is not known."""
        entry = self.entries.get(id)
        return entry.slots if entry else None

    def facts(self, id: str) -> Facts | None:
        """What writing a node into a file of ComfyUI's editor needs of its type, or None if it is not known."""
        entry = self.entries.get(id)
        if entry is None:
            return None
        inputs, outputs = entry.spec.inputs.values(), entry.spec.outputs.values()
        return Facts(
            [(port.name, port.type, not port.required) for port in inputs],
            [(port.name, port.type) for port in outputs],
            entry.slots,
            entry.defaults,
            frozenset(port.name for port in inputs if port.multiline),
        )

    def __getitem__(self, id: str) -> NodeSpec:
        """The node with this id; LookupError with the nearest names if unknown."""
        if id not in self.entries:
            raise LookupError(f'no node is called "{id}". {nearest(id, self.entries)}'.strip())
        return self.entries[id].spec

    def __iter__(self) -> Iterator[NodeSpec]:
        return (entry.spec for entry in self.entries.values())

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, id: object) -> bool:
        return id in self.entries


def module_names(folders: Iterable[str], prefix: str) -> Iterator[str]:
    """Full names of the modules in a package and its sub-packages, without importing them; sorted by folder."""
    for module in pkgutil.iter_modules(folders, prefix):
        if module.ispkg:
            stem = module.name.rpartition(".")[2]
            yield from module_names([str(Path(folder, stem)) for folder in folders], f"{module.name}.")
        else:
            yield module.name


class _Collector:
    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.broken: list[BrokenPack] = []

    def take(self, source_object: Any, source: str) -> None:
        """Add the nodes of a module, a function, or an iterable of either."""
        if isinstance(spec := getattr(source_object, "node_spec", None), NodeSpec):
            self.add(spec, source)
        elif isinstance(source_object, ModuleType):
            for value in list(vars(source_object).values()):
                if isinstance(getattr(value, "node_spec", None), NodeSpec):
                    self.add(value.node_spec, source)
        elif isinstance(source_object, Iterable):
            for item in source_object:
                self.take(item, source)
        else:
            raise DeclarationError(
                source, f"{source_object!r} is no node", "name a module or a list of @node functions"
            )

    def add(self, spec: NodeSpec, source: str) -> None:
        known = self.entries.get(spec.id)
        if known is None:
            self.entries[spec.id] = Entry(spec, source)
        elif known.spec is not spec:
            first, second = (f"{s} ({e.where})" for s, e in ((known.source, known.spec), (source, spec)))
            problem = f"node `{spec.id}` is declared twice: by {first} and by {second}"
            raise DeclarationError(spec.where, problem, "rename one, or leave one pack out")

    def imported(self, name: str, source: str) -> None:
        """Import a module and add its nodes; a module that fails is listed as broken."""
        try:
            module = importlib.import_module(name)
        except (Exception, SystemExit) as e:
            self.fail(source, e)
        else:
            self.take(module, source)

    def fail(self, source: str, error: BaseException) -> None:
        line = message_of(error).splitlines()[0]
        self.broken.append(BrokenPack(source, line, "".join(traceback.format_exception(error))))

    def own(self) -> None:
        package = importlib.import_module(GROUP)
        for name in module_names(package.__path__, f"{GROUP}."):
            self.imported(name, name)

    def installed(self) -> None:
        for point in sorted(entry_points(group=GROUP), key=lambda p: (p.name, p.value)):
            source = f"{point.dist.name if point.dist else point.name} ({point.value})"
            try:
                pack = point.load()
            except (Exception, SystemExit) as e:
                self.fail(source, e)
            else:
                self.take(pack, source)

    def path(self, path: Path) -> None:
        """A Python file, a package, or a folder of Python files; relative imports between its files work."""
        if not path.exists():
            raise FileNotFoundError(f"no such file or folder of nodes: {path}")
        path = path.resolve()
        name = f"pipegraph_pack_{path.stem}_{blake2b(str(path).encode(), digest_size=4).hexdigest()}"
        if path.is_file():
            self.file(path, name)
            return
        if (path / "__init__.py").is_file():
            self.file(path / "__init__.py", name, folder=path)
        else:
            module = ModuleType(name)
            module.__path__ = [str(path)]
            sys.modules.setdefault(name, module)
        for file in sorted(path.glob("*.py")):
            if not file.stem.startswith("_"):
                self.imported(f"{name}.{file.stem}", str(file))

    def file(self, path: Path, name: str, folder: Path | None = None) -> None:
        module = sys.modules.get(name)
        if module is None:
            search = [str(folder)] if folder else None
            module_spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=search)
            if module_spec is None or module_spec.loader is None:
                self.broken.append(BrokenPack(str(path), "not a Python file"))
                return
            module = sys.modules[name] = importlib.util.module_from_spec(module_spec)
            try:
                module_spec.loader.exec_module(module)
            except (Exception, SystemExit) as e:
                del sys.modules[name]
                self.fail(str(path), e)
                return
        self.take(module, str(path))
