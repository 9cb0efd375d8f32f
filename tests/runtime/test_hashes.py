"""File hashes: of contents, remembered while nothing changed."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from pipegraph.runtime import hashes as module
from pipegraph.runtime.hashes import SMALL, FileHashes

BIG = b"x" * (SMALL + 1)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as settled at once: their change time cannot be set back."""
    monkeypatch.setattr(module, "SETTLED_NS", -1)


def reads(store: Path, path: Path) -> tuple[str, int]:
    """The hash, and how often the file was read for it."""
    seen: list[Path] = []
    hashes = FileHashes(store, lambda p, size: seen.append(p))
    found = hashes.digest([path])
    hashes.save()
    return found, len(seen)


def test_a_file_is_read_once(tmp_path: Path, settled: None) -> None:
    file, store = tmp_path / "model", tmp_path / "deep/store.json"
    file.write_bytes(BIG)
    want = hashlib.sha256(BIG).hexdigest()
    assert reads(store, file) == (want, 1)
    assert reads(store, file) == (want, 0)
    (tmp_path / "link").symlink_to(file)
    assert reads(store, tmp_path / "link") == (want, 0)


def test_changed_contents_are_seen_though_size_and_time_agree(tmp_path: Path, settled: None) -> None:
    file, store = tmp_path / "model", tmp_path / "store.json"
    file.write_bytes(BIG)
    before = file.stat()
    reads(store, file)
    time.sleep(0.02)
    file.write_bytes(b"y" + BIG[1:])
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert reads(store, file) == (hashlib.sha256(b"y" + BIG[1:]).hexdigest(), 1)


def test_a_file_that_has_just_changed_is_not_remembered(tmp_path: Path) -> None:
    file, store = tmp_path / "model", tmp_path / "store.json"
    file.write_bytes(BIG)
    assert [reads(store, file)[1] for _ in range(2)] == [1, 1]


def test_a_folder_counts_names_and_contents(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_bytes(b"1")
    (folder / "sub/b").write_bytes(b"2")
    found = {FileHashes(tmp_path / "s").digest([folder])}
    (folder / "sub/b").write_bytes(b"3")
    found.add(FileHashes(tmp_path / "s").digest([folder]))
    (folder / "sub/b").rename(folder / "b")
    found.add(FileHashes(tmp_path / "s").digest([folder]))
    assert len(found) == 3
    (folder / "link").symlink_to(folder / "a")
    assert FileHashes(tmp_path / "s").digest([folder]) not in found
    assert FileHashes(tmp_path / "s").digest([folder]) == FileHashes(tmp_path / "t").digest([folder])


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"a": 1}', b"\xff"])
def test_a_broken_store_costs_time_only(tmp_path: Path, settled: None, content: bytes) -> None:
    file, store = tmp_path / "model", tmp_path / "store.json"
    file.write_bytes(BIG)
    store.write_bytes(content)
    assert [reads(store, file)[1] for _ in range(2)] == [1, 0]


def test_others_entries_are_kept(tmp_path: Path, settled: None) -> None:
    file, store = tmp_path / "model", tmp_path / "store.json"
    file.write_bytes(BIG)
    mine = FileHashes(store)
    mine.file(file)
    store.write_text(json.dumps({"theirs": "x"}))
    mine.save()
    assert json.loads(store.read_text()).keys() > {"theirs"}
    assert [p.name for p in tmp_path.glob(".pipegraph*")] == []


def test_a_store_that_cannot_be_written(tmp_path: Path, settled: None) -> None:
    file = tmp_path / "model"
    file.write_bytes(BIG)
    (tmp_path / "file").write_text("no folder")
    assert reads(tmp_path / "file/store.json", file)[1] == 1


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        FileHashes(tmp_path / "store.json").digest([tmp_path / "pipe"])
