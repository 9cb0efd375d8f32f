"""Guide an image with a ControlNet and a hint image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from annotated_types import Ge, Le

from pipegraph.runtime.node import NotBelow, Step, node, outputs

from ..wire import Conditioning, ControlNet, Image, Vae

if TYPE_CHECKING:
    from pipegraph.models.control import Control

Strength = Annotated[float, Ge(0), Le(10), Step(0.01)]
Percent = Annotated[float, Ge(0), Le(1), Step(0.001)]


@outputs
class Controlled:
    """Both conditionings with the ControlNet attached."""

    positive: Conditioning
    negative: Conditioning


@node("ControlNetApplyAdvanced", category="conditioning/controlnet", title="Apply ControlNet")
def apply_control_net(
    positive: Conditioning,
    negative: Conditioning,
    control_net: ControlNet,
    image: Image,
    strength: Strength = 1.0,
    start_percent: Percent = 0.0,
    end_percent: Annotated[Percent, NotBelow("start_percent")] = 1.0,
    vae: Vae | None = None,
) -> Controlled:
    """Steer the image with a ControlNet and a hint: edges, depth and the like. Several can be chained.

    The hint is scaled to cover the image and cropped at the centre. One hint serves a whole batch; several must be
    as many as the images. Strength 0 changes nothing.

    Args:
        positive: Positive conditioning.
        negative: Negative conditioning.
        control_net: The ControlNet.
        image: Hint image.
        strength: Weight of the ControlNet.
        start_percent: Fraction of the sampling at which it starts.
        end_percent: Fraction of the sampling at which it ends.
        vae: The model's VAE, for ControlNets that read latents, such as FLUX's.
    """
    from pipegraph.models.control import Control

    if strength == 0:
        return Controlled(positive, negative)
    control = Control(control_net, image, strength, start_percent, end_percent, vae)
    return Controlled(_with(positive, control), _with(negative, control))


def _with(conditioning: list[Any], control: Control) -> list[list[Any]]:
    return [[states, {**extras, "control": (*extras.get("control", ()), control)}] for states, extras in conditioning]
