"""A node of your own: darken the corners of images."""

from typing import Annotated

from annotated_types import Ge, Le

import pipegraph as pg
from pipegraph.nodes.wire import Image


@pg.node("ImageVignette", category="image/filter")
def image_vignette(image: Image, strength: Annotated[float, Ge(0), Le(1)] = 0.5) -> Image:
    """Darken images towards their corners.

    Args:
        image: Images to darken.
        strength: 0 changes nothing, 1 makes the corners black.
    """
    import torch

    height, width = image.shape[1:3]
    y, x = torch.linspace(-1, 1, height)[:, None], torch.linspace(-1, 1, width)
    return image * (1 - strength * (x**2 + y**2) / 2)[..., None]
