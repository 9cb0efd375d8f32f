"""The catalogue: own nodes, installed packs, files and folders; broken packs are listed, doubles refused."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipegraph.runtime.catalog import GROUP, Catalog
from pipegraph.runtime.errors import DeclarationError
from pipegraph.runtime.node import node

NODE = '''
from __future__ import annotations
from pipegraph.runtime.node import node
{imports}

@node("{id}", category="test")
def f(a: int = {value}) -> int:
    """Do it.

    Args:
        a: A number.
    """
    return a
'''


@pytest.fixture(autouse=True)
def modules() -> Iterator[None]:
    before = {*sys.modules}
    yield
    for name in {*sys.modules} - before:
        if name.startswith(("pipegraph_pack_", "toy_pack")):
            del sys.modules[name]


def write(path: Path, id: str, value: str = "1", imports: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(NODE.format(id=id, value=value, imports=imports))
    return path


def test_own_nodes_are_there_and_sound() -> None:
    catalog = Catalog.load()
    assert catalog.broken == ()
    assert {"SaveImage", "PrimitiveInt", "ComfySwitchNode"} <= {spec.id for spec in catalog}
    assert catalog["SaveImage"].output_node and "SaveImage" in catalog and len(catalog) > 10
    with pytest.raises(LookupError, match='Did you mean "SaveImage"'):
        catalog["SaveImages"]


def test_each_file_of_a_folder_of_own_nodes_is_read() -> None:
    import pipegraph.nodes

    (root,) = map(Path, pipegraph.nodes.__path__)
    files = [f.relative_to(root).with_suffix("") for f in root.rglob("*.py") if "\n@node(" in f.read_text()]
    wanted = {".".join((GROUP, *file.parts)) for file in files}
    assert {spec.fn.__module__ for spec in Catalog.load()} >= wanted
    assert f"{GROUP}.image.files" in wanted


def test_a_file_a_folder_and_a_package(tmp_path: Path) -> None:
    write(tmp_path / "one.py", "One")
    write(tmp_path / "folder/two.py", "Two", "VALUE", "from ._shared import VALUE")
    (tmp_path / "folder/_shared.py").write_text("VALUE = 22\n")
    write(tmp_path / "package/__init__.py", "Three")
    write(tmp_path / "package/four.py", "Four", imports="from . import f as three")
    catalog = Catalog.load([tmp_path / "one.py", tmp_path / "folder", tmp_path / "package"])
    assert catalog.broken == ()
    assert {"One", "Two", "Three", "Four"} <= catalog.entries.keys()
    assert catalog["Two"].inputs["a"].default == 22
    assert catalog.entries["One"].source == str(tmp_path / "one.py")
    assert Catalog.load([tmp_path / "one.py"])["One"] is catalog["One"]  # loaded once in a process


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("import no_such_module_at_all", "ModuleNotFoundError"),
        ("def f(:", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit"),
        (NODE.format(id="X", value=1, imports="").replace("a: A number", "b: Another"), "DeclarationError"),
    ],
)
def test_a_broken_pack_is_listed_and_the_rest_works(tmp_path: Path, text: str, error: str) -> None:
    write(tmp_path / "good.py", "Good")
    (tmp_path / "bad.py").write_text(text)
    for paths in ([tmp_path / "bad.py", tmp_path / "good.py"], [tmp_path]):
        catalog = Catalog.load(paths)
        (broken,) = catalog.broken
        assert broken.source == str(tmp_path / "bad.py") and broken.error.startswith(error) and broken.trace
        assert "Good" in catalog and "SaveImage" in catalog


def test_a_second_registration_names_both_sources(tmp_path: Path) -> None:
    write(tmp_path / "a.py", "Twice")
    write(tmp_path / "b.py", "Twice")
    with pytest.raises(DeclarationError) as caught:
        Catalog.load([tmp_path])
    assert str(tmp_path / "a.py") in str(caught.value) and str(tmp_path / "b.py") in str(caught.value)
    write(tmp_path / "c.py", "SaveImage")
    with pytest.raises(DeclarationError, match=r"pipegraph\.nodes\..*c\.py"):
        Catalog.load([tmp_path / "c.py"])


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file or folder of nodes"):
        Catalog.load([tmp_path / "nothing.py"])


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    """Put a distribution with entry points on the path, as pip would."""
    info = folder / "toy_pack-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-pack\nVersion: 1.0\n")
    lines = "".join(f"{name} = {value}\n" for name, value in points.items())
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}")
    monkeypatch.syspath_prepend(str(folder))


def test_installed_packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "toy_pack_a.py", "Installed")
    listed = write(tmp_path / "toy_pack_b.py", "Listed")
    listed.write_text(listed.read_text() + "NODES = [f]\n")
    install(tmp_path, monkeypatch, a="toy_pack_a", b="toy_pack_b:NODES", c="toy_pack_gone")
    catalog = Catalog.load()
    assert catalog.entries["Installed"].source == "toy-pack (toy_pack_a)"
    assert "Listed" in catalog
    assert [(b.source, b.error.split(":")[0]) for b in catalog.broken] == [
        ("toy-pack (toy_pack_gone)", "ModuleNotFoundError")
    ]


@node("Here", category="test")
def here() -> int:
    """A node of this file."""
    return 1


def test_a_catalogue_of_functions() -> None:
    this: Any = sys.modules[__name__]
    assert [*Catalog.of(here).entries] == [*Catalog.of(this).entries] == ["Here"]
    with pytest.raises(DeclarationError, match="is no node"):
        Catalog.of(5)
