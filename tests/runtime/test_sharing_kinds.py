"""A write into any kind of value that the cache keeps is noticed when somebody else's node does it."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pytest
import torch

from pipegraph.runtime.catalog import Catalog
from pipegraph.runtime.sharing import changed, copied, held


@dataclass
class Box:
    tensor: torch.Tensor = field(default_factory=lambda: torch.zeros(3))

    seen: list[int] = field(default_factory=list, compare=False)

    @cached_property
    def total(self) -> float:
        return float(self.tensor.sum())


class Slotted:
    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values = np.zeros(3)


class Awkward:
    @property
    def parameters(self) -> Any:
        raise RuntimeError("not now")


def numpy_of(tensor: torch.Tensor) -> Any:
    return tensor.detach().numpy()


WRITES: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "tensor": (lambda: torch.zeros(4), lambda v: v.add_(1)),
    "tensor through numpy": (lambda: torch.zeros(1, 4, 4, 3), lambda v: numpy_of(v).__setitem__((0, 1), 5)),
    "tensor through .data": (lambda: torch.zeros(4), lambda v: v.data.add_(1)),
    "tensor, two values swapped": (lambda: torch.arange(4.0), lambda v: numpy_of(v).__setitem__([0, 1], [1, 0])),
    "bfloat16 tensor": (lambda: torch.zeros(4, dtype=torch.bfloat16), lambda v: v.data.add_(1)),
    "strided tensor": (lambda: torch.zeros(4, 6)[:, ::2], lambda v: v.data.add_(1)),
    "expanded tensor": (lambda: torch.zeros(1, 3).expand(5, 3), lambda v: v.data[0].add_(1)),
    "shape of a tensor": (lambda: torch.zeros(2, 3), lambda v: v.t_()),
    "inference tensor": (torch.inference_mode()(lambda: torch.zeros(4)), lambda v: numpy_of(v).fill(1)),
    "list": (lambda: [1, 2], lambda v: v.append(3)),
    "list of equal numbers": (lambda: [1000, 2000], lambda v: v.reverse()),
    "nested list": (lambda: [[[[[1]]]]], lambda v: v[0][0][0][0].append(2)),
    "dict": (lambda: {"a": 1}, lambda v: v.update(a=2)),
    "dict in a list in a dict in a tuple": (lambda: ({"a": [{"b": []}]},), lambda v: v[0]["a"][0]["b"].append(1)),
    "numpy array": (lambda: np.zeros((2, 3)), lambda v: v.fill(1)),
    "numpy array with steps": (lambda: np.zeros((4, 6))[:, ::2], lambda v: v.fill(1)),
    "numpy array of objects": (lambda: np.array([1, "a"], dtype=object), lambda v: v.__setitem__(0, 2)),
    "set": (lambda: {1, 2}, lambda v: v.add(3)),
    "deque": (lambda: deque([1]), lambda v: v.append(2)),
    "bytearray": (lambda: bytearray(b"abc"), lambda v: v.__setitem__(0, 1)),
    "memoryview": (lambda: memoryview(bytearray(b"abc")), lambda v: v.__setitem__(0, 1)),
    "array": (lambda: array("d", [1.0]), lambda v: v.append(2.0)),
    "dataclass": (Box, lambda v: setattr(v, "tensor", torch.zeros(3))),
    "tensor in a dataclass": (Box, lambda v: numpy_of(v.tensor).fill(1)),
    "object with slots": (Slotted, lambda v: v.values.fill(1)),
    "new attribute": (Box, lambda v: setattr(v, "extra", 1)),
    "network": (lambda: torch.nn.Linear(3, 3), lambda v: v.weight.data.mul_(2)),
    "new weight of a network": (lambda: torch.nn.Linear(3, 3), lambda v: v.register_buffer("b", torch.ones(1))),
}


@pytest.mark.parametrize("kind", WRITES)
def test_a_write_is_noticed(kind: str) -> None:
    make, write = WRITES[kind]
    value = make()
    before = [held("untouched", make(), deep=True), held("value", value, deep=True)]
    assert changed(before) == ""
    write(value)
    assert changed(before) == "value"


def test_what_a_class_computes_or_keeps_for_later_is_no_change() -> None:
    box, awkward = Box(), Awkward()
    before = [held("box", box, deep=True), held("awkward", awkward, deep=True)]
    assert box.total == 0 and "total" in vars(box)
    box.seen.append(1)
    assert changed(before) == ""


def test_rings_of_values_are_walked_once() -> None:
    ring: list[Any] = [1]
    ring.append(ring)
    before = [held("ring", ring, deep=True)]
    assert changed(before) == ""
    ring[0] = 2
    assert changed(before) == "ring"


def test_only_nodes_of_pipegraph_are_watched_by_write_counters() -> None:
    own = Catalog.load().entries["ImageInvert"]
    other = Catalog.of(own.spec.fn).entries["ImageInvert"]
    assert own.own and other.own
    assert not Catalog.of(own.spec.fn, *_toys()).entries["Toy"].own


def _toys() -> list[Any]:
    from pipegraph.runtime.node import node

    @node("Toy", category="toy")
    def toy() -> int:
        """A number."""
        return 1

    return [toy]


@pytest.mark.parametrize("kind", ["set", "deque", "bytearray", "array", "numpy array", "tensor in a dataclass", "dict"])
def test_callers_get_copies_of_every_kind(kind: str) -> None:
    make, write = WRITES[kind]
    value = make()
    before = [held("value", value, deep=True)]
    write(copied(value))
    assert changed(before) == ""
