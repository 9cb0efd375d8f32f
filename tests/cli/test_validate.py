"""``pipegraph validate``: every error in one answer, exit code 2."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .conftest import Call

Write = Callable[..., Path]
TEXT: dict[str, Any] = {
    "inputs": {"text": {"type": "STRING", "default": "hello"}, "times": {"type": "INT", "default": 2, "max": 9}},
    "nodes": {
        "a": {"class_type": "PrimitiveString", "inputs": {"value": {"$input": "text"}}},
        "n": {"class_type": "PrimitiveInt", "inputs": {"value": {"$input": "times"}}},
        "show": {"class_type": "PreviewAny", "inputs": {"source": ["a", 0]}},
    },
    "outputs": {"text": ["a", 0], "times": ["n", 0]},
}


def broken() -> dict[str, Any]:
    return {
        "inputs": TEXT["inputs"],
        "nodes": {
            **TEXT["nodes"],
            "typo": {"class_type": "PreviewAn", "inputs": {"source": ["a", 0]}},
            "odd": {"class_type": "PrimitiveInt", "inputs": {"value": 20.9, "vale": 1}},
            "lost": {"class_type": "PreviewAny", "inputs": {"source": ["nowhere", 0]}},
            "r1": {"class_type": "PreviewAny", "inputs": {"source": ["r2", 0]}},
            "r2": {"class_type": "PreviewAny", "inputs": {"source": ["r1", 0]}},
        },
        "outputs": TEXT["outputs"],
    }


def test_a_right_graph(call: Call, write: Write) -> None:
    done = call("validate", write(TEXT), "--text", "x", "--times=3", "--set", "a.value=y")
    assert (done.code, done.err) == (0, "")
    assert "no errors, 3 nodes" in done.out


def test_every_error_at_once(call: Call, write: Write) -> None:
    done = call("validate", write(broken()), "--times", "10", "--txt", "x", "--set", "b.value=1")
    codes = [line.split("]")[0].removeprefix("error[") for line in done.err.splitlines() if line.startswith("error[")]
    assert done.code == 2 and not done.out
    assert {"unknown_node", "wrong_type", "unknown_input", "unknown_source", "out_of_range"} <= {*codes}
    assert {"unknown_run_input", "unknown_override"} <= {*codes}
    assert '"PreviewAny"' in done.err and 'Did you mean "text"?' in done.err


def test_errors_as_json(call: Call, write: Write) -> None:
    done = call("validate", write(broken()), "--json")
    (answer,) = done.json
    assert done.code == 2 and not done.err
    assert answer["event"] == "error"
    assert {"code": "unknown_node", "node": "typo", "got": "PreviewAn"}.items() <= answer["problems"][0].items()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"pipegraph": 1, "nodes": {', "invalid_json"),
        ('{"pipegraph": 1, "nodes": {"a": {}, "a": {}}}', "duplicate_key"),
        ('{"pipegraph": 1, "nodes": {"a": {"class_type": "PrimitiveFloat", "inputs": {"value": NaN}}}}', "not_finite"),
        ('{"pipegraph": 2, "nodes": {}}', "unknown_version"),
        ("[]", "unknown_form"),
    ],
)
def test_faults_of_the_file(call: Call, tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "broken.json").write_text(text)
    done = call("validate", "broken.json", "--json")
    assert done.code == 2
    assert code in [p["code"] for p in done.json[0]["problems"]]


def test_a_needed_input_is_named_but_no_error(call: Call, write: Write) -> None:
    needs = {**TEXT, "inputs": {**TEXT["inputs"], "text": {"type": "STRING"}}}
    assert "needs a value for text" in call("validate", write(needs)).out
    assert call("validate", write(needs), "--json").json == [{"valid": True, "nodes": 3, "needs": ["text"]}]


def test_standard_input(call: Call, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    data = write(TEXT).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert "standard input: no errors" in call("validate", "-").out


def test_a_call_that_is_wrong(call: Call, write: Write) -> None:
    graph = write(TEXT)
    for args, hint in [
        (["--set", "a.value"], "NODE.INPUT=VALUE"),
        (["--nods", "x"], "--nodes"),
        (["stray"], "stray"),
        (["--nodes", "absent.py"], "absent.py"),
    ]:
        done = call("validate", graph, *args)
        assert done.code == 2 and hint in done.err
    missing = call("validate", "flx.json")
    assert missing.code == 2 and "ready-made graph" in missing.err


def test_values_that_look_like_options(call: Call, write: Write) -> None:
    done = call("validate", write(TEXT), "--text", "--json", "--times", "-3", "--set", "a.value=-1")
    assert done.code == 0 and "no errors" in done.out


def test_graph_inputs_whose_names_are_taken_or_odd(call: Call, write: Write) -> None:
    names = ("json", "two words", "snake_case", "kebab-case")
    graph = write(
        {
            "inputs": {name: {"type": "INT", "max": 5} for name in names},
            "nodes": {
                str(i): {"class_type": "PrimitiveInt", "inputs": {"value": {"$input": name}}}
                for i, name in enumerate(names)
            },
            "outputs": {str(i): [str(i), 0] for i in range(len(names))},
        }
    )
    dashed = ["--snake-case", "1", "--kebab-case=2", "--set", "json=3", "--set", "two words=4"]
    done = call("validate", graph, *dashed)
    assert done.code == 0 and "needs" not in done.out
    wrong = call("validate", graph, "--snake_case", "6", "--kebab-case", "7", "--set", "json=8", "--set", "two words=9")
    assert wrong.code == 2 and wrong.err.count("error[out_of_range]") == 4


def test_help_for_a_graph_that_cannot_be_read(call: Call) -> None:
    done = call("validate", "absent.json", "--help")
    assert done.code == 0 and "--set" in done.out and "error[file_not_found]" in done.err


def test_faults_of_the_file_are_told_with_the_others(call: Call, write: Callable[..., Path]) -> None:
    nodes = {"a": {"class_type": "Nope"}, "e": {"class_type": "SaveImage", "inputs": {"images": [1, 2, 3]}}}
    for command in ("validate", "run"):
        done = call(command, write({"nodes": nodes}))
        assert done.code == 2 and "error[bad_link]" in done.err and "error[unknown_node]" in done.err


def test_what_file_may_be(call: Call, write: Callable[..., Path]) -> None:
    read, written = os.pipe()
    os.write(written, write(TEXT).read_bytes())
    os.close(written)
    assert call("validate", f"/dev/fd/{read}").code == 0
    os.close(read)
    os.mkfifo("pipe.json")
    for name in ("pipe.json", "/dev/zero", "/dev/null"):
        done = call("validate", name)
        assert done.code == 2 and f'"{name}" is no regular file' in done.err
    done = call("validate", ".")
    assert done.code == 2 and '"." is a folder' in done.err
    assert 'Did you mean "flux.json"' in call("validate", "flx").err


def test_random_is_shown_as_it_was_typed(call: Call, write: Callable[..., Path]) -> None:
    done = call("validate", write(TEXT), "--times", "random")
    assert done.code == 2 and "got 'random'" in done.err


def test_what_is_read_from_a_pipe_has_a_limit(write: Callable[..., Path]) -> None:
    """An endless standard input is refused; the process may take 1 GB and 60 s."""
    command = f"ulimit -v 4000000; exec {sys.executable} -m pipegraph validate - < /dev/zero"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "the file is too large for a graph" in done.stderr


def test_very_many_problems_are_counted(call: Call, write: Callable[..., Path]) -> None:
    graph = write({"nodes": {str(i): {"class_type": "Nope"} for i in range(250)}})
    done = call("validate", graph)
    assert done.code == 2 and done.err.count("error[") == 100 and done.err.endswith("... and 150 more problems\n")
    (told,) = call("validate", graph, "--json").json
    assert (len(told["problems"]), told["unlisted"]) == (100, 150)


def test_a_pipe_among_the_inputs_is_not_waited_for(call: Call, write: Callable[..., Path]) -> None:
    Path("input").mkdir()
    os.mkfifo("input/pipe.png")
    nodes = {"a": {"class_type": "LoadImage", "inputs": {"image": "pipe.png"}}}
    done = call("validate", write({"nodes": nodes, "outputs": {"x": ["a", 0]}}))
    assert done.code == 2 and 'no file "pipe.png" among input' in done.err
