"""Process-wide settings that foreign nodes may change: restored after the node, with a warning.

Otherwise they would change the results of other nodes and later runs. Torch and NumPy are checked only if a node has
imported them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple


class _Setting(NamedTuple):
    name: str
    module: str
    """Skipped if it is not imported."""
    read: Callable[[Any], Any]
    """Takes the module."""
    write: Callable[[Any, Any], object]
    """Takes the module and the value of ``read``."""
    drawn: bool = False
    """Random generator state: not restored for volatile nodes."""


def _environment(module: Any) -> dict[Any, Any]:
    """The raw environment: decoding all variables takes 15 times as long."""
    return dict(getattr(module.environ, "_data", module.environ))


def _set_environment(module: Any, values: dict[Any, Any]) -> None:
    module.environ.clear()
    module.environ.update({module.fsdecode(name): module.fsdecode(value) for name, value in values.items()})


def _torch_flag(path: str) -> tuple[Callable[[Any], Any], Callable[[Any, Any], object]]:
    """Getter and setter of the attribute ``torch.<path>``."""
    *outer, last = path.split(".")

    def owner(torch: Any) -> Any:
        for name in outer:
            torch = getattr(torch, name)
        return torch

    return lambda torch: getattr(owner(torch), last), lambda torch, value: setattr(owner(torch), last, value)


_SETTINGS: Final = (
    _Setting("the current folder", "os", lambda os: os.getcwd(), lambda os, folder: os.chdir(folder)),
    _Setting("the environment", "os", _environment, _set_environment),
    _Setting(
        "torch's default dtype", "torch", lambda t: t.get_default_dtype(), lambda t, dtype: t.set_default_dtype(dtype)
    ),
    _Setting(
        "torch's default device",
        "torch",
        lambda t: t.get_default_device(),
        lambda t, device: t.set_default_device(None if device.type == "cpu" else device),
    ),
    _Setting("torch's threads", "torch", lambda t: t.get_num_threads(), lambda t, count: t.set_num_threads(count)),
    _Setting("torch's gradient mode", "torch", lambda t: t.is_grad_enabled(), lambda t, mode: t.set_grad_enabled(mode)),
    _Setting(
        "torch's deterministic mode",
        "torch",
        lambda t: (t.are_deterministic_algorithms_enabled(), t.is_deterministic_algorithms_warn_only_enabled()),
        lambda t, mode: t.use_deterministic_algorithms(mode[0], warn_only=mode[1]),
    ),
    _Setting(
        "torch's precision of matrix products",
        "torch",
        lambda t: t.get_float32_matmul_precision(),
        lambda t, precision: t.set_float32_matmul_precision(precision),
    ),
    _Setting("cuDNN's benchmark mode", "torch", *_torch_flag("backends.cudnn.benchmark")),
    _Setting("cuDNN's deterministic mode", "torch", *_torch_flag("backends.cudnn.deterministic")),
    _Setting(
        "torch's random generator",
        "torch",
        lambda t: t.get_rng_state().numpy().tobytes(),
        lambda t, state: t.set_rng_state(t.frombuffer(bytearray(state), dtype=t.uint8)),
        drawn=True,
    ),
    _Setting("NumPy's random generator", "numpy", lambda n: _numpy_state(n), lambda n, s: n.random.set_state(s), True),
    _Setting("Python's random generator", "random", lambda r: r.getstate(), lambda r, s: r.setstate(s), True),
)


def _numpy_state(numpy: Any) -> Any:
    """NumPy's legacy generator state as comparable values."""
    name, keys, *rest = numpy.random.get_state()
    return (name, keys.tolist(), *rest)


@contextmanager
def restored(who: str, warn: Callable[[str], None], *, drawn: bool) -> Iterator[None]:
    """Restore process settings when the block ends, and warn about those that changed.

    Args:
        who: Name for the warning.
        warn: Called with each warning.
        drawn: Restore random generators too.
    """
    settings = [s for s in _SETTINGS if s.module in sys.modules and (drawn or not s.drawn)]
    before = [(s, s.read(sys.modules[s.module])) for s in settings]
    try:
        yield
    finally:
        for setting, value in before:
            module = sys.modules[setting.module]
            if setting.read(module) != value:
                setting.write(module, value)
                warn(f"{who} changed {setting.name} for the whole process; it was restored")
