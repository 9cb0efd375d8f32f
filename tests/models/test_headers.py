"""Weight files are told by content, checked, and never unpickled."""

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pipegraph.models import paths
from pipegraph.models.checkpoints.parts import parts
from pipegraph.models.checkpoints.source import recommend
from pipegraph.models.loading.header_values import LoadError
from pipegraph.models.loading.headers import read_header, weight_files


class Evil:
    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize("suffix", [".pt", ".ckpt", ".safetensors"])
@pytest.mark.parametrize("zipped", [False, True])
def test_pickles_are_refused(tmp_path: Path, suffix: str, zipped: bool) -> None:
    file, marker = tmp_path / f"model{suffix}", tmp_path / "marker"
    data = pickle.dumps(Evil(marker))
    if zipped:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("archive/data.pkl", data)
    else:
        file.write_bytes(data)
    with pytest.raises(LoadError, match=r"is a pickle, which can run any program.*use the \.safetensors"):
        parts(file)
    assert not marker.exists()


def safetensors(path: Path, table: dict[str, Any], body: int) -> Path:
    header = json.dumps(table).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(body))
    return path


def entry(begin: int, end: int, shape: list[int]) -> dict[str, Any]:
    return {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}


def test_good_header(tmp_path: Path) -> None:
    table = {"__metadata__": {"a": "b"}, "x": entry(0, 8, [2]), "y": entry(8, 8, [0, 3])}
    header = read_header(safetensors(tmp_path / "x.safetensors", table, 8))
    assert header.metadata == {"a": "b"} and header.tensors["y"].shape == (0, 3)


@pytest.mark.parametrize(
    ("table", "body"),
    [
        ({"x": entry(0, 8, [2]), "y": entry(4, 12, [2])}, 12),  # overlap
        ({"x": entry(8, 16, [2])}, 16),  # hole
        ({"x": entry(0, 8, [3])}, 8),  # shape and length disagree
        ({"x": entry(0, 8, [2])}, 4),  # cut off
        ({"x": {"dtype": "F32"}}, 0),
        ({"x": entry(8, 0, [2])}, 8),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, table: dict[str, Any], body: int) -> None:
    with pytest.raises(LoadError, match=r"broken|cut off"):
        read_header(safetensors(tmp_path / "x.safetensors", table, body))


@pytest.mark.parametrize("data", [b"", b"\x01", (2**31).to_bytes(8, "little") + b"{}", b"GGUF" + bytes(20)])
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "x.safetensors"
    file.write_bytes(data)
    with pytest.raises(LoadError, match=r"no safetensors file|GGUF|is empty \(0 bytes\)"):
        read_header(file)


def test_unknown_network_names_what_it_saw(tmp_path: Path) -> None:
    file = safetensors(tmp_path / "x.safetensors", {"model.layers.0.q": entry(0, 8, [2])}, 8)
    with pytest.raises(LoadError, match=r"no network that pipegraph knows.*model\.layers\.0\.q"):
        parts(file)


def test_which_file_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").touch()
    with pytest.raises(LoadError, match=r"only pytorch_model\.bin, which is not opened for safety"):
        weight_files(tmp_path)
    for name in ("model.fp16.safetensors", "model.safetensors"):
        (tmp_path / name).touch()
    assert weight_files(tmp_path) == (tmp_path / "model.safetensors",)
    (tmp_path / "model.safetensors.index.json").write_text(
        '{"weight_map": {"a": "2.safetensors", "b": "1.safetensors"}}'
    )
    for number, name in enumerate("ba", 1):
        safetensors(tmp_path / f"{number}.safetensors", {name: entry(0, 8, [2])}, 8)
    assert weight_files(tmp_path) == (tmp_path / "1.safetensors", tmp_path / "2.safetensors")


def test_recommendation_of_the_shipped_model() -> None:
    card = json.loads((paths.EMBEDDED / "flux-tiny/card.json").read_text())["recommend"]
    told = recommend("embedded/flux-tiny")
    assert {k: told[k] for k in card} == card
