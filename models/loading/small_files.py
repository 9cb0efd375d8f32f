"""Configs and tokenizers beside weights, checked before a library reads them. Torch-free."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

from .header_values import LoadError

R = TypeVar("R")


def opened(subject: str, place: Path, make: Callable[[], R]) -> R:
    """Open files with a library; its errors become a LoadError.

    Args:
        subject: Name of the object in the error.
        place: The file or folder it lies in.
        make: Calls the library; any exception is converted (tokenizers raises bare ``Exception``).

    Raises:
        LoadError: it cannot be opened; says what, where and why.
    """
    try:
        return make()
    except LoadError:
        raise
    except Exception as e:
        raise LoadError(f"{subject} in {place} cannot be opened: {_short(e)}") from e


def _short(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= 300 else text[:300] + "…"


def check_files(files: Iterable[Path]) -> list[Path]:
    """These files, after parsing the JSON files among them.

    Raises:
        LoadError: some are broken; names each.
    """
    listed = list(files)
    problems = []
    for file in listed:
        if file.suffix == ".json" and file.is_file():
            stat = file.stat()
            problems.append(_problem(file, stat.st_size, stat.st_mtime_ns))
    if any(problems):
        raise LoadError("; ".join(filter(None, problems)))
    return listed


@lru_cache(maxsize=256)
def _problem(file: Path, _size: int, _changed: int) -> str:
    """What is wrong with a JSON file, as a sentence; empty if nothing."""
    try:
        value = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as e:
        return f"{file} is no JSON: {_short(e)}"
    if not isinstance(value, dict):
        return f"{file} holds no JSON object"
    wrong = [name for name, fits in _FIELDS.get(file.name, {}).items() if name in value and not fits(value[name])]
    wrong += [name for name in _NEEDED.get(file.name, ()) if name not in value]
    return f"{file}: {', '.join(f'`{name}`' for name in wrong)} missing or of a wrong kind" if wrong else ""


def _is_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_token(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, dict) and isinstance(value.get("content"), str))


def _is_model(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("vocab", {}), dict | list)


def _are_added(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(token, dict) and isinstance(token.get("content"), str) and type(token.get("id")) is int
        for token in value
    )


def _are_decoded(value: Any) -> bool:
    return isinstance(value, dict) and all(
        key.isdecimal() and isinstance(token, dict) and isinstance(token.get("content"), str)
        for key, token in value.items()
    )


def _are_templates(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, list) and all(isinstance(v, dict) for v in value))


_SPECIAL: Final = dict.fromkeys(("bos_token", "eos_token", "unk_token", "pad_token"), _is_token)
_NEEDED: Final = {"tokenizer.json": ("model",)}
_FIELDS: Final[Mapping[str, Mapping[str, Callable[[Any], bool]]]] = {
    "tokenizer.json": {"model": _is_model, "added_tokens": _are_added},
    "tokenizer_config.json": _SPECIAL
    | {"added_tokens_decoder": _are_decoded, "chat_template": _are_templates, "tokenizer_class": _is_text},
    "special_tokens_map.json": _SPECIAL,
    "chat_template.json": {"chat_template": _are_templates},
    "config.json": {"architectures": lambda value: value is None or isinstance(value, list), "model_type": _is_text},
}
"""Expected types of fields by file."""
