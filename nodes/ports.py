"""Input types that many nodes share, with their descriptions. Torch-free."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from pipegraph.runtime.node import Doc

from .wire import Conditioning, Image, Model, Vae

FRAME_WIDTH = Doc("Frame width in pixels.")
FRAME_HEIGHT = Doc("Frame height in pixels.")

PositiveConditioning = Annotated[Conditioning, Doc("Positive conditioning: what to show.")]
NegativeConditioning = Annotated[Conditioning, Doc("Negative conditioning: what to avoid.")]
Denoiser = Annotated[Model, Doc("Diffusion model.")]
ModelVae = Annotated[Vae, Doc("The model's VAE.")]
StartImage = Annotated[Image, Doc("First frames; scaled to cover the size and cropped at the centre.")]
VideoCount = Annotated[int, Ge(1), Le(4096), Doc("Number of videos.")]
