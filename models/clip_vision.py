"""The value on a CLIP_VISION wire: a CLIP or SigLIP vision encoder."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .loaded import Loaded
from .media.image_ops import Crop

_MEAN = (0.48145466, 0.4578275, 0.40821073)
_STD = (0.26862954, 0.26130258, 0.27577711)
"""Standard deviation by channel of CLIP's training images (transformers' OPENAI_CLIP_MEAN and ..._STD)."""
_HALF = (0.5, 0.5, 0.5)
"""SigLIP's mean and standard deviation (transformers' IMAGENET_STANDARD_MEAN and ..._STD)."""


@dataclass(frozen=True, eq=False, slots=True)
class VisionStates:
    """Hidden states of images, float32 [B, T, D] on the CPU: one token per patch, preceded by CLIP's class token."""

    last: Tensor
    """Last layer; for SigLIP (HunyuanVideo 1.5) after the final norm."""
    penultimate: Tensor
    """Second-to-last layer, which Wan reads."""


@dataclass(frozen=True, eq=False, slots=True)
class ClipVision:
    """A loaded vision encoder. Immutable."""

    loaded: Loaded

    @torch.no_grad()
    def encode(self, image: Tensor, crop: Crop) -> VisionStates:
        """Encode images [B, H, W, C] in 0..1; ``crop`` as for :func:`fitted`."""
        pixels = fitted(image, self.loaded.config.image_size, crop)
        siglip = self.loaded.config.model_type == "siglip_vision_model"
        mean, std = (pixels.new_tensor(v)[:, None, None] for v in ((_HALF, _HALF) if siglip else (_MEAN, _STD)))
        with self.loaded.resident() as network:
            out = network(pixel_values=self.loaded.inputs((pixels - mean) / std), output_hidden_states=True)
        last = out.last_hidden_state if siglip else out.hidden_states[-1]
        return VisionStates(last.float().cpu(), out.hidden_states[-2].float().cpu())


def fitted(image: Tensor, size: int, crop: Crop) -> Tensor:
    """Preprocess images [B, H, W, C]: [B, 3, size, size], rounded to 8 bits, in 0..1.

    ``center`` scales the shorter side and cuts the longer one at the centre, ``disabled`` squeezes the picture.
    """
    pixels = image[..., :3].movedim(-1, 1).float()
    if pixels.shape[1] != 3:
        pixels = pixels[:, :1].expand(-1, 3, -1, -1)
    h, w = pixels.shape[-2:]
    scale = size / min(h, w)
    new = (round(h * scale), round(w * scale)) if crop == "center" else (size, size)
    if new != (h, w):
        pixels = F.interpolate(pixels, new, mode="bicubic", antialias=True)
    top, left = (new[0] - size) // 2, (new[1] - size) // 2
    return (pixels[..., top : top + size, left : left + size] * 255).clamp(0, 255).round() / 255
