"""Language models as text encoders: transformers folders and single files. Torch-free to import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..families import TEXT_FAMILIES
from ..llm.gguf.architectures import check_header
from ..llm.gguf.spiece import GEMMA_CHAT, load_spiece
from ..llm.load import SEEING, load_folder
from ..loading.header_values import LoadError
from ..loading.headers import read_header, read_json, weight_files
from ..loading.language_file import check_file, kind_in, read_network, ties
from ..loading.language_names import HEADLESS, check_folder
from ..loading.small_files import check_files
from ..loading.tokenizers import carries_spiece
from ..paths import hub_cache, hub_snapshot, model_roots, pipeline_index, resolve
from .parts import encoder_files

if TYPE_CHECKING:
    from ..llm.llm import LLM
    from ..loading.place import Place
    from ..text.encoder import Encoder
    from ..text.facts import EncoderFacts

KINDS: Final = {kind for family in TEXT_FAMILIES.values() for facts in family.language for kind in facts.models}
_PREPARATION: Final = "processor/preprocessor_config.json"
"""Image processor config of a pipeline's text encoder."""
_PIXELS: Final = {"shortest_edge": 3136, "longest_edge": 12845056}
"""Default of Qwen2.5-VL where no file has an image processor config: minimum and maximum pixels of an image."""
_OF_QWEN3: Final = {
    "patch_size": 16,
    "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3,
    "size": {"shortest_edge": 65536, "longest_edge": 16777216},
}
"""Defaults of Qwen3-VL's image processor."""
CHATS: Final = {"gemma3_text": GEMMA_CHAT}
"""Chat templates by ``model_type``, for files with a SentencePiece model."""
TEXT_OF_VL: Final = "qwen2_5_vl_text"
_TOKENIZER: Final = ("tokenizer.json", "tokenizer.model", "vocab.json")


def kind_of(path: Path) -> str:
    """The ``model_type`` of a language model that can serve as text encoder; empty if the path is none."""
    folder = folder_of(path)
    if folder is not None:
        return _known(read_json(folder / "config.json").get("model_type"))
    if not path.is_file():
        return ""
    header = read_header(path)
    return _known(header.metadata.get("general.architecture")) if header.form == "GGUF" else kind_in(header)


def _known(kind: Any) -> str:
    return str(kind) if kind in KINDS else ""


def tokenizer_files_of(path: Path, encoders: Sequence[EncoderFacts]) -> list[Path]:
    """Tokenizer files of a language model that lie outside its weight file.

    Raises:
        LoadError: it is nowhere; says where it was looked for.
    """
    if kind_of(path) in CHATS and carries_spiece(path):
        return []
    folder = tokenizer_of(path, encoders)
    return [f for f in sorted(folder.iterdir()) if f.is_file() and f.suffix != ".safetensors"]


def _carries_tokenizer(path: Path) -> bool:
    return path.is_file() and read_header(path).form == "GGUF"


def folder_of(path: Path) -> Path | None:
    """The folder of the network: the path itself or a pipeline component; None if there is none."""
    inner = path / "text_encoder" if pipeline_index(path) else path
    return inner if (inner / "config.json").is_file() else None


def tokenizer_of(path: Path, encoders: Sequence[EncoderFacts]) -> Path:
    """The folder of the tokenizer for a folder or file.

    Raises:
        LoadError: it is nowhere; says where it was looked for.
    """
    folder = folder_of(path) or path.parent
    places = [folder / "tokenizer"] if path.is_file() else [folder, folder.parent / "tokenizer", folder / "tokenizer"]
    places += [root / "tokenizers" / facts.name for root in model_roots() for facts in encoders]
    repos = [repo for facts in encoders for repo in facts.repos]
    places += [snapshot / "tokenizer" for repo in repos if (snapshot := hub_snapshot(repo))]
    for place in places:
        if any((place / name).is_file() for name in _TOKENIZER):
            return place
    raise LoadError(
        f"no tokenizer for {path} ({' or '.join(_TOKENIZER)}): put it into one of {', '.join(map(str, places))}; or "
        f"have one of {', '.join(repos)} in {hub_cache()}"
    )


def files_of(path: Path, known: Sequence[EncoderFacts] = ()) -> list[Path]:
    """Every file that affects the encoder, including its tokenizer.

    ``known`` are facts of encoders that no type of CLIPLoader loads.
    """
    folder, kind = folder_of(path), kind_of(path)
    if _carries_tokenizer(path):
        check_header(read_header(path))
        return [path]
    families = {family.id: family for family in TEXT_FAMILIES.values()}
    encoders = [facts for family in families.values() for facts in family.language if kind in facts.models] + [*known]
    tokenizer = tokenizer_files_of(path, encoders)
    if folder is None:
        check_file(read_header(path), kind)
        return [path, *check_files(tokenizer)]
    check_folder(folder, writes=False)
    own = [f for f in sorted(folder.iterdir()) if f.is_file() and f.name.endswith("config.json")]
    own += [f for f in [folder.parent / _PREPARATION] if f.is_file()]
    if pipeline_index(path):
        own += encoder_files(path)
    return list(dict.fromkeys([*check_files([*own, *tokenizer]), *weight_files(folder)]))


def abilities(name: str) -> dict[str, bool]:
    """Whether a text encoder reads images and audio; empty if it cannot be found."""
    try:
        return {"pictures": kind_of(resolve("text_encoders", name)) in SEEING, "sounds": False}
    except LookupError:
        return {}


def load_language_encoder(facts: EncoderFacts, path: Path, name: str, place: Place) -> Encoder:
    """Load a language model as text encoder from a file or folder; ``name`` is the user's name for it.

    Raises:
        LoadError: it is none of the kinds that the encoder may be.
    """
    from ..text.encoder import Encoder

    llm = _with_eyes(load_llm(path, facts, name, place), folder_of(path))
    limit = min(facts.limit, llm.facts.context)
    pad_to, writes = min(facts.pad_to, limit), _writes(path, kind_of(path), llm)
    return Encoder(facts, llm.loaded, llm.tokenizer, limit, pad_to, source=llm, writes=writes)


def load_llm(path: Path, facts: EncoderFacts, name: str, place: Place) -> LLM:
    """Load a language model from a transformers folder, a GGUF file or a safetensors file.

    Raises:
        LoadError: it is none of the kinds that the encoder may be.
    """
    folder = folder_of(path)
    if folder is None and kind_of(path) not in facts.models:
        raise LoadError(
            f"{path} is no {' or '.join(facts.models)}: neither a folder in transformers' layout nor a file of it, "
            "GGUF or safetensors with names as ComfyUI's files have them (`model.layers.0...`)"
        )
    if _carries_tokenizer(path):
        from ..llm.gguf.load import load_gguf

        return load_gguf(path, place.device, place.dtype, name=name)
    if folder is None:
        return load_file(path, facts, name, place)
    tokenizer = tokenizer_of(path, [facts])
    if kind_of(path) == TEXT_OF_VL:
        return _load_text_of_vl(folder, tokenizer, name, place)
    return load_folder(folder, place.device, place.dtype, place.quantize, name, tokenizer, encodes=True)


def _load_text_of_vl(folder: Path, tokenizer: Path, name: str, place: Place) -> LLM:
    """The text model of a Qwen2.5-VL, as in HunyuanVideo 1.5's folders: without images it equals Qwen2."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    from ..llm.llm import LLM
    from ..llm.tokenizer import Tokenizer
    from ..loading.language_folder import load_class

    values = {k: v for k, v in read_json(folder / "config.json").items() if k not in ("model_type", "architectures")}
    rope = values.get("rope_parameters") or values.pop("rope_scaling", None) or {}
    theta = rope.get("rope_theta") or values.pop("rope_theta", 1e6)
    rope = {"rope_type": "default", "rope_theta": theta}
    # There is no output layer: the embedding takes its place, so that nothing is made up.
    config = Qwen2Config(**values | {"rope_parameters": rope, "tie_word_embeddings": True})
    network = load_class(Qwen2ForCausalLM, config, folder, place.device, place.dtype, place.quantize)
    return LLM.of(network, Tokenizer.load(tokenizer), name)


def _with_eyes(llm: LLM, folder: Path | None) -> LLM:
    """The model with its image processor, if it has a vision tower."""
    from dataclasses import replace

    if llm.vision is None or llm.vision.processor is not None:
        return llm
    file = folder.parent / _PREPARATION if folder else None
    usual: dict[str, Any] = _OF_QWEN3 if llm.loaded.network.config.model_type == "qwen3_vl" else {"size": _PIXELS}
    vision = llm.vision.prepared(file.parent) if file and file.is_file() else llm.vision.usual(**usual)
    return replace(llm, vision=vision)


def _writes(path: Path, kind: str, llm: LLM) -> bool:
    """Whether the files hold the output layer; else it is tied to the embedding."""
    folder = folder_of(path)
    files = weight_files(folder) if folder else [path]
    if _carries_tokenizer(path) or any("lm_head.weight" in read_header(file).tensors for file in files):
        return True
    config = llm.loaded.network.config
    if folder:
        return kind != TEXT_OF_VL and not getattr(config, HEADLESS, False)
    return ties(kind, config.get_text_config().hidden_size)


def load_file(path: Path, facts: EncoderFacts, name: str, place: Place) -> LLM:
    """Load a language model from a single safetensors file."""
    from ..llm.llm import LLM
    from ..llm.tokenizer import Tokenizer

    kind = kind_of(path)
    if kind in CHATS and carries_spiece(path):
        tokenizer = load_spiece(path, CHATS[kind])
    else:
        tokenizer = Tokenizer.load(tokenizer_of(path, [facts]))
    network = read_network(read_header(path), kind, place.device, place.dtype, place.quantize)
    return LLM.of(network, tokenizer, name)
