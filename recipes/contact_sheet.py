"""Draw a labelled contact sheet of a shipped model.

python -m recipes.contact_sheet OUT.png [--folder FOLDER] [--seed 0]
"""

import argparse
import json
import textwrap
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont

from .measure import EMBEDDED, draw, load
from .render import SIZE

PROMPTS = """a red apple on a blue background
a yellow umbrella on a blue background
a cat in the snow
a big blue car on the beach
a purple guitar on a green background
a penguin in the desert
a pink balloon in a meadow
a green star at night
a burger on a yellow background
an orange fish on a purple background
a small house in a meadow
a blue mushroom in the snow
a cat left of a red heart on a white background
a yellow star above a house at night
a panda right of a green balloon on a pink background
a cactus below a purple umbrella in the desert
a red dress on a gray background
a big panda in a meadow
a green apple on the beach
a purple heart on a black background""".splitlines()
COLUMNS, LABEL = 5, 42


def sheet(pictures: list[Image.Image], labels: list[str]) -> Image.Image:
    """Pictures in rows of five, each with its prompt below."""
    rows = -(-len(pictures) // COLUMNS)
    out = Image.new("RGB", (COLUMNS * (SIZE + 6), rows * (SIZE + LABEL)), "white")
    write, font = ImageDraw.Draw(out), ImageFont.load_default(9.5)
    for i, (picture, label) in enumerate(zip(pictures, labels, strict=True)):
        x, y = i % COLUMNS * (SIZE + 6) + 3, i // COLUMNS * (SIZE + LABEL) + 2
        out.paste(picture, (x, y))
        write.multiline_text((x, y + SIZE + 1), textwrap.fill(label, 27), fill=(40, 40, 40), font=font, spacing=1)
    return out


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("out", type=Path)
    ask.add_argument("--folder", type=Path, default=EMBEDDED / "flux-tiny")
    ask.add_argument("--seed", type=int, default=0)
    args = ask.parse_args()
    torch.set_num_threads(1)
    best = json.loads((args.folder / "card.json").read_text("utf-8"))["recommend"]
    pixels = draw(load(args.folder), PROMPTS, args.seed, best["steps"], best["cfg"], best["shift"])
    sheet([Image.fromarray(p.astype("uint8")) for p in pixels], PROMPTS).save(args.out, optimize=True)


if __name__ == "__main__":
    main()
