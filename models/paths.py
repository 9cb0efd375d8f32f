"""Resolves names of models and input files to paths. Torch-free.

A name is looked up below the roots of its kind, in this order:

1. ``embedded/...``: what ships with pipegraph (for ``input`` the example pictures of the ready-made graphs);
2. each folder of ``PIPEGRAPH_MODELS`` (separated like ``PATH``), laid out as ComfyUI's ``models`` folder: a subfolder
   a kind (``checkpoints``, ``loras``, ...);
3. the user's data folder, laid out the same;
4. the local Hugging Face cache, for names like ``org/name`` or ``org/name/file.safetensors``;
5. paths that the user named for this run (``pipegraph.access``).

For ``input`` the other roots are ``PIPEGRAPH_INPUT``, or else ``./input`` and the current folder; names of pictures
that a program passed in memory begin with ``memory/`` and are in no list. Whatever the name, the file it leads to
(links followed) must lie below a root or below a path that the user named. An error never tells whether a file exists
outside of these.
"""

from __future__ import annotations

import difflib
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pipegraph.access import current
from pipegraph.folders import MEMORY, memory_inputs

FOLDERS: Final = {
    "checkpoints": ("checkpoints",),
    "diffusion_models": ("diffusion_models", "unet"),
    "text_encoders": ("text_encoders", "clip"),
    "vae": ("vae",),
    "clip_vision": ("clip_vision",),
    "latent_upscale_models": ("latent_upscale_models",),
    "upscale_models": ("upscale_models",),
    "embeddings": ("embeddings",),
    "loras": ("loras",),
    "controlnet": ("controlnet",),
    "llm": ("llm", "LLM"),
}
"""Subfolders of a kind under a model root; the second ones are ComfyUI's older names."""
_HUB_MARK: Final = {
    "checkpoints": ("model_index.json",),
    "diffusion_models": ("model_index.json",),
    "llm": ("config.json", "tokenizer.json"),
}
"""Files that identify a repository in the hub cache as of a kind."""
INDEXES: Final = ("model_index.json", "modular_model_index.json")
"""Index files of a pipeline in diffusers layout."""
KINDS: Final = (*FOLDERS, "input")
EMBEDDED: Final = Path(__file__).resolve().parent / "embedded"
EXAMPLES: Final = Path(__file__).resolve().parent.parent / "graphs" / "library" / "images"
"""Example inputs of the shipped graphs."""
_FILE: Final = "a .safetensors or .gguf file"
_FORMS: Final = {
    "checkpoints": "a .safetensors file or a folder in diffusers layout",
    "loras": "a .safetensors file",
    "upscale_models": "a .safetensors file",
    "embeddings": "a .safetensors file",
    "llm": "a .gguf file or a folder in transformers' layout",
}
"""Expected form of models by kind, for errors."""
MEDIA: Final = frozenset(
    ".png .apng .jpg .jpeg .webp .bmp .gif .tif .tiff .mp4 .mov .m4v .webm .mkv .avi .mka "
    ".wav .mp3 .flac .ogg .opus .m4a .aac .wma .aiff".split()
)


LONG: Final = 200
"""Maximum length of names in errors; longer ones get no suggestions."""


@dataclass(frozen=True, slots=True)
class _Root:
    """A folder whose files are named by ``prefix`` and relative path."""

    folder: Path
    prefix: str = ""
    deep: bool = True
    """List subfolders too."""
    listed: bool = True
    """Whether its file names may be shown."""


class NotFound(LookupError):
    """No file has this name; says where was searched and what to do."""

    def __init__(self, message: str, advice: str, folder: str) -> None:
        super().__init__(f"{message}. {advice}")
        self.message, self.advice, self.folder = message, advice, folder


def resolve(kind: str, name: str) -> Path:
    r"""The file or folder for ``name``, links followed; the same during a run.

    Both ``/`` and ``\`` separate folders. Letters with accents may be written in either of Unicode's ways.

    Raises:
        NotFound: no such file, or it is outside the roots; names the places searched and similar names.
        LookupError: this can be no name.
    """
    access = current()
    known = access.resolved.get((kind, name))
    if known is None:
        known = access.resolved[kind, name] = _resolve(kind, name, access.allowed)
    return known


def _resolve(kind: str, name: str, allowed: Set[Path]) -> Path:
    clean = name.replace("\\", "/")
    if not clean.strip() or any(ord(c) < 32 for c in clean):
        raise LookupError(f"{name!r} is no name of a file")
    for spelling in dict.fromkeys((clean, *(unicodedata.normalize(form, clean) for form in ("NFC", "NFD")))):
        for candidate in _candidates(kind, spelling, allowed):
            path = _existing(candidate)
            if path and _inside(kind, path, allowed):
                return path
    raise _not_found(kind, name, clean)


def names(kind: str) -> list[str]:
    """Every name of a kind that :func:`resolve` accepts, shipped ones first."""
    listing: dict[str, None] = {}
    for root in [root for root in _roots(kind) if root.listed]:
        listed = sorted(name for name in _listed(kind, root) if _is_open(kind, root, name))
        listing.update(dict.fromkeys(listed))
    if kind in _HUB_MARK:
        listing.update(dict.fromkeys(sorted(_hub_names(_HUB_MARK[kind]))))
    return list(listing)


def model_roots() -> list[Path]:
    """Folders laid out as ComfyUI's ``models`` folder: those of ``PIPEGRAPH_MODELS``, then the user's data folder."""
    from platformdirs import user_data_path

    folders = [Path(p).expanduser() for p in os.environ.get("PIPEGRAPH_MODELS", "").split(os.pathsep) if p]
    return [*folders, user_data_path("pipegraph", appauthor=False) / "models"]


def hub_cache() -> Path:
    """The download cache of Hugging Face's libraries."""
    env = os.environ
    home = Path(env.get("HF_HOME") or Path(env.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface")
    return Path(env.get("HF_HUB_CACHE") or home / "hub").expanduser()


def hub_snapshot(repo: str) -> Path | None:
    """Folder of the cached version of ``org/name``: its ``main``, else the newest one; None if it is not cached."""
    folder = hub_cache() / ("models--" + repo.replace("/", "--"))
    ref, snapshots = folder / "refs" / "main", folder / "snapshots"
    try:
        if ref.is_file() and (main := snapshots / ref.read_text(encoding="utf-8").strip()).is_dir():
            return main
        versions = [path for path in snapshots.iterdir() if path.is_dir()] if snapshots.is_dir() else []
        return max(versions, key=lambda path: path.stat().st_mtime, default=None)
    except (OSError, ValueError):  # a name that is too long, a file that cannot be read or is no text
        return None


def searched(kind: str) -> list[Path]:
    """The folders searched for names of a kind."""
    return [r.folder for r in _roots(kind) if r.listed] + ([hub_cache()] if kind != "input" else [])


def _roots(kind: str) -> list[_Root]:
    if kind == "input":
        roots = [_Root(Path("input")), _Root(Path("."), deep=False)]
        if folders := os.environ.get("PIPEGRAPH_INPUT"):
            roots = [_Root(Path(p).expanduser()) for p in folders.split(os.pathsep) if p]
        return [_Root(EXAMPLES, "embedded/"), *roots, _Root(memory_inputs(), MEMORY, listed=False)]
    shipped = [_Root(EMBEDDED, "embedded/")]
    if (own := EMBEDDED / FOLDERS[kind][0]).is_dir():
        shipped.insert(0, _Root(own, "embedded/"))
    return shipped + [_Root(root / sub) for root in model_roots() for sub in FOLDERS[kind]]


def _candidates(kind: str, name: str, allowed: Set[Path]) -> Iterator[Path]:
    """Paths that a cleaned name may mean, most likely first."""
    for root in _roots(kind):
        if name.startswith(root.prefix):
            # A leading "/" would throw the root away; such names are for the explicit paths below.
            if rest := name.removeprefix(root.prefix).removeprefix("./"):
                yield root.folder / rest
    parts = name.split("/")
    if kind != "input" and len(parts) >= 2 and (snapshot := hub_snapshot("/".join(parts[:2]))):
        yield snapshot.joinpath(*parts[2:])
    if allowed:
        yield _expanded(name)


def _expanded(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # no home folder is known
        return Path(name)


def _existing(path: Path) -> Path | None:
    """A file or folder, links followed; None for others, such as a pipe, which would block."""
    try:
        real = path.resolve(strict=True)
        return real if real.is_file() or real.is_dir() else None
    except (OSError, ValueError, RuntimeError):  # absent, name too long, ring of links
        return None


def _inside(kind: str, path: Path, allowed: Set[Path]) -> bool:
    roots = [EMBEDDED if r.prefix and kind != "input" else r.folder for r in _roots(kind)]
    if kind != "input":
        roots += [*model_roots(), hub_cache()]
    return not allowed.isdisjoint((path, *path.parents)) or any(path.is_relative_to(root.resolve()) for root in roots)


def _listed(kind: str, root: _Root) -> Iterator[str]:
    """Names below one root: safetensors files and diffusers folders, or media for ``input``."""
    for folder, subs, files in _walk(kind, root):
        relative = Path(folder).relative_to(root.folder).as_posix()
        below = "" if relative == "." else f"{relative}/"
        if kind == "input":
            yield from (root.prefix + below + f for f in files if Path(f).suffix.lower() in MEDIA)
        elif kind == "llm":
            if not {*INDEXES}.isdisjoint(files):
                subs[:] = []  # text encoders of a pipeline
            elif below and (is_llm(files) or ("card.json" in files and sum(f.endswith(".gguf") for f in files) == 1)):
                subs[:] = []
                yield root.prefix + relative
            else:
                yield from (root.prefix + below + f for f in files if f.endswith(".gguf"))
        elif below and not {*INDEXES, "config.json"}.isdisjoint(files):
            subs[:] = []
            pipeline = not {*INDEXES}.isdisjoint(files)
            if kind not in ("loras", "controlnet") if pipeline else root.folder != EMBEDDED:
                yield root.prefix + relative
        elif root.folder != EMBEDDED:
            yield from (root.prefix + below + f for f in files if f.endswith((".safetensors", ".gguf")))


def _walk(kind: str, root: _Root) -> Iterator[tuple[str, list[str], list[str]]]:
    """Folders of a root with subfolders and files, like ``os.walk``: each real folder once.

    Links are followed as far as :func:`resolve` does, after the folders themselves: a ring of links has an end.
    """
    allowed, visited, starts = current().allowed, set[str](), [str(root.folder)]
    while starts:
        start = starts.pop()
        if start != str(root.folder) and not _inside(kind, Path(os.path.realpath(start)), allowed):
            continue
        for folder, subs, files in os.walk(start):
            real = os.path.realpath(folder)
            subs[:] = (
                [] if real in visited or not root.deep else sorted(s for s in subs if not s.startswith((".", "__")))
            )
            if real in visited:
                continue
            visited.add(real)
            yield folder, subs, files
            starts += [path for sub in reversed(subs) if os.path.islink(path := os.path.join(folder, sub))]


def _is_open(kind: str, root: _Root, name: str) -> bool:
    """Whether :func:`resolve` accepts a listed path: no pipe, no link out of the roots."""
    path = root.folder / name.removeprefix(root.prefix)
    if not path.is_symlink():
        return path.is_file() or path.is_dir()
    real = _existing(path)
    return real is not None and _inside(kind, real, current().allowed)


def pipeline_index(path: Path) -> Path | None:
    """The index file of a pipeline folder; None if ``path`` is none."""
    return next((path / name for name in INDEXES if (path / name).is_file()), None)


def is_llm(files: Iterable[str]) -> bool:
    """Whether these are the file names of a language model folder with tokenizer."""
    return {"config.json", "tokenizer.json"} <= set(files)


def _hub_names(mark: tuple[str, ...]) -> Iterator[str]:
    for folder in hub_cache().glob("models--*--*"):
        repo = folder.name.removeprefix("models--").replace("--", "/")
        if (snapshot := hub_snapshot(repo)) and all((snapshot / file).is_file() for file in mark):
            yield repo


def _not_found(kind: str, name: str, clean: str) -> NotFound:
    known = names(kind)
    hint = ""
    if same := [n for n in known if n.lower() == clean.removeprefix("./").lower()]:
        hint = f'; names are case-sensitive: "{same[0]}"'
    elif len(clean) <= LONG and (near := difflib.get_close_matches(clean, known, 3, 0.5)):
        hint = "; nearest: " + ", ".join(f'"{n}"' for n in near)
    places = ", ".join(map(str, searched(kind)))
    name = name if len(name) <= LONG else name[:LONG] + "…"
    return NotFound(
        f'no file "{name}" among {kind}{hint}; looked in {places}', _advice(kind, clean, known, bool(hint)), kind
    )


def _advice(kind: str, name: str, known: Iterable[str], nearly: bool) -> str:
    """Available names and how to get more; short if a name is nearly right."""
    if kind == "input" and name.startswith(MEMORY):
        return "This picture was given in memory by a program; they are kept for 7 days after they were last given."
    if kind == "input":
        return "A file elsewhere must be named on the command line, or its folder in PIPEGRAPH_INPUT."
    if nearly:
        return "`pipegraph models` lists all there is."
    shipped = ", ".join(f'"{n}"' for n in known if n.startswith("embedded/"))
    there = f"What ships with pipegraph: {shipped}; " if shipped else ""
    place = model_roots()[0] / FOLDERS[kind][0]
    text = (
        f"{there}`pipegraph models` lists all there is. To add one, put {_FORMS.get(kind, _FILE)} into {place}, or "
        "name its path on the command line, or its folder in PIPEGRAPH_MODELS."
    )
    if re.fullmatch(r"[\w-][\w.-]*/[\w.-]+(?<!\.safetensors)(?<!\.gguf)", name) and not name.startswith("embedded/"):
        text += f" `hf download {name}` fetches a repository of the hub, a gated one after `hf auth login`."
    return text
