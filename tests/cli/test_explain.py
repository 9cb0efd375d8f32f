"""Every code of a problem is explained."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

import pytest
from tests.test_layers import ROOT, files

from pipegraph.cli import main
from pipegraph.cli.explain import page
from pipegraph.graphs.codes import CODES


def raised() -> Iterator[str]:
    """Codes in calls that make a problem, in the whole source."""
    for folder in ("graphs", "runtime", "nodes", "models", "src/pipegraph"):
        for path in files(folder):
            for call in ast.walk(ast.parse(path.read_text("utf-8"))):
                match call:  # exceptions have the code as an attribute
                    case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(text))):
                        yield text
                    case ast.Call(
                        func=ast.Name(id="getattr"), args=[_, ast.Constant(value="code"), ast.Constant(value=str(text))]
                    ):
                        yield text
                if not isinstance(call, ast.Call):
                    continue
                name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
                code = next((k.value for k in call.keywords if k.arg == "code"), None)
                if name in ("bad", "add", "notice", "_problem", "Misfit", "_wrong") and call.args:
                    code = call.args[0]
                if isinstance(code, ast.Constant) and re.fullmatch(r"[a-z]+(_[a-z]+)*", str(code.value)):
                    yield ("bad_" if name == "_wrong" else "") + str(code.value)


def test_every_code_is_explained_and_no_other() -> None:
    assert set(CODES) == set(raised())


def test_the_page_is_the_table() -> None:
    assert (ROOT / "docs/errors.md").read_text("utf-8") == page(), "run: scripts/renew"


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["explain", *args])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def test_one_code_and_all(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "cycle")
    assert code == 0 and "Nodes feed each other" in out and "Cut one of the links" in out
    code, out, _ = run(capsys)
    assert code == 0 and all(name in out for name in CODES)
    code, out, _ = run(capsys, "cycle", "--json")
    assert json.loads(out) == [{"code": "cycle", **CODES["cycle"]._asdict()}]


def test_an_unknown_code_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "unknown_nod")
    assert code == 2 and 'Did you mean "unknown_node"' in err
