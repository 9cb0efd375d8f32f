"""Atomic writes of files under unique names.

A file is written as ``.pipegraph-<process>-….tmp`` and linked to its final name, which fails if the name is taken.
The next run in a folder removes what a killed process left.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import socket
import time
import unicodedata
from contextlib import suppress
from hashlib import blake2b
from itertools import count
from pathlib import Path
from typing import Final

DAY: Final = 86_400.0
_HOST: Final = blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()
_TOKEN: Final = secrets.token_hex(4)
"""Distinguishes this process from an earlier one with the same pid."""
_TEMP: Final = re.compile(r"\.pipegraph-(\d+)-([0-9a-f]{8})-([0-9a-f]{8})-\d+\.tmp(-texts)?")
_counter = count()
_WINDOWS = os.name == "nt"
_DEVICE = re.compile(r"CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(COM|LPT)[0-9¹²³]")


def write_new(folder: Path, name: str, data: bytes | Path) -> Path:
    r"""Write ``data`` under ``folder`` as ``name``, with the lowest free counter in place of ``%n``.

    Args:
        folder: The file never leaves it, whatever ``name`` says.
        name: May hold folders, with ``/`` or ``\``; must hold ``%n`` once, in its last part.
        data: Bytes, or a finished file of :func:`scratch`, which is moved.

    Raises:
        ValueError: the name is not allowed.
    """
    place, before, after = _split(folder, name)
    place.mkdir(parents=True, exist_ok=True)
    temp = data if isinstance(data, Path) else _write_temp(folder, data)
    try:
        if temp is data:
            _flush(temp)
        number = _lowest_free(place, before, after)
        while True:
            final = place / f"{before}{number:05d}{after}"
            try:
                temp = _publish(temp, final, data)
                return final
            except FileExistsError:
                number += 1
    finally:
        temp.unlink(missing_ok=True)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file atomically, replacing an existing one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = _write_temp(path.parent, data)
    try:
        os.replace(temp, path)
    finally:
        temp.unlink(missing_ok=True)


def sweep(folder: Path, *, age: float = DAY) -> list[Path]:
    """Remove temporary files of dead processes in ``folder`` (not below it); return them.

    A file of another machine, or of a reused pid, is removed when it is ``age`` seconds old.
    """
    gone: list[Path] = []
    try:
        entries = [entry for entry in os.scandir(folder) if entry.name.startswith(".pipegraph-")]
    except OSError:
        return gone
    for entry in entries:
        match = _TEMP.fullmatch(entry.name)
        if match and _is_left(int(match[1]), match[2], match[3], entry, age):
            try:
                os.unlink(entry.path)
            except OSError:
                continue
            gone.append(Path(entry.path))
    return gone


def sweep_old(folder: Path, *, age: float = DAY) -> None:
    """Remove files of a folder for previews that are older than ``age`` seconds."""
    try:
        entries = [*os.scandir(folder)]
    except OSError:
        return
    for entry in entries:
        try:
            if entry.is_file(follow_symlinks=False) and time.time() - entry.stat().st_mtime > age:
                os.unlink(entry.path)
        except OSError:
            continue


def check_name(name: str) -> list[str]:
    """Split and check a name for ``write_new``; ValueError if it is not allowed.

    Names are printed for scripts, one per line: no control characters, no leading dash.
    """
    name = unicodedata.normalize("NFC", name)
    parts = name.replace("\\", "/").split("/")
    if "\0" in name or any(p in ("", ".", "..") or p.endswith((" ", ".")) for p in parts) or ":" in parts[0]:
        raise ValueError(f"{name!r} is not a name of a file inside the output folder")
    if not name.isprintable() and any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in name):
        raise ValueError(f"{name!r} holds a line break or another control character, which no name of a file may")
    if any(part.startswith("-") for part in parts):
        raise ValueError(f'{name!r} begins with "-", as options of commands do')
    if _WINDOWS and (fault := next(filter(None, map(windows_fault, parts)), "")):
        raise ValueError(f"{name!r}: {fault}")
    if name.count("%n") != 1 or "%n" not in parts[-1]:
        raise ValueError(f"{name!r} must hold %n, the counter, once, in its last part")
    if max(len(part.encode(errors="surrogateescape")) for part in parts) > 240:
        raise ValueError(f"{name[:40]!r}… is too long for the name of a file")
    return parts


def windows_fault(part: str) -> str:
    """Why the name is invalid on Windows; empty if it is valid."""
    if bad := sorted({*part} & {*'<>:"|?*'}):
        return f"names on Windows hold no {' '.join(bad)}"
    stem = part.partition(".")[0].rstrip().upper()
    return f"{stem} is the name of a device on Windows" if _DEVICE.fullmatch(stem) else ""


def check_folder(folder: Path) -> None:
    """Check that files can be written to a folder, which may not exist yet; leaves nothing behind.

    Raises:
        OSError: they cannot be written.
    """
    created: list[Path] = []
    try:
        for place in [*reversed(folder.parents), folder]:
            if not place.is_dir():
                place.mkdir(exist_ok=True)
                created.append(place)
        _write_temp(folder, b"").unlink()
    finally:
        for place in reversed(created):
            with suppress(OSError):  # another run has written there meanwhile
                place.rmdir()


def _split(folder: Path, name: str) -> tuple[Path, str, str]:
    """Folder of the file, and its name before and after the counter."""
    parts = check_name(name)
    before, _, after = parts[-1].partition("%n")
    place = folder.joinpath(*parts[:-1])
    if not place.resolve().is_relative_to(folder.resolve()):
        raise ValueError(f"{name!r} leads out of the output folder")
    return place, before, after


def _lowest_free(place: Path, before: str, after: str) -> int:
    """The lowest counter from 1 that no file in the folder has."""
    number = re.compile(re.escape(before) + r"(\d{5,})" + re.escape(after))
    taken = {int(m[1]) for entry in os.scandir(place) if (m := number.fullmatch(entry.name))}
    return next(n for n in count(1) if n not in taken)


def scratch(folder: Path) -> Path:
    """Path of a new temporary file in ``folder`` for incremental writes; the caller removes it."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f".pipegraph-{os.getpid()}-{_HOST}-{_TOKEN}-{next(_counter)}.tmp"


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _write_temp(folder: Path, data: bytes | Path) -> Path:
    temp = scratch(folder)
    try:
        with temp.open("xb") as file:
            if isinstance(data, Path):
                with data.open("rb") as source:
                    shutil.copyfileobj(source, file)
            else:
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        with suppress(OSError):
            temp.unlink()
        raise
    return temp


def _publish(temp: Path, final: Path, data: bytes | Path) -> Path:
    """Link the file to its final name, or FileExistsError; return the temporary file, which may have moved."""
    try:
        os.link(temp, final)
    except OSError as e:
        if e.errno == errno.EXDEV:  # the folder is a mount of its own
            moved = _write_temp(final.parent, data)
            temp.unlink(missing_ok=True)
            return _publish(moved, final, data)
        if e.errno == errno.EEXIST:
            raise
        # No hard links: another writer may take the name between the check and the rename.
        if final.exists():
            raise FileExistsError(final) from e
        os.rename(temp, final)
    return temp


def _is_left(pid: int, host: str, token: str, entry: os.DirEntry[str], age: float) -> bool:
    if host == _HOST and token == _TOKEN and pid == os.getpid():  # a forked process has this one's token
        return False
    try:
        old = time.time() - entry.stat().st_mtime > age
    except OSError:
        return False
    if old or host != _HOST or os.name == "nt":
        return old
    if pid == os.getpid():
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
