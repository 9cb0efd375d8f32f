"""Upscalers: told by their tensors, run in tiles, their linear layers on the kernel layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from pipegraph.generators import finish
from pipegraph.kernels.dispatch import noting
from pipegraph.models.loading.header_values import LoadError
from pipegraph.models.loading.place import Place
from pipegraph.models.loading.weights_fault import weights_fault
from pipegraph.models.upscale import Upscaler, _spandrel, load_upscaler
from pipegraph.nodes.image.upscale import image_upscale_with_model, load_upscale_model

from ..context import Context

CPU = Place.of("cpu", "fp32")
try:
    _spandrel()
except LoadError:
    pytest.skip("spandrel is not installed", allow_module_level=True)


def image(height: int = 40, width: int = 56, channels: int = 3, count: int = 1) -> Tensor:
    return torch.rand(count, height, width, channels, generator=torch.Generator().manual_seed(height))


def compact(path: Path, channels: int = 3) -> Any:
    """A file of a small Real-ESRGAN compact, which sees 3 pixels far, and its network."""
    from spandrel.architectures.Compact.__arch.SRVGG import SRVGGNetCompact

    torch.manual_seed(1)
    network = SRVGGNetCompact(num_in_ch=channels, num_out_ch=channels, num_feat=8, num_conv=1, upscale=2)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.3)
    save_file(network.state_dict(), path)
    return network.eval()


def run(upscaler: Upscaler, pixels: Tensor, **tiles: int) -> Tensor:
    return finish(upscaler.upscale_steps(pixels, **tiles))


def test_tiles_are_as_the_whole(tmp_path: Path) -> None:
    network = compact(tmp_path / "x.safetensors")
    upscaler = load_upscaler(tmp_path / "x.safetensors", CPU, "x.safetensors")
    assert (upscaler.scale, upscaler.channels, upscaler.attends) == (2, 3, False)
    assert "Compact" in upscaler.architecture
    pixels = image(count=2)
    with torch.no_grad():
        wanted = network(pixels.movedim(-1, 1)).clamp(0, 1).movedim(1, -1)
    assert torch.allclose(run(upscaler, pixels), wanted, atol=1e-6)
    assert torch.allclose(run(upscaler, pixels, tile=24, overlap=16), wanted, atol=1e-5)
    steps = list(upscaler.upscale_steps(pixels, 24, 16))
    assert steps[-1] == (2 * 3 * 5, 2 * 3 * 5) and len(steps) == 30


@pytest.mark.filterwarnings("ignore:torch.meshgrid")
def test_esrgan_and_a_transformer_on_the_kernel_layer(tmp_path: Path) -> None:
    from spandrel.architectures.ESRGAN.__arch.RRDB import RRDBNet
    from spandrel.architectures.SwinIR.__arch.SwinIR import SwinIR

    torch.manual_seed(2)
    save_file(RRDBNet(num_filters=8, num_blocks=1, scale=4).state_dict(), tmp_path / "esrgan.safetensors")
    esrgan = load_upscaler(tmp_path / "esrgan.safetensors", CPU, "esrgan")
    assert esrgan.architecture == "ESRGAN" and run(esrgan, image(8, 10)).shape == (1, 32, 40, 3)
    swin = SwinIR(
        img_size=16,
        embed_dim=12,
        depths=[2, 2],
        num_heads=[2, 2],
        window_size=8,
        mlp_ratio=2,
        upscale=2,
        upsampler="pixelshuffledirect",
    )
    state = {key: tensor.contiguous().clone() for key, tensor in swin.state_dict().items()}
    save_file({f"module.{key}": tensor for key, tensor in state.items()}, tmp_path / "swin.safetensors")
    upscaler = load_upscaler(tmp_path / "swin.safetensors", CPU, "swin")
    assert upscaler.architecture == "SwinIR" and upscaler.attends
    pixels = image(13, 21)  # no multiple of the window
    with noting() as calls:
        large = run(upscaler, pixels)
    assert large.shape == (1, 26, 42, 3) and calls["linear"]
    padded = torch.nn.functional.pad(pixels.movedim(-1, 1), (0, 3, 0, 3), "reflect")
    with torch.no_grad():
        wanted = swin.eval()(padded)[..., :26, :42].clamp(0, 1).movedim(1, -1)
    assert torch.allclose(large, wanted, atol=1e-4)


def test_memory_that_does_not_do_halves_tiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compact(tmp_path / "x.safetensors")
    upscaler = load_upscaler(tmp_path / "x.safetensors", CPU, "x")
    sizes: list[int] = []
    call = type(upscaler.loaded.network).forward

    def small_memory(network: Any, images: Tensor) -> Tensor:
        sizes.append(max(images.shape[-2:]))
        if sizes[-1] > 200:
            raise torch.OutOfMemoryError("full")
        large: Tensor = call(network, images)
        return large

    monkeypatch.setattr(type(upscaler.loaded.network), "forward", small_memory)
    assert run(upscaler, image(30, 300)).shape == (1, 60, 600, 3)
    assert sizes[:2] == [300, 256] and max(sizes[2:]) == 128
    with pytest.raises(torch.OutOfMemoryError):
        run(upscaler, image(30, 300), tile=250)


def test_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    (tmp_path / "upscale_models").mkdir()
    compact(tmp_path / "upscale_models" / "x.safetensors")
    ctx = Context(tmp_path, tmp_path)
    upscaler = load_upscale_model("x.safetensors", ctx)
    assert ctx.notes["upscaler"]["scale"] == 2 and "attention" not in ctx.notes
    plain, clear = image(), torch.cat([image(), torch.full((1, 40, 56, 1), 0.5)], -1)
    large = finish(image_upscale_with_model(upscaler, clear))
    assert large.shape == (1, 80, 112, 4) and torch.allclose(large[..., 3], torch.tensor(128 / 255))
    assert torch.equal(large[..., :3], finish(image_upscale_with_model(upscaler, plain)))
    assert finish(image_upscale_with_model(upscaler, image(channels=1))).shape == (1, 80, 112, 3)
    compact(tmp_path / "upscale_models" / "gray.safetensors", 1)
    gray = load_upscale_model("gray.safetensors", ctx)
    assert finish(image_upscale_with_model(gray, image(channels=1))).shape == (1, 80, 112, 1)
    with pytest.raises(ValueError, match="takes gray images, not 3 channels"):
        finish(image_upscale_with_model(gray, plain))


def test_what_is_no_upscaler_is_told(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(LoadError, match=r"other\.safetensors is no upscaler that spandrel .* knows"):
        load_upscaler(tmp_path / "other.safetensors", CPU, "other")
    (tmp_path / "x.pth").write_bytes(b"PK\3\4")
    assert "is a pickle" in weights_fault(tmp_path / "x.pth")
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + bytes(20))
    assert "is a GGUF file" in weights_fault(tmp_path / "x.gguf")
    (tmp_path / "cut.safetensors").write_bytes((tmp_path / "other.safetensors").read_bytes()[:-3])
    with pytest.raises(LoadError, match=r"cut\.safetensors"):
        load_upscaler(tmp_path / "cut.safetensors", CPU, "cut")
