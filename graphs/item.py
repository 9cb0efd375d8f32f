"""The graph that makes one picture of a batch alone.

Noise is drawn by a picture's number in its batch, so picture i comes out the same if the empty latent is narrowed to
item i before anything reads it: that is what ``LatentFromBatch`` does, here and in ComfyUI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_CHANGES: Final = frozenset(
    "LatentFromBatch RepeatLatentBatch LatentBatch RebatchLatents RebatchImages ImageBatch BatchImagesNode "
    "RepeatImageBatch ImageFromBatch".split()
)
"""Nodes after which number i of the output is no longer number i of the empty latent."""


def alone(document: Mapping[str, Any], index: int) -> dict[str, Any] | None:
    """A native graph that makes what ``document`` makes as number ``index`` of its batch, and nothing else.

    None if the batch does not come from empty latents alone: then only the whole graph makes the picture again.
    """
    nodes: Mapping[str, Any] = document.get("nodes", {})
    kinds = {id: node["class_type"] for id, node in nodes.items()}
    empty = [id for id, kind in kinds.items() if kind.startswith("Empty") and "Latent" in kind]
    if not empty or any(kind in _CHANGES for kind in kinds.values()):
        return None
    narrowed = {}
    for id in empty:
        new = f"{id}_item"
        while new in nodes:
            new += "_"
        narrowed[id] = new

    def moved(value: Any) -> Any:
        """A link, from an empty latent to the item of it."""
        if isinstance(value, list) and len(value) == 2 and value[0] in narrowed:
            return [narrowed[value[0]], value[1]]
        return value

    changed = {
        id: {**node, "inputs": {name: moved(value) for name, value in node.get("inputs", {}).items()}}
        for id, node in nodes.items()
    }
    added = {
        new: {"class_type": "LatentFromBatch", "inputs": {"samples": [id, 0], "batch_index": index, "length": 1}}
        for id, new in narrowed.items()
    }
    outputs = {name: moved(link) for name, link in document.get("outputs", {}).items()}
    return {**document, "nodes": {**changed, **added}, **({"outputs": outputs} if outputs else {})}
