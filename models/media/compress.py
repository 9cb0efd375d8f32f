"""Simulates video compression artifacts in images."""

from __future__ import annotations

from io import BytesIO

import av
import torch
from torch import Tensor

from .encoders import x264_options


def as_frame(picture: Tensor, crf: int) -> Tensor:
    """An image [H, W, 3] in 0..1 of even sides, encoded and decoded as one h264 frame with this quantizer (0 to 51)."""
    height, width = picture.shape[:2]
    buffer, options = BytesIO(), {"crf": str(crf), "preset": "veryfast", **x264_options()}
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=1, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.thread_count = 1  # the same bytes on every machine
        pixels = (picture.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()
        for packet in (*stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")), *stream.encode()):
            container.mux(packet)
    buffer.seek(0)
    with av.open(buffer) as container:
        frame = next(container.decode(video=0))
        return torch.from_numpy(frame.to_ndarray(format="rgb24")).float() / 255
