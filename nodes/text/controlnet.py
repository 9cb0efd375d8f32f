"""Guide a picture by a hint picture."""

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
    """Both conditionings under the control."""

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
    """Let a ControlNet steer the picture by a hint: edges, depth and the like. Several can follow one another.

    The hint is scaled to cover the picture and cut at the centre. One hint serves a whole batch; several must be as
    many as the pictures. Strength 0 changes nothing.

    Args:
        positive: Conditioning to steer.
        negative: The same for the negative one.
        control_net: The ControlNet.
        image: The hint.
        strength: How much it counts.
        start_percent: Where on the way from noise to picture it begins to act.
        end_percent: Where it ends.
        vae: The model's VAE, for ControlNets that read latents, such as FLUX's.
    """
    from pipegraph.models.control import Control

    if strength == 0:
        return Controlled(positive, negative)
    control = Control(control_net, image, strength, start_percent, end_percent, vae)
    return Controlled(_with(positive, control), _with(negative, control))


def _with(conditioning: list[Any], control: Control) -> list[list[Any]]:
    return [[states, {**extras, "control": (*extras.get("control", ()), control)}] for states, extras in conditioning]
