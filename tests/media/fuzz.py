"""Read damaged files; prints a line for each that does something else than to be read or refused: ``SEED FIRST COUNT``.

Standard error gets the number of each file before it is read, so that one that ends the process is known.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from pipegraph.containers import Source
from pipegraph.graphs.errors import GraphError
from pipegraph.graphs.load import load
from pipegraph.limits import PICTURE_PIXELS
from pipegraph.models.media.check import picture_fault, sound_fault, video_fault, video_size
from pipegraph.models.media.image_header import read_header
from pipegraph.models.media.image_read import read_picture
from pipegraph.models.media.sound import read_sound
from pipegraph.models.media.video_read import read_video

from .files import all_files
from .mutants import mutant

CPU_SECONDS, CPU_SECONDS_A_PIXEL = 2.0, 1e-7
MEMORY = 200 << 20
"""Beside three times the file, and so many bytes for each pixel that its header tells of."""
BYTES_A_PIXEL = 24
LIBVPX = 750 << 20
"""What libvpx takes for a damaged picture with transparency: up to 16,384 x 16,384 pixels, whatever the header says."""


def ignore(message: str) -> None:
    """Of no interest."""


def read_all_frames(path: Path) -> None:
    video = read_video(path)[0]
    for part in video.frames.chunks():
        assert part.shape[1:] == (video.frames.height, video.frames.width, video.frames.channels)
    video.audio()


READERS: dict[str, tuple[Callable[[Path], object], tuple[type[Exception], ...]]] = {
    "graph": (load, (GraphError,)),
    "picture_fault": (picture_fault, ()),
    "video_fault": (video_fault, ()),
    "sound_fault": (sound_fault, ()),
    "picture": (lambda path: read_picture(path, ignore), (ValueError,)),
    "video": (read_all_frames, (ValueError,)),
    "sound": (lambda path: read_sound(str(path)), (ValueError,)),
}
"""What reads a file, and the errors that it may raise; a ValueError names the file."""


def pixels_told(path: Path) -> int:
    """Pixels that the header tells of, all frames together."""
    with path.open("rb") as file:
        header = read_header(Source(file))
    if header is not None:
        return header.width * header.height * header.frames
    size = video_size(path)
    return size.width * size.height * 16 if size else 0


def peak() -> int:
    """The most memory since the mark, in bytes."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024


def mark() -> int:
    """Let the peak begin anew; the memory that there is now."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def faults(path: Path) -> Iterator[str]:
    """What one file does that it should not."""
    for name, (read, allowed) in READERS.items():
        before, start = mark(), time.process_time()
        try:
            read(path)
        except allowed as e:
            if type(e) is ValueError and path.name not in str(e):
                yield f"{name}: no file in {e}"
        except Exception as e:
            yield f"{name}: {type(e).__name__}: {e}"
        seconds, memory = time.process_time() - start, peak() - before
        pixels = min(pixels_told(path), PICTURE_PIXELS)
        if seconds > CPU_SECONDS + pixels * CPU_SECONDS_A_PIXEL:
            yield f"{name}: {seconds:.1f} CPU seconds"
        more = LIBVPX if name == "video" and path.suffix in (".webm", ".mkv") else 0
        if memory > more + MEMORY + 3 * path.stat().st_size + BYTES_A_PIXEL * pixels:
            yield f"{name}: {memory >> 20} MiB"


def main(seed: int, first: int, count: int) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    files = all_files()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + count):
            ending, data = mutant(files, seed, number)
            path = Path(folder) / f"mutant{ending}"
            path.write_bytes(data)
            print(number, file=sys.stderr, flush=True)
            for fault in faults(path):
                print(f"{number} {ending} {fault}"[:300], flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
