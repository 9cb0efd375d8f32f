"""Output files appear whole, under names of their own, inside their folder; what the dead left is swept."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipegraph.runtime import files
from pipegraph.runtime.files import check_folder, replace_file, scratch, sweep, sweep_old, write_new


def names(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_the_lowest_free_counter_is_taken(tmp_path: Path) -> None:
    for _ in range(3):
        write_new(tmp_path, "a_%n_.png", b"x")
    (tmp_path / "a_00002_.png").unlink()
    assert write_new(tmp_path, "a_%n_.png", b"new").name == "a_00002_.png"
    assert write_new(tmp_path, "b/c\\%n", b"y") == tmp_path / "b/c/00001"
    assert names(tmp_path) == ["a_00001_.png", "a_00002_.png", "a_00003_.png", "b/c/00001"]


def test_many_writers_never_share_a_name(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = [*pool.map(lambda i: write_new(tmp_path, "x%n", str(i).encode()), range(100))]
    assert len(set(made)) == 100 and sorted(int(p.read_bytes()) for p in made) == [*range(100)]
    assert names(tmp_path) == [f"x{i:05d}" for i in range(1, 101)]


def test_processes_never_share_a_name(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from pipegraph.runtime.files import write_new\n"
        "for i in range(20): write_new(Path(sys.argv[1]), 'x%n', sys.argv[2].encode())"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    started = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), n], env=environment) for n in "abc"]
    assert [p.wait(60) for p in started] == [0, 0, 0]
    texts = [p.read_text() for p in tmp_path.iterdir()]
    assert sorted(texts) == ["a"] * 20 + ["b"] * 20 + ["c"] * 20


@pytest.mark.parametrize(
    "name",
    [
        "../x%n",
        "..\\x%n",
        "/etc/x%n",
        "a/../../x%n",
        "C:\\x%n",
        "a//x%n",
        "x%n\0.png",
        "....//x%n",
        "./x%n",
        "x",
        "%n/x",
        "%n%n",
        "x%n.",
        "x%n ",
        "a /x%n",
        "",
        "%n" + "x" * 300,
        "a\nb%n",
        "a\r%n",
        "\x1b[2J%n",
        "a\u2028%n",
        "\x9b%n",
        "-x%n",
        "a/-x%n",
        "-a/x%n",
    ],
)
def test_names_that_are_refused(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "out"
    with pytest.raises(ValueError):
        write_new(folder, name, b"x")
    assert names(tmp_path) == []


def test_a_link_that_leads_out_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/sub").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="leads out"):
        write_new(tmp_path / "out", "sub/x%n", b"x")
    (tmp_path / "mine").symlink_to(tmp_path / "out")
    assert write_new(tmp_path / "mine", "x%n", b"x").exists()  # the folder itself may be a link


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_new(tmp_path, "x%n", b"x")
    assert names(tmp_path) == []


@pytest.mark.parametrize("code", [errno.EPERM, errno.EXDEV])
def test_folders_without_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    link, calls = os.link, []

    def refuse(source: Path, target: Path) -> None:
        calls.append(source)
        if code == errno.EPERM or len(calls) % 2:
            raise OSError(code, os.strerror(code))
        link(source, target)

    monkeypatch.setattr(os, "link", refuse)
    for _ in range(3):
        write_new(tmp_path, "sub/x%n", b"x")
    assert names(tmp_path) == ["sub/x00001", "sub/x00002", "sub/x00003"]


def test_a_name_is_taken_by_a_hard_link_where_there_are_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Renaming could put a file over another writer's."""
    monkeypatch.setattr(os, "rename", None)
    for _ in range(2):
        write_new(tmp_path, "x%n", b"x")
    assert names(tmp_path) == ["x00001", "x00002"]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    for data in (b"one", b"two"):
        replace_file(tmp_path / "a/record.json", data)
    assert (tmp_path / "a/record.json").read_bytes() == b"two" and names(tmp_path) == ["a/record.json"]


def left(folder: Path, pid: int, host: str = files._HOST, token: str = "0" * 8, age: float = 0) -> Path:
    path = folder / f".pipegraph-{pid}-{host}-{token}-0.tmp"
    path.write_bytes(b"half")
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_what_the_dead_left_is_swept(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait(60)
    living = os.getppid()
    gone = {
        left(tmp_path, ended.pid),
        left(tmp_path, os.getpid()),  # an earlier process with our number
        left(tmp_path, living, age=2 * files.DAY, token="1" * 8),
        left(tmp_path, ended.pid, host="f" * 8, age=2 * files.DAY),
    }
    kept = {
        left(tmp_path, living),
        left(tmp_path, os.getpid(), token=files._TOKEN),
        left(tmp_path, ended.pid, host="e" * 8),
    }
    other = tmp_path / ".pipegraph-notes.txt"
    other.write_bytes(b"mine")
    assert set(sweep(tmp_path)) == gone
    assert {*tmp_path.iterdir()} == {*kept, other}
    assert sweep(tmp_path / "nowhere") == []


def test_old_previews_are_swept(tmp_path: Path) -> None:
    old, new = tmp_path / "old.png", tmp_path / "new.png"
    for path, age in ((old, 2 * files.DAY), (new, 0.0)):
        path.write_bytes(b"x")
        os.utime(path, (time.time() - age,) * 2)
    sweep_old(tmp_path)
    assert names(tmp_path) == ["new.png"]


FORK = """
import os, pathlib, sys
from pipegraph.runtime.files import scratch, sweep

folder = pathlib.Path(sys.argv[1])
child = os.fork()
if not child:
    scratch(folder).touch()
    os._exit(0)
os.waitpid(child, 0)
print(*[path.name for path in sweep(folder)])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_what_a_forked_process_left_is_removed(tmp_path: Path) -> None:
    mine = scratch(tmp_path)
    mine.touch()
    done = subprocess.run([sys.executable, "-c", FORK, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() and [*tmp_path.iterdir()] == [mine]


def test_a_folder_is_tried_and_nothing_is_left(tmp_path: Path) -> None:
    check_folder(tmp_path / "a" / "b")
    assert not [*tmp_path.iterdir()]
    (tmp_path / "file").write_text("x")
    for wrong in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nothing"), Path("/dev/null")):
        with pytest.raises(OSError, match=r".+"):
            check_folder(wrong)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_name_is_written_in_composed_letters(tmp_path: Path) -> None:
    made = write_new(tmp_path, unicodedata.normalize("NFD", "crème%n"), b"x")
    assert made.name == unicodedata.normalize("NFC", "crème00001")
