"""The graph that makes one item of a batch alone.

Noise is drawn by batch index, so item i is the same if the empty latent is narrowed to item i before any other node
reads it: that is what ``LatentFromBatch`` does, here and in ComfyUI.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_CHANGES: Final = frozenset(
    "LatentFromBatch RepeatLatentBatch LatentBatch RebatchLatents RebatchImages ImageBatch BatchImagesNode "
    "RepeatImageBatch ImageFromBatch".split()
)
"""Nodes after which output item i is no longer item i of the empty latent."""


def alone(document: Mapping[str, Any], index: int) -> dict[str, Any] | None:
    """A native graph that makes only item ``index`` of the batch that ``document`` makes.

    None if the batch does not come from empty latents alone: then only the whole graph reproduces the item.
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
        """Redirect a link from an empty latent to its item."""
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
