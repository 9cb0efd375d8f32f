"""Metadata texts of media files, within the limits of ``pipegraph.limits``. Standard library only."""

from __future__ import annotations

import zlib

from pipegraph.containers import Source
from pipegraph.limits import TEXT_BYTES


class Texts:
    """Texts by key, at most ``TEXT_BYTES`` in total, decompressed. The first of repeated keys is used.

    Attributes:
        by_key: The texts.
    """

    def __init__(self) -> None:
        self.by_key: dict[str, str] = {}
        self._bytes_left = TEXT_BYTES

    def read(self, source: Source, start: int, stop: int) -> bytes:
        """Read a range of bytes; empty if it is truncated or too large."""
        if stop - start > self._bytes_left:
            return b""
        data = source.read(start, stop - start)
        self._bytes_left -= len(data)
        return data

    def unpack(self, data: bytes) -> bytes:
        """Decompress zlib data.

        Raises:
            ValueError: truncated, or too large.
            zlib.error: damaged.
        """
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(data, self._bytes_left + 1)
        self._bytes_left = max(0, self._bytes_left - len(text))
        if not unpacker.eof:
            raise ValueError("cut off or too long")
        return text

    def add(self, key: str, raw: bytes, *, latin: bool = False) -> None:
        """Add a UTF-8 text; if it is invalid, decode it as Latin-1 with ``latin``, else leave it out."""
        if key in self.by_key:
            return
        try:
            self.by_key[key] = raw.decode()
        except UnicodeDecodeError:
            if latin:
                self.by_key[key] = raw.decode("latin-1")

    def add_pair(self, raw: bytes) -> None:
        """Add a text ``key:text`` whose key is a word; the key becomes lower case."""
        key, colon, text = raw.partition(b":")
        if colon and len(key) < 100 and (word := key.decode("utf-8", "replace")).isidentifier():
            self.add(word.lower(), text, latin=True)
