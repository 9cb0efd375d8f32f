"""Checks headers for missing and unexpected tensors before a library is imported. Torch-free.

The whole rule, every tensor by name and shape, is kept when a network is filled (``filling.check``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from .header_values import LoadError

_LISTED: Final = 5
"""Names that an error lists; the rest are counted."""
_BLOCK: Final = re.compile(r"((?:.*?\.)?(?:\w*blocks|layers|block))\.(\d+)\.(.+)")
"""A tensor of a block: list of blocks, block number, and name within the block."""
COUNTED: Final = 1000
"""Upper limit for counting missing blocks."""
_LENGTHS: Final = frozenset(
    "num_layers num_single_layers num_hidden_layers num_decoder_layers num_refiner_layers n_layer n_layers depth "
    "layers_per_block num_mmdit_layers num_blocks decoder_depth encoder_depth num_experts num_local_experts".split()
)
"""Config keys that state a number of layers."""
_COUNTS: Final = {
    "transformer_blocks": "num_layers",
    "blocks": "num_layers",
    "single_transformer_blocks": "num_single_layers",
    "encoder.layers": "num_hidden_layers",
    "encoder.block": "num_layers",
}
"""Lists of blocks -> config key of their length."""


def listed(names: Iterable[str]) -> str:
    """The first names and the number of further ones."""
    every = list(names)
    more = len(every) - _LISTED
    return ", ".join(every[:_LISTED]) + (f" and {more} more" if more > 0 else "")


def refuse(origin: Path, problems: Mapping[str, Iterable[str]]) -> None:
    """Raise one LoadError for all problems.

    Args:
        origin: The file or folder that the user named.
        problems: Names of tensors by what is wrong with them.
    """
    sentences = [f"{problem}: {listed(names)}" for problem, names in problems.items() if names]
    if sentences:
        raise LoadError(f"{origin}: {'; '.join(sentences)}")


def check_blocks(origin: Path, class_name: str, names: Iterable[str], config: Mapping[str, Any]) -> None:
    """Refuse a network of equal blocks that lacks a block, or a tensor that most blocks have.

    Args:
        origin: The file or folder that the user named.
        class_name: Class of the network.
        names: Names of its tensors in the class.
        config: Its config.

    Raises:
        LoadError: names what is missing, and blocks that the config does not know.
    """
    missing: list[str] = []
    surplus: list[str] = []
    for path, blocks in _blocks(names).items():
        count = config.get(_COUNTS.get(path, ""))
        length = count if isinstance(count, int) else 1 + max(blocks)
        missing += [f"{path}.{i}.*" for i in absent(blocks, length)]
        surplus += [f"{path}.{i}.*" for i in sorted(blocks) if i >= length]
        most = Counter(name for block in blocks.values() for name in block)
        usual = [name for name, times in most.items() if times * 2 > len(blocks)]
        missing += [f"{path}.{i}.{n}" for i, block in sorted(blocks.items()) for n in usual if n not in block]
    refuse(
        origin,
        {f"tensors of {class_name} are missing": missing, f"tensors have no place in {class_name}": surplus},
    )


def absent(numbers: Collection[int], length: int) -> list[int]:
    """Missing numbers below ``length``; at most the first ``COUNTED``."""
    return [i for i in range(min(length, len(numbers) + COUNTED)) if i not in numbers]


def check_counts(origin: Path, config: Mapping[str, Any], tensors: int) -> None:
    """Refuse a config with more layers than tensors, which would take long to build.

    Raises:
        LoadError: names the key.
    """
    for key, value in config.items():
        if isinstance(value, Mapping):
            check_counts(origin, value, tensors)
        for count in value if isinstance(value, list | tuple) else [value]:
            if key in _LENGTHS and isinstance(count, int) and count > tensors:
                raise LoadError(f"{origin}: its config says `{key}` is {count}; its files hold {tensors} tensors")


def _blocks(names: Iterable[str]) -> dict[str, dict[int, set[str]]]:
    """Names within each block of each list of blocks."""
    lists: dict[str, dict[int, set[str]]] = {}
    for match in filter(None, map(_BLOCK.fullmatch, names)):
        path, number, rest = match.groups()
        lists.setdefault(path, {}).setdefault(int(number), set()).add(rest)
    return lists
