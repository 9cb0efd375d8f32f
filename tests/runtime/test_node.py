"""Declarations: what a signature and a docstring give, and what is refused at import."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Annotated, Any, Literal

import pytest
from annotated_types import Ge, Gt, Le, Lt, MultipleOf

from pipegraph.runtime.context import Available
from pipegraph.runtime.errors import DeclarationError
from pipegraph.runtime.node import (
    MISSING,
    Auto,
    Choices,
    Doc,
    Lazy,
    Multiline,
    NodeEvent,
    NodeSpec,
    Port,
    RunContext,
    Seed,
    Step,
    Text,
    Wire,
    broken_limit,
    is_outputs,
    node,
    outputs,
)
from pipegraph.runtime.spec import disorder
from pipegraph.runtime.values import Misfit, fit

Picture = Annotated[Any, Wire("IMAGE")]


@outputs
class Two:
    """Two outputs."""

    image: Picture
    count: int


@node("ImageThing", category="image", effect="random", version=3, output_node=True)
def thing(
    image: Picture,
    seed: Annotated[int, Ge(0), Seed()],
    ctx: RunContext,
    width: Annotated[int, Ge(16), Le(64), MultipleOf(16), Step(16), Auto("width")] = 32,
    ratio: Annotated[float, Gt(0), Lt(1)] = 0.5,
    mode: Literal["a", "b"] = "a",
    name: Annotated[str, Choices(lambda: ["x", "y"])] = "x",
    text: Annotated[str, Multiline()] = "",
    other: Lazy[Picture] | None = None,
) -> Generator[NodeEvent, None, Two]:
    """Do a thing.

    More about it.

    Args:
        image: A picture,
            told in two lines.
        seed: A seed.
        width: A width.
        ratio: A ratio.
        mode: A mode.
        name: A name.
        text: A text.
        other: Another picture.
    """
    yield Text("hello")
    return Two(image, width)


def spec() -> NodeSpec:
    found: NodeSpec = thing.node_spec  # type: ignore[attr-defined]
    return found


def test_a_declaration_is_read() -> None:
    assert (spec().id, spec().title, spec().effect, spec().version) == ("ImageThing", "Image Thing", "random", 3)
    assert spec().context == "ctx" and spec().streams and spec().output_node
    ports = spec().inputs
    assert [*ports] == ["image", "seed", "width", "ratio", "mode", "name", "text", "other"]
    assert {p.name: p.type for p in ports.values()} == {
        "image": "IMAGE",
        "seed": "INT",
        "width": "INT",
        "ratio": "FLOAT",
        "mode": "COMBO",
        "name": "COMBO",
        "text": "STRING",
        "other": "IMAGE",
    }
    assert ports["image"].doc == "A picture, told in two lines." and ports["image"].default is MISSING
    width = ports["width"]
    assert (width.minimum, width.maximum, width.multiple_of, width.step, width.auto) == (16, 64, 16, 16, "width")
    assert ports["seed"].seed and ports["text"].multiline and ports["mode"].choices == ("a", "b")
    assert ports["other"].lazy and ports["other"].nullable and not ports["other"].required
    assert {name: p.type for name, p in spec().outputs.items()} == {"image": "IMAGE", "count": "INT"}
    assert is_outputs(Two) and not is_outputs(int)
    assert spec().where.split(":")[0] == __file__


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (32, ""),
        (15, "at least 16"),
        (80, "at most 64"),
        ("auto", ""),
        (None, "a value"),
        (17, "a multiple of 16, e.g. 16 or 32"),
        (63.5, "a multiple of 16, e.g. 48 or 64"),
    ],
)
def test_limits(value: Any, words: str) -> None:
    assert broken_limit(spec().inputs["width"], value) == words


def test_a_list_of_choices_is_a_limit() -> None:
    port = Port("x", "COMBO", choices=("a", "b"))
    assert [broken_limit(port, value) for value in ("a", "c")] == ["", "one of 'a', 'b'"]


def test_an_input_may_equal_the_one_it_must_not_be_below() -> None:
    ports = {"low": Port("low", "INT"), "high": Port("high", "INT", not_below="low")}
    assert [list(disorder(ports, {"low": 2, "high": high})) for high in (1, 2, 3, "auto")] == [
        [("high", "low")],
        [],
        [],
        [],
    ]


def test_an_input_of_several_types_takes_each() -> None:
    port = Port("x", "INT,BOOLEAN,STRING")
    assert [fit(port, value) for value in (1, True, "a")] == [1, True, "a"]
    with pytest.raises(Misfit, match="wrong type"):
        fit(port, [])
    assert fit(Port("x", "INT,*"), []) == []


def test_a_lazy_value_that_is_there_loses_no_texts() -> None:
    assert Available(3).get() == 3 and Available(3).lost_texts() == []


def test_open_limits_and_not_a_number() -> None:
    ratio = spec().inputs["ratio"]
    assert [broken_limit(ratio, v) for v in (0.0, 0.5, 1.0)] == ["above 0", "", "below 1"]
    assert broken_limit(Port("x", "FLOAT", minimum=0.0), float("nan")) == "at least 0.0"
    uneven = Port("x", "INT", minimum=20, maximum=60, multiple_of=16)
    assert [broken_limit(uneven, v) for v in (21, 50)] == [f"a multiple of 16, e.g. {v}" for v in (32, 48)]
    assert broken_limit(Port("x", "INT", minimum=17, maximum=31, multiple_of=16), 20) == "a multiple of 16"
    tenths = Port("x", "FLOAT", multiple_of=0.1)
    assert broken_limit(tenths, 0.35) == "a multiple of 0.1, e.g. 0.3 or 0.4"
    assert broken_limit(tenths, float("inf")) == "a multiple of 0.1"


def no_docstring(a: int) -> int:
    return a


def no_description(a: int) -> int:
    """Do it."""
    return a


def no_type(a) -> int:  # type: ignore[no-untyped-def]
    """Do it.

    Args:
        a: A number.
    """
    return int(a)


def no_return_type(a: int):  # type: ignore[no-untyped-def]
    """Do it.

    Args:
        a: A number.
    """


def no_wire_type(a: complex) -> int:
    """Do it.

    Args:
        a: A number.
    """
    return 1


def bad_default(a: Annotated[int, Le(5)] = 6) -> int:
    """Do it.

    Args:
        a: A number.
    """
    return a


def too_much_told(a: int) -> int:
    """Do it.

    Args:
        a: A number.
        b: Nothing.
    """
    return a


def stars(*a: int) -> int:
    """Do it.

    Args:
        a: Numbers.
    """
    return 1


Count = Annotated[int, Doc("How many.")]


def described_by_its_type(a: Count, b: Count | None = None, c: Annotated[Count, Doc("How many more.")] = 1) -> int:
    """Do it.

    Args:
        b: How many, said by the node.
    """
    return a


def test_a_type_may_describe_inputs_that_a_docstring_does_not() -> None:
    declared = node("X", category="test")(described_by_its_type)
    inputs = declared.node_spec.inputs.values()  # type: ignore[attr-defined]
    assert [port.doc for port in inputs] == ["How many.", "How many, said by the node.", "How many more."]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (no_docstring, "no docstring"),
        (no_description, "`a` is not described"),
        (no_type, "`a` has no type"),
        (no_return_type, "no return type"),
        (no_wire_type, "no wire type"),
        (bad_default, "default 6 of `a` is not at most 5"),
        (too_much_told, r"describes \['b'\]"),
        (stars, "is no input"),
        (len, "a plain function"),
    ],
)
def test_what_is_refused(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        node("X", category="test")(function)


def test_a_declaration_without_id_or_category_says_what_is_missing() -> None:
    with pytest.raises(DeclarationError, match=r"(?s)test_node\.py:\d+.*a node needs an id.*@node\("):
        node(good)  # type: ignore[arg-type]
    with pytest.raises(DeclarationError, match=r"(?s)test_node\.py:\d+.*node `X` has no category.*category="):
        node("X")(good)


def good(a: int = 1) -> int:
    """Do it.

    Args:
        a: A number.
    """
    return a
