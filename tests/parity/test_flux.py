"""Our FLUX equals diffusers' FluxPipeline: same weights, prompts, noise and noise levels."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from pipegraph.models.families import flux
from pipegraph.models.sampling.model_sampling import Flow

TOLERANCE = 1e-4
PROMPTS = ["a red apple on the beach", "two cats at night"]
SIZES = [(64, 64), (80, 48)]  # height, width in pixels; the second is no square and no power of two


def reference(pipe: Any, prompts: list[str], noise: Tensor, output: str = "latent", **options: Any) -> Tensor:
    height, width = (8 * s for s in noise.shape[-2:])
    result: Tensor = pipe(
        prompt=prompts,
        height=height,
        width=width,
        num_inference_steps=3,
        guidance_scale=2.0,
        max_sequence_length=16,
        latents=flux.pack(noise),
        output_type=output,
        return_dict=False,
        **options,
    )[0]
    if output == "latent":
        result = flux.unpack(result, *noise.shape[-2:]) / pipe.vae.config.scaling_factor + pipe.vae.config.shift_factor
    return result


def noise_for(batch: int, size: tuple[int, int]) -> Tensor:
    return torch.randn(batch, 4, size[0] // 8, size[1] // 8, generator=torch.Generator().manual_seed(7))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", ["dev", "schnell"])
def test_equals_diffusers(load: Any, pipeline: Any, name: str, batch: int, size: tuple[int, int]) -> None:
    ours, prompts, noise = load(name), PROMPTS[:batch], noise_for(batch, size)
    latents = ours.run(ours.encode(prompts), noise)
    assert (latents - reference(pipeline(name), prompts, noise)).abs().max() < TOLERANCE
    if batch == 1:
        picture = ours.vae.decode(latents)
        expected = reference(pipeline(name), prompts, noise, output="pt").movedim(1, -1)
        assert picture.shape == expected.shape and (picture - expected).abs().max() < TOLERANCE


def test_cfg_equals_diffusers(load: Any, pipeline: Any) -> None:
    ours, noise = load("schnell"), noise_for(1, SIZES[1])
    latents = ours.run(ours.encode(PROMPTS[:1]), noise, ours.encode(["blue"]), cfg=3.0)
    options: dict[str, Any] = {"negative_prompt": ["blue"], "true_cfg_scale": 3.0}
    assert (latents - reference(pipeline("schnell"), PROMPTS[:1], noise, **options)).abs().max() < TOLERANCE


def _transposed(rows: int, columns: int) -> Tensor:
    ids = ORIGINAL_IDS(rows, columns)
    return ids[:, [0, 2, 1]]


def _other_order(z: Tensor) -> Tensor:
    b, c, h, w = z.shape
    return z.reshape(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 3, 5, 1).reshape(b, h * w // 4, c * 4)


ORIGINAL_IDS = flux.position_ids


def _mutate_shift(ours: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Flow, "from_mu", classmethod(lambda cls, mu: cls(shift=2.718281828 ** (mu + 0.1))))


def _mutate_guidance(ours: Any, patch: pytest.MonkeyPatch) -> None:
    encode = ours.encode
    patch.setattr(ours, "encode", lambda prompts: encode(prompts, guidance=2.2))


def _mutate_ids(ours: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(flux, "position_ids", _transposed)


def _mutate_packing(ours: Any, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(flux, "pack", _other_order)


def _mutate_pooled(ours: Any, patch: pytest.MonkeyPatch) -> None:
    encode = ours.encode
    patch.setattr(ours, "encode", lambda prompts: encode(prompts, pooled_output=torch.zeros(1, 24)))


def _mutate_padding(ours: Any, patch: pytest.MonkeyPatch) -> None:
    for encoder in ours.clip.encoders.values():
        object.__setattr__(encoder, "pad_to", 12)


@pytest.mark.parametrize(
    "mutate",
    [_mutate_shift, _mutate_guidance, _mutate_ids, _mutate_packing, _mutate_pooled, _mutate_padding],
)
def test_mutations_are_seen(
    load: Any, pipeline: Any, monkeypatch: pytest.MonkeyPatch, mutate: Callable[[Any, pytest.MonkeyPatch], None]
) -> None:
    ours, noise = load("dev"), noise_for(1, SIZES[1])
    expected = reference(pipeline("dev"), PROMPTS[:1], noise)
    assert (ours.run(ours.encode(PROMPTS[:1]), noise) - expected).abs().max() < TOLERANCE
    mutate(ours, monkeypatch)
    assert (ours.run(ours.encode(PROMPTS[:1]), noise) - expected).abs().max() > 10 * TOLERANCE


def test_a_batch_equals_its_pictures_alone(load: Any) -> None:
    ours, noise = load("dev"), noise_for(2, SIZES[0])
    both = ours.run(ours.encode(PROMPTS), noise)
    for i in range(2):
        alone = ours.run(ours.encode(PROMPTS[i : i + 1]), noise[i : i + 1])
        assert (both[i] - alone[0]).abs().max() < 1e-5


def test_odd_latents(load: Any) -> None:
    """Sides that are no whole tokens are padded for the network and cut again."""
    ours = load("dev")
    noise = torch.randn(1, 4, 9, 7)
    assert ours.run(ours.encode(PROMPTS[:1]), noise).shape == noise.shape


def test_text_and_picture_numbers_must_agree(load: Any) -> None:
    ours = load("schnell")
    with pytest.raises(ValueError, match=r"2 text for 3 images"):
        ours.run(ours.encode(PROMPTS), noise_for(3, SIZES[0]))


def test_other_sizes_are_told_before_the_first_step(load: Any) -> None:
    ours = load("dev")
    with pytest.raises(ValueError, match=r"reads 4 channels, the latent has 16.*Fill"):
        ours.model.prepare(ours.encode(PROMPTS[:1]), torch.zeros(1, 16, 8, 8))
    with pytest.raises(ValueError, match=r"77 numbers a token.*reads 32 and 24"):
        ours.model.prepare([[torch.zeros(1, 4, 77), {"pooled_output": torch.zeros(1, 24)}]], torch.zeros(1, 4, 8, 8))
    with pytest.raises(ValueError, match="pooled vector"):
        ours.model.prepare([[torch.zeros(1, 4, 32), {}]], torch.zeros(1, 4, 8, 8))
