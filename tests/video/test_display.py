"""Files that say how their pixels are to be shown: turned, mirrored, cut, stretched; and sound with gaps."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from PIL import Image

from pipegraph.containers import Part, Source, elements
from pipegraph.models.media import sound as sound_module
from pipegraph.models.media.sound import read_sound
from pipegraph.models.media.video_read import read_video
from pipegraph.nodes.video.files import save_video

from ..context import Context
from .conftest import clip, frames, saved

ONE = 1 << 16
R, G, B, W = [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0], [1.0, 1, 1]
CORNERS = torch.tensor([[R, G], [B, W]])
"""Red and green over blue and white."""
TURNS: list[tuple[tuple[int, int, int, int], Any]] = [
    ((1, 0, 0, 1), [[R, G], [B, W]]),
    ((-1, 0, 0, 1), [[G, R], [W, B]]),  # columns mirrored
    ((-1, 0, 0, -1), [[W, B], [G, R]]),
    ((1, 0, 0, -1), [[B, W], [R, G]]),  # rows mirrored
    ((0, 1, 1, 0), [[R, B], [G, W]]),  # mirrored at the diagonal
    ((0, 1, -1, 0), [[B, R], [W, G]]),  # a quarter to the right
    ((0, -1, -1, 0), [[W, G], [B, R]]),
    ((0, -1, 1, 0), [[G, W], [R, B]]),  # a quarter to the left
]
"""a, b, c, d of the display matrix: the stored pixel (x, y) is shown at (a x + c y, b x + d y) (ISO 14496-12)."""


def write_matrix(path: Path, matrix: tuple[float, ...]) -> None:
    """Change the matrix in the header of an MP4's first track, 40 bytes behind the name of its box."""
    data = bytearray(path.read_bytes())
    at = data.index(b"tkhd") + 4 + 40
    a, b, c, d = (round(v * ONE) for v in matrix)
    data[at : at + 36] = struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30)
    path.write_bytes(data)


def four_tiles(context: Context, format: Any = "mp4", codec: Any = "auto") -> Path:
    images = CORNERS.repeat_interleave(32, 0).repeat_interleave(48, 1).expand(3, -1, -1, -1)
    [path] = saved(save_video(clip(images), context, "clip", format, codec))
    return path


@pytest.mark.parametrize(("matrix", "wanted"), TURNS)
def test_all_turns_and_mirrors(context: Context, matrix: tuple[int, ...], wanted: Any) -> None:
    path = four_tiles(context)
    write_matrix(path, matrix)
    video, said = read_video(path)
    images = video.images()
    high, wide = images.shape[1:3]
    assert (high, wide) == ((64, 96) if matrix[0] else (96, 64)) == (video.frames.height, video.frames.width)
    corners = images[0, high // 4 :: high // 2, wide // 4 :: wide // 2]
    assert not said and (corners - torch.tensor(wanted)).abs().max() < 0.05


def test_an_angle_that_is_no_quarter_turn_is_said(context: Context) -> None:
    path = four_tiles(context)
    write_matrix(path, (0.9, 0.436, -0.436, 0.9))
    video, said = read_video(path)
    assert "not a quarter turn" in said and video.frames.width == 96


@pytest.mark.parametrize("suffix", ["webp", "png"])
def test_animations_with_an_orientation_tag(tmp_path: Path, suffix: str) -> None:
    pictures = [Image.fromarray(np.full((4, 6, 3), level, np.uint8)) for level in (0, 200)]
    pictures[1].putpixel((0, 0), (255, 0, 0))
    exif = Image.Exif()
    exif[0x0112] = 6
    options: dict[str, Any] = {"lossless": True} if suffix == "webp" else {}
    path = tmp_path / f"a.{suffix}"
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=100, exif=exif, **options)
    images = read_video(path)[0].images()
    assert images.shape == (2, 6, 4, 3) and images[1, 0, 3].tolist() == [1, 0, 0]


def element(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) | 1 << 56).to_bytes(8, "big") + body


def test_matroskas_crop(context: Context) -> None:
    path = four_tiles(context, "mkv", "ffv1")
    data = bytearray(path.read_bytes())
    crop = element(b"\x54\xcc", b"\x10") + element(b"\x54\xaa", b"\x08")  # 16 from the left, 8 from below
    with path.open("rb") as file:
        source = Source(file)
        part, around = Part(b"", 0, source.size), []
        for kind in (b"\x18\x53\x80\x67", b"\x16\x54\xae\x6b", b"\xae", b"\xe0"):  # segment, tracks, track, video
            [part] = [p for p in elements(source, part.start, part.stop) if p.kind == kind]
            around.append(part)
    for outer in around:
        length = 8 if data[outer.start - 8] == 1 else 1  # bytes of its size
        size = int.from_bytes(data[outer.start - length : outer.start], "big") + len(crop)
        data[outer.start - length : outer.start] = size.to_bytes(length, "big")
    data[around[-1].start : around[-1].start] = crop
    path.write_bytes(data)
    images = read_video(path)[0].images()
    assert images.shape[1:] == (56, 80, 3)
    assert images[0, 0, 0].tolist() == R and images[0, 0, 31].tolist() == R and images[0, 0, 32].tolist() == G


def test_the_clean_aperture_of_mp4(context: Context) -> None:
    path = four_tiles(context, "mov", "prores")
    data = bytearray(path.read_bytes())
    clap = struct.pack(">I4s8i", 40, b"clap", 80, 1, 56, 1, 8, 1, -4, 1)  # 80x56, its middle 8 right and 4 up
    at = data.index(b"ap4h")  # the sample entry of ProRes 4444
    size = int.from_bytes(data[at - 4 : at], "big")
    for box in (b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"ap4h"):
        place = data.index(box) - 4
        data[place : place + 4] = (int.from_bytes(data[place : place + 4], "big") + 40).to_bytes(4, "big")
    offsets = data.index(b"stco") + 12
    if data.index(b"mdat") > at:
        (first,) = struct.unpack_from(">I", data, offsets)
        struct.pack_into(">I", data, offsets, first + 40)
    data[at - 4 + size : at - 4 + size] = clap
    path.write_bytes(data)
    images = read_video(path)[0].images()
    assert images.shape[1:] == (56, 80, 3)
    # 96x64 with 16 columns cut at the left and none at the right, none above and 8 below.
    assert (images[0, 4, 4] - torch.tensor(R)).abs().max() < 0.02
    assert (images[0, 4, 40] - torch.tensor(G)).abs().max() < 0.02
    assert (images[0, 40, 4] - torch.tensor(B)).abs().max() < 0.02


def test_what_is_not_done_is_said(tmp_path: Path) -> None:
    for name, change, sentence in (
        ("wide.mkv", {"sample_aspect_ratio": Fraction(4, 3)}, "meant to be shown at 64x32"),
        ("hdr.mkv", {"color_trc": 16}, "HDR (PQ)"),
        ("plain.mkv", {}, ""),
    ):
        with av.open(str(tmp_path / name), "w") as out:
            stream = out.add_stream("libx264", rate=25)
            stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
            for key, value in change.items():
                setattr(stream.codec_context, key, value)
            for level in (20, 200):
                frame = av.VideoFrame.from_ndarray(np.full((48, 48), level, np.uint8), format="yuv420p")
                out.mux(stream.encode(frame))
            out.mux(stream.encode(None))
        said = read_video(tmp_path / name)[1]
        assert (sentence in said) if sentence else not said


def test_a_cover_is_no_video(tmp_path: Path) -> None:
    path = tmp_path / "song.mp3"
    with av.open(str(path), "w") as out:
        cover = out.add_stream("png", rate=1)
        cover.width = cover.height = 16
        cover.pix_fmt = "rgb24"
        sound = out.add_stream("libmp3lame", rate=44100)
        if not hasattr(cover, "disposition"):
            pytest.skip("this PyAV cannot mark covers")
        cover.disposition = 0x400
        out.mux(cover.encode(av.VideoFrame.from_ndarray(np.zeros((16, 16, 3), np.uint8), format="rgb24")))
        out.mux(cover.encode(None))
        wave = av.AudioFrame.from_ndarray(np.zeros((2, 1152), np.float32), format="fltp", layout="stereo")
        wave.sample_rate = 44100
        out.mux(sound.encode(wave))
        out.mux(sound.encode(None))
    with pytest.raises(ValueError, match=r"song\.mp3 cannot be read as a video: it holds no moving pictures"):
        read_video(path)


def test_gaps_in_the_sound_are_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hertz, path = 8000, tmp_path / "gap.mka"
    with av.open(str(path), "w", format="matroska") as out:
        stream = out.add_stream("pcm_s16le", rate=hertz, layout="mono")
        for start in (0.0, 0.1, 0.5):  # nothing from 0.2 to 0.5 s
            wave = av.AudioFrame.from_ndarray(np.full((1, 800), 16384, np.int16), format="s16", layout="mono")
            wave.sample_rate, wave.pts, wave.time_base = hertz, round(start * hertz), Fraction(1, hertz)
            out.mux(stream.encode(wave))
        out.mux(stream.encode(None))
    sound = read_sound(str(path))
    assert sound is not None
    wave = sound["waveform"][0, 0]
    assert len(wave) == 4800 and (wave[:1600] == 0.5).all() and (wave[4000:] == 0.5).all()
    assert not wave[1600:4000].any()
    monkeypatch.setattr(sound_module, "SILENCE_BYTES", 2399 * 4)
    assert (short := read_sound(str(path))) is not None and short["waveform"].shape[2] == 2400


def clicks(seconds: int, hertz: int = 48000) -> dict[str, Any]:
    """Sound that is loud for a moment each tenth of a second, a little louder each time."""
    wave = torch.zeros(1, 1, seconds * hertz)
    for k in range(10 * seconds):
        wave[0, 0, k * hertz // 10 : k * hertz // 10 + 200] = 0.3 + 0.03 * k
    return {"waveform": wave, "sample_rate": hertz}


@pytest.mark.parametrize("format", ["mp4", "mov", "mkv", "webm"])
def test_sound_comes_back_as_long_as_it_was(context: Context, format: Any) -> None:
    """What encoders put before and behind is taken away again."""
    [path] = saved(save_video(clip(frames(40), 20, lambda: clicks(2)), context, "clip", format))
    sound = read_video(path)[0].audio()
    assert sound is not None and sound["waveform"].shape[2] == 96000
    assert abs(int((sound["waveform"][0, 0].abs() > 0.2).nonzero()[-1]) - 91399) < 20


def test_edit_lists(context: Context) -> None:
    """Of a track, what its edit list names is shown (ISO 14496-12, 8.6.6)."""
    level = torch.arange(40)[:, None, None, None].expand(40, 32, 32, 3) / 50
    [path] = saved(save_video(clip(level, 20, lambda: clicks(2)), context, "clip"))
    data = path.read_bytes()
    pictures = data.index(b"elst") + 12
    sound = data.index(b"elst", pictures) + 12
    (begin,) = struct.unpack_from(">i", data, sound + 4)  # what the encoder put before
    for place, media in ((sound, begin + 24000), (pictures, 5120)):
        changed = bytearray(data)
        struct.pack_into(">Ii", changed, place, 1000, media)  # one second, from half a second on
        (edited := path.with_name("edited.mp4")).write_bytes(changed)
        video, said = read_video(edited)
        audio = video.audio()
        assert audio is not None and not said
        wave = audio["waveform"][0, 0]
        first = float(wave[50:150].abs().mean())
        if place == sound:
            assert video.frames.count == 40 and len(wave) == 48000 and abs(first - 0.45) < 0.03
        else:
            assert video.frames.count == 20 and len(wave) == 96000 and abs(first - 0.3) < 0.03


@pytest.mark.parametrize("format", ["webm", "mkv", "mp4", "mov"])
def test_a_cut_file_is_not_shorter_without_a_word(context: Context, format: Any) -> None:
    noise = torch.rand(40, 64, 64, 3, generator=torch.Generator().manual_seed(0))
    [path] = saved(save_video(clip(noise), context, "clip", format))
    data = path.read_bytes()
    for part in (0.5, 0.9):
        (cut := path.with_name(f"cut.{format}")).write_bytes(data[: int(len(data) * part)])
        video, said = read_video(cut)
        assert said.startswith("the file is cut off") and video.frames.count < 40
    assert read_video(path)[1] == ""


def test_transparency_of_vp8(tmp_path: Path) -> None:
    path = tmp_path / "a.webm"
    images = (frames(3, 32, 32, channels=4) * 255).to(torch.uint8).numpy()
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libvpx", rate=8, options={"auto-alt-ref": "0"})
        stream.width, stream.height, stream.pix_fmt = 32, 32, "yuva420p"
        stream.metadata["alpha_mode"] = "1"
        for image in images:
            frame = av.VideoFrame.from_ndarray(image, format="rgba").reformat(format="yuva420p", threads=1)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    back = read_video(path)[0].images()
    assert back.shape == (3, 32, 32, 4)
    assert (back[..., 3] - torch.from_numpy(images[..., 3]) / 255).abs().max() < 0.03
