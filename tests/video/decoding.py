"""Decode a clip of so many latent frames with the shipped VAE; prints the peak resident memory in KiB.

With ``keep`` the frames are kept, as a decoder would that needs memory for the whole clip.
"""

from __future__ import annotations

import sys

import torch

from pipegraph.models import paths
from pipegraph.models.checkpoints.load import load_vae
from pipegraph.models.loading.place import Place
from pipegraph.models.vae.video import VideoVae

from .memory import peak

torch.manual_seed(0)
torch.set_num_threads(1)
vae = load_vae(str(paths.EMBEDDED / "wan-tiny"), Place(torch.device("cpu"), torch.float32))
assert isinstance(vae, VideoVae)
z = torch.randn(16, int(sys.argv[1]), 16, 16)
kept = [part for part in vae.parts(z) if sys.argv[2:] == ["keep"]]
print(peak())
