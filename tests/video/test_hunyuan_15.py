"""Our HunyuanVideo 1.5 equals diffusers' pipelines: same weights, prompts, noise and noise levels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import pipegraph as pg
from pipegraph.access import Access, granted
from pipegraph.generators import finish
from pipegraph.models.checkpoints.load import load_clip_vision, load_model, load_text_encoders, load_vae
from pipegraph.models.clip_vision import VisionStates
from pipegraph.models.loading.place import Place
from pipegraph.models.sampling.guiders import Guider
from pipegraph.models.sampling.run import sample
from pipegraph.models.sampling.samplers import SAMPLERS
from pipegraph.models.text.tokens import quoted
from pipegraph.nodes.video.hunyuan import empty_hunyuan_video_15_latent, hunyuan_video_15_image_to_video

from ..context import Context
from . import hunyuan_tiny as tiny
from .conftest import UNASKED

TOLERANCE = 1e-4
CFG = 3.0
CPU = Place(torch.device("cpu"), torch.float32)
PROMPT, NEGATIVE = 'a red boat named "Joy" at sea', ""
SIZE = (48, 32)
"""Height and width in pixels: no square."""


class Given:
    """A NOISE of given values."""

    seed, silent = 0, False

    def __init__(self, noise: Tensor) -> None:
        self.noise = noise

    def generate_noise(self, latent: Any) -> Tensor:
        return self.noise


@pytest.fixture(scope="session")
def hunyuan_15(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hunyuan_15") / "t2v"
    tiny.make_15(folder)
    return folder


def noise(frames: int = 9, batch: int = 1) -> Tensor:
    shape = (batch, 32, (frames - 1) // 4 + 1, SIZE[0] // 16, SIZE[1] // 16)
    return torch.randn(shape, generator=torch.Generator().manual_seed(7))


def texts(clip: Any, prompt: str = PROMPT, negative: str = NEGATIVE) -> tuple[Any, Any]:
    return clip.encode(clip.tokenize(prompt)), clip.encode(clip.tokenize(negative))


def run(model: Any, positive: Any, negative: Any, start: Tensor, sigmas: Tensor, cfg: float = CFG) -> Tensor:
    """VAE latents of an Euler run."""
    guider, given = Guider(model, positive, negative, cfg), Given(start)
    steps = sample(guider, given, SAMPLERS["euler"], sigmas, {"samples": torch.zeros_like(start)})  # type: ignore[arg-type]
    return finish(steps).samples


def reference(pipe: Any, start: Tensor, **options: Any) -> Tensor:
    """VAE latents of diffusers' pipeline."""
    pipe.vision_num_semantic_tokens = 3  # of no picture: what is not there and not attended to
    result: Tensor = pipe(
        prompt=PROMPT,
        negative_prompt=NEGATIVE,
        num_frames=4 * start.shape[2] - 3,
        num_inference_steps=3,
        latents=start,
        output_type="latent",
        return_dict=False,
        **options,
    )[0]
    scale: float = pipe.vae.config.scaling_factor
    return result / scale


def test_equals_diffusers(load: Any, pipeline: Any, hunyuan_15: Path) -> None:
    model, clip, vae = load(hunyuan_15)
    pipe = pipeline(hunyuan_15, "HunyuanVideo15Pipeline")
    expected = reference(pipe, noise(), height=SIZE[0], width=SIZE[1])
    sigmas = pipe.scheduler.sigmas
    (states, extras), *_ = clip.encode(clip.tokenize(PROMPT))[0], None
    told = pipe.encode_prompt(PROMPT)
    assert (states[0] - told[0][told[1].bool()]).abs().max() < 1e-5
    assert (extras["conditioning_byt5small"][0] - told[2][told[3].bool()]).abs().max() < 1e-5
    latents = run(model, *texts(clip), noise(), sigmas)
    assert (latents - expected).abs().max() < TOLERANCE
    with torch.no_grad():
        pixels = pipe.vae.decode(latents, return_dict=False)[0]
    frames = vae.decode(latents)
    assert frames.shape == (9, *SIZE, 3)
    assert (frames - ((pixels + 1) / 2).clamp(0, 1)[0].movedim(0, -1)).abs().max() < TOLERANCE
    from pipegraph.models.sampling.model_sampling import Flow

    for changed in (
        run(model, *texts(clip, PROMPT.replace("Joy", "Joe")), noise(), sigmas),
        run(model, *texts(clip, PROMPT.replace("red", "rid")), noise(), sigmas),
        run(model, *texts(clip), noise(), sigmas, cfg=2.9),
        run(model.with_sampling(Flow(5.0, multiplier=900)), *texts(clip), noise(), sigmas),
    ):
        assert (changed - latents).abs().max() > 10 * TOLERANCE


def test_frames_come_one_latent_frame_at_a_time(load: Any, pipeline: Any, hunyuan_15: Path) -> None:
    """The whole decode, in parts: memory but for the middle attention's does not grow with the length."""
    vae = load(hunyuan_15)[2]
    pipe = pipeline(hunyuan_15, "HunyuanVideo15Pipeline")
    z = noise(17)
    parts = list(vae.parts(z[0]))
    assert [len(p) for p in parts] == [1, 4, 4, 4, 4]
    with torch.no_grad():
        whole = ((pipe.vae.decode(z, return_dict=False)[0] + 1) / 2).clamp(0, 1)[0].movedim(0, -1)
    assert (torch.cat(parts) - whole).abs().max() < 1e-5
    assert (parts[-1] - vae.decode(z[:, :, -2:])[1:]).abs().max() > 1e-3, "what was before must matter"
    images = torch.rand(9, *SIZE, 3, generator=torch.Generator().manual_seed(3))
    expected = pipe.vae.encode(images.movedim(-1, 0)[None] * 2 - 1).latent_dist.mode()
    assert (vae.encode(images) - expected).abs().max() < TOLERANCE


def look_at(folder: Path, pipe: Any, generator: torch.Generator) -> None:
    """SigLIP sees what transformers' sees, from the folder and from a single file as ComfyUI has it."""
    from PIL import Image

    pixels = torch.randint(0, 256, (28, 28, 3), generator=generator, dtype=torch.uint8)
    expected = pipe.encode_image(Image.fromarray(pixels.numpy()), 1, "cpu", torch.float32)
    file = folder / "sigclip_vision_patch14_384.safetensors"
    stored = load_file(folder / "image_encoder/model.safetensors")
    assert any("head." in name for name in stored)
    save_file({f"vision_model.{n.removeprefix('vision_model.')}": t for n, t in stored.items()}, file)
    for name in (folder / "image_encoder", file):
        with granted(Access.to(folder)):
            found = load_clip_vision(str(name), CPU).encode(pixels[None] / 255, "disabled")
        assert (found.last - expected).abs().max() < 1e-5


@pytest.fixture(scope="session")
def i2v(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import transformers as hf

    folder = tmp_path_factory.mktemp("hunyuan_15") / "i2v"
    look = hf.SiglipVisionConfig(
        hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=16, image_size=28, patch_size=14
    )
    tiny.make_15(
        folder,
        "HunyuanVideo15ImageToVideoPipeline",
        transformer=tiny.transformer_15(target_size=48),
        image_encoder=hf.SiglipVisionModel(look),
        feature_extractor=hf.SiglipImageProcessor(size={"height": 28, "width": 28}),
    )
    return folder


def test_a_clip_from_a_picture_equals_diffusers(load: Any, pipeline: Any, i2v: Path, context: Context) -> None:
    from PIL import Image

    pipe = pipeline(i2v, "HunyuanVideo15ImageToVideoPipeline")
    model, clip, vae = load(i2v)
    height, width = pipe.video_processor.calculate_default_height_width(*SIZE, target_size=48)
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (height, width, 3), generator=generator, dtype=torch.uint8)
    start = torch.randn(1, 32, 3, height // 16, width // 16, generator=generator)
    picture = Image.fromarray(pixels.numpy())
    expected = reference(pipe, start, image=picture)
    seen = VisionStates(pipe.encode_image(picture, 1, "cpu", torch.float32), torch.zeros(0))
    look_at(i2v, pipe, generator)
    given = {"width": width, "height": height, "length": 9, "start_image": pixels[None] / 255}
    made = hunyuan_video_15_image_to_video(*texts(clip), vae, context, **given, clip_vision_output=seen)
    assert made.latent["samples"].shape == start.shape and not context.warnings
    latents = run(model, made.positive, made.negative, start, pipe.scheduler.sigmas)
    assert (latents - expected).abs().max() < TOLERANCE
    blind = hunyuan_video_15_image_to_video(*texts(clip), vae, context, **given)
    assert (run(model, blind.positive, blind.negative, start, pipe.scheduler.sigmas) - latents).abs().max() > 1e-3
    several = hunyuan_video_15_image_to_video(*texts(clip), vae, context, **given, batch_size=3)
    extras = several.positive[0][1]
    assert len(several.latent["samples"]) == 3 and len(extras["concat_latent_image"]) == len(extras["concat_mask"]) == 1
    wrong = hunyuan_video_15_image_to_video(
        *texts(clip), vae, context, **given | {"length": 5, "start_image": given["start_image"].expand(7, -1, -1, -1)}
    )
    assert context.warnings == ["7 images, but the video has 5 frames: the first are used"]
    with pytest.raises(ValueError, match="make both with the same node"):
        model.prepare(wrong.positive, start)


def write_files(folder: Path, models: Path) -> dict[str, str]:
    """The pipeline's weights as single files in the original layout, under the names of ComfyUI's template."""
    network = load_file(folder / "transformer/diffusion_pytorch_model.safetensors")
    weights = {
        "diffusion_models/hunyuanvideo1.5_720p_t2v_fp16": tiny.to_original_15(network),
        "vae/hunyuanvideo15_vae_fp16": tiny.to_original_vae_15(
            load_file(folder / "vae/diffusion_pytorch_model.safetensors")
        ),
        "text_encoders/byt5_small_glyphxl_fp16": load_file(folder / "text_encoder_2/model.safetensors"),
    }
    fused = tiny.fused(weights["diffusion_models/hunyuanvideo1.5_720p_t2v_fp16"], "img_attn", "txt_attn")
    weights["diffusion_models/comfyui"] = tiny.comfyui_spelling(fused)
    for name, tensors in weights.items():
        (models / name).parent.mkdir(parents=True, exist_ok=True)
        save_file({k: v.contiguous() for k, v in tensors.items()}, models / f"{name}.safetensors")
    (models / "text_encoders/qwen_2.5_vl_7b_fp8_scaled").symlink_to(folder, target_is_directory=True)
    return {n.rpartition("/")[0]: n.rpartition("/")[2] + ".safetensors" for n in weights}


def test_single_files_in_the_original_layout(
    load: Any, hunyuan_15: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, clip, vae = load(hunyuan_15)
    write_files(hunyuan_15, tmp_path / "models")
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path / "models"))
    encoders = ["byt5_small_glyphxl_fp16.safetensors", f"{hunyuan_15}/text_encoder"]
    with granted(Access.to(hunyuan_15)):
        file_clip = load_text_encoders("hunyuan_video_15", encoders, CPU)
    sigmas = torch.tensor([1.0, 0.7, 0.0])
    expected = run(model, *texts(clip), noise(), sigmas)
    for name in ("hunyuanvideo1.5_720p_t2v_fp16", "comfyui"):
        file_model = load_model(f"{name}.safetensors", CPU)
        assert file_model.loaded.network.config.rope_axes_dim == [4, 14, 14]
        assert (run(file_model, *texts(file_clip), noise(), sigmas) - expected).abs().max() < 1e-5
    file_vae = load_vae("hunyuanvideo15_vae_fp16.safetensors", CPU)
    assert file_vae.latent == vae.latent
    assert torch.equal(file_vae.decode(expected), vae.decode(expected))


GRAPH: dict[str, Any] = {  # the nodes of ComfyUI's template video_hunyuan_video_1.5_720p_t2v
    "10": {"class_type": "VAELoader", "inputs": {"vae_name": ""}},
    "11": {
        "class_type": "DualCLIPLoader",
        "inputs": {"clip_name1": "", "clip_name2": "", "type": "hunyuan_video_15", "device": "default"},
    },
    "12": {"class_type": "UNETLoader", "inputs": {"unet_name": "", "weight_dtype": "default"}},
    "44": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["11", 0], "text": PROMPT}},
    "93": {"class_type": "CLIPTextEncode", "inputs": {"clip": ["11", 0], "text": NEGATIVE}},
    "124": {
        "class_type": "EmptyHunyuanVideo15Latent",
        "inputs": {"width": 32, "height": 48, "length": 5, "batch_size": 1},
    },
    "127": {"class_type": "RandomNoise", "inputs": {"noise_seed": 1}},
    "128": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "euler"}},
    "130": {"class_type": "ModelSamplingSD3", "inputs": {"model": ["12", 0], "shift": 7}},
    "126": {
        "class_type": "BasicScheduler",
        "inputs": {"model": ["130", 0], "scheduler": "simple", "steps": 2, "denoise": 1},
    },
    "129": {
        "class_type": "CFGGuider",
        "inputs": {"model": ["130", 0], "positive": ["44", 0], "negative": ["93", 0], "cfg": 6},
    },
    "125": {
        "class_type": "SamplerCustomAdvanced",
        "inputs": {
            "noise": ["127", 0],
            "guider": ["129", 0],
            "sampler": ["128", 0],
            "sigmas": ["126", 0],
            "latent_image": ["124", 0],
        },
    },
    "8": {"class_type": "VAEDecode", "inputs": {"samples": ["125", 0], "vae": ["10", 0]}},
    "101": {"class_type": "CreateVideo", "inputs": {"images": ["8", 0], "fps": 24}},
    "102": {
        "class_type": "SaveVideo",
        "inputs": {"video": ["101", 0], "filename_prefix": "video/hunyuan", "format": "auto", "codec": "h264"},
    },
}


def test_comfyuis_template_runs_and_nothing_goes_round_the_layer(
    hunyuan_15: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipegraph.kernels.audit import strict
    from pipegraph.models.media.video_read import read_video

    models = tmp_path / "models"
    write_files(hunyuan_15, models)
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(models))
    graph = json.loads(json.dumps(GRAPH))
    graph["10"]["inputs"]["vae_name"] = "hunyuanvideo15_vae_fp16.safetensors"
    graph["11"]["inputs"] |= {
        "clip_name1": f"{hunyuan_15}/text_encoder",
        "clip_name2": "byt5_small_glyphxl_fp16.safetensors",
    }
    graph["12"]["inputs"]["unet_name"] = "hunyuanvideo1.5_720p_t2v_fp16.safetensors"
    with strict(1 << 10) as seen:
        result = pg.load(graph, out=tmp_path, allow=[hunyuan_15]).run()
    assert seen.attention > 10 and seen.linear > 100
    [path] = result.files
    frames = read_video(path)[0].frames
    assert (frames.count, frames.width, frames.height) == (5, 32, 48)


def test_comfyuis_template_of_image_to_video_runs(i2v: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes of video_hunyuan_video_1.5_720p_i2v; each loader is given the whole folder."""
    from PIL import Image

    from pipegraph.models.media.video_read import read_video

    Image.new("RGB", (40, 60), (200, 30, 30)).save(tmp_path / "start.png")
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(tmp_path))
    graph = json.loads(json.dumps(GRAPH))
    for node, *names in (("10", "vae_name"), ("11", "clip_name1", "clip_name2"), ("12", "unet_name")):
        graph[node]["inputs"] |= dict.fromkeys(names, str(i2v))
    size = graph.pop("124")["inputs"]
    graph |= {
        "80": {"class_type": "LoadImage", "inputs": {"image": "start.png"}},
        "81": {"class_type": "CLIPVisionLoader", "inputs": {"clip_name": str(i2v / "image_encoder")}},
        "82": {
            "class_type": "CLIPVisionEncode",
            "inputs": {"clip_vision": ["81", 0], "image": ["80", 0], "crop": "center"},
        },
        "78": {
            "class_type": "HunyuanVideo15ImageToVideo",
            "inputs": {
                "positive": ["44", 0],
                "negative": ["93", 0],
                "vae": ["10", 0],
                "clip_vision_output": ["82", 0],
                "start_image": ["80", 0],
                **size,
            },
        },
    }
    graph["129"]["inputs"] |= {"positive": ["78", 0], "negative": ["78", 1]}
    graph["125"]["inputs"]["latent_image"] = ["78", 2]
    [path] = pg.load(graph, out=tmp_path / "out", allow=[i2v]).run().files
    assert read_video(path)[0].frames.count == 5


def test_what_does_not_fit_is_said(load: Any, hunyuan_15: Path) -> None:
    model, clip, _ = load(hunyuan_15)
    assert empty_hunyuan_video_15_latent(UNASKED, 32, 48, 9)["samples"].shape == noise().shape
    assert quoted('no "no" and “yes”, "no"') == 'Text "no". Text "yes". ' and not quoted("no quotes")
    long = f'say "{"x" * 300}"'
    assert 'the text in quotes is longer than 256 tokens; not read: "' in clip.remarks(clip.tokenize(long))[0]
    assert clip.remarks(clip.tokenize(PROMPT)) == []
    positive = texts(clip)[0]
    with pytest.raises(ValueError, match="EmptyHunyuanVideo15Latent"):
        model.prepare(positive, torch.zeros(1, 16, 1, 2, 2))
    with pytest.raises(ValueError, match="has 8 numbers a token, this network reads 32"):
        model.prepare([[torch.zeros(1, 3, 8), {}]], noise())
