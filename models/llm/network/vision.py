"""Vision-language models: from images to inputs of the vision tower, and to embeddings among those of tokens.

Towers and decoders are transformers' classes on the kernel layer. The decoder runs in a session like any language
model; only its embeddings and, for some models, its positions are computed here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from .images import Picture, positions

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from ..decode.session import Span
    from ..llm import LLM
    from ..tokenizer import Tokenizer
    from ..tokens import Tokens
    from .layers import PagedCache

Placed = tuple[tuple[int, ...], tuple[int, int] | None]
"""Ids of an image, and the grid of its placeholders."""
MARK: Final = "<image>"


@dataclass(frozen=True, slots=True)
class VisionKind:
    """Image input of a family of models."""

    processor: str
    """transformers' image processor (Pillow and numpy)."""
    place: Callable[[Any, Mapping[str, Any], Tokenizer], Placed]
    """Config, output of the processor, tokenizer -> ids and grid."""
    grid: bool
    """Whether positions are 2-D (M-RoPE)."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the processor."""


def _place_grid(config: Any, read: Mapping[str, Any], tokenizer: Tokenizer) -> Placed:
    """Qwen: one token per merged patch."""
    merge = config.vision_config.spatial_merge_size
    _, height, width = (int(n) for n in read["image_grid_thw"][0])
    grid = (height // merge, width // merge)
    return (config.image_token_id,) * (grid[0] * grid[1]), grid


def _place_tiles(config: Any, read: Mapping[str, Any], tokenizer: Tokenizer) -> Placed:
    """Idefics 3 and SmolVLM: tiles with row and column, if the image was split, then the whole image."""
    vision = config.vision_config
    tile = MARK * int((vision.image_size // vision.patch_size) ** 2 / config.scale_factor**2)
    fake = "<fake_token_around_image>"
    (rows,), (columns,) = read["rows"][0], read["cols"][0]
    text = ""
    for row in range(1, rows + 1):
        text += "".join(f"{fake}<row_{row}_col_{column}>{tile}" for column in range(1, columns + 1)) + "\n"
    text += ("\n" if rows else "") + f"{fake}<global-img>{tile}{fake}"
    return tokenizer.encode(text, control=True), None


_QWEN: Final = VisionKind("Qwen2VLImageProcessorPil", _place_grid, grid=True)
_TILES: Final = {"return_row_col_info": True}
KINDS: Final[Mapping[str, VisionKind]] = {
    "qwen2_vl": _QWEN,
    "qwen2_5_vl": _QWEN,
    "qwen3_vl": _QWEN,
    "idefics3": VisionKind("Idefics3ImageProcessorPil", _place_tiles, grid=False, options=_TILES),
    "smolvlm": VisionKind("SmolVLMImageProcessorPil", _place_tiles, grid=False, options=_TILES),
}
"""By ``model_type``."""


@dataclass(frozen=True, slots=True)
class Vision:
    """Image input of a language model."""

    kind: VisionKind
    config: Any
    processor: Any = None
    """Image processor; None if the model's folder has no settings for it."""

    @classmethod
    def of(cls, network: PreTrainedModel) -> Vision | None:
        """Image input of a network; None if it has none that is supported."""
        kind = KINDS.get(network.config.model_type)
        return cls(kind, network.config) if kind else None

    def usual(self, **settings: Any) -> Vision:
        """With the default settings of the processor, or others."""
        import transformers

        return replace(self, processor=getattr(transformers, self.kind.processor)(**settings))

    def prepared(self, folder: Path) -> Vision:
        """With the settings in a model's folder.

        Raises:
            OSError, ValueError: the folder has none, or they cannot be read.
        """
        import transformers

        processor = getattr(transformers, self.kind.processor).from_pretrained(folder, local_files_only=True)
        return replace(self, processor=processor)

    def read(self, pixels: Tensor, tokenizer: Tokenizer) -> tuple[tuple[int, ...], Picture]:
        """The ids of an image float32 [H, W, C] in 0..1, and the image, its indices relative to them."""
        from PIL import Image

        array = (pixels[..., :3].clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()
        read = self.processor(images=[Image.fromarray(array)], return_tensors="pt", **self.kind.options)
        ids, grid = self.kind.place(self.config, read, tokenizer)
        spots = tuple(i for i, id in enumerate(ids) if id == self.config.image_token_id)
        inputs = {name: value for name, value in read.items() if isinstance(value, Tensor)}
        return ids, Picture(spots, inputs, grid)


def shown(llm: LLM, ids: Sequence[int], pictures: Sequence[Tensor]) -> Tokens:
    """The tokens of a chat, the one placeholder of each image expanded to the image's tokens.

    Args:
        llm: The model.
        ids: Ids of the rendered chat.
        pictures: Each float32 [H, W, C] in 0..1.

    Raises:
        ValueError: the model reads text only, or the numbers of placeholders and images differ.
    """
    from ..tokens import Tokens

    vision, tokenizer = check_vision(llm) if pictures else llm.vision, llm.tokenizer
    if vision is None:
        return Tokens((tuple(ids),))
    assert tokenizer is not None
    mark = vision.config.image_token_id
    if (count := list(ids).count(mark)) != len(pictures):
        raise ValueError(f"the chat has places for {count} pictures, but there are {len(pictures)}")
    expanded: list[int] = []
    placed: list[Picture] = []
    for id in ids:
        if id == mark:
            own, picture = vision.read(pictures[len(placed)], tokenizer)
            placed.append(picture.moved(len(expanded)))
            expanded += own
        else:
            expanded.append(id)
    return Tokens.of([expanded], [placed])


def check_vision(llm: LLM) -> Vision:
    """Image input of a model.

    Raises:
        ValueError: the model has none.
    """
    if llm.vision is None:
        kind = llm.loaded.network.config.model_type
        raise ValueError(
            f"{llm.loaded.name} ({kind}) reads text only and can be shown no picture; models that see are "
            f"{', '.join(KINDS)}"
        )
    if llm.vision.processor is None:
        raise ValueError(f"{llm.loaded.name} has no preprocessor_config.json, which says how pictures are prepared")
    return llm.vision


@dataclass(frozen=True, slots=True)
class _Features:
    """Output of the vision tower for an image."""

    states: Tensor
    """[spots, D]"""
    deeper: tuple[Tensor, ...]
    """[spots, D] each: added to the hidden states after the first layers (DeepStack)."""


class VisionRunner:
    """Runs the decoder of a vision-language model in a session, on tokens and images."""

    def __init__(self, llm: LLM, network: Any, vision: Vision) -> None:
        self.network = network
        self.grid = vision.kind.grid
        self.decoder = self.network.get_decoder()
        self.device, self.dtype = llm.loaded.device, llm.loaded.dtype
        accepted = inspect.signature(self.decoder.forward).parameters
        self._cache_name = "cache" if "cache" in accepted else "past_key_values"
        self._features: dict[int, list[tuple[Picture, _Features]]] = {}

    @torch.no_grad()
    def look(self, sequence: int, picture: Picture) -> None:
        """Run the vision tower on an image whose tokens will be appended to a sequence."""
        inputs = {name: value.to(self.device) for name, value in picture.inputs.items()}
        out = self.network.model.get_image_features(**inputs, return_dict=True)
        deeper = [torch.cat([*layer]) for layer in getattr(out, "deepstack_features", None) or ()]
        states = torch.cat([*out.pooler_output]).to(self.dtype)
        if len(states) != len(picture.spots):
            raise ValueError(f"the tower gives {len(states)} states for a picture with {len(picture.spots)} tokens")
        self._features.setdefault(sequence, []).append((picture, _Features(states, tuple(deeper))))

    def states(
        self, ids: Tensor, spans: Sequence[Span], pictures: Sequence[Sequence[Picture]], cache: PagedCache, tall: bool
    ) -> Tensor:
        """Last hidden states [T, D] of the tokens of a step.

        Args:
            ids: [T]
            spans: For each row its sequence, and the range of its tokens in it.
            pictures: Images of each sequence.
            cache: Of the session.
            tall: One token per row, rather than all in one row.
        """
        x = self.network.get_input_embeddings()(ids)
        each = [positions(pictures[s] if self.grid else (), start, stop) for s, start, stop in spans]
        shape = (-1, 1) if tall else (1, -1)
        at = torch.cat(each, 1).to(ids.device).view(3, *shape)
        x, options = self._with_pictures(x, spans, shape)
        out = self.decoder(
            inputs_embeds=x.view(*shape, x.shape[-1]),
            position_ids=at if self.grid else at[0],
            use_cache=True,
            **{self._cache_name: cache},
            **options,
        )
        states: Tensor = out.last_hidden_state.flatten(0, 1)
        return states

    def _with_pictures(self, x: Tensor, spans: Sequence[Span], shape: tuple[int, int]) -> tuple[Tensor, dict[str, Any]]:
        """Embeddings [T, D] with those of images, and further arguments of the decoder."""
        places: list[int] = []
        parts: list[Tensor] = []
        deeper: list[tuple[Tensor, ...]] = []
        begin = 0
        for sequence, start, stop in spans:
            for picture, features in self._features.get(sequence, ()):
                which = [i for i, spot in enumerate(picture.spots) if start <= spot < stop]
                if which:
                    places += [begin + picture.spots[i] - start for i in which]
                    parts.append(features.states[which])
                    deeper.append(tuple(layer[which] for layer in features.deeper))
            begin += stop - start
        if not parts:
            return x, {}
        where = torch.tensor(places, device=x.device)
        x = x.index_copy(0, where, torch.cat(parts))
        if not deeper[0]:
            return x, {}
        marked = torch.zeros(len(x), dtype=torch.bool, device=x.device)
        marked[where] = True
        layers = [torch.cat(layer) for layer in zip(*deeper, strict=True)]
        return x, {"visual_pos_masks": marked.view(shape), "deepstack_visual_embeds": layers}
