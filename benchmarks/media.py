"""CPU time of pictures and videos in pipegraph, against Pillow and PyAV alone.

python benchmarks/media.py [ROUNDS]

Videos go from file to file: LoadVideo -> SaveVideo, and LoadVideo -> GetVideoComponents -> CreateVideo -> SaveVideo,
where all frames are in memory at once. PyAV alone decodes, converts to RGB and back, and encodes with the same
settings; a second time with all frames as one float32 array between, which nodes take. Pillow alone decodes, and makes
float32 of it.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import av
import numpy as np
import torch
from PIL import Image

from pipegraph.models.media.encoders import fix_threads, options_of
from pipegraph.models.media.formats import CODECS
from pipegraph.models.media.image_read import read_picture, to_png
from pipegraph.models.media.video import TensorFrames, Video
from pipegraph.models.media.video_read import read_video
from pipegraph.models.media.video_write import VideoTarget, write_video

WIDTH, HEIGHT, FRAMES = 832, 480, 33
Work = Callable[[], Any]


def moving(count: int, width: int, height: int) -> torch.Tensor:
    """A smooth background that moves, [count, height, width, 3]."""
    rough = torch.rand(1, 3, height // 12 + 2, width // 12 + 2, generator=torch.Generator().manual_seed(0))
    wide = torch.nn.functional.interpolate(rough, size=(height + count, width + 2 * count), mode="bicubic")[0].clamp(
        0, 1
    )
    return torch.stack([wide[:, i : i + height, 2 * i : 2 * i + width].movedim(0, -1) for i in range(count)])


def save(video: Video, path: Path) -> None:
    for _ in write_video(path, video, VideoTarget("mp4", "h264"), {}, print):
        pass


def straight(source: Path, target: Path) -> None:
    """LoadVideo -> SaveVideo."""
    save(read_video(source)[0], target)


def taken_apart(source: Path, target: Path) -> None:
    """LoadVideo -> GetVideoComponents -> CreateVideo -> SaveVideo."""
    video = read_video(source)[0]
    save(Video(TensorFrames(video.images()), video.fps), target)


def av_alone(source: Path, target: Path) -> None:
    """The same with PyAV, frame by frame."""
    with av.open(str(source)) as reader:
        av_encode((frame.to_ndarray(format="rgb24") for frame in reader.decode(video=0)), target)


def av_floats(source: Path, target: Path) -> None:
    """The same with PyAV and NumPy, all frames as one array between."""
    with av.open(str(source)) as reader:
        frames = [f.to_ndarray(format="rgb24").astype(np.float32) / 255 for f in reader.decode(video=0)]
    images = np.stack(frames)
    av_encode(((image.clip(0, 1) * 255 + 0.5).astype(np.uint8) for image in images), target)


def av_encode(frames: Iterable[Any], target: Path) -> None:
    with av.open(str(target), "w") as writer:
        stream = writer.add_stream("libx264", rate=16, options=options_of(CODECS["h264"], WIDTH, HEIGHT))
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        fix_threads(stream.codec_context, CODECS["h264"])
        for pixels in frames:
            writer.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        writer.mux(stream.encode(None))


def pillow_floats(path: Path) -> torch.Tensor:
    with Image.open(path) as file:
        return torch.from_numpy(np.asarray(file.convert("RGB")).astype(np.float32) / 255)


def pillow_load(path: Path) -> None:
    with Image.open(path) as file:
        file.load()


def pillow_png(pixels: Any, path: Path) -> None:
    Image.fromarray((pixels.numpy().clip(0, 1) * 255 + 0.5).astype(np.uint8)).save(path, compress_level=4)


def cpu_seconds(work: dict[str, Work], rounds: int) -> dict[str, float]:
    """Medians, taken in turn so that a busy moment hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds + 1):
        for name, call in work.items():
            start = time.process_time()
            call()
            times[name].append(time.process_time() - start)
    return {name: median(values[1:]) for name, values in times.items()}  # the first one warms up


def show(title: str, seconds: dict[str, float], peers: dict[str, str]) -> None:
    """Times in ms, with the ratio to a peer."""
    print(title)
    for name, value in seconds.items():
        ratio = f"{value / seconds[peers[name]]:8.2f} x {peers[name]}" if name in peers else ""
        print(f"  {name:<34} {1000 * value:8.1f} ms{ratio}")


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        a, b, png, out = (Path(folder) / name for name in ("a.mp4", "b.mp4", "a.png", "b.png"))
        save(Video(TensorFrames(moving(FRAMES, WIDTH, HEIGHT)), Fraction(16)), a)
        image = moving(1, 1024, 1024)[0]
        png.write_bytes(to_png(image))
        videos: dict[str, Work] = {
            "LoadVideo, SaveVideo": lambda: straight(a, b),
            "LoadVideo, frames, SaveVideo": lambda: taken_apart(a, b),
            "PyAV": lambda: av_alone(a, b),
            "PyAV with float frames": lambda: av_floats(a, b),
        }
        pictures: dict[str, Work] = {
            "LoadImage": lambda: read_picture(png),
            "Pillow, to float": lambda: pillow_floats(png),
            "Pillow": lambda: pillow_load(png),
            "SaveImage": lambda: out.write_bytes(to_png(image)),
            "Pillow, from float": lambda: pillow_png(image, out),
        }
        show(
            f"{FRAMES} frames of {WIDTH}x{HEIGHT}, h264 to h264",
            cpu_seconds(videos, rounds),
            {"LoadVideo, SaveVideo": "PyAV", "LoadVideo, frames, SaveVideo": "PyAV with float frames"},
        )
        show(
            "a PNG of 1024x1024",
            cpu_seconds(pictures, rounds),
            {"LoadImage": "Pillow, to float", "SaveImage": "Pillow, from float"},
        )


if __name__ == "__main__":
    main()
