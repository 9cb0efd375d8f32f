"""Our ControlNet equals diffusers' FluxControlNetPipeline; hints fit any size and act where they are told to."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.access import Access, granted
from pipegraph.models.checkpoints.load import load_control_net
from pipegraph.models.control import Control, ControlNet
from pipegraph.models.families import flux
from pipegraph.models.loading.place import Place
from pipegraph.nodes.text.controlnet import apply_control_net

# diffusers' FluxControlNetModel uses a class that diffusers itself calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*FluxPosEmbed:FutureWarning")
PROMPT = ["a red apple on the beach"]
CPU = Place(torch.device("cpu"), torch.float32)


@pytest.fixture(scope="module")
def control_folder(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random FluxControlNetModel whose residuals are not zero, with one block of each kind."""
    from diffusers import FluxControlNetModel

    torch.manual_seed(1)
    net = FluxControlNetModel(
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=24,
        axes_dims_rope=(4, 4, 8),
        guidance_embeds=True,
    )
    for part in (net.controlnet_x_embedder, *net.controlnet_blocks, *net.controlnet_single_blocks):
        torch.nn.init.normal_(part.weight, std=0.2)
    folder = tmp_path_factory.mktemp("control")
    net.save_pretrained(folder)
    return folder


@pytest.fixture
def net(control_folder: Path, load: Any) -> ControlNet:
    with granted(Access.to(control_folder)):
        return load_control_net(str(control_folder), CPU)


def noise_for(batch: int, rows: int, columns: int) -> Tensor:
    return torch.randn(batch, 4, rows, columns, generator=torch.Generator().manual_seed(7))


def test_equals_diffusers(load: Any, pipeline: Any, net: ControlNet, control_folder: Path) -> None:
    from diffusers import FluxControlNetModel, FluxControlNetPipeline

    pipe = FluxControlNetPipeline(
        **pipeline("dev").components | {"controlnet": FluxControlNetModel.from_pretrained(control_folder)}
    )
    pipe.set_progress_bar_config(disable=True)
    noise, hint = noise_for(1, 10, 6), torch.rand(1, 80, 48, 3)
    expected = pipe(
        prompt=PROMPT,
        height=80,
        width=48,
        num_inference_steps=3,
        guidance_scale=2.0,
        max_sequence_length=16,
        latents=flux.pack(noise),
        control_image=hint.movedim(-1, 1) * 2 - 1,
        controlnet_conditioning_scale=0.7,
        output_type="latent",
        return_dict=False,
    )[0]
    expected = flux.unpack(expected, 10, 6) / 0.7 + 0.3
    ours = load("dev")
    plain = ours.run(ours.encode(PROMPT), noise)
    controlled = ours.run(ours.encode(PROMPT, control=(Control(net, hint, 0.7, vae=ours.vae),)), noise)
    assert (controlled - expected).abs().max() < 1e-4
    assert (plain - expected).abs().max() > 1e-2


@pytest.mark.parametrize("shape", [(1, 40, 90, 3), (1, 200, 30, 4), (1, 7, 7, 1)])
def test_any_hint_fits_any_latent(load: Any, net: ControlNet, shape: tuple[int, ...]) -> None:
    """Other sizes, proportions, gray and RGBA; a latent that is no whole number of tokens."""
    ours, noise = load("dev"), noise_for(1, 9, 7)
    plain = ours.run(ours.encode(PROMPT), noise)
    control = Control(net, torch.rand(shape), vae=ours.vae)
    assert (ours.run(ours.encode(PROMPT, control=(control,)), noise) - plain).abs().max() > 1e-3


def test_hint_is_scaled_to_cover_and_cut_at_the_centre(net: ControlNet) -> None:
    wide = torch.zeros(1, 4, 12, 3)
    wide[:, :, 4:8] = 1
    assert torch.equal(Control(net, wide).fitted(4, 4), torch.ones(1, 4, 4, 3))


def test_hints_of_a_batch(load: Any, net: ControlNet) -> None:
    ours, noise = load("dev"), noise_for(3, 6, 6)
    hints = torch.stack([torch.full((48, 48, 3), v) for v in (0.0, 1.0, 0.0)])

    def run(hint: Tensor, of: slice) -> Tensor:
        result: Tensor = ours.run(ours.encode(PROMPT, control=(Control(net, hint, vae=ours.vae),)), noise[of])
        return result

    together = run(hints, slice(0, 3))
    for i in range(3):
        assert (together[i] - run(hints[i : i + 1], slice(i, i + 1))[0]).abs().max() < 1e-5
    shared = run(hints[1:2], slice(0, 3))
    assert (shared[2] - run(hints[1:2], slice(2, 3))[0]).abs().max() < 1e-5
    with pytest.raises(ValueError, match=r"2 hint images for 3 images"):
        run(hints[:2], slice(0, 3))


def test_start_and_end(load: Any, net: ControlNet) -> None:
    ours, noise = load("dev"), noise_for(1, 6, 6)

    def run(**options: Any) -> Tensor:
        control = Control(net, torch.ones(1, 48, 48, 3), vae=ours.vae, **options)
        result: Tensor = ours.run(ours.encode(PROMPT, control=(control,)), noise)
        return result

    plain, full, half = ours.run(ours.encode(PROMPT), noise), run(), run(end_percent=0.4)
    assert not torch.equal(half, full) and not torch.equal(half, plain)
    assert torch.equal(run(start_percent=0.9999), plain)
    assert torch.equal(run(strength=0.0), plain)
    assert torch.equal(run(end_percent=0.4), half)


def test_several_controls_add_up(load: Any, net: ControlNet) -> None:
    ours, noise = load("dev"), noise_for(1, 6, 6)
    half = Control(net, torch.ones(1, 48, 48, 3), 0.5, vae=ours.vae)
    twice = ours.run(ours.encode(PROMPT, control=(half, half)), noise)
    once = ours.run(ours.encode(PROMPT, control=(replace(half, strength=1.0),)), noise)
    assert (twice - once).abs().max() < 1e-5


def test_node(load: Any, net: ControlNet) -> None:
    ours = load("dev")
    conditioning = ours.encode(PROMPT)
    image = torch.ones(1, 48, 48, 3)
    out = apply_control_net(conditioning, conditioning, net, image, 0.5, vae=ours.vae)
    assert [c.strength for c in out.positive[0][1]["control"]] == [0.5]
    assert "control" not in conditioning[0][1]
    assert apply_control_net(conditioning, conditioning, net, image, 0.0).positive is conditioning
    again = apply_control_net(out.positive, out.negative, net, image, 1.0, vae=ours.vae)
    assert [c.strength for c in again.negative[0][1]["control"]] == [0.5, 1.0]
    with pytest.raises(ValueError, match="connect `vae`"):
        ours.run(apply_control_net(conditioning, conditioning, net, image).positive, noise_for(1, 6, 6))


def test_control_has_an_effect_on_both_branches_in_one_call(load: Any, net: ControlNet) -> None:
    """Positive and negative with the same control are one call of each network."""
    ours, calls = load("dev"), []
    count: Callable[..., None] = lambda *_: calls.append(1)  # noqa: E731
    net.loaded.network.register_forward_pre_hook(count)
    control = (Control(net, torch.ones(1, 48, 48, 3), vae=ours.vae),)
    ours.run(ours.encode(PROMPT, control=control), noise_for(1, 6, 6), ours.encode(["blue"], control=control), cfg=3.0)
    assert len(calls) == 3
