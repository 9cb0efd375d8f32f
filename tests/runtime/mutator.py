"""Random changes of graph files, from a seed: of the JSON values, and of the bytes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

Container = dict[str, Any] | list[Any]
NUMBERS: Sequence[Any] = (0, -1, 1, 1.5, -0.0, 1e308, 2**31, 2**53, 2**64, -(2**64), 10**400)
TEXTS: Sequence[str] = (
    "",
    " ",
    "a",
    "auto",
    "random",
    "null",
    "true",
    "1",
    "1.5",
    "20.9",
    "NaN",
    "\ud800",
    "é",
    "e\u0301",
)
NAMES: Sequence[str] = ("../x", "/etc/passwd", "~", "~nobody/x", "a\0b", "a\nb", "\x1b[2J", "C:\\x", "%n", "%date:%%")
LONG: Sequence[str] = ("x" * 300, "y" * 300 + "/" + "z" * 300, "a/" * 2000, "9" * 5000, "1 + " * 500 + "1", "(" * 500)
LISTS: Sequence[Any] = ([], [[]], ["a"], ["a", 0], ["a", -1], ["a", 2**70], [0, 0], ["a", "b", "c"], ["a", True])
OBJECTS: Sequence[Any] = (
    {},
    {"$input": "prompt"},
    {"$input": 1},
    {"$input": "a", "b": 1},
    {"__value__": [1, [2, {"a": None}]]},
    {"class_type": "KSampler"},
    {"class_type": 1},
    {"type": "INT"},
    {"type": "STRING", "min": 1},
    {"type": "COMBO", "choices": []},
    {"type": "COMBO", "choices": ["a"], "default": True},
    {"type": "FLOAT", "min": "x"},
    {"pipegraph": 1},
    {"nodes": {}},
)
VALUES: Sequence[Any] = (None, True, False, *NUMBERS, *TEXTS, *NAMES, *LONG, *LISTS, *OBJECTS)
BYTES: Sequence[bytes] = (
    *(b"NaN", b"-Infinity", b"1e999", b"null", b"9" * 5000, b"0", b"-", b"e", b'"a":1,', b"\\ud800"),
    *(b"[" * 200, b"{" * 200, b"]", b"}", b",", b":", b'"', b"\\", b"//", b"#", b"'", b"<html>"),
    *(b"\0", b"\xff", b"\xef\xbb\xbf", b"\n"),
)


class Mutator:
    """Makes changed copies of documents; the same seed makes the same ones.

    Args:
        seed: Of the random numbers.
        documents: What is changed, as JSON values.
        kinds: Names that a changed ``class_type`` may take.
    """

    def __init__(self, seed: int, documents: Sequence[Any], kinds: Sequence[str]) -> None:
        self.random = random.Random(seed)
        self.texts = [json.dumps(document) for document in documents]
        self.kinds = kinds
        changes = (self.remove, self.replace, self.replace, self.copy, self.rename, self.retype, self.relink)
        self.changes: Sequence[Callable[[Container, Any], None]] = changes

    def make(self) -> bytes:
        """The bytes of a changed file."""
        text = self.random.choice(self.texts)
        if self.random.random() < 0.2:
            return self.damaged(text.encode())
        document = json.loads(text)
        for _ in range(self.random.choice((1, 1, 1, 2, 3, 8))):
            container, key = self.place(document)
            if container:
                self.random.choice(self.changes)(container, key)
        return json.dumps(document).encode()

    def damaged(self, data: bytes) -> bytes:
        for _ in range(self.random.choice((1, 1, 2, 5))):
            at = self.random.randrange(len(data) + 1)
            end = min(len(data), at + self.random.choice((0, 0, 1, 1, 10, 1000)))
            data = data[:at] + self.random.choice((b"", *BYTES)) + data[end:]
        return data

    def place(self, document: Any) -> tuple[Container, Any]:
        """A container somewhere in the document, and one of its keys; every depth is about as likely."""
        container = document
        key: Any = None
        while isinstance(container, dict | list) and container:
            keys = [*container] if isinstance(container, dict) else [*range(len(container))]
            key = self.random.choice(keys)
            inner = container[key]
            if not isinstance(inner, dict | list) or not inner or self.random.random() < 0.25:
                return container, key
            container = inner
        return [], key

    def remove(self, container: Container, key: Any) -> None:
        del container[key]

    def replace(self, container: Any, key: Any) -> None:
        container[key] = deepcopy(self.random.choice(VALUES))

    def copy(self, container: Any, key: Any) -> None:
        """The same value once more, under a new key or at the end."""
        if isinstance(container, dict):
            container[self.name(key)] = deepcopy(container[key])
        else:
            container.append(deepcopy(container[key]))

    def rename(self, container: Any, key: Any) -> None:
        if isinstance(container, dict):
            container[self.name(key)] = container.pop(key)

    def retype(self, container: Any, key: Any) -> None:
        if isinstance(container, dict):
            container["class_type" if "class_type" in container else "type"] = self.random.choice(self.kinds)

    def relink(self, container: Any, key: Any) -> None:
        node, output = ("1", "sample", "checkpoint", "decode"), (0, 1, 9, "MODEL")
        container[key] = [self.random.choice(node), self.random.choice(output)]

    def name(self, name: str) -> str:
        return self.random.choice(
            (name + "x", name[:-1], name.upper(), f"{name}.{name}", "-", "--", "a=b", *TEXTS, *NAMES)
        )
