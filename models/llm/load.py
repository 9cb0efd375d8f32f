"""Language models by name: folders in transformers' layout, GGUF files, the hub cache, and embedded models.

Only safetensors and GGUF are read, and no code that comes with a model is run. Torch-free to import.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .. import paths
from ..loading.header_values import LoadError
from ..loading.headers import read_header, read_json, weight_files
from ..loading.language_names import check_folder
from ..loading.small_files import check_files, opened
from .add import KNOWN
from .gguf.architectures import check_header

if TYPE_CHECKING:
    import torch

    from .llm import LLM

KIND: Final = "llm"
SEEING: Final = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "idefics3", "smolvlm")
"""``model_type`` of supported vision-language models."""
_OF_TOKENIZER: Final = (
    "tokenizer",
    "special_tokens",
    "added_tokens",
    "vocab",
    "merges",
    "chat_template",
    "preprocessor_config",
    "processor_config",
)


def find(name: str) -> Path:
    """The folder or GGUF file of a model.

    Raises:
        LookupError: there is none; names the places searched, and the command for a model that can be added.
    """
    try:
        path = paths.resolve(KIND, name)
    except LookupError as e:
        if name in KNOWN:
            raise LookupError(f'"{name}" is not here yet; fetch it with: pipegraph models add {name}') from e
        raise
    if path.is_dir() and not (path / "config.json").is_file():
        files = sorted(path.glob("*.gguf"))
        if len(files) != 1:
            why = f"{len(files)} GGUF files" if files else "neither a config.json nor a GGUF file"
            raise LoadError(f"{path} is no folder of a language model: it holds {why}")
        return files[0]
    return path


def files_of(name: str) -> list[Path]:
    """Every file that the model's replies depend on."""
    path = find(name)
    if path.is_file():
        check_header(read_header(path))
        return [path]
    check_folder(path, writes=True)
    small = [f for f in sorted(path.iterdir()) if f.suffix in (".json", ".jinja", ".txt", ".model") and f.is_file()]
    needed = [
        f for f in small if f.name in ("config.json", "generation_config.json") or f.stem.startswith(_OF_TOKENIZER)
    ]
    return [*check_files(needed), *weight_files(path)]


def abilities(name: str) -> dict[str, bool]:
    """Whether a model reads images and audio; empty if it cannot be found."""
    try:
        path = find(name)
        config = read_json(path / "config.json") if path.is_dir() else {}
    except LookupError:
        return {}
    return {"pictures": config.get("model_type") in SEEING, "sounds": False}


def load_llm(name: str, device: torch.device, dtype: torch.dtype, *, quantize: str = "", mapped: bool = False) -> LLM:
    """Load a language model.

    Args:
        name: A folder or GGUF file among the models, ``org/name`` in the local hub cache, or ``embedded/...``.
        device: Device of the weights.
        dtype: Dtype of the computation.
        quantize: Format for weights of linear layers that are stored unquantized, one of ``quantize.FORMATS``.
        mapped: Leave packed weights of a GGUF file memory-mapped: less memory, slower replies.

    Raises:
        LookupError: there is no such model, or its files cannot be used.
    """
    path = find(name)
    if path.is_dir():
        return load_folder(path, device, dtype, quantize, name)
    if read_header(path).form != "GGUF":
        raise LoadError(f"{path} is one file of weights; name its folder, with config.json and tokenizer beside it")
    from .gguf.load import load_gguf

    return load_gguf(path, device, dtype, name=name, mapped=mapped)


def load_folder(
    folder: Path,
    device: torch.device,
    dtype: torch.dtype,
    quantize: str,
    name: str,
    tokenizer: Path | None = None,
    *,
    encodes: bool = False,
) -> LLM:
    """Load a folder in transformers' layout.

    Args:
        folder: With ``config.json`` and safetensors files.
        device: Device of the weights.
        dtype: Dtype of the computation.
        quantize: Format for weights of linear layers that are stored unquantized, or empty.
        name: Name in errors and records.
        tokenizer: Folder of the tokenizer, if it is another.
        encodes: Whether it only encodes text, and so needs no output layer.

    Raises:
        LoadError: a file cannot be read, or tensors are missing or do not fit.
    """
    from ..loading.language_folder import load_network
    from .llm import LLM
    from .tokenizer import Tokenizer

    config = read_json(folder / "config.json")
    reader = Tokenizer.load(tokenizer or folder)
    network = load_network(folder, device, dtype, quantize, sees=config.get("model_type") in SEEING, encodes=encodes)
    label = f"the model ({config.get('model_type', 'no model_type')})"
    llm = opened(label, folder, lambda: LLM.of(network, reader, name))
    vision = llm.vision
    if vision is None or not any((folder / f"{part}_config.json").is_file() for part in ("preprocessor", "processor")):
        return llm
    return replace(llm, vision=opened("the image processor", folder, lambda: vision.prepared(folder)))
