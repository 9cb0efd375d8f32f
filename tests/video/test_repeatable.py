"""The same frames and sound give the same file: again, in other processes, on another number of processors."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from pipegraph.models.media.formats import CONTAINERS

from .encoding import hashes

ROOT = Path(__file__).parents[2]
FORMS = [(kind, codec) for kind, facts in CONTAINERS.items() for codec in facts.codecs if kind != "apng"]
FORMS += [("apng", "auto"), ("gif", "auto"), ("webp", "auto")]
ONE_PROCESSOR = partial(os.sched_setaffinity, 0, {0}) if hasattr(os, "sched_setaffinity") else None


def in_another_process(form: tuple[str, str], size: tuple[int, int], runs: int, *, alone: bool) -> set[str]:
    """Hashes of clips that a new process encodes; ``alone`` lets it see a single processor."""
    command = [sys.executable, "-m", "tests.video.encoding", *form, "{}x{}".format(*size), str(runs)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, preexec_fn=ONE_PROCESSOR if alone else None
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("form", FORMS, ids="-".join)
def test_the_same_frames_give_the_same_file(form: tuple[str, str]) -> None:
    for size in ((64, 64), (96, 96), (34, 17)):
        assert len(set(hashes(*form, *size, runs=4))) == 1, size


def test_other_processes_give_the_same_file() -> None:
    here = set(hashes("mp4", "h264", 96, 96, runs=2))
    assert in_another_process(("mp4", "h264"), (96, 96), 2, alone=True) == here


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids="-".join)
@pytest.mark.parametrize("size", [(64, 64), (96, 96), (128, 96), (832, 480), (33, 65)], ids="{0[0]}x{0[1]}".format)
def test_twenty_encodes_in_four_processes_give_one_file(form: tuple[str, str], size: tuple[int, int]) -> None:
    made = [in_another_process(form, size, 5, alone=alone) for alone in (False, True, False, True)]
    assert len(set.union(*made)) == 1
