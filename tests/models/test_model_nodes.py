"""The nodes around models: ComfyUI's ports, values left as they are, everything lost said aloud."""

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch

from pipegraph.models.checkpoints.load import load_text_encoders, load_vae
from pipegraph.models.loading.place import Place
from pipegraph.nodes.image import vae
from pipegraph.nodes.loaders import models as loaders
from pipegraph.nodes.text import conditioning, controlnet
from pipegraph.runtime.node import NodeSpec, Progress, RunContext, broken_limit

CPU = Place(torch.device("cpu"), torch.float32)


class Context:
    """What nodes say, kept."""

    device, dtype, quantize = "cpu", "auto", ""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.notes: dict[str, Any] = {}

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def note(self, key: str, value: Any) -> None:
        self.notes[key] = value

    def progress(self, done: int, total: int, unit: str = "it") -> None: ...


@pytest.fixture
def context() -> Context:
    return Context()


def as_run(context: Context) -> RunContext:
    return cast(RunContext, context)


def spec(fn: Callable[..., Any]) -> NodeSpec:
    return fn.node_spec  # type: ignore[attr-defined, no-any-return]


# Names, inputs and outputs in ComfyUI's order.
PORTS = {
    loaders.load_checkpoint: ("CheckpointLoaderSimple", "ckpt_name", "MODEL CLIP VAE"),
    loaders.load_diffusion_model: ("UNETLoader", "unet_name weight_dtype", "MODEL"),
    loaders.load_gguf_model: ("UnetLoaderGGUF", "unet_name", "MODEL"),
    loaders.load_clip: ("CLIPLoader", "clip_name type device", "CLIP"),
    loaders.load_dual_clip: ("DualCLIPLoader", "clip_name1 clip_name2 type device", "CLIP"),
    loaders.load_vae: ("VAELoader", "vae_name", "VAE"),
    loaders.load_control_net: ("ControlNetLoader", "control_net_name", "CONTROL_NET"),
    conditioning.clip_text_encode: ("CLIPTextEncode", "text clip", "CONDITIONING"),
    conditioning.clip_text_encode_flux: ("CLIPTextEncodeFlux", "clip clip_l t5xxl guidance", "CONDITIONING"),
    conditioning.flux_guidance: ("FluxGuidance", "conditioning guidance", "CONDITIONING"),
    conditioning.conditioning_zero_out: ("ConditioningZeroOut", "conditioning", "CONDITIONING"),
    conditioning.conditioning_combine: ("ConditioningCombine", "conditioning_1 conditioning_2", "CONDITIONING"),
    vae.vae_decode: ("VAEDecode", "samples vae", "IMAGE"),
    vae.vae_decode_tiled: (
        "VAEDecodeTiled",
        "samples vae tile_size overlap temporal_size temporal_overlap",
        "IMAGE",
    ),
    vae.vae_encode: ("VAEEncode", "pixels vae", "LATENT"),
    controlnet.apply_control_net: (
        "ControlNetApplyAdvanced",
        "positive negative control_net image strength start_percent end_percent vae",
        "positive negative",
    ),
}


@pytest.mark.parametrize("fn", PORTS, ids=lambda fn: spec(fn).id)
def test_ports(fn: Callable[..., Any]) -> None:
    found = spec(fn)
    assert (found.id, " ".join(found.inputs), " ".join(found.outputs)) == PORTS[fn]


def test_file_names_are_checked() -> None:
    port = spec(loaders.load_checkpoint).inputs["ckpt_name"]
    assert port.file and "embedded/flux-tiny" in port.file.names()
    assert {f.name for f in port.file.find("embedded/flux-tiny")} >= {"card.json", "tokenizer.json"}
    with pytest.raises(LookupError, match='nearest: "embedded/flux-tiny"'):
        port.file.find("embedded/flux-tinny")
    assert broken_limit(spec(vae.vae_decode_tiled).inputs["tile_size"], 100)


def test_a_network_by_the_node_for_gguf_files(context: Context) -> None:
    by_either = [
        load("embedded/flux-tiny", as_run(context)) for load in (loaders.load_gguf_model, loaders.load_diffusion_model)
    ]
    assert type(by_either[0]) is type(by_either[1]) and context.notes.keys() <= {"weights"}


def item(value: float, **extras: Any) -> list[list[Any]]:
    return [[torch.full((1, 4, 8), value), {"pooled_output": torch.full((1, 6), value), **extras}]]


def test_conditioning_is_copied_not_changed() -> None:
    given = item(1.0, text="x")
    guided = conditioning.flux_guidance(given, 2.5)
    assert guided[0][1]["guidance"] == 2.5 and "guidance" not in given[0][1]
    zero = conditioning.conditioning_zero_out(guided)
    assert not zero[0][0].any() and not zero[0][1]["pooled_output"].any() and zero[0][1]["guidance"] == 2.5
    assert given[0][0].all() and given[0][1]["pooled_output"].all()
    both = conditioning.conditioning_combine(given, zero)
    assert both == [given[0], zero[0]] and len(given) == 1


def test_text_says_what_it_did_not_read(context: Context) -> None:
    clip = load_text_encoders("flux", ["embedded/flux-tiny"], CPU)
    made = conditioning.clip_text_encode("a red zebra " * 8, clip, as_run(context))
    assert made[0][1]["text"].startswith("a red zebra")
    assert context.notes["tokens"] == {"clip_l": 16, "t5xxl": 16}
    assert context.notes["not_read"]["t5xxl"].endswith("zebra")
    assert len(context.warnings) == 2 and '"zebra"' in context.warnings[1]
    one = conditioning.clip_text_encode_flux(clip, "a cat", "a red apple", as_run(context), 2.0)
    swapped = conditioning.clip_text_encode_flux(clip, "a red apple", "a cat", as_run(context), 2.0)
    apple = conditioning.clip_text_encode("a red apple", clip, as_run(context))
    assert one[0][1]["guidance"] == 2.0
    assert torch.equal(one[0][0], apple[0][0])
    assert torch.equal(swapped[0][1]["pooled_output"], apple[0][1]["pooled_output"])


def test_embeddings_in_prompts_are_named(context: Context) -> None:
    """ComfyUI loads them; here they are words like others."""
    clip = load_text_encoders("flux", ["embedded/flux-tiny"], CPU)
    conditioning.clip_text_encode(
        "a red apple (embedding:EasyNegative:1.2), embedding:bad_hands", clip, as_run(context)
    )
    names = "embedding:EasyNegative, embedding:bad_hands"
    assert f"{names}: textual inversions are not supported (yet); read as plain text" in context.warnings
    context.warnings.clear()
    conditioning.clip_text_encode("a red apple", clip, as_run(context))
    assert not context.warnings


def test_encode_and_decode(context: Context) -> None:
    own = load_vae("embedded/flux-tiny", CPU)
    image = torch.rand(2, 35, 50, 4)
    latent = vae.vae_encode(image, own, as_run(context))
    assert latent["samples"].shape == (2, 16, 4, 6)
    assert context.warnings == ["50x35 cut to 48x32"]
    steps, events = vae.vae_decode(latent, own, as_run(context)), []
    try:
        while True:
            events.append(next(steps))
    except StopIteration as end:
        assert end.value.shape == (2, 32, 48, 3) and 0 <= end.value.min() <= end.value.max() <= 1
    assert events == [Progress(1, 2, "picture"), Progress(2, 2, "picture")]


def test_wide_overlap_is_said(context: Context) -> None:
    own = load_vae("embedded/flux-tiny", CPU)
    list(vae.vae_decode_tiled({"samples": torch.zeros(1, 16, 8, 8)}, own, as_run(context), 64, 32))
    assert context.warnings == ["overlap 32 is more than a quarter of tile_size 64; 16 is used"]
