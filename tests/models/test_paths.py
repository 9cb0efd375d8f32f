"""Names of models and inputs lead to the right file, and never outside the roots."""

import os
import unicodedata
from pathlib import Path

import pytest

from pipegraph.access import Access, granted
from pipegraph.models import paths


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a.safetensors", "sub/m.safetensors"):
        file = tmp_path / "models/checkpoints" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["sub/m.safetensors", "sub\\m.safetensors", "./sub/m.safetensors", "sub/../sub/m.safetensors"]
)
def test_separators(root: Path, name: str) -> None:
    assert paths.resolve("checkpoints", name) == root / "models/checkpoints/sub/m.safetensors"


def test_case_and_nearest(root: Path) -> None:
    with pytest.raises(LookupError, match=r'case-sensitive: "sub/m.safetensors"'):
        paths.resolve("checkpoints", "SUB/m.safetensors")
    with pytest.raises(LookupError, match=r'nearest: "sub/m.safetensors".*looked in .*checkpoints'):
        paths.resolve("checkpoints", "sub/n.safetensors")


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "..\\x",
        "/etc/passwd",
        "C:\\x",
        "a/../../x",
        "x\0.png",
        "....//x",
        "x" * 300,
        "",
        " ",
        "%2e%2e",
        "link/passwd",
        "~",
    ],
)
@pytest.mark.parametrize("kind", paths.KINDS)
def test_outside_is_refused(root: Path, name: str, kind: str) -> None:
    (root / "x").write_bytes(b"outside")
    (root / "input").mkdir()
    for folder in (root / "input", root / "models/checkpoints"):
        (folder / "link").symlink_to("/etc")
    if kind == "input":
        os.chdir(root / "input")
    with pytest.raises(LookupError):
        paths.resolve(kind, name)


def test_what_lies_outside_is_told_like_what_is_not_there(root: Path) -> None:
    (root / "models/checkpoints/link").symlink_to(root)
    (root / "there").write_bytes(b"x")

    def told(name: str) -> str:
        with pytest.raises(LookupError) as error:
            paths.resolve("checkpoints", name)
        return str(error.value.args[0])

    for there in (str(root / "there"), "../../there", "link/there", "~/there"):
        absent = there.replace("there", "gone")
        assert told(there) == told(absent).replace("gone", "there")
    assert "name its path on the command line, or its folder in PIPEGRAPH_MODELS" in told("link/there")


def test_allowed_paths(root: Path) -> None:
    own = root / "elsewhere/model.safetensors"
    own.parent.mkdir()
    own.write_bytes(b"x")
    with pytest.raises(LookupError):
        paths.resolve("checkpoints", str(own))
    with granted(Access.to("elsewhere")):
        assert paths.resolve("checkpoints", str(own)) == own
        assert paths.resolve("checkpoints", "elsewhere/model.safetensors") == own
        with pytest.raises(LookupError):
            paths.resolve("checkpoints", str(root / "other"))
    with pytest.raises(LookupError):
        paths.resolve("checkpoints", str(own))


def test_a_name_means_the_same_file_as_long_as_a_run_goes_on(root: Path) -> None:
    link = root / "models/checkpoints/link.safetensors"
    link.symlink_to("a.safetensors")
    with granted(Access()):
        first = paths.resolve("checkpoints", "link.safetensors")
        link.unlink()
        link.symlink_to("sub/m.safetensors")
        assert paths.resolve("checkpoints", "link.safetensors") == first
    assert paths.resolve("checkpoints", "link.safetensors") != first


def test_hub_cache(root: Path) -> None:
    repo = root / "hub/models--org--name"
    snapshot = repo / "snapshots/abc"
    snapshot.mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs/main").write_text("abc")
    (snapshot / "model_index.json").write_text("{}")
    assert paths.resolve("checkpoints", "org/name") == snapshot
    assert "org/name" in paths.names("checkpoints")


def test_names(root: Path) -> None:
    found = paths.names("checkpoints")
    assert "a.safetensors" in found and "sub/m.safetensors" in found
    assert all(paths.resolve("checkpoints", n) for n in found)


def test_a_ring_of_links_has_an_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "input/real").mkdir(parents=True)
    (root / "input/real/a.png").write_bytes(b"x")
    for folder in (root / "input", root / "input/real", root / "models/checkpoints", root / "models/checkpoints/sub"):
        for number in range(2):
            (folder / f"ring{number}").symlink_to(folder, target_is_directory=True)
        (folder / "out").symlink_to("/", target_is_directory=True)
        (folder / "away.png").symlink_to("/etc/passwd")
        (folder / "away.safetensors").symlink_to("/etc/passwd")
    assert "real/a.png" in paths.names("input")
    assert [n for n in paths.names("checkpoints") if "embedded" not in n] == ["a.safetensors", "sub/m.safetensors"]
    assert [n for n in paths.names("input") if "embedded" not in n] == ["real/a.png"]


def test_a_linked_folder_is_listed_under_the_name_of_the_link(root: Path) -> None:
    (root / "other").mkdir()
    (root / "other/b.safetensors").write_bytes(b"x")
    (root / "models/checkpoints/linked").symlink_to(root / "other", target_is_directory=True)
    assert "linked/b.safetensors" not in paths.names("checkpoints")
    with granted(Access.to(root / "other")):
        assert "linked/b.safetensors" in paths.names("checkpoints")
        assert paths.resolve("checkpoints", "linked/b.safetensors") == root / "other/b.safetensors"


def test_a_pipe_is_no_file(root: Path) -> None:
    os.mkfifo(root / "models/checkpoints/pipe.safetensors")
    assert "pipe.safetensors" not in paths.names("checkpoints")
    with pytest.raises(LookupError, match="no file"):
        paths.resolve("checkpoints", "pipe.safetensors")


@pytest.mark.parametrize("part", ["x" * 300, "x" * 300 + "/y", "a/" * 3000 + "b", "\ud800/x", "org/\0"])
def test_names_that_no_system_takes_are_not_found(root: Path, part: str) -> None:
    (root / "hub").mkdir()
    for kind in paths.KINDS:
        with pytest.raises(LookupError):
            paths.resolve(kind, part)


def test_what_is_not_there_says_what_is_and_how_to_get_more(root: Path) -> None:
    with pytest.raises(LookupError) as absent:
        paths.resolve("checkpoints", "nope")
    advice = str(absent.value)
    assert '"embedded/flux-tiny"' in advice and "`pipegraph models`" in advice
    assert f"put a .safetensors file or a folder in diffusers layout into {root / 'models/checkpoints'}" in advice
    assert "hf download" not in advice
    with pytest.raises(LookupError, match=r"`hf download black-forest-labs/FLUX\.1-dev` fetches"):
        paths.resolve("checkpoints", "black-forest-labs/FLUX.1-dev")
    with pytest.raises(LookupError, match=r"a \.gguf file or a folder in transformers' layout"):
        paths.resolve("llm", "nope")


@pytest.mark.parametrize("kind", ["input", "checkpoints"])
@pytest.mark.parametrize(("on_disk", "named"), [("NFC", "NFD"), ("NFD", "NFC"), ("NFC", "NFC")])
def test_accents_may_be_written_in_either_way(root: Path, kind: str, on_disk: str, named: str) -> None:
    name = "crème brûlée.safetensors"
    folder = root / "input" if kind == "input" else root / "models/checkpoints"
    folder.mkdir(exist_ok=True)
    path = folder / unicodedata.normalize(on_disk, name)  # type: ignore[arg-type]
    path.write_bytes(b"x")
    assert paths.resolve(kind, unicodedata.normalize(named, name)) == path  # type: ignore[arg-type]
