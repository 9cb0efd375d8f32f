"""Make a picture for each line of a file of prompts; what is there already is left as it is.

python examples/batch.py PROMPTS.txt [OUTPUT FOLDER]

The model is loaded once: all runs share one cache. Each line gets a folder of its own, named by its number.
"""

import sys
from pathlib import Path

import pipegraph as pg


def main(prompts: str, out: str = "batch", **more: int) -> int:
    failed = 0
    for number, prompt in enumerate(Path(prompts).read_text(encoding="utf-8").splitlines()):
        folder = Path(out) / f"{number:04d}"
        if not prompt.strip() or any(folder.glob("*.png")):
            continue
        try:
            result = pg.load("flux.json", out=folder).run(prompt=prompt, seed=number, **more)
            print(*result.files, prompt)
        except (pg.GraphError, pg.RunError) as error:
            failed += 1
            print(f"line {number + 1}: {error}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
