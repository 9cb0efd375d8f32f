"""Files that a graph lacks: listed, and fetched from a real server on loopback."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import save_file

from pipegraph.cli import main
from pipegraph.missing_files import FetchError, MissingFile, fetch, place_of

DATA = bytes(range(256)) * 5000


class Server(BaseHTTPRequestHandler):
    """Gives ``DATA`` for every path, in parts where it is asked; ``/short`` ends after a third of it."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        wanted = self.headers.get("Range", "")
        Server.asked.append((self.path, wanted))
        if self.path == "/gone":
            return self.send_error(404)
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "http://example.org/file")
            self.end_headers()
            return None
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.path != "/whole" else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(DATA) - start))
        self.end_headers()
        body = DATA[start:]
        short = self.path == "/short" and not start
        self.wfile.write(body[: len(body) // 3] if short else body)
        return None

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    http = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{http.server_address[1]}"
    http.shutdown()
    http.server_close()


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path / "models"))
    (tmp_path / "models" / "vae").mkdir(parents=True)
    return tmp_path / "models"


def wanted(url: str, name: str = "a.safetensors", sha256: str = "") -> MissingFile:
    return MissingFile(name, "vae", "unknown_file", "", ("1: vae_name",), url, sha256)


def test_a_file_is_fetched_whole_and_compared(server: str, models: Path) -> None:
    digest = hashlib.sha256(DATA).hexdigest()
    seen: list[tuple[int, int]] = []
    path = fetch(wanted(f"{server}/file", sha256=digest), lambda done, total: seen.append((done, total)))
    assert path == models / "vae" / "a.safetensors" and path.read_bytes() == DATA
    assert seen[-1] == (len(DATA), len(DATA))
    with pytest.raises(FetchError, match="is not the file that the graph names"):
        fetch(wanted(f"{server}/file", "b.safetensors", "0" * 64))
    assert sorted(p.name for p in (models / "vae").iterdir()) == ["a.safetensors"]


@pytest.mark.parametrize("path", ["/short", "/whole"])
def test_a_broken_download_goes_on(server: str, models: Path, path: str) -> None:
    Server.asked.clear()
    with pytest.raises(FetchError, match="call again to go on"):
        fetch(wanted(f"{server}/short"))
    part = models / "vae" / "a.safetensors.part"
    there = part.stat().st_size
    assert 0 < there < len(DATA) and not (models / "vae" / "a.safetensors").exists()
    assert fetch(wanted(f"{server}{path}")).read_bytes() == DATA and not part.exists()
    assert Server.asked == [("/short", ""), (path, f"bytes={there}-")]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("/gone", "404"),
        ("/elsewhere", "only https"),
        ("http://example.org/x", "only https"),
        ("file:///etc/passwd", "only https"),
        ("", "does not say where"),
    ],
)
def test_what_is_not_fetched(server: str, models: Path, url: str, message: str) -> None:
    with pytest.raises(FetchError, match=message):
        fetch(wanted(f"{server}{url}" if url.startswith("/") else url))
    assert not (models / "vae" / "a.safetensors").exists()


@pytest.mark.parametrize(
    ("folder", "name"),
    [("vae", "../x"), ("vae", "/etc/x"), ("vae", "a/../../x"), ("..", "x"), ("input", "x"), ("vae", "C:/x")],
)
def test_no_place_outside_the_model_folders(models: Path, folder: str, name: str) -> None:
    with pytest.raises(FetchError, match="no place in the model folders"):
        place_of(MissingFile(name, folder, "unknown_file", "", ()))


def editor_file(tmp_path: Path, server: str) -> Path:
    """A file of the editor with three loaders, two of whose files have addresses."""

    def node(id: int, type: str, value: str, **properties: Any) -> dict[str, Any]:
        outputs = [{"name": type[:3], "type": type[:3], "links": []}]
        return {
            "id": id,
            "type": type,
            "widgets_values": [value],
            "inputs": [],
            "outputs": outputs,
            "properties": properties,
        }

    def model(name: str, path: str) -> dict[str, Any]:
        digest = {"hash": hashlib.sha256(DATA).hexdigest(), "hash_type": "SHA256"}
        return {"models": [{"name": name, "url": server + path, "directory": "vae", **digest}]}

    nodes = [
        node(1, "VAELoader", "absent.safetensors", **model("absent.safetensors", "/file")),
        node(2, "VAELoader", "cut.safetensors", **model("cut.safetensors", "/file")),
        node(3, "VAELoader", "other.safetensors"),
        node(4, "VAELoader", "absent.safetensors"),
    ]
    shows = [
        {
            "id": 10 + n,
            "type": "PreviewAny",
            "inputs": [{"name": "source", "type": "*", "link": n}],
            "outputs": [],
            "widgets_values": [],
        }
        for n in range(1, 5)
    ]
    for n, loader in enumerate(nodes, 1):
        loader["outputs"] = [{"name": "VAE", "type": "VAE", "links": [n]}]
    links = [[n, n, 0, 10 + n, 0, "VAE"] for n in range(1, 5)]
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"version": 0.4, "nodes": [*nodes, *shows], "links": links}))
    return path


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["models", *args])
    return int(ended.value.code or 0), *capsys.readouterr()


def test_one_list_with_three_codes(
    tmp_path: Path, server: str, models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (models / "vae" / "cut.safetensors").write_bytes(b"\x00" * 40)
    save_file({"x": torch.zeros(2)}, models / "vae" / "other.safetensors")
    file = editor_file(tmp_path, server)
    code, out, _ = run(capsys, "missing", str(file), "--json")
    listed = {entry["name"]: entry for entry in json.loads(out)["missing"]}
    assert code == 0 and {name: entry["code"] for name, entry in listed.items()} == {
        "absent.safetensors": "unknown_file",
        "cut.safetensors": "damaged_file",
        "other.safetensors": "unknown_network",
    }
    absent = listed["absent.safetensors"]
    assert absent["url"] == f"{server}/file" and absent["folder"] == "vae" and len(absent["asked_by"]) == 2
    _, out, _ = run(capsys, "missing", str(file))
    assert "vae/absent.safetensors  (not here)" in out and "here, but damaged" in out and "names none" in out


def test_fetching_needs_a_yes(tmp_path: Path, server: str, models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = editor_file(tmp_path, server)
    code, _, err = run(capsys, "fetch", str(file), "--json")
    assert code == 2 and "--yes" in err + _ and not [*(models / "vae").iterdir()]
    code, out, _ = run(capsys, "fetch", str(file), "--yes", "--json")
    assert code == 0
    assert {Path(path).name for path in json.loads(out)["fetched"]} == {"absent.safetensors", "cut.safetensors"}
    assert (models / "vae" / "absent.safetensors").read_bytes() == DATA


def test_a_graph_that_lacks_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "missing", "flux.json")[:2] == (0, "Nothing is missing.\n")
    assert run(capsys, "fetch", "flux.json", "--yes")[0] == 2
    assert run(capsys, "missing")[0] == 2
