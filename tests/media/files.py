"""Small whole files of every kind that is read, to be damaged."""

from __future__ import annotations

import io
import struct
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from PIL import Image, PngImagePlugin, features

from pipegraph.models.media.animated import write_animation
from pipegraph.models.media.image_write import encode
from pipegraph.models.media.video import Audio, TensorFrames, Video
from pipegraph.models.media.video_write import VideoTarget, write_video

from ..nodes.png_files import deep_png

GRAPH = '{"1": {"class_type": "PreviewAny", "inputs": {"source": "x"}}}'
WIDTH, HEIGHT = 48, 32


def pictures() -> Iterator[tuple[str, bytes]]:
    """Pictures, with their endings."""
    rng = np.random.default_rng(0)
    small = rng.integers(0, 256, (HEIGHT // 4, WIDTH // 4, 4), np.uint8)
    rgba = Image.fromarray(small.repeat(4, 0).repeat(4, 1))
    rgb, palette = rgba.convert("RGB"), rgba.convert("RGB").quantize(16)
    info = PngImagePlugin.PngInfo()
    info.add_text("prompt", GRAPH)
    info.add_text("workflow", GRAPH, zip=True)
    info.add_itxt("pipegraph", GRAPH, zip=True)
    exif = Image.Exif()
    exif[0x0110], exif[0x0112] = "prompt:" + GRAPH, 6
    frames = [rgb, rgb.rotate(180), rgb.transpose(Image.Transpose.FLIP_TOP_BOTTOM)]
    several: dict[str, Any] = {"save_all": True, "append_images": frames[1:], "duration": 70}
    forms: list[tuple[str, Image.Image, dict[str, Any]]] = [
        ("PNG", rgb, {"pnginfo": info}),
        ("PNG", rgba, {"exif": exif}),
        ("PNG", palette, {"transparency": 3}),
        ("PNG", rgb.convert("L"), {"transparency": 7}),
        ("PNG", rgb, several),
        ("JPEG", rgb, {"exif": exif}),
        ("JPEG", rgb, {"progressive": True}),
        ("JPEG", rgb.convert("CMYK"), {}),
        ("WEBP", rgba, {"exif": exif}),
        ("WEBP", rgba, {"lossless": True}),
        ("WEBP", rgb, several),
        ("GIF", palette, {"comment": GRAPH.encode()}),
        ("GIF", rgb, several),
        ("TIFF", rgb, {}),
        ("TIFF", rgb, {"compression": "tiff_lzw", "exif": exif}),
        ("TIFF", rgb, several),
        ("TIFF", rgb, {"compression": "jpeg"}),
        ("TIFF", rgb.convert("1"), {}),
        ("BMP", rgb, {}),
        ("BMP", palette, {}),
    ]
    if features.check("avif"):
        forms.append(("AVIF", rgba, {}))
    for form, picture, options in forms:
        file = io.BytesIO()
        picture.save(file, form, **options)
        yield f".{form.lower()}", file.getvalue()
    deep = rng.integers(0, 65536, (HEIGHT, WIDTH, 4), np.uint16)
    yield ".png", deep_png(deep, 6)
    yield ".png", deep_png(deep[..., :1], 0, (b"tRNS", struct.pack(">H", 9)))
    floats = torch.from_numpy(deep.astype(np.float32) / 65535)
    for kind, depth in (("exr", 32), ("tiff", 16), ("tiff", 32), ("avif", 8)):
        if kind != "avif" or features.check("avif"):
            yield f".{kind}", encode(floats, kind, {"prompt": GRAPH}, print, depth)


def video(channels: int = 3) -> Video:
    """Seven frames that move, and stereo sound."""
    rough = torch.rand(1, channels, 6, 8, generator=torch.Generator().manual_seed(0))
    wide = torch.nn.functional.interpolate(rough, size=(HEIGHT + 8, WIDTH + 16), mode="bilinear")[0]
    images = torch.stack([wide[:, i : i + HEIGHT, 2 * i : 2 * i + WIDTH].movedim(0, -1) for i in range(7)])

    def sound() -> Audio:
        return {"waveform": torch.sin(torch.arange(8000 * 7 // 8) / 3).expand(1, 2, -1) / 2, "sample_rate": 8000}

    return Video(TensorFrames(images), Fraction(8), sound)


def videos() -> Iterator[tuple[str, bytes]]:
    """Videos in every container and codec that is written, with their endings."""
    texts = {"prompt": GRAPH, "pipegraph": GRAPH}
    forms = (
        "mp4 h264",
        "mp4 h265",
        "mp4 av1",
        "mov prores",
        "mkv ffv1",
        "mkv h264",
        "webm vp9",
        "webm av1",
        "apng apng",
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a"
        for kind, codec in map(str.split, forms):
            for channels in (3, 4) if codec in ("vp9", "ffv1") else (3,):
                for _ in write_video(path, video(channels), VideoTarget(kind, codec), texts, lambda message: None):
                    pass
                yield f".{kind}", path.read_bytes()
        for kind in ("gif", "webp"):
            write_animation(path, video(), kind, texts)
            yield f".{kind}", path.read_bytes()


def sounds() -> Iterator[tuple[str, bytes]]:
    """Sound files, with their endings."""
    wave = (np.sin(np.arange(6000) / 3) * 9000).astype(np.int16)
    forms = {
        "wav": "pcm_s16le",
        "flac": "flac",
        "mp3": "libmp3lame",
        "ogg": "libopus",
        "aiff": "pcm_s16be",
        "mp4": "aac",
        "adts": "aac",
        "avi": "pcm_s16le",
    }
    for kind, codec in forms.items():
        file = io.BytesIO()
        rate = 48000 if codec == "libopus" else 44100
        with av.open(file, "w", format=kind) as out:
            stream = out.add_stream(codec, rate=rate, layout="mono")
            frame = av.AudioFrame.from_ndarray(wave[None], format="s16", layout="mono")
            frame.sample_rate, frame.pts, frame.time_base = rate, 0, Fraction(1, rate)
            out.mux(stream.encode(frame))
            out.mux(stream.encode(None))
        yield f".{kind}", file.getvalue()


def all_files() -> list[tuple[str, bytes]]:
    """Every file, always in the same order."""
    return [*pictures(), *videos(), *sounds()]
