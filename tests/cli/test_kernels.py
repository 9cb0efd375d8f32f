"""``pipegraph kernels`` and ``pipegraph bench kernels``."""

from __future__ import annotations

import json
from pathlib import Path

from pipegraph.kernels.dispatch import OPS

from .conftest import Call


def test_every_op_and_back_end_is_listed_with_a_reason(call: Call) -> None:
    done = call("kernels", "--json", "--device", "cpu")
    (rows,) = done.json
    assert done.code == 0
    assert {row["op"] for row in rows} == set(OPS)
    assert all(row["why"] for row in rows)
    chosen = [row["op"] for row in rows if row["chosen"]]
    assert sorted(chosen) == sorted(OPS)
    by_name = {(row["op"], row["backend"]): row for row in rows}
    assert by_name["attention", "torch"]["version"]
    assert by_name["attention", "sage"]["numerics"] == "reduced"


def test_one_op_as_a_table(call: Call) -> None:
    done = call("kernels", "swiglu", "--device", "cpu")
    lines = done.out.splitlines()
    assert lines[0] == "on cpu in fp32" and all(line.startswith("swiglu  ") for line in lines[1:])
    assert call("kernels", "swigl").err.count("did you mean `swiglu`?") == 1


def test_prove(call: Call) -> None:
    done = call("kernels", "swiglu", "--prove", "torch", "--device", "cpu")
    assert done.code == 0 and done.out == "swiglu/torch on cpu: passed, 24 served, 0 failed, 0 refused\n"
    refused = call("kernels", "attention", "--prove", "sage", "--device", "cpu")
    assert refused.code == 1 and "no case is supported: " in refused.out
    assert call("kernels", "--prove", "torch").code == 2
    assert "no back end `x`" in call("kernels", "swiglu", "--prove", "x").err
    (report,) = call("kernels", "swiglu", "--prove", "torch", "--device", "cpu", "--json").json
    assert report["passed"] and len(report["checks"]) == 24


def test_bench(call: Call, tmp_path: Path) -> None:
    numbers, picture = tmp_path / "k.json", tmp_path / "k.png"
    done = call(
        "bench", "kernels", "--suite", "decode", "--device", "cpu", "--json", str(numbers), "--plot", str(picture)
    )
    assert done.code == 0 and "paged_decode" in done.out and "ceilings: " in done.out
    assert json.loads(numbers.read_text())["rows"] and picture.stat().st_size > 1000
    wrong = call("bench", "kernels", "--suite", "decod", "--device", "cpu")
    assert wrong.code == 2 and "no suite decod" in wrong.err
