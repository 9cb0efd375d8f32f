"""The recipe of the video model: words, scenes, the codec, the scorer, and the folder that it writes."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from recipes import video_score as score
from recipes import video_world as world
from recipes.video_codec import VideoCodec, clips, patches, psnr, unpatched
from recipes.world import HELD_OUT

from pipegraph.access import Access, granted


def test_scenes_and_their_words() -> None:
    rng = random.Random(0)
    scenes = [world.sample(rng, held_out=i % 2 == 0) for i in range(400)]
    assert all((s.thing in HELD_OUT) == (i % 2 == 0) for i, s in enumerate(scenes))
    assert {s.motion for s in scenes} == set(world.MOTIONS) and {s.background for s in scenes} == set(world.BACKGROUNDS)
    unknown = world.TOKEN_ID["<unk>"]
    assert all(unknown not in world.ids(world.caption(s, rng))[0] for s in scenes)
    found, used = world.ids("a dragon swimming left in the ocean")
    assert len(found) == world.TOKENS and used == 8 and found[1] == unknown


def test_the_codec_is_linear_and_knows_its_clips() -> None:
    wanted, codec = clips(4, random.Random(3), held_out=True), VideoCodec()
    latents = codec.encode(wanted)
    assert latents.shape == (4, 16, 4, 8, 8) and 0.5 < float(latents.pow(2).mean()) < 2
    assert torch.equal(unpatched(patches(wanted[:, :, 1:])), wanted[:, :, 1:])
    assert psnr(codec.decode(latents), wanted) > 22
    assert torch.allclose(codec.encode(wanted[:, :, :5]), latents[:, :, :2], atol=1e-5)  # causal


def test_the_scorer_knows_right_from_wrong() -> None:
    real, shuffled = (score.check(6)[name] for name in ("real", "shuffled"))
    assert all(real[k]["share"] >= 0.9 for k in ("object", "colour", "motion", "background"))
    assert shuffled["exact"]["share"] <= 0.1 and shuffled["motion"]["share"] < 0.6
    rng = random.Random(5)
    clip = world.draw(scene := world.sample(rng), rng).astype(np.float32)
    assert score.score(clip, scene).exact and not score.score(clip[::-1].copy(), scene).motion
    assert not score.score(np.repeat(clip[:1], 13, 0), scene).motion  # what stands still does not move left
    noise = np.random.default_rng(0).normal(0, 3, clip.shape).astype(np.float32)
    assert score.flicker(clip) < 0.5 < score.flicker(clip + noise)


@pytest.mark.slow
def test_the_folder_that_is_written_loads(tmp_path: Path) -> None:
    from recipes.video_export import write
    from recipes.video_networks import TextToVideo, autoencoder, generate

    from pipegraph.models.checkpoints.load import load_checkpoint
    from pipegraph.models.checkpoints.source import checkpoint, recommend
    from pipegraph.models.loading.place import Place

    torch.manual_seed(0)
    nets, vae = TextToVideo.fresh(), autoencoder()
    for part in nets.parts().values():
        for p in part.parameters():
            p.data.normal_(std=0.1)
    write(nets, vae, tmp_path / "wan")
    with granted(Access.to(tmp_path)):
        place = Place(torch.device("cpu"), torch.float32)
        model, text, ours = load_checkpoint(checkpoint(str(tmp_path / "wan")), place)
        assert recommend(str(tmp_path / "wan"))["length"] == 13 and model.latent == ours.latent
    for part in nets.parts().values():
        part.float().eval()
    prompt = "a YELLOW fish, swimming left in the ocean"
    states = nets.encode([prompt])[0]
    found = text.encode(text.tokenize(prompt))
    assert (found[0][0] - states).abs().max() < 1e-4
    noise = torch.randn(1, 16, 2, 8, 8)
    from pipegraph.models.sampling.guiders import Guider

    denoiser = Guider(model, found, text.encode(text.tokenize("")), 4.0).denoiser(noise)
    expected = generate(nets, [prompt], noise, 1, 4.0, 2.0)
    with torch.no_grad():
        assert (denoiser(noise, 1.0) - expected).abs().max() < 1e-3
