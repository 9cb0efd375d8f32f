"""One of several processes that share samplings of tiny Wan models; the first saves what they give.

python -m tests.video.sharing RANK COUNT STORE OUT FOLDER...
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor

from pipegraph.access import Access, granted
from pipegraph.models.checkpoints.load import load_checkpoint
from pipegraph.models.checkpoints.source import checkpoint
from pipegraph.models.parallel import together

from .test_wan import CPU, noise, run, texts

FRAMES = 13
"""4 latent frames of 3 x 2 tokens; one more and half as wide, 5 of 3 x 1: no even number."""


def sampled(folder: Path) -> list[Tensor]:
    """Latents of an even and an odd number of tokens, each of two conditionings; a prediction with a time for each."""
    with granted(Access.to(folder)):
        model, clip, _ = load_checkpoint(checkpoint(str(folder)), CPU)
    even, odd = noise(FRAMES), noise(FRAMES + 4)[..., :2]
    found = [run(model, *texts(clip), start) for start in (even, odd)]
    times = torch.linspace(0, 1000, odd[0, 0].numel() // 4)[None]
    with torch.no_grad():
        return [*found, model.loaded.network(odd, times, texts(clip)[0][0][0], return_dict=False)[0]]


if __name__ == "__main__":
    torch.set_num_threads(1)
    rank, count = int(sys.argv[1]), int(sys.argv[2])
    with together(rank, count, Path(sys.argv[3]), "cpu"):
        found = [sampled(Path(folder)) for folder in sys.argv[5:]]
    if rank == 0:
        torch.save(found, sys.argv[4])
