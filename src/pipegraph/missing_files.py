"""Files that a graph needs and this machine lacks: one list, and fetching them when the user says so."""

from __future__ import annotations

import hashlib
import os
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from pipegraph.api import Workflow
from pipegraph.graphs.schema import FileSource
from pipegraph.models.paths import FOLDERS, model_roots
from pipegraph.runtime.errors import GraphError

CODES: Final = ("unknown_file", "unknown_network", "damaged_file")
"""Absent; there, but no network that pipegraph knows; there, but damaged."""
_CHUNK: Final = 1 << 20
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_SECONDS: Final = 60
"""After so long without a byte a server is given up."""


@dataclass(frozen=True, slots=True)
class MissingFile:
    """A file that nodes of a graph name and that cannot be used here."""

    name: str
    folder: str
    """Folder of models, such as ``vae``; ``input`` for images, videos and audio; empty where that is not known."""
    code: str
    message: str
    asked_by: tuple[str, ...]
    """Nodes with their titles, and the input that names it."""
    url: str = ""
    sha256: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The fields that are not empty."""
        fields = {key: getattr(self, key) for key in self.__slots__}
        return {key: [*value] if isinstance(value, tuple) else value for key, value in fields.items() if value}


class FetchError(OSError):
    """A file could not be fetched; says what to do."""


def missing_files(workflow: Workflow) -> list[MissingFile]:
    """Everything that a graph needs and lacks, in the order of its nodes, each file once."""
    try:
        workflow.check()
        return []
    except GraphError as error:
        problems = [problem for problem in error.problems if problem.code in CODES]
    editor = workflow.graph.editor
    sources: dict[str, FileSource] = {source.name: source for source in (editor.files if editor else ())}
    files: dict[tuple[str, str], MissingFile] = {}
    for problem in problems:
        wanted = problem.mend.get("file", {})
        name = wanted.get("name") or problem.got.strip("'\"")
        source = sources.get(Path(name.replace("\\", "/")).name)
        folder = wanted.get("folder") or (source.folder if source else "")
        title = f" ({problem.title})" if problem.title else ""
        asked = f"{problem.node}{title}: {problem.input}"
        before = files.get((name, problem.code))
        files[name, problem.code] = MissingFile(
            name,
            folder,
            problem.code,
            problem.message,
            (*(before.asked_by if before else ()), asked),
            source.url if source else "",
            source.sha256 if source else "",
        )
    return [*files.values()]


def place_of(file: MissingFile) -> Path:
    """Where a fetched file goes: the user's folder of its kind.

    Raises:
        FetchError: its name or folder leads out of the model folders.
    """
    parts = file.name.replace("\\", "/").split("/")
    if (
        file.folder not in FOLDERS
        or file.folder == "input"
        or any(part in ("", ".", "..") or ":" in part for part in parts)
    ):
        raise FetchError(f"{file.folder}/{file.name} is no place in the model folders")
    return model_roots()[0] / FOLDERS[file.folder][0] / Path(*parts)


def fetch(file: MissingFile, progress: Callable[[int, int], None] = lambda done, total: None) -> Path:
    """Download a file into the user's model folder: resumed, compared with its hash, whole or not at all.

    Args:
        file: A file with an address.
        progress: Called with the bytes that are there and the bytes in all (0 if the server does not say).

    Raises:
        FetchError: it has no address, the server does not give it, or it is not the file that was expected.
    """
    if not file.url:
        raise FetchError(f"the graph does not say where {file.name} can be had")
    target = place_of(file)
    part = target.with_name(target.name + ".part")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with part.open("ab") as out:
            for done, total in _received(_allowed(file.url), out):
                progress(done, total)
    except HTTPError as error:
        part.unlink(missing_ok=True)
        why = f"the server answers {error.code} {error.reason}"
        raise FetchError(f"{file.name}: {why}; fetch it by hand from {file.url} into {target.parent}") from error
    except (URLError, HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise FetchError(f"{file.name}: {reason}; what came is kept: call again to go on") from error
    if file.sha256 and (digest := _sha256(part)) != file.sha256:
        part.unlink()
        raise FetchError(f"{file.url} is not the file that the graph names: its sha256 is {digest}, not {file.sha256}")
    os.replace(part, target)
    return target


def _allowed(url: str) -> str:
    """The address, if it is of https, or of this machine."""
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise FetchError(f"{url} is not fetched: only https addresses are")
    return url


class _Redirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        return super().redirect_request(req, fp, code, msg, headers, _allowed(newurl))


def _received(url: str, out: IO[bytes]) -> Iterator[tuple[int, int]]:
    """Write what is not there yet; bytes there and in all after each piece."""
    there = out.tell()
    request = urllib.request.Request(url, headers={"Range": f"bytes={there}-"} if there else {})
    opener = urllib.request.build_opener(_Redirects)
    try:
        response: HTTPResponse = opener.open(request, timeout=_SECONDS)
    except HTTPError as error:
        if error.code == 416 and there:  # nothing is left
            yield there, there
            return
        raise
    with response:
        if there and response.status != 206:  # the server begins anew
            out.truncate(0)
            there = 0
        length = int(response.headers.get("Content-Length") or 0)
        total = there + length if length else 0
        while piece := response.read(_CHUNK):
            out.write(piece)
            there += len(piece)
            yield there, total
        if total and there != total:
            raise URLError(f"the connection ended after {there} of {total} bytes")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
