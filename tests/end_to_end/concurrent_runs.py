"""Many different runs at once in one process; prints each result's digest, or the error, as JSON.

python -m tests.end_to_end.concurrent_runs COUNT THREADS OUT
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import pipegraph as pg

FAIL = {
    "pipegraph": 1,
    "inputs": {"seed": {"type": "INT", "default": 0}},
    "nodes": {"fail": {"class_type": "FailWith", "inputs": {"seed": {"$input": "seed"}}}},
    "outputs": {"number": ["fail", 0]},
}
KINDS: Mapping[str, tuple[str | Mapping[str, Any], dict[str, Any], dict[str, Any]]] = {
    "picture": ("flux.json", {"steps": 1, "prompt": "a red apple"}, {}),
    "four steps": ("flux_schnell.json", {"steps": 1}, {}),
    "quantized": ("flux.json", {"steps": 1}, {"quantize": "q8"}),
    "quantized to 4 bits": ("flux.json", {"steps": 1}, {"quantize": "w4"}),
    "LoRA": ("flux_lora.json", {"steps": 1}, {}),
    "ControlNet": ("flux_controlnet.json", {"steps": 1}, {}),
    "inpainting": ("flux_inpaint.json", {"steps": 1}, {}),
    "video": ("video.json", {"steps": 1}, {}),
    "half precision": ("video.json", {"steps": 1}, {"dtype": "bf16"}),
    "language model": ("llm_to_image.json", {"steps": 1}, {}),
    "chat": ("chat.json", {"model": "embedded/prompt-writer", "message": "an apple", "max_tokens": 12}, {}),
    "wrong model": ("flux.json", {"model": "embedded/nothing"}, {}),
    "wrong size": ("flux.json", {"width": 8192, "height": 100_000}, {}),
    "failing node": (FAIL, {}, {"nodes": Path(__file__).with_name("failing_node.py")}),
    "wrong node": ({"pipegraph": 1, "nodes": {"x": {"class_type": "Nothing", "inputs": {}}}}, {}, {}),
}
"""Name -> graph, inputs, settings. The last ones fail, each in its own way."""


def jobs(count: int) -> list[tuple[str, int]]:
    """Kinds and seeds, mixed; the same for the same count."""
    each = [(kind, seed) for seed in range(-(-count // len(KINDS))) for kind in KINDS]
    random.Random(count).shuffle(each)
    return each[:count]


def outcome(kind: str, seed: int, out: Path) -> str:
    """A digest of what a run gave, or its error."""
    graph, inputs, settings = KINDS[kind]
    try:
        workflow = pg.load(graph, out=out, **settings)
        seeds = {"seed": seed} if "seed" in workflow.inputs else {}
        result = workflow.run(**inputs, **seeds)
    except pg.PipegraphError as error:
        return f"{type(error).__name__}: {error}"
    return hashlib.sha256(b"".join(map(content, result.outputs.values()))).hexdigest()


def content(value: Any) -> bytes:
    """The bytes of a picture, a video's frames, or a text."""
    if hasattr(value, "images"):
        value = value.images()
    return bytes(value.cpu().contiguous().numpy().tobytes()) if hasattr(value, "numpy") else str(value).encode()


if __name__ == "__main__":
    count, threads, out = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    results: list[dict[str, str]] = []
    for _ in ("cold", "warm"):
        with ThreadPoolExecutor(threads) as pool:
            kinds, seeds = zip(*jobs(count), strict=True)
            outcomes = pool.map(outcome, kinds, seeds, repeat(out))
            results.append({f"{kind} {seed}": o for (kind, seed), o in zip(jobs(count), outcomes, strict=True)})
    json.dump(results, sys.stdout)
