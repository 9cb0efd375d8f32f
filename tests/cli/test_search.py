"""Search in nodes and models, and what a shell completes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ENV = {**os.environ, "COLUMNS": "200"}


def call(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pipegraph", *words]
    return subprocess.run(command, env=ENV | env, capture_output=True, text=True, timeout=60)


def ids(*words: str) -> list[str]:
    return [node["id"] for node in json.loads(call("nodes", *words, "--json").stdout)]


def test_nodes_are_searched_by_words() -> None:
    found = ids("lora")
    assert {"LoraLoader", "LoraLoaderModelOnly"} <= {*found} and "KSampler" not in found
    assert ids("LORA", "only") == ["LoraLoaderModelOnly"], "all words, in any case"
    assert ids("KSampler") == ["KSampler"], "a whole name is one node"
    assert len(ids()) > len(found)
    listed = call("nodes", "lora")
    assert "LoraLoader" in listed.stdout and "loaders" in listed.stdout and not listed.returncode


def test_a_search_that_finds_nothing() -> None:
    nothing = call("nodes", "KSamplr")
    assert nothing.returncode == 2 and "no node has KSamplr" in nothing.stderr and "KSampler" in nothing.stderr
    assert call("nodes", "lora", "banana").returncode == 2


def test_models_are_searched_by_a_word() -> None:
    found = json.loads(call("models", "SCHNELL", "--json").stdout)["models"]
    assert found["checkpoints"] == ["embedded/flux-tiny-schnell"] and "loras" not in found
    assert call("models", "schnell").stdout.startswith("checkpoints")
    assert call("models", "banana").returncode == 2


COMPLETED = [
    ("pipegraph ru", {"run"}),
    ("pipegraph run flux_sch", {"flux_schnell.json"}),
    ("pipegraph run flux.json --prom", {"--prompt"}),
    ("pipegraph run nowhere.json --dty", {"--dtype"}),
    ("pipegraph run flux.json --dtype b", {"bf16"}),
    ("pipegraph nodes KSamplerA", {"KSamplerAdvanced"}),
    ("pipegraph models embedded/flux-tiny-s", {"embedded/flux-tiny-schnell"}),
]


@pytest.mark.parametrize(("line", "wanted"), COMPLETED)
def test_what_a_shell_completes(line: str, wanted: set[str]) -> None:
    place = str(len(line.split()) - 1)
    done = call(_PIPEGRAPH_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=place)
    assert {text.partition(",")[2] for text in done.stdout.split() if text.startswith("plain")} == wanted, done.stderr


def test_a_real_bash_completes(tmp_path: Path) -> None:
    """With the line of the docs, and the function that bash calls."""
    (tmp_path / "pipegraph").write_text(f'#!/bin/sh\nexec {sys.executable} -m pipegraph "$@"\n')
    (tmp_path / "pipegraph").chmod(0o755)
    script = (
        "compopt() { :; }\n"  # bash has it only while a key is pressed
        'eval "$(_PIPEGRAPH_COMPLETE=bash_source pipegraph)"\n'
        'COMP_WORDS=(pipegraph run flux_sch); COMP_CWORD=2; _pipegraph_completion pipegraph\necho "${COMPREPLY[@]}"\n'
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", script], env=ENV | {"PATH": path}, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["flux_schnell.json"], done.stderr
