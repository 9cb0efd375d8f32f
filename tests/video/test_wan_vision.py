"""Wan 2.1's image to video, which reads a CLIP vision model: against diffusers, and as ComfyUI's templates load it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

import pipegraph as pg
from pipegraph.access import Access, granted
from pipegraph.models.checkpoints.load import load_clip_vision
from pipegraph.models.clip_vision import ClipVision, VisionStates, fitted
from pipegraph.models.families.wan.family import TEXT_TOKENS
from pipegraph.nodes.text.clip_vision import clip_vision_encode
from pipegraph.nodes.video.wan import wan_first_last_frame_to_video, wan_image_to_video

from ..context import Context
from . import tiny
from .test_wan import CPU, NEGATIVE, PROMPT, SIZE, TOLERANCE, noise, reference, run, texts

EDGE, WIDTH = 32, 48
"""What the vision model sees is as wide as the clip: nothing is resized on either side."""
SEEN_TOKENS = (EDGE // 8) ** 2 + 1


def vision() -> Any:
    from transformers import CLIPVisionConfig, CLIPVisionModel

    torch.manual_seed(3)
    return CLIPVisionModel(
        CLIPVisionConfig(
            hidden_size=WIDTH,
            intermediate_size=64,
            num_hidden_layers=3,
            num_attention_heads=16,
            image_size=EDGE,
            patch_size=8,
            hidden_act="gelu",
            projection_dim=16,
        )
    )


def make(folder: Path, pos_embed_seq_len: int | None = None) -> Path:
    from transformers import CLIPImageProcessorPil

    network = tiny.transformer(
        in_channels=36, image_dim=WIDTH, added_kv_proj_dim=24, pos_embed_seq_len=pos_embed_seq_len
    )
    processor = CLIPImageProcessorPil(size={"shortest_edge": EDGE}, crop_size=EDGE)
    tiny.make(folder, "WanImageToVideoPipeline", transformer=network, image_encoder=vision(), image_processor=processor)
    return folder


def eye_of(folder: Path) -> ClipVision:
    with granted(Access.to(folder)):
        return load_clip_vision(str(folder), CPU)


@pytest.fixture(scope="session")
def i2v(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("wan") / "i2v21")


@pytest.fixture(scope="session")
def flf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("wan") / "flf21", 2 * SEEN_TOKENS)


def picture(seed: int, height: int = SIZE[0], width: int = SIZE[1]) -> Tensor:
    """An IMAGE of 8 bits a channel."""
    noise = torch.randint(0, 256, (1, height, width, 3), generator=torch.Generator().manual_seed(seed))
    return noise / 255


def pil(image: Tensor) -> Image.Image:
    return Image.fromarray((image[0] * 255).round().to(torch.uint8).numpy())


@pytest.mark.parametrize("last", [False, True])
def test_equals_diffusers(
    load: Any, pipeline: Any, i2v: Path, flf: Path, context: Context, last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It mends broken letters with a package that is not installed.
    monkeypatch.setattr("diffusers.pipelines.wan.pipeline_wan_i2v.prompt_clean", str)
    folder = flf if last else i2v
    model, clip, vae = load(folder)
    eye = eye_of(folder)
    start, end = picture(1), picture(2)
    first, second = clip_vision_encode(eye, start), clip_vision_encode(eye, end)
    positive, negative = texts(clip)
    given: dict[str, Any] = {
        "positive": positive,
        "negative": negative,
        "vae": vae,
        "ctx": context,
        "width": SIZE[1],
        "height": SIZE[0],
        "length": 5,
    }

    def made(one: Any, two: Any) -> Tensor:
        pictures: dict[str, Any] = {"start_image": start}
        if last:
            begun = wan_first_last_frame_to_video(
                **given, **pictures, end_image=end, clip_vision_start_image=one, clip_vision_end_image=two
            )
        else:
            begun = wan_image_to_video(**given, **pictures, clip_vision_output=one)
        return run(model, begun.positive, begun.negative, noise(5))

    options: dict[str, Any] = {"image": pil(start)} | ({"last_image": pil(end)} if last else {})
    pipe = pipeline(folder, "WanImageToVideoPipeline")
    expected = reference(pipe, noise(5), 5, tokens=TEXT_TOKENS, **options)
    found = made(first, second)
    assert (found - expected).abs().max() < TOLERANCE
    assert (made(second, first) - found).abs().max() > 10 * TOLERANCE


@pytest.mark.parametrize("which", ["start", "end"])
@torch.no_grad()
def test_one_picture_of_two(load: Any, pipeline: Any, flf: Path, context: Context, which: str) -> None:
    """Where one picture alone is given to the first-and-last-frame model, it has the first one's place."""
    model, clip, vae = load(flf)
    seen = clip_vision_encode(eye_of(flf), picture(1))
    given: dict[str, Any] = {f"{which}_image": picture(1), f"clip_vision_{which}_image": seen}
    made = wan_first_last_frame_to_video(*texts(clip), vae, context, SIZE[1], SIZE[0], 5, **given)
    x = noise(5)
    [prepared] = model.prepare(made.positive, x)
    beside = prepared.inputs.batched["concat"]
    whole = [[True] * 4, [False] * 4] if which == "start" else [[False] * 4, [False, False, False, True]]
    assert beside[0, :4].flatten(2).bool().all(2).T.tolist() == whole
    network = pipeline(flf, "WanImageToVideoPipeline").transformer
    embedder = network.condition_embedder.image_embedder
    places = embedder.pos_embed[:, :SEEN_TOKENS].data
    assert places.abs().max() > 0.1
    text = torch.nn.functional.pad(made.positive[0][0], (0, 0, 0, TEXT_TOKENS - tiny.TOKENS))

    def velocity(states: Tensor) -> Tensor:
        kept = embedder.pos_embed
        embedder.pos_embed = None
        try:
            found: Tensor = network(torch.cat([x, beside], 1), torch.tensor([600.0]), text, states, return_dict=False)[
                0
            ]
            return found
        finally:
            embedder.pos_embed = kept

    found = model.predict(x, torch.tensor([0.6]), [prepared])[0]
    assert (found - (x - 0.6 * velocity(seen.penultimate + places))).abs().max() < TOLERANCE
    assert (found - (x - 0.6 * velocity(seen.penultimate))).abs().max() > 3 * TOLERANCE


def test_what_is_seen_must_fit(load: Any, wan: Path, i2v: Path, flf: Path, context: Context) -> None:
    model, clip, vae = load(i2v)
    eye = eye_of(i2v)
    seen = clip_vision_encode(eye, picture(1))

    def begun(**vision: Any) -> Any:
        return wan_image_to_video(*texts(clip), vae, context, SIZE[1], SIZE[0], 5, **vision).positive

    with pytest.raises(ValueError, match="connect CLIPVisionEncode"):
        model.prepare(begun(), noise(5))
    fewer = VisionStates(seen.last[:, :5], seen.penultimate[:, :5])
    with pytest.raises(ValueError, match=r"34 tokens of a first and a last image, .* there are 5: connect"):
        load(flf)[0].prepare(begun(clip_vision_output=fewer), noise(5))
    with pytest.raises(ValueError, match="leave clip_vision_output unconnected"):
        load(wan)[0].prepare(begun(clip_vision_output=seen), noise(5))
    pair = clip_vision_encode(eye, picture(1).expand(2, -1, -1, -1))
    with pytest.raises(ValueError, match="as many of both"):
        wan_first_last_frame_to_video(
            *texts(clip), vae, context, SIZE[1], SIZE[0], 5, clip_vision_start_image=seen, clip_vision_end_image=pair
        )


@pytest.mark.parametrize(("height", "width"), [(80, 64), (33, 165), (20, 20)])
def test_pictures_are_fitted_as_in_training(height: int, width: int) -> None:
    from transformers import CLIPImageProcessorPil

    image = (picture(4, height, width) * 127 + 64).round() / 255  # not so bright or dark that overshoot is clipped
    processor = CLIPImageProcessorPil(size={"shortest_edge": EDGE}, crop_size=EDGE, do_normalize=False)
    expected = processor(images=pil(image), return_tensors="pt")["pixel_values"]
    # Pillow rounds to 8 bits between its two passes.
    assert (fitted(image, EDGE, "center") - expected).abs().max() <= 2.01 / 255
    squeezed = torch.from_numpy(np.array(pil(image).resize((EDGE, EDGE), Image.Resampling.BICUBIC)))
    assert (fitted(image, EDGE, "disabled") - squeezed.movedim(-1, 0) / 255).abs().max() <= 2.01 / 255


def test_states_equal_transformers(i2v: Path, load: Any) -> None:
    load(i2v)
    eye = eye_of(i2v)
    assert isinstance(eye, ClipVision)
    image = picture(5, EDGE, EDGE).expand(2, -1, -1, -1)
    from transformers import CLIPImageProcessorPil, CLIPVisionModel

    pixels = CLIPImageProcessorPil(size={"shortest_edge": EDGE}, crop_size=EDGE)(
        images=[pil(image)] * 2, return_tensors="pt"
    )["pixel_values"]
    network = CLIPVisionModel.from_pretrained(i2v / "image_encoder").eval()
    with torch.no_grad():
        states = network(pixels, output_hidden_states=True).hidden_states
    seen = clip_vision_encode(eye, image, "none")
    assert seen.last.shape == (2, SEEN_TOKENS, WIDTH)
    assert (seen.penultimate - states[-2]).abs().max() < 1e-5 and (seen.last - states[-1]).abs().max() < 1e-5


GRAPH: dict[str, Any] = {  # the nodes and files of ComfyUI's template image_to_video_wan
    "37": {"class_type": "UNETLoader",
           "inputs": {"unet_name": "wan2.1_i2v_480p_14B_fp16.safetensors", "weight_dtype": "default"}},
    "38": {"class_type": "CLIPLoader", "inputs": {
        "clip_name": "umt5_xxl_fp8_e4m3fn_scaled.safetensors", "type": "wan", "device": "default"}},
    "39": {"class_type": "VAELoader", "inputs": {"vae_name": "wan_2.1_vae.safetensors"}},
    "49": {"class_type": "CLIPVisionLoader", "inputs": {"clip_name": "clip_vision_h.safetensors"}},
    "52": {"class_type": "LoadImage", "inputs": {"image": "start.png"}},
    "51": {"class_type": "CLIPVisionEncode",
           "inputs": {"clip_vision": ["49", 0], "image": ["52", 0], "crop": "none"}},
    "6": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["38", 0], "text": PROMPT}},
    "7": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["38", 0], "text": NEGATIVE}},
    "50": {"class_type": "WanImageToVideo", "inputs": {
        "positive": ["6", 0], "negative": ["7", 0], "vae": ["39", 0], "clip_vision_output": ["51", 0],
        "start_image": ["52", 0], "width": 32, "height": 48, "length": 5, "batch_size": 1}},
    "54": {"class_type": "ModelSamplingSD3", "inputs": {"model": ["37", 0], "shift": 8}},
    "3": {"class_type": "KSampler", "inputs": {
        "model": ["54", 0], "positive": ["50", 0], "negative": ["50", 1], "latent_image": ["50", 2], "seed": 1,
        "steps": 2, "cfg": 6, "sampler_name": "uni_pc", "scheduler": "simple", "denoise": 1}},
    "8": {"class_type": "VAEDecode", "inputs": {"samples": ["3", 0], "vae": ["39", 0]}},
    "55": {"class_type": "CreateVideo", "inputs": {"images": ["8", 0], "fps": 16}},
    "56": {"class_type": "SaveVideo",
           "inputs": {"video": ["55", 0], "filename_prefix": "video/ComfyUI", "format": "auto", "codec": "auto"}},
}  # fmt: skip


def first_last_graph() -> dict[str, Any]:
    """The same with the nodes and files of ComfyUI's template wan2.1_flf2v_720_f16."""
    graph = json.loads(json.dumps(GRAPH))
    graph["37"]["inputs"]["unet_name"] = "wan2.1_flf2v_720p_14B_fp16.safetensors"
    graph["72"] = {"class_type": "LoadImage", "inputs": {"image": "end.png"}}
    graph["87"] = {
        "class_type": "CLIPVisionEncode",
        "inputs": {"clip_vision": ["49", 0], "image": ["72", 0], "crop": "none"},
    }
    node = graph["50"]
    node["class_type"] = "WanFirstLastFrameToVideo"
    node["inputs"] |= {
        "clip_vision_start_image": node["inputs"].pop("clip_vision_output"),
        "clip_vision_end_image": ["87", 0],
        "end_image": ["72", 0],
    }
    return graph  # type: ignore[no-any-return]


@pytest.mark.parametrize("last", [False, True])
def test_comfyuis_templates_run_on_its_files_and_nothing_goes_round_the_layer(
    i2v: Path, flf: Path, tmp_path: Path, last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipegraph.kernels.audit import strict
    from pipegraph.models.media.video_read import read_video

    folder, graph = (flf, first_last_graph()) if last else (i2v, GRAPH)
    models, pictures = tmp_path / "models", tmp_path / "input"
    tiny.comfyui_files(folder, models, graph["37"]["inputs"]["unet_name"])
    eye = load_file(folder / "image_encoder/model.safetensors")
    projection = {
        "visual_projection.weight": torch.zeros(16, WIDTH),
        "vision_model.embeddings.position_ids": torch.arange(SEEN_TOKENS)[None],
    }
    (models / "clip_vision").mkdir()
    save_file(
        {f"vision_model.{k.removeprefix('vision_model.')}": v for k, v in eye.items()} | projection,
        models / "clip_vision/clip_vision_h.safetensors",
    )
    pictures.mkdir()
    for number, name in enumerate(("start", "end")):
        pil(picture(number, 50, 70)).save(pictures / f"{name}.png")
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(models))
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(pictures))
    with strict(1 << 10) as seen:
        result = pg.load(graph, out=tmp_path / "out").run()
    assert seen.attention > 10 and seen.linear > 100
    [path] = result.files
    frames = read_video(path)[0].frames
    assert (frames.count, frames.width, frames.height) == (5, 32, 48)
