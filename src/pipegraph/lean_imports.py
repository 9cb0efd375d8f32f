"""Import diffusers and transformers without heavy packages that a run does not use.

A cold run is mostly imports. Importing one network of diffusers imports all of them, then torch's compiler and peft;
importing transformers imports SciPy for losses of training. While one of these libraries (``IMPORTERS``) imports such a
package (``DEFERRED``), it gets a stand-in whose names import the real package when they are used: called, subclassed,
compared, looked into. Everybody else gets the real package at once. Packages that import all their modules
(``GATHERING``) do so only when they are asked for a name that they do not have yet.

``install`` is called when ``pipegraph.models`` is imported; it does nothing to what was imported before. Set
``PIPEGRAPH_LEAN_IMPORTS=0`` to leave all imports as they are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import version
from threading import RLock
from types import FrameType, ModuleType
from typing import Any, Final

IMPORTERS: Final = frozenset(("diffusers", "transformers", "accelerate", "peft"))
DEFERRED: Final = (
    "scipy",
    "sklearn",
    "pandas",
    "peft",
    "accelerate",
    "gguf",
    "diffusers.quantizers",
    "diffusers.loaders.single_file_utils",
    "torch._dynamo",
    "torch.distributed._composable",
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "transformers.distributed.checkpoint",
    "transformers.distributed.expert_parallel",
    "transformers.distributed.fsdp",
    "transformers.distributed.sharding_utils",
    "transformers.distributed.tensor_parallel",
    "transformers.quantizers",
)
GATHERING: Final = frozenset(
    f"diffusers.{name}"
    for name in ("hooks", "models.autoencoders", "models.controlnets", "models.transformers", "models.unets")
)
_MARKS: Final = {"disable": "_torchdynamo_disable", "assume_constant_result": "_dynamo_marked_constant"}
"""Decorators of ``torch._dynamo`` that libraries apply when they are imported, and the attribute that each sets."""
_allowed_in_graph: list[Any] = []
"""Functions for ``torch._dynamo.allow_in_graph``, for when it is imported."""
_lock = RLock()


def install() -> None:
    """Defer imports in this process from now on; a second call changes nothing."""
    if os.environ.get("PIPEGRAPH_LEAN_IMPORTS") == "0" or any(isinstance(f, _Finder) for f in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in GATHERING:
            spec = PathFinder.find_spec(fullname, path, target)
            if spec and spec.loader:
                spec.loader = _Gathering(spec.loader)
            return spec
        if not _root(fullname):
            return None
        if _for_library(fullname):
            return ModuleSpec(fullname, _StandIns(), is_package=True)
        if isinstance(sys.modules.get(fullname.rpartition(".")[0]), _StandIn):
            return ModuleSpec(fullname, _Loaded(_real(fullname)))
        return None


def _root(name: str) -> str:
    """The package of ``DEFERRED`` that a module belongs to, or an empty string."""
    return next((root for root in DEFERRED if name == root or name.startswith(root + ".")), "")


def _for_library(name: str) -> bool:
    """Whether the importing code belongs to ``IMPORTERS``, and not to the package itself."""
    root = _root(name)
    frame: FrameType | None = sys._getframe(1)
    while frame and (module := str(frame.f_globals.get("__name__", ""))):
        if frame.f_code is _real.__code__:
            return False
        # torch.compiler hands its decorators on to torch._dynamo
        if module not in (__name__, "torch.compiler") and not module.startswith("importlib"):
            return module.partition(".")[0] in IMPORTERS and _root(module) != root
        frame = frame.f_back
    return False


class _Loaded(Loader):
    """Loader of a module that is imported already."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


class _StandIns(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


class _StandIn(ModuleType):
    """Stand-in of a module that only libraries have imported."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name == "__version__":
            return version(self.__name__)
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if not _for_library(self.__name__):
            return getattr(_real(self.__name__), name)
        if self.__name__ == "torch._dynamo" and name in (*_MARKS, "allow_in_graph"):
            return partial(_decorated, name)
        return _Name(self.__name__, name)


def _real(name: str) -> ModuleType:
    """Import the real module and drop the stand-ins of its package."""
    with _lock:
        root = _root(name)
        for other in [n for n, m in sys.modules.items() if isinstance(m, _StandIn) and _root(n) == root]:
            del sys.modules[other]
        module = import_module(name)
        if root == "torch._dynamo" and (allow := getattr(sys.modules[root], "allow_in_graph", None)):
            while _allowed_in_graph:
                allow(_allowed_in_graph.pop())
        return module


def _decorated(decorator: str, function: Any = None, *_: Any, **__: Any) -> Any:
    """Apply a decorator of ``torch._dynamo``, with or without arguments."""
    if function is None:
        return partial(_decorated, decorator)
    if decorator == "allow_in_graph":
        _allowed_in_graph.append(function)
    else:
        setattr(function, _MARKS[decorator], True)
    return function


class _Name:
    """Stand-in of a name in a deferred module; any use resolves to the real object."""

    def __init__(self, module: str, name: str) -> None:
        self.__dict__.update(_module=module, _name=name)

    def _real(self) -> Any:
        value = getattr(_real(self.__dict__["_module"]), self.__dict__["_name"])
        return value._real() if isinstance(value, _Name) else value

    def _imported(self) -> bool:
        """Whether the real module is imported; before that, its classes have no instances or subclasses."""
        return not isinstance(sys.modules.get(self.__dict__["_module"]), _StandIn | None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real(), name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._real()(*args, **kwargs)

    def __getitem__(self, item: Any) -> Any:
        return self._real()[item]

    def __mro_entries__(self, bases: Any) -> tuple[Any, ...]:
        return (self._real(),)

    def __instancecheck__(self, instance: Any) -> bool:
        return self._imported() and isinstance(instance, self._real())

    def __subclasscheck__(self, subclass: Any) -> bool:
        return self._imported() and issubclass(subclass, self._real())

    def __or__(self, other: Any) -> Any:
        return _Union(self, other)

    __ror__ = __or__

    def __eq__(self, other: object) -> bool:
        return bool(self._real() == other)

    def __hash__(self) -> int:
        return hash(self._real())


class _Union(_Name):
    """Stand-in of ``name | other`` in annotations."""

    def __init__(self, name: _Name, other: Any) -> None:
        self.__dict__.update(name.__dict__, _either=name, _other=other)

    def _real(self) -> Any:
        name: _Name = self.__dict__["_either"]
        return name._real() | self.__dict__["_other"]

    def __instancecheck__(self, instance: Any) -> bool:
        other = self.__dict__["_other"]
        kind = type(None) if other is None else other
        return isinstance(instance, self.__dict__["_either"]) or isinstance(instance, kind)


class _Gathering(Loader):
    """Loads a package without running its ``__init__``, which imports all its modules, until a name is missing."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        def missing(name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            with _lock:
                if module.__dict__.pop("__getattr__", None):
                    self._loader.exec_module(module)
            return getattr(module, name)

        module.__dict__["__getattr__"] = missing
