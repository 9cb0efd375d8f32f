"""Finds tokenizers: inside the weight file, in the same folder, or elsewhere. Torch-free to import."""

from __future__ import annotations

from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from ..paths import hub_cache, hub_snapshot, model_roots
from .header_values import LoadError
from .headers import read_header
from .lock import imported
from .small_files import check_files, opened

if TYPE_CHECKING:
    from ..text.facts import EncoderFacts, TextFamily

_REPOS = {
    "clip": (("openai/clip-vit-large-patch14", ""),),
    "t5": (("google/t5-v1_1-xxl", ""), ("google/t5-v1_1-base", ""), ("google/t5-v1_1-small", "")),
    "umt5": (("google/umt5-xxl", ""), ("google/umt5-base", ""), ("google/umt5-small", "")),
}
"""Hub repositories with the right vocabulary, and the subfolder."""


_SPIECE: Final = "spiece_model"
"""Tensor with the SentencePiece model in ComfyUI's T5 and UMT5 files, as bytes."""


def find_tokenizer(family: TextFamily, facts: EncoderFacts, weights: Path) -> Path:
    """The tokenizer of an encoder: its weight file if that contains one, else a folder.

    The folder lies beside the weights, in the model folders, or in the local hub cache.

    Raises:
        LoadError: it is nowhere; says where it was looked for.
    """
    if carries_spiece(weights):
        return weights
    base = weights if weights.is_dir() else weights.parent
    own = base.name if base.name.startswith("text_encoder") else facts.folder
    component = own.replace("text_encoder", "tokenizer")
    places = [base / component, base.parent / component]
    places += [root / "tokenizers" / facts.name for root in model_roots()]
    repos = [(repo, component) for repo in family.repos] + list(_REPOS[facts.tokenizer_kind])
    places += [snapshot / sub for repo, sub in repos if (snapshot := hub_snapshot(repo))]
    for place in places:
        if _is_tokenizer(place):
            return place
    wanted = "vocab.json and merges.txt" if facts.tokenizer_kind == "clip" else "spiece.model"
    raise LoadError(
        f"no tokenizer for {facts.name} ({wanted}, or tokenizer.json): put it into one of "
        f"{', '.join(map(str, places))}; or have one of {', '.join(r for r, _ in repos)} in {hub_cache()}"
    )


def tokenizer_files(place: Path) -> list[Path]:
    """The files of a tokenizer from :func:`find_tokenizer`.

    Raises:
        LoadError: some are broken JSON.
    """
    return [place] if place.is_file() else check_files(f for f in sorted(place.iterdir()) if f.is_file())


def load_tokenizer(place: Path, kind: str) -> Any:
    """A fast tokenizer of transformers from a folder, or from a weight file that contains one.

    Raises:
        LoadError: it cannot be opened.
    """
    return opened("the tokenizer", place, lambda: _load(place, kind))


def _load(place: Path, kind: str) -> Any:
    folder = place
    if place.is_file():
        return _of_spiece(place, spiece_bytes(place))
    if kind != "clip" and not (folder / "tokenizer.json").is_file():
        return _of_spiece(folder, (folder / "spiece.model").read_bytes())
    if (folder / "tokenizer_config.json").is_file():
        auto = imported("transformers:AutoTokenizer")
        return auto.from_pretrained(folder, local_files_only=True, use_fast=True)
    name = {"clip": "CLIPTokenizerFast", "t5": "T5TokenizerFast", "umt5": "T5TokenizerFast"}[kind]
    return imported(f"transformers:{name}").from_pretrained(folder, local_files_only=True)


def carries_spiece(path: Path) -> bool:
    """Whether a weight file holds a SentencePiece model."""
    return path.is_file() and _SPIECE in read_header(path).tensors


def spiece_bytes(path: Path) -> bytes:
    """The SentencePiece model of a weight file.

    Raises:
        LoadError: it is stored as something else than bytes.
    """
    entry = read_header(path).tensors[_SPIECE]
    if entry.dtype not in ("U8", "I8"):
        raise LoadError(f"{path}: `{_SPIECE}` is {entry.dtype}, not bytes")
    with path.open("rb") as file:
        file.seek(entry.begin)
        return file.read(prod(entry.shape))


def _of_spiece(origin: Path, model: bytes) -> Any:
    """T5's fast tokenizer for a SentencePiece model.

    transformers leaves out that unknown characters become bytes, where the model says so.
    """
    from sentencepiece import SentencePieceProcessor
    from tokenizers.models import Unigram

    try:
        pieces = SentencePieceProcessor(model_proto=model)
    except RuntimeError as e:
        raise LoadError(f"{origin}: its SentencePiece model is broken") from e
    with TemporaryDirectory() as folder:
        (Path(folder) / "spiece.model").write_bytes(model)
        fast = imported("transformers:T5TokenizerFast")
        tokenizer = fast.from_pretrained(folder, local_files_only=True, extra_ids=0)
    ids = range(len(pieces))
    vocabulary = [(pieces.id_to_piece(i), pieces.get_score(i)) for i in ids]
    tokenizer.backend_tokenizer.model = Unigram(vocabulary, pieces.unk_id(), any(map(pieces.is_byte, ids)))
    return tokenizer


def _is_tokenizer(folder: Path) -> bool:
    has = {f.name for f in folder.iterdir()} if folder.is_dir() else set()
    return bool({"tokenizer.json", "spiece.model"} & has or {"vocab.json", "merges.txt"} <= has)
