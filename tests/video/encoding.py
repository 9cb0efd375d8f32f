"""Encode one clip again and again; prints a hash of each file: ``FORMAT CODEC WIDTHxHEIGHT RUNS``."""

from __future__ import annotations

import hashlib
import random
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from pipegraph.models.media.video import Audio, TensorFrames, Video
from pipegraph.nodes.video.files import save_video

from ..context import Context
from .conftest import saved


def moving(width: int, height: int, count: int = 13) -> Video:
    """A textured background that moves, a square that moves otherwise, a little noise; stereo sound."""
    g = torch.Generator().manual_seed(0)
    rough = torch.rand(1, 3, height // 6 + 2, width // 6 + 2, generator=g)
    wide = F.interpolate(rough, size=(height + count, width + 2 * count), mode="bicubic")[0].clamp(0, 1)
    pictures = []
    for i in range(count):
        picture = wide[:, i // 2 : i // 2 + height, i : i + width].clone()
        left = 3 * i % max(1, width - 8)
        picture[:, height // 3 : height // 3 + 8, left : left + 8] = torch.tensor([0.9, 0.2, 0.1])[:, None, None]
        pictures.append(picture + 0.03 * torch.randn(3, height, width, generator=g))
    wave = torch.rand(1, 2, 44100 * count // 24, generator=g) - 0.5

    def sound() -> Audio:
        return {"waveform": wave, "sample_rate": 44100}

    return Video(TensorFrames(torch.stack(pictures).clamp(0, 1).movedim(1, -1)), Fraction(24), sound)


def hashes(format: Any, codec: Any, width: int, height: int, runs: int) -> list[str]:
    """A hash of the file of each run; what lies in freed memory differs between the runs."""
    video, made, ballast = moving(width, height), [], [b""] * 4
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            ballast[random.randrange(4)] = random.randbytes(random.randrange(100, 2_000_000))
            [path] = saved(save_video(video, Context(Path(folder), Path(folder)), "clip", format, codec))
            made.append(hashlib.sha256(path.read_bytes()).hexdigest())
    return made


if __name__ == "__main__":
    width, height = map(int, sys.argv[3].split("x"))
    print(*hashes(sys.argv[1], sys.argv[2], width, height, int(sys.argv[4])), sep="\n")
