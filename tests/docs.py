"""What README and the pages of docs show: commands, Python, prompts."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NOT_RUN = {
    "scripts/": "set-up and tests themselves",
    "pip install": "set-up",
    "pipegraph models add": "fetches from the network",
    "pipegraph chat": "needs a model of the user's own; tests/cli/test_chat.py talks with shipped ones",
    "pipegraph run chat.json --model smollm2": "a model of the user's own",
    "pipegraph run flux.json --model black-forest-labs/FLUX.1-dev": "a model of the user's own",
    "pipegraph run wan.json --parallel": "a graph of the user's own; tests/video/test_parallel.py runs such ones",
    "pipegraph kernels attention --device cuda": "needs a GPU",
    "pipegraph bench": "measures for minutes; tests/kernels/test_bench.py runs it",
    "printf": "needs a model of the user's own",
    "pipegraph run FILE": "a summary",
    "pipegraph validate FILE": "a summary",
    "pipegraph convert FILE": "a summary",
    "pipegraph show FILE": "a summary",
    "pipegraph nodes [NAME]": "a summary",
    "pipegraph models [NAME]": "a summary",
    "pipegraph models missing FILE": "a summary; tests/cli/test_missing.py runs it",
    "pipegraph models fetch FILE": "a summary; tests/cli/test_missing.py runs it",
}
"""Beginning of commands that no test runs, and why."""


@dataclass(frozen=True)
class Command:
    """A command of a page."""

    page: str
    line: str

    @property
    def words(self) -> list[str]:
        """Without comments, and without what a summary says behind a wide gap."""
        line = re.split(r" {3,}(?=[a-z])| \[", self.line)[0]
        return shlex.split(line, comments=True)

    @property
    def skipped(self) -> str:
        """Why it is not run; empty if it is."""
        return next((why for start, why in NOT_RUN.items() if self.line.startswith(start)), "")


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in a language; empty: those that name none."""
    every = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf-8"), re.S | re.M)
    return [text for name, text in every if name == language]


def commands() -> list[Command]:
    """Every command of a shell block, and every line that begins like one in blocks without a language."""
    found = []
    for page in PAGES:
        lines = [line.strip() for block in blocks(page, "sh") for line in block.splitlines()]
        plain = [line.strip().removeprefix("$ ") for block in blocks(page, "") for line in block.splitlines()]
        lines += [line for line in plain if line.startswith("pipegraph ")]
        found += [Command(page.name, line) for line in lines if line and not line.startswith("#")]
    return found


def runs() -> list[Command]:
    """The commands that run here."""
    return [command for command in commands() if not command.skipped]


def prompts(graph: str) -> set[str]:
    """Prompts of commands that run a graph on its shipped model."""
    run = [c.words for c in runs() if c.words[:2] == ["pipegraph", "run"] and c.words[2].startswith(graph)]
    named = ("--prompt", "--picture")
    return {value for words in run for name, value in pairwise(words) if name in named}
