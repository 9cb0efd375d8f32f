"""Nodes of guidance, masks, samplers and formats together, on a shipped model: run, and run again from the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pipegraph as pg

TEXT, EMPTY, MODEL, VAE = ["2", 0], ["3", 0], ["6", 0], ["1", 2]


def node(kind: str, **inputs: Any) -> dict[str, Any]:
    return {"class_type": kind, "inputs": {name.replace("__", "."): value for name, value in inputs.items()}}


GRAPH = {
    "1": node("CheckpointLoaderSimple", ckpt_name="embedded/flux-tiny"),
    "2": node("CLIPTextEncode", text="a red apple", clip=["1", 1]),
    "3": node("CLIPTextEncode", text="", clip=["1", 1]),
    "4": node("ModelSamplingAuraFlow", model=["1", 0], shift=1.5),
    "5": node("CFGNorm", model=["4", 0], strength=1.0, pre_cfg=False),
    "6": node("DifferentialDiffusion", model=["5", 0], strength=1.0),
    "7": node("CFGOverride", model=MODEL, cfg=1.0, start_percent=0.6, end_percent=1.0),
    "8": node("LoadImage", image="embedded/apple_on_beach.png"),
    "9": node("VAEEncodeTiled", pixels=["8", 0], vae=VAE, tile_size=128, overlap=32),
    "10": node("SolidMask", value=0.5, width=64, height=64),
    "11": node("SetLatentNoiseMask", samples=["9", 0], mask=["10", 0]),
    "12": node(
        "KSampler", model=["7", 0], seed=1, steps=4, cfg=2.0, positive=TEXT, negative=EMPTY, latent_image=["11", 0]
    ),
    "13": node("VAEDecode", samples=["12", 0], vae=VAE),
    "14": node("SaveImageAdvanced", images=["13", 0], filename_prefix="a", format="exr"),
    "15": node("SaveImageAdvanced", images=["13", 0], filename_prefix="b", format="png", format__bit_depth="16-bit"),
    "20": node(
        "DualCFGGuider",
        model=["7", 0],
        cond1=TEXT,
        cond2=EMPTY,
        negative=EMPTY,
        cfg_conds=2.0,
        cfg_cond2_negative=1.5,
        style="nested",
    ),
    "21": node("SamplerLCM", s_noise=1.02, s_noise_end=1.0, noise_clip_std=2.5),
    "22": node("Flux2Scheduler", steps=3, width=128, height=128),
    "23": node("RandomNoise", noise_seed=3),
    "24": node("EmptyLatentImage", width=128, height=128, batch_size=1),
    "25": node(
        "SamplerCustomAdvanced",
        noise=["23", 0],
        guider=["20", 0],
        sampler=["21", 0],
        sigmas=["22", 0],
        latent_image=["24", 0],
    ),
    "26": node("VAEDecode", samples=["25", 0], vae=VAE),
    "27": node("SaveImage", images=["26", 0], filename_prefix="c", format="avif"),
}


def test_a_graph_of_editing_nodes_runs_and_again_from_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first = {path.suffix: path for path in pg.load(GRAPH, out="first").run().files}
    assert sorted(first) == [".avif", ".exr", ".png"]
    for suffix, path in first.items():
        again = {p.suffix: p for p in pg.load(path, out=f"again{suffix}").run().files}
        for kind in (".exr", ".png"):
            assert _pixels(again[kind]).equal(_pixels(first[kind])), f"{kind} from {suffix}"


def _pixels(path: Path) -> Any:
    from pipegraph.models.media.image_read import read_picture

    colors, _ = read_picture(path)
    assert colors.isfinite().all() and colors.std() > 0.01
    return colors
