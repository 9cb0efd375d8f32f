"""SDXL against diffusers' StableDiffusionXLPipeline on tiny random weights, from its folder and the original file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import AutoencoderKL, EulerDiscreteScheduler, StableDiffusionXLPipeline, UNet2DConditionModel
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoTokenizer, CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

import pipegraph as pg
from pipegraph.access import Access, granted
from pipegraph.generators import finish
from pipegraph.kernels.audit import strict
from pipegraph.models.adapters.lora_targets import targets
from pipegraph.models.checkpoints.load import load_checkpoint, load_vae
from pipegraph.models.checkpoints.parts import part
from pipegraph.models.checkpoints.source import checkpoint
from pipegraph.models.families import FAMILIES
from pipegraph.models.loading.place import Place
from pipegraph.models.paths import EMBEDDED
from pipegraph.models.sampling.guiders import Guider
from pipegraph.models.sampling.model_sampling import Discrete
from pipegraph.models.sampling.noise import Noise
from pipegraph.models.sampling.run import sample
from pipegraph.models.sampling.samplers import SAMPLERS

pytestmark = pytest.mark.filterwarnings("ignore:__array__")
CPU = Place(torch.device("cpu"), torch.float32)
STEPS, CFG, WINDOW = 4, 5.0, 16
PROMPT, NEGATIVE = "a red apple on the beach", "a blue car"
HEIGHT, WIDTH = 48, 32
ENCODERS = ("text_encoder", "text_encoder_2")


def make(folder: Path, prediction: str = "epsilon") -> StableDiffusionXLPipeline:
    torch.manual_seed(0)
    tokenizers = [AutoTokenizer.from_pretrained(EMBEDDED / "flux-tiny" / "tokenizer") for _ in range(2)]
    for tokenizer in tokenizers:
        tokenizer.model_max_length = WINDOW
    tokenizers[1].pad_token = tokenizers[1].convert_ids_to_tokens(0)
    first = tokenizers[0]
    shared: dict[str, Any] = dict(
        vocab_size=len(first),
        num_hidden_layers=3,
        num_attention_heads=2,
        max_position_embeddings=WINDOW,
        bos_token_id=first.bos_token_id,
        eos_token_id=first.eos_token_id,
        pad_token_id=first.pad_token_id,
    )
    clip_l = CLIPTextModel(CLIPTextConfig(hidden_size=64, intermediate_size=48, **shared))
    config = CLIPTextConfig(hidden_size=128, intermediate_size=64, projection_dim=24, hidden_act="gelu", **shared)
    clip_g = CLIPTextModelWithProjection(config)
    unet = UNet2DConditionModel(
        block_out_channels=(32, 64, 64),
        layers_per_block=2,
        norm_num_groups=32,
        attention_head_dim=[1, 1, 1],
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=192,
        transformer_layers_per_block=[1, 2, 1],
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=24 + 6 * 256,
    )
    vae = AutoencoderKL(
        block_out_channels=(32, 32, 32, 32),
        down_block_types=("DownEncoderBlock2D",) * 4,
        layers_per_block=1,
        up_block_types=("UpDecoderBlock2D",) * 4,
        latent_channels=4,
        norm_num_groups=32,
        scaling_factor=0.13025,
    )
    scheduler = EulerDiscreteScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", prediction_type=prediction
    )
    pipeline = StableDiffusionXLPipeline(
        vae=vae,
        text_encoder=clip_l,
        tokenizer=tokenizers[0],
        text_encoder_2=clip_g,
        tokenizer_2=tokenizers[1],
        unet=unet,
        scheduler=scheduler,
    )
    for network in (unet, clip_l, clip_g):  # gains and biases that do something
        for name, parameter in network.named_parameters():
            if parameter.ndim == 1:
                torch.nn.init.normal_(parameter, mean=float("weight" in name), std=0.2)
    pipeline.save_pretrained(folder)
    return pipeline


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sdxl")
    make(path)
    return path


def ours(path: Path, positive: str = PROMPT, **extras: Any) -> Tensor:
    """Latents as KSampler makes them, of a checkpoint."""
    with granted(Access.to(path)):
        model, clip, _ = load_checkpoint(checkpoint(str(path)), CPU)
    texts = [clip.encode(clip.tokenize(text)) for text in (positive, NEGATIVE)]
    positives, negatives = ([[states, {**entries, **extras}] for states, entries in text] for text in texts)
    sigmas = torch.cat([model.sampling.sigma(torch.linspace(999, 0, STEPS)), torch.zeros(1)]).float()
    latent = {"samples": torch.zeros(1, 4, HEIGHT // 8, WIDTH // 8)}
    with strict():
        run = sample(Guider(model, positives, negatives, CFG), Noise(3), SAMPLERS["euler"], sigmas, latent)
        return model.process_in(finish(run).samples)


def theirs(path: Path, **options: Any) -> Tensor:
    """The same by the pipeline: it begins with noise times sigma, as trained; ComfyUI's rule is sqrt(1 + sigma^2)."""
    pipeline = StableDiffusionXLPipeline.from_pretrained(path)
    pipeline.set_progress_bar_config(disable=True)
    sigma = pipeline.scheduler.sigmas.max()
    noise = Noise(3).generate_noise({"samples": torch.zeros(1, 4, HEIGHT // 8, WIDTH // 8)})
    out = pipeline(
        PROMPT,
        negative_prompt=NEGATIVE,
        num_inference_steps=STEPS,
        guidance_scale=CFG,
        height=HEIGHT,
        width=WIDTH,
        latents=noise * (1 + sigma**2).sqrt() / sigma,
        output_type="latent",
        return_dict=False,
        **options,
    )
    latents: Tensor = out[0]
    return latents


def test_latents_are_those_of_the_pipeline(folder: Path) -> None:
    torch.testing.assert_close(ours(folder), theirs(folder), rtol=1e-4, atol=1e-4)


def test_v_prediction(tmp_path: Path) -> None:
    make(tmp_path / "v", "v_prediction")
    torch.testing.assert_close(ours(tmp_path / "v"), theirs(tmp_path / "v"), rtol=1e-4, atol=1e-4)


def test_sizes_are_inputs(folder: Path) -> None:
    sizes: dict[str, Any] = {
        "height": 512,
        "width": 256,
        "crop_h": 8,
        "crop_w": 16,
        "target_height": 640,
        "target_width": 320,
    }
    got = ours(folder, **sizes)
    wanted = theirs(
        folder,
        original_size=(512, 256),
        crops_coords_top_left=(8, 16),
        target_size=(640, 320),
        negative_original_size=(512, 256),
        negative_crops_coords_top_left=(8, 16),
        negative_target_size=(640, 320),
    )
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(got, ours(folder), atol=1e-3)


def to_original(folder: Path, v: bool = False) -> dict[str, Tensor]:
    """The original's single file: sgm's names, written independently of ours."""
    pipeline = StableDiffusionXLPipeline.from_pretrained(folder)
    unet = {f"model.diffusion_model.{_unet(n)}": t for n, t in pipeline.unet.state_dict().items()}
    clip_l = {
        f"conditioner.embedders.0.transformer.{n if n.startswith('text_model.') else f'text_model.{n}'}": t
        for n, t in pipeline.text_encoder.state_dict().items()
    }
    clip_g = {f"conditioner.embedders.1.model.{n}": t for n, t in _open_clip(pipeline.text_encoder_2).items()}
    vae = {f"first_stage_model.{_vae(n)}": t for n, t in pipeline.vae.state_dict().items()}
    vae = {n: t[..., None, None] if ".attn_1." in n and t.ndim == 2 else t for n, t in vae.items()}
    flag = {"v_pred": torch.zeros(0)} if v else {}
    return {n: t.contiguous() for n, t in (unet | clip_l | clip_g | vae | flag).items()}


RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}
TOP = {
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
    "conv_in": "input_blocks.0.0",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
}


def _unet(name: str) -> str:
    stem, _, role = name.rpartition(".")
    if stem in TOP:
        return f"{TOP[stem]}.{role}"
    parts = name.split(".")
    if parts[0] == "mid_block":
        kind, number = parts[1], int(parts[2])
        inner = f"{RESNET['.'.join(parts[3:-1])]}.{role}" if kind == "resnets" else ".".join(parts[3:])
        return f"middle_block.{2 * number if kind == 'resnets' else 1}.{inner}"
    side, level, kind, number = parts[0], int(parts[1]), parts[2], int(parts[3])
    if kind == "downsamplers":
        return f"input_blocks.{3 * level + 3}.0.op.{role}"
    if kind == "upsamplers":  # the last level, which has none, is the only one without attention
        return f"output_blocks.{3 * level + 2}.2.conv.{role}"
    block = f"input_blocks.{3 * level + number + 1}" if side == "down_blocks" else f"output_blocks.{3 * level + number}"
    if kind == "resnets":
        return f"{block}.0.{RESNET['.'.join(parts[4:-1])]}.{role}"
    return f"{block}.1.{'.'.join(parts[4:])}"


def _open_clip(network: Any) -> dict[str, Tensor]:
    state = {n.removeprefix("text_model."): t for n, t in network.state_dict().items()}
    out = {
        "token_embedding.weight": state["embeddings.token_embedding.weight"],
        "positional_embedding": state["embeddings.position_embedding.weight"],
        "text_projection": state["text_projection.weight"].T,
        "logit_scale": torch.zeros(()),
    }
    out |= {f"ln_final.{r}": state[f"final_layer_norm.{r}"] for r in ("weight", "bias")}
    names = {
        "self_attn.out_proj": "attn.out_proj",
        "layer_norm1": "ln_1",
        "layer_norm2": "ln_2",
        "mlp.fc1": "mlp.c_fc",
        "mlp.fc2": "mlp.c_proj",
    }
    for i in range(3):
        ours, theirs = f"encoder.layers.{i}", f"transformer.resblocks.{i}"
        for role in ("weight", "bias"):
            three = [state[f"{ours}.self_attn.{x}_proj.{role}"] for x in "qkv"]
            out[f"{theirs}.attn.in_proj_{role}"] = torch.cat(three)
            out |= {f"{theirs}.{new}.{role}": state[f"{ours}.{old}.{role}"] for old, new in names.items()}
    return out


def _vae(name: str) -> str:
    side, _, rest = name.partition(".")
    if rest.startswith("down_blocks.") or rest.startswith("up_blocks."):
        _, level, kind, number, *inner = rest.split(".")
        place = f"down.{level}" if side == "encoder" else f"up.{3 - int(level)}"
        end = ".".join(inner).replace("conv_shortcut", "nin_shortcut")
        return f"{side}.{place}.block.{number}.{end}" if kind == "resnets" else f"{side}.{place}.{kind[:-2]}.{end}"
    if rest.startswith("mid_block.resnets."):
        number, end = rest.removeprefix("mid_block.resnets.").split(".", 1)
        return f"{side}.mid.block_{int(number) + 1}.{end}"
    if rest.startswith("mid_block.attentions.0."):
        end = rest.removeprefix("mid_block.attentions.0.")
        for new, old in (("group_norm", "norm"), ("to_q", "q"), ("to_k", "k"), ("to_v", "v"), ("to_out.0", "proj_out")):
            end = end.replace(new, old)
        return f"{side}.mid.attn_1.{end}"
    return name.replace("conv_norm_out", "norm_out")


@pytest.fixture(scope="module")
def file(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The original single file, with tokenizers beside it as a user has them."""

    def write(v: bool = False) -> Path:
        place = tmp_path_factory.mktemp("single")
        for name in ("tokenizer", "tokenizer_2"):
            (place / name).symlink_to(folder / name)
        # What shapes do not tell of tiny encoders: the real ones have heads of 64 and their own tokens.
        configs = {name: json.loads((folder / name / "config.json").read_text()) for name in ENCODERS}
        stated = {name: {k: configs[name][k] for k in ("num_attention_heads", "eos_token_id")} for name in ENCODERS}
        save_file(to_original(folder, v), place / "sd_xl_base_1.0.safetensors", {"config": json.dumps(stated)})
        return place / "sd_xl_base_1.0.safetensors"

    return write


def test_the_original_file_gives_the_same_latents(folder: Path, file: Callable[..., Path]) -> None:
    path = file()
    for kind in ("transformer", "vae", "clip", "clip_g"):
        one, two = part(path, kind), part(folder, kind)
        names = [{n.removeprefix("text_model.") for n in p.pieces} for p in (one, two)]
        assert names[0] == names[1] and one.network is two.network, kind
    torch.testing.assert_close(ours(path), ours(folder), rtol=1e-4, atol=1e-4)
    with granted(Access.to(path)):
        model, _, vae = load_checkpoint(checkpoint(str(path)), CPU)
    assert (model.latent.scale, model.latent.shift, vae.latent.channels) == (0.13025, 0.0, 4)
    assert model.family is FAMILIES["sdxl"]


def test_a_file_that_predicts_v(file: Callable[..., Path]) -> None:
    with granted(Access.to(path := file(v=True))):
        model, _, _ = load_checkpoint(checkpoint(str(path)), CPU)
    assert isinstance(model.sampling, Discrete) and model.sampling.prediction == "v"


def test_a_vae_alone_decodes_and_does_not_make_up_a_scale(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vae").mkdir()
    tensors = {n.removeprefix("first_stage_model."): t for n, t in to_original(folder).items() if "first_stage" in n}
    save_file(tensors, tmp_path / "vae" / "sdxl_vae.safetensors")
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
    vae = load_vae("sdxl_vae.safetensors", CPU)
    z = torch.randn(1, 4, 4, 4)
    reference = AutoencoderKL.from_pretrained(folder / "vae")
    with torch.no_grad():
        wanted = (reference.decode(z).sample / 2 + 0.5).clamp(0, 1).movedim(1, -1)
    torch.testing.assert_close(finish(vae.decode_steps(z)), wanted, rtol=1e-4, atol=1e-4)
    assert vae.latent.scale is None


def test_every_linear_layer_has_its_name_of_kohyas_files(folder: Path) -> None:
    with granted(Access.to(folder)):
        model, _, _ = load_checkpoint(checkpoint(str(folder)), CPU)
    known = targets(model.loaded.network, FAMILIES["sdxl"])
    layers = {n for n, m in model.loaded.network.named_modules() if isinstance(m, torch.nn.Linear)}
    for layer in layers:
        spelled = _unet(f"{layer}.weight").removesuffix(".weight").replace(".", "_")
        assert [target.layer for target in known[spelled]] == [layer]


def test_comfyuis_template_runs(folder: Path, tmp_path: Path, file: Callable[..., Path]) -> None:
    """image_sdxl_simple in API form, on the tiny original file."""
    path = file()
    graph = {
        "4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": path.name}},
        "5": {"class_type": "EmptyLatentImage", "inputs": {"width": 64, "height": 64, "batch_size": 1}},
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": PROMPT, "clip": ["4", 1]}},
        "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "", "clip": ["4", 1]}},
        "3": {
            "class_type": "KSampler",
            "inputs": {
                "seed": 5,
                "steps": 2,
                "cfg": 8.0,
                "sampler_name": "euler",
                "scheduler": "normal",
                "denoise": 1.0,
                "model": ["4", 0],
                "positive": ["6", 0],
                "negative": ["7", 0],
                "latent_image": ["5", 0],
            },
        },
        "8": {"class_type": "VAEDecode", "inputs": {"samples": ["3", 0], "vae": ["4", 2]}},
        "9": {"class_type": "SaveImage", "inputs": {"filename_prefix": "ComfyUI", "images": ["8", 0]}},
    }
    models = tmp_path / "checkpoints"
    models.mkdir()
    for link in (path, path.parent / "tokenizer", path.parent / "tokenizer_2"):
        (models / link.name).symlink_to(link)
    workflow = pg.load(json.loads(json.dumps(graph)), out=tmp_path / "out", allow=[tmp_path, path.parent, folder])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIPEGRAPH_MODELS", str(tmp_path))
        result = workflow.run()
    assert len(result.files) == 1 and not result.warnings


def test_the_node_encodes_with_both_prompts_and_sizes(folder: Path, tmp_path: Path) -> None:
    from pipegraph.nodes.text.conditioning import clip_text_encode, clip_text_encode_sdxl

    from ..context import Context

    with granted(Access.to(folder)):
        _, clip, _ = load_checkpoint(checkpoint(str(folder)), CPU)
    context = Context(tmp_path, tmp_path)
    long = " ".join([PROMPT] * 4)  # more than one window
    [[states, extras]] = clip_text_encode_sdxl(clip, "a car", long, context, width=512, crop_h=4)
    [[same, _]] = clip_text_encode(long, clip, context)
    assert states.shape == same.shape and states.shape[1] > WINDOW
    assert torch.equal(states[..., :64], same[..., :64]) and not torch.equal(states[..., 64:], same[..., 64:])
    assert (extras["width"], extras["height"], extras["crop_h"], extras["crop_w"]) == (512, 1024, 4, 0)
    assert not context.warnings
    with granted(Access.to(EMBEDDED)):
        _, flux, _ = load_checkpoint(checkpoint("embedded/flux-tiny"), CPU)
    with pytest.raises(ValueError, match="no text encoders of SDXL"):
        clip_text_encode_sdxl(flux, "a", "b", context)
