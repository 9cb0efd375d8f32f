"""What several processes sample together equals what one does alone; the first alone saves and tells."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import pipegraph as pg
from pipegraph.cli import main
from pipegraph.models.media.video_read import read_video
from pipegraph.models.parallel import _one_token_each, share

from . import tiny
from .sharing import sampled
from .test_wan import TOLERANCE, graph_for

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def three_heads(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose heads two processes cannot divide: they form a ring."""
    folder = tmp_path_factory.mktemp("wan") / "ring"
    tiny.make(folder, transformer=tiny.transformer(num_attention_heads=3))
    return folder


def test_two_processes_equal_one(wan: Path, three_heads: Path, tmp_path: Path) -> None:
    """Ulysses and a ring, an even and an odd number of tokens."""
    out, folders = tmp_path / "latents.pt", (wan, three_heads)
    command = [sys.executable, "-m", "tests.video.sharing"]
    rest = ["2", str(tmp_path / "store"), str(out), *map(str, folders)]
    processes = [subprocess.Popen([*command, rank, *rest], cwd=ROOT) for rank in "01"]
    alone = [sampled(folder) for folder in folders]
    assert [p.wait() for p in processes] == [0, 0]
    for one, two in zip(alone, torch.load(out), strict=True):
        for a, b in zip(one, two, strict=True):
            assert (a - b).abs().max() < TOLERANCE
    assert (alone[0][0] - alone[1][0]).abs().max() > 10 * TOLERANCE


def named(wan: Path) -> list[str]:
    """The model as a person names it on the command line."""
    return [a for n in ("37.unet_name", "38.clip_name", "39.vae_name") for a in ("--set", f"{n}={wan}")]


def started(graph: dict[str, Any], wan: Path, tmp_path: Path, *more: str) -> subprocess.Popen[str]:
    """``pipegraph run --parallel 2`` of a graph of a Wan model, its output in pipes."""
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(graph))
    call = [
        sys.executable,
        "-m",
        "pipegraph",
        "run",
        str(file),
        *named(wan),
        "--parallel",
        "2",
        "--device",
        "cpu",
        "--out",
        str(tmp_path / "out"),
        "--json",
        *more,
    ]
    return subprocess.Popen(call, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lossless(wan: Path) -> dict[str, Any]:
    graph = graph_for(wan)
    graph["50"]["inputs"] |= {"format": "mkv", "codec": "ffv1"}
    return graph


@pytest.mark.slow
def test_a_shared_run_saves_and_tells_once(wan: Path, tmp_path: Path) -> None:
    [alone] = pg.load(lossless(wan), out=tmp_path / "alone", allow=[wan]).run().files
    out, err = (process := started(lossless(wan), wan, tmp_path, "--record")).communicate()
    assert process.returncode == 0, err
    events = [json.loads(line) for line in out.splitlines()]
    [saved] = [Path(e["path"]) for e in events if e["event"] == "saved"]
    assert [e["event"] for e in events].count("done") == 1 and [*tmp_path.glob("out/**/*.mkv")] == [saved]
    frames, expected = (read_video(path)[0].images() for path in (saved, alone))
    assert frames.shape == expected.shape and (frames - expected).abs().max() <= 1 / 255 + 1e-6
    record = json.loads(Path(events[-1]["path"]).read_text())
    assert record["processes"] == 2


PACK = '''
import os
import signal
import time
from torch import distributed
from pipegraph.nodes.wire import Latent
from pipegraph.runtime.node import node

@node("Trouble", category="test")
def trouble(latent: Latent, kind: str = "") -> Latent:
    """Fail in the second process only, or wait.

    Args:
        latent: Handed on.
        kind: What happens.
    """
    if kind == "wait":
        print('{"event": "waiting"}', flush=True)
        time.sleep(600)
    if distributed.get_rank() == 1 and kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if distributed.get_rank() == 1:
        raise ValueError("the second process has trouble")
    return latent
'''


def troubled(wan: Path, tmp_path: Path, kind: str) -> subprocess.Popen[str]:
    graph = lossless(wan)
    graph["60"] = {"class_type": "Trouble", "inputs": {"latent": ["40", 0], "kind": kind}}
    graph["3"]["inputs"]["latent_image"] = ["60", 0]
    (tmp_path / "pack.py").write_text(PACK)
    return started(graph, wan, tmp_path, "--nodes", str(tmp_path / "pack.py"))


@pytest.mark.slow
def test_a_process_that_fails_ends_all_with_its_error(wan: Path, tmp_path: Path) -> None:
    out, _ = (process := troubled(wan, tmp_path, "")).communicate(timeout=500)
    assert process.returncode == 1
    errors = [e for e in map(json.loads, out.splitlines()) if e["event"] in ("error", "failed")]
    [problem] = errors[0]["problems"]
    assert len(errors) == 1 and problem["node"] == "60" and "the second process has trouble" in problem["message"]
    assert "Process 1 of 2; all were ended." in problem["hint"]
    assert not [*tmp_path.glob("out/**/*.mkv")]


@pytest.mark.slow
def test_a_process_that_is_killed_is_named_and_not_one_that_lost_it(wan: Path, tmp_path: Path) -> None:
    out, _ = (process := troubled(wan, tmp_path, "killed")).communicate(timeout=500)
    assert process.returncode == 1
    [error] = [e for e in map(json.loads, out.splitlines()) if e["event"] == "error"]
    [problem] = error["problems"]
    assert problem["message"] == "a process ended with signal 9"
    assert problem["hint"].endswith("when memory runs out. (Process 1 of 2; all were ended.)")


def test_fewer_tokens_than_processes_are_refused() -> None:
    from torch import distributed, nn
    from torch.testing._internal.distributed.fake_pg import FakeStore

    class Network(nn.Module):
        config = SimpleNamespace(patch_size=(1, 2, 2))

    distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    try:
        _one_token_each(Network(), (torch.zeros(1, 16, 1, 4, 4),), {})
        with pytest.raises(ValueError, match="4 processes cannot share the 3 tokens of a latent of 3x2x2: use"):
            _one_token_each(Network(), (), {"hidden_states": torch.zeros(1, 16, 3, 2, 2)})
    finally:
        distributed.destroy_process_group()


@pytest.mark.slow
def test_ctrl_c_ends_all(wan: Path, tmp_path: Path) -> None:
    process = troubled(wan, tmp_path, "wait")
    assert process.stdout
    children: set[int] = set()
    for line in process.stdout:
        if '"waiting"' in line:
            children = {int(p) for p in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()}
            break
    assert len(children) == 2
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130 and err.strip().splitlines()[-1] == "interrupted"
    assert not any(os.path.exists(f"/proc/{child}") for child in children)


def refused(capsys: pytest.CaptureFixture[str], graph: str, *more: str) -> str:
    """What is told of a shared run that cannot be, before anything starts."""
    with pytest.raises(SystemExit) as ended:
        main(["run", graph, "--parallel", "2", *more])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_what_cannot_be_shared_is_told_before_anything_starts(
    wan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = lossless(wan)
    file = tmp_path / "graph.json"

    def told(*more: str) -> str:
        file.write_text(json.dumps(graph))
        return refused(capsys, str(file), "--out", str(tmp_path), *named(wan), *more)

    assert "'--parallel': 0 is not in the range x>=1" in told("--parallel", "0")
    assert "each process takes a GPU of its own; got cuda:1; wanted auto, cpu or cuda" in told("--device", "cuda:1")
    assert 'cannot share the work of the model of "' in refused(capsys, "flux", "--prompt", "a fish")
    graph["80"] = {"class_type": "SaveVideo", "inputs": {"video": ["81", 0]}}
    graph["81"] = {"class_type": "CreateVideo", "inputs": {"images": ["82", 0], "fps": 8}}
    graph["82"] = {"class_type": "EmptyImage", "inputs": {"width": 32, "height": 48, "batch_size": 5, "color": 0}}
    graph["83"] = {"class_type": "GetVideoComponents", "inputs": {"video": ["80", 0]}}
    graph["84"] = {"class_type": "VAEEncode", "inputs": {"pixels": ["83", 0], "vae": ["39", 0]}}
    graph["3"]["inputs"]["latent_image"] = ["84", 0]
    assert 'node "3" (KSampler): every process runs what it needs, and "80" must run once' in told()
    graph["3"]["inputs"]["latent_image"] = ["40", 0]
    for id in ("80", "81", "82", "83", "84"):
        del graph[id]
    graph["70"] = {"class_type": "SamplerARVideo", "inputs": {}}
    graph["71"] = {"class_type": "PreviewAny", "inputs": {"source": ["70", 0]}}
    assert 'node "70" (Sampler AR Video): a video sampled block by block' in told()
    del graph["70"], graph["71"]
    graph["50"]["inputs"]["video"] = ["72", 0]
    graph["72"] = {"class_type": "CreateVideo", "inputs": {"images": ["73", 0], "fps": 8}}
    graph["73"] = {"class_type": "EmptyImage", "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": 0}}
    assert "no node of this graph samples" in told()


def test_other_networks_are_refused(tmp_path: Path) -> None:
    from torch import nn

    from pipegraph.models.parallel import together

    alone = nn.Linear(1, 1)
    assert share(alone, False) is alone  # one process shares nothing
    with together(0, 1, tmp_path / "store", "cpu"), pytest.raises(ValueError, match="Linear cannot be shared"):
        share(alone, False)
