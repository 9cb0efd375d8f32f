"""Tiny MiniMax-H3 of random weights, as diffusers' folders and as ComfyUI's single files."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

TEXT = 32
"""Numbers a token of the text encoder's states."""
POINTS = 33
"""Of the curves of pruned networks."""


def components() -> dict[str, nn.Module]:
    """The networks but for the text encoder."""
    from diffusers import AutoencoderKLMiniMaxH3, AutoencoderKLMiniMaxH3Audio, MiniMaxH3Transformer3DModel

    torch.manual_seed(0)
    made: dict[str, nn.Module] = {
        "transformer": MiniMaxH3Transformer3DModel(
            num_attention_heads=2,
            attention_head_dim=32,
            hidden_size=48,
            num_layers=2,
            num_refiner_layers=1,
            ffn_dim=64,
            text_dim=TEXT,
            freq_dim=16,
            time_embed_hidden_dim=32,
            time_embed_dim=24,
            rope_freq_dim=5,
        ),
        "vae": AutoencoderKLMiniMaxH3(
            block_out_channels=(32, 32, 32, 64),
            layers_per_block=1,
            spatial_downsample_factors=(2, 2, 2, 2),
            temporal_downsample_factors=(1, 2, 2, 1),
            decoder_num_layers=2,
            decoder_num_attention_heads=2,
            decoder_attention_head_dim=64,
            decoder_ffn_mult=1,
            latents_mean=[0.1 * (i % 5 - 2) for i in range(24)],
            latents_std=[0.5 + 0.1 * (i % 7) for i in range(24)],
        ),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # weight_norm is an old one
        made["audio_vae"] = AutoencoderKLMiniMaxH3Audio(
            encoder_dim=2,
            latent_dim=64,
            decoder_dim=128,
            num_attention_heads=2,
            resblock_kernel_sizes=(3,),
            resblock_dilation_sizes=((1, 3),),
            latents_mean=[0.1 * (i % 3 - 1) for i in range(32)],
            latents_std=[0.7 + 0.1 * (i % 4) for i in range(32)],
        )
    with torch.no_grad():  # text, time, kinds and the blocks of the decoder must matter
        for name, p in made["transformer"].named_parameters():
            if re.search(r"adaln_proj|norm_out.linear|context_embedder", name):
                p.normal_(std=0.3)
        for name, p in made["vae"].named_parameters():
            if re.search(r"scale[12]$|register_tokens", name):
                p.normal_(std=0.5)
    return {name: network.eval() for name, network in made.items()}


def write_folder(networks: dict[str, nn.Module], folder: Path) -> None:
    """diffusers' layout of a modular pipeline."""
    from diffusers import MiniMaxH3Scheduler

    index: dict[str, Any] = {"_class_name": "MiniMaxH3ModularPipeline", "_blocks_class_name": "MiniMaxH3Blocks"}
    for name, network in networks.items():
        network.save_pretrained(folder / name)  # type: ignore[operator]
        index[name] = ["diffusers", type(network).__name__, {}]
    MiniMaxH3Scheduler(shift=12.0).save_pretrained(folder / "scheduler")
    MiniMaxH3Scheduler(shift=3.0).save_pretrained(folder / "audio_scheduler")
    (folder / "modular_model_index.json").write_text(json.dumps(index))


def pipeline(blocks: Any, **components: Any) -> Any:
    """diffusers' blocks with these networks, for clips of any length."""
    from diffusers import MiniMaxH3Scheduler

    pipe = blocks.init_pipeline()
    given = {"scheduler": MiniMaxH3Scheduler(12.0), "audio_scheduler": MiniMaxH3Scheduler(3.0), **components}
    pipe.update_components(**{k: v for k, v in given.items() if k in pipe.component_names})
    return pipe


SPECIAL = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<d>", "</d>", "<|im_start|>"]
PREPARING: dict[str, Any] = {
    "patch_size": 16,
    "size": {"shortest_edge": 1024, "longest_edge": 16384},
    "image_mean": [0.5] * 3,
    "image_std": [0.5] * 3,
}
"""How pictures are prepared for the text encoder."""


def tokenizer() -> Any:
    """A tokenizer of bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(SPECIAL)
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def text_encoder() -> Any:
    """A Qwen3-VL: narrow, but of as many layers as it takes to have a 50th."""
    import transformers as hf

    torch.manual_seed(1)
    words = tokenizer()
    id_of = words.convert_tokens_to_ids
    rope = {"rope_type": "default", "rope_theta": 5e6, "mrope_section": [6, 5, 5], "mrope_interleaved": True}
    text = dict(
        vocab_size=len(words),
        hidden_size=TEXT,
        intermediate_size=32,
        num_hidden_layers=52,
        head_dim=32,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        rope_parameters=rope,
        eos_token_id=None,
        bos_token_id=None,
        pad_token_id=0,
        tie_word_embeddings=False,
    )
    tower = dict(
        hidden_size=64,
        intermediate_size=48,
        num_heads=16,
        out_hidden_size=TEXT,
        depth=9,
        num_position_embeddings=64,
        deepstack_visual_indexes=[8],
    )
    return hf.Qwen3VLForConditionalGeneration(
        hf.Qwen3VLConfig(
            text_config=text,
            vision_config=tower,
            tie_word_embeddings=False,
            image_token_id=id_of("<|image_pad|>"),
            video_token_id=id_of("<|video_pad|>"),
            vision_start_token_id=id_of("<|vision_start|>"),
            vision_end_token_id=id_of("<|vision_end|>"),
        )
    ).eval()


def write_text(network: Any, folder: Path) -> None:
    """The text encoder's folders of a pipeline."""
    network.save_pretrained(folder / "text_encoder")
    tokenizer().save_pretrained(folder / "tokenizer")
    (folder / "processor").mkdir(exist_ok=True)
    (folder / "processor" / "preprocessor_config.json").write_text(json.dumps(PREPARING))


class Processor:
    """As much of transformers' processor as diffusers' blocks ask for."""

    def __init__(self) -> None:
        from transformers import Qwen2VLImageProcessorPil

        self.image_processor: Any = Qwen2VLImageProcessorPil(**PREPARING)
        self._kinds = {
            tokenizer().convert_tokens_to_ids(f"<|{what}_pad|>"): n for n, what in ((1, "image"), (2, "video"))
        }

    def create_mm_token_type_ids(self, rows: list[list[int]]) -> list[list[int]]:
        return [[self._kinds.get(id, 0) for id in row] for row in rows]


def write_picture(path: Path) -> None:
    """A small picture of random pixels."""
    from PIL import Image

    pixels = torch.randint(256, (48, 80, 3), generator=torch.Generator().manual_seed(2))
    Image.fromarray(pixels.byte().numpy()).save(path)


def write_lora(path: Path) -> None:
    """A LoRA of two layers, by ComfyUI's names."""
    generator = torch.Generator().manual_seed(4)
    sizes = {"blocks.0.attn.qkv_proj": (192, 48), "blocks.1.mlp.fc1": (128, 48), "blocks.1.attn.out_proj": (48, 64)}
    made = {}
    for name, (rows, columns) in sizes.items():
        made[f"diffusion_model.{name}.lora_A.weight"] = torch.randn(2, columns, generator=generator)
        made[f"diffusion_model.{name}.lora_B.weight"] = torch.randn(rows, 2, generator=generator)
    save_file(made, path)


def to_original(network: nn.Module) -> dict[str, Tensor]:
    """The network by ComfyUI's names, written down independently of the loader's table."""
    out = dict[str, Tensor]()
    for name, tensor in _fused(network, "qkv_proj").items():
        new = name.replace("token_refiner.refiner_blocks", "token_refiner.blocks")
        new = re.sub("^transformer_blocks", "blocks", new)
        new = re.sub("^proj_in", "video_patch_proj", new).replace("audio_proj_in", "audio_patch_proj")
        new = re.sub("^proj_out", "final_layer.video_out", new).replace("audio_proj_out", "final_layer.audio_out")
        new = new.replace("norm_out.norm", "final_layer.norm").replace(
            "norm_out.linear", "final_layer.adaln_proj.linear"
        )
        new = new.replace("context_embedder", "condition_proj").replace("attn.to_out.0", "attn.out_proj")
        new = re.sub(r"attn\.norm_([qk])", r"attn.\1_norm", new).replace("ff.net.2", "mlp.fc2")
        new = new.replace("time_embedder.linear_1", "time_embedder.proj_in")
        new = new.replace("time_embedder.linear_2", "time_embedder.proj_out")
        if "ff.net.0.proj" in new:
            new, tensor = new.replace("ff.net.0.proj", "mlp.fc1"), torch.cat(tensor.chunk(2)[::-1])
        out[f"model.diffusion_model.{new}"] = tensor
    out["model.diffusion_model.rope.inv_freq"] = torch.ones(5)
    return {name: tensor.contiguous().clone() for name, tensor in out.items()}


def _fused(network: nn.Module, name: str, head: int = 0) -> dict[str, Tensor]:
    """Its tensors with q, k and v in one: one after the other, or head by head."""
    tensors = dict(network.state_dict())
    for query in [n for n in tensors if ".to_q." in n]:
        three = [tensors.pop(query.replace(".to_q.", f".to_{which}.")) for which in "qkv"]
        if head:
            three = [torch.stack([t.unflatten(0, (-1, head)) for t in three], 1).flatten(0, 2)]
        tensors[query.replace("to_q", name)] = torch.cat(three)
    return tensors


def to_original_vae(network: Any) -> dict[str, Tensor]:
    """The VAE of clips by ComfyUI's names, with the statistics of its latents."""
    out = {"decoder.mask_token": torch.zeros(1, 1, 128)}
    for name, tensor in _fused(network, "to_qkv", head=64).items():
        new = re.sub(r"encoder\.down_blocks\.(\d+)\.resnets", r"encoder.down.\1.block", name)
        new = re.sub(r"encoder\.down_blocks\.(\d+)\.downsamplers\.0", r"encoder.down.\1.downsample", new)
        new = new.replace("conv_shortcut", "nin_shortcut").replace("decoder.proj_in", "decoder.x_embedder")
        new = new.replace("to_out.0", "to_out").replace("ff.net.2", "ff.w2")
        if "ff.net.0.proj" in new:
            new, tensor = new.replace("ff.net.0.proj", "ff.w1"), torch.cat(tensor.chunk(2)[::-1])
        out[new] = tensor
    return _with_statistics(network, out)


def to_original_sound(network: Any) -> dict[str, Tensor]:
    """The VAE of sound as ComfyUI has it: weights as they are, not as length and direction."""
    out = dict[str, Tensor]()
    for name, tensor in network.state_dict().items():
        if name.endswith("weight_v"):
            length = tensor.flatten(1).norm(dim=1).reshape(-1, *[1] * (tensor.ndim - 1))
            out[name.removesuffix("_v")] = network.state_dict()[f"{name[:-1]}g"] * tensor / length
        elif not name.endswith("weight_g"):
            out[name] = tensor
    return _with_statistics(network, out)


def _with_statistics(network: Any, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    told = {n: torch.tensor(network.config[n]) for n in ("latents_mean", "latents_std")}
    return {name: tensor.contiguous().clone() for name, tensor in (tensors | told).items()}


class _FromCurves(nn.Module):
    """Times to what diffusers' modulations make the curves of: silu undone by bisection."""

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table)

    def forward(self, times: Tensor) -> Tensor:
        at = times.clamp(0, 1) * (POINTS - 1)
        low = at.floor().long().clamp(max=POINTS - 2)
        curves = self.table[low] + (at - low)[:, None] * (self.table[low + 1] - self.table[low])
        least, most = torch.zeros_like(curves).double(), torch.full_like(curves, 9).double()
        for _ in range(60):
            middle = (least + most) / 2
            over = nn.functional.silu(middle) > curves
            least, most = torch.where(over, least, middle), torch.where(over, middle, most)
        return least.float()


def pruned() -> tuple[nn.Module, dict[str, Tensor]]:
    """A network whose time is curves, in diffusers' terms and by ComfyUI's names."""
    from diffusers import MiniMaxH3Transformer3DModel

    full: Any = components()["transformer"]
    network = MiniMaxH3Transformer3DModel(**{**full.config, "time_embed_dim": 8}).eval()
    with torch.no_grad():
        for name, p in network.named_parameters():
            if re.search(r"adaln_proj|norm_out.linear|context_embedder", name):
                p.normal_(std=0.3)
    table = torch.rand(POINTS, 8, generator=torch.Generator().manual_seed(9)) * 2
    tensors = {n: t for n, t in to_original(network).items() if "time_embedder" not in n}
    tensors["model.diffusion_model.adaln_t_table"] = table
    network.time_proj, network.time_embedder = nn.Identity(), _FromCurves(table)
    return network, tensors


def to_original_text(network: Any) -> dict[str, Tensor]:
    """The text encoder as ComfyUI has it: without the layers behind the 50th, the last norm and the output layer."""
    out = dict[str, Tensor]()
    for name, tensor in network.state_dict().items():
        layer = re.match(r"model\.language_model\.layers\.(\d+)\.", name)
        if name.startswith(("lm_head", "model.language_model.norm.")) or (layer and int(layer[1]) >= 50):
            continue
        out[name.replace("model.language_model.", "model.").replace("model.visual.", "visual.")] = tensor.clone()
    return out
