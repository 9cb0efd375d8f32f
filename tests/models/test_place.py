"""Which type networks compute in, and files of weights that are larger than memory."""

from __future__ import annotations

import json
import os
import resource
import sys
from pathlib import Path

import pytest
import torch

from pipegraph.models.loading.headers import read_header
from pipegraph.models.loading.place import compute_dtype
from pipegraph.models.loading.reading import map_file, open_weights


@pytest.mark.parametrize(("native", "dtype"), [(True, torch.bfloat16), (False, torch.float16)])
def test_cards_that_emulate_bfloat16_compute_in_float16(
    native: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turing and Volta: torch emulates bfloat16 there, without tensor cores."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or native)
    assert compute_dtype("auto", torch.device("cuda")) == dtype
    assert compute_dtype("bf16", torch.device("cuda")) == torch.bfloat16
    assert compute_dtype("auto", torch.device("cpu")) == torch.float32


def test_what_is_written_into_a_mapped_file_stays_in_memory(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(bytes(range(256)) * 64)
    mapped = map_file(file)
    mapped[:9] = 7
    assert mapped[:10].tolist() == [7] * 9 + [9] and file.read_bytes()[:10] == bytes(range(10))


@pytest.mark.skipif(sys.platform != "linux", reason="memory is set aside for maps elsewhere")
def test_a_file_larger_than_memory_and_swap_is_opened(tmp_path: Path) -> None:
    """A sparse file: its header is there, its weights are holes."""
    meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    total = sum(int(meminfo[name].split()[0]) for name in ("MemTotal", "SwapTotal")) * 1024
    rows = total // (1 << 20) + 1024
    shape, size = [rows, 1 << 19], rows << 20
    header = json.dumps({"big.weight": {"dtype": "F16", "shape": shape, "data_offsets": [0, size]}}).encode()
    file = tmp_path / "big.safetensors"
    with file.open("wb") as out:
        out.write(len(header).to_bytes(8, "little") + header)
        try:
            out.truncate(8 + len(header) + size)
        except OSError as error:
            pytest.skip(f"no sparse file of {size:,} bytes here: {error}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    weight = open_weights(read_header(file))["big.weight"]
    assert isinstance(weight, torch.Tensor) and list(weight.shape) == shape and float(weight[-1, -1]) == 0
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "KB"
    del weight
    os.truncate(file, 0)
