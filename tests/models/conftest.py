"""Files of the shipped model in other programs' layouts."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.models.loading.place import Place

_spec = importlib.util.spec_from_file_location("layouts", Path(__file__).with_name("layouts.py"))
assert _spec and _spec.loader
layouts: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(layouts)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def place() -> Place:
    return Place(torch.device("cpu"), torch.float32)


@pytest.fixture(scope="session")
def bfl() -> Mapping[str, Tensor]:
    """The shipped network in BFL's layout, float32."""
    found: dict[str, Tensor] = layouts.to_bfl(layouts.shipped())
    return found


@pytest.fixture(scope="session")
def config() -> dict[str, str]:
    """The metadata that such a small file needs."""
    found: dict[str, str] = layouts.config()
    return found


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ComfyUI-like models folder with the shipped tokenizers in it."""
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for sub in ("diffusion_models", "text_encoders", "tokenizers", "loras"):
        (tmp_path / sub).mkdir()
    (tmp_path / "tokenizers/clip_l").symlink_to(layouts.SHIPPED / "tokenizer")
    (tmp_path / "tokenizers/t5xxl").symlink_to(layouts.SHIPPED / "tokenizer_2")
    return tmp_path
