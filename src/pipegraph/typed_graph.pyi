"""Types of the nodes, written by `pipegraph nodes --stubs`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import Literal as L

from pipegraph.builder import Builder, Input, Node, Output

class _ARVideoI2V(Node):
    MODEL: Output[L['MODEL']]
    LATENT: Output[L['LATENT']]
class _BasicGuider(Node, Output[L['GUIDER']]):
    GUIDER: Output[L['GUIDER']]
class _BasicScheduler(Node, Output[L['SIGMAS']]):
    SIGMAS: Output[L['SIGMAS']]
class _BatchImagesNode(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _CFGGuider(Node, Output[L['GUIDER']]):
    GUIDER: Output[L['GUIDER']]
class _CFGZeroStar(Node, Output[L['MODEL']]):
    patched_model: Output[L['MODEL']]
class _CLIPLoader(Node, Output[L['CLIP']]):
    CLIP: Output[L['CLIP']]
class _CLIPTextEncode(Node, Output[L['CONDITIONING']]):
    CONDITIONING: Output[L['CONDITIONING']]
class _CLIPTextEncodeFlux(Node, Output[L['CONDITIONING']]):
    CONDITIONING: Output[L['CONDITIONING']]
class _CLIPTextEncodeSDXL(Node, Output[L['CONDITIONING']]):
    CONDITIONING: Output[L['CONDITIONING']]
class _CLIPVisionEncode(Node, Output[L['CLIP_VISION_OUTPUT']]):
    CLIP_VISION_OUTPUT: Output[L['CLIP_VISION_OUTPUT']]
class _CLIPVisionLoader(Node, Output[L['CLIP_VISION']]):
    CLIP_VISION: Output[L['CLIP_VISION']]
class _Canny(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ChatTemplate(Node):
    text: Output[L['STRING']]
    tokens: Output[L['TOKENS']]
    thinking_begun: Output[L['BOOLEAN']]
class _CheckpointLoaderSimple(Node):
    MODEL: Output[L['MODEL']]
    CLIP: Output[L['CLIP']]
    VAE: Output[L['VAE']]
class _ComfyMathExpression(Node):
    FLOAT: Output[L['FLOAT']]
    INT: Output[L['INT']]
    BOOL: Output[L['BOOLEAN']]
class _ComfySwitchNode(Node, Output[Any]):
    output: Output[Any]
class _ConditioningCombine(Node, Output[L['CONDITIONING']]):
    CONDITIONING: Output[L['CONDITIONING']]
class _ConditioningZeroOut(Node, Output[L['CONDITIONING']]):
    CONDITIONING: Output[L['CONDITIONING']]
class _ControlNetApplyAdvanced(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
class _ControlNetLoader(Node, Output[L['CONTROL_NET']]):
    CONTROL_NET: Output[L['CONTROL_NET']]
class _CreateVideo(Node, Output[L['VIDEO']]):
    VIDEO: Output[L['VIDEO']]
class _Detokenize(Node, Output[L['STRING']]):
    text: Output[L['STRING']]
class _DisableNoise(Node, Output[L['NOISE']]):
    NOISE: Output[L['NOISE']]
class _DualCLIPLoader(Node, Output[L['CLIP']]):
    CLIP: Output[L['CLIP']]
class _EasyCache(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _EmptyARVideoLatent(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyHunyuanLatentVideo(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyHunyuanVideo15Latent(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyImage(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _EmptyLTXVLatentVideo(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyLatentImage(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyMiniMaxH3LatentAV(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptySD3LatentImage(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _ExponentialScheduler(Node, Output[L['SIGMAS']]):
    SIGMAS: Output[L['SIGMAS']]
class _FluxGuidance(Node, Output[L['CONDITIONING']]):
    CONDITIONING: Output[L['CONDITIONING']]
class _GetImageSize(Node):
    width: Output[L['INT']]
    height: Output[L['INT']]
    batch_size: Output[L['INT']]
class _GetVideoComponents(Node):
    images: Output[L['IMAGE']]
    audio: Output[L['AUDIO']]
    fps: Output[L['FLOAT']]
class _GrowMask(Node, Output[L['MASK']]):
    MASK: Output[L['MASK']]
class _HunyuanVideo15ImageToVideo(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
    latent: Output[L['LATENT']]
class _ImageBatch(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageBlur(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageCompositeMasked(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageCrop(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageFromBatch(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageInvert(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImagePadForOutpaint(Node):
    IMAGE: Output[L['IMAGE']]
    MASK: Output[L['MASK']]
class _ImageScale(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageScaleBy(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageScaleToMaxDimension(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageScaleToTotalPixels(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageStitch(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageToMask(Node, Output[L['MASK']]):
    MASK: Output[L['MASK']]
class _InvertMask(Node, Output[L['MASK']]):
    MASK: Output[L['MASK']]
class _JoinImageWithAlpha(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _KSampler(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _KSamplerAdvanced(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _KSamplerSelect(Node, Output[L['SAMPLER']]):
    SAMPLER: Output[L['SAMPLER']]
class _KarrasScheduler(Node, Output[L['SIGMAS']]):
    SIGMAS: Output[L['SIGMAS']]
class _LLMDecode(Node):
    text: Output[L['STRING']]
    tokens: Output[L['TOKENS']]
    cache: Output[L['KV_CACHE']]
    finish: Output[L['STRING']]
    valid: Output[L['BOOLEAN']]
class _LLMPrefill(Node, Output[L['KV_CACHE']]):
    cache: Output[L['KV_CACHE']]
class _LTXAVTextEncoderLoader(Node, Output[L['CLIP']]):
    CLIP: Output[L['CLIP']]
class _LTXVAddGuide(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
    latent: Output[L['LATENT']]
class _LTXVAudioVAEDecode(Node, Output[L['AUDIO']]):
    AUDIO: Output[L['AUDIO']]
class _LTXVAudioVAEEncode(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _LTXVAudioVAELoader(Node, Output[L['VAE']]):
    VAE: Output[L['VAE']]
class _LTXVConcatAVLatent(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _LTXVConditioning(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
class _LTXVCropGuides(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
    latent: Output[L['LATENT']]
class _LTXVDualCFGGuider(Node, Output[L['GUIDER']]):
    GUIDER: Output[L['GUIDER']]
class _LTXVEmptyLatentAudio(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _LTXVImgToVideo(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
    latent: Output[L['LATENT']]
class _LTXVImgToVideoInplace(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _LTXVLatentUpsampler(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _LTXVPreprocess(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _LTXVScheduler(Node, Output[L['SIGMAS']]):
    SIGMAS: Output[L['SIGMAS']]
class _LTXVSeparateAVLatent(Node):
    video_latent: Output[L['LATENT']]
    audio_latent: Output[L['LATENT']]
class _LatentFromBatch(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _LatentUpscale(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _LatentUpscaleModelLoader(Node, Output[L['LATENT_UPSCALE_MODEL']]):
    LATENT_UPSCALE_MODEL: Output[L['LATENT_UPSCALE_MODEL']]
class _LoadAudio(Node, Output[L['AUDIO']]):
    AUDIO: Output[L['AUDIO']]
class _LoadImage(Node):
    IMAGE: Output[L['IMAGE']]
    MASK: Output[L['MASK']]
class _LoadImageMask(Node, Output[L['MASK']]):
    MASK: Output[L['MASK']]
class _LoadLLM(Node, Output[L['LLM']]):
    llm: Output[L['LLM']]
class _LoadVideo(Node, Output[L['VIDEO']]):
    VIDEO: Output[L['VIDEO']]
class _LogitBias(Node, Output[L['SAMPLING']]):
    sampling: Output[L['SAMPLING']]
class _LoraLoader(Node):
    MODEL: Output[L['MODEL']]
    CLIP: Output[L['CLIP']]
class _LoraLoaderModelOnly(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _ManualSigmas(Node, Output[L['SIGMAS']]):
    SIGMAS: Output[L['SIGMAS']]
class _MaskComposite(Node, Output[L['MASK']]):
    MASK: Output[L['MASK']]
class _MaskPreview(Node, Output[L['MASK']]):
    mask: Output[L['MASK']]
class _MaskToImage(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _MiniMaxH3AddGuide(Node, Output[L['CONDITIONING']]):
    CONDITIONING: Output[L['CONDITIONING']]
class _MiniMaxH3ImageToVideo(Node):
    positive: Output[L['CONDITIONING']]
    LATENT: Output[L['LATENT']]
class _MiniMaxH3ReferenceToVideo(Node):
    positive: Output[L['CONDITIONING']]
    LATENT: Output[L['LATENT']]
class _MiniMaxH3SigmaShift(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _ModelSamplingFlux(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _ModelSamplingLTXV(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _ModelSamplingSD3(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _ParseReply(Node):
    answer: Output[L['STRING']]
    thinking: Output[L['STRING']]
    tool_calls: Output[L['STRING']]
class _PreviewAny(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _PreviewImage(Node, Output[L['IMAGE']]):
    images: Output[L['IMAGE']]
class _PrimitiveBoolean(Node, Output[L['BOOLEAN']]):
    BOOLEAN: Output[L['BOOLEAN']]
class _PrimitiveFloat(Node, Output[L['FLOAT']]):
    FLOAT: Output[L['FLOAT']]
class _PrimitiveInt(Node, Output[L['INT']]):
    INT: Output[L['INT']]
class _PrimitiveString(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _PrimitiveStringMultiline(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _QuantizeCLIP(Node, Output[L['CLIP']]):
    CLIP: Output[L['CLIP']]
class _QuantizeModel(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _RandomNoise(Node, Output[L['NOISE']]):
    NOISE: Output[L['NOISE']]
class _RepeatImageBatch(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _RepeatLatentBatch(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _ResizeImageMaskNode(Node, Output[L['IMAGE', 'MASK']]):
    resized: Output[L['IMAGE', 'MASK']]
class _ResolutionSelector(Node):
    width: Output[L['INT']]
    height: Output[L['INT']]
class _SamplerARVideo(Node, Output[L['SAMPLER']]):
    SAMPLER: Output[L['SAMPLER']]
class _SamplerCustom(Node):
    output: Output[L['LATENT']]
    denoised_output: Output[L['LATENT']]
class _SamplerCustomAdvanced(Node):
    output: Output[L['LATENT']]
    denoised_output: Output[L['LATENT']]
class _SamplerEulerAncestral(Node, Output[L['SAMPLER']]):
    SAMPLER: Output[L['SAMPLER']]
class _SamplingParams(Node, Output[L['SAMPLING']]):
    sampling: Output[L['SAMPLING']]
class _SaveAnimatedPNG(Node, Output[L['IMAGE']]):
    images: Output[L['IMAGE']]
class _SaveAnimatedWEBP(Node, Output[L['IMAGE']]):
    images: Output[L['IMAGE']]
class _SaveImage(Node, Output[L['IMAGE']]):
    images: Output[L['IMAGE']]
class _SaveVideo(Node, Output[L['VIDEO']]):
    video: Output[L['VIDEO']]
class _SaveWEBM(Node, Output[L['IMAGE']]):
    images: Output[L['IMAGE']]
class _ScaleROPE(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _SetLatentNoiseMask(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _SkipLayerGuidanceDiT(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _SkipLayerGuidanceDiTSimple(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _SlidingTileAttention(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _SolidMask(Node, Output[L['MASK']]):
    MASK: Output[L['MASK']]
class _SpeculativeDecode(Node):
    text: Output[L['STRING']]
    tokens: Output[L['TOKENS']]
    cache: Output[L['KV_CACHE']]
    finish: Output[L['STRING']]
    valid: Output[L['BOOLEAN']]
class _SplitImageWithAlpha(Node):
    IMAGE: Output[L['IMAGE']]
    MASK: Output[L['MASK']]
class _SplitSigmas(Node):
    high_sigmas: Output[L['SIGMAS']]
    low_sigmas: Output[L['SIGMAS']]
class _SplitSigmasDenoise(Node):
    high_sigmas: Output[L['SIGMAS']]
    low_sigmas: Output[L['SIGMAS']]
class _StreamARVideo(Node, Output[L['VIDEO']]):
    VIDEO: Output[L['VIDEO']]
class _StringConcatenate(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _StringReplace(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _StructuredOutput(Node, Output[L['GRAMMAR']]):
    grammar: Output[L['GRAMMAR']]
class _TextGenerate(Node):
    generated_text: Output[L['STRING']]
    finish: Output[L['STRING']]
    valid: Output[L['BOOLEAN']]
    thinking_begun: Output[L['BOOLEAN']]
class _TextGenerateLTX2Prompt(Node, Output[L['STRING']]):
    generated_text: Output[L['STRING']]
class _Tokenize(Node):
    tokens: Output[L['TOKENS']]
    count: Output[L['INT']]
class _TrimAudioDuration(Node, Output[L['AUDIO']]):
    AUDIO: Output[L['AUDIO']]
class _TrimVideoLatent(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _UNETLoader(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _UNetTemporalAttentionMultiply(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _UnetLoaderGGUF(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _VAEDecode(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _VAEDecodeAudio(Node, Output[L['AUDIO']]):
    AUDIO: Output[L['AUDIO']]
class _VAEDecodeTiled(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _VAEDecodeVideo(Node, Output[L['VIDEO']]):
    VIDEO: Output[L['VIDEO']]
class _VAEEncode(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _VAELoader(Node, Output[L['VAE']]):
    VAE: Output[L['VAE']]
class _Wan22FunControlToVideo(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
    latent: Output[L['LATENT']]
class _Wan22ImageToVideoLatent(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _WanCameraEmbedding(Node):
    camera_embedding: Output[L['WAN_CAMERA_EMBEDDING']]
    width: Output[L['INT']]
    height: Output[L['INT']]
    length: Output[L['INT']]
class _WanCameraImageToVideo(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
    latent: Output[L['LATENT']]
class _WanFirstLastFrameToVideo(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
    latent: Output[L['LATENT']]
class _WanFunControlToVideo(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
    latent: Output[L['LATENT']]
class _WanFunInpaintToVideo(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
    latent: Output[L['LATENT']]
class _WanImageToVideo(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
    latent: Output[L['LATENT']]
class _WanVaceToVideo(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
    latent: Output[L['LATENT']]
    trim_latent: Output[L['INT']]

class Graph(Builder):
    def ARVideoI2V(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        vae: Output[L['VAE']] | Input,
        start_image: Output[L['IMAGE']] | Input,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
    ) -> _ARVideoI2V:
        """Let the clips of a causal model for text to video begin with a picture; for SamplerARVideo.

        Args:
            model: The model.
            vae: Its VAE.
            start_image: The first frame; scaled to cover the size and cut at the centre.
            width: Of the frames, in pixels.
            height: Of the frames, in pixels.
            length: How many frames, the first included: 1, 5, 9, ...
            batch_size: How many clips.
        """
    def BasicGuider(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        conditioning: Output[L['CONDITIONING']] | Input,
    ) -> _BasicGuider:
        """Follow one conditioning as it is, with no negative.

        Args:
            model: The network that removes the noise.
            conditioning: What is to be seen.
        """
    def BasicScheduler(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        scheduler: L['simple', 'sgm_uniform', 'karras', 'exponential', 'ddim_uniform', 'beta', 'normal', 'linear_quadratic', 'kl_optimal'] | L['auto'] | Output[L['COMBO', 'STRING']] | Input = ...,
        steps: int | L['auto'] | Output[L['INT']] | Input = ...,
        denoise: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _BasicScheduler:
        """Spread a model's noise levels over steps.

        Args:
            model: Whose noise levels.
            scheduler: How they are spread.
            steps: How many steps are run, whatever denoise is.
            denoise: Part of the noise levels that is run: 1 all of them, 0 none.
        """
    def BatchImagesNode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        images: Mapping[str, None | Output[L['IMAGE']] | Input] = ...,
    ) -> _BatchImagesNode:
        """Put batches of pictures into one, in the order of their numbers.

        All are scaled (bilinear) and cut in the middle to the size of the first. If any has alpha, the others become
        opaque."""
    def CFGGuider(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        cfg: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _CFGGuider:
        """Follow a conditioning and keep away from another (classifier-free guidance).

        Args:
            model: The network that removes the noise.
            positive: What is to be seen.
            negative: What is not to be seen.
            cfg: How far to go from the negative prediction towards the positive and beyond; at 1 the negative is not used.
        """
    def CFGZeroStar(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
    ) -> _CFGZeroStar:
        """Guide by CFG-Zero*: the negative prediction is scaled to lie as near to the positive one as it can.

        Args:
            model: The model to guide; at cfg 1 nothing changes.
        """
    def CLIPLoader(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        clip_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
        type: str | Path | Output[L['COMBO', 'STRING']] | Input = ...,
        device: L['default', 'cpu'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _CLIPLoader:
        """Load a text encoder; what it is, is told by its content.

        Args:
            clip_name: A single file, a component folder, or the name of a whole model. The CLIP of a language model answers in TextGenerate, too.
            type: The family it is to serve.
            device: Where it computes.
        """
    def CLIPTextEncode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        text: str | Path | Output[L['STRING', 'COMBO']] | Input,
        clip: Output[L['CLIP']] | Input,
    ) -> _CLIPTextEncode:
        """Encode a prompt with all text encoders of a model.

        `(word:1.2)` weighs a word, `(word)` weighs it by 1.1; `\\(` is a parenthesis. Words that the model does not know
        and text beyond what it reads are named in a warning, and so is `embedding:NAME`, which is read as plain text.

        Args:
            text: The prompt.
            clip: Text encoders.
        """
    def CLIPTextEncodeFlux(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        clip: Output[L['CLIP']] | Input,
        clip_l: str | Path | Output[L['STRING', 'COMBO']] | Input,
        t5xxl: str | Path | Output[L['STRING', 'COMBO']] | Input,
        guidance: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _CLIPTextEncodeFlux:
        """Encode one prompt for each of FLUX's text encoders, with the guidance number.

        Args:
            clip: Text encoders of FLUX.
            clip_l: Prompt for CLIP-L, which gives the overall direction.
            t5xxl: Prompt for T5, which gives the details.
            guidance: Distilled guidance, for models that take it (FLUX.1 dev).
        """
    def CLIPTextEncodeSDXL(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        clip: Output[L['CLIP']] | Input,
        text_g: str | Path | Output[L['STRING', 'COMBO']] | Input,
        text_l: str | Path | Output[L['STRING', 'COMBO']] | Input,
        width: int | Output[L['INT']] | Input = ...,
        height: int | Output[L['INT']] | Input = ...,
        crop_w: int | Output[L['INT']] | Input = ...,
        crop_h: int | Output[L['INT']] | Input = ...,
        target_width: int | Output[L['INT']] | Input = ...,
        target_height: int | Output[L['INT']] | Input = ...,
    ) -> _CLIPTextEncodeSDXL:
        """Encode one prompt for each of SDXL's text encoders, with the sizes that the network reads.

        Args:
            clip: Text encoders of SDXL.
            text_g: Prompt for CLIP-G.
            text_l: Prompt for CLIP-L.
            width: Width of the image that the network is to imagine; small ones were blurred in training.
            height: Its height.
            crop_w: Pixels that were cut off at the left; 0 keeps objects in the middle.
            crop_h: Pixels that were cut off above.
            target_width: Width of what is made.
            target_height: Height of what is made.
        """
    def CLIPVisionEncode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        clip_vision: Output[L['CLIP_VISION']] | Input,
        image: Output[L['IMAGE']] | Input,
        crop: L['center', 'none'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _CLIPVisionEncode:
        """Let a CLIP vision model look at pictures.

        Args:
            clip_vision: The model.
            image: The pictures.
            crop: The model sees squares: center cuts the longer side, none squeezes the picture.
        """
    def CLIPVisionLoader(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        clip_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _CLIPVisionLoader:
        """Load a CLIP vision model, e.g. for Wan 2.1's image-to-video models.

        Args:
            clip_name: A single file, a component folder, or the name of a whole model.
        """
    def Canny(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        low_threshold: float | Output[L['FLOAT', 'INT']] | Input = ...,
        high_threshold: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _Canny:
        """Find edges: white lines, one pixel wide, on black.

        Thresholds are for the length of the plain Sobel gradient of the blurred gray picture; a step from black to white
        has a length of 2.6.

        Args:
            image: Where to look.
            low_threshold: An edge goes on along pixels above it.
            high_threshold: An edge starts at pixels above it; not below the low threshold.
        """
    def ChatTemplate(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        llm: Output[L['LLM']] | Input,
        message: str | Path | Output[L['STRING', 'COMBO']] | Input,
        system: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        tools: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        thinking: L['auto', 'on', 'off'] | Output[L['COMBO', 'STRING']] | Input = ...,
        date: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        image: None | Output[L['IMAGE']] | Input = ...,
    ) -> _ChatTemplate:
        """Write a chat as the model's own template wants it, up to where the model is to answer.

        Pictures are in `tokens` only: the places that they take there are one placeholder each in `text`. `thinking_begun`
        says whether the template has begun the thinking of the reply, for ParseReply.

        Args:
            llm: Whose template is used.
            message: What the user says, or a whole chat as a JSON list of `{"role": ..., "content": ...}`.
            system: What the model is told first; some templates have a text of their own for it if this is empty.
            tools: Functions that the model may call, a JSON list of schemas.
            thinking: Whether the model thinks before it answers; auto leaves it to the template.
            date: The day that templates may name. It is given, so that the same graph gives the same tokens.
            image: Pictures that a vision-language model is shown, in the order of the batch: where the chat has parts `{"type": "image"}`, else at the beginning of its last user turn.
        """
    def CheckpointLoaderSimple(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        ckpt_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _CheckpointLoaderSimple:
        """Load a whole model: diffusion network, text encoders and VAE.

        A file that holds only the diffusion network is completed with the usual VAE and text encoders of its family, where
        they lie beside it or in the model folders; what was taken from where is said.

        Args:
            ckpt_name: A folder in diffusers layout, a single file, `org/name` in the local hub cache, or `embedded/...`.
        """
    def ComfyMathExpression(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        values: Mapping[str, int | float | bool | None | Output[L['INT', 'FLOAT', 'BOOLEAN']] | Input] = ...,
        expression: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
    ) -> _ComfyMathExpression:
        """Compute an expression, e.g. `a * 16 + 1` or `min(a, b) if c else 0`.

        Args:
            expression: Numbers, names of the values, + - * / // % **, comparisons, and, or, not, x if c else y; sum, min, max, abs, round, pow, sqrt, ceil, floor, log, log2, log10, sin, cos, tan, int, float; `values` is a list of all.
        """
    def ComfySwitchNode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        switch: bool | Output[L['BOOLEAN']] | Input,
        on_false: Any | Output[Any] | Input,
        on_true: Any | Output[Any] | Input,
    ) -> _ComfySwitchNode:
        """Give one of two inputs; only that one is computed.

        Args:
            switch: Which one.
            on_false: Given if switch is false.
            on_true: Given if switch is true.
        """
    def ConditioningCombine(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        conditioning_1: Output[L['CONDITIONING']] | Input,
        conditioning_2: Output[L['CONDITIONING']] | Input,
    ) -> _ConditioningCombine:
        """Follow two conditionings at once: their predictions are averaged at each step.

        Args:
            conditioning_1: One of them.
            conditioning_2: The other one.
        """
    def ConditioningZeroOut(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        conditioning: Output[L['CONDITIONING']] | Input,
    ) -> _ConditioningZeroOut:
        """Set all text information to zero: the negative of models that were trained with it.

        Args:
            conditioning: What to clear; everything but the text is kept.
        """
    def ControlNetApplyAdvanced(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        control_net: Output[L['CONTROL_NET']] | Input,
        image: Output[L['IMAGE']] | Input,
        strength: float | Output[L['FLOAT', 'INT']] | Input = ...,
        start_percent: float | Output[L['FLOAT', 'INT']] | Input = ...,
        end_percent: float | Output[L['FLOAT', 'INT']] | Input = ...,
        vae: None | Output[L['VAE']] | Input = ...,
    ) -> _ControlNetApplyAdvanced:
        """Let a ControlNet steer the picture by a hint: edges, depth and the like. Several can follow one another.

        The hint is scaled to cover the picture and cut at the centre. One hint serves a whole batch; several must be as
        many as the pictures. Strength 0 changes nothing.

        Args:
            positive: Conditioning to steer.
            negative: The same for the negative one.
            control_net: The ControlNet.
            image: The hint.
            strength: How much it counts.
            start_percent: Where on the way from noise to picture it begins to act.
            end_percent: Where it ends.
            vae: The model's VAE, for ControlNets that read latents, such as FLUX's.
        """
    def ControlNetLoader(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        control_net_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _ControlNetLoader:
        """Load a ControlNet.

        Args:
            control_net_name: A single file in diffusers layout, or a component folder.
        """
    def CreateVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        images: Output[L['IMAGE']] | Input,
        fps: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        audio: None | Output[L['AUDIO']] | Input = ...,
        bit_depth: int | str | Path | Output[L['INT', 'STRING', 'COMBO']] | Input = ...,
        color_space: L['sRGB'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _CreateVideo:
        """Make a clip of pictures.

        Args:
            images: The frames.
            fps: Frames a second; 23.976, 29.97 and 59.94 stand for 24000/1001, 30000/1001 and 60000/1001.
            audio: Sound; it is cut, or followed by silence, where its length is another when the clip is saved.
            bit_depth: Bits a channel: 8, or `auto`, which is 8.
            color_space: Of the frames.
        """
    def Detokenize(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        llm: Output[L['LLM']] | Input,
        tokens: Output[L['TOKENS']] | Input,
        control_tokens: bool | Output[L['BOOLEAN']] | Input = ...,
    ) -> _Detokenize:
        """Turn tokens into text; several sequences become texts with an empty line between them.

        Args:
            llm: Whose tokenizer is used.
            tokens: What to read.
            control_tokens: Write control tokens, too.
        """
    def DisableNoise(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
    ) -> _DisableNoise:
        """No noise at the start, for a latent that has noise in it."""
    def DualCLIPLoader(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        clip_name1: str | Path | Output[L['COMBO', 'STRING']] | Input,
        clip_name2: str | Path | Output[L['COMBO', 'STRING']] | Input,
        type: str | Path | Output[L['COMBO', 'STRING']] | Input = ...,
        device: L['default', 'cpu'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _DualCLIPLoader:
        """Load two text encoders, in any order.

        Args:
            clip_name1: One of them, e.g. CLIP-L.
            clip_name2: The other one, e.g. T5.
            type: The family they are to serve.
            device: Where they compute.
        """
    def EasyCache(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        reuse_threshold: float | Output[L['FLOAT', 'INT']] | Input = ...,
        start_percent: float | Output[L['FLOAT', 'INT']] | Input = ...,
        end_percent: float | Output[L['FLOAT', 'INT']] | Input = ...,
        verbose: bool | Output[L['BOOLEAN']] | Input = ...,
    ) -> _EasyCache:
        """Reuse steps of sampling whose result is expected to change little: less work, and other results.

        For pictures and clips. How many steps were reused and how far they are expected and measured to be off stands in
        the run record, and is said as a warning.

        Args:
            model: The model to change.
            reuse_threshold: Expected relative change of the network's output below which a step is reused; 0: never.
            start_percent: Part of the way before which every step is computed.
            end_percent: Part of the way after which every step is computed.
            verbose: Say it where nothing was reused, too.
        """
    def EmptyARVideoLatent(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
    ) -> _EmptyARVideoLatent:
        """Make an empty latent of a clip: nothing to start from but a size.

        Args:
            width: Of the frames, in pixels; cut to a multiple of 16, with a warning.
            height: Of the frames, in pixels, likewise.
            length: How many frames: 1, 5, 9, ..., other numbers are cut; (length - 1) / 4 + 1 latent frames, a whole number of blocks.
            batch_size: How many clips.
        """
    def EmptyHunyuanLatentVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
    ) -> _EmptyHunyuanLatentVideo:
        """Make an empty latent of a clip, for Wan and HunyuanVideo: nothing to start from but a size.

        A model whose latent cells are larger (Wan 2.2's 5B: 16 pixels) makes clips of this size too, if it can.

        Args:
            width: Of the frames, in pixels; cut to a multiple of 16, with a warning.
            height: Of the frames, in pixels, likewise.
            length: How many frames: 1, 5, 9, ...; other numbers are cut, with a warning.
            batch_size: How many clips.
        """
    def EmptyHunyuanVideo15Latent(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
    ) -> _EmptyHunyuanVideo15Latent:
        """Make an empty latent of a clip for HunyuanVideo 1.5: nothing to start from but a size.

        Args:
            width: Of the frames, in pixels; cut to a multiple of 16, with a warning.
            height: Of the frames, in pixels, likewise.
            length: How many frames: 1, 5, 9, ...; other numbers are cut, with a warning.
            batch_size: How many clips.
        """
    def EmptyImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        width: int | Output[L['INT']] | Input = ...,
        height: int | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
        color: int | Output[L['INT']] | Input = ...,
    ) -> _EmptyImage:
        """Make pictures of one colour.

        Args:
            width: Width in pixels.
            height: Height in pixels.
            batch_size: How many.
            color: Red, green and blue as 0xRRGGBB, e.g. 16711680 for red.
        """
    def EmptyLTXVLatentVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
    ) -> _EmptyLTXVLatentVideo:
        """Make an empty latent of a clip, for LTX-Video: nothing to start from but a size.

        Args:
            width: Of the frames, in pixels; cut to a multiple of 32, with a warning.
            height: Of the frames, in pixels, likewise.
            length: How many frames: 1, 9, 17, ...; other numbers are cut, with a warning.
            batch_size: How many clips.
        """
    def EmptyLatentImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
    ) -> _EmptyLatentImage:
        """Make an empty latent: nothing to start from but a size.

        It has 4 channels. A sampler knows an empty latent by all its values being 0 and makes it of as many channels as
        its model has.

        Args:
            width: Of the picture, in pixels; cut to a multiple of 8, with a warning.
            height: Of the picture, in pixels, likewise.
            batch_size: How many pictures.
        """
    def EmptyMiniMaxH3LatentAV(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
    ) -> _EmptyMiniMaxH3LatentAV:
        """Make an empty latent of a clip and its sound: nothing to start from but a size.

        Args:
            width: Of the frames, in pixels; cut to a multiple of 32, with a warning.
            height: Of the frames, in pixels, likewise.
            length: How many frames, 24 a second: 5, 22, 39, ...; other numbers are cut, with a warning.
        """
    def EmptySD3LatentImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
    ) -> _EmptySD3LatentImage:
        """Make an empty latent of 16 channels, as SD3 and FLUX have.

        Args:
            width: Of the picture, in pixels; cut to a multiple of 8, with a warning.
            height: Of the picture, in pixels, likewise.
            batch_size: How many pictures.
        """
    def ExponentialScheduler(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        steps: int | L['auto'] | Output[L['INT']] | Input = ...,
        sigma_max: float | Output[L['FLOAT', 'INT']] | Input = ...,
        sigma_min: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _ExponentialScheduler:
        """Noise levels that are even in log sigma.

        Args:
            steps: How many steps.
            sigma_max: The first sigma.
            sigma_min: The last sigma before 0.
        """
    def FluxGuidance(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        conditioning: Output[L['CONDITIONING']] | Input,
        guidance: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _FluxGuidance:
        """Set the guidance number that distilled models (FLUX.1 dev) take as an input; it costs no second pass.

        Args:
            conditioning: What to set it on.
            guidance: Higher follows the prompt more closely.
        """
    def GetImageSize(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
    ) -> _GetImageSize:
        """Width, height and number of pictures.

        Args:
            image: What to measure.
        """
    def GetVideoComponents(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        video: Output[L['VIDEO']] | Input,
    ) -> _GetVideoComponents:
        """Take a clip apart: all its frames at once, its sound, its rate.

        Args:
            video: The clip; if it has transparency, its frames have four channels.
        """
    def GrowMask(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        mask: Output[L['MASK']] | Input,
        expand: int | Output[L['INT']] | Input = ...,
        tapered_corners: bool | Output[L['BOOLEAN']] | Input = ...,
    ) -> _GrowMask:
        """Make a mask larger or smaller by whole pixels.

        Args:
            mask: What to grow.
            expand: Pixels to grow by; a negative number shrinks.
            tapered_corners: Grow to a diamond instead of a square.
        """
    def HunyuanVideo15ImageToVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        vae: Output[L['VAE']] | Input,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
        start_image: None | Output[L['IMAGE']] | Input = ...,
        clip_vision_output: None | Output[L['CLIP_VISION_OUTPUT']] | Input = ...,
    ) -> _HunyuanVideo15ImageToVideo:
        """Let a clip begin with given pictures, for HunyuanVideo 1.5.

        Args:
            positive: What is to be seen.
            negative: What is not to be seen.
            vae: The model's VAE.
            width: Of the frames, in pixels.
            height: Of the frames, in pixels.
            length: How many frames: 1, 5, 9, ...
            batch_size: How many clips.
            start_image: The first frames; scaled to cover the size and cut at the centre.
            clip_vision_output: What SigLIP sees in the first picture; the image-to-video models were trained with it.
        """
    def ImageBatch(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image1: Output[L['IMAGE']] | Input,
        image2: Output[L['IMAGE']] | Input,
    ) -> _ImageBatch:
        """Put two batches of pictures into one.

        The second is scaled (bilinear) and cut in the middle to the size of the first. If only one has alpha, the other
        becomes opaque.

        Args:
            image1: First pictures.
            image2: Pictures that follow.
        """
    def ImageBlur(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        blur_radius: int | Output[L['INT']] | Input = ...,
        sigma: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _ImageBlur:
        """Blur pictures with a Gaussian window.

        Args:
            image: What to blur.
            blur_radius: Half the width of the window in pixels.
            sigma: Standard deviation of the Gaussian in units of the radius.
        """
    def ImageCompositeMasked(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        destination: Output[L['IMAGE']] | Input,
        source: Output[L['IMAGE']] | Input,
        x: int | Output[L['INT']] | Input = ...,
        y: int | Output[L['INT']] | Input = ...,
        resize_source: bool | Output[L['BOOLEAN']] | Input = ...,
        mask: None | Output[L['MASK']] | Input = ...,
    ) -> _ImageCompositeMasked:
        """Lay pictures over others.

        Source and mask are repeated, or cut, to as many as there are in the destination. Channels follow the destination.

        Args:
            destination: What lies below; gives the size.
            source: What lies above; what sticks out is cut.
            x: Column of the source's left edge.
            y: Row of the source's top edge.
            resize_source: Scale the source (bilinear) to the destination's size first.
            mask: Opacity of the source, scaled to its size; opaque if left out.
        """
    def ImageCrop(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        width: int | Output[L['INT']] | Input = ...,
        height: int | Output[L['INT']] | Input = ...,
        x: int | Output[L['INT']] | Input = ...,
        y: int | Output[L['INT']] | Input = ...,
    ) -> _ImageCrop:
        """Cut a rectangle out of pictures; what lies beyond the border is left out.

        Args:
            image: What to cut.
            width: Width of the rectangle in pixels.
            height: Height of the rectangle in pixels.
            x: Column of its left edge; at most the last column.
            y: Row of its top edge; at most the last row.
        """
    def ImageFromBatch(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        batch_index: int | Output[L['INT']] | Input = ...,
        length: int | Output[L['INT']] | Input = ...,
    ) -> _ImageFromBatch:
        """Take pictures out of a batch.

        Args:
            image: The batch.
            batch_index: First picture to take, counted from 0; at most the last one.
            length: How many; what lies beyond the end is left out.
        """
    def ImageInvert(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
    ) -> _ImageInvert:
        """Invert the colours of pictures; alpha stays.

        Args:
            image: What to invert.
        """
    def ImagePadForOutpaint(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        left: int | Output[L['INT']] | Input = ...,
        top: int | Output[L['INT']] | Input = ...,
        right: int | Output[L['INT']] | Input = ...,
        bottom: int | Output[L['INT']] | Input = ...,
        feathering: int | Output[L['INT']] | Input = ...,
    ) -> _ImagePadForOutpaint:
        """Pad pictures with gray, with a mask of what is to be painted there.

        Args:
            image: What to pad.
            left: New columns on the left.
            top: New rows at the top.
            right: New columns on the right.
            bottom: New rows at the bottom.
            feathering: Over how many pixels the mask falls from 1 to 0 inside the old picture.
        """
    def ImageScale(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        upscale_method: L['nearest-exact', 'bilinear', 'area', 'bicubic', 'lanczos'] | Output[L['COMBO', 'STRING']] | Input = ...,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        crop: L['disabled', 'center'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _ImageScale:
        """Scale pictures to a size. A side of 0 follows from the other one and the aspect ratio; two leave all as it is.

        Colours of RGBA pictures count by their alpha: what is hidden below transparent parts does not bleed into the rest.

        Args:
            image: What to scale.
            upscale_method: How new pixels are made from old ones; only area and lanczos smooth when they shrink.
            width: New width in pixels, or 0.
            height: New height in pixels, or 0.
            crop: center cuts what the new aspect ratio does not hold, instead of squeezing the picture.
        """
    def ImageScaleBy(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        upscale_method: L['nearest-exact', 'bilinear', 'area', 'bicubic', 'lanczos'] | Output[L['COMBO', 'STRING']] | Input = ...,
        scale_by: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _ImageScaleBy:
        """Scale pictures by a factor, to the nearest whole pixel.

        Args:
            image: What to scale.
            upscale_method: How new pixels are made from old ones; only area and lanczos smooth when they shrink.
            scale_by: New width divided by old width.
        """
    def ImageScaleToMaxDimension(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        upscale_method: L['nearest-exact', 'bilinear', 'area', 'bicubic', 'lanczos'] | Output[L['COMBO', 'STRING']] | Input = ...,
        largest_size: int | Output[L['INT']] | Input = ...,
    ) -> _ImageScaleToMaxDimension:
        """Scale pictures so that the longer side has a given length.

        Args:
            image: What to scale.
            upscale_method: How new pixels are made from old ones; only area and lanczos smooth when they shrink.
            largest_size: Length of the longer side in pixels; 0 leaves all as it is.
        """
    def ImageScaleToTotalPixels(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        upscale_method: L['nearest-exact', 'bilinear', 'area', 'bicubic', 'lanczos'] | Output[L['COMBO', 'STRING']] | Input = ...,
        megapixels: float | Output[L['FLOAT', 'INT']] | Input = ...,
        resolution_steps: int | Output[L['INT']] | Input = ...,
    ) -> _ImageScaleToTotalPixels:
        """Scale pictures to about a number of pixels and keep their aspect ratio.

        Args:
            image: What to scale.
            upscale_method: How new pixels are made from old ones; only area and lanczos smooth when they shrink.
            megapixels: Pixels to reach, in units of 1024 * 1024.
            resolution_steps: Width and height become multiples of it.
        """
    def ImageStitch(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image1: Output[L['IMAGE']] | Input,
        direction: L['right', 'down', 'left', 'up'] | Output[L['COMBO', 'STRING']] | Input = ...,
        match_image_size: bool | Output[L['BOOLEAN']] | Input = ...,
        spacing_width: int | Output[L['INT']] | Input = ...,
        spacing_color: L['white', 'black', 'red', 'green', 'blue'] | Output[L['COMBO', 'STRING']] | Input = ...,
        image2: None | Output[L['IMAGE']] | Input = ...,
    ) -> _ImageStitch:
        """Put two pictures side by side, or one above the other.

        Of two batches, the shorter one goes on with its last picture. If only one has alpha, the other becomes opaque.

        Args:
            image1: The picture that stays where it is.
            direction: On which side of it the other one stands.
            match_image_size: Scale the other one (Lanczos) to the same height, or below and above to the same width; else the smaller one is put in the middle, with the colour of the gap around.
            spacing_width: Width of the gap in pixels; an odd one is made even.
            spacing_color: Colour of the gap.
            image2: The other picture; without it the first comes back as it is.
        """
    def ImageToMask(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        channel: L['red', 'green', 'blue', 'alpha'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _ImageToMask:
        """Take one channel of pictures as a mask, as it is.

        Args:
            image: The pictures.
            channel: Which channel; alpha only of pictures that have one (LoadImage gives it as its MASK).
        """
    def InvertMask(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        mask: Output[L['MASK']] | Input,
    ) -> _InvertMask:
        """Turn a mask round: 1 becomes 0.

        Args:
            mask: What to turn round.
        """
    def JoinImageWithAlpha(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        alpha: Output[L['MASK']] | Input,
    ) -> _JoinImageWithAlpha:
        """Make pictures transparent where a mask is 1.

        There are as many as the longer of the two batches has; the shorter one begins anew at its end.

        Args:
            image: Colours.
            alpha: 1 where transparent, as LoadImage gives it; scaled to the picture's size.
        """
    def KSampler(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        latent_image: Output[L['LATENT']] | Input,
        seed: int | None | Output[L['INT']] | Input = ...,
        steps: int | L['auto'] | Output[L['INT']] | Input = ...,
        cfg: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        sampler_name: L['euler', 'euler_ancestral', 'heun', 'dpm_2', 'dpmpp_2m', 'dpmpp_2m_sde', 'dpmpp_3m_sde', 'lcm', 'res_multistep', 'gradient_estimation', 'er_sde', 'ddim', 'uni_pc', 'uni_pc_bh2', 'dpmpp_2m_sde_gpu', 'dpmpp_3m_sde_gpu'] | L['auto'] | Output[L['COMBO', 'STRING']] | Input = ...,
        scheduler: L['simple', 'sgm_uniform', 'karras', 'exponential', 'ddim_uniform', 'beta', 'normal', 'linear_quadratic', 'kl_optimal'] | L['auto'] | Output[L['COMBO', 'STRING']] | Input = ...,
        denoise: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _KSampler:
        """Turn noise, or a noised latent, into a latent that shows what the conditioning says.

        Args:
            model: The network that removes the noise.
            seed: Of the noise; item i of a batch has noise of its own.
            steps: How many steps are run, whatever denoise is.
            cfg: How far to go from the negative prediction towards the positive and beyond; at 1 the negative is not used.
            sampler_name: How a step is made of predictions.
            scheduler: How the noise levels are spread over the steps.
            positive: What is to be seen.
            negative: What is not to be seen.
            latent_image: What to start from; an empty latent gives the size.
            denoise: Part of the noise levels that is run: 1 keeps nothing of the latent, 0 all of it.
        """
    def KSamplerAdvanced(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        latent_image: Output[L['LATENT']] | Input,
        add_noise: L['enable', 'disable'] | Output[L['COMBO', 'STRING']] | Input = ...,
        noise_seed: int | None | Output[L['INT']] | Input = ...,
        steps: int | L['auto'] | Output[L['INT']] | Input = ...,
        cfg: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        sampler_name: L['euler', 'euler_ancestral', 'heun', 'dpm_2', 'dpmpp_2m', 'dpmpp_2m_sde', 'dpmpp_3m_sde', 'lcm', 'res_multistep', 'gradient_estimation', 'er_sde', 'ddim', 'uni_pc', 'uni_pc_bh2', 'dpmpp_2m_sde_gpu', 'dpmpp_3m_sde_gpu'] | L['auto'] | Output[L['COMBO', 'STRING']] | Input = ...,
        scheduler: L['simple', 'sgm_uniform', 'karras', 'exponential', 'ddim_uniform', 'beta', 'normal', 'linear_quadratic', 'kl_optimal'] | L['auto'] | Output[L['COMBO', 'STRING']] | Input = ...,
        start_at_step: int | Output[L['INT']] | Input = ...,
        end_at_step: int | Output[L['INT']] | Input = ...,
        return_with_leftover_noise: L['disable', 'enable'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _KSamplerAdvanced:
        """Run some of the steps of a sampling, so that several nodes can share one.

        Args:
            model: The network that removes the noise.
            add_noise: Whether noise is added first; not if the latent comes from a node that left noise in it.
            noise_seed: Of the noise; item i of a batch has noise of its own.
            steps: How many steps the whole sampling has.
            cfg: How far to go from the negative prediction towards the positive and beyond; at 1 the negative is not used.
            sampler_name: How a step is made of predictions.
            scheduler: How the noise levels are spread over the steps.
            positive: What is to be seen.
            negative: What is not to be seen.
            latent_image: What to start from.
            start_at_step: The first step to run; beyond the end the latent comes back as it is.
            end_at_step: The step to stop before.
            return_with_leftover_noise: Whether a run that stops early leaves its noise in, for another node to go on.
        """
    def KSamplerSelect(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        sampler_name: L['euler', 'euler_ancestral', 'heun', 'dpm_2', 'dpmpp_2m', 'dpmpp_2m_sde', 'dpmpp_3m_sde', 'lcm', 'res_multistep', 'gradient_estimation', 'er_sde', 'ddim', 'uni_pc', 'uni_pc_bh2', 'dpmpp_2m_sde_gpu', 'dpmpp_3m_sde_gpu'] | L['auto'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _KSamplerSelect:
        """Choose how a step is made of predictions.

        Args:
            sampler_name: The sampler.
        """
    def KarrasScheduler(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        steps: int | L['auto'] | Output[L['INT']] | Input = ...,
        sigma_max: float | Output[L['FLOAT', 'INT']] | Input = ...,
        sigma_min: float | Output[L['FLOAT', 'INT']] | Input = ...,
        rho: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _KarrasScheduler:
        """Noise levels that are even in sigma^(1/rho).

        Args:
            steps: How many steps.
            sigma_max: The first sigma.
            sigma_min: The last sigma before 0.
            rho: The higher, the more of the steps lie at low noise.
        """
    def LLMDecode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        llm: Output[L['LLM']] | Input,
        cache: Output[L['KV_CACHE']] | Input,
        sampling: None | Output[L['SAMPLING']] | Input = ...,
        grammar: None | Output[L['GRAMMAR']] | Input = ...,
        seed: int | None | Output[L['INT']] | Input = ...,
        max_tokens: int | Output[L['INT']] | Input = ...,
        when_cut: L['warn', 'fail'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _LLMDecode:
        """Write a reply, a token at a time: each reads all weights once, so this is bound by memory.

        Gives the text, its tokens, the cache to go on from, why it ended (`stop`, `length`, or `constraint`) and whether it
        is whole: false if the limit cut a reply that has to keep to a form.

        Args:
            llm: What writes.
            cache: What it has read; it stays as it is, so that several nodes can go on from one.
            sampling: How tokens are chosen; the likeliest each time if nothing is linked.
            grammar: The form that the reply keeps to.
            seed: Of the draws; sequence i of a batch has draws of its own.
            max_tokens: The reply ends after so many tokens at the latest.
            when_cut: What a reply is that has a form and is cut by the limit.
        """
    def LLMPrefill(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        llm: Output[L['LLM']] | Input,
        tokens: Output[L['TOKENS']] | Input,
        cache: None | Output[L['KV_CACHE']] | Input = ...,
        kv: L['native', 'int8'] | Output[L['COMBO', 'STRING']] | Input = ...,
        chunk: int | Output[L['INT']] | Input = ...,
        reuse: bool | Output[L['BOOLEAN']] | Input = ...,
    ) -> _LLMPrefill:
        """Read a prompt: all its tokens at once, so this is bound by arithmetic and sets the time to the first token.

        Args:
            llm: What reads.
            tokens: The prompt.
            cache: What was read before; it stays as it is.
            kv: How keys and values are kept: as the model computes, or as int8 with a scale a token and head.
            chunk: How many tokens run through the network at once.
            reuse: Begin with what the model has read before of the same tokens, also in other runs, and keep what it reads.
        """
    def LTXAVTextEncoderLoader(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        text_encoder: str | Path | Output[L['COMBO', 'STRING']] | Input,
        ckpt_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
        device: L['default', 'cpu'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _LTXAVTextEncoderLoader:
        """Load LTX-2's text encoder.

        Args:
            text_encoder: Gemma 3 12B: a folder in transformers' layout, a GGUF file, or ComfyUI's safetensors file.
            ckpt_name: The model's checkpoint, which holds what comes behind it.
            device: Where it computes.
        """
    def LTXVAddGuide(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        vae: Output[L['VAE']] | Input,
        latent: Output[L['LATENT']] | Input,
        image: Output[L['IMAGE']] | Input,
        frame_idx: int | Output[L['INT']] | Input = ...,
        strength: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _LTXVAddGuide:
        """Lead a clip of LTX-Video by given frames at a time.

        Up to two latent frames of them stand behind the clip, where the network sees them at their time; LTXVCropGuides
        takes them away again after sampling. What a longer guide has beyond replaces the clip's own.

        Args:
            positive: What is to be seen.
            negative: What is not to be seen.
            vae: The model's VAE.
            latent: The clip.
            image: One picture, or 8n + 1 frames; scaled to cover the size and cut at the centre.
            frame_idx: Where they begin, negative from the end; several frames begin at 0 or at 8n + 1.
            strength: How closely they are followed.
        """
    def LTXVAudioVAEDecode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        audio_vae: Output[L['VAE']] | Input,
    ) -> _LTXVAudioVAEDecode:
        """Decode the latent of LTX-2's sound.

        Args:
            samples: The latent.
            audio_vae: Of LTXVAudioVAELoader.
        """
    def LTXVAudioVAEEncode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        audio: Output[L['AUDIO']] | Input,
        audio_vae: Output[L['VAE']] | Input,
    ) -> _LTXVAudioVAEEncode:
        """Encode sound for LTX-2; it is brought to the rate that the VAE reads.

        Args:
            audio: The sound, of one channel or two.
            audio_vae: Of LTXVAudioVAELoader.
        """
    def LTXVAudioVAELoader(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        ckpt_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _LTXVAudioVAELoader:
        """Load what LTX-2 makes sound with: the VAE of spectrograms, and the vocoder.

        Args:
            ckpt_name: The model's checkpoint, a file or a folder.
        """
    def LTXVConcatAVLatent(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        video_latent: Output[L['LATENT']] | Input,
        audio_latent: Output[L['LATENT']] | Input,
    ) -> _LTXVConcatAVLatent:
        """Join the latents of a clip and of its sound, for LTX-2, which makes both together.

        Args:
            video_latent: The clip.
            audio_latent: The sound.
        """
    def LTXVConditioning(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        frame_rate: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _LTXVConditioning:
        """Tell LTX-Video how many frames a second its clip is to have.

        Args:
            positive: What is to be seen.
            negative: What is not to be seen.
            frame_rate: Frames a second.
        """
    def LTXVCropGuides(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        latent: Output[L['LATENT']] | Input,
    ) -> _LTXVCropGuides:
        """Take the guides of LTXVAddGuide away again, after sampling.

        Args:
            positive: The conditioning with the guides.
            negative: The other one.
            latent: The clip with the guides behind it.
        """
    def LTXVDualCFGGuider(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        video_cfg: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        audio_cfg: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _LTXVDualCFGGuider:
        """Follow a conditioning and keep away from another, with one scale for the clip and another for its sound.

        Args:
            model: LTX-2's network.
            positive: What is to be seen and heard.
            negative: What is not to.
            video_cfg: As in CFGGuider, for the clip.
            audio_cfg: The same for the sound; where both are 1 the negative is not used.
        """
    def LTXVEmptyLatentAudio(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        audio_vae: Output[L['VAE']] | Input,
        frames_number: int | L['auto'] | Output[L['INT']] | Input = ...,
        frame_rate: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
    ) -> _LTXVEmptyLatentAudio:
        """Make an empty latent of sound, as long as a clip.

        Args:
            audio_vae: Of LTXVAudioVAELoader.
            frames_number: How many frames the clip has.
            frame_rate: Frames a second.
            batch_size: How many.
        """
    def LTXVImgToVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        vae: Output[L['VAE']] | Input,
        image: Output[L['IMAGE']] | Input,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
        strength: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _LTXVImgToVideo:
        """Let a clip begin with given pictures, for LTX-Video.

        Args:
            positive: What is to be seen.
            negative: What is not to be seen.
            vae: The model's VAE.
            image: The first frames; scaled to cover the size and cut at the centre.
            width: Of the frames, in pixels.
            height: Of the frames, in pixels.
            length: How many frames: 1, 9, 17, ...
            batch_size: How many clips.
            strength: How far the given frames are kept: 1 as they are, 0 not at all.
        """
    def LTXVImgToVideoInplace(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        vae: Output[L['VAE']] | Input,
        image: Output[L['IMAGE']] | Input,
        latent: Output[L['LATENT']] | Input,
        strength: float | Output[L['FLOAT', 'INT']] | Input = ...,
        bypass: bool | Output[L['BOOLEAN']] | Input = ...,
    ) -> _LTXVImgToVideoInplace:
        """Let the clip of a latent begin with given pictures.

        Args:
            vae: The model's VAE.
            image: The first frames; scaled to cover the size and cut at the centre.
            latent: The clip.
            strength: How far the given frames are kept: 1 as they are, 0 not at all.
            bypass: Leave the latent as it is.
        """
    def LTXVLatentUpsampler(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        upscale_model: Output[L['LATENT_UPSCALE_MODEL']] | Input,
        vae: Output[L['VAE']] | Input,
    ) -> _LTXVLatentUpsampler:
        """Upscale the latent of an LTX-Video clip, in size or in time, as its network does.

        Args:
            samples: The clip.
            upscale_model: The network.
            vae: The model's VAE.
        """
    def LTXVPreprocess(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        img_compression: int | Output[L['INT']] | Input = ...,
    ) -> _LTXVPreprocess:
        """Let pictures look like frames of a compressed clip, which is what LTX-Video was trained with.

        A clean still makes it give clips that do not move.

        Args:
            image: The pictures; odd sides lose their last row or column.
            img_compression: The quantizer (CRF) of h264: 0 leaves the pictures as they are, beyond 51 is 51.
        """
    def LTXVScheduler(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        steps: int | L['auto'] | Output[L['INT']] | Input = ...,
        max_shift: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        base_shift: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        stretch: bool | Output[L['BOOLEAN']] | Input = ...,
        terminal: float | Output[L['FLOAT', 'INT']] | Input = ...,
        latent: None | Output[L['LATENT']] | Input = ...,
    ) -> _LTXVScheduler:
        """Spread LTX-Video's noise levels over steps: the larger the clip, the more of them lie at high noise.

        Args:
            steps: How many steps.
            max_shift: Shift of a clip of 4096 tokens.
            base_shift: Shift of a clip of 1024 tokens.
            stretch: Whether the levels are stretched so that the last one before 0 is terminal.
            terminal: That level.
            latent: The clip; without it, one of 4096 tokens.
        """
    def LTXVSeparateAVLatent(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        av_latent: Output[L['LATENT']] | Input,
    ) -> _LTXVSeparateAVLatent:
        """Take the latent of a clip with sound apart.

        Args:
            av_latent: Of LTXVConcatAVLatent, or what a sampler made of it.
        """
    def LatentFromBatch(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        batch_index: int | Output[L['INT']] | Input = ...,
        length: int | Output[L['INT']] | Input = ...,
    ) -> _LatentFromBatch:
        """Take items out of a batch; they keep the noise they have in the batch, so each can be made again alone.

        Args:
            samples: The latent.
            batch_index: The first item to take, from 0; beyond the end it is the last.
            length: How many to take, at most.
        """
    def LatentUpscale(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        upscale_method: L['nearest-exact', 'bilinear', 'area', 'bicubic', 'bislerp'] | Output[L['COMBO', 'STRING']] | Input = ...,
        width: int | Output[L['INT']] | Input = ...,
        height: int | Output[L['INT']] | Input = ...,
        crop: L['disabled', 'center'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _LatentUpscale:
        """Resize a latent.

        Args:
            samples: The latent.
            upscale_method: How new values are made of old ones; bislerp turns their direction and blends their length.
            width: Of the picture, in pixels; 0 keeps the shape of the picture.
            height: Of the picture, in pixels; 0 keeps the shape of the picture.
            crop: center cuts what does not fit the new shape instead of stretching it.
        """
    def LatentUpscaleModelLoader(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _LatentUpscaleModelLoader:
        """Load a network that upscales latents.

        Args:
            model_name: A single file, or a component folder.
        """
    def LoadAudio(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        audio: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _LoadAudio:
        """Load sound: all channels at the rate of the file.

        Args:
            audio: Name of a file among the inputs, of sound or a clip; of several tracks the first counts.
        """
    def LoadImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _LoadImage:
        """Load a picture: its colours as RGB, and where it is transparent as a mask of the same size.

        The mask is 1 - alpha, all 0 if the picture has no alpha; the colours below transparent parts are kept. The
        camera's orientation tag is applied, colour profiles are not. 16 bits a channel are kept. Frames of an animation,
        and pages of one size, become a batch. What is not kept is said in a warning.

        Args:
            image: Name of a file among the inputs.
        """
    def LoadImageMask(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: str | Path | Output[L['COMBO', 'STRING']] | Input,
        channel: L['alpha', 'red', 'green', 'blue'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _LoadImageMask:
        """Load one channel of a picture as a mask.

        Args:
            image: Name of a file among the inputs.
            channel: A colour as it is; alpha turned round (1 where transparent), all 0 if the picture has none.
        """
    def LoadLLM(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        llm_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
        device: L['default', 'cpu'] | Output[L['COMBO', 'STRING']] | Input = ...,
        quantize: L['default', 'q8', 'w4'] | Output[L['COMBO', 'STRING']] | Input = ...,
        packed: L['fast', 'mapped'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _LoadLLM:
        """Load a language model with its tokenizer and chat template.

        Args:
            llm_name: A folder in transformers' layout, a GGUF file, `org/name` in the local hub cache, or `embedded/...`.
            device: Where it computes.
            quantize: Keep weights of linear layers in 8 or 4 bits; those that are packed already stay as they are.
            packed: Of a GGUF file: `fast` brings 4- and 8-bit weights, with the same values, into the order in which one token is computed fastest; `mapped` leaves them in the file, for less memory and slower replies.
        """
    def LoadVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        file: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _LoadVideo:
        """Load a clip: each picture once and in order, upright, with its transparency and its sound.

        Frames are decoded when a node asks for them. A file whose pictures last unequally (variable frame rate) gets its
        average rate: frame k shows what is on the screen at the middle of its time, so length and sound stay in step.

        Args:
            file: Name of a file among the inputs: MP4, MOV, WebM, Matroska, AVI, or an animated GIF, WebP or PNG.
        """
    def LogitBias(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        llm: Output[L['LLM']] | Input,
        words: str | Path | Output[L['STRING', 'COMBO']] | Input,
        bias: float | Output[L['FLOAT', 'INT']] | Input = ...,
        sampling: None | Output[L['SAMPLING']] | Input = ...,
    ) -> _LogitBias:
        """Make tokens likelier or less likely: those that the words begin with, at a beginning and after a space.

        Args:
            llm: Whose tokens are meant.
            words: One a line.
            bias: Added to the logits of those tokens; -100 forbids them.
            sampling: What it is added to.
        """
    def LoraLoader(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        clip: Output[L['CLIP']] | Input,
        lora_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
        strength_model: float | Output[L['FLOAT', 'INT']] | Input = ...,
        strength_clip: float | Output[L['FLOAT', 'INT']] | Input = ...,
        allow_partial: bool | Output[L['BOOLEAN']] | Input = ...,
    ) -> _LoraLoader:
        """Add a LoRA to a model and its text encoders. Weights stay as they are; several LoRAs add up.

        Args:
            model: Diffusion model.
            clip: Text encoders.
            lora_name: A LoRA file in any of the usual key styles.
            strength_model: How strongly the model changes; 0 is none, negative the reverse.
            strength_clip: How strongly the text encoders change.
            allow_partial: Leave out keys that fit nothing, with a warning, instead of refusing the file.
        """
    def LoraLoaderModelOnly(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        lora_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
        strength_model: float | Output[L['FLOAT', 'INT']] | Input = ...,
        allow_partial: bool | Output[L['BOOLEAN']] | Input = ...,
    ) -> _LoraLoaderModelOnly:
        """Add a LoRA to a model. Weights stay as they are; several LoRAs add up.

        Args:
            model: Diffusion model.
            lora_name: A LoRA file in any of the usual key styles.
            strength_model: How strongly the model changes; 0 is none, negative the reverse.
            allow_partial: Leave out keys that fit nothing, with a warning, instead of refusing the file.
        """
    def ManualSigmas(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        sigmas: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
    ) -> _ManualSigmas:
        """Give the noise levels by hand.

        Args:
            sigmas: Numbers that fall, separated by commas or spaces; to finish the picture the last is 0.
        """
    def MaskComposite(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        destination: Output[L['MASK']] | Input,
        source: Output[L['MASK']] | Input,
        x: int | Output[L['INT']] | Input = ...,
        y: int | Output[L['INT']] | Input = ...,
        operation: L['multiply', 'add', 'subtract', 'and', 'or', 'xor'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _MaskComposite:
        """Combine two masks.

        Args:
            destination: Gives the size.
            source: What is combined with it; what sticks out is cut.
            x: Column of the source's left edge.
            y: Row of the source's top edge.
            operation: What is done pixel by pixel; and, or, xor round to 0 or 1 first.
        """
    def MaskPreview(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        mask: Output[L['MASK']] | Input,
    ) -> _MaskPreview:
        """Show a mask: it is saved for a while in the folder of temporary files.

        Args:
            mask: What to show.
        """
    def MaskToImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        mask: Output[L['MASK']] | Input,
    ) -> _MaskToImage:
        """Show a mask as a gray RGB picture.

        Args:
            mask: White where it is 1.
        """
    def MiniMaxH3AddGuide(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        latent: Output[L['LATENT']] | Input,
        frame_idx: int | Output[L['INT']] | Input = ...,
        vae: None | Output[L['VAE']] | Input = ...,
        audio_vae: None | Output[L['VAE']] | Input = ...,
        image: None | Output[L['IMAGE']] | Input = ...,
        audio: None | Output[L['AUDIO']] | Input = ...,
    ) -> _MiniMaxH3AddGuide:
        """Lead a clip by a picture, a short clip or a sound at a frame.

        Args:
            positive: What is to be seen.
            latent: The clip's.
            frame_idx: Where it begins; negative from the end.
            vae: The VAE of the clip, for pictures.
            audio_vae: The VAE of the sound, for sound.
            image: A picture, or 5, 22, 39, ... frames; scaled to cover the size and cut at the centre.
            audio: A sound, cut at the clip's end.
        """
    def MiniMaxH3ImageToVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        clip: Output[L['CLIP']] | Input,
        vae: Output[L['VAE']] | Input,
        prompt: str | Path | Output[L['STRING', 'COMBO']] | Input,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        first_frame: None | Output[L['IMAGE']] | Input = ...,
        last_frame: None | Output[L['IMAGE']] | Input = ...,
    ) -> _MiniMaxH3ImageToVideo:
        """Begin a clip with sound: from a prompt alone, or with a first or last picture, or both.

        Args:
            clip: The text encoder, which sees the pictures too.
            vae: The VAE of the clip.
            prompt: What is to be seen and heard; pictures are `<Picture 1>`, `<Picture 2>` in it.
            width: Of the frames, in pixels.
            height: Of the frames, in pixels.
            length: How many frames, 24 a second: 5, 22, 39, ...
            first_frame: What the clip begins with; scaled to the size.
            last_frame: What it ends with; scaled to cover the size and cut at the centre.
        """
    def MiniMaxH3ReferenceToVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        clip: Output[L['CLIP']] | Input,
        prompt: str | Path | Output[L['STRING', 'COMBO']] | Input,
        ref_images: Mapping[str, None | Output[L['IMAGE']] | Input] = ...,
        ref_videos: Mapping[str, None | Output[L['IMAGE']] | Input] = ...,
        ref_video_audios: Mapping[str, None | Output[L['AUDIO']] | Input] = ...,
        ref_audios: Mapping[str, None | Output[L['AUDIO']] | Input] = ...,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        ref_image_size: L['match', 'max'] | Output[L['COMBO', 'STRING']] | Input = ...,
        vae: None | Output[L['VAE']] | Input = ...,
        audio_vae: None | Output[L['VAE']] | Input = ...,
    ) -> _MiniMaxH3ReferenceToVideo:
        """Begin a clip with sound after references, for MiniMax-H3's models of references (ref2va).

        Args:
            clip: The text encoder, which sees the pictures and videos too.
            prompt: What is to be seen and heard; references are `<Picture 1>`, `<Video 1>`, `<Audio 1>` in it. The sound of a video counts before the sounds that stand alone.
            width: Of the frames, in pixels.
            height: Of the frames, in pixels.
            length: How many frames, 24 a second: 5, 22, 39, ...
            ref_image_size: Pictures are made no larger than the clip's area, or than 2048 pixels on the shorter side (max).
            vae: The VAE of the clip; without it only the text encoder sees references.
            audio_vae: The VAE of the sound; without it references are not heard.
        """
    def MiniMaxH3SigmaShift(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        shift_video: float | Output[L['FLOAT', 'INT']] | Input = ...,
        shift_audio: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _MiniMaxH3SigmaShift:
        """Set the shifts of the noise levels of clip and sound.

        Args:
            model: The model to set.
            shift_video: a in sigma = a t / (1 + (a - 1) t) of the clip: above 1 more of the steps lie at high noise.
            shift_audio: The same of the sound.
        """
    def ModelSamplingFlux(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        max_shift: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        base_shift: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
    ) -> _ModelSamplingFlux:
        """Set the noise levels of FLUX for a size of picture: the more pixels, the more time at high noise.

        Args:
            model: The model to set.
            max_shift: mu of a picture of 4096 tokens (1024 x 1024 pixels).
            base_shift: mu of a picture of 256 tokens (256 x 256 pixels).
            width: Of the picture, in pixels.
            height: Of the picture, in pixels.
        """
    def ModelSamplingLTXV(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        max_shift: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        base_shift: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        latent: None | Output[L['LATENT']] | Input = ...,
    ) -> _ModelSamplingLTXV:
        """Set the noise levels of LTX-Video for a size of clip.

        Args:
            model: The model to set.
            max_shift: Shift of a clip of 4096 tokens.
            base_shift: Shift of a clip of 1024 tokens.
            latent: The clip; without it, one of 4096 tokens.
        """
    def ModelSamplingSD3(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        shift: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _ModelSamplingSD3:
        """Set the shift of a flow model's noise levels.

        Args:
            model: The model to set.
            shift: a in sigma = a t / (1 + (a - 1) t): above 1 more of the steps lie at high noise.
        """
    def ParseReply(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        text: str | Path | Output[L['STRING', 'COMBO']] | Input,
        thinking_begun: bool | Output[L['BOOLEAN']] | Input = ...,
        tools: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
    ) -> _ParseReply:
        """Take a reply apart: what the model thought, what it answers, and the tools it calls (a JSON list).

        Args:
            text: What the model wrote.
            thinking_begun: The prompt ended inside thinking, so that all is thinking up to its end: link ChatTemplate's or TextGenerate's output. Without it an end of thinking counts only behind a beginning.
            tools: Functions that the model may call, as ChatTemplate has them. Parameters between tags are of the types that their schemas say; without schemas they are texts.
        """
    def PreviewAny(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        source: Any | Output[Any] | Input,
    ) -> _PreviewAny:
        """Show any value as text.

        Text is shown as it is, numbers as Python writes them, lists and mappings as JSON, tensors by shape and range.

        Args:
            source: What to show.
        """
    def PreviewImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        images: Output[L['IMAGE']] | Input,
    ) -> _PreviewImage:
        """Show pictures: they are saved for a while in the folder of temporary files.

        Args:
            images: What to show.
        """
    def PrimitiveBoolean(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        value: bool | Output[L['BOOLEAN']] | Input,
    ) -> _PrimitiveBoolean:
        """Yes or no.

        Args:
            value: true or false.
        """
    def PrimitiveFloat(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        value: float | Output[L['FLOAT', 'INT']] | Input,
    ) -> _PrimitiveFloat:
        """A number.

        Args:
            value: The number.
        """
    def PrimitiveInt(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        value: int | Output[L['INT']] | Input,
    ) -> _PrimitiveInt:
        """A whole number.

        Args:
            value: The number.
        """
    def PrimitiveString(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        value: str | Path | Output[L['STRING', 'COMBO']] | Input,
    ) -> _PrimitiveString:
        """A line of text.

        Args:
            value: The text.
        """
    def PrimitiveStringMultiline(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        value: str | Path | Output[L['STRING', 'COMBO']] | Input,
    ) -> _PrimitiveStringMultiline:
        """Text of several lines.

        Args:
            value: The text.
        """
    def QuantizeCLIP(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        clip: Output[L['CLIP']] | Input,
        format: L['q8', 'fp8', 'w4'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _QuantizeCLIP:
        """Quantize the linear layers of text encoders; embeddings stay as they are.

        Args:
            clip: Text encoders.
            format: As in QuantizeModel.
        """
    def QuantizeModel(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        format: L['q8', 'fp8', 'w4'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _QuantizeModel:
        """Quantize the linear layers of a diffusion network, all but the fragile ones.

        LoRAs act as before, whether they come before or after. To quantize while loading, which needs less memory, use
        `pipegraph run --quantize`.

        Args:
            model: Diffusion model.
            format: q8 is 8-bit integers, rotated, a scale for each row; fp8 is 8-bit floats, a scale for each row; w4 is 4 bits, a scale and an offset for 32 columns.
        """
    def RandomNoise(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        noise_seed: int | None | Output[L['INT']] | Input = ...,
    ) -> _RandomNoise:
        """Noise of a seed.

        Args:
            noise_seed: The same seed is the same noise on every device.
        """
    def RepeatImageBatch(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        amount: int | Output[L['INT']] | Input = ...,
    ) -> _RepeatImageBatch:
        """Repeat a batch of pictures.

        Args:
            image: What to repeat.
            amount: How many times.
        """
    def RepeatLatentBatch(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        amount: int | Output[L['INT']] | Input = ...,
    ) -> _RepeatLatentBatch:
        """Repeat a batch, each copy with noise of its own.

        Args:
            samples: The latent.
            amount: How many times it is there afterwards.
        """
    def ResizeImageMaskNode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        input: Output[L['IMAGE', 'MASK']] | Input,
        resize_type: L['scale dimensions', 'scale by multiplier', 'scale longer dimension', 'scale shorter dimension', 'scale width', 'scale height', 'scale total pixels', 'match size', 'scale to multiple'] | Output[L['COMBO', 'STRING']] | Input = ...,
        scale_method: L['nearest-exact', 'bilinear', 'area', 'bicubic', 'lanczos'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _ResizeImageMaskNode:
        """Resize pictures or masks; other sides follow from the aspect ratio.

        Args:
            input: What to resize.
            resize_type: What the new size is told by.
            resize_type.width: New width in pixels; 0 follows from the height.
            resize_type.height: New height in pixels; 0 follows from the width; two of 0 leave all as it is.
            resize_type.crop: center cuts what the new aspect ratio does not hold, disabled squeezes.
            resize_type.multiplier: New width divided by old width.
            resize_type.longer_size: New length of the longer side in pixels.
            resize_type.shorter_size: New length of the shorter side in pixels.
            resize_type.megapixels: Pixels to reach, in units of 1024 * 1024.
            resize_type.multiple: Sides become multiples of it: the nearest (1 if left out) for `scale total pixels`; the next smaller (8 if left out) for `scale to multiple`, where what is too much is cut at the centre.
            resize_type.match: Pictures or masks of the wanted size.
            scale_method: How new pixels are made from old ones; only area and lanczos smooth when they shrink.
        """
    def ResolutionSelector(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        aspect_ratio: L['1:1 (Square)', '3:2 (Photo)', '4:3 (Standard)', '16:9 (Widescreen)', '21:9 (Ultrawide)', '2:3 (Portrait Photo)', '3:4 (Portrait Standard)', '9:16 (Portrait Widescreen)'] | Output[L['COMBO', 'STRING']] | Input = ...,
        megapixels: float | Output[L['FLOAT', 'INT']] | Input = ...,
        multiple: int | Output[L['INT']] | Input = ...,
    ) -> _ResolutionSelector:
        """Tell the size of a picture of so many pixels.

        Args:
            aspect_ratio: Width to height.
            megapixels: How many times 1024 x 1024 pixels, about.
            multiple: Of which both sides are multiples, the nearest.
        """
    def SamplerARVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        num_frame_per_block: int | Output[L['INT']] | Input = ...,
        window: int | Output[L['INT']] | Input = ...,
        sink: int | Output[L['INT']] | Input = ...,
    ) -> _SamplerARVideo:
        """Make a clip block by block, each seeing the finished ones before it, with a causal Wan model.

        Every block goes through all sigmas, which end at 0; each step is a prediction that is noised again (as `lcm`).

        Args:
            num_frame_per_block: Latent frames made at a time, as the model was trained: 3 for Self Forcing and CausVid, 1 for framewise models.
            window: Latent frames a block sees at most, its own and the sink's included; 0: all. With a window, time and memory a block do not grow with the clip's length.
            sink: First latent frames that every block sees, whatever the window.
        """
    def SamplerCustom(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        sampler: Output[L['SAMPLER']] | Input,
        sigmas: Output[L['SIGMAS']] | Input,
        latent_image: Output[L['LATENT']] | Input,
        add_noise: bool | Output[L['BOOLEAN']] | Input = ...,
        noise_seed: int | None | Output[L['INT']] | Input = ...,
        cfg: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _SamplerCustom:
        """Sample with a sampler and sigmas of one's own.

        Args:
            model: The network that removes the noise.
            add_noise: Whether noise is added first.
            noise_seed: Of the noise; item i of a batch has noise of its own.
            cfg: How far to go from the negative prediction towards the positive and beyond; at 1 the negative is not used.
            positive: What is to be seen.
            negative: What is not to be seen.
            sampler: How a step is made of predictions.
            sigmas: The noise levels, falling.
            latent_image: What to start from; an empty latent gives the size.
        """
    def SamplerCustomAdvanced(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        noise: Output[L['NOISE']] | Input,
        guider: Output[L['GUIDER']] | Input,
        sampler: Output[L['SAMPLER']] | Input,
        sigmas: Output[L['SIGMAS']] | Input,
        latent_image: Output[L['LATENT']] | Input,
    ) -> _SamplerCustomAdvanced:
        """Sample with parts that are all nodes of their own.

        Args:
            noise: What the noise is drawn from.
            guider: The model and what it is to follow.
            sampler: How a step is made of predictions.
            sigmas: The noise levels, falling.
            latent_image: What to start from; an empty latent gives the size.
        """
    def SamplerEulerAncestral(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        eta: float | Output[L['FLOAT', 'INT']] | Input = ...,
        s_noise: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _SamplerEulerAncestral:
        """Choose Euler's steps with fresh noise in each.

        Args:
            eta: How much of the noise is new: 0 none, as euler; 1 as euler_ancestral.
            s_noise: The new noise is multiplied by it.
        """
    def SamplingParams(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        temperature: float | Output[L['FLOAT', 'INT']] | Input = ...,
        top_k: int | Output[L['INT']] | Input = ...,
        top_p: float | Output[L['FLOAT', 'INT']] | Input = ...,
        min_p: float | Output[L['FLOAT', 'INT']] | Input = ...,
        repetition_penalty: float | Output[L['FLOAT', 'INT']] | Input = ...,
        presence_penalty: float | Output[L['FLOAT', 'INT']] | Input = ...,
        frequency_penalty: float | Output[L['FLOAT', 'INT']] | Input = ...,
        min_tokens: int | Output[L['INT']] | Input = ...,
        stop: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        stop_ids: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
    ) -> _SamplingParams:
        """How the next token is chosen. The seed and the length belong to the node that decodes.

        Args:
            temperature: 0 takes the likeliest token; 1 draws as the model says; more is more daring.
            top_k: Draw among so many likeliest tokens; 0: all.
            top_p: Draw among the fewest likeliest tokens that have this probability together; 1: all.
            min_p: Draw among tokens at least this many times as likely as the likeliest; 0: all.
            repetition_penalty: Makes what prompt and reply hold less likely; 1: off.
            presence_penalty: Taken off the logits of tokens that the reply holds; 0: off.
            frequency_penalty: The same for each time that the reply holds them; 0: off.
            min_tokens: The reply does not end by an id before so many tokens; a text of `stop` ends it all the same.
            stop: Texts that end a reply and are left out of it, one a line; `\\n` is a line break.
            stop_ids: Ids that end a reply besides the model's own, with commas between them.
        """
    def SaveAnimatedPNG(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        images: Output[L['IMAGE']] | Input,
        filename_prefix: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        fps: float | Output[L['FLOAT', 'INT']] | Input = ...,
        compress_level: int | Output[L['INT']] | Input = ...,
    ) -> _SaveAnimatedPNG:
        """Save pictures as an animated PNG, which keeps every pixel as it is.

        Args:
            images: The frames.
            filename_prefix: Start of the file name, as for SaveImage.
            fps: Frames a second; times are kept in milliseconds.
            compress_level: How much time is spent on compression.
        """
    def SaveAnimatedWEBP(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        images: Output[L['IMAGE']] | Input,
        filename_prefix: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        fps: float | Output[L['FLOAT', 'INT']] | Input = ...,
        lossless: bool | Output[L['BOOLEAN']] | Input = ...,
        quality: int | Output[L['INT']] | Input = ...,
        method: L['default', 'fastest', 'slowest'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _SaveAnimatedWEBP:
        """Save pictures as an animated WebP.

        Args:
            images: The frames.
            filename_prefix: Start of the file name, as for SaveImage.
            fps: Frames a second; times are kept in milliseconds.
            lossless: Keep every pixel as it is.
            quality: Of the picture, or of the compression where it is lossless.
            method: How much time is spent on compression.
        """
    def SaveImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        images: Output[L['IMAGE']] | Input,
        filename_prefix: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
    ) -> _SaveImage:
        """Save pictures as 8-bit PNG with the graph that made them inside.

        Values are clipped to 0..1 and rounded to the nearest of 256 levels. A picture with values that are not finite is
        not saved; the others of its batch are, then the run fails.

        Args:
            images: Pictures with 1, 2 (gray, alpha), 3 or 4 (RGBA) channels.
            filename_prefix: Start of the file names, may hold folders; `%width%`, `%height%`, `%batch_num%`, `%year%`, `%month%`, `%day%`, `%hour%`, `%minute%`, `%second%` and `%date:yyyy-MM-dd%` are filled in; `%n` is where the counter goes, else it goes to the end.
        """
    def SaveVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        video: Output[L['VIDEO']] | Input,
        filename_prefix: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        format: L['auto', 'mp4', 'webm', 'mkv', 'mov', 'gif', 'webp', 'apng', 'png'] | Output[L['COMBO', 'STRING']] | Input = ...,
        codec: L['auto', 'h264', 'h265', 'av1', 'vp9', 'prores', 'ffv1'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _SaveVideo:
        """Save a clip with the graph that made it inside; frames go into the encoder one by one.

        h264, h265, av1 and vp9 need even sides: an odd one gets its last row or column twice. Transparency is kept by vp9
        in webm, prores, ffv1, webp, apng, gif and png. Where the encoder fails, the frames are kept as PNG files and the
        run fails. Frames that hold NaN are black, and the run fails after saving.

        Args:
            video: The clip.
            filename_prefix: Start of the file name, as for SaveImage.
            format: mp4 if auto, or what holds the codec; png makes one file a frame.
            codec: auto: h264 in mp4, vp9 in webm, ffv1 (lossless) in mkv, prores in mov.
        """
    def SaveWEBM(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        images: Output[L['IMAGE']] | Input,
        filename_prefix: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        codec: L['vp9', 'av1'] | Output[L['COMBO', 'STRING']] | Input = ...,
        fps: float | Output[L['FLOAT', 'INT']] | Input = ...,
        crf: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _SaveWEBM:
        """Save pictures as a WebM clip.

        Args:
            images: The frames.
            filename_prefix: Start of the file name, as for SaveImage.
            codec: How they are encoded.
            fps: Frames a second.
            crf: Quality: lower is better, and larger.
        """
    def ScaleROPE(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        scale_x: float | Output[L['FLOAT', 'INT']] | Input = ...,
        shift_x: float | Output[L['FLOAT', 'INT']] | Input = ...,
        scale_y: float | Output[L['FLOAT', 'INT']] | Input = ...,
        shift_y: float | Output[L['FLOAT', 'INT']] | Input = ...,
        scale_t: float | Output[L['FLOAT', 'INT']] | Input = ...,
        shift_t: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _ScaleROPE:
        """Let a Wan network take the tokens of a clip to lie farther apart, or elsewhere, than they do.

        A token at p is taken to be at shift + scale p. The last such node counts.

        Args:
            model: The model to change, of Wan.
            scale_x: Of the columns.
            shift_x: In tokens to the right.
            scale_y: Of the rows.
            shift_y: In tokens down.
            scale_t: Of time: 7 for ChronoEdit, whose two latent frames are first and last of a longer clip.
            shift_t: In latent frames.
        """
    def SetLatentNoiseMask(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        mask: Output[L['MASK']] | Input,
    ) -> _SetLatentNoiseMask:
        """Say where a sampler may paint; the rest of the latent stays as it is.

        Args:
            samples: The latent.
            mask: 1 where to paint anew, at any size.
        """
    def SkipLayerGuidanceDiT(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        double_layers: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        single_layers: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        scale: float | Output[L['FLOAT', 'INT']] | Input = ...,
        start_percent: float | Output[L['FLOAT', 'INT']] | Input = ...,
        end_percent: float | Output[L['FLOAT', 'INT']] | Input = ...,
        rescaling_scale: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _SkipLayerGuidanceDiT:
        """Guide away from what the network makes without some of its layers: firmer structure for one call more a step.

        Args:
            model: The model to guide.
            double_layers: The layers to skip, counted from 0: 7, 8, 9. Networks with one kind of layers have double ones.
            single_layers: The same of the single layers, where there are such.
            scale: How far to go; 0 changes nothing.
            start_percent: Part of the way from noise to picture where it begins.
            end_percent: Where it ends.
            rescaling_scale: How much of the contrast (standard deviation) that the positive prediction has is given back.
        """
    def SkipLayerGuidanceDiTSimple(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        double_layers: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        single_layers: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        start_percent: float | Output[L['FLOAT', 'INT']] | Input = ...,
        end_percent: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _SkipLayerGuidanceDiTSimple:
        """Let the negative prediction be made without some of the network's layers.

        Args:
            model: The model to guide; at cfg 1 nothing changes.
            double_layers: The layers to skip, counted from 0: 7, 8, 9. Networks with one kind of layers have double ones.
            single_layers: The same of the single layers, where there are such.
            start_percent: Part of the way from noise to picture where it begins.
            end_percent: Where it ends.
        """
    def SlidingTileAttention(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        tile_frames: int | Output[L['INT']] | Input = ...,
        tile_height: int | Output[L['INT']] | Input = ...,
        tile_width: int | Output[L['INT']] | Input = ...,
        window_frames: int | Output[L['INT']] | Input = ...,
        window_height: int | Output[L['INT']] | Input = ...,
        window_width: int | Output[L['INT']] | Input = ...,
    ) -> _SlidingTileAttention:
        """Let each part of a clip attend to the parts around it only: less work on long clips, and other results.

        The tokens of the clip are cut into tiles, and each tile sees a window of tiles around it. Networks of Wan and
        HunyuanVideo; between clip and text attention is as it was. How far the results of attention are off at the first
        step, and the share of the pairs that is computed, are said as a warning.

        Args:
            model: The model to change.
            tile_frames: Length of a tile in tokens; a token is a latent frame long.
            tile_height: Height of a tile in tokens, each 16 pixels (32 of Wan 2.2 5B).
            tile_width: Width of a tile in tokens.
            window_frames: How many tiles are seen along time; at the ends of the clip the window is moved inside.
            window_height: How many tiles are seen from top to bottom.
            window_width: How many tiles are seen from left to right.
        """
    def SolidMask(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        value: float | Output[L['FLOAT', 'INT']] | Input = ...,
        width: int | Output[L['INT']] | Input = ...,
        height: int | Output[L['INT']] | Input = ...,
    ) -> _SolidMask:
        """Make a mask of one value.

        Args:
            value: The value.
            width: Width in pixels.
            height: Height in pixels.
        """
    def SpeculativeDecode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        llm: Output[L['LLM']] | Input,
        draft: Output[L['LLM']] | Input,
        cache: Output[L['KV_CACHE']] | Input,
        sampling: None | Output[L['SAMPLING']] | Input = ...,
        grammar: None | Output[L['GRAMMAR']] | Input = ...,
        seed: int | None | Output[L['INT']] | Input = ...,
        max_tokens: int | Output[L['INT']] | Input = ...,
        draft_tokens: int | Output[L['INT']] | Input = ...,
        when_cut: L['warn', 'fail'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _SpeculativeDecode:
        """Write a reply with the help of a smaller model that guesses ahead; the distribution of replies stays the same.

        Args:
            llm: What writes.
            draft: What guesses; it must have the same tokens.
            cache: What `llm` has read; it stays as it is.
            sampling: How tokens are chosen; the likeliest each time if nothing is linked.
            grammar: The form that the reply keeps to.
            seed: Of the draws.
            max_tokens: The reply ends after so many tokens at the latest.
            draft_tokens: How many tokens are guessed at a time.
            when_cut: What a reply is that has a form and is cut by the limit.
        """
    def SplitImageWithAlpha(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
    ) -> _SplitImageWithAlpha:
        """Part pictures into their colours and a mask that is 1 where they are transparent.

        Args:
            image: RGBA pictures; RGB ones give a mask of 0.
        """
    def SplitSigmas(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        sigmas: Output[L['SIGMAS']] | Input,
        step: int | Output[L['INT']] | Input = ...,
    ) -> _SplitSigmas:
        """Cut a schedule in two at a step.

        Args:
            sigmas: The whole schedule.
            step: The first step of the second part.
        """
    def SplitSigmasDenoise(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        sigmas: Output[L['SIGMAS']] | Input,
        denoise: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _SplitSigmasDenoise:
        """Cut a schedule in two so that the second part is a share of the steps.

        Args:
            sigmas: The whole schedule.
            denoise: The share of the second part, rounded to whole steps.
        """
    def StreamARVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        noise: Output[L['NOISE']] | Input,
        guider: Output[L['GUIDER']] | Input,
        sampler: Output[L['SAMPLER']] | Input,
        sigmas: Output[L['SIGMAS']] | Input,
        latent_image: Output[L['LATENT']] | Input,
        vae: Output[L['VAE']] | Input,
        fps: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        audio: None | Output[L['AUDIO']] | Input = ...,
    ) -> _StreamARVideo:
        """Make a clip of a causal model while it is saved: each block is sampled, decoded and handed on before the next.

        What reads the clip twice makes it twice. A longer clip begins as a shorter one of the same seed does. (The frames
        are others than SamplerCustomAdvanced's of that seed, which draws the noise of the whole clip at once.)

        Args:
            noise: What the noise is drawn from.
            guider: The model and what it is to follow, without a negative (cfg 1).
            sampler: Of SamplerARVideo.
            sigmas: The noise levels of each block, falling to 0.
            latent_image: What to start from; an empty latent gives the size.
            vae: The model's VAE.
            fps: Frames a second.
            audio: Sound; cut, or followed by silence, where its length is another.
        """
    def StringConcatenate(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        string_a: str | Path | Output[L['STRING', 'COMBO']] | Input,
        string_b: str | Path | Output[L['STRING', 'COMBO']] | Input,
        delimiter: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
    ) -> _StringConcatenate:
        """Join two texts.

        Args:
            string_a: First text.
            string_b: Second text.
            delimiter: What goes between them.
        """
    def StringReplace(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        string: str | Path | Output[L['STRING', 'COMBO']] | Input,
        find: str | Path | Output[L['STRING', 'COMBO']] | Input,
        replace: str | Path | Output[L['STRING', 'COMBO']] | Input,
    ) -> _StringReplace:
        """Replace every occurrence of a text in another one.

        Args:
            string: Where to look.
            find: What to replace; nothing is done if it is empty.
            replace: What to put there.
        """
    def StructuredOutput(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        kind: L['json', 'regex', 'choices', 'grammar'] | Output[L['COMBO', 'STRING']] | Input,
        form: str | Path | Output[L['STRING', 'COMBO']] | Input,
    ) -> _StructuredOutput:
        """Make a form that replies have to keep to; a broken one is refused.

        Args:
            kind: `json`: a JSON schema. `regex`: an expression that the whole reply matches. `choices`: one of some texts. `grammar`: a grammar in Lark's notation, which begins at `start`.
            form: The schema, expression, choices (one a line, or a JSON list) or grammar.
        """
    def TextGenerate(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        clip: Output[L['CLIP', 'LLM']] | Input,
        prompt: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        image: None | Output[L['IMAGE']] | Input = ...,
        video: None | Output[L['IMAGE']] | Input = ...,
        audio: None | Output[L['AUDIO']] | Input = ...,
        max_length: int | Output[L['INT']] | Input = ...,
        sampling_mode: L['on', 'off'] | Output[L['COMBO', 'STRING']] | Input = ...,
        thinking: bool | Output[L['BOOLEAN']] | Input = ...,
        use_default_template: bool | Output[L['BOOLEAN']] | Input = ...,
        system: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        tools: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        sampling: None | Output[L['SAMPLING']] | Input = ...,
        draw_seed: int | None | Output[L['INT']] | Input = ...,
        grammar: None | Output[L['GRAMMAR']] | Input = ...,
        when_cut: L['warn', 'fail'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _TextGenerate:
        """Answer a prompt: chat template, pictures, prefill and decode in one.

        Args:
            clip: What answers: an LLM, or a CLIP whose text encoder is one.
            prompt: What the user says, or a whole chat as a JSON list of `{"role": ..., "content": ...}`.
            image: Pictures that a vision-language model is shown, as in ChatTemplate.
            video: Frames, 24 a second, of which the model is shown the first of each second, behind the pictures.
            audio: No language model that is read can hear.
            max_length: The answer ends after so many tokens at the latest.
            sampling_mode: `on` draws tokens, with the settings below; `off` takes the likeliest each time.
            sampling_mode.temperature: As in SamplingParams, as are the next ones.
            sampling_mode.top_k: Draw among so many likeliest tokens; 0: all.
            sampling_mode.top_p: Draw among the fewest likeliest tokens that have this probability together.
            sampling_mode.min_p: Draw among tokens at least this many times as likely as the likeliest.
            sampling_mode.repetition_penalty: Makes what prompt and answer hold less likely; 1: off.
            sampling_mode.seed: Of the draws.
            sampling_mode.presence_penalty: Taken off the logits of tokens that the answer holds; 0: off.
            thinking: Whether a model that can think does so before it answers.
            use_default_template: Use the model's chat template; else go on from the prompt as it is.
            system: What the model is told first.
            tools: Functions that the model may call, a JSON list of schemas.
            sampling: Settings in the place of `sampling_mode`, which then stays off.
            draw_seed: Of the draws with `sampling`.
            grammar: The form that the answer keeps to.
            when_cut: What an answer is that has a form and is cut by the limit.
        """
    def TextGenerateLTX2Prompt(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        clip: Output[L['CLIP', 'LLM']] | Input,
        prompt: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        image: None | Output[L['IMAGE']] | Input = ...,
        video: None | Output[L['IMAGE']] | Input = ...,
        audio: None | Output[L['AUDIO']] | Input = ...,
        max_length: int | Output[L['INT']] | Input = ...,
        sampling_mode: L['on', 'off'] | Output[L['COMBO', 'STRING']] | Input = ...,
        thinking: bool | Output[L['BOOLEAN']] | Input = ...,
        use_default_template: bool | Output[L['BOOLEAN']] | Input = ...,
        mtp: L['auto', 'off'] | Output[L['COMBO', 'STRING']] | Input = ...,
        system_prompt: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
    ) -> _TextGenerateLTX2Prompt:
        """Write a prompt for LTX-2 out of a short request.

        Args:
            clip: What writes: LTX-2's text encoder, or another language model.
            prompt: The request.
            image: The first frame, for a model that reads pictures; Gemma 3's eyes are not read.
            video: Frames, 24 a second, as in TextGenerate.
            audio: No language model that is read can hear.
            max_length: The prompt ends after so many tokens at the latest.
            sampling_mode: `on` draws tokens, with the settings below; `off` takes the likeliest each time.
            sampling_mode.temperature: As in SamplingParams, as are the next ones.
            sampling_mode.top_k: Draw among so many likeliest tokens; 0: all.
            sampling_mode.top_p: Draw among the fewest likeliest tokens that have this probability together.
            sampling_mode.min_p: Draw among tokens at least this many times as likely as the likeliest.
            sampling_mode.repetition_penalty: Makes what request and prompt hold less likely; 1: off.
            sampling_mode.seed: Of the draws.
            sampling_mode.presence_penalty: Taken off the logits of tokens that the prompt holds; 0: off.
            thinking: Whether a model that can think does so before it writes.
            use_default_template: Tell the model what to do, in its chat template; else it goes on from the bare request.
            mtp: Whether heads that draft tokens are used: none are read, so both are the same.
            system_prompt: What it is told to do, in place of pipegraph's own words.
        """
    def Tokenize(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        llm: Output[L['LLM']] | Input,
        text: str | Path | Output[L['STRING', 'COMBO']] | Input,
        control_tokens: bool | Output[L['BOOLEAN']] | Input = ...,
    ) -> _Tokenize:
        """Turn a text into tokens.

        Args:
            llm: Whose tokenizer is used.
            text: A prompt. The token that the model wants before a text is put before it.
            control_tokens: The text comes from a chat template: what looks like a control token in it is one, and nothing is put before it.
        """
    def TrimAudioDuration(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        audio: Output[L['AUDIO']] | Input,
        start_index: float | Output[L['FLOAT', 'INT']] | Input = ...,
        duration: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _TrimAudioDuration:
        """Cut a part out of a sound.

        Args:
            audio: The sound.
            start_index: Where the part begins, in seconds; negative from the end.
            duration: How long it is at most, in seconds; what lies beyond the end is left out.
        """
    def TrimVideoLatent(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        trim_amount: int | Output[L['INT']] | Input = ...,
    ) -> _TrimVideoLatent:
        """Cut latent frames off the beginning of a clip's latent.

        Args:
            samples: The latent.
            trim_amount: How many latent frames: the first holds one frame, each other one four.
        """
    def UNETLoader(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        unet_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
        weight_dtype: L['default', 'fp8_e4m3fn', 'fp8_e4m3fn_fast', 'fp8_e5m2'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _UNETLoader:
        """Load a diffusion network alone.

        Args:
            unet_name: A single file, a component folder, or the name of a whole model.
            weight_dtype: How weights of linear layers are kept: cast to fp8, all but the fragile ones (first and last projections, modulation); _fast lets kernels round what they are multiplied with to fp8 too.
        """
    def UNetTemporalAttentionMultiply(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        self_structural: float | Output[L['FLOAT', 'INT']] | Input = ...,
        self_temporal: float | Output[L['FLOAT', 'INT']] | Input = ...,
        cross_structural: float | Output[L['FLOAT', 'INT']] | Input = ...,
        cross_temporal: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _UNetTemporalAttentionMultiply:
        """Scale the attention of a U-Net with layers for time of their own; other networks stay as they are.

        None of the models that pipegraph runs is such a one, and a warning says so. Graphs for Wan have this node.

        Args:
            model: The model.
            self_structural: Of attention within a frame.
            self_temporal: Of attention along time.
            cross_structural: Of attention from a frame to text.
            cross_temporal: Of attention from time to text.
        """
    def UnetLoaderGGUF(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        unet_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _UnetLoaderGGUF:
        """Load a diffusion network alone, of a GGUF file; UNETLoader does the same.

        Args:
            unet_name: A GGUF file, or any other that UNETLoader takes.
        """
    def VAEDecode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        vae: Output[L['VAE']] | Input,
    ) -> _VAEDecode:
        """Decode latents to pictures; of a latent of clip and sound, the clip.

        A result that is not finite in half precision is made again in float32; one that is not finite then is an error.

        Args:
            samples: The latents.
            vae: The model's VAE.
        """
    def VAEDecodeAudio(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        vae: Output[L['VAE']] | Input,
    ) -> _VAEDecodeAudio:
        """Decode latents to sound; of a latent of clip and sound, the sound.

        Args:
            samples: The latents.
            vae: The model's VAE of sound.
        """
    def VAEDecodeTiled(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        vae: Output[L['VAE']] | Input,
        tile_size: int | Output[L['INT']] | Input = ...,
        overlap: int | Output[L['INT']] | Input = ...,
        temporal_size: int | Output[L['INT']] | Input = ...,
        temporal_overlap: int | Output[L['INT']] | Input = ...,
    ) -> _VAEDecodeTiled:
        """Decode latents to pictures in overlapping tiles, which takes less memory.

        Args:
            samples: The latents.
            vae: The model's VAE.
            tile_size: Side of a tile in pixels.
            overlap: How far tiles overlap, in pixels; at most a quarter of a tile.
            temporal_size: Frames a tile is long; not used by VAEs that decode frame by frame, as Wan's does.
            temporal_overlap: Frames by which tiles overlap in time; likewise.
        """
    def VAEDecodeVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        vae: Output[L['VAE']] | Input,
        fps: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        audio: None | Output[L['AUDIO']] | Input = ...,
    ) -> _VAEDecodeVideo:
        """Decode the latent of a clip while it is saved: memory does not grow with its length.

        What reads the clip's frames twice decodes them twice. Several clips of a batch follow one another.

        Args:
            samples: The latent.
            vae: The model's VAE, of a video model.
            fps: Frames a second.
            audio: Sound; cut, or followed by silence, where its length is another.
        """
    def VAEEncode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        pixels: Output[L['IMAGE']] | Input,
        vae: Output[L['VAE']] | Input,
    ) -> _VAEEncode:
        """Encode pictures to latents; sides are cut at the centre to multiples of a latent cell (8 pixels).

        Args:
            pixels: The pictures; of more than three channels the first three are taken.
            vae: The model's VAE.
        """
    def VAELoader(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        vae_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _VAELoader:
        """Load a VAE.

        Args:
            vae_name: A single file, a component folder, or the name of a whole model.
        """
    def Wan22FunControlToVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        vae: Output[L['VAE']] | Input,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
        ref_image: None | Output[L['IMAGE']] | Input = ...,
        control_video: None | Output[L['IMAGE']] | Input = ...,
    ) -> _Wan22FunControlToVideo:
        """Let a clip follow another one and show what is in a picture, for Wan 2.2's Fun Control models.

        Args:
            positive: What is to be seen.
            negative: What is not to be seen.
            vae: The model's VAE.
            width: Of the frames, in pixels; a multiple of 32 for the 5B model.
            height: Of the frames, in pixels; a multiple of 32 for the 5B model.
            length: How many frames: 1, 5, 9, ...
            batch_size: How many clips.
            ref_image: What is to be seen; scaled to cover the size and cut at the centre. Of several the first counts.
            control_video: The clip to follow: edges, depths or poses, a frame each; what lacks is made freely.
        """
    def Wan22ImageToVideoLatent(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        vae: Output[L['VAE']] | Input,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
        start_image: None | Output[L['IMAGE']] | Input = ...,
    ) -> _Wan22ImageToVideoLatent:
        """Make the latent of a clip for Wan 2.2 5B and the shipped model: empty, or with first frames that it keeps.

        Args:
            vae: The model's VAE (wan2.2_vae).
            width: Of the frames, in pixels.
            height: Of the frames, in pixels.
            length: How many frames: 1, 5, 9, ...
            batch_size: How many clips.
            start_image: The first frames; scaled to cover the size and cut at the centre. Of more than one, 4n + 1 count.
        """
    def WanCameraEmbedding(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        camera_pose: L['Static', 'Pan Up', 'Pan Down', 'Pan Left', 'Pan Right', 'Zoom In', 'Zoom Out', 'Anti Clockwise (ACW)', 'ClockWise (CW)'] | Output[L['COMBO', 'STRING']] | Input = ...,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        speed: float | Output[L['FLOAT', 'INT']] | Input = ...,
        fx: float | Output[L['FLOAT', 'INT']] | Input = ...,
        fy: float | Output[L['FLOAT', 'INT']] | Input = ...,
        cx: float | Output[L['FLOAT', 'INT']] | Input = ...,
        cy: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _WanCameraEmbedding:
        """Say how the camera moves, evenly and from the first frame to the last.

        Args:
            camera_pose: Where it goes or how it turns.
            width: Of the frames, in pixels.
            height: Of the frames, in pixels.
            length: How many frames: 1, 5, 9, ...
            speed: How far; 1 is a turn by 60 degrees.
            fx: Focal length in widths of a picture of 16:9.
            fy: Focal length in heights of a picture of 16:9.
            cx: Where the camera looks, in widths from the left.
            cy: Where the camera looks, in heights from the top.
        """
    def WanCameraImageToVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        vae: Output[L['VAE']] | Input,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
        clip_vision_output: None | Output[L['CLIP_VISION_OUTPUT']] | Input = ...,
        start_image: None | Output[L['IMAGE']] | Input = ...,
        camera_conditions: None | Output[L['WAN_CAMERA_EMBEDDING']] | Input = ...,
    ) -> _WanCameraImageToVideo:
        """Let a clip begin with a picture and be seen by a camera that moves, for Wan's Fun Camera models.

        Args:
            positive: What is to be seen.
            negative: What is not to be seen.
            vae: The model's VAE.
            width: Of the frames, in pixels.
            height: Of the frames, in pixels.
            length: How many frames: 1, 5, 9, ...
            batch_size: How many clips.
            clip_vision_output: What a vision model sees in the first picture, for Wan 2.1.
            start_image: The first frames; scaled to cover the size and cut at the centre.
            camera_conditions: How the camera moves, of a clip of the same size and length.
        """
    def WanFirstLastFrameToVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        vae: Output[L['VAE']] | Input,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
        clip_vision_start_image: None | Output[L['CLIP_VISION_OUTPUT']] | Input = ...,
        clip_vision_end_image: None | Output[L['CLIP_VISION_OUTPUT']] | Input = ...,
        start_image: None | Output[L['IMAGE']] | Input = ...,
        end_image: None | Output[L['IMAGE']] | Input = ...,
    ) -> _WanFirstLastFrameToVideo:
        """Let a clip begin and end with given pictures, for Wan's image-to-video models.

        Args:
            positive: What is to be seen.
            negative: What is not to be seen.
            vae: The model's VAE.
            width: Of the frames, in pixels.
            height: Of the frames, in pixels.
            length: How many frames: 1, 5, 9, ...
            batch_size: How many clips.
            clip_vision_start_image: What a vision model sees in the first picture, for Wan 2.1.
            clip_vision_end_image: What it sees in the last one.
            start_image: The first frames; scaled to cover the size and cut at the centre.
            end_image: The last frames; scaled likewise.
        """
    def WanFunControlToVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        vae: Output[L['VAE']] | Input,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
        clip_vision_output: None | Output[L['CLIP_VISION_OUTPUT']] | Input = ...,
        start_image: None | Output[L['IMAGE']] | Input = ...,
        control_video: None | Output[L['IMAGE']] | Input = ...,
    ) -> _WanFunControlToVideo:
        """Let a clip follow another one, for Wan 2.1's Fun Control models.

        Args:
            positive: What is to be seen.
            negative: What is not to be seen.
            vae: The model's VAE.
            width: Of the frames, in pixels.
            height: Of the frames, in pixels.
            length: How many frames: 1, 5, 9, ...
            batch_size: How many clips.
            clip_vision_output: What a vision model sees in the first picture.
            start_image: The first frames; scaled to cover the size and cut at the centre.
            control_video: The clip to follow: edges, depths or poses, a frame each; what lacks is made freely.
        """
    def WanFunInpaintToVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        vae: Output[L['VAE']] | Input,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
        clip_vision_output: None | Output[L['CLIP_VISION_OUTPUT']] | Input = ...,
        start_image: None | Output[L['IMAGE']] | Input = ...,
        end_image: None | Output[L['IMAGE']] | Input = ...,
    ) -> _WanFunInpaintToVideo:
        """Let a clip begin, end, or begin and end with given pictures, for Wan's Fun InP models.

        Args:
            positive: What is to be seen.
            negative: What is not to be seen.
            vae: The model's VAE.
            width: Of the frames, in pixels.
            height: Of the frames, in pixels.
            length: How many frames: 1, 5, 9, ...
            batch_size: How many clips.
            clip_vision_output: What a vision model sees in the first picture, for Wan 2.1.
            start_image: The first frames; scaled to cover the size and cut at the centre.
            end_image: The last frames; scaled likewise.
        """
    def WanImageToVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        vae: Output[L['VAE']] | Input,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
        clip_vision_output: None | Output[L['CLIP_VISION_OUTPUT']] | Input = ...,
        start_image: None | Output[L['IMAGE']] | Input = ...,
    ) -> _WanImageToVideo:
        """Let a clip begin with given pictures, for Wan's image-to-video models.

        Args:
            positive: What is to be seen.
            negative: What is not to be seen.
            vae: The model's VAE.
            width: Of the frames, in pixels.
            height: Of the frames, in pixels.
            length: How many frames: 1, 5, 9, ...
            batch_size: How many clips.
            clip_vision_output: What a vision model sees in the first picture, for Wan 2.1.
            start_image: The first frames; scaled to cover the size and cut at the centre.
        """
    def WanVaceToVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        vae: Output[L['VAE']] | Input,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        length: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
        strength: float | Output[L['FLOAT', 'INT']] | Input = ...,
        control_video: None | Output[L['IMAGE']] | Input = ...,
        control_masks: None | Output[L['MASK']] | Input = ...,
        reference_image: None | Output[L['IMAGE']] | Input = ...,
    ) -> _WanVaceToVideo:
        """Let a clip follow another one, repaint it where a mask says so, or show what is in pictures, for Wan VACE.

        Several in a row: all are followed at once, each by its strength. They want the same size and length, and the same
        number of pictures.

        Args:
            positive: What is to be seen.
            negative: What is not to be seen.
            vae: The model's VAE.
            width: Of the frames, in pixels.
            height: Of the frames, in pixels.
            length: How many frames: 1, 5, 9, ...
            batch_size: How many clips.
            strength: How closely what is given is followed; 0 is not at all.
            control_video: The clip: its frames, or their edges, depths or poses; what lacks to the length is made freely.
            control_masks: 1 where the clip's frames are painted anew, one for each frame; all of it if there is none.
            reference_image: What is to be seen, a picture each. Each takes a latent frame before the clip: cut as many off by TrimVideoLatent.
        """
