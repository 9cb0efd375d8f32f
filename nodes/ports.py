"""Types of inputs that many nodes share, each with the text that says what it is. Torch-free."""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le

from pipegraph.runtime.node import Doc

from .wire import Conditioning, Image, Model, Vae

FRAME_SIDE = Doc("Of the frames, in pixels.")

PositiveConditioning = Annotated[Conditioning, Doc("What is to be seen.")]
NegativeConditioning = Annotated[Conditioning, Doc("What is not to be seen.")]
Denoiser = Annotated[Model, Doc("The network that removes the noise.")]
ModelVae = Annotated[Vae, Doc("The model's VAE.")]
StartImage = Annotated[Image, Doc("The first frames; scaled to cover the size and cut at the centre.")]
VideoCount = Annotated[int, Ge(1), Le(4096), Doc("How many clips.")]
