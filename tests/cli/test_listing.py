"""The commands that describe: nodes, graphs, models, doctor; and that none of them needs torch."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from pipegraph.graphs import ready_made

from .conftest import Call

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "custom_node"
HEAVY = ("torch", "numpy", "diffusers", "transformers", "PIL", "rich")


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["run", str(EXAMPLE / "graph.json"), "--help"],
        ["nodes"],
        ["nodes", "LoadImage"],
        ["graphs"],
        ["models"],
        ["run", "flux.json", "--help"],
        ["validate", "flux.json"],
        ["validate", str(EXAMPLE / "graph.json"), "--nodes", str(EXAMPLE)],
    ],
    ids=" ".join,
)
def test_describing_needs_no_tensor_library(args: list[str]) -> None:
    code = (
        "import sys, contextlib\nfrom pipegraph.cli import main\n"
        f"with contextlib.suppress(SystemExit): main({args!r})\nprint('MODULES', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    shown, _, modules = done.stdout.rpartition("MODULES")
    assert shown and not done.stderr
    assert not {m.split(".")[0] for m in modules.split()} & set(HEAVY)


def test_help_lists_every_command(call: Call) -> None:
    from pipegraph.cli import COMMANDS

    done = call("--help")
    assert done.code == 0
    for name in COMMANDS:
        assert f"  {name} " in done.out
        assert call(name, "--help").code == 0


@pytest.mark.parametrize(("typed", "hint"), [("nods", '"nodes"'), ("flux.json", "pipegraph run flux.json")])
def test_an_unknown_command_gets_a_hint(call: Call, typed: str, hint: str) -> None:
    done = call(typed)
    assert done.code == 2 and hint in done.err


def test_nodes_shows_ports_limits_and_defaults(call: Call) -> None:
    done = call("nodes", "ImageVignette", "--nodes", EXAMPLE / "vignette.py")
    assert done.code == 0
    for text in ("image/filter", "IMAGE", "required", "= 0.5", "[0..1]", "1 makes the corners black."):
        assert text in done.out


def test_nodes_json_is_one_line_with_everything(call: Call) -> None:
    (found,) = call("nodes", "ImageVignette", "--nodes", EXAMPLE, "--json").json
    (node,) = found
    assert node["inputs"][1] == {
        "name": "strength",
        "type": "FLOAT",
        "required": False,
        "doc": "0 changes nothing, 1 makes the corners black.",
        "default": 0.5,
        "minimum": 0,
        "maximum": 1,
    }
    assert node["outputs"] == [{"name": "IMAGE", "type": "IMAGE"}]


def test_an_unknown_node_names_the_nearest(call: Call) -> None:
    done = call("nodes", "LoadImge")
    assert done.code == 2
    assert '"LoadImage"' in done.err


def test_the_page_of_nodes_is_up_to_date(call: Call) -> None:
    page = call("nodes", "--markdown").out
    assert (ROOT / "docs" / "nodes.md").read_text() == page, "run: scripts/renew"


def test_graphs_lists_all_and_all_are_described(call: Call) -> None:
    found = {g["name"]: g for g in call("graphs", "--json").json[0]}
    assert [*found] == ready_made.names()
    assert all(g["description"] and g["outputs"] for g in found.values())
    plain = call("graphs").out
    assert all(name in plain for name in found)


def test_models_lists_shipped_ones_and_where_it_looked(
    call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mine" / "loras").mkdir(parents=True)
    (tmp_path / "mine" / "loras" / "style.safetensors").write_bytes(b"12345")
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path / "mine"))
    plain = call("models").out
    assert "embedded/flux-tiny" in plain and "style.safetensors" in plain and str(tmp_path / "mine") in plain
    (found,) = call("models", "--json").json
    assert "style.safetensors" in found["models"]["loras"]


def test_models_shows_the_card_of_one(call: Call) -> None:
    done = call("models", "embedded/flux-tiny")
    card = json.loads((ROOT / "models" / "embedded" / "flux-tiny" / "card.json").read_text())
    assert done.code == 0
    assert all(word in done.out for word in card["vocabulary"])
    missing = call("models", "embedded/flux-tny")
    assert missing.code == 2 and "embedded/flux-tiny" in missing.err


def test_models_says_what_a_file_holds(call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "pointer.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid x\n")
    table = {
        "model.diffusion_model.input_blocks.0.0.weight": {"dtype": "U8", "shape": [4, 4], "data_offsets": [0, 16]},
        "model.diffusion_model.label_emb.0.0.weight": {"dtype": "U8", "shape": [1, 2560], "data_offsets": [16, 2576]},
    }
    header = json.dumps(table).encode()
    data = len(header).to_bytes(8, "little") + header + bytes(2576)
    (tmp_path / "checkpoints" / "refiner.safetensors").write_bytes(data)
    assert "holds vae (FLUX.1), transformer (FLUX.1)" in call("models", "embedded/flux-tiny").out
    assert "is a pointer of Git LFS" in call("models", "pointer.safetensors").out
    (refiner,) = call("models", "refiner.safetensors", "--json").json
    assert "the SDXL refiner, which does not run here (yet)" in refiner["contents"]


def test_doctor_finds_a_working_installation(call: Call) -> None:
    done = call("doctor", "--json")
    checks = {c["what"]: c for c in done.json[0]}
    assert done.code == 0
    assert checks["torch"]["status"] == "ok" and checks["gpu" if "gpu" in checks else "torch"]["found"]
    assert not [c for c in checks.values() if c["status"] == "missing"]


def test_doctor_tells_what_is_missing(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.metadata as metadata

    real = metadata.version

    def version(name: str) -> str:
        if name == "networkx":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    done = call("doctor")
    assert done.code == 1
    assert "pip install 'networkx>=3.3'" in done.out


def test_doctor_without_an_installation(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.distribution

    def distribution(name: str) -> metadata.Distribution:
        if name == "pipegraph":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    done = call("doctor")
    assert "not installed, used from" in done.out and "diffusers" in done.out


def test_a_pipe_gets_no_styles(call: Call) -> None:
    assert "\x1b" not in call("nodes").out and "\x1b" not in call("nodes", "KSampler").out
