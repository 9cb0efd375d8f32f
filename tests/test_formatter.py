"""The formatter decides how code is laid out."""

from __future__ import annotations

import re

from tests.test_layers import ROOT, files

MOST = 60
"""How many tables and signatures of kernels may be laid out by hand; each is 20 lines longer when formatted."""


def test_few_places_are_laid_out_by_hand() -> None:
    folders = ("graphs", "runtime", "kernels", "models", "nodes", "src/pipegraph", "tests", "benchmarks", "scripts")
    switches = [
        f"{file.relative_to(ROOT)}:{line}"
        for folder in folders
        for file in files(folder)
        for line, text in enumerate(file.read_text("utf-8").splitlines(), 1)
        if re.search(r"#\s*fmt:\s*(off|skip)", text)
    ]
    assert len(switches) <= MOST, "\n".join(switches)
