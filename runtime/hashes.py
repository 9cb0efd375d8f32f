"""Content hashes of files and folders, cached between runs so that a large model is read once.

Hashes are cached by device, inode, size and modification times. Small files are read each time.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pipegraph.folders import cache_folder

from .files import replace_file

SMALL: Final = 1 << 16
"""Files up to this many bytes are not cached."""
SETTLED_NS: Final = 2_000_000_000
"""A file changed more recently may change again within one clock tick: it is not cached."""
MAX_ENTRIES: Final = 20_000


class FileHashes:
    """SHA-256 of files, with a cache on disk.

    Args:
        store: JSON file of the cache; ``file_hashes.json`` in the cache folder if None. Failure to read or write it
            costs time only.
        on_read: Called with path and size in bytes before a large file is read.
    """

    def __init__(self, store: Path | None = None, on_read: Callable[[Path, int], None] | None = None) -> None:
        self._store = store
        self._on_read = on_read
        self._known: dict[str, str] | None = None
        self._new: dict[str, str] = {}

    def digest(self, paths: Sequence[Path]) -> str:
        """One hash for files and folders together, over names inside folders and all contents."""
        if len(paths) == 1 and paths[0].is_file():
            return self.file(paths[0])
        total = hashlib.sha256()
        for root in paths:
            for path, name in _files(root):
                total.update(f"{name}\0{self.file(path)}\n".encode("utf-8", "surrogateescape"))
        return total.hexdigest()

    def file(self, path: Path) -> str:
        """SHA-256 of a file's contents, in hex."""
        before = os.stat(path)
        if not stat.S_ISREG(before.st_mode):  # reading a pipe may block
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if before.st_size <= SMALL:
            return hashlib.sha256(path.read_bytes()).hexdigest()
        key = f"{before.st_dev}:{before.st_ino}:{before.st_size}:{before.st_mtime_ns}:{before.st_ctime_ns}"
        known = self._new.get(key) or self._memory().get(key)
        if known:
            return known
        if self._on_read:
            self._on_read(path, before.st_size)
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        after = os.stat(path)
        same = (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
            after.st_size,
            after.st_mtime_ns,
            after.st_ctime_ns,
        )
        if same and time.time_ns() - max(before.st_mtime_ns, before.st_ctime_ns) > SETTLED_NS:
            self._new[key] = digest
        return digest

    def save(self) -> None:
        """Merge new hashes into the cache on disk."""
        if not self._new:
            return
        self._known = None
        merged = {**self._memory(), **self._new}
        newest = dict(list(merged.items())[-MAX_ENTRIES:])
        with suppress(OSError):
            replace_file(self._path(), json.dumps(newest).encode())
        self._known, self._new = newest, {}

    def _path(self) -> Path:
        return self._store or cache_folder() / "file_hashes.json"

    def _memory(self) -> dict[str, str]:
        if self._known is None:
            try:
                read: Any = json.loads(self._path().read_bytes())
            except (OSError, ValueError):
                read = {}
            whole = isinstance(read, dict) and all(isinstance(v, str) for v in read.values())
            self._known = read if whole else {}
        return self._known


def _files(root: Path) -> list[tuple[Path, str]]:
    """A file, or all files under a folder (links to files followed), each with its name within the folder, sorted."""
    if not root.is_dir():
        return [(root, root.name)]
    files = []
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in names:
            path = Path(folder, name)
            if path.is_file():
                files.append((path, path.relative_to(root).as_posix()))
    return sorted(files, key=lambda item: item[1])
