"""Where tokenizers lie for weights that come without them. Torch-free to import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..family import EncoderFacts, Family
from ..paths import hub_cache, hub_snapshot, model_roots
from ..text_families import LanguageFamily
from .headers import LoadError

_REPOS = {
    "clip": (("openai/clip-vit-large-patch14", ""),),
    "t5": (("google/t5-v1_1-xxl", ""), ("google/t5-v1_1-base", ""), ("google/t5-v1_1-small", "")),
    "umt5": (("google/umt5-xxl", ""), ("google/umt5-base", ""), ("google/umt5-small", "")),
}
"""Hub repositories with the right vocabulary, and the folder in them."""


def tokenizer_folder(family: Family | LanguageFamily, facts: EncoderFacts, weights: Path) -> Path:
    """The folder of an encoder's tokenizer: beside its weights, in the model folders, or in the local hub cache.

    Raises:
        LoadError: it is nowhere; says where it was looked for.
    """
    base = weights if weights.is_dir() else weights.parent
    own = base.name if base.name.startswith("text_encoder") else facts.folder
    component = own.replace("text_encoder", "tokenizer")
    places = [base / component, base.parent / component]
    places += [root / "tokenizers" / facts.name for root in model_roots()]
    repos = [(repo, component) for repo in family.repos] + list(_REPOS[facts.kind])
    places += [snapshot / sub for repo, sub in repos if (snapshot := hub_snapshot(repo))]
    for place in places:
        if _is_tokenizer(place):
            return place
    wanted = "vocab.json and merges.txt" if facts.kind == "clip" else "spiece.model"
    raise LoadError(
        f"no tokenizer for {facts.name} ({wanted}, or tokenizer.json): put it into one of "
        f"{', '.join(map(str, places))}; or have one of {', '.join(r for r, _ in repos)} in {hub_cache()}"
    )


def load_tokenizer(folder: Path, kind: str) -> Any:
    """A fast tokenizer of transformers from a folder that holds its files."""
    import transformers

    if (folder / "tokenizer_config.json").is_file():
        return transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, use_fast=True)
    name = {"clip": "CLIPTokenizerFast", "t5": "T5TokenizerFast", "umt5": "T5TokenizerFast"}[kind]
    return getattr(transformers, name).from_pretrained(folder, local_files_only=True)


def _is_tokenizer(folder: Path) -> bool:
    has = {f.name for f in folder.iterdir()} if folder.is_dir() else set()
    return bool({"tokenizer.json", "spiece.model"} & has or {"vocab.json", "merges.txt"} <= has)
