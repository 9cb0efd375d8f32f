"""Texts that a media file carries, read within the limits of ``pipegraph.limits``. Standard library only."""

from __future__ import annotations

import zlib

from pipegraph.containers import Source
from pipegraph.limits import TEXT_BYTES


class Texts:
    """Texts by key, of ``TEXT_BYTES`` together, unpacked; what is more is left out. Of a repeated key the first counts.

    Attributes:
        by_key: What was read.
    """

    def __init__(self) -> None:
        self.by_key: dict[str, str] = {}
        self._bytes_left = TEXT_BYTES

    def read(self, source: Source, start: int, stop: int) -> bytes:
        """What stands between two places; nothing if it is cut off or too much."""
        if stop - start > self._bytes_left:
            return b""
        data = source.read(start, stop - start)
        self._bytes_left -= len(data)
        return data

    def unpack(self, data: bytes) -> bytes:
        """Unpack what zlib packed.

        Raises:
            ValueError: it is cut off, or unpacks to too much.
            zlib.error: it is damaged.
        """
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(data, self._bytes_left + 1)
        self._bytes_left = max(0, self._bytes_left - len(text))
        if not unpacker.eof:
            raise ValueError("cut off or too long")
        return text

    def add(self, key: str, raw: bytes, *, latin: bool = False) -> None:
        """Keep a text in UTF-8; ``latin`` takes Latin-1 for what is none, else that is left out."""
        if key in self.by_key:
            return
        try:
            self.by_key[key] = raw.decode()
        except UnicodeDecodeError:
            if latin:
                self.by_key[key] = raw.decode("latin-1")

    def add_pair(self, raw: bytes) -> None:
        """Keep a text ``key:text`` whose key is a word, in small letters."""
        key, colon, text = raw.partition(b":")
        if colon and len(key) < 100 and (word := key.decode("utf-8", "replace")).isidentifier():
            self.add(word.lower(), text, latin=True)
