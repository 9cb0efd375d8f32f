"""ComfyUI's templates for Wan's Fun models, key frames and VACE between two frames, on files with its names."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import pipegraph as pg
from pipegraph.kernels.audit import audit
from pipegraph.models.checkpoints.load import load_model
from pipegraph.nodes.video.files import save_video

from ..context import Context
from . import tiny
from .conftest import clip, frames, frames_of, saved
from .test_wan import CPU
from .test_wan_fun import network
from .test_wan_vace import vace  # noqa: F401
from .test_wan_vision import WIDTH, picture, pil, vision

Graph = dict[str, Any]
Run = Callable[[Graph], Any]


@pytest.fixture
def models(tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files of models are to lie; pictures and a clip of the graphs lie beside."""
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIPEGRAPH_INPUT", str(tmp_path))
    for number in range(3):
        pil(picture(20 + number, 50, 70)).save(tmp_path / f"{number}.png")
    [made] = saved(save_video(clip(frames(7, 64, 40)), context, "clip", "mkv"))
    made.rename(tmp_path / "clip.mkv")
    return tmp_path / "models"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a graph; nothing of it goes round the kernel layer, but for the grey of pictures that Canny looks at."""

    def run(graph: Graph) -> Any:
        with audit(1 << 10) as seen:
            result = pg.load(graph, out=tmp_path / "out").run()
        assert not [launch for launch in seen.escaped if "models/media/image_ops.py" not in launch.caller]
        assert seen.attention > 4 and seen.linear > 40
        return result

    return run


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Folders of pipelines whose network has some more channels."""
    folders: dict[tuple[int, bool], Path] = {}

    def make(channels: int, *, seeing: bool = False) -> Path:
        if (channels, seeing) not in folders:
            torch.manual_seed(4)
            more: dict[str, Any] = {"image_dim": WIDTH, "added_kv_proj_dim": 24} if seeing else {}
            vae = None
            if channels > 96:  # of the 5B model
                more, vae = {"out_channels": 48}, tiny.residual_autoencoder()
            folders[channels, seeing] = folder = tmp_path_factory.mktemp("wan") / "made"
            tiny.make(folder, vae=vae, transformer=tiny.transformer(in_channels=channels, num_layers=2, **more))
        return folders[channels, seeing]

    return make


def files(folder: Path, models: Path, *names: str, vae: str = "wan_2.1_vae.safetensors", **own: int) -> None:
    """A network under one or two names, with the layers of a Fun model, which diffusers has not."""
    tiny.comfyui_files(folder, models, f"{names[0]}.safetensors", vae=vae)
    path = models / f"diffusion_models/{names[0]}.safetensors"
    if own:
        layers = {k: v for k, v in network(**own).state_dict().items() if k.startswith(("ref_conv", "control_adapter"))}
        assert layers
        with safe_open(path, "pt") as file:
            told = file.metadata()
        save_file(load_file(path) | layers, path, told)
    for name in names[1:]:
        shutil.copy(path, path.with_name(f"{name}.safetensors"))


def node(kind: str, **inputs: Any) -> Graph:
    return {"class_type": kind, "inputs": inputs}


def loaders() -> Graph:
    return {
        "clip": node("CLIPLoader", clip_name="umt5_xxl_fp8_e4m3fn_scaled.safetensors", type="wan", device="default"),
        "vae": node("VAELoader", vae_name="wan_2.1_vae.safetensors"),
        "positive": node("CLIPTextEncode", clip=["clip", 0], text="a green leaf on the beach"),
        "negative": node("CLIPTextEncode", clip=["clip", 0], text="grey"),
        "image": node("LoadImage", image="0.png"),
    }


def begun(kind: str, **inputs: Any) -> Graph:
    size = {"width": 32, "height": 48, "length": 5}
    texts = {"positive": ["positive", 0], "negative": ["negative", 0], "vae": ["vae", 0]}
    return node(kind, **{**texts, **size, "batch_size": 1, **inputs})


def two_experts(high: str, low: str, start: str = "begun", cfg: float = 3.5) -> Graph:
    """Both networks, and two KSamplerAdvanced over what `start` gives; frames come out of `frames`."""
    steps: Graph = {
        "steps": 2,
        "cfg": cfg,
        "sampler_name": "euler",
        "scheduler": "simple",
        "positive": [start, 0],
        "negative": [start, 1],
    }
    return {
        "high": node("UNETLoader", unet_name=f"{high}.safetensors", weight_dtype="default"),
        "low": node("UNETLoader", unet_name=f"{low}.safetensors", weight_dtype="default"),
        "high 8": node("ModelSamplingSD3", model=["high", 0], shift=8),
        "low 8": node("ModelSamplingSD3", model=["low", 0], shift=8),
        f"{start} first": node(
            "KSamplerAdvanced",
            model=["high 8", 0],
            latent_image=[start, 2],
            add_noise="enable",
            noise_seed=1,
            start_at_step=0,
            end_at_step=1,
            return_with_leftover_noise="enable",
            **steps,
        ),
        f"{start} second": node(
            "KSamplerAdvanced",
            model=["low 8", 0],
            latent_image=[f"{start} first", 0],
            add_noise="disable",
            noise_seed=0,
            start_at_step=1,
            end_at_step=10000,
            return_with_leftover_noise="disable",
            **steps,
        ),
        f"{start} frames": node("VAEDecode", samples=[f"{start} second", 0], vae=["vae", 0]),
    }


def video(images: str) -> Graph:
    return {
        "video": node("CreateVideo", images=[images, 0], fps=16),
        "save": node("SaveVideo", video=["video", 0], filename_prefix="video/wan", format="auto", codec="auto"),
    }


FOLLOWED: Graph = {
    "load": node("LoadVideo", file="clip.mkv"),
    "parts": node("GetVideoComponents", video=["load", 0]),
    "edges": node("Canny", image=["parts", 0], low_threshold=0.1, high_threshold=0.6),
}


@pytest.mark.parametrize("kind", ["control", "camera", "inpaint"])
def test_wan22_fun(made: Callable[..., Path], models: Path, run: Run, kind: str) -> None:
    """video_wan2_2_14B_fun_control, _fun_camera, _fun_inpaint."""
    high, low = (f"wan2.2_fun_{kind}_{n}_noise_14B_fp8_scaled" for n in ("high", "low"))
    own = {"control": {"reference_channels": 16}, "camera": {"camera_channels": 24}}.get(kind, {})
    files(made(52 if kind == "control" else 36), models, high, low, vae="wan_2.1_vae.safetensors", **own)
    graph = loaders() | two_experts(high, low) | video("begun frames")
    if kind == "control":
        start = begun("Wan22FunControlToVideo", ref_image=["image", 0], control_video=["edges", 0])
        graph |= FOLLOWED | {"begun": start}
    elif kind == "camera":
        graph["camera"] = node(
            "WanCameraEmbedding",
            camera_pose="Zoom In",
            width=32,
            height=48,
            length=5,
            speed=1,
            fx=0.5,
            fy=0.5,
            cx=0.5,
            cy=0.5,
        )
        size = {name: ["camera", i] for i, name in enumerate(("width", "height", "length"), 1)}
        graph["begun"] = begun(
            "WanCameraImageToVideo", start_image=["image", 0], camera_conditions=["camera", 0], **size
        )
    else:
        graph["end"] = node("LoadImage", image="1.png")
        graph["begun"] = begun("WanFunInpaintToVideo", start_image=["image", 0], end_image=["end", 0])
    assert frames_of(run(graph).files).shape == (5, 48, 32, 3)
    net = load_model(f"{high}.safetensors", CPU).loaded.network
    assert hasattr(net, "ref_conv") == (kind == "control") and hasattr(net, "control_adapter") == (kind == "camera")


@pytest.mark.parametrize("kind", ["control", "inpaint"])
def test_wan22_fun_5b(made: Callable[..., Path], models: Path, run: Run, kind: str) -> None:
    """video_wan2_2_5B_fun_control and _fun_inpaint."""
    name, vae = f"wan2.2_fun_{kind}_5B_bf16", "wan2.2_vae.safetensors"
    own: dict[str, Any] = {"reference_channels": 48} if kind == "control" else {}
    files(made(148 if kind == "control" else 100), models, name, vae=vae, **own)
    graph = (
        loaders()
        | video("frames")
        | {
            "vae": node("VAELoader", vae_name=vae),
            "net": node("UNETLoader", unet_name=f"{name}.safetensors", weight_dtype="default"),
            "8": node("ModelSamplingSD3", model=["net", 0], shift=8),
            "sampled": node(
                "KSampler",
                model=["8", 0],
                positive=["begun", 0],
                negative=["begun", 1],
                latent_image=["begun", 2],
                seed=1,
                steps=2,
                cfg=5,
                sampler_name="uni_pc",
                scheduler="simple",
                denoise=1,
            ),
            "frames": node("VAEDecode", samples=["sampled", 0], vae=["vae", 0]),
        }
    )
    size = {"width": 32, "height": 64}
    if kind == "control":
        given = {"ref_image": ["image", 0], "control_video": ["edges", 0]}
        graph |= FOLLOWED | {"begun": begun("Wan22FunControlToVideo", **given, **size)}
    else:
        graph["end"] = node("LoadImage", image="1.png")
        given = {"start_image": ["image", 0], "end_image": ["end", 0]}
        graph["begun"] = begun("WanFunInpaintToVideo", **given, **size)
    assert frames_of(run(graph).files).shape == (5, 64, 32, 3)


def see(models: Path) -> None:
    """CLIP vision as the templates name it."""
    (models / "clip_vision").mkdir()
    eye = {f"vision_model.{k.removeprefix('vision_model.')}": v for k, v in vision().state_dict().items()}
    save_file({k: v.contiguous() for k, v in eye.items()}, models / "clip_vision/clip_vision_h.safetensors")


@pytest.mark.parametrize("kind", ["control", "inp"])
def test_wan21_fun(made: Callable[..., Path], models: Path, run: Run, kind: str) -> None:
    """wan2.1_fun_control and wan2.1_fun_inp, with guidance by skipped layers and CFG-Zero*."""
    name = f"wan2.1_fun_{kind}_1.3B_bf16"
    files(made(48 if kind == "control" else 36, seeing=True), models, name)
    see(models)
    graph = loaders() | video("frames") | {
        "eye": node("CLIPVisionLoader", clip_name="clip_vision_h.safetensors"),
        "seen": node("CLIPVisionEncode", clip_vision=["eye", 0], image=["image", 0], crop="none"),
        "net": node("UNETLoader", unet_name=f"{name}.safetensors", weight_dtype="default"),
        "5": node("ModelSamplingSD3", model=["net", 0], shift=5),
        "skip": node("SkipLayerGuidanceDiT", model=["5", 0], double_layers="1,10", single_layers="9,10", scale=3,
                     start_percent=0.01, end_percent=0.8, rescaling_scale=0),
        "zero": node("CFGZeroStar", model=["skip", 0]),
        "unet": node("UNetTemporalAttentionMultiply", model=["zero", 0], self_structural=1, self_temporal=1,
                     cross_structural=1.2, cross_temporal=1.3),
        "sampled": node("KSampler", model=["unet", 0], positive=["begun", 0], negative=["begun", 1],
                        latent_image=["begun", 2], seed=1, steps=2, cfg=6, sampler_name="uni_pc", scheduler="simple",
                        denoise=1),
        "frames": node("VAEDecode", samples=["sampled", 0], vae=["vae", 0]),
    }  # fmt: skip
    given = {"clip_vision_output": ["seen", 0], "start_image": ["image", 0]}
    if kind == "control":
        graph |= FOLLOWED | {"begun": begun("WanFunControlToVideo", control_video=["edges", 0], **given)}
    else:
        graph["end"] = node("LoadImage", image="1.png")
        graph["begun"] = begun("WanFunInpaintToVideo", end_image=["end", 0], **given)
    assert frames_of(run(graph).files).shape == (5, 48, 32, 3)


def test_chrono_edit(made: Callable[..., Path], models: Path, run: Run) -> None:
    """image_chrono_edit_14B: a picture becomes the last frame of a clip of two latent frames."""
    files(made(36, seeing=True), models, "chrono_edit_14B_fp16")
    see(models)
    given = {"clip_vision_output": ["seen", 0], "start_image": ["image", 0]}
    graph = loaders() | {
        "eye": node("CLIPVisionLoader", clip_name="clip_vision_h.safetensors"),
        "seen": node("CLIPVisionEncode", clip_vision=["eye", 0], image=["image", 0], crop="none"),
        "net": node("UNETLoader", unet_name="chrono_edit_14B_fp16.safetensors", weight_dtype="default"),
        "5": node("ModelSamplingSD3", model=["net", 0], shift=5),
        "far": node("ScaleROPE", model=["5", 0], scale_x=1, shift_x=0, scale_y=1, shift_y=0, scale_t=7, shift_t=0),
        "begun": begun("WanImageToVideo", **given),
        "sampled": node(
            "KSampler",
            model=["far", 0],
            positive=["begun", 0],
            negative=["begun", 1],
            latent_image=["begun", 2],
            seed=1,
            steps=2,
            cfg=4,
            sampler_name="uni_pc",
            scheduler="simple",
            denoise=1,
        ),
        "frames": node("VAEDecode", samples=["sampled", 0], vae=["vae", 0]),
        "last": node("ImageFromBatch", image=["frames", 0], batch_index=4, length=1),
        "save": node("SaveImage", images=["last", 0], filename_prefix="Chrono_Edit_14B"),
    }
    [path] = run(graph).files
    with Image.open(path) as picture:
        assert picture.size == (32, 48)


def test_key_frames(made: Callable[..., Path], models: Path, run: Run) -> None:
    """templates-6-key-frames: clips from picture to picture, one after the other (here 3 pictures)."""
    high, low = (f"wan2.2_i2v_{n}_noise_14B_fp8_scaled" for n in ("high", "low"))
    files(made(36), models, high, low)
    graph = loaders() | video("all")
    for number in range(3):
        graph[f"picture {number}"] = node("LoadImage", image=f"{number}.png")
    for number in range(2):
        pictures = {"start_image": [f"picture {number}", 0], "end_image": [f"picture {number + 1}", 0]}
        graph[f"clip {number}"] = begun("WanFirstLastFrameToVideo", **pictures)
        graph |= two_experts(high, low, f"clip {number}", cfg=1)
    graph["all"] = node("BatchImagesNode", **{f"images.image{i}": [f"clip {i} frames", 0] for i in range(2)})
    assert frames_of(run(graph).files).shape == (10, 48, 32, 3)


def test_vace_between_two_frames(vace: Path, models: Path, run: Run) -> None:  # noqa: F811
    """video_wan_vace_flf2v: first and last frame, grey between, and the mask of what is painted, in batches."""
    files(vace, models, "wan2.1_vace_14B_fp16")
    mask = {
        "paint": node("SolidMask", value=1, width=32, height=48),
        "keep": node("SolidMask", value=0, width=32, height=48),
        "paint image": node("MaskToImage", mask=["paint", 0]),
        "keep image": node("MaskToImage", mask=["keep", 0]),
        "count": node("ComfyMathExpression", expression="a - 2", **{"values.a": ["length", 0]}),
        "length": node("PrimitiveInt", value=5),
        "between": node("RepeatImageBatch", image=["paint image", 0], amount=["count", 1]),
        "clip images": node(
            "BatchImagesNode", **{f"images.image{i}": [n, 0] for i, n in enumerate(("image", "between", "end"))}
        ),
        "mask images": node(
            "BatchImagesNode",
            **{f"images.image{i}": [n, 0] for i, n in enumerate(("keep image", "between", "keep image"))},
        ),
        "masks": node("ImageToMask", image=["mask images", 0], channel="red"),
        "end": node("LoadImage", image="1.png"),
    }
    graph = (
        loaders()
        | mask
        | video("frames")
        | {
            "net": node("UNETLoader", unet_name="wan2.1_vace_14B_fp16.safetensors", weight_dtype="default"),
            "fast": node("PrimitiveBoolean", value=False),
            "steps": node("ComfySwitchNode", switch=["fast", 0], on_false=["many", 0], on_true=["few", 0]),
            "many": node("PrimitiveInt", value=2),
            "few": node("PrimitiveInt", value=1),
            "8": node("ModelSamplingSD3", model=["net", 0], shift=8),
            "begun": begun(
                "WanVaceToVideo",
                control_video=["clip images", 0],
                control_masks=["masks", 0],
                strength=1,
                length=["length", 0],
            ),
            "sampled": node(
                "KSampler",
                model=["8", 0],
                positive=["begun", 0],
                negative=["begun", 1],
                latent_image=["begun", 2],
                seed=1,
                steps=["steps", 0],
                cfg=6,
                sampler_name="uni_pc",
                scheduler="simple",
                denoise=1,
            ),
            "trimmed": node("TrimVideoLatent", samples=["sampled", 0], trim_amount=["begun", 3]),
            "frames": node("VAEDecode", samples=["trimmed", 0], vae=["vae", 0]),
        }
    )
    assert frames_of(run(graph).files).shape == (5, 48, 32, 3)
