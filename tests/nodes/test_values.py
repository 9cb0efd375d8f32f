"""Primitives, text, the lazy switch, and values shown as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from pipegraph.nodes.utils import logic, primitives
from pipegraph.runtime.node import NodeSpec, Text


def spec(fn: Any) -> NodeSpec:
    found: NodeSpec = fn.node_spec
    return found


@pytest.mark.parametrize("kind", ["int", "float", "string", "boolean"])
def test_primitives_hand_on_what_they_get(kind: str) -> None:
    node = getattr(primitives, f"primitive_{kind}")
    assert spec(node).id == f"Primitive{kind.title()}"
    assert list(spec(node).inputs) == ["value"] and list(spec(node).outputs) == [kind.upper()]
    value = {"int": -7, "float": 0.1, "string": "猫\n", "boolean": True}[kind]
    assert node(value) is value


def test_text() -> None:
    assert spec(primitives.primitive_string_multiline).inputs["value"].multiline
    assert list(spec(primitives.string_concatenate).inputs) == ["string_a", "string_b", "delimiter"]
    assert primitives.string_concatenate("a", "b") == "ab"
    assert primitives.string_concatenate("a", "b", ", ") == "a, b"
    assert primitives.string_replace("a{w}b{w}", "{w}", "1") == "a1b1"
    assert primitives.string_replace("ab", "", "1") == "ab"


class Once:
    """A lazy input that counts how often it is asked for."""

    def __init__(self, value: Any) -> None:
        self.value, self.asked = value, 0

    def get(self) -> Any:
        self.asked += 1
        return self.value

    def lost_texts(self) -> tuple[str, ...]:
        return ()


@pytest.mark.parametrize("switch", [False, True])
def test_switch_asks_only_for_what_it_gives(switch: bool) -> None:
    no, yes = Once("no"), Once("yes")
    assert logic.switch_node(switch, no, yes) == ("yes" if switch else "no")
    assert (no.asked, yes.asked) == (not switch, switch)
    ports = spec(logic.switch_node).inputs
    assert list(ports) == ["switch", "on_false", "on_true"] and ports["on_true"].lazy and ports["on_false"].lazy
    assert list(spec(logic.switch_node).outputs) == ["output"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("猫", "猫"),
        (None, "None"),
        (True, "True"),
        (3, "3"),
        (0.5, "0.5"),
        ([1, "a"], '[\n  1,\n  "a"\n]'),
        ({"é": None}, '{\n  "é": null\n}'),
        (float("nan"), "nan"),
        ({"x": torch.zeros(1, 2)}, '{\n  "x": "tensor [1, 2] float32, 0 to 0"\n}'),
        (torch.tensor([1, 5]), '"tensor [2] int64, 1 to 5"'),
        (torch.zeros(0, 2), '"tensor [0, 2] float32"'),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        ([object], '[\n  "a type"\n]'),
    ],
)
def test_values_as_text(value: Any, text: str, drain: Callable[[Any], Any]) -> None:
    events, shown = drain(logic.preview_any(value))
    assert events == [Text(text)] and shown == text
    assert spec(logic.preview_any).output_node and list(spec(logic.preview_any).outputs) == ["STRING"]
