"""The graphs of ComfyUI's LTX-2 templates in API form: their nodes and wires, at small sizes and with short prompts."""

from __future__ import annotations

from typing import Any

Graph = dict[str, dict[str, Any]]
GEMMA = "gemma_3_12B_it_fp4_mixed.safetensors"
UPSCALERS = {"2": "ltx-2-spatial-upscaler-x2-1.0.safetensors", "2.3": "ltx-2.3-spatial-upscaler-x2-1.1.safetensors"}
DISTILLED = {
    "2": "ltx-2-19b-distilled-lora-384.safetensors",
    "2.3": "ltx_2.3_22b_distilled_1.1_lora_dynamic_fro09_avg_rank_111_bf16.safetensors",
}
WRITER = "gemma-3-12b-it-abliterated_lora_rank64_bf16.safetensors"
LONG = "1.0, 0.99375, 0.9875, 0.98125, 0.975, 0.909375, 0.725, 0.421875, 0.0"


def put(graph: Graph, name: str, type: str, **inputs: Any) -> None:
    """A node; ``__`` in the name of an input stands for a dot."""
    graph[name] = {"class_type": type, "inputs": {k.replace("__", "."): v for k, v in inputs.items()}}


def _begun(checkpoint: str, negative: str | None, fps: Any) -> Graph:
    """Loaders and conditionings; without a negative prompt it is the positive one, zeroed."""
    g: Graph = {}
    put(g, "ckpt", "CheckpointLoaderSimple", ckpt_name=checkpoint)
    put(g, "sound", "LTXVAudioVAELoader", ckpt_name=checkpoint)
    put(g, "gemma", "LTXAVTextEncoderLoader", text_encoder=GEMMA, ckpt_name=checkpoint, device="default")
    put(g, "pos", "CLIPTextEncode", clip=["gemma", 0], text="a man speaks, softly")
    if negative is None:
        put(g, "neg", "ConditioningZeroOut", conditioning=["pos", 0])
    else:
        put(g, "neg", "CLIPTextEncode", clip=["gemma", 0], text=negative)
    put(g, "both", "LTXVConditioning", positive=["pos", 0], negative=["neg", 0], frame_rate=fps)
    return g


def _sampled(g: Graph, name: str, model: str, sides: str, latent: Any, sampler: Any, sigmas: Any, cfg: float) -> None:
    if isinstance(sampler, str):
        put(g, f"sampler{name}", "KSamplerSelect", sampler_name=sampler)
        sampler = [f"sampler{name}", 0]
    if isinstance(sigmas, str):
        put(g, f"sigmas{name}", "ManualSigmas", sigmas=sigmas)
        sigmas = [f"sigmas{name}", 0]
    put(g, f"noise{name}", "RandomNoise", noise_seed=7)
    put(g, f"guider{name}", "CFGGuider", model=[model, 0], positive=[sides, 0], negative=[sides, 1], cfg=cfg)
    put(g, f"joined{name}", "LTXVConcatAVLatent", video_latent=latent[0], audio_latent=latent[1])
    put(
        g,
        f"run{name}",
        "SamplerCustomAdvanced",
        noise=[f"noise{name}", 0],
        guider=[f"guider{name}", 0],
        sampler=sampler,
        sigmas=sigmas,
        latent_image=[f"joined{name}", 0],
    )


def _saved(g: Graph, run: list[Any], crop: bool, fps: Any, tiled: bool = True) -> None:
    put(g, "apart", "LTXVSeparateAVLatent", av_latent=run)
    frames: list[Any] = ["apart", 0]
    if crop:
        put(g, "crop", "LTXVCropGuides", positive=["guides", 0], negative=["guides", 1], latent=frames)
        frames = ["crop", 2]
    if tiled:
        put(
            g,
            "frames",
            "VAEDecodeTiled",
            samples=frames,
            vae=["ckpt", 2],
            tile_size=512,
            overlap=64,
            temporal_size=4096,
            temporal_overlap=8,
        )
    else:
        put(g, "frames", "VAEDecode", samples=frames, vae=["ckpt", 2])
    put(g, "heard", "LTXVAudioVAEDecode", samples=["apart", 1], audio_vae=["sound", 0])
    put(g, "clip", "CreateVideo", images=["frames", 0], audio=["heard", 0], fps=fps)
    put(g, "save", "SaveVideo", video=["clip", 0], filename_prefix="video/LTX", format="auto", codec="auto")


def ltx2(picture: bool, distilled: bool) -> Graph:
    """video_ltx2_t2v, video_ltx2_t2v_distilled, video_ltx2_i2v and video_ltx2_i2v_distilled."""
    checkpoint = "ltx-2-19b-distilled.safetensors" if distilled else "ltx-2-19b-dev-fp8.safetensors"
    g = _begun(checkpoint, None if distilled and picture else "blurry", 12 if picture else ["fps", 0])
    put(g, "length", "PrimitiveInt", value=9)
    rate: Any = 12
    if not picture:
        put(g, "fps", "PrimitiveFloat", value=12.0)
        put(g, "whole_fps", "PrimitiveInt", value=12)
        rate = ["whole_fps", 0]
    size: list[Any] = [128, 128]
    if picture:
        put(g, "picture", "LoadImage", image="girl.png")
        put(
            g,
            "fitted",
            "ResizeImageMaskNode",
            input=["picture", 0],
            resize_type="scale dimensions",
            resize_type__width=128,
            resize_type__height=128,
            resize_type__crop="center",
            scale_method="lanczos",
        )
        put(
            g,
            "longer",
            "ResizeImageMaskNode",
            input=["fitted", 0],
            resize_type="scale longer dimension",
            resize_type__longer_size=160,
            scale_method="area",
        )
        put(g, "frame", "LTXVPreprocess", image=["longer", 0], img_compression=33)
        put(g, "size", "GetImageSize", image=["fitted", 0])
        size = [["size", 0], ["size", 1]]
    put(g, "canvas", "EmptyImage", width=size[0], height=size[1], batch_size=1, color=0)
    put(g, "half", "ImageScaleBy", image=["canvas", 0], upscale_method="lanczos", scale_by=0.5)
    put(g, "half_size", "GetImageSize", image=["half", 0])
    put(
        g,
        "empty",
        "EmptyLTXVLatentVideo",
        width=["half_size", 0],
        height=["half_size", 1],
        length=["length", 0],
        batch_size=1,
    )
    put(
        g,
        "silent",
        "LTXVEmptyLatentAudio",
        audio_vae=["sound", 0],
        frames_number=["length", 0],
        frame_rate=rate,
        batch_size=1,
    )
    first, model = ["empty", 0], "ckpt"
    if picture:
        put(
            g,
            "begun",
            "LTXVImgToVideoInplace",
            vae=["ckpt", 2],
            image=["frame", 0],
            latent=first,
            strength=1,
            bypass=False,
        )
        first = ["begun", 0]
    sigmas: Any = LONG
    if not distilled:
        put(
            g,
            "schedule",
            "LTXVScheduler",
            steps=4,
            max_shift=2.05,
            base_shift=0.95,
            stretch=True,
            terminal=0.1,
            latent=["joined1", 0],
        )
        put(g, "lora", "LoraLoaderModelOnly", model=["ckpt", 0], lora_name=DISTILLED["2"], strength_model=1)
        sigmas, model = ["schedule", 0], "lora"
    sampler = ("euler", "gradient_estimation") if picture else ("euler_ancestral", "euler_ancestral")
    _sampled(g, "1", "ckpt", "both", (first, ["silent", 0]), sampler[0], sigmas, 1 if distilled else 4)
    put(g, "apart1", "LTXVSeparateAVLatent", av_latent=["run1", 0 if picture or not distilled else 1])
    small: list[Any] = ["apart1", 0]
    sides = "both"
    if picture or not distilled:
        put(g, "cropped", "LTXVCropGuides", positive=["both", 0], negative=["both", 1], latent=small)
        small, sides = ["cropped", 2], "cropped"
    put(g, "upscaler", "LatentUpscaleModelLoader", model_name=UPSCALERS["2"])
    put(g, "large", "LTXVLatentUpsampler", samples=small, upscale_model=["upscaler", 0], vae=["ckpt", 2])
    second = ["large", 0]
    if picture:
        put(
            g,
            "again",
            "LTXVImgToVideoInplace",
            vae=["ckpt", 2],
            image=["frame", 0],
            latent=second,
            strength=1,
            bypass=False,
        )
        second = ["again", 0]
    _sampled(g, "2", model, sides, (second, ["apart1", 1]), sampler[1], "0.909375, 0.725, 0.421875, 0.0", 1)
    _saved(g, ["run2", 1], False, 12 if picture else ["fps", 0], tiled=not picture)
    return g


def ltx23(picture: bool = False, voice: bool = False, enhance: bool = False) -> Graph:
    """video_ltx2_3_t2v, video_ltx2_3_i2v and video_ltx2_3_ia2v (``voice``).

    As in the templates, the computed sizes are none that a clip has: half of 144, and 1.25 seconds of 8 frames and one.
    """
    g = _begun("ltx-2.3-22b-dev-fp8.safetensors", "pc game", ["rate", 0])
    for name, value in (("width", 144), ("height", 144), ("fps", 8)):
        put(g, name, "PrimitiveInt", value=value)
    put(g, "seconds", "PrimitiveFloat" if voice else "PrimitiveInt", value=1.25 if voice else 1)
    for name, expression, inputs in (
        ("rate", "a", ["fps"]),
        ("half_width", "a/2", ["width"]),
        ("half_height", "a/2", ["height"]),
        ("length", "a * b + 1", ["seconds", "fps"]),
    ):
        put(
            g,
            name,
            "ComfyMathExpression",
            expression=expression,
            **{f"values__{letter}": [i, 0] for letter, i in zip("ab", inputs, strict=False)},
        )
    if picture or voice:
        put(g, "picture", "LoadImage", image="girl.png")
    else:
        put(g, "picture", "EmptyImage", width=512, height=512, batch_size=1, color=0)
    put(
        g,
        "fitted",
        "ResizeImageMaskNode",
        input=["picture", 0],
        resize_type="scale dimensions",
        resize_type__width=["width", 0],
        resize_type__height=["height", 0],
        resize_type__crop="center",
        scale_method="lanczos",
    )
    put(
        g,
        "longer",
        "ResizeImageMaskNode",
        input=["fitted", 0],
        resize_type="scale longer dimension",
        resize_type__longer_size=160,
        scale_method="lanczos",
    )
    put(g, "frame", "LTXVPreprocess", image=["longer", 0], img_compression=18)
    put(g, "text", "PrimitiveStringMultiline", value="a man speaks")
    put(g, "lora", "LoraLoaderModelOnly", model=["ckpt", 0], lora_name=DISTILLED["2.3"], strength_model=0.5)
    put(
        g,
        "writer",
        "LoraLoader",
        model=["lora", 0],
        clip=["gemma", 0],
        lora_name=WRITER,
        strength_model=1,
        strength_clip=1,
    )
    put(
        g,
        "write",
        "TextGenerateLTX2Prompt",
        clip=["writer", 1],
        prompt=["text", 0],
        max_length=4,
        sampling_mode="on",
        sampling_mode__temperature=0.7,
        sampling_mode__top_k=64,
        sampling_mode__top_p=0.95,
        sampling_mode__min_p=0.05,
        sampling_mode__repetition_penalty=1.05,
        sampling_mode__seed=0,
        sampling_mode__presence_penalty=0.0,
        thinking=False,
        use_default_template=True,
    )
    if picture:
        g["write"]["inputs"]["image"] = ["longer", 0]
    put(g, "enhance", "PrimitiveBoolean", value=enhance)
    put(g, "prompt", "ComfySwitchNode", switch=["enhance", 0], on_false=["text", 0], on_true=["write", 0])
    put(g, "show", "PreviewAny", source=["prompt", 0])
    g["pos"]["inputs"]["text"] = ["prompt", 0]
    put(
        g,
        "empty",
        "EmptyLTXVLatentVideo",
        width=["half_width", 1],
        height=["half_height", 1],
        length=["length", 1],
        batch_size=1,
    )
    put(g, "bypass", "PrimitiveBoolean", value=not (picture or voice))
    put(
        g,
        "begun",
        "LTXVImgToVideoInplace",
        vae=["ckpt", 2],
        image=["frame", 0],
        latent=["empty", 0],
        strength=0.7,
        bypass=["bypass", 0],
    )
    if voice:
        put(g, "file", "LoadAudio", audio="voice.wav", audioUI="")
        put(g, "cut", "TrimAudioDuration", audio=["file", 0], start_index=0.0, duration=["seconds", 0])
        put(g, "encoded", "LTXVAudioVAEEncode", audio=["cut", 0], audio_vae=["sound", 0])
        put(g, "keep", "SolidMask", value=0.0, width=["width", 0], height=["height", 0])
        put(g, "silent", "SetLatentNoiseMask", samples=["encoded", 0], mask=["keep", 0])
    else:
        put(
            g,
            "silent",
            "LTXVEmptyLatentAudio",
            audio_vae=["sound", 0],
            frames_number=["length", 1],
            frame_rate=["rate", 1],
            batch_size=1,
        )
    _sampled(g, "1", "lora", "both", (["begun", 0], ["silent", 0]), "euler", LONG, 1)
    put(g, "apart1", "LTXVSeparateAVLatent", av_latent=["run1", 0])
    put(g, "cropped", "LTXVCropGuides", positive=["both", 0], negative=["both", 1], latent=["apart1", 0])
    put(g, "upscaler", "LatentUpscaleModelLoader", model_name=UPSCALERS["2.3"])
    put(g, "large", "LTXVLatentUpsampler", samples=["apart1", 0], upscale_model=["upscaler", 0], vae=["ckpt", 2])
    put(
        g,
        "again",
        "LTXVImgToVideoInplace",
        vae=["ckpt", 2],
        image=["frame", 0],
        latent=["large", 0],
        strength=1,
        bypass=["bypass", 0],
    )
    _sampled(g, "2", "lora", "cropped", (["again", 0], ["apart1", 1]), "euler", "0.85, 0.7250, 0.4219, 0.0", 1)
    _saved(g, ["run2", 0], False, ["rate", 0])
    return g


def ltx23_ends() -> Graph:
    """video_ltx2_3_flf2v: first and last frame as guides, one stage."""
    g = _begun("ltx-2.3-22b-distilled-fp8.safetensors", "blurry", ["rate", 0])
    for name, value in (("width", 96), ("height", 64), ("seconds", 1), ("fps", 16)):
        put(g, name, "PrimitiveInt", value=value)
    put(g, "rate", "ComfyMathExpression", expression="a", values__a=["fps", 0])
    put(g, "length", "ComfyMathExpression", expression="a * b + 1", values__a=["seconds", 0], values__b=["fps", 0])
    for name in ("first", "last"):
        put(g, f"{name}_file", "LoadImage", image="girl.png" if name == "first" else "car.png")
        put(
            g,
            f"{name}_fitted",
            "ResizeImageMaskNode",
            input=[f"{name}_file", 0],
            resize_type="scale dimensions",
            resize_type__width=["width", 0],
            resize_type__height=["height", 0],
            resize_type__crop="center",
            scale_method="nearest-exact",
        )
        put(g, name, "LTXVPreprocess", image=[f"{name}_fitted", 0], img_compression=25)
    put(g, "size", "GetImageSize", image=["first_fitted", 0])
    put(g, "empty", "EmptyLTXVLatentVideo", width=["size", 0], height=["size", 1], length=["length", 1], batch_size=1)
    put(
        g,
        "silent",
        "LTXVEmptyLatentAudio",
        audio_vae=["sound", 0],
        frames_number=["length", 1],
        frame_rate=["fps", 0],
        batch_size=1,
    )
    put(
        g,
        "guide",
        "LTXVAddGuide",
        positive=["both", 0],
        negative=["both", 1],
        vae=["ckpt", 2],
        latent=["empty", 0],
        image=["first", 0],
        frame_idx=0,
        strength=0.7,
    )
    put(
        g,
        "guides",
        "LTXVAddGuide",
        positive=["guide", 0],
        negative=["guide", 1],
        vae=["ckpt", 2],
        latent=["guide", 2],
        image=["last", 0],
        frame_idx=-1,
        strength=0.7,
    )
    put(g, "euler", "SamplerEulerAncestral", eta=0.0, s_noise=1.0)
    _sampled(g, "1", "ckpt", "guides", (["guides", 2], ["silent", 0]), ["euler", 0], LONG, 1)
    _saved(g, ["run1", 1], True, ["rate", 0])
    return g
