"""Sampling shared by several processes: diffusers' context parallelism, with attention on the kernel layer.

Every process holds the whole network and computes a part of the tokens. For attention the parts meet: by Ulysses
(Jacobs et al. 2023, arXiv 2309.14509), where each process attends from all tokens with a share of the heads, or by a
ring (Liu et al. 2023, arXiv 2310.01889), where keys and values of all parts come past each process and the results are
merged by their log-sum-exp. Ulysses sends less; it needs a number of heads that the processes divide.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor, distributed, nn

from pipegraph.context import holding

_FOREVER: Final = timedelta(days=1)
"""Timeout: one process may decode for long; failing processes are ended by their parent."""


@contextmanager
def together(rank: int, count: int, store: Path, device: str) -> Iterator[None]:
    """Share sampling inside a ``with`` with the other processes that call this.

    Args:
        rank: Rank of this process, from 0.
        count: How many there are; each calls this with the same store.
        store: A new file on a shared disk, used for rendezvous.
        device: ``cpu``, or a GPU used by this process only.
    """
    where = torch.device(device)
    if where.type == "cuda":
        torch.cuda.set_device(where)
    distributed.init_process_group(
        "nccl" if where.type == "cuda" else "gloo",
        init_method=f"file://{store}",
        rank=rank,
        world_size=count,
        timeout=_FOREVER,
    )
    try:
        with holding(_device, where.type):
            yield
    finally:
        _mesh.cache_clear()
        distributed.destroy_process_group()


_device: ContextVar[str | None] = ContextVar("type of the device of processes that share", default=None)


def share(network: nn.Module, possible: bool) -> nn.Module:
    """Split the network's sequence among processes inside ``together``; unchanged for a single process.

    Args:
        network: On the kernel layer.
        possible: Whether its sequence may be split so (``Network.context_parallel``).

    Raises:
        ValueError: there are several processes, and it may not.
    """
    device = _device.get()
    if device is None:
        return network
    if not possible:
        raise ValueError(f"{type(network).__name__} cannot be shared by several processes: run it without --parallel")
    from diffusers.hooks.context_parallel import apply_context_parallel
    from diffusers.models._modeling_parallel import ContextParallelConfig, ParallelConfig

    model: Any = network
    count, rank = distributed.get_world_size(), distributed.get_rank()
    ring = model.config.num_attention_heads % count != 0
    degrees = (
        {"ring_degree": count, "ring_anything": True} if ring else {"ulysses_degree": count, "ulysses_anything": True}
    )
    # "Anything": of any length; the last process may have fewer tokens.
    split = ContextParallelConfig(**degrees)
    config = ParallelConfig(context_parallel_config=split)
    where = torch.device("cuda", rank) if device == "cuda" else torch.device(device)
    config.setup(rank, count, where, mesh=_mesh(device, ring))
    model._parallel_config = config
    for part in model.modules():
        if hasattr(getattr(part, "processor", None), "_parallel_config"):
            part.processor._parallel_config = config
    apply_context_parallel(model, split, {name: plan for name, plan in model._cp_plan.items() if name != "proj_out"})
    model.proj_out.register_forward_hook(_gathered)
    model.register_forward_pre_hook(_one_token_each, with_kwargs=True)
    return network


def _one_token_each(network: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a latent [B, C, T, H, W] with fewer tokens than processes.

    Raises:
        ValueError: with both numbers.
    """
    model: Any = network
    size = (args[0] if args else kwargs["hidden_states"]).shape[2:]
    tokens = prod(side // patch for side, patch in zip(size, model.config.patch_size, strict=True))
    if tokens < (count := distributed.get_world_size()):
        raise ValueError(
            f"{count} processes cannot share the {tokens} tokens of a latent of {'x'.join(map(str, size))}: "
            f"use --parallel {tokens} or less, or a larger video"
        )


def _gathered(_: nn.Module, __: Any, part: Tensor) -> Tensor:
    """Gather the tokens [B, S, C] of all processes. diffusers' own gathering on gloo needs equal lengths."""
    count = distributed.get_world_size()
    lengths = torch.empty(count, dtype=torch.int64, device=part.device)
    distributed.all_gather_into_tensor(lengths, lengths.new_tensor([part.shape[1]]))
    longest = int(lengths.max())
    padded = nn.functional.pad(part, (0, 0, 0, longest - part.shape[1])).contiguous()
    parts = [torch.empty_like(padded) for _ in range(count)]
    distributed.all_gather(parts, padded)
    return torch.cat([p[:, :n] for p, n in zip(parts, lengths.tolist(), strict=True)], 1)


@cache
def _mesh(device: str, ring: bool) -> Any:
    count = distributed.get_world_size()
    shape = (count, 1) if ring else (1, count)
    return distributed.device_mesh.init_device_mesh(device, shape, mesh_dim_names=("ring", "ulysses"))
