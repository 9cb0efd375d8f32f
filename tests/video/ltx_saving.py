"""Decode and save a clip of LTX-Video of so many latent frames; prints the peak resident memory in KiB."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

from pipegraph.models.families.ltx import LTXV
from pipegraph.models.families.ltx.vae import LtxVae
from pipegraph.models.loaded import Loaded
from pipegraph.nodes.video.files import save_video
from pipegraph.nodes.video.wan import vae_decode_video

from ..context import Context
from .conftest import saved
from .ltx_tiny import autoencoder
from .memory import peak

torch.manual_seed(0)
vae = LtxVae(Loaded(autoencoder("0.9.1").eval().requires_grad_(False), torch.device("cpu"), torch.float32), LTXV.latent)
with tempfile.TemporaryDirectory() as folder:
    context = Context(Path(folder), Path(folder))
    latent = {"samples": torch.randn(1, 128, int(sys.argv[1]), 3, 4)}
    saved(save_video(vae_decode_video(latent, vae, context), context, "clip"))
print(peak())
