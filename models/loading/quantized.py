"""Quantized weights in safetensors files: formats and scales. Torch-free: reads the header and small tensors.

ComfyUI's files come in two kinds. The older ones have a tensor ``scaled_fp8`` as a mark, and beside each fp8 weight
``X.scale_weight`` (and ``X.scale_input``, for kernels that quantize activations too). The newer ones say what each
layer is, in JSON: in a uint8 tensor ``X.comfy_quant``, or for all layers in the file's metadata
(``_quantization_metadata``); beside the weight is ``X.weight_scale`` (and ``X.input_scale``). NVFP4 has two numbers in
a byte, an fp8 scale for each 16 of a row, in tiles as Nvidia's products want them (or in rows, where a shape tells it),
and one for all of them, ``X.weight_scale_2``. Files of plain fp8 have neither mark nor scale.

A scale that is missing, or a layout that is not known, is an error: its values would be wrong by orders of magnitude.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from typing import Any, Final

from .header_values import Header, LoadError, json_object
from .pieces import Piece

_FORMATS: Final = {
    "float8_e4m3fn": ("F8_E4M3", ("F8_E4M3", "U8")),
    "float8_e5m2": ("F8_E5M2", ("F8_E5M2", "U8")),
    "int8_tensorwise": ("I8", ("I8",)),
}
"""ComfyUI's format names -> value dtype, stored dtypes."""
_NVFP4, _GROUP, _TILE = "nvfp4", 16, (128, 4)
"""Values of a row that share a scale; rows and columns of a tile of scales."""
_PACKED: Final = ("F8_E4M3", "F8_E5M2", "I8")
_SCALES: Final = ("weight_scale", "scale_weight")
_OF_INPUTS: Final = ("input_scale", "scale_input")
"""Fixed activation scales; unused."""
_MARK, _NOTE, _METADATA = "scaled_fp8", "comfy_quant", "_quantization_metadata"
_UNDERSTOOD: Final = {
    "format",
    "convrot",
    "convrot_groupsize",
    "full_precision_matrix_mult",
    "per_row",
    "per_channel",
    "orig_dtype",
    "orig_shape",
    "params",
}
_BLOCKS: Final = (4, 16, 64, 256)
"""Block sizes of ConvRot's rotation."""
_MOST_NOTE: Final = 1 << 16


def pieces_of(headers: Iterable[Header]) -> dict[str, Piece]:
    """All tensors of the files by stored name; weights carry their scales."""
    pieces: dict[str, Piece] = {}
    for header in headers:
        whole = {k: Piece(header.path, k, e.shape, e.dtype, e.begin) for k, e in header.tensors.items()}
        pieces |= with_scales(header, whole) if header.form == "safetensors" else whole
    return pieces


def with_scales(header: Header, pieces: Mapping[str, Piece]) -> dict[str, Piece]:
    """The weights of a file with scales and rotations; auxiliary tensors are removed.

    Raises:
        LoadError: a scale is missing or does not fit, or a layer is stored in a way that is not known.
    """
    left = dict(pieces)
    marks = [n for n in left if n.rpartition(".")[2] == _MARK]
    scaled = tuple(left.pop(n).key.removesuffix(_MARK) for n in marks)
    notes = _from_metadata(header, left) | _from_notes(header, left)
    for layer, note in notes.items():
        _apply(header, left, layer, note)
    _settle_tiles(header, left)
    for name in [n for n in left if n.endswith(".weight") and left[n].dtype in _PACKED]:
        layer = name.removesuffix(".weight")
        if layer in notes:
            continue
        if _scale_of(left, layer):
            _bind(header, left, layer, rotate=0)
        elif left[name].dtype == "I8" or (len(left[name].shape) == 2 and name.startswith(scaled or ("\0",))):
            raise LoadError(_missing(header, layer))
    return left


def _from_metadata(header: Header, pieces: Mapping[str, Piece]) -> dict[str, Any]:
    """Format notes by layer from the file's metadata, where the network's prefix may be missing."""
    if _METADATA not in header.metadata:
        return {}
    notes = {}
    for name, note in (
        json_object(header.metadata[_METADATA], f"{header.path}: `{_METADATA}`").get("layers") or {}
    ).items():
        meant = [n for n in pieces if n == f"{name}.weight"] or [n for n in pieces if n.endswith(f".{name}.weight")]
        if len(meant) != 1:
            raise LoadError(f"{header.path}: its metadata says how `{name}` is quantized, which it does not hold")
        notes[meant[0].removesuffix(".weight")] = note if isinstance(note, dict) else {"format": note}
    return notes


def _from_notes(header: Header, left: dict[str, Piece]) -> dict[str, Any]:
    """Format notes by layer from their tensors, which are removed."""
    names = [n for n in left if n.rpartition(".")[2] == _NOTE]
    notes = {}
    with header.path.open("rb") as file:
        for name in names:
            note = left.pop(name)
            if note.dtype != "U8" or prod(note.shape) > _MOST_NOTE:
                raise LoadError(f"{header.path}: `{name}` is no JSON text in bytes")
            file.seek(note.begin)
            notes[name.removesuffix(f".{_NOTE}")] = json_object(file.read(prod(note.shape)), f"{header.path}: `{name}`")
    return notes


def _apply(header: Header, left: dict[str, Piece], layer: str, note: Mapping[str, Any]) -> None:
    """Apply the format note of one layer."""
    note = {**(note["params"] if isinstance(note.get("params"), dict) else {}), **note}
    kind, weight = note.get("format"), left.get(f"{layer}.weight")
    where = f"{header.path}: layer `{layer}`"
    if kind not in (*_FORMATS, _NVFP4):
        raise LoadError(
            f"{where} is stored in the format {kind!r}, which is not read; these are: "
            f"{', '.join([*_FORMATS, _NVFP4])} (int8_convrot is int8_tensorwise, rotated)"
        )
    if unknown := note.keys() - _UNDERSTOOD:
        raise LoadError(f"{where} is quantized with {', '.join(sorted(unknown))}, which is not known")
    if kind == _NVFP4:
        _bind_blocks(where, left, layer)
        return
    values, stored = _FORMATS[kind]
    if weight is None or weight.dtype not in stored or len(weight.shape) != 2:
        there = f"{weight.dtype} {list(weight.shape)}" if weight else "not there"
        raise LoadError(f"{where} should be a matrix of {kind}; its weight is {there}")
    rotate = int(note.get("convrot_groupsize", 256)) if note.get("convrot") else 0
    if rotate and (kind != "int8_tensorwise" or rotate not in _BLOCKS or weight.shape[1] % rotate):
        raise LoadError(f"{where} is rotated by blocks of {rotate}, which do not fit {kind} {list(weight.shape)}")
    left[f"{layer}.weight"] = replace(weight, dtype=values)
    _bind(header, left, layer, rotate)


def _bind(header: Header, left: dict[str, Piece], layer: str, rotate: int) -> None:
    """Attach a scale to a weight."""
    weight, name = left[f"{layer}.weight"], _scale_of(left, layer)
    if not name:
        raise LoadError(_missing(header, layer))
    if len(weight.shape) != 2:
        raise LoadError(f"{header.path}: `{layer}.weight` {list(weight.shape)} has a scale, and is no matrix")
    scale = left.pop(name)
    rows = weight.shape[0]
    if scale.shape not in ((), (1,), (1, 1), (rows,), (rows, 1)) or scale.dtype not in ("F32", "F16", "BF16"):
        raise LoadError(
            f"{header.path}: `{name}` {scale.dtype} {list(scale.shape)} is no scale for a weight "
            f"{list(weight.shape)}: it should be one number, or one for each row"
        )
    left[f"{layer}.weight"] = replace(weight, scale=scale, rotate=rotate)
    for ending in _OF_INPUTS:
        left.pop(f"{layer}.{ending}", None)


def _bind_blocks(where: str, left: dict[str, Piece], layer: str) -> None:
    """Attach NVFP4 scales to a weight."""
    weight, scale, outer = (left.get(f"{layer}.{name}") for name in ("weight", "weight_scale", "weight_scale_2"))
    if weight is None or scale is None or outer is None:
        raise LoadError(f"{where} is in NVFP4, which needs `weight`, `weight_scale` and `weight_scale_2`")
    rows, columns = weight.shape[0], 2 * weight.shape[-1]
    tall, wide = (-(-n // side) * side for n, side in zip((rows, columns // _GROUP), _TILE, strict=True))
    fits = weight.dtype == "U8" and len(weight.shape) == 2 and columns % _GROUP == 0 and prod(outer.shape) == 1
    plain = scale.shape == (rows, columns // _GROUP)
    whole = (rows, columns // _GROUP) == (tall, wide)
    if (
        not fits
        or not (plain or prod(scale.shape) == tall * wide)
        or scale.dtype not in ("F8_E4M3", "U8")
        or outer.dtype != "F32"
    ):
        raise LoadError(
            f"{where} should be in NVFP4; its weight is {weight.dtype} {list(weight.shape)}, its scales "
            f"are {scale.dtype} {list(scale.shape)} and {outer.dtype} {list(outer.shape)}"
        )
    scales = replace(scale, dtype="F8_E4M3", shape=scale.shape if plain else (tall, wide))
    tiled = None if plain and whole else not plain
    left[f"{layer}.weight"] = replace(
        weight, dtype="NVFP4", shape=(rows, columns), scale=scales, outer=outer, tiled=tiled
    )
    for name in ("weight_scale", "weight_scale_2", *_OF_INPUTS):
        left.pop(f"{layer}.{name}", None)


def _settle_tiles(header: Header, left: dict[str, Piece]) -> None:
    """Decide the layout of NVFP4 scales for a whole file from layers whose shapes tell it.

    Scales in tiles are filled up to whole tiles; of layers that are whole tiles anyway the shape is the same.
    """
    known = {p.tiled for p in left.values() if p.tiled is not None}
    if len(known) > 1:
        raise LoadError(f"{header.path}: the scales of some layers in NVFP4 lie in tiles, those of others in rows")
    for name, piece in left.items():
        if piece.dtype == "NVFP4" and piece.tiled is None and known:
            left[name] = replace(piece, tiled=known.copy().pop())


def _scale_of(pieces: Mapping[str, Piece], layer: str) -> str:
    return next((f"{layer}.{ending}" for ending in _SCALES if f"{layer}.{ending}" in pieces), "")


def _missing(header: Header, layer: str) -> str:
    return (
        f"{header.path}: the weight of `{layer}` is stored scaled, but there is neither "
        f"{' nor '.join(f'`{layer}.{ending}`' for ending in _SCALES)}; without it its values would be wrong"
    )
