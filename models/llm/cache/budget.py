"""Memory budget of keys and values: for one request, and for cached prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import torch

from pipegraph.memory import show_size, size_setting, total_memory

from .pages import PAGE, Pool

if TYPE_CHECKING:
    from ..llm import LLM
    from .kv_cache import KVCache

VARIABLE: Final = "PIPEGRAPH_KV_BUDGET"


class OverBudget(ValueError):
    """A request needs more memory for keys and values than the budget."""


def kv_budget(device: torch.device) -> int:
    """Bytes for the keys and values of a model: ``PIPEGRAPH_KV_BUDGET``, or a quarter of the device's memory.

    Raises:
        ValueError: the variable cannot be read.
    """
    if device.type == "cuda":
        whole = int(torch.cuda.get_device_properties(device).total_memory)
    else:
        whole = total_memory()
    return size_setting(VARIABLE, whole // 4)


def page_bytes(llm: LLM, pool: Pool, kv: str) -> int:
    """Bytes of one block in all layers of a pool; computed from the model's facts while the pool is empty."""
    if pool.stores:
        return pool.page_bytes
    facts = llm.facts
    size = llm.loaded.dtype.itemsize
    token = facts.kv_bytes_per_layer
    if kv == "int8":
        token = token // size + 2 * 4 * facts.kv_heads  # a float32 scale for each head of keys and of values
    return token * PAGE * len(pool.layers)


def check_budget(llm: LLM, pools: Sequence[Pool], kv: str, lengths: Sequence[int], chunk: int, budget: int) -> int:
    """Bytes of sequences prefilled up to ``lengths`` tokens, in chunks of ``chunk``.

    Raises:
        OverBudget: more than the budget.
    """
    total = 0
    for pool in pools:
        most = max(lengths) if pool.window is None else pool.window + chunk + PAGE
        blocks = sum(-(-min(n, most) // PAGE) for n in lengths)
        total += blocks * page_bytes(llm, pool, kv)
    if total > budget:
        raise OverBudget(
            f"{sum(lengths)} tokens in {llm.loaded.name}'s cache take {show_size(total)}, more than its budget of "
            f"{show_size(budget)}; shorten the prompt, keep it as int8, or set {VARIABLE}"
        )
    return total


def room_for(llm: LLM, cache: KVCache, budget: int) -> int:
    """Tokens by which each sequence may grow.

    Raises:
        OverBudget: not one.
    """
    growing = sum(page_bytes(llm, pool, cache.kv) for pool in cache.pools if pool.window is None)
    if not growing:
        return llm.facts.context
    blocks = max(0, budget - cache.nbytes) // (growing * len(cache))
    room = min(blocks * PAGE + -n % PAGE for n in cache.lengths)
    if room < 1:
        raise OverBudget(
            f"{sum(cache.lengths)} tokens in {llm.loaded.name}'s cache take {show_size(cache.nbytes)}, and its "
            f"budget of {show_size(budget)} leaves no room for a reply; set {VARIABLE}"
        )
    return room
