"""Small clips and what a node may ask of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor

from pipegraph.access import Access, granted
from pipegraph.models.checkpoints.load import load_checkpoint
from pipegraph.models.checkpoints.source import checkpoint
from pipegraph.models.loading.place import Place
from pipegraph.models.media.video import TensorFrames, Video, silent
from pipegraph.models.media.video_read import read_video
from pipegraph.runtime.node import NodeEvent, Saved

from ..context import Context
from . import tiny

T = TypeVar("T")
UNASKED: Any = None
"""A RunContext for nodes that have nothing to say."""
torch.set_num_threads(1)


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(tmp_path / "output", tmp_path / "temp")


def saved(stream: Generator[NodeEvent, None, T]) -> list[Path]:
    """The files that a node writes."""
    return [event.path for event in stream if isinstance(event, Saved)]


def frames_of(files: Sequence[Path]) -> Tensor:
    """The pictures of the one clip that a run saved, [count, H, W, C]."""
    [path] = files
    return read_video(path)[0].images()


def frames(count: int, height: int = 16, width: int = 24, channels: int = 3) -> Tensor:
    """Frames that all differ: flat tiles of 8 pixels whose gray values count the frame; [count, H, W, channels]."""
    g = torch.Generator().manual_seed(1)
    tiles = torch.rand(-(-height // 8), -(-width // 8), 3, generator=g) * 0.4 + 0.2
    picture = tiles.repeat_interleave(8, 0).repeat_interleave(8, 1)[:height, :width]
    made = torch.stack([picture + 0.3 * i / max(1, count - 1) for i in range(count)])
    if channels == 4:
        alpha = torch.linspace(0, 1, count)[:, None, None, None].expand(count, height, width, 1)
        made = torch.cat([made, alpha], 3)
    return (made * 255).round() / 255


def clip(images: Tensor, fps: Fraction | int = 16, audio: Callable[[], Any] = silent) -> Video:
    return Video(TensorFrames(images), Fraction(fps), audio)


@pytest.fixture(scope="session")
def wan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wan") / "t2v"
    tiny.make(folder)
    return folder


@pytest.fixture(scope="session")
def pipeline() -> Callable[..., Any]:
    """diffusers' pipeline of a folder, on diffusers' own attention and layers."""

    @cache
    def load(folder: Path, name: str = "WanPipeline") -> Any:
        import diffusers

        pipe = getattr(diffusers, name).from_pretrained(folder, local_files_only=True)
        pipe.set_progress_bar_config(disable=True)
        return pipe

    return load


@pytest.fixture
def load() -> Callable[[Path], Any]:
    def load(folder: Path) -> Any:
        with granted(Access.to(folder)):
            return load_checkpoint(checkpoint(str(folder)), Place(torch.device("cpu"), torch.float32))

    return load
