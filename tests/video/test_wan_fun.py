"""Wan's Fun models: a clip to follow, a picture of reference, a camera; against diffusers' network and the formulas."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from pipegraph.models.families.wan import WAN, WAN_5B
from pipegraph.models.families.wan.forward import forward
from pipegraph.models.families.wan.fun import POSES, camera_rays, extend
from pipegraph.models.loaded import Loaded
from pipegraph.models.model import Model
from pipegraph.models.sampling.model_sampling import Flow
from pipegraph.models.vae.video import VideoVae
from pipegraph.nodes.video.wan_fun import (
    Pose,
    wan22_fun_control_to_video,
    wan_camera_embedding,
    wan_camera_image_to_video,
    wan_fun_control_to_video,
    wan_fun_inpaint_to_video,
)

from ..context import Context
from . import tiny
from .test_wan import CPU, SIZE, noise
from .test_wan_vision import picture

FRAMES, SIGMA = 9, 0.6


def network(**config: Any) -> Any:
    torch.manual_seed(2)
    own = {k: config.pop(k) for k in ("reference_channels", "camera_channels") if k in config}
    made: Any = tiny.transformer(num_layers=1, **config)
    made.register_to_config(**own)
    extend(made, made.config)
    for p in made.parameters():
        p.data.normal_(std=0.2)
    return made.eval().requires_grad_(False)


def model(net: Any, family: Any = WAN) -> Model:
    return Model(Loaded(net, CPU.device, torch.float32), family, Flow(3.0, multiplier=1000), family.latent)


def vae(family: Any = WAN) -> VideoVae:
    torch.manual_seed(1)
    made = tiny.autoencoder() if family is WAN else tiny.residual_autoencoder()
    return VideoVae(Loaded(made.eval().requires_grad_(False), CPU.device, torch.float32), family.latent)


def text(seed: int = 5) -> list[Any]:
    return [[torch.randn(1, 8, 32, generator=torch.Generator().manual_seed(seed)), {}]]


def clip() -> Tensor:
    return torch.cat([picture(i) for i in range(FRAMES)])


def predict(model: Model, conditioning: Any, x: Tensor) -> Tensor:
    """The velocity."""
    return (x - model.predict(x, torch.tensor([SIGMA]), model.prepare(conditioning, x))[0]) / SIGMA


@torch.no_grad()
def asked(net: Any, state: Tensor) -> Tensor:
    """diffusers' answer for a state with all its channels."""
    found: Tensor = net(state, torch.tensor([1000 * SIGMA]), text()[0][0], return_dict=False)[0]
    return found


def state(latent: Tensor, format: Any = WAN.latent) -> Tensor:
    return format.process_in(latent)  # type: ignore[no-any-return]


def test_a_clip_to_follow_and_first_frames(context: Context) -> None:
    """Wan 2.1 Fun Control: the state, then the clip, then the first frames, 0 where there are none."""
    net, coder, x = network(in_channels=48), vae(), noise(FRAMES)
    given = (text(), text(6), coder, context, SIZE[1], SIZE[0], FRAMES, 1)
    made = wan_fun_control_to_video(*given, None, picture(3), clip()[:5])
    assert torch.equal(made.positive[0][0], text()[0][0]) and torch.equal(made.negative[0][0], text(6)[0][0])
    followed, first = torch.zeros(2, *x.shape)
    followed[:, :, :2] = state(coder.encode(clip()[:5]))
    first[:, :, :1] = state(coder.encode(picture(3)))
    found = predict(model(net), made.positive, x)
    assert (found - asked(net, torch.cat([x, followed, first], 1))).abs().max() < 1e-5
    assert (found - asked(net, torch.cat([x, first, followed], 1))).abs().max() > 1e-3
    alone = wan_fun_control_to_video(*given, None, None, None)
    nothing = torch.zeros_like(torch.cat([x, x], 1))
    assert (predict(model(net), alone.positive, x) - asked(net, torch.cat([x, nothing], 1))).abs().max() < 1e-5
    with pytest.raises(
        ValueError, match=r"the video to follow is a latent \[16, 3, 6, 4\], the video is \[16, 2, 6, 4\]"
    ):
        predict(model(net), made.positive, noise(5))
    with pytest.raises(ValueError, match="is for Wan's Fun Control models"):
        predict(model(network()), made.positive, x)
    with pytest.raises(ValueError, match="control_video is for Wan's Fun Control models"):
        predict(model(network(in_channels=36)), made.positive, x)


@pytest.mark.parametrize("large", [False, True])
def test_a_picture_of_reference(context: Context, large: bool) -> None:
    """Wan 2.2 Fun Control, 14B and 5B: it is seen as if it were a latent frame before the clip, by weights of its own.

    With the weights that read the clip, diffusers' network reads the same from a clip that is one latent frame longer.
    """
    family = WAN_5B if large else WAN
    c = family.latent.channels
    net = network(in_channels=3 * c + 4, out_channels=c, reference_channels=c)
    net.ref_conv.weight.data = net.patch_embedding.weight.data[:, :c, 0].clone()
    net.ref_conv.bias.data = net.patch_embedding.bias.data.clone()
    coder, size = vae(family), (64, 32) if large else SIZE
    x = noise(FRAMES, channels=c, size=size, downscale=family.latent.downscale)
    video, seen = (torch.cat([picture(i, *size) for i in range(FRAMES)]), picture(9, *size))
    given = (text(), text(), coder, context, size[1], size[0], FRAMES, 1)
    made = wan22_fun_control_to_video(*given, seen, video)
    assert made.latent["samples"].shape == x.shape
    followed, front = (state(coder.encode(v), family.latent) for v in (video, seen))
    whole = torch.cat([x, followed, torch.zeros(1, 4 + c, *x.shape[2:])], 1)
    longer = torch.cat([torch.cat([front, torch.zeros(1, 2 * c + 4, *front.shape[2:])], 1), whole], 2)
    found = predict(model(net, family), made.positive, x)
    assert (found - asked(net, longer)[:, :, 1:]).abs().max() < 1e-5
    without = wan22_fun_control_to_video(*given, None, video)
    assert (predict(model(net, family), without.positive, x) - asked(net, whole)).abs().max() < 1e-5
    assert (found - asked(net, whole)).abs().max() > 1e-3
    with pytest.raises(ValueError, match="leave ref_image unconnected"):
        predict(model(network(in_channels=3 * c + 4, out_channels=c), family), made.positive, x)
    if large:
        levels = torch.full((1, 1, *x.shape[2:]), SIGMA)
        with pytest.raises(ValueError, match="cannot be used together"):
            model(net, family).predict(x, levels, model(net, family).prepare(made.positive, x))
        with pytest.raises(ValueError, match="multiples of 32 pixels for this VAE's model: 64 x 64"):
            wan22_fun_control_to_video(*given[:4], 48, 64, FRAMES)


def test_between_two_pictures_with_the_5b_model(context: Context) -> None:
    net, coder, size = network(in_channels=100, out_channels=48), vae(WAN_5B), (64, 32)
    x = noise(FRAMES, channels=48, size=size, downscale=16)
    ends = picture(1, *size), picture(2, *size)
    made = wan_fun_inpaint_to_video(text(), text(), coder, context, 32, 64, FRAMES, 1, None, *ends)
    frames = torch.full((FRAMES, *size, 3), 0.5)
    frames[:1], frames[-1:] = ends
    mask = torch.zeros(1, 4, *x.shape[2:])
    mask[:, :, 0] = mask[:, 3, 2] = 1
    beside = torch.cat([mask, state(coder.encode(frames), WAN_5B.latent)], 1)
    found = predict(model(net, WAN_5B), made.positive, x)
    assert (found - asked(net, torch.cat([x, beside], 1))).abs().max() < 1e-5


def test_rays_of_a_camera() -> None:
    """Against the formula pixel by pixel: Rz Ry Rx of the pixel's direction; where the camera is, crossed with it."""
    width, height, length, speed, focus, centre = 48, 32, 9, 1.5, (0.6, 0.7), (0.4, 0.5)
    assert POSES.keys() == set(get_args(Pose))
    for pose, (turn, way) in POSES.items():
        rays = camera_rays(pose, width, height, length, speed, focus, centre)
        assert rays.shape == (1, 24, 3, height, width)
        for frame, y, x in ((0, 3, 5), (4, 31, 40), (8, 10, 0)):
            done = frame / length * speed
            a, b, c = (done * math.pi / 3 * t for t in turn)
            rx = torch.tensor([[1, 0, 0], [0, math.cos(a), -math.sin(a)], [0, math.sin(a), math.cos(a)]])
            ry = torch.tensor([[math.cos(b), 0, math.sin(b)], [0, 1, 0], [-math.sin(b), 0, math.cos(b)]])
            rz = torch.tensor([[math.cos(c), -math.sin(c), 0], [math.sin(c), math.cos(c), 0], [0, 0, 1]])
            # 48 x 32 is narrower than 16:9: the picture that is cut is 32 high and 56.9 wide.
            ray = torch.tensor(
                [
                    (x + 0.5 - centre[0] * width) / (focus[0] * height * 1280 / 720),
                    (y + 0.5 - centre[1] * height) / (focus[1] * height),
                    1,
                ]
            )
            ray = rz.double() @ ry.double() @ rx.double() @ (ray / ray.norm()).double()
            place = torch.tensor([done * 1.5 * w for w in way], dtype=torch.float64)
            wanted = torch.cat([torch.linalg.cross(place, ray), ray])
            cell, inside = divmod(frame + 3, 4)
            assert (rays[0, inside::4, cell, y, x].double() - wanted).abs().max() < 1e-6, (pose, frame)
        assert torch.equal(rays[0, 0::4, 0], rays[0, 3::4, 0])  # the first frame stands for four
    wide = camera_rays("Static", 96, 32, 1, 1.0, (0.5, 0.5), (0.5, 0.5))[0, :, 0, 0, 0]
    assert float(wide[3 * 4] / wide[5 * 4]) == pytest.approx((0.5 - 48) / 48, rel=1e-5)
    assert float(wide[4 * 4] / wide[5 * 4]) == pytest.approx((0.5 - 16) / (0.5 * 96 / 1280 * 720), rel=1e-5)


def test_a_camera(context: Context) -> None:
    """Wan 2.1 Fun Camera reads first frames beside the state, 2.2 also which; both add the camera's tokens."""
    coder, x = vae(), noise(FRAMES)
    camera = wan_camera_embedding("Zoom In", SIZE[1], SIZE[0], FRAMES).camera_embedding
    given = (text(), text(), coder, context, SIZE[1], SIZE[0], FRAMES, 1, None)
    made = wan_camera_image_to_video(*given, picture(3), camera)
    first = torch.zeros_like(x)
    first[:, :, :1] = state(coder.encode(picture(3)))
    mask = torch.zeros(1, 4, *x.shape[2:])
    mask[:, :, 0] = 1
    for channels, beside in ((32, first), (36, torch.cat([mask, first], 1))):
        net = network(in_channels=channels, camera_channels=24)
        found = predict(model(net), made.positive, x)
        adapter, kept = net.control_adapter, net.patch_embedding.forward
        cells = torch.nn.functional.pixel_unshuffle(camera[0].transpose(0, 1).double(), 8)
        double = deepcopy(adapter).double()
        tokens = double.conv(cells)
        inner = double.residual_blocks[0].conv1(tokens).clamp_min(0)
        tokens = tokens + double.residual_blocks[0].conv2(inner)
        added = tokens.transpose(0, 1)[None].float()
        net.patch_embedding.forward = lambda v, kept=kept, added=added: kept(v) + added
        wanted = asked(net, torch.cat([x, beside], 1))
        net.patch_embedding.forward = kept
        assert (found - wanted).abs().max() < 1e-4
        assert (found - asked(net, torch.cat([x, beside], 1))).abs().max() > 1e-3
    with pytest.raises(ValueError, match="leave camera_conditions unconnected"):
        predict(model(network(in_channels=36)), made.positive, x)
    other = wan_camera_embedding("Static", 64, 48, FRAMES).camera_embedding
    with pytest.raises(ValueError, match=r"the camera is of \[3, 48, 64\] .* the video of \[3, 48, 32\]"):
        predict(model(net), wan_camera_image_to_video(*given, picture(3), other).positive, x)


@torch.no_grad()
def test_without_anything_it_is_diffusers_pass() -> None:
    net, x = network(), noise(FRAMES)
    found = forward(net, x, torch.tensor([1000 * SIGMA]), text()[0][0])
    assert torch.equal(found, asked(net, x))
