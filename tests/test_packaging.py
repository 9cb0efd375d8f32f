"""The wheel holds everything that a run needs, and works without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pipegraph.graphs import ready_made

ROOT = Path(__file__).parents[1]
FOLDERS = ("graphs", "runtime", "nodes", "models", "kernels")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "-w", out, ROOT)
    (path,) = out.glob("*.whl")
    return path


def pip(*args: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "pip", "-qq", *map(str, args)], check=True)


def tracked() -> set[str]:
    """The files of the five folders and the face that git knows."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = {f.removeprefix("src/") for f in done.stdout.splitlines() if not (ROOT / f).is_symlink()}
    return {
        f"pipegraph/{f}" if f.split("/")[0] in FOLDERS else f
        for f in files
        if f.split("/")[0] in (*FOLDERS, "pipegraph")
    }


def test_the_wheel_holds_the_tracked_files_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if not n.split("/")[0].endswith(".dist-info")}
    assert tracked() <= names
    assert any(n.endswith(".safetensors") for n in names)
    assert not any("recipe" in n for n in names)  # how the shipped models were made is not part of the package
    assert {n.split("/")[0] for n in names} == {"pipegraph"}
    assert len(names) < len(tracked()) + 200  # no caches, no outputs


def test_the_installed_wheel_works_elsewhere(wheel: Path, tmp_path: Path) -> None:
    pip("install", "--no-deps", "--target", tmp_path / "site", wheel)
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}

    def run(*args: str) -> str:
        command = [sys.executable, *args]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout

    assert run("-c", "import pipegraph; print(pipegraph.__file__)").startswith(str(tmp_path / "site"))
    assert all(name in run("-m", "pipegraph", "graphs") for name in ready_made.names())
    assert "embedded/flux-tiny" in run("-m", "pipegraph", "models")
    for name in ready_made.names():
        assert "no errors" in run("-m", "pipegraph", "validate", name)
