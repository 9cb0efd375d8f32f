"""Sound into LTX-2's latents as diffusers' classes make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipegraph.nodes.video.ltx2 import load_audio_vae, ltxv_audio_vae_encode

from ..context import Context
from . import ltx2_tiny

TOLERANCE = 1e-4


def test_encoding_equals_diffusers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: Context) -> None:
    """Of a spectrogram made by transformers' own code, the mean of diffusers' posterior, normalized."""
    from transformers.audio_utils import mel_filter_bank, spectrogram

    networks = ltx2_tiny.components()
    ltx2_tiny.write_file(networks, tmp_path / "checkpoints/ltx-2-19b-dev.safetensors")
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    audio = load_audio_vae("ltx-2-19b-dev.safetensors", context)
    wave = torch.randn(1, 2, 4800, generator=torch.Generator().manual_seed(3)) * 0.3
    bank = mel_filter_bank(513, 16, 0.0, 8000.0, 16000, norm="slaney", mel_scale="slaney")
    hann = np.hanning(1025)[:-1]
    bands = [
        spectrogram(row.numpy(), hann, 1024, 160, power=1.0, mel_filters=bank, mel_floor=1e-5, log_mel="log")
        for row in wave[0]
    ]
    network: Any = networks["audio_vae"]
    with torch.no_grad():
        raw = network.encode(torch.from_numpy(np.stack(bands)).float().mT[None]).latent_dist.mode()
    rows = (raw.transpose(1, 2).flatten(2) - network.latents_mean) / network.latents_std
    made = ltxv_audio_vae_encode({"waveform": wave, "sample_rate": 16000}, audio)["samples"]
    assert made.shape == (1, 2, 8, 4)
    assert (made - rows.unflatten(2, (2, 4)).transpose(1, 2)).abs().max() < TOLERANCE
    other = ltxv_audio_vae_encode({"waveform": wave.flip(1), "sample_rate": 16000}, audio)["samples"]
    assert (other - made).abs().max() > 10 * TOLERANCE

    mono = wave[:, :1]
    alike = ltxv_audio_vae_encode({"waveform": mono.expand(-1, 2, -1), "sample_rate": 16000}, audio)["samples"]
    assert torch.equal(ltxv_audio_vae_encode({"waveform": mono, "sample_rate": 16000}, audio)["samples"], alike)
    faster = ltxv_audio_vae_encode({"waveform": mono, "sample_rate": 48000}, audio)["samples"]
    assert faster.shape == (1, 2, 3, 4)
    with pytest.raises(ValueError, match="3 channels, this VAE reads 1 or 2"):
        ltxv_audio_vae_encode({"waveform": torch.zeros(1, 3, 4800), "sample_rate": 16000}, audio)
    with pytest.raises(ValueError, match="too short: 500 samples"):
        ltxv_audio_vae_encode({"waveform": torch.zeros(1, 1, 500), "sample_rate": 16000}, audio)
