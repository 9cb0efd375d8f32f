"""Describes files that no loader reads: well-known models by tensor names, and files without weights.

Torch-free. Names and shapes are facts of the published files. A row is for files that do not run here; nothing that
runs may match it (tests/models/test_recognise.py).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from zipfile import BadZipFile, ZipFile

_PREFIXES: Final = (
    "model.diffusion_model.",
    "diffusion_model.",
    "model.",
    "net.",
    "unet.",
    "transformer.",
    "module.",
)
"""Possible prefixes of a diffusion network."""
_YET: Final = "which does not run here (yet)"


@dataclass(frozen=True, slots=True)
class Known:
    """A model recognised by some of its tensors."""

    title: str
    keys: tuple[str, ...]
    """Names that must all be present; ``*x``: some name contains x."""
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Tensor -> axis and its length."""
    vague: bool = False
    """Others share these tensors: checked only if no supported network matches."""
    says: str = _YET
    """The rest of the error sentence."""

    def fits(self, names: Mapping[str, tuple[int, ...]]) -> bool:
        for key in self.keys:
            if key.startswith("*"):
                if not any(key[1:] in name for name in names):
                    return False
            elif key not in names:
                return False
        return all(_is_long(names.get(key, ()), *size) for key, size in self.sizes.items())


def _is_long(shape: tuple[int, ...], axis: int, length: int) -> bool:
    return -len(shape) <= axis < len(shape) and shape[axis] == length


_UNET: Final = "input_blocks.0.0.weight"
_CONTEXT: Final = "input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight"
_DEEP: Final = "input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight"
_LABEL: Final = "label_emb.0.0.weight"
_DIFFUSERS_UNET: Final = "down_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.weight"
_JOINT: Final = "transformer_blocks.0.attn.add_q_proj.weight"
_CONTROL: Final = "controlnet_blocks.0.weight"
_DOUBLE: Final = "double_blocks.0.img_attn.qkv.weight"
_IMAGE: Final = "img_in.weight"
_TOKENS: Final = "token_embedding.weight"
_CLIP_H: Final = "text_model.encoder.layers.22.mlp.fc1.weight"
_LORA: Final = "which is added to a model by LoraLoader or LoraLoaderModelOnly"
_UPSCALER: Final = "which UpscaleModelLoader reads, in the folder upscale_models"
_ENCODER: Final = "a text encoder that no family of models here reads (yet)"
KNOWN: Final = (
    # Additions to models.
    Known("a LoRA", ("*.lora_down.",), says=_LORA),
    Known("a LoRA", ("*.lora_A.",), says=_LORA),
    Known("a LoRA", ("*.lora_linear_layer.down.",), says=_LORA),
    Known("a LoRA", ("*.processor.qkv_lora1.down.",), says=_LORA),
    Known("a LoHa", ("*.hada_w1_a",)),
    Known("a LoKr", ("*.lokr_w1",)),
    Known("an OFT", ("*.oft_blocks",)),
    Known("an IP-Adapter for FLUX.1", ("double_blocks.0.processor.ip_adapter_double_stream_k_proj.weight",)),
    Known("an IP-Adapter", ("*ip_adapter.1.to_k_ip.weight",)),
    Known("an IP-Adapter", ("*image_proj.", "*to_k_ip.")),
    Known("a textual inversion (an embedding)", ("emb_params",)),
    Known("a textual inversion (an embedding)", ("*string_to_param",)),
    Known("a textual inversion (an embedding) for SDXL", ("clip_l", "clip_g")),
    Known("an AnimateDiff motion module", ("*motion_modules.0.temporal_transformer.",)),
    Known("an AnimateDiff motion module", ("*motion_modules.0.transformer_blocks.0.",)),
    Known("FLUX.1 Redux (a style model)", ("redux_up.weight", "redux_down.weight")),
    Known("a GLIGEN model", ("*position_net.null_positive_feature",)),
    Known("PhotoMaker", ("*id_encoder.visual_projection_2.weight",)),
    # ControlNets.
    Known("a ControlNet for SD3", (_CONTROL, "pos_embed_input.proj.weight")),
    Known("a ControlNet for Qwen-Image", (_CONTROL, "controlnet_x_embedder.weight", "txt_in.weight")),
    Known("a ControlNet for Z-Image", ("control_layers.0.adaLN_modulation.0.weight",)),
    Known("a ControlNet for FLUX.1 in XLabs' layout", (_CONTROL, _DOUBLE)),
    Known("a ControlNet for Stable Diffusion 1 or 2", ("control_model.input_hint_block.0.weight",)),
    Known("a ControlNet for Stable Diffusion 1 or 2", ("zero_convs.0.0.weight", "input_hint_block.0.weight")),
    Known("a ControlNet for SDXL", ("controlnet_cond_embedding.conv_in.weight", "add_embedding.linear_1.weight")),
    Known("a ControlNet for Stable Diffusion 1 or 2", ("controlnet_cond_embedding.conv_in.weight",)),
    Known("a Control-LoRA for SDXL", ("lora_controlnet",)),
    Known("a T2I-Adapter", ("*body.0.resnets.0.block1.weight",)),
    Known("a T2I-Adapter", ("body.0.block1.weight", "conv_in.weight")),
    # Stable Diffusion, by the width of the text that its UNet reads.
    Known("Stable Video Diffusion", ("*input_blocks.1.0.time_mixer.mix_factor",)),
    Known("Stable Cascade, stage C", ("clip_txt_mapper.weight",)),
    Known("Stable Cascade, stage B", ("down_blocks.1.0.channelwise.0.weight",)),
    Known("Playground v2.5", ("edm_mean", "edm_std")),
    Known("the SDXL refiner", (_UNET, _LABEL), {_LABEL: (1, 2560)}),
    Known("SDXL for inpainting", (_UNET, _LABEL, _DEEP), {_UNET: (1, 9), _DEEP: (1, 2048)}),
    Known("SDXL", (_UNET, _LABEL, _DEEP), {_DEEP: (1, 2048)}),
    Known("Stable Diffusion 1.5 for inpainting", (_UNET, _CONTEXT), {_UNET: (1, 9), _CONTEXT: (1, 768)}),
    Known("InstructPix2Pix", (_UNET, _CONTEXT), {_UNET: (1, 8), _CONTEXT: (1, 768)}),
    Known("Stable Diffusion 1.5", (_UNET, _CONTEXT), {_CONTEXT: (1, 768)}),
    Known("Stable Diffusion 2 for inpainting", (_UNET, _CONTEXT), {_UNET: (1, 9), _CONTEXT: (1, 1024)}),
    Known("Stable Diffusion 2", (_UNET, _CONTEXT), {_CONTEXT: (1, 1024)}),
    Known("a UNet of Stable Diffusion's kind", (_UNET, "time_embed.0.weight"), vague=True),
    Known("SDXL (its UNet)", (_DIFFUSERS_UNET, "add_embedding.linear_1.weight"), {_DIFFUSERS_UNET: (1, 2048)}),
    Known("Stable Diffusion 1.5 (its UNet)", (_DIFFUSERS_UNET, "conv_in.weight"), {_DIFFUSERS_UNET: (1, 768)}),
    Known("Stable Diffusion 2 (its UNet)", (_DIFFUSERS_UNET, "conv_in.weight"), {_DIFFUSERS_UNET: (1, 1024)}),
    Known("Kandinsky 2.2 (its UNet)", ("encoder_hid_proj.image_embeds.weight",)),
    Known("Kandinsky 3 (its UNet)", ("encoder_hid_proj.projection_linear.weight",)),
    # Transformers.
    Known("Stable Diffusion 3.5 large", ("joint_blocks.37.x_block.mlp.fc1.weight",)),
    Known("Stable Diffusion 3.5 medium", ("joint_blocks.0.x_block.attn2.qkv.weight",)),
    Known("Stable Diffusion 3", ("joint_blocks.0.context_block.attn.qkv.weight",)),
    Known("Stable Diffusion 3", (_JOINT, "pos_embed.proj.weight", "context_embedder.weight")),
    Known("AuraFlow", ("double_layers.0.attn.w1q.weight",)),
    Known("AuraFlow", ("joint_transformer_blocks.0.attn.add_q_proj.weight", "register_tokens")),
    Known("HunyuanDiT", ("mlp_t5.0.weight", "extra_embedder.0.weight")),
    Known("HunyuanDiT", ("text_embedder.linear_1.weight", "time_extra_emb.extra_embedder.linear_1.weight")),
    Known("PixArt", ("t_block.1.weight", "blocks.0.cross_attn.kv_linear.weight", "y_embedder.y_embedding")),
    Known("PixArt", ("adaln_single.linear.weight", "caption_projection.linear_1.weight", "pos_embed.proj.weight")),
    Known("Sana", ("attention_y_norm.weight", "blocks.0.cross_attn.kv_linear.weight")),
    Known("Sana", ("caption_norm.weight", "transformer_blocks.0.ff.conv_depth.weight")),
    Known("Chroma", ("distilled_guidance_layer.in_proj.weight",)),
    Known("Chroma", ("distilled_guidance_layer.layers.0.linear_1.weight",)),
    Known("HiDream-I1", ("double_stream_blocks.0.block.adaLN_modulation.1.bias",)),
    Known("FLUX.2", ("double_stream_modulation_img.lin.weight",)),
    Known("FLUX.2", ("double_stream_modulation_img.linear.weight",)),
    Known("FLUX.3", ("early_stream_modulations.image.lin.weight",)),
    Known("FLUX.1 Fill", (_DOUBLE, _IMAGE), {_IMAGE: (1, 384)}),
    Known("FLUX.1 Canny or Depth", (_DOUBLE, _IMAGE), {_IMAGE: (1, 128)}),
    Known("Z-Image", ("cap_embedder.1.weight", "cap_pad_token")),
    Known("Z-Image", ("all_x_embedder.2-1.weight",)),
    Known("OmniGen 2", ("time_caption_embed.timestep_embedder.linear_1.bias", "ref_image_refiner.0.attn.to_q.weight")),
    Known("Lumina 2", ("cap_embedder.1.weight", "context_refiner.0.attention.qkv.weight")),
    Known("Lumina 2", ("time_caption_embed.caption_embedder.1.weight", "context_refiner.0.attn.to_q.weight")),
    Known("Qwen-Image 2.1", ("txt_in.text_norm.weight",)),
    Known("Qwen-Image", (_JOINT, "txt_norm.weight", "img_in.weight")),
    Known("Krea 2", ("txtfusion.projector.weight",)),
    Known("CogView 4", ("patch_embed.text_proj.weight", "time_condition_embed.condition_embedder.linear_1.weight")),
    Known("Kandinsky 5", ("visual_transformer_blocks.0.self_attention.to_query.weight",)),
    Known("OmniGen", ("llm.layers.0.self_attn.qkv_proj.weight", "x_embedder.proj.weight")),
    # Video, sound and three dimensions.
    Known("Cosmos Predict 2", ("blocks.0.self_attn.q_proj.weight", "x_embedder.proj.1.weight")),
    Known("Cosmos 1", ("blocks.block0.blocks.0.block.attn.to_q.0.weight",)),
    Known("Mochi", ("blocks.0.attn.qkv_x.weight", "t5_yproj.weight")),
    Known("Mochi", ("transformer_blocks.0.attn1.add_q_proj.weight", "time_embed.pooler.to_kv.weight")),
    Known("CogVideoX", ("patch_embed.text_proj.weight", "transformer_blocks.0.norm1.linear.weight")),
    Known("Wan Animate", ("motion_encoder.dec.direction.weight",)),
    Known("Wan S2V", ("casual_audio_encoder.weights",)),
    Known("Stable Audio", ("conditioner.conditioners.seconds_start.embedder.embedding.1.weight",)),
    Known("ACE-Step", ("genre_embedder.weight", "speaker_embedder.weight")),
    Known("Hunyuan3D 2", ("latent_in.weight", "cond_in.weight")),
    # Autoencoders.
    Known("a TAESD (a small autoencoder for previews)", ("taesd_decoder.1.weight",)),
    Known("a TAESD (a small autoencoder for previews)", ("decoder.layers.0.weight", "encoder.layers.0.weight")),
    Known("a TAESD decoder (a small autoencoder for previews)", ("1.weight", "3.conv.0.weight")),
    Known("FLUX.2's VAE", ("bn.running_mean", "decoder.conv_in.weight")),
    Known("a deep compression autoencoder (DC-AE)", ("*decoder.stages.1.op_list.0.main.conv.conv.",)),
    Known("Stable Cascade's stage A", ("vquantizer.codebook.weight",)),
    # Text encoders.
    Known("CLIP-G in OpenCLIP's layout", ("transformer.resblocks.31.ln_1.weight", _TOKENS), says=_ENCODER),
    Known("CLIP-H in OpenCLIP's layout", ("transformer.resblocks.22.ln_1.weight", _TOKENS), says=_ENCODER),
    Known("CLIP-G", ("text_model.encoder.layers.31.mlp.fc1.weight",), says=_ENCODER),
    Known("CLIP-H", (_CLIP_H,), {_CLIP_H: (1, 1024)}, says=_ENCODER),
    Known("a BERT", ("bert.embeddings.word_embeddings.weight",), says=_ENCODER),
    # Upscalers.
    Known("an upscaler (ESRGAN)", ("model.1.sub.0.RDB1.conv1.0.weight",), says=_UPSCALER),
    Known("an upscaler (ESRGAN)", ("conv_first.weight", "*rdb1.conv1.weight"), says=_UPSCALER),
    Known("an upscaler (ESRGAN)", ("conv_first.weight", "*RDB1.conv1.weight"), says=_UPSCALER),
    Known(
        "an upscaler (SwinIR, HAT or their like)", ("conv_first.weight", "*residual_group.blocks.0."), says=_UPSCALER
    ),
    Known("an upscaler (Real-ESRGAN compact)", ("body.0.weight", "body.1.weight", "body.2.weight"), says=_UPSCALER),
    Known("an upscaler (SPAN)", ("conv_1.sk.weight",), says=_UPSCALER),
)
"""The first match counts."""


def recognise(tensors: Mapping[str, tuple[int, ...]], runs: Collection[str] = (), *, vague: bool = True) -> str:
    """Describe an unsupported file as the rest of a sentence; empty if unknown.

    Args:
        tensors: Shapes by name.
        runs: Titles of models that do run here.
        vague: Whether what others may be, too, counts.
    """
    bare = {name.removeprefix(p): shape for p in _PREFIXES for name, shape in tensors.items() if name.startswith(p)}
    names = bare | dict(tensors)
    known = next((row for row in KNOWN if (vague or not row.vague) and row.fits(names)), None)
    return f"{known.title}, {known.says}" if known and known.title.partition(" (")[0] not in runs else ""


_STARTS: Final = (
    (b"version https://git-lfs", "a pointer of Git LFS, not the file itself: fetch it with `git lfs pull`"),
    (b"PK\x03\x04", "a ZIP archive: unpack it"),
    (b"\x1f\x8b", "packed by gzip: unpack it"),
    (b"7z\xbc\xaf", "a 7-Zip archive: unpack it"),
    (b"Rar!", "a RAR archive: unpack it"),
    (b"\x89HDF", "an HDF5 file, which is not read; use the .safetensors version of this model"),
    (b"\x93NUMPY", "a NumPy array, no model"),
    (b"\x89PNG", "a picture"),
    (b"\xff\xd8\xff", "a picture"),
    (b"RIFF", "a picture or sound"),
    (b"%PDF", "a PDF document"),
)
_PAGE: Final = (
    "an HTML page, not the file itself: its download needs a login, an accepted licence, or the link of the file"
)
_TEXTS: Final = (
    (b"<!doctype html", _PAGE),
    (b"<html", _PAGE),
    (b"<?xml", "an XML text, perhaps the error of a server: download it again"),
    (b"{", "a JSON text, perhaps the error of a server: download it again"),
)


_PICKLES: Final = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))


def no_weights(path: Path) -> str:
    """Describe a file that is neither safetensors nor GGUF, as the rest of a sentence; empty if unknown."""
    with path.open("rb") as file:
        start = file.read(64)
    if not start:
        return "is empty (0 bytes): download it again"
    if start.startswith(_PICKLES) or (start.startswith(b"PK") and _holds_pickle(path)):
        return (
            "is a pickle, which can run any program when it is opened, and is refused; "
            "use the .safetensors version of this model, or convert it on a machine you can lose"
        )
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    rows = [says for begin, says in _STARTS if start.startswith(begin)]
    rows += [says for begin, says in _TEXTS if text.startswith(begin)]
    return f"is {rows[0]}" if rows else ""


def _holds_pickle(path: Path) -> bool:
    """Whether a ZIP archive was written by torch; true if it cannot be opened."""
    try:
        with ZipFile(path) as archive:
            return any(name.endswith(".pkl") for name in archive.namelist())
    except (BadZipFile, OSError, ValueError, NotImplementedError):
        return True
