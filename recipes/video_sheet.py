"""Draw a labelled contact sheet of the shipped video model: a row a prompt, every fourth frame.

python -m recipes.video_sheet OUT.png [--folder FOLDER] [--seed 0]
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from .measure import EMBEDDED
from .video_measure import load, shoot
from .video_world import SIZE

PROMPTS = """a yellow fish moving left in the sea
a red balloon rising in a meadow
a star falling at night
a blue car moving right on the beach
a green apple falling on a white background
a cat moving right in a meadow
a pink heart rising on a yellow background
a penguin moving left on a blue background""".splitlines()
LABEL = 16


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("out", type=Path)
    ask.add_argument("--folder", type=Path, default=EMBEDDED / "wan-tiny")
    ask.add_argument("--seed", type=int, default=0)
    args = ask.parse_args()
    torch.set_num_threads(1)
    best = json.loads((args.folder / "card.json").read_text("utf-8"))["recommend"]
    clips = shoot(load(args.folder), PROMPTS, args.seed, best["steps"], best["cfg"], best["shift"])
    rows = [np.concatenate(list(clip[::4].astype(np.uint8)), 1) for clip in clips]
    width, height = rows[0].shape[1], SIZE + LABEL
    out = Image.new("RGB", (2 * width + 12, len(rows) // 2 * height), "white")
    write, font = ImageDraw.Draw(out), ImageFont.load_default(10)
    for i, (row, prompt) in enumerate(zip(rows, PROMPTS, strict=True)):
        x, y = i % 2 * (width + 12), i // 2 * height
        out.paste(Image.fromarray(row), (x, y))
        write.text((x + 1, y + SIZE + 1), prompt, fill=(40, 40, 40), font=font)
    out.save(args.out, optimize=True)


if __name__ == "__main__":
    main()
