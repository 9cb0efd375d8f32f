"""Write the model cards (README.md) of the shipped models from their measured scores; no number is typed by hand.

python -m recipes.cards
"""

import json
from pathlib import Path
from typing import Any

from .measure import EMBEDDED, KINDS, weights_id
from .train_writer import CLIPS_ASKED, PICTURES_ASKED
from .train_writer import weights_id as writer_id
from .video_world import BACKGROUNDS as CLIP_BACKGROUNDS
from .video_world import OBJECTS as CLIP_OBJECTS
from .world import COLOURS, OBJECTS, PLACES, PLAIN

CLIP_FACTS = ("object", "colour", "motion", "background", "exact")
LICENCE = """## Licence

The weights are under the Apache License 2.0. They were trained on pictures composed of Fluent Emoji (MIT License,
Copyright (c) Microsoft Corporation; see `THIRD_PARTY.md`). The recipe is `recipes/`."""
READING = """Shares of fresh prompts with fresh noise, judged by `recipe/score.py` (real renders score at least .95,
the same with shuffled captions at most .1 exact); in brackets the lower end of the 95 % interval. Colour is judged
where the prompt names one. "Unseen pair" prompts show an object in the one colour it never had in training; two
objects must each be right, in the right place."""


def cell(row: dict[str, float]) -> str:
    return f"{row['share']:.3f} ({row['low']:.3f})"


def adherence_table(rows: dict[str, dict[str, dict[str, float]]]) -> str:
    """A Markdown table: one line for each named row."""
    lines = ["| | object | colour | background | exact | prompts |", "|---|---|---|---|---|---|"]
    for name, row in rows.items():
        cells = [cell(row[k]) for k in ("object", "colour", "background", "exact")]
        lines.append(f"| {name} | {' | '.join(cells)} | {row['exact']['of']} |")
    return "\n".join(lines)


def scores(folder: Path) -> dict[str, Any]:
    """``scores.json``, refused if it was measured on other weights."""
    found: dict[str, Any] = json.loads((folder / "scores.json").read_text("utf-8"))
    if found["weights"] != weights_id(folder):
        raise ValueError(f"{folder / 'scores.json'} was measured on other weights; run measure --write")
    return found


def all_rows(found: dict[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """Every measured line, those of a kind of prompt together."""
    return {
        f"{kind}; {setting}": rows[kind]
        for kind in KINDS
        for setting, rows in found["adherence"].items()
        if kind in rows
    }


def base_card() -> str:
    found = scores(EMBEDDED / "flux-tiny")
    vae = found["autoencoder"]
    return f"""# flux-tiny

A FLUX.1-shaped text-to-image model of 5.2 million parameters that ships with pipegraph, so that every graph runs
without a download. It draws a small world at 128 x 128 pixels: {len(OBJECTS)} objects ({", ".join(OBJECTS)}), in
{len(COLOURS)} colours where that makes sense ({", ".join(COLOURS)}), on {len(PLAIN)} plain backgrounds or in places
({", ".join(PLACES)}), small or big, alone or two of them left of, right of, above or below each other. Prompts are
like "a small red apple on the beach", "a cat left of a blue car on a white background". Words outside its vocabulary
(`card.json`) mean nothing to it.

FluxTransformer2DModel (width 192, 2 double and 4 single blocks, no guidance embedding), T5EncoderModel and
CLIPTextModel (2 layers, width 128, a tokenizer of whole words, prompts of 16 tokens, padded and not masked),
AutoencoderKL (8 x 8 pixels to 16 channels). It loads with diffusers:

```python
pipe = FluxPipeline.from_pretrained("models/embedded/flux-tiny")
pipe(
    "a red apple on the beach",
    negative_prompt="",
    true_cfg_scale=4,
    num_inference_steps=12,
    height=128,
    width=128,
    max_sequence_length=16,
)
```

## Scores

{READING}

{adherence_table(all_rows(found))}

Autoencoder, on held-out scenes: {vae["psnr"]} dB (the linear codec that defines its latents: {vae["codec psnr"]} dB);
steps across the borders of 8-pixel columns are {vae["seams"]} times those elsewhere (codec {vae["codec seams"]}, the
pictures themselves {vae["render seams"]}).

## Limits

It paints the scenes of its world and nothing else: no people, no text, no counting, no third object. Fine parts (eyes,
strings, wheels) are soft. Without guidance, and in 4 steps, it is right less often (see the table). Other sizes than
128 x 128 were not trained.

{LICENCE}
"""


def schnell_card() -> str:
    student, base = scores(EMBEDDED / "flux-tiny-schnell"), scores(EMBEDDED / "flux-tiny")
    rows = {f"this; {k}": v for k, v in all_rows(student).items()}
    rows |= {f"flux-tiny; {k}": v for k, v in all_rows(base).items()}
    return f"""# flux-tiny-schnell

flux-tiny distilled to 4 steps without guidance: 4 calls of the network in place of 24. The student learned to jump
each quarter of the guided base's 12-step path in one step (`recipe/distill.py`). Text encoders and autoencoder are
the base's and lie in its folder (`base` in `card.json`); it knows the same words.

## Scores

{READING}

{adherence_table(rows)}

## Limits

Those of flux-tiny, and softer edges. Other numbers of steps than 4, and guidance, were not trained.

{LICENCE}
"""


def edges_card() -> str:
    found = json.loads((EMBEDDED / "controlnet/flux-tiny-edges/scores.json").read_text("utf-8"))
    return f"""# flux-tiny-edges

A ControlNet (FluxControlNetModel: one double and one single block) for flux-tiny that follows the edges of the Canny
node at its default thresholds. It was trained with the base frozen, on the base's own world
(`recipe/train_controlnet.py`).

## Scores

Same prompts, noise and settings with and without it; the edges are those of a render of what the prompt says. Edge F1
counts an edge as found within 2 pixels.

| | edge F1 |
|---|---|
| without | {found["without"]["edge F1"]:.3f} |
| with | {found["with"]["edge F1"]:.3f} |

{adherence_table(found)}

## Limits

It knows the edges of the world of flux-tiny; edges of photographs or drawings are outside its training.

{LICENCE}
"""


def lora_card() -> str:
    found = json.loads((EMBEDDED / "loras/flux-tiny-flat.json").read_text("utf-8"))
    return f"""# LoRAs for flux-tiny

`flux-tiny-flat.safetensors`: flat colours with ink outlines; rank 8 on attention and feed-forward layers, diffusers'
keys. Trained on filtered scenes (`recipe/train_lora.py`).

## Scores

One-object prompts on light backgrounds, same prompts and noise with and without it. Ink share is the share of pixels
darker than 60 of 255. The scorer knows no ink, so the first line, real renders with the style's filter, is the most
that a LoRA can reach.

| | ink share |
|---|---|
| filtered renders | {found["filtered renders"]["ink share"]:.3f} |
| without | {found["without"]["ink share"]:.3f} |
| with | {found["with"]["ink share"]:.3f} |

{adherence_table(found)}

{LICENCE}
"""


def video_card() -> str:
    found = scores(EMBEDDED / "wan-tiny")
    rows = [
        f"| {kind} | " + " | ".join(cell(row[k]) for k in CLIP_FACTS) + f" | {row['exact']['of']} |"
        for kind, row in found["adherence"].items()
    ]
    flickers, vae = found["flicker"], found["autoencoder"]
    table = "\n".join(rows)
    return f"""# wan-tiny

A Wan-shaped text-to-video model of 4.8 million parameters that ships with pipegraph, so that video graphs run without
a download: clips of 13 frames, 64 x 64 pixels, 8 frames a second. It knows {len(CLIP_OBJECTS)} objects
({", ".join(CLIP_OBJECTS)}), in seven colours where that makes sense, moving left, right, up (rising) or down (falling),
on a background: {", ".join(CLIP_BACKGROUNDS)}. Prompts are like "a yellow fish moving left in the sea". As Wan 2.2 5B,
it goes on from a given first frame, too (`Wan22ImageToVideoLatent`).

WanTransformer3DModel (6 blocks of width 192, a token a latent cell), UMT5EncoderModel (2 layers of width 128, a
tokenizer of whole words), AutoencoderKLWan (8 x 8 pixels of 4 frames to 16 channels). It loads with diffusers
(and accelerate): `WanPipeline.from_pretrained("models/embedded/wan-tiny", expand_timesteps=False)`; with
`expand_timesteps` diffusers takes tokens of 2 x 2 latent cells for granted.

## Scores

Shares of fresh prompts with fresh noise at the recommended settings (12 steps, cfg 4), judged by
`recipe/video_score.py`; in brackets the lower end of the 95 % interval. The object is judged in the middle frame, the
direction by its way from the first frame to the last. "Unseen pair": an object in the one colour it never had in
training.

| | object | colour | direction | background | exact | prompts |
|---|---|---|---|---|---|---|
{table}

Flicker, the mean change of the frames' borders (where nothing moves) from a frame to the next, in levels of 255:
{flickers["this"]}. Frames that flux-tiny paints one by one: {flickers["own noise"]} from noise of their own,
{flickers["over real frames"]} over the frames of a real clip with the same noise (half of the noise levels).

Autoencoder, on held-out scenes: {vae["whole"]} dB encoded and decoded, {vae["decoder"]} dB decoded from the latents
of the linear codec that defines them (the codec itself: {vae["codec"]} dB).

## Limits

Objects are soft: their way and colour are right more often than their shape. One object a clip, one direction, steady
speed, a still background. Other sizes and lengths were not trained.

{LICENCE}
"""


def writer_card() -> str:
    folder = EMBEDDED / "prompt-writer"
    found = json.loads((folder / "scores.json").read_text("utf-8"))
    if found["weights"] != writer_id(folder):
        raise ValueError("prompt-writer/scores.json was measured on other weights; run train_writer --export")
    pictures, clips = (
        "\n".join(f"| {name} | {cell(rows[name])} | {rows[name]['of']} |" for name in ("valid", *asked))
        for rows, asked in ((found, PICTURES_ASKED), (found["clips"], CLIPS_ASKED))
    )
    return f"""# prompt-writer

A Llama of 1.2 million parameters (4 layers of width 160, 5 heads over 1 key head, byte-level BPE of 640 tokens) that
turns a request in everyday words ("something red to eat, by the sea please") into a prompt for flux-tiny ("a red apple
on the beach"), or, where something moves ("a pet that sinks under water"), for wan-tiny ("a fish falling in the sea").
It ships so that graphs which lead from a language model to a picture or a clip run without a download.

## Scores

Requests with a combination of object, colour and background that training never saw, answered greedily, with no
grammar to hold it; in brackets the lower end of the 95 % interval. Valid: the answer is a caption of flux-tiny's world.
The other lines count the requests that ask for it; "size" is the size, or the relation of two objects.

| pictures | share | requests |
|---|---|---|
{pictures}

| clips | share | requests |
|---|---|---|
{clips}

## Limits

It knows the wordings of `recipe/requests.py` and `recipe/video_requests.py`, and nothing else of the world: any other
request gets some caption too.
What a request leaves open it draws from what training showed.

## Licence

The weights are under the Apache License 2.0. They were trained on sentences that those two files make up.
"""


def main() -> None:
    cards = {
        "flux-tiny": base_card,
        "flux-tiny-schnell": schnell_card,
        "controlnet/flux-tiny-edges": edges_card,
        "loras": lora_card,
        "prompt-writer": writer_card,
        "wan-tiny": video_card,
    }
    for folder, card in cards.items():
        (EMBEDDED / folder / "README.md").write_text(card(), "utf-8")


if __name__ == "__main__":
    main()
