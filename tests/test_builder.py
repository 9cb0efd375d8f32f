"""Graphs built in Python: the same files, the same pictures, the same errors; and types for them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.test_layers import ROOT

import pipegraph as pg
from pipegraph.stubs import stub

PACK = '''
import pipegraph as pg

@pg.node("Twice", category="math")
def twice(number: int, times: int = 2) -> int:
    """Multiply.

    Args:
        number: What is multiplied.
        times: By how much.
    """
    return number * times
'''


def apple(seed: int = 3) -> pg.Graph:
    """The shipped model with two steps."""
    g = pg.Graph("An apple")
    ckpt = g.CheckpointLoaderSimple(ckpt_name="embedded/flux-tiny")
    positive = g.CLIPTextEncode(clip=ckpt.CLIP, text=g.input("prompt", "a red apple", multiline=True))
    negative = g.CLIPTextEncode(clip=ckpt["CLIP"], text="")
    latent = g.EmptySD3LatentImage(width=32, height=32, batch_size=1)
    sampled = g.KSampler(
        model=ckpt[0],
        positive=positive,
        negative=negative,
        latent_image=latent,
        seed=seed,
        steps=2,
        cfg=1,
        sampler_name="euler",
        scheduler="simple",
    )
    g.output("image", g.VAEDecode(samples=sampled, vae=ckpt.VAE))
    return g


def test_a_graph_is_saved_and_run_as_a_file(tmp_path: Path) -> None:
    g = apple()
    g.save(tmp_path / "apple.json")
    of_file = pg.load(tmp_path / "apple.json").run(prompt="a blue umbrella")["image"]
    assert of_file.shape == (1, 32, 32, 3) and torch.equal(g.run(prompt="a blue umbrella")["image"], of_file)
    assert not torch.equal(g.run()["image"], of_file)


def test_the_document_is_the_native_form() -> None:
    g = pg.Graph("T", "D")
    size = g.input("size", type="INT", min=16, max=64, description="Side.")
    latent = g.node("EmptyLatentImage", {"width": size}, id="empty", title="Empty", height=32)
    g.output("latent", latent)
    g.EmptyLatentImage(width=16, height=16)
    g.EmptyLatentImage(width=16, height=16)
    assert g.document() == {
        "pipegraph": 1,
        "title": "T",
        "description": "D",
        "inputs": {"size": {"type": "INT", "description": "Side.", "min": 16, "max": 64}},
        "nodes": {
            "empty": {
                "class_type": "EmptyLatentImage",
                "title": "Empty",
                "inputs": {"width": {"$input": "size"}, "height": 32},
            },
            "empty_latent_image": {"class_type": "EmptyLatentImage", "inputs": {"width": 16, "height": 16}},
            "empty_latent_image_2": {"class_type": "EmptyLatentImage", "inputs": {"width": 16, "height": 16}},
        },
        "outputs": {"latent": ["empty", "LATENT"]},
    }


def test_lists_paths_growing_and_dotted_inputs() -> None:
    g = pg.Graph()
    five = g.PrimitiveInt(value=5)
    g.ComfyMathExpression(expression="a + b", values={"a": five, "b": 2})
    g.node("PreviewAny", source=[1, 2])
    nodes = g.document()["nodes"]
    math = nodes["comfy_math_expression"]["inputs"]
    assert math == {"expression": "a + b", "values.a": ["primitive_int", "INT"], "values.b": 2}
    assert nodes["preview_any"]["inputs"] == {"source": {"__value__": [1, 2]}}


def test_errors_of_a_file_come_all_at_once() -> None:
    g: Any = pg.Graph()
    g.SaveImage(images=g.EmptyLatentImage(width=8, height="high", side=3))
    with pytest.raises(pg.GraphError) as caught:
        g.workflow().check()
    codes = {(p.input, p.code) for p in caught.value.problems}
    assert codes == {
        ("images", "wrong_type"),
        ("width", "out_of_range"),
        ("height", "wrong_type"),
        ("side", "unknown_input"),
    }


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda g: g.KSamplr(), AttributeError, 'no node is called "KSamplr". Did you mean "KSampler"'),
        (lambda g: g.node("KSamplr"), LookupError, 'Did you mean "KSampler"'),
        (lambda g: g.PrimitiveInt(value=1).INTT, AttributeError, "PrimitiveInt gives INT, no 'INTT'"),
        (lambda g: g.PrimitiveInt(value=1)[1], LookupError, "PrimitiveInt gives INT, no 1"),
        (lambda g: g.VAEDecode(vae=g.CheckpointLoaderSimple()), TypeError, "connect one of MODEL, CLIP, VAE"),
        (lambda g: g.VAEDecode(vae=pg.Graph().VAELoader(vae_name="x")), ValueError, "a node of another graph"),
        (lambda g: g.PrimitiveInt(value=pg.Graph().input("n", 1)), ValueError, "of another graph"),
        (lambda g: [g.input("n", 1), g.input("n", 2)], ValueError, "has an input 'n' already"),
        (lambda g: g.input("n"), ValueError, "the type of input 'n' is not known"),
        (lambda g: [g.node("PrimitiveInt", id="a"), g.node("PrimitiveInt", id="a")], ValueError, "node 'a' already"),
    ],
)
def test_mistakes_while_building(build: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message.replace("(", r"\(")):
        build(pg.Graph())


def test_nodes_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "pack.py").write_text(PACK)
    g: Any = pg.Graph(nodes=tmp_path / "pack.py")
    g.output("number", g.Twice(number=g.input("n", 4)))
    assert g.run(n=21)["number"] == 42
    assert "Twice" in dir(g) and "INT" in dir(g.Twice(number=1))


def test_the_stub_is_that_of_the_library() -> None:
    assert (ROOT / "src/pipegraph/typed_graph.pyi").read_text("utf-8") == stub(pg.api.catalog()), "run: scripts/renew"


RIGHT = """
from my_graph import Graph

g = Graph(nodes="pack.py")
ckpt = g.CheckpointLoaderSimple(ckpt_name="embedded/flux-tiny")
text = g.CLIPTextEncode(clip=ckpt.CLIP, text=g.input("prompt", "an apple"))
number = g.Twice(number=3)
latent = g.EmptySD3LatentImage(width="auto", height=number, batch_size=number.INT)
sampled = g.KSampler(
    model=ckpt.MODEL, positive=text, negative=text, latent_image=latent, cfg=number, sampler_name="euler", seed=None
)
g.output("image", g.VAEDecode(samples=sampled, vae=ckpt["VAE"]))
"""
WRONG = {
    "g.VAEDecode(samples=text, vae=ckpt.VAE)": "CONDITIONING is no LATENT",
    "ckpt.VEA": "no such output",
    "g.KSamplr()": "no such node",
    "g.CLIPTextEncode(clip=ckpt.CLIP)": "text is missing",
    "g.EmptyLatentImage(width=16, height=16, batch=2)": "no such input",
    "g.KSamplerSelect(sampler_name='eular')": "no such sampler",
    "g.Twice(number='three')": "a text for a number",
}


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a pack of one's own, its stub, a right program, and a wrong line in each of seven others."""
    folder = tmp_path_factory.mktemp("typed")
    (folder / "pack.py").write_text(PACK)
    (folder / "my_graph.py").write_text("from pipegraph import Graph\n")
    command = [sys.executable, "-m", "pipegraph", "nodes", "--stubs", "--nodes", str(folder / "pack.py")]
    (folder / "my_graph.pyi").write_text(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')  # as pyright itself, not stricter
    (folder / "right.py").write_text(RIGHT)
    for number, line in enumerate(WRONG):
        (folder / f"wrong{number}.py").write_text(f"{RIGHT}{line}\n")
    return folder


@pytest.mark.parametrize("checker", ["mypy", "basedpyright"])
def test_type_checkers_see_what_is_wrong_and_nothing_else(typed: Path, checker: str) -> None:
    command = {
        "mypy": ["mypy", "--strict", "--hide-error-context", "--no-error-summary", "."],
        "basedpyright": ["basedpyright", "--pythonpath", sys.executable, "--level", "error", "--outputjson", "."],
    }[checker]
    out = subprocess.run([sys.executable, "-m", *command], cwd=typed, capture_output=True, text=True).stdout
    last = RIGHT.count("\n") + 1
    if checker == "mypy":
        errors = {(line.split(":")[0], int(line.split(":")[1])) for line in out.splitlines() if ": error:" in line}
    else:
        listed = json.loads(out)["generalDiagnostics"]
        errors = {(Path(e["file"]).name, e["range"]["start"]["line"] + 1) for e in listed}
    assert errors == {(f"wrong{number}.py", last) for number in range(len(WRONG))}, out
