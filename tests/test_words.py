"""Names and texts of the source say what things are, in the words of the field."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipegraph.runtime.catalog import Catalog

from .test_layers import ROOT, files

BANNED = frozenset(
    "found made told given here mine one ones seen kept got said thing things beside what clip clips".split()
)
"""Words that name nothing; and ``clip``, which is CLIP: a moving picture is a video."""
INTERFACE = {
    ("graphs/editor/document.py", "got"),
    ("graphs/errors.py", "got"),
    ("graphs/load.py", "got"),
    ("graphs/strict_json.py", "got"),
    ("runtime/auto.py", "got"),
    ("runtime/check_nodes.py", "got"),
    ("runtime/plan.py", "got"),
    ("src/pipegraph/api.py", "got"),
    ("src/pipegraph/in_memory.py", "got"),
    ("src/pipegraph/cli/doctor.py", "found"),
    ("src/pipegraph/cli/doctor.py", "what"),
}
"""Names that users see: fields of ``Problem`` and of the checks of ``pipegraph doctor``."""
FOLDERS = ("graphs", "runtime", "kernels", "models", "nodes", "src/pipegraph", "benchmarks", "scripts", "examples")
CLIP = re.compile(r"(?<![`\w.{-])clips?\b(?![`\w}(=-]|: [A-Z])")


def bound(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of all that code binds: variables, attributes, arguments, functions, classes, imports."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.alias(asname=str(name)):
                yield node.lineno, name


def encoders(tree: ast.AST, path: Path) -> set[int]:
    """Lines on which ``clip`` is the text encoders: inputs of nodes, and what is made of such a value."""
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.arg == "clip" and path.parts[0] == "nodes":
            lines.add(node.lineno)
        if isinstance(node, ast.Assign) and re.search(r"\bclip\b|text_encoders", ast.unparse(node.value)):
            lines.add(node.lineno)
    return lines


def banned(path: Path, text: str) -> list[str]:
    """Uses of banned names in a file, as ``file:line name``."""
    tree = ast.parse(text)
    clips = encoders(tree, path)
    return [
        f"{path}:{line} {name}"
        for line, name in bound(tree)
        if (word := name.strip("_")) == word.lower() or word.isupper()
        if word.lower() in BANNED and (str(path), word) not in INTERFACE
        if word != "CLIP" and not (word == "clip" and line in clips)
    ]


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Docstrings, messages and other strings of several words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def sources(folder: str) -> list[tuple[Path, str]]:
    return [(path.relative_to(ROOT), path.read_text("utf-8")) for path in files(folder)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_name_something(folder: str) -> None:
    uses = [use for path, text in sources(folder) for use in banned(path, text)]
    assert not uses, "\n".join(uses)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_moving_picture_is_a_video(folder: str) -> None:
    """``clip`` in docstrings and messages is the name of an input, or it is written CLIP."""
    uses = [
        f"{path}:{line} {text.strip()[:80]}"
        for path, source in sources(folder)
        for line, text in texts(ast.parse(source))
        if CLIP.search(text)
    ]
    assert not uses, "\n".join(uses)


def test_descriptions_of_nodes_call_no_video_a_clip() -> None:
    uses = [
        f"{spec.id}: {text}"
        for spec in Catalog.load()
        for text in (spec.title, spec.doc.split("\nArgs:")[0], *(port.doc for port in spec.inputs.values()))
        if CLIP.search(text)
    ]
    assert not uses


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_are_sentences(folder: str) -> None:
    """None begins with a bare genitive, which needs the line above to be understood."""
    riddles = [
        f"{path}:{line} {text[:80]}"
        for path, source in sources(folder)
        for line, text in docstrings(ast.parse(source))
        if text.startswith("Of ")
    ]
    assert not riddles, "\n".join(riddles)


def test_what_is_banned_is_seen() -> None:
    source = (
        "def f(given, _told):\n    x.found = 1\n    for one in y: pass\n    class Made: pass\n    import z as mine\n"
    )
    uses = Counter(use.split()[1] for use in banned(Path("nodes/x.py"), source))
    assert uses == Counter(["given", "_told", "found", "one", "mine"])
    assert banned(Path("nodes/x.py"), "clip = frames") and not banned(Path("nodes/x.py"), "clip = clip.adapted()")
    assert banned(Path("models/x.py"), "def f(clip): pass") and not banned(Path("nodes/x.py"), "def f(clip): pass")
    assert banned(Path("graphs/x.py"), "got = 1") and not banned(Path("graphs/load.py"), "got = 1")
    assert CLIP.search("Save a clip with sound") and CLIP.search("clips of 5 frames") and CLIP.search("the clip's size")
    assert not CLIP.search("a CLIP whose") and not CLIP.search("clip: Text encoders.") and not CLIP.search("the `clip`")
