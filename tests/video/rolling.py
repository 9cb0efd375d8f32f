"""Make, decode and save a causal clip of so many latent frames; prints the peak resident memory in KiB."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

from pipegraph.kernels.hooks.install import install
from pipegraph.models.families.wan import WAN
from pipegraph.models.loaded import Loaded
from pipegraph.models.model import Model
from pipegraph.models.sampling.guiders import Guider
from pipegraph.models.sampling.model_sampling import Flow
from pipegraph.models.sampling.noise import Noise
from pipegraph.models.vae.video import VideoVae
from pipegraph.nodes.video.causal import sampler_ar_video, stream_ar_video
from pipegraph.nodes.video.files import save_video

from ..context import Context
from .conftest import saved
from .memory import peak
from .tiny import autoencoder, transformer

torch.manual_seed(0)
cpu = torch.device("cpu")
network = transformer(num_layers=1).eval().requires_grad_(False)
install(network)
model = Model(Loaded(network, cpu, torch.float32), WAN, Flow(5.0, multiplier=1000), WAN.latent)
vae = VideoVae(Loaded(autoencoder().eval().requires_grad_(False), cpu, torch.float32), WAN.latent)
guider = Guider(model, [[torch.randn(1, 8, 32), {}]])
with tempfile.TemporaryDirectory() as folder:
    context = Context(Path(folder), Path(folder))
    latent = {"samples": torch.zeros(1, 16, int(sys.argv[1]), 12, 16)}
    sigmas = torch.tensor([1.0, 0.5, 0.0])
    video = stream_ar_video(Noise(1), guider, sampler_ar_video(3, window=6), sigmas, latent, vae)
    saved(save_video(video, context, "clip"))
print(peak())
