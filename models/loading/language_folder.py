"""Language models in transformers folders. Code in the folder is never run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ..quantize import count_bytes
from .complete import check_counts, refuse
from .filling import Filling, pack_all
from .header_values import LoadError
from .headers import read_header, read_json, weight_files
from .language_names import HEADLESS
from .lock import LOCK
from .quantized import pieces_of
from .transformers_networks import empty_network, fill_network


def load_network(
    folder: Path, device: torch.device, dtype: torch.dtype, quantize: str, *, sees: bool, encodes: bool = False
) -> Any:
    """The network of a folder with its generation config, not on the kernel layer yet.

    Args:
        folder: With ``config.json`` and safetensors files.
        device: Device of its weights.
        dtype: Compute dtype.
        quantize: How to keep weights of linear layers that are stored plain, one of ``quantize.FORMATS``, or empty.
        sees: Load the vision tower, too.
        encodes: Text encoder only: files may lack the output layer.

    Raises:
        LoadError: its class is not known, or its tensors do not fit its config.
    """
    try:
        with LOCK:
            config, cls = _config_and_class(folder, sees)
            settings = _generation_settings(folder)
    except (ValueError, OSError, KeyError, TypeError, AttributeError, ImportError) as e:
        raise _unreadable(folder, e) from e
    if encodes and not config.tie_word_embeddings and not _has_head(folder):
        _tie(config)
    if getattr(config, "quantization_config", None):
        network = _by_transformers(cls, folder, config, device, dtype)
    else:
        network = load_class(cls, config, folder, device, dtype, quantize)
    if settings is not None:
        network.generation_config = settings
    return network


def load_class(cls: Any, config: Any, folder: Path, device: torch.device, dtype: torch.dtype, quantize: str) -> Any:
    """A network of a class and config with a folder's tensors; see :func:`load_network`."""
    pieces = pieces_of(read_header(file) for file in weight_files(folder))
    check_counts(folder, config.to_dict(), len(pieces))
    try:
        network = empty_network(cls, config, dtype)
    except (ValueError, KeyError, TypeError, AttributeError, ImportError, ZeroDivisionError, RuntimeError) as e:
        raise _unreadable(folder, e) from e
    how = Filling(origin=folder, label=cls.__name__, device=device, dtype=dtype, quantize=quantize)
    pack_all(network, fill_network(network, pieces, how))
    count_bytes(network)
    return network


def _has_head(folder: Path) -> bool:
    return any(name.endswith("lm_head.weight") for file in weight_files(folder) for name in read_header(file).tensors)


def _tie(config: Any) -> None:
    """Tie the output layer to the embedding."""
    for part in (config, config.get_text_config()):
        part.tie_word_embeddings = True
    setattr(config, HEADLESS, True)


def _config_and_class(folder: Path, sees: bool) -> tuple[Any, Any]:
    """The config in ``config.json``, and its class in transformers."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText
    from transformers.models.auto.auto_factory import _get_model_class

    config: Any = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    auto: Any = AutoModelForImageTextToText if sees else AutoModelForCausalLM
    if type(config) not in auto._model_mapping:
        raise ValueError(f"models of type {config.model_type} do not write text")
    cls = _get_model_class(config, auto._model_mapping)
    text = config.sub_configs.get("text_config")
    return config.get_text_config() if text is not None and cls.config_class is text else config, cls


def _generation_settings(folder: Path) -> Any:
    """The generation config of a folder; None without one."""
    from transformers import GenerationConfig

    if not (folder / "generation_config.json").is_file():
        return None
    read_json(folder / "generation_config.json")
    return GenerationConfig.from_pretrained(folder, local_files_only=True)


def _by_transformers(cls: Any, folder: Path, config: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """Load a network whose weights are packed in a format that only transformers reads; nothing may be missing."""
    if index := next(iter(folder.glob("*.safetensors.index.json")), None):
        config.transformers_weights = index.name
    try:
        with LOCK:
            network, info = cls.from_pretrained(
                folder,
                config=config,
                dtype=dtype,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
            )
    except (ValueError, OSError, KeyError, TypeError, ImportError, RuntimeError) as e:
        raise _unreadable(folder, e) from e
    name = cls.__name__
    refuse(
        folder,
        {
            f"tensors of {name} are missing": sorted(info["missing_keys"]),
            f"tensors have no place in {name}": sorted(info["unexpected_keys"]),
            f"tensors do not fit {name}": [f"`{mismatch[0]}`" for mismatch in info["mismatched_keys"]],
        },
    )
    return network.to(device)


def _unreadable(folder: Path, error: Exception) -> LoadError:
    config = read_json(folder / "config.json")
    own = "; it needs code of its own, which is not run" if "auto_map" in config else ""
    return LoadError(f"{folder} ({config.get('model_type', 'no model_type')}) cannot be opened{own}: {error}")
