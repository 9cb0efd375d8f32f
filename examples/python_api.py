"""Run a ready-made graph from Python, look at what came out, and run it again from the cache.

python examples/python_api.py [OUTPUT FOLDER]
"""

import sys

import pipegraph as pg


def main(out: str = "output", **more: int) -> None:
    workflow = pg.load("flux.json", out=out, on_event=lambda event: print(event.kind, event.title))
    result = workflow.run(prompt="a green car in the snow", seed=3, **more)

    image = result["image"]  # float32 [B, H, W, C], 0..1
    print("made", tuple(image.shape), "saved", *result.files)
    print("slowest node", max(result.timings, key=lambda node: result.timings[node]))

    again = workflow.run(prompt="a green car in the snow", seed=3, **more)
    print("from the cache:", ", ".join(again.cached))

    try:
        workflow.check(prompt="a fox", steps=0, seeed=3)
    except pg.GraphError as error:
        for problem in error.problems:
            print("wrong:", problem)


if __name__ == "__main__":
    main(*sys.argv[1:])
