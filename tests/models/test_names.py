"""Names of tensors, in both directions."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from pipegraph.models.families import ALL
from pipegraph.models.loading.names import Names, Swapped, blocks
from pipegraph.models.loading.pieces import Piece

ROOT = Path(__file__).parents[2]
NETWORKS = {network for family in ALL for network in family.networks}
NAMES_FILES = ("recognise.py",)
"""It names models that do not run here."""
GENERAL = {"self_attn", "inv_freq", "proj_in", "proj_out", "qkv_proj", "transformer_blocks"}
"""Layers that networks of every library have."""


def piece(name: str, *shape: int) -> Piece:
    return Piece(Path("x"), name, shape, "F32", 0)


TABLE = Names(
    {
        "in": "first",
        "last": Swapped("final"),
        "table": "embedding.table",
        **blocks("b.*", "blocks.*", {"qkv": ("q", "k", "v"), "wide": ("q", "up"), "mlp.0": "ff"}),
    },
    width="in.weight",
    roles={"scale": "weight"},
)


def test_a_stacked_layer_is_cut_and_the_last_part_takes_the_rest() -> None:
    stored = {"in.weight": piece("in.weight", 4, 2), "b.12.wide.weight": piece("w", 11, 4)}
    tensors, unknown = TABLE.to_class(stored)
    assert not unknown
    assert (tensors["blocks.12.q.weight"].start, tensors["blocks.12.q.weight"].shape) == (0, (4, 4))
    assert (tensors["blocks.12.up.weight"].start, tensors["blocks.12.up.weight"].shape) == (4, (7, 4))


def test_roles_swaps_whole_tensors_and_unknown_names() -> None:
    names = ["in.scale", "in.weight", "last.bias", "table", "in.other", "b.x.mlp.0.weight", "b.1.mlp.0.bias", "nothing"]
    tensors, unknown = TABLE.to_class({n: piece(n, 4) for n in names})
    assert tensors["final.bias"].swap and not tensors["blocks.1.ff.bias"].swap
    assert tensors.keys() == {"first.weight", "final.bias", "embedding.table", "blocks.1.ff.bias"}
    assert unknown == ["in.other", "b.x.mlp.0.weight", "nothing"]


def test_layers_are_spelled_as_files_have_them() -> None:
    layers = ["blocks.3.q", "blocks.3.k", "blocks.3.v", "blocks.30.ff", "final", "other"]
    spelled = {s.name: (s.layers, s.swapped) for s in TABLE.spelled(layers)}
    assert spelled == {
        "b.3.qkv": (("blocks.3.q", "blocks.3.k", "blocks.3.v"), False),  # b.3.wide wants blocks.3.up too
        "b.30.mlp.0": (("blocks.30.ff",), False),
        "last": (("final",), True),
    }
    assert TABLE.parameter("blocks.3.ff.bias") == "b.3.mlp.0.bias"
    assert TABLE.parameter("embedding.table") == "table"
    assert TABLE.parameter("final.weight") == TABLE.parameter("blocks.3.q.weight") == ""


ENGINES = ("models/loading", "models/adapters", "models/sampling", "models/quantize.py", "kernels", "runtime")
"""What reads, changes and runs networks of every family."""


def literals(path: Path) -> list[tuple[str, int]]:
    """The texts of a file, docstrings left out."""
    tree = ast.parse(path.read_text())
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return [(str(n.value), n.lineno) for n in texts if id(n) not in docs]


def words_of_families() -> set[str]:
    """Ids, titles, classes of networks and of blocks, and layers in files and in classes."""
    words = {word for family in ALL for word in (family.id, family.title)}
    for network in NETWORKS:
        words |= {network.class_name, *network.blocks}
        for layout in network.layouts:
            table = getattr(layout.names, "table", {})
            words |= {part for name in table for part in name.split(".") if "_" in part and len(part) > 6}
    return words - GENERAL


@pytest.mark.parametrize("room", ENGINES)
def test_engines_know_no_family(room: str) -> None:
    files = [ROOT / room] if room.endswith(".py") else (ROOT / room).rglob("*.py")
    words = words_of_families()
    pattern = re.compile(rf"(?<![A-Za-z0-9_])({'|'.join(map(re.escape, sorted(words)))})(?![A-Za-z0-9_])")
    texts = [(file, text, line) for file in files if file.name not in NAMES_FILES for text, line in literals(file)]
    assert not [f"{f.relative_to(ROOT)}:{line}: {m[0]}" for f, text, line in texts if (m := pattern.search(text))]
