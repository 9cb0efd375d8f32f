"""Decode and save a clip of so many latent frames; prints the peak resident memory in KiB."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

from pipegraph.models.families.wan import WAN
from pipegraph.models.loaded import Loaded
from pipegraph.models.vae.video import VideoVae
from pipegraph.nodes.video.files import save_video
from pipegraph.nodes.video.wan import vae_decode_video

from ..context import Context
from .conftest import saved
from .memory import peak
from .tiny import autoencoder

torch.manual_seed(0)
vae = VideoVae(Loaded(autoencoder().eval().requires_grad_(False), torch.device("cpu"), torch.float32), WAN.latent)
with tempfile.TemporaryDirectory() as folder:
    context = Context(Path(folder), Path(folder))
    latent = {"samples": torch.randn(1, 16, int(sys.argv[1]), 12, 16)}
    saved(save_video(vae_decode_video(latent, vae, context), context, "clip"))
print(peak())
