"""Imports go one way, and describing or checking a graph needs no tensor library."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAY = {  # folder -> what of pipegraph it may import; a dotted name allows that module only
    "graphs": set[str](),
    "runtime": {"graphs"},
    "kernels": set[str](),
    "models": {"kernels"},
    "nodes": {"runtime.node", "runtime.errors", "models", "kernels"},
}
ROOMS = {  # room of models -> which other rooms of models it may import, imports inside functions included
    "media": set[str](),
    "quantize": set[str](),
    "paths": set[str](),
    "parallel": set[str](),
    "loading": {"paths", "quantize"},  # the engine knows no family
    "family": {"loading", "text"},
    "loaded": set[str](),
    "adapters": {"loading"},
    "sampling": {"family"},
    "upscale": {"loaded", "loading", "vae"},
    "vae": {"family", "loaded"},
    "control": {"family", "loaded"},
    "clip_vision": {"loaded", "media"},
    "model": {"adapters", "control", "family", "loaded"},
    "patches": {"model", "sampling"},
    "causal": {"family", "model", "sampling", "vae"},
    "llm": {"loaded", "loading", "paths", "quantize"},
    "text": {"adapters", "llm", "loaded"},
}
"""Rooms that are not named here may import any: ``families``, and ``checkpoints`` above them."""
LLM_ROOMS = {  # the same inside models.llm
    "tokens": set[str](),
    "facts": set[str](),
    "tokenizer": set[str](),
    "add": set[str](),
    "cache": {"facts", "tokens"},
    "network": {"cache", "facts", "tokens"},
    "llm": {"cache", "facts", "network"},
    "gguf": {"llm", "network", "tokenizer"},
    "load": {"add", "gguf", "llm", "tokenizer"},
    "decode": {"cache", "llm", "network", "tokenizer", "tokens"},
    "chat": {"decode", "llm", "network", "tokenizer", "tokens"},
    "bench": {"decode", "llm", "load", "tokens"},
}
KERNEL_ROOMS = {  # the same inside kernels
    "current_device": set[str](),
    "proven": set[str](),
    "dispatch": {"current_device", "proven"},
    "weights": {"dispatch"},
    "ops": {"backends", "dispatch", "weights"},
    "backends": {"dispatch", "ops", "proven", "weights"},
    "hooks": {"dispatch", "ops"},
    "proof": {"ops", "weights"},
    "audit": {"backends", "dispatch"},
    "testing": {"dispatch", "proof"},
    "bench": {"current_device", "dispatch", "ops", "proven", "testing", "weights"},
}
"""Ops register their back ends, which know the signatures of ops; nothing else runs both ways."""
LAST = {"checkpoints", "families"}
"""What no room below imports; ``checkpoints`` imports ``families``, not the other way."""
FOR_ALL = {"access", "containers", "context", "folders", "generators", "lean_imports", "limits", "memory"}
"""Modules that import nothing but the standard library at their top and that every folder may import."""
HEAVY = {"torch", "numpy", "scipy", "diffusers", "transformers", "tokenizers", "safetensors", "PIL", "imageio", "av"}
LIGHT_FOLDERS = ("graphs", "runtime", "nodes", "src/pipegraph")


def files(folder: str) -> list[Path]:
    """The Python files of a folder; the face's links to the others are left out."""
    found = (ROOT / folder).rglob("*.py")
    links = [p for p in (ROOT / "src/pipegraph").iterdir() if p.is_symlink()]
    return [f for f in found if not any(link in f.parents for link in links)]


def imports(path: Path, nodes: Iterator[ast.AST], root: Path = ROOT) -> Iterator[tuple[int, str]]:
    """Line and absolute name of every import among ``nodes``; of ``from a import b`` both ``a`` and ``a.b``."""
    package = ["pipegraph", *path.relative_to(root / "src" if "src" in path.parts else root).parts[:-1]]
    for n in nodes:
        if isinstance(n, ast.Import):
            yield from ((n.lineno, a.name) for a in n.names)
        elif isinstance(n, ast.ImportFrom):
            base = [*package[: len(package) + 1 - n.level], n.module] if n.level else [n.module]
            stem = ".".join(part for part in base if part)
            yield from ((n.lineno, f"{stem}.{a.name}") for a in n.names)


def when_imported(tree: ast.AST) -> Iterator[ast.AST]:
    """The parts of a module that run when it is imported: no function bodies, no ``if TYPE_CHECKING:``."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield from [other, *when_imported(other)]
            continue
        yield child
        yield from when_imported(child)


@pytest.mark.parametrize("folder", MAY)
def test_imports_go_one_way(folder: str) -> None:
    may = {folder, *MAY[folder], *FOR_ALL}
    wrong = [
        f"{f.relative_to(ROOT)}:{line}: {folder} must not import {name}"
        for f in files(folder)
        for line, name in imports(f, ast.walk(ast.parse(f.read_text())))
        if name.startswith("pipegraph.") and not allowed(name.removeprefix("pipegraph."), may)
    ]
    assert not wrong, "\n".join(wrong)


def allowed(name: str, may: set[str]) -> bool:
    return any(name == m or name.startswith(m + ".") for m in may)


def rooms(path: Path, folder: str, root: Path = ROOT) -> Iterator[tuple[int, str, str]]:
    """Line, room and other room of a folder of each import in a file that runs, inside functions too."""

    def running(tree: ast.AST) -> Iterator[ast.AST]:
        for child in ast.iter_child_nodes(tree):
            if not (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)):
                yield from [child, *running(child)]

    own = path.relative_to(root / folder).parts[0].removesuffix(".py")
    package = ["pipegraph", *folder.split("/")]
    for line, name in imports(path, running(ast.parse(path.read_text("utf-8"))), root):
        parts = name.split(".")
        if parts[: len(package)] == package and len(parts) > len(package) + 1 and parts[len(package)] != own:
            yield line, own, parts[len(package)]


def test_rooms_of_models_import_one_way() -> None:
    bad = []
    for path in (ROOT / "models").rglob("*.py"):
        for line, own, other in rooms(path, "models"):
            if (own not in LAST and other not in ROOMS[own]) or (own == "families" and other == "checkpoints"):
                bad.append(f"{path.relative_to(ROOT)}:{line}: {own} imports {other}")
    assert not bad


INSIDE = {"models/llm": LLM_ROOMS, "kernels": KERNEL_ROOMS}


@pytest.mark.parametrize("folder", INSIDE)
def test_rooms_inside_rooms_import_one_way(folder: str) -> None:
    bad = [
        f"{path.relative_to(ROOT)}:{line}: {own} imports {other}"
        for path in (ROOT / folder).rglob("*.py")
        for line, own, other in rooms(path, folder)
        if other not in INSIDE[folder][own]
    ]
    assert not bad


@pytest.mark.parametrize(
    ("folder", "room", "other"),
    [
        (folder, room, other)
        for folder, table in {"models": ROOMS, **INSIDE}.items()
        for room in table
        for other in table
        if other != room and other not in table[room]
    ],
)
def test_every_forbidden_room_is_seen(tmp_path: Path, folder: str, room: str, other: str) -> None:
    """Planted inside a function of a room, whether that is a file or a folder."""
    for path, up in ((f"{room}.py", "."), (f"{room}/planted.py", "..")):
        file = tmp_path / folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"def f():\n    from {up}{other}.x import y\n    from {up}{room}.z import w\n")
        assert {(own, seen) for _, own, seen in rooms(file, folder, tmp_path)} == {(room, other)}


def test_a_forbidden_import_is_seen(tmp_path: Path) -> None:
    tree = ast.parse("from ..models.model import Model\nimport pipegraph.nodes.wire\nfrom . import load")
    found = [name for _, name in imports(ROOT / "graphs" / "x.py", ast.walk(tree))]
    assert found == ["pipegraph.models.model.Model", "pipegraph.nodes.wire", "pipegraph.graphs.load"]
    assert [allowed(n.removeprefix("pipegraph."), {"graphs"}) for n in found] == [False, False, True]
    assert allowed("runtime.node.node", MAY["nodes"]) and not allowed("runtime.run.Runner", MAY["nodes"])


@pytest.mark.parametrize("folder", LIGHT_FOLDERS)
def test_nothing_heavy_at_the_top(folder: str) -> None:
    wrong = [
        f"{f.relative_to(ROOT)}:{line}: import {name} inside the function that needs it"
        for f in files(folder)
        for line, name in imports(f, when_imported(ast.parse(f.read_text())))
        if name.split(".")[0] in HEAVY
    ]
    assert not wrong, "\n".join(wrong)


def test_graphs_need_only_the_standard_library() -> None:
    wrong = [
        f"{f.relative_to(ROOT)}:{line}: {name}"
        for f in files("graphs")
        for line, name in imports(f, ast.walk(ast.parse(f.read_text())))
        if name.split(".")[0] not in {*sys.stdlib_module_names, "pipegraph"}
    ]
    assert not wrong, "\n".join(wrong)


def test_importing_every_light_module_loads_nothing_heavy() -> None:
    modules = [
        "pipegraph." + ".".join(f.relative_to(ROOT).with_suffix("").parts)
        for folder in ("graphs", "runtime", "nodes")
        for f in files(folder)
        if f.stem not in ("__init__", "__main__")
    ]
    code = f"import sys, importlib\nfor m in {modules!r}: importlib.import_module(m)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert len(modules) > 10
    assert not HEAVY & {m.split(".")[0] for m in done.stdout.split()}


def test_kernels_is_no_regular_package() -> None:
    assert not (ROOT / "kernels" / "__init__.py").exists(), "it would shadow Hugging Face's `kernels`"


def test_every_folder_is_packaged_and_linked() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    folders = set(MAY)
    assert set(wheel["only-include"]) == {"src/pipegraph", *folders}
    assert {e.removeprefix("/src/pipegraph/") for e in wheel["exclude"]} >= folders
    assert {k: v for k, v in wheel["sources"].items() if k != "src"} == {f: f"pipegraph/{f}" for f in folders}
    for folder in folders:
        assert (ROOT / "src/pipegraph" / folder).resolve() == ROOT / folder
