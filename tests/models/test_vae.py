"""Decoding in tiles equals decoding whole, and a result that is not finite never becomes a picture."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pipegraph.generators import finish
from pipegraph.models.families.flux import FLUX
from pipegraph.models.family import LatentFormat
from pipegraph.models.loaded import Loaded
from pipegraph.models.vae.image import Vae, fit_to_grid

FORMAT = LatentFormat(channels=4, downscale=8)


class Upscaler(nn.Module):
    """Eight times larger, then a 3x3 convolution: a decoder that sees one pixel far."""

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Upsample(scale_factor=8, mode="nearest")
        self.conv = nn.Conv2d(4, 3, 3, padding=1, padding_mode="replicate")
        self.gain = gain

    def decode(self, z: Tensor, return_dict: bool) -> tuple[Tensor]:
        return (self.conv(self.up(z * self.gain) / self.gain),)


def vae(dtype: torch.dtype = torch.float32, gain: float = 1.0) -> Vae:
    return Vae(Loaded(Upscaler(gain).to(dtype), torch.device("cpu"), dtype), FORMAT)


@pytest.mark.parametrize("overlap", [1, 2, 4, 7])
@pytest.mark.parametrize("size", [(24, 24), (9, 17), (5, 64), (3, 3)])
def test_tiles_equal_the_whole(size: tuple[int, int], overlap: int) -> None:
    z = torch.randn(2, 4, *size) * 0.3
    whole = vae().decode(z)
    tiled = finish(vae().decode_tiled_steps(z, 8, overlap))
    assert tiled.shape == (2, size[0] * 8, size[1] * 8, 3)
    assert (tiled - whole).abs().max() < 1e-5


def test_tiles_of_a_decoder_that_sees_everything_have_no_seam() -> None:
    """With overlap the steps between neighbouring pixels stay as small as in the whole; without they do not."""

    class Levelled(Upscaler):
        def decode(self, z: Tensor, return_dict: bool) -> tuple[Tensor]:
            return (super().decode(z, return_dict)[0] - z.mean(),)

    smooth = torch.linspace(-1, 1, 32).expand(1, 4, 32, 32).contiguous()
    own = Vae(Loaded(Levelled(), torch.device("cpu"), torch.float32), FORMAT)

    def steepest(overlap: int) -> float:
        return float(finish(own.decode_tiled_steps(smooth, 16, overlap)).diff(dim=2).abs().max())

    assert steepest(8) < 0.3 * steepest(0)


def test_steps_are_counted() -> None:
    assert list(vae().decode_tiled_steps(torch.zeros(2, 4, 8, 14), 8, 2)) == [(i, 4) for i in range(1, 5)]
    assert list(vae().decode_steps(torch.zeros(2, 4, 2, 2))) == [(1, 2), (2, 2)]


@pytest.mark.parametrize(("tile", "overlap"), [(8, 8), (8, 9), (0, 0), (8, -1)])
def test_bad_tiles(tile: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="cannot overlap"):
        finish(vae().decode_tiled_steps(torch.zeros(1, 4, 8, 8), tile, overlap))


def test_overflow_is_made_again_in_float32() -> None:
    said: list[str] = []
    z = torch.stack([torch.full((4, 4, 4), 2.0), torch.full((4, 4, 4), 1e-3)])
    half = vae(torch.float16, gain=60000.0)
    picture = half.decode(z, said.append)
    assert said == ["decoding image 1 in float16 overflows; computed again in float32"]
    assert (picture - vae().decode(z)).abs().max() < 2e-3
    assert next(half.loaded.network.parameters()).dtype == torch.float16  # the value itself is not changed


def test_one_copy_in_float32_serves_all_tiles_and_images(monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[Loaded] = []
    copied = Loaded.in_float32

    def counted(self: Loaded) -> Loaded:
        copies.append(copied(self))
        return copies[-1]

    monkeypatch.setattr(Loaded, "in_float32", counted)
    half, said = vae(torch.float16, gain=60000.0), list[str]()
    finish(half.decode_tiled_steps(torch.full((2, 4, 8, 8), 2.0), 4, 1, said.append))
    assert len(said) == 18 and len(copies) == 1
    half.decode(torch.full((3, 4, 4, 4), 1e-3), said.append)
    assert len(copies) == 1  # nothing overflows: no copy


def test_float32_inside_autocast_stays_float32() -> None:
    z = torch.randn(1, 4, 4, 4)
    whole = vae().decode(z)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(vae().decode(z), whole)


def test_broken_input_and_broken_weights_are_errors() -> None:
    z = torch.zeros(1, 4, 2, 2)
    z[0, 0, 0, 0] = torch.nan
    with pytest.raises(ValueError, match=r"image 1: the input holds NaN.*before the VAE"):
        vae().decode(z)
    broken = vae()
    broken.loaded.network.conv.weight.data[0] = torch.inf
    with pytest.raises(ValueError, match="even in float32"):
        broken.decode(torch.ones(1, 4, 2, 2))


@pytest.mark.parametrize("tiled", [False, True])
def test_the_good_pictures_of_a_batch_are_kept(tiled: bool) -> None:
    z, said = torch.randn(3, 4, 12, 12), list[str]()
    clean = vae().decode(z)
    z[1, 0, 11, 11] = torch.inf
    own = vae()
    pictures = finish(own.decode_tiled_steps(z, 8, 2, said.append) if tiled else own.decode_steps(z, said.append))
    assert (pictures[[0, 2]] - clean[[0, 2]]).abs().max() < 1e-5
    assert bool(pictures[1].isnan().all()) and len(said) == 1 and said[0].startswith("decoding image 2")


@pytest.mark.parametrize("shape", [(1, 3, 8, 8), (1, 4, 2, 8, 8), (4, 8, 8)])
def test_other_latents_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"decodes latents \[B, 4, height, width\]"):
        vae().decode(torch.zeros(shape))


def test_pictures_are_cut_at_the_centre() -> None:
    image = torch.arange(21.0)[None, None, :, None].expand(1, 8, 21, 3)
    assert fit_to_grid(image, 8)[0, 0, :, 0].tolist() == list(map(float, range(2, 18)))
    with pytest.raises(ValueError, match="smaller than one latent cell"):
        fit_to_grid(image[:, :4], 8)


def test_latent_format_is_its_own_inverse() -> None:
    z = torch.randn(1, 16, 2, 2)
    assert torch.allclose(FLUX.latent.process_out(FLUX.latent.process_in(z)), z, atol=1e-6)
    assert torch.allclose(FLUX.latent.process_in(z), (z - 0.1159) * 0.3611)


def test_encode_equals_diffusers() -> None:
    from diffusers.models.autoencoders.autoencoder_kl import AutoencoderKL

    torch.manual_seed(0)
    blocks: dict[str, Any] = {"down_block_types": ("DownEncoderBlock2D",) * 2}
    net = AutoencoderKL(
        **blocks, up_block_types=("UpDecoderBlock2D",) * 2, block_out_channels=(8, 8), norm_num_groups=4
    ).eval()
    own = Vae(Loaded(net, torch.device("cpu"), torch.float32), LatentFormat(4, 2))
    image = torch.rand(2, 8, 12, 3)
    with torch.no_grad():
        expected = net.encode(image.movedim(-1, 1) * 2 - 1).latent_dist.mean
        pixels = net.decode(expected).sample
    assert (own.encode(image) - expected).abs().max() < 1e-5
    assert (own.decode(expected) - (pixels / 2 + 0.5).clamp(0, 1).movedim(1, -1)).abs().max() < 1e-5
