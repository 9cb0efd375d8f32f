"""Wire types: the values that travel between nodes. Torch-free at run time; type checkers see the real classes.

IMAGE is float32 [B, H, W, C] in 0..1; MASK float32 [B, H, W] in 0..1 (1 = where to act); LATENT is
``{"samples": [B, C, H, W] or [B, C, T, H, W], "noise_mask"?, "batch_index"?, "original"?}``; "original" belongs to
samples with leftover noise (``models/sampling/original.py``). CONDITIONING is ``[[tensor, {...}], ...]``; SIGMAS is 1-D
float32, decreasing, with steps + 1 values. TOKENS is a batch of id sequences of any lengths; AUDIO is
``{"waveform": float32 [B, channels, samples], "sample_rate"}``; VIDEO is lazily decoded frames with a rate and sound;
KV_CACHE holds the keys and values of a batch of tokens and the logits of the next token.
A node never changes a value it gets: the cache may hand the same value to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from pipegraph.runtime.node import Seed, Wire

if TYPE_CHECKING:
    from torch import Tensor

    from pipegraph.models.clip_vision import ClipVision as _ClipVision
    from pipegraph.models.clip_vision import VisionStates as _VisionStates
    from pipegraph.models.control import ControlNet as _ControlNet
    from pipegraph.models.families.ltx.upscale import LatentUpscaler as _LatentUpscaler
    from pipegraph.models.llm.decode.prefill import Prefilled as _Prefilled
    from pipegraph.models.llm.decode.sampling import SamplingParams as _SamplingParams
    from pipegraph.models.llm.decode.structured import Grammar as _Grammar
    from pipegraph.models.llm.llm import LLM as _LLM
    from pipegraph.models.llm.tokens import Tokens as _Tokens
    from pipegraph.models.media.video import Video as _Video
    from pipegraph.models.model import Model as _Model
    from pipegraph.models.sampling.guiders import Guider as _Guider
    from pipegraph.models.sampling.noise import Noise as _Noise
    from pipegraph.models.sampling.samplers import Sampler as _Sampler
    from pipegraph.models.text.encoder import TextEncoder as _TextEncoder
    from pipegraph.models.vae.image import Vae as _Vae
else:
    _ClipVision = _VisionStates = _LatentUpscaler = Any
    _LLM = _Tokens = _Prefilled = _SamplingParams = _Grammar = Any
    Tensor = _ControlNet = _Model = _Guider = _Noise = _Sampler = _TextEncoder = _Vae = _Video = Any

Image = Annotated[Tensor, Wire("IMAGE")]
Mask = Annotated[Tensor, Wire("MASK")]
Latent = Annotated[dict[str, Any], Wire("LATENT")]
Conditioning = Annotated[list[Any], Wire("CONDITIONING")]
Sigmas = Annotated[Tensor, Wire("SIGMAS")]
Model = Annotated[_Model, Wire("MODEL")]
Clip = Annotated[_TextEncoder, Wire("CLIP")]
Vae = Annotated[_Vae, Wire("VAE")]
Audio = Annotated[dict[str, Any], Wire("AUDIO")]
Video = Annotated[_Video, Wire("VIDEO")]
ClipVision = Annotated[_ClipVision, Wire("CLIP_VISION")]
ClipVisionOutput = Annotated[_VisionStates, Wire("CLIP_VISION_OUTPUT")]
WanCamera = Annotated[Tensor, Wire("WAN_CAMERA_EMBEDDING")]
LatentUpscaleModel = Annotated[_LatentUpscaler, Wire("LATENT_UPSCALE_MODEL")]
ControlNet = Annotated[_ControlNet, Wire("CONTROL_NET")]
Sampler = Annotated[_Sampler, Wire("SAMPLER")]
Guider = Annotated[_Guider, Wire("GUIDER")]
Noise = Annotated[_Noise, Wire("NOISE")]
LLM = Annotated[_LLM, Wire("LLM")]
Tokens = Annotated[_Tokens, Wire("TOKENS")]
KVCache = Annotated[_Prefilled, Wire("KV_CACHE")]
Sampling = Annotated[_SamplingParams, Wire("SAMPLING")]
Grammar = Annotated[_Grammar, Wire("GRAMMAR")]
Any_ = Annotated[Any, Wire("*")]
Numbers = Annotated[Mapping[str, float], Wire("INT,FLOAT,BOOLEAN")]

SeedInt = Annotated[int, Ge(0), Le(2**64 - 1), Seed()]
"""An INT that seeds noise."""
