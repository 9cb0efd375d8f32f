"""Which back end serves an op: chosen once for a signature, overridable, explained. Importing this needs no torch.

An op (``attention``, ``linear``) is a function with several back ends. Which one runs is settled in this order:

1. the call's own argument, ``attention(q, k, v, backend="torch")``;
2. the innermost ``with use(attention="torch"):``;
3. the environment, ``PIPEGRAPH_KERNELS=attention=torch,linear=reference``, read once;
4. the highest rank among those that can serve the signature, whose numerics class is ``exact`` (any class if the call
   says ``precision="fast"``) and which are ours or have passed the conformance kit here (``kernels.testing``).

A choice by 1 to 3 that cannot serve raises ``KernelError`` with the reason. A choice is remembered, so that a later
call of the same signature costs one dictionary hit. On a machine with several GPUs, that of the call's tensors is the
current one while back ends are chosen and while one runs, whatever was current before.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from inspect import isfunction
from typing import Any, Final, Generic, Literal, Protocol, TypeVar

from pipegraph.context import holding

from .current_device import current, device_of, on_device
from .proven import proven, version_of

OPS: Final[Mapping[str, str]] = {
    "attention": "attention",
    "attention_varlen": "attention_varlen",
    "merge_attention": "merge_attention",
    "paged_decode": "paged",
    "kv_append": "paged",
    "linear": "linear",
    "grouped_linear": "grouped_linear",
    "quantize_rows": "quantize_rows",
    "rms_norm": "rms_norm",
    "ada_norm": "ada_norm",
    "gate_add": "ada_norm",
    "qk_norm_rope": "qk_norm_rope",
    "swiglu": "gated",
    "geglu": "gated",
    "sample": "sample",
}
"""Every op -> the module of this folder that defines it and registers its back ends when it is imported."""
OPTIONAL: Final[Mapping[str, str]] = {"attention": "backends.packages.attention", "linear": "backends.packages.linear"}
"""Op -> the module that registers its back ends of packages which may not be there; imports none of them."""
GROUP: Final = "pipegraph.kernels"
"""Entry-point group of other packages' back ends: each entry is a function that is called with ``register``."""
VARIABLE: Final = "PIPEGRAPH_KERNELS"
_REMEMBERED: Final = 4096
_LIBRARY = {"torch": "torch", "cudnn": "torch", "scaled-mm": "torch", "triton": "triton", "triton-tma": "triton"}
"""The package whose version matters for our own back ends; for others it is their source."""
Numerics = Literal["exact", "reduced"]
"""exact: as near to float64 as the inputs' dtype allows (docs/kernels.md has the bounds). reduced: quantizes inside."""


class KernelError(ValueError):
    """A call that no back end supports, or a requested back end that does not."""


class Signature(Protocol):
    """Signature of a call, for the choice of a back end; each op has its own class."""

    @property
    def device(self) -> str:
        """Device type, e.g. ``cpu``."""
        ...

    @property
    def precision(self) -> str:
        """``exact``, or ``fast`` to allow reduced numerics."""
        ...


S = TypeVar("S", bound=Signature)


def _nothing(*_: Any) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Backend(Generic[S]):
    """One implementation of an op."""

    op: str
    name: str
    fn: Callable[..., Any]
    """A plain Python function with the signature that the op's module documents."""
    rank: Callable[[S], float]
    """Priority for a supported signature; the highest wins."""
    refuses: Callable[[S], str] = _nothing
    """Why a signature is not supported; empty if it is."""
    missing: Callable[[], str] = _nothing
    """Why it cannot run on this machine; empty if it can. Must not launch kernels."""
    numerics: Numerics = "exact"
    source: str = "pipegraph"
    """Distribution of origin. Back ends of other packages must be proven before they are chosen by rank."""

    def verdict(self, signature: S) -> str:
        """Why this is not supported; empty if it is."""
        return self.missing() or self.refuses(signature)

    def held_back(self, signature: S) -> str:
        """Why this is not chosen by rank although it may be supported; empty if it can be chosen."""
        if self.numerics != "exact" and signature.precision != "fast":
            return 'lowers the numerics class; only with precision="fast" or when asked for by name'
        if self.source != "pipegraph" and not proven(self.op, self.name, self.source, signature.device):
            return f"unverified; `pipegraph kernels {self.op} --prove {self.name}` tests it, else only by name"
        return ""


@dataclass(frozen=True, slots=True)
class Report:
    """One back end in the answer of :func:`explain`."""

    op: str
    backend: str
    version: str
    """Version of the package with the kernel; empty if it is not installed."""
    numerics: str
    source: str
    usable: bool
    chosen: bool
    why: str


@dataclass(slots=True)
class Op(Generic[S]):
    """An op: its back ends and the choices by signature."""

    name: str
    describe: Callable[[Any], S]
    """Turns the key of a call into its signature; raises ``KernelError`` for invalid calls."""
    sample: Callable[[str, str], S]
    """A usual signature for a device type and dtype name, for :func:`explain`."""
    memo: dict[Hashable, Backend[S]] = field(default_factory=dict)

    def pick(self, key: Hashable, backend: str | None = None) -> Backend[S]:
        """The back end for a call; ``key`` holds everything that ``describe`` needs."""
        asked = (key, backend or _using.get().get(self.name))
        chosen = self.memo.get(asked)
        if chosen is None:
            chosen = self._choose(key, asked[1])
            if len(self.memo) >= _REMEMBERED:
                self.memo.clear()
            self.memo[asked] = chosen
        if (calls := _calls.get()) is not None:
            calls.setdefault(self.name, set()).add(chosen.name)
        return chosen

    def _choose(self, key: Hashable, name: str | None) -> Backend[S]:
        """Choose for a new signature; the back end is asked, and will run, on the device of the call's tensors."""
        device = device_of(key)
        with current(device):
            signature = self.describe(key)
            chosen = self._explicit(signature, name) or self._best(signature)
        return replace(chosen, fn=on_device(chosen.fn, device))

    def _explicit(self, signature: S, name: str | None) -> Backend[S] | None:
        name = name or _environment().get(self.name)
        if not name:
            return None
        backend = backends(self.name)[_known(self.name, name.removesuffix("?"))]
        if reason := backend.verdict(signature):
            if name.endswith("?"):
                return None
            raise KernelError(f"{self.name}: back end `{name}` was asked for but cannot serve: {reason}")
        return backend

    def _best(self, signature: S) -> Backend[S]:
        able = [b for b in backends(self.name).values() if not (b.held_back(signature) or b.verdict(signature))]
        if not able:
            all_ = backends(self.name).values()
            reasons = "; ".join(f"{b.name}: {b.verdict(signature) or b.held_back(signature)}" for b in all_)
            raise KernelError(f"{self.name}: no back end can serve {signature} ({reasons})")
        return max(able, key=lambda b: b.rank(signature))


_calls: ContextVar[dict[str, set[str]] | None] = ContextVar("pipegraph_calls", default=None)
_using: ContextVar[Mapping[str, str]] = ContextVar("pipegraph_kernels", default={})  # noqa: B039 - never changed
_ops: dict[str, Op[Any]] = {}
_backends: dict[str, dict[str, Backend[Any]]] = {op: {} for op in OPS}


def define(op: Op[S]) -> Op[S]:
    """Register an op; called once by its module."""
    _ops[op.name] = op
    return op


def register(backend: Backend[Any]) -> None:
    """Add a back end.

    Raises:
        KernelError: unknown op, a name that is taken, or ``fn`` is no plain function.
    """
    if backend.op not in _backends:
        raise KernelError(f"back end `{backend.name}` is for an unknown op `{backend.op}`; {_nearest(backend.op, OPS)}")
    if not isfunction(backend.fn):  # the audit recognises back ends by their code
        raise KernelError(f"{backend.op}: back end `{backend.name}` must be a plain function, not {backend.fn!r}")
    if other := _backends[backend.op].get(backend.name):
        raise KernelError(
            f"{backend.op}: two back ends are called `{backend.name}`: from {other.source} and {backend.source}"
        )
    _backends[backend.op][backend.name] = backend
    if backend.op in _ops:
        _ops[backend.op].memo.clear()


def backends(op: str) -> Mapping[str, Backend[Any]]:
    """The back ends of an op by name, those of other packages included."""
    import_module(f"pipegraph.kernels.ops.{OPS[op]}")
    if op in OPTIONAL:
        import_module(f"pipegraph.kernels.{OPTIONAL[op]}")
    _plugins()
    return _backends[op]


@contextmanager
def use(choices: str = "", /, **by_op: str) -> Iterator[None]:
    """Choose back ends inside a ``with``: ``use("attention=torch,linear=torch")`` or ``use(attention="torch")``.

    Holds for the current thread (context) only and goes back to what was before; other ops stay as they were. A name
    with a question mark behind (``torch?``) is a wish: a call that the back end cannot serve goes to another one.
    """
    chosen = parse(choices) | by_op
    for op, name in chosen.items():
        _known(op, name.removesuffix("?"))
    with holding(_using, {**_using.get(), **chosen}):
        yield


def parse(choices: str) -> dict[str, str]:
    """Read ``attention=torch,linear=reference``."""
    pairs = [part.partition("=") for part in choices.replace(" ", "").split(",") if part]
    for op, equals, name in pairs:
        if not (op and equals and name):
            raise KernelError(
                f"cannot read {choices!r} as a choice of kernels; write e.g. attention=torch,linear=torch"
            )
    return {op: name for op, _, name in pairs}


def explain(op: str | None = None, device: str = "cpu", dtype: str = "float32") -> list[Report]:
    """Every back end of an op (or of all): can it serve the op's usual call on ``device`` in ``dtype``, and why (not).

    Loads torch, but neither diffusers nor transformers.
    """
    reports = [r for name in ([op] if op else OPS) for r in _explain(name, device, dtype)]
    broken = [Report("*", name, "", "", "entry point", False, False, why) for name, why in _plugins().items() if why]
    return reports + broken


@contextmanager
def noting(calls: dict[str, set[str]] | None = None) -> Iterator[dict[str, set[str]]]:
    """Record in ``calls`` which back ends run inside a ``with``, by op; for this thread (context)."""
    calls = {} if calls is None else calls
    with holding(_calls, calls):
        yield calls


def note(calls: Mapping[str, set[str]]) -> None:
    """Add back ends that ran to the records of :func:`noting`, by op."""
    if (noted := _calls.get()) is not None:
        for op, names in calls.items():
            noted.setdefault(op, set()).update(names)


def asked() -> dict[str, str]:
    """Requested back ends by op: by ``use`` or the environment."""
    return {**_environment(), **_using.get()}


def forget() -> None:
    """Forget all choices of back ends."""
    for op in _ops.values():
        op.memo.clear()


def _explain(op: str, device: str, dtype: str) -> Iterator[Report]:
    candidates = backends(_known_op(op))
    signature = _ops[op].sample(device, dtype)
    asked, origin = _using.get().get(op), "use()"
    if not asked:
        asked, origin = _environment().get(op), VARIABLE
    asked = asked and asked.removesuffix("?")
    best = candidates[asked] if asked else _ops[op]._best(signature)
    for b in sorted(candidates.values(), key=lambda b: (b is not best, -b.rank(signature), b.name)):
        reason = b.verdict(signature)
        if b is best:
            why = f"asked for by {origin}" if asked else "highest rank of those that can serve"
            why += f", but it cannot serve: {reason}" if reason else ""
        elif obstacle := reason or b.held_back(signature):
            why = obstacle
        else:
            why = f"can serve; `{best.name}` " + ("was asked for" if asked else "ranks higher")
        version = version_of(_LIBRARY.get(b.name, b.source))
        yield Report(op, b.name, version, b.numerics, b.source, not reason, b is best and not reason, why)


@cache
def _environment() -> dict[str, str]:
    chosen = parse(os.environ.get(VARIABLE, ""))
    for op, name in chosen.items():
        _known(op, name.removesuffix("?"))
    return chosen


@cache
def _plugins() -> dict[str, str]:
    """Load back ends of other packages; entry point -> error, or an empty string."""
    outcome = {}
    for entry in entry_points(group=GROUP):
        try:
            entry.load()(register)
            outcome[entry.name] = ""
        except Exception as e:  # another package's fault must not stop ours; `explain` tells it
            outcome[entry.name] = f"{type(e).__name__}: {e}"
    return outcome


def _known_op(op: str) -> str:
    if op not in OPS:
        raise KernelError(f"there is no op `{op}`; {_nearest(op, OPS)}")
    return op


def _known(op: str, name: str) -> str:
    known = backends(_known_op(op))
    if name not in known:
        raise KernelError(f"{op} has no back end `{name}`; {_nearest(name, known)}")
    return name


def _nearest(name: str, known: Any) -> str:
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean `{near[0]}`?" if near else "there are: " + ", ".join(known)
