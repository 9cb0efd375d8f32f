"""Check the return value of a node's function: one value per output. Wire types are checked by shape, without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pipegraph.graphs.errors import shown

from .catalog import Entry
from .node import is_outputs
from .spec import Port
from .values import PLAIN, Misfit, convert

_EXACT: Final = {"INT": int, "STRING": str, "BOOLEAN": bool}


def outputs_of(entry: Entry, result: Any) -> tuple[Any, ...]:
    """The outputs in order, each checked against its type.

    Raises:
        TypeError: too few outputs, or one of the wrong type.
    """
    ports = entry.spec.outputs
    if is_outputs(type(result)):
        values = tuple(getattr(result, name) for name in ports)
    elif len(ports) == 1:
        values = (result,)
    elif not ports and result is None:
        return ()
    else:
        raise TypeError(f"the node returned {shown(result)} in place of its outputs ({', '.join(ports) or 'nothing'})")
    return tuple(
        value if port.type == "*" or type(value) is _EXACT.get(port.type) else _fitting(port, value)
        for port, value in zip(ports.values(), values, strict=True)
    )


def _fitting(port: Port, value: Any) -> Any:
    """``value``, with an int converted for a FLOAT output."""
    if value is None and port.nullable:
        return value
    wanted = []
    for kind in port.type.split(","):
        if kind in PLAIN:
            try:
                if type(value) is str and kind not in ("STRING", "COMBO"):
                    raise Misfit("wrong_type", "text")
                return convert(kind, value)
            except Misfit:
                wanted.append(kind)
        else:
            fits, words = _KINDS.get(kind, _SOMETHING)
            if kind == "*" or (value is not None and fits(value)):
                return value
            wanted.append(words or kind)
    raise TypeError(f"output {port.name} must be {' or '.join(wanted)}; the node returned {shown(value)}")


def _shape(value: Any) -> tuple[int, ...]:
    """The shape of a tensor; empty for anything else, including NumPy arrays."""
    return tuple(value.shape) if hasattr(value, "isfinite") else ()


def _is_image(value: Any) -> bool:
    shape = _shape(value)
    return len(shape) == 4 and 1 <= shape[3] <= 4


_SOMETHING: Final[tuple[Callable[[Any], bool], str]] = (lambda value: True, "")
_KINDS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "IMAGE": (_is_image, "a tensor [batch, height, width, 1 to 4 channels]"),
    "MASK": (lambda value: len(_shape(value)) in (2, 3), "a tensor [batch, height, width]"),
    "LATENT": (lambda value: isinstance(value, Mapping) and "samples" in value, 'a dictionary with "samples"'),
    "CONDITIONING": (lambda value: isinstance(value, list), "a list of [tensor, dictionary]"),
    "SIGMAS": (lambda value: len(_shape(value)) == 1, "a tensor [steps + 1]"),
}
