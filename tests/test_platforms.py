"""What Windows and macOS have otherwise, as far as it can be faked."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pipegraph.models.loading.place import compute_dtype
from pipegraph.runtime import files

ROOT = Path(__file__).parents[1]
SOURCE = [
    p for f in ("src", "graphs", "runtime", "kernels", "models", "nodes", "scripts") for p in (ROOT / f).rglob("*.py")
]


def without_encoding(path: Path) -> list[str]:
    """Calls that read or write text in the encoding of the machine."""
    bad = []
    for call in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        named = {word.arg for word in call.keywords}
        texts = {"read_text": 1, "write_text": 2}.get(name)
        of_click = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "formatter"
        if texts and not of_click and "encoding" not in named and len(call.args) < texts:
            bad.append(f"{path}:{call.lineno}")
        if "text" in named and "encoding" not in named and name in ("run", "Popen", "check_output"):
            bad.append(f"{path}:{call.lineno}")
        mode = call.args[1] if name == "open" and len(call.args) > 1 and isinstance(call.func, ast.Name) else None
        if isinstance(mode, ast.Constant) and "b" not in str(mode.value) and "encoding" not in named:
            bad.append(f"{path}:{call.lineno}")
    return bad


def test_every_text_is_utf8() -> None:
    assert not [fault for path in SOURCE for fault in without_encoding(path)]


def test_the_search_for_encodings_finds_some(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(
        'p.read_text()\np.write_text("a")\nopen("x", "w")\nrun(["a"], text=True)\nopen("x", "rb")\n'
    )
    assert len(without_encoding(tmp_path / "x.py")) == 4


@pytest.mark.parametrize(
    "name", ["CON/x_%n.png", "a/nul.txt/x_%n", "com1/%n", "LPT9.a/%n", "a?%n.png", "a|b_%n", 'a"%n', "a/b:c_%n", "<%n>"]
)
def test_names_that_windows_has_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files.check_name(name)
    monkeypatch.setattr(files, "_WINDOWS", True)
    with pytest.raises(ValueError, match=r"device on Windows|names on Windows hold no"):
        files.check_name(name)


@pytest.mark.parametrize("name", ["CONTENT/x_%n.png", "com/%n", "null_%n", "COM%n", "console.nul_%n.png"])
def test_names_that_windows_has(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_WINDOWS", True)
    files.check_name(name)


def test_macos_before_14_computes_in_float16(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, dtype in ((13, torch.float16), (14, torch.bfloat16), (15, torch.bfloat16)):
        monkeypatch.setattr(
            torch.backends.mps, "is_macos_or_newer", lambda major, minor, version=version: version >= major
        )
        assert compute_dtype("auto", torch.device("mps")) == dtype


def test_a_run_without_what_only_unix_has(tmp_path: Path) -> None:
    """No ``resource``, ``fcntl`` or ``pwd``, no ``os.fork``, ``os.sysconf`` or ``os.kill``."""
    code = """
import os, sys
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("fork", "sysconf", "getuid", "kill", "killpg", "setsid"):
    delattr(os, name)
import pipegraph as pg
result = pg.load({"pipegraph": 1, "nodes": {
    "a": {"class_type": "EmptyImage", "inputs": {"width": 8, "height": 8}},
    "s": {"class_type": "SaveImage", "inputs": {"images": ["a", 0]}}}}, out=sys.argv[1]).run()
assert len(result.files) == 1
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, encoding="utf-8", timeout=120
    )
    assert done.returncode == 0, done.stderr
