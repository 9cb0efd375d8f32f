"""Does a clip show what its scene says? A scorer without any trained model, and the measure of trained weights.

    python -m recipes.video_score          (real clips, and the same with shuffled scenes)
    python -m recipes.video_score WEIGHTS [VAE] [--count 64] [--sheet clips.png]

Analysis by synthesis: every object in every colour is drawn at every place of a half-size frame on the asked
background; what explains most of the squared distance to the empty background is what the frame shows, and where.
Object and colour are judged in the middle frame, the direction by the way of the asked object from the first frame to
the last. WEIGHTS are those of video_train, VAE those of video_train_vae (without: the linear codec).
"""

import argparse
import functools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from PIL import Image

from .score import wilson
from .video_world import (
    BACKGROUNDS,
    FRAMES,
    HEIGHT,
    MOTIONS,
    OBJECTS,
    SIZE,
    Moving,
    caption,
    draw,
    frame,
    ideal,
    sample,
    sprite,
)
from .world import COLOURABLE, COLOURS, Thing

Pixels = NDArray[np.float32]
HALF, PAD = 16, 8
"""Side of the window around an object and the width of the frame's continued edge, in half-size pixels."""
LEAST = 8.0
"""Pixels that an object must have moved for its direction to count."""
THINGS = [Thing(o, c) for o in OBJECTS for c in (None, *(COLOURS if o in COLOURABLE else ()))]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is right of a clip; ``colour`` is None where none was asked."""

    object: bool
    colour: bool | None
    motion: bool
    background: bool

    @property
    def exact(self) -> bool:
        return self.object and self.colour is not False and self.motion and self.background


def _halve(pictures: Pixels) -> Pixels:
    rows = pictures[..., ::2, :, :] + pictures[..., 1::2, :, :]
    return np.asarray((rows[..., ::2, :] + rows[..., 1::2, :]) / 4, np.float32)


@functools.cache
def _cut_outs(motion: str) -> tuple[Pixels, Pixels]:
    """All things, premultiplied colour and opacity, [things, 16 * 16 * 3] each, from drawings on black and on white."""
    drawn = []
    for level in (0, 255):
        behind = Image.new("RGB", (4 * HALF, 4 * HALF), (level,) * 3)
        pictures = [frame(behind, sprite(t, motion, HEIGHT), (HALF, HALF)) for t in THINGS]
        drawn.append(_halve(np.stack(pictures).astype(np.float32)).reshape(len(THINGS), -1))
    return drawn[0], np.asarray(1 - (drawn[1] - drawn[0]) / 255, np.float32)


def _windows(picture: Pixels) -> Pixels:
    """Every window of a half-size frame continued at its edges, [places, 16 * 16 * 3]."""
    wide = np.pad(_halve(picture), ((PAD, PAD), (PAD, PAD), (0, 0)), mode="edge")
    found = sliding_window_view(wide, (HALF, HALF), axis=(0, 1))
    return np.ascontiguousarray(np.moveaxis(found, 2, -1)).reshape(-1, HALF * HALF * 3)


def explained(picture: Pixels, scene: Moving) -> tuple[Pixels, NDArray[np.int64]]:
    """How much of the distance to the empty background each thing explains at its best place, and which place."""
    colour, opacity = _cut_outs(scene.motion)
    behind = _windows(ideal(scene.background))
    rest = _windows(picture) - behind
    # |rest|^2 - |rest - (colour - opacity behind)|^2, multiplied out so that all places and things are matrix products.
    cross = rest @ colour.T - (rest * behind) @ opacity.T
    own = (colour**2).sum(1) - 2 * behind @ (colour * opacity).T + behind**2 @ (opacity**2).T
    gain = 2 * cross - own
    return gain.max(0), gain.argmax(0)


def score(clip: Pixels, scene: Moving) -> Verdict:
    """Judge a clip, [frames, 64, 64, 3] in 0..255, by its scene."""
    gain, _ = explained(clip[len(clip) // 2], scene)
    best = THINGS[int(gain.argmax())]
    painted = {t: g for t, g in zip(THINGS, gain.tolist(), strict=True) if t.name == scene.thing.name and t.colour}
    colour = max(painted, key=painted.__getitem__) == scene.thing if scene.thing.colour else None
    index, side = THINGS.index(scene.thing), SIZE // 2 + 2 * PAD - HALF + 1
    ends = [divmod(int(explained(clip[i], scene)[1][index]), side) for i in (0, len(clip) - 1)]
    way = 2 * (ends[1][1] - ends[0][1]), 2 * (ends[1][0] - ends[0][0])
    along = {name: way[0] * dx + way[1] * dy for name, (dx, dy) in MOTIONS.items()}
    motion = max(along, key=along.__getitem__)
    mask = _border()
    seen = np.median(clip, axis=0)
    border = {k: float(np.median(np.abs(seen[mask] - ideal(k)[mask]).sum(-1))) for k in BACKGROUNDS}
    return Verdict(
        best.name == scene.thing.name,
        colour,
        motion == scene.motion and along[motion] >= LEAST,
        min(border, key=border.__getitem__) == scene.background,
    )


@functools.cache
def _border() -> NDArray[np.bool_]:
    mask = np.zeros((SIZE, SIZE), bool)
    mask[:2] = mask[:, :2] = mask[:, -2:] = True
    return mask


def flicker(clip: Pixels) -> float:
    """Mean change of the border from a frame to the next, in levels of 255: nothing moves there."""
    return float(np.abs(np.diff(clip[:, _border()], axis=0)).mean())


def table(verdicts: Sequence[Verdict]) -> dict[str, dict[str, float]]:
    """Share, lower end of its 95 % interval and count, for each thing judged."""
    found = {}
    for name in ("object", "colour", "motion", "background", "exact"):
        asked = [a for v in verdicts if (a := getattr(v, name)) is not None]
        share, low = sum(asked) / max(1, len(asked)), wilson(sum(asked), len(asked))
        found[name] = {"share": round(share, 3), "low": round(low, 3), "of": len(asked)}
    return found


def check(count: int = 100, seed: int = 1) -> dict[str, dict[str, dict[str, float]]]:
    """The scorer's own score: real clips (should be near 1) and the same with shuffled scenes (near 0)."""
    rng = random.Random(seed)
    scenes = [sample(rng) for _ in range(count)]
    drawn = [draw(s, rng).astype(np.float32) for s in scenes]
    pairs = {"real": scenes, "shuffled": scenes[1:] + scenes[:1]}
    return {name: table([score(c, s) for c, s in zip(drawn, asked, strict=True)]) for name, asked in pairs.items()}


def measure(
    weights: Path, vae: Path | None, count: int, steps: int, cfg: float, shift: float, held_out: bool
) -> tuple[dict[str, object], Pixels]:
    """Score trained weights on fresh prompts; the scores, and the clips."""
    import torch
    from safetensors.torch import load_file

    from .training import load_weights
    from .video_codec import VideoCodec
    from .video_networks import TextToVideo, autoencoder, generate

    torch.set_num_threads(1)
    nets = TextToVideo.fresh()
    load_weights(nets, weights)
    for part in nets.parts().values():
        part.eval()
    rng = random.Random(77)
    scenes = [sample(rng, held_out=held_out) for _ in range(count)]
    noise = torch.randn(
        count, 16, (FRAMES - 1) // 4 + 1, SIZE // 8, SIZE // 8, generator=torch.Generator().manual_seed(3)
    )
    clips = []
    net, codec = autoencoder().eval(), VideoCodec()
    if vae:
        net.load_state_dict({k: v.float() for k, v in load_file(vae).items()})
    for i in range(0, count, 8):
        some = [caption(s, rng) for s in scenes[i : i + 8]]
        with torch.no_grad():
            z = generate(nets, some, noise[i : i + 8], steps, cfg, shift)
            clips.append(net.decode(z).sample if vae else codec.decode(z))
    shown = ((torch.cat(clips).clamp(-1, 1) + 1) * 127.5).permute(0, 2, 3, 4, 1).numpy()
    verdicts = [score(c, s) for c, s in zip(shown, scenes, strict=True)]
    return {**table(verdicts), "flicker": round(float(np.mean([flicker(c) for c in shown])), 2)}, shown


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("weights", type=Path, nargs="?")
    ask.add_argument("vae", type=Path, nargs="?")
    ask.add_argument("--count", type=int, default=64)
    ask.add_argument("--steps", type=int, default=12)
    ask.add_argument("--cfg", type=float, default=4.0)
    ask.add_argument("--shift", type=float, default=2.0)
    ask.add_argument("--held-out", action="store_true")
    ask.add_argument("--sheet", type=Path)
    args = ask.parse_args()
    if not args.weights:
        print(json.dumps(check(), indent=1))
        return
    found, shown = measure(args.weights, args.vae, args.count, args.steps, args.cfg, args.shift, args.held_out)
    print(json.dumps(found, indent=1))
    if args.sheet:
        rows = [np.concatenate(list(c[::3]), 1) for c in shown[:12].astype(np.uint8)]
        Image.fromarray(np.concatenate(rows)).save(args.sheet)


if __name__ == "__main__":
    main()
