"""Types of the nodes, written by `pipegraph nodes --stubs`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import Literal as L

from pipegraph.builder import Builder, Input, Node, Output

class _ARVideoI2V(Node):
    MODEL: Output[L['MODEL']]
    LATENT: Output[L['LATENT']]
class _AudioConcat(Node, Output[L['AUDIO']]):
    AUDIO: Output[L['AUDIO']]
class _BasicGuider(Node, Output[L['GUIDER']]):
    GUIDER: Output[L['GUIDER']]
class _BasicScheduler(Node, Output[L['SIGMAS']]):
    SIGMAS: Output[L['SIGMAS']]
class _BatchImagesNode(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _BetaSamplingScheduler(Node, Output[L['SIGMAS']]):
    SIGMAS: Output[L['SIGMAS']]
class _CFGGuider(Node, Output[L['GUIDER']]):
    GUIDER: Output[L['GUIDER']]
class _CFGNorm(Node, Output[L['MODEL']]):
    patched_model: Output[L['MODEL']]
class _CFGOverride(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
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
class _CaseConverter(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _ChatTemplate(Node):
    text: Output[L['STRING']]
    tokens: Output[L['TOKENS']]
    thinking_begun: Output[L['BOOLEAN']]
class _CheckpointLoaderSimple(Node):
    MODEL: Output[L['MODEL']]
    CLIP: Output[L['CLIP']]
    VAE: Output[L['VAE']]
class _ColorToRGBInt(Node):
    rgb_int: Output[L['INT']]
    hex: Output[L['STRING']]
    alpha: Output[L['FLOAT']]
class _ColorTransfer(Node, Output[L['IMAGE']]):
    image: Output[L['IMAGE']]
class _ComfyAndNode(Node, Output[L['BOOLEAN']]):
    BOOLEAN: Output[L['BOOLEAN']]
class _ComfyMathExpression(Node):
    FLOAT: Output[L['FLOAT']]
    INT: Output[L['INT']]
    BOOL: Output[L['BOOLEAN']]
class _ComfyNotNode(Node, Output[L['BOOLEAN']]):
    BOOLEAN: Output[L['BOOLEAN']]
class _ComfyNumberConvert(Node):
    FLOAT: Output[L['FLOAT']]
    INT: Output[L['INT']]
class _ComfyOrNode(Node, Output[L['BOOLEAN']]):
    BOOLEAN: Output[L['BOOLEAN']]
class _ComfyPassOrNoneNode(Node):
    output: Output[Any]
    is_none: Output[L['BOOLEAN']]
class _ComfySwitchNode(Node, Output[Any]):
    output: Output[Any]
class _ConditioningCombine(Node, Output[L['CONDITIONING']]):
    CONDITIONING: Output[L['CONDITIONING']]
class _ConditioningLoader(Node, Output[L['CONDITIONING']]):
    CONDITIONING: Output[L['CONDITIONING']]
class _ConditioningZeroOut(Node, Output[L['CONDITIONING']]):
    CONDITIONING: Output[L['CONDITIONING']]
class _ControlNetApplyAdvanced(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
class _ControlNetLoader(Node, Output[L['CONTROL_NET']]):
    CONTROL_NET: Output[L['CONTROL_NET']]
class _ConvertArrayToString(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _ConvertDictionaryToString(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _CreateBoundingBoxes(Node):
    preview: Output[L['IMAGE']]
    bboxes: Output[L['BOUNDING_BOX']]
    elements: Output[L['ARRAY']]
class _CreateVideo(Node, Output[L['VIDEO']]):
    VIDEO: Output[L['VIDEO']]
class _CustomCombo(Node):
    STRING: Output[L['STRING']]
    INDEX: Output[L['INT']]
class _Detokenize(Node, Output[L['STRING']]):
    text: Output[L['STRING']]
class _DifferentialDiffusion(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _DisableNoise(Node, Output[L['NOISE']]):
    NOISE: Output[L['NOISE']]
class _DrawBBoxes(Node, Output[L['IMAGE']]):
    out_image: Output[L['IMAGE']]
class _DualCFGGuider(Node, Output[L['GUIDER']]):
    GUIDER: Output[L['GUIDER']]
class _DualCLIPLoader(Node, Output[L['CLIP']]):
    CLIP: Output[L['CLIP']]
class _EasyCache(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _EmptyARVideoLatent(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyAceStepLatentAudio(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyChromaRadianceLatentImage(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyFlux2LatentImage(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyHunyuanLatentVideo(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyHunyuanVideo15Latent(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyImage(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _EmptyLTXVLatentVideo(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyLatentAudio(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyLatentImage(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyMiniMaxH3LatentAV(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptyQwenImageLayeredLatentImage(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _EmptySD3LatentImage(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _ExponentialScheduler(Node, Output[L['SIGMAS']]):
    SIGMAS: Output[L['SIGMAS']]
class _FeatherMask(Node, Output[L['MASK']]):
    MASK: Output[L['MASK']]
class _Flux2Scheduler(Node, Output[L['SIGMAS']]):
    SIGMAS: Output[L['SIGMAS']]
class _FluxGuidance(Node, Output[L['CONDITIONING']]):
    CONDITIONING: Output[L['CONDITIONING']]
class _FluxKontextImageScale(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _FluxKontextMultiReferenceLatentMethod(Node, Output[L['CONDITIONING']]):
    CONDITIONING: Output[L['CONDITIONING']]
class _GetImageSize(Node):
    width: Output[L['INT']]
    height: Output[L['INT']]
    batch_size: Output[L['INT']]
class _GetVideoComponents(Node):
    images: Output[L['IMAGE']]
    audio: Output[L['AUDIO']]
    fps: Output[L['FLOAT']]
    bit_depth: Output[L['COMBO']]
    color_space: Output[L['COMBO']]
class _GrowMask(Node, Output[L['MASK']]):
    MASK: Output[L['MASK']]
class _HunyuanVideo15ImageToVideo(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
    latent: Output[L['LATENT']]
class _ImageBatch(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageBlend(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageBlur(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageCompare(Node): ...
class _ImageCompositeMasked(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageCrop(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ImageCropV2(Node, Output[L['IMAGE']]):
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
class _ImageUpscaleWithModel(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _InpaintModelConditioning(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
    latent: Output[L['LATENT']]
class _InstructPixToPixConditioning(Node):
    positive: Output[L['CONDITIONING']]
    negative: Output[L['CONDITIONING']]
    latent: Output[L['LATENT']]
class _InvertMask(Node, Output[L['MASK']]):
    MASK: Output[L['MASK']]
class _JoinImageWithAlpha(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _JsonExtractString(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
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
class _LatentApplyOperation(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _LatentApplyOperationCFG(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _LatentConcat(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _LatentCut(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _LatentCutToBatch(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _LatentFromBatch(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _LatentOperationTonemapReinhard(Node, Output[L['LATENT_OPERATION']]):
    LATENT_OPERATION: Output[L['LATENT_OPERATION']]
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
class _ModelAttentionBackend(Node, Output[L['MODEL']]):
    model: Output[L['MODEL']]
class _ModelSamplingAuraFlow(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _ModelSamplingFlux(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _ModelSamplingLTXV(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _ModelSamplingSD3(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _NormalizeVideoLatentStart(Node, Output[L['LATENT']]):
    latent: Output[L['LATENT']]
class _Painter(Node):
    IMAGE: Output[L['IMAGE']]
    MASK: Output[L['MASK']]
class _ParseReply(Node):
    answer: Output[L['STRING']]
    thinking: Output[L['STRING']]
    tool_calls: Output[L['STRING']]
class _PreviewAny(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _PreviewAudio(Node, Output[L['AUDIO']]):
    audio: Output[L['AUDIO']]
class _PreviewImage(Node, Output[L['IMAGE']]):
    images: Output[L['IMAGE']]
class _PrimitiveBoolean(Node, Output[L['BOOLEAN']]):
    BOOLEAN: Output[L['BOOLEAN']]
class _PrimitiveBoundingBox(Node, Output[L['BOUNDING_BOX']]):
    BOUNDING_BOX: Output[L['BOUNDING_BOX']]
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
class _ReferenceLatent(Node, Output[L['CONDITIONING']]):
    CONDITIONING: Output[L['CONDITIONING']]
class _RegexExtract(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _RegexMatch(Node, Output[L['BOOLEAN']]):
    matches: Output[L['BOOLEAN']]
class _RegexReplace(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _RepeatImageBatch(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _RepeatLatentBatch(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _ReplaceVideoLatentFrames(Node, Output[L['LATENT']]):
    LATENT: Output[L['LATENT']]
class _RescaleCFG(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _ResizeAndPadImage(Node, Output[L['IMAGE']]):
    IMAGE: Output[L['IMAGE']]
class _ResizeImageMaskNode(Node, Output[L['IMAGE', 'MASK']]):
    resized: Output[L['IMAGE', 'MASK']]
class _ResolutionSelector(Node):
    width: Output[L['INT']]
    height: Output[L['INT']]
class _SDTurboScheduler(Node, Output[L['SIGMAS']]):
    SIGMAS: Output[L['SIGMAS']]
class _SamplerARVideo(Node, Output[L['SAMPLER']]):
    SAMPLER: Output[L['SAMPLER']]
class _SamplerCustom(Node):
    output: Output[L['LATENT']]
    denoised_output: Output[L['LATENT']]
class _SamplerCustomAdvanced(Node):
    output: Output[L['LATENT']]
    denoised_output: Output[L['LATENT']]
class _SamplerER_SDE(Node, Output[L['SAMPLER']]):
    SAMPLER: Output[L['SAMPLER']]
class _SamplerEulerAncestral(Node, Output[L['SAMPLER']]):
    SAMPLER: Output[L['SAMPLER']]
class _SamplerLCM(Node, Output[L['SAMPLER']]):
    SAMPLER: Output[L['SAMPLER']]
class _SamplingParams(Node, Output[L['SAMPLING']]):
    sampling: Output[L['SAMPLING']]
class _SaveAnimatedPNG(Node, Output[L['IMAGE']]):
    images: Output[L['IMAGE']]
class _SaveAnimatedWEBP(Node, Output[L['IMAGE']]):
    images: Output[L['IMAGE']]
class _SaveAudio(Node, Output[L['AUDIO']]):
    audio: Output[L['AUDIO']]
class _SaveAudioAdvanced(Node, Output[L['AUDIO']]):
    audio: Output[L['AUDIO']]
class _SaveAudioMP3(Node, Output[L['AUDIO']]):
    audio: Output[L['AUDIO']]
class _SaveAudioOpus(Node, Output[L['AUDIO']]):
    audio: Output[L['AUDIO']]
class _SaveConditioning(Node, Output[L['CONDITIONING']]):
    conditioning: Output[L['CONDITIONING']]
class _SaveImage(Node, Output[L['IMAGE']]):
    images: Output[L['IMAGE']]
class _SaveImageAdvanced(Node, Output[L['IMAGE']]):
    images: Output[L['IMAGE']]
class _SaveVideo(Node, Output[L['VIDEO']]):
    video: Output[L['VIDEO']]
class _SaveWEBM(Node, Output[L['IMAGE']]):
    images: Output[L['IMAGE']]
class _ScaleROPE(Node, Output[L['MODEL']]):
    MODEL: Output[L['MODEL']]
class _SeedNode(Node, Output[L['INT']]):
    seed: Output[L['INT']]
class _SetFirstSigma(Node, Output[L['SIGMAS']]):
    SIGMAS: Output[L['SIGMAS']]
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
class _StringCompare(Node, Output[L['BOOLEAN']]):
    BOOLEAN: Output[L['BOOLEAN']]
class _StringConcatenate(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _StringContains(Node, Output[L['BOOLEAN']]):
    contains: Output[L['BOOLEAN']]
class _StringFormat(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _StringLength(Node, Output[L['INT']]):
    length: Output[L['INT']]
class _StringReplace(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _StringSubstring(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _StringTrim(Node, Output[L['STRING']]):
    STRING: Output[L['STRING']]
class _StructuredOutput(Node, Output[L['GRAMMAR']]):
    grammar: Output[L['GRAMMAR']]
class _TemporalScoreRescaling(Node, Output[L['MODEL']]):
    patched_model: Output[L['MODEL']]
class _TextGenerate(Node):
    generated_text: Output[L['STRING']]
    thinking: Output[L['STRING']]
    finish: Output[L['STRING']]
    valid: Output[L['BOOLEAN']]
class _TextGenerateLTX2Prompt(Node, Output[L['STRING']]):
    generated_text: Output[L['STRING']]
class _ThresholdMask(Node, Output[L['MASK']]):
    MASK: Output[L['MASK']]
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
class _UpscaleModelLoader(Node, Output[L['UPSCALE_MODEL']]):
    UPSCALE_MODEL: Output[L['UPSCALE_MODEL']]
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
class _VAEEncodeTiled(Node, Output[L['LATENT']]):
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
        """Start the videos of a causal text-to-video model with an image; for SamplerARVideo.

        Args:
            model: The model.
            vae: The model's VAE.
            start_image: First frame; scaled to cover the size and cropped at the centre.
            width: Frame width in pixels.
            height: Frame height in pixels.
            length: Number of frames, the first included: 1, 5, 9, ...
            batch_size: Number of videos.
        """
    def AudioConcat(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        audio1: Output[L['AUDIO']] | Input,
        audio2: Output[L['AUDIO']] | Input,
        direction: L['after', 'before'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _AudioConcat:
        """Join two pieces of audio. The result has the higher sample rate and as many channels as the one with more.

        Mono becomes stereo by repetition; batches of one are repeated.

        Args:
            audio1: The first piece.
            audio2: The other piece.
            direction: Side of the second audio.
        """
    def BasicGuider(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        conditioning: Output[L['CONDITIONING']] | Input,
    ) -> _BasicGuider:
        """Follow one conditioning without guidance.

        Args:
            model: Diffusion model.
            conditioning: Positive conditioning: what to show.
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
        """Compute the sigmas of a model for a number of steps.

        Args:
            model: Model with the noise levels.
            scheduler: The schedule.
            steps: Number of steps that run, for any denoise.
            denoise: Share of the noise levels that runs: 1 all, 0 none.
        """
    def BatchImagesNode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        images: Mapping[str, None | Output[L['IMAGE']] | Input] = ...,
    ) -> _BatchImagesNode:
        """Put batches of images into one, in the order of their numbers.

        All are scaled (bilinear) and cropped at the centre to the size of the first. If any has alpha, the others become
        opaque."""
    def BetaSamplingScheduler(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        steps: int | L['auto'] | Output[L['INT']] | Input = ...,
        alpha: float | Output[L['FLOAT', 'INT']] | Input = ...,
        beta: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _BetaSamplingScheduler:
        """Sigmas at the quantiles of a beta distribution.

        Args:
            model: Model with the noise levels.
            steps: Number of steps; fewer if two have the same sigma.
            alpha: Below 1 puts more steps at low noise.
            beta: Below 1 puts more steps at high noise.
        """
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
        """Classifier-free guidance with a positive and a negative conditioning.

        Args:
            model: Diffusion model.
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            cfg: Guidance scale; at 1 the negative is not used.
        """
    def CFGNorm(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        strength: float | Output[L['FLOAT', 'INT']] | Input = ...,
        pre_cfg: bool | Output[L['BOOLEAN']] | Input = ...,
    ) -> _CFGNorm:
        """Limit the norm of the guided prediction over channels, per position.

        Args:
            model: Model to patch; at cfg 1 nothing changes.
            strength: Factor of the guided prediction; with pre_cfg, blend factor of the change.
            pre_cfg: Rescale the predicted noise to the norm of the positive prediction; else only shrink the predicted image to it.
        """
    def CFGOverride(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        cfg: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        start_percent: float | Output[L['FLOAT', 'INT']] | Input = ...,
        end_percent: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _CFGOverride:
        """Use another guidance scale in a part of the sampling; at 1 that part costs half as much.

        Args:
            model: Model to patch; if the guider's cfg is 1, nothing changes.
            cfg: Guidance scale; at 1 the negative is not used.
            start_percent: Fraction of the sampling at which it starts.
            end_percent: Fraction of the sampling at which it ends.
        """
    def CFGZeroStar(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
    ) -> _CFGZeroStar:
        """Use CFG-Zero*: the negative prediction is scaled by its projection on the positive one.

        Args:
            model: Model to patch; at cfg 1 nothing changes.
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
        """Load a text encoder; its kind is detected from its content.

        Args:
            clip_name: A single file, a component folder, or the name of a whole model. The CLIP of a language model also works in TextGenerate.
            type: Model family that uses it.
            device: Device to run on.
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

        `(word:1.2)` weights a word, `(word)` weights it by 1.1; `\\(` is a literal parenthesis. Unknown words and truncated
        text are named in a warning, and so is `embedding:NAME`, which is read as plain text.

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
        """Encode one prompt for each of FLUX's text encoders, with the guidance scale.

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
        """Encode one prompt for each of SDXL's text encoders, with SDXL's size conditioning.

        Args:
            clip: Text encoders of SDXL.
            text_g: Prompt for CLIP-G.
            text_l: Prompt for CLIP-L.
            width: Original image width that the network is conditioned on; small images were blurry in training.
            height: Original image height.
            crop_w: Pixels cropped at the left; 0 keeps objects centred.
            crop_h: Pixels cropped at the top.
            target_width: Width of the output.
            target_height: Height of the output.
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
        """Encode images with a CLIP vision model.

        Args:
            clip_vision: The model.
            image: The images.
            crop: The model reads squares: center crops the longer side, none squeezes the image.
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

        Thresholds are for the magnitude of the Sobel gradient of the blurred gray image; a step from black to white has a
        magnitude of 2.6.

        Args:
            image: Images to filter.
            low_threshold: Edges continue along pixels above it.
            high_threshold: Edges start at pixels above it; not below the low threshold.
        """
    def CaseConverter(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        string: str | Path | Output[L['STRING', 'COMBO']] | Input,
        mode: L['UPPERCASE', 'lowercase', 'Capitalize', 'Title Case'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _CaseConverter:
        """Write a text in capital or small letters.

        Args:
            string: Text to change.
            mode: Capitalize changes the first letter of the text, Title Case that of each word; the rest becomes small.
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
        """Render a chat with the model's template, up to where the model answers.

        Images are in `tokens` only; in `text` each is one placeholder. `thinking_begun` is true if the template opens the
        thinking of the reply, for ParseReply.

        Args:
            llm: Language model whose template is used.
            message: User message, or a whole chat as a JSON list of `{"role": ..., "content": ...}`.
            system: System prompt; if it is empty, some templates use their own.
            tools: Functions that the model may call, a JSON list of schemas.
            thinking: Whether the model thinks before it answers; auto leaves it to the template.
            date: Date for templates that show one. It is an input, so that the same graph gives the same tokens.
            image: Images for a vision-language model, in batch order: where the chat has parts `{"type": "image"}`, else at the beginning of its last user turn.
        """
    def CheckpointLoaderSimple(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        ckpt_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _CheckpointLoaderSimple:
        """Load a whole model: diffusion network, text encoders and VAE.

        A file with only the diffusion network is completed with the usual VAE and text encoders of its family, from
        next to it or the model folders; a warning names them.

        Args:
            ckpt_name: A folder in diffusers layout, a single file, `org/name` in the local hub cache, or `embedded/...`.
        """
    def ColorToRGBInt(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        color: str | Path | Output[L['STRING', 'COMBO']] | Input,
    ) -> _ColorToRGBInt:
        """Give a color as the number 0xRRGGBB, as EmptyImage takes it.

        Args:
            color: Color as #rrggbb or #rrggbbaa.
        """
    def ColorTransfer(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image_target: Output[L['IMAGE']] | Input,
        image_ref: None | Output[L['IMAGE']] | Input = ...,
        method: L['reinhard_lab', 'mkl_lab', 'histogram'] | Output[L['COMBO', 'STRING']] | Input = ...,
        source_stats: L['per_frame', 'uniform', 'target_frame'] | Output[L['COMBO', 'STRING']] | Input = ...,
        strength: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _ColorTransfer:
        """Give images the colors of reference images; transparency stays.

        Args:
            image_target: Images to change.
            image_ref: Images with the wanted colors; if missing, nothing changes.
            method: reinhard_lab: mean and deviation in L*a*b*; mkl_lab: mean and covariance; histogram: levels of R, G, B.
            source_stats: per_frame matches each image alone, to its own reference image; uniform changes all alike, by the statistics of all; target_frame changes all alike, by those of one.
            source_stats.target_index: Which one.
            strength: 0 changes nothing, 1 takes all of the colors.
        """
    def ComfyAndNode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        values: Mapping[str, Any | None | Output[Any] | Input] = ...,
    ) -> _ComfyAndNode:
        """Whether all values are true; false, 0, empty and missing values are not."""
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
    def ComfyNotNode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        value: Any | Output[Any] | Input,
    ) -> _ComfyNotNode:
        """Whether a value is false, 0, empty or missing.

        Args:
            value: The value.
        """
    def ComfyNumberConvert(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        value: int | float | str | Path | bool | Output[L['INT', 'FLOAT', 'STRING', 'COMBO', 'BOOLEAN']] | Input,
    ) -> _ComfyNumberConvert:
        """Convert a value to both kinds of numbers.

        Args:
            value: A number, a text that is a number, or true (1) or false (0). A fraction is cut to a whole number.
        """
    def ComfyOrNode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        values: Mapping[str, Any | None | Output[Any] | Input] = ...,
    ) -> _ComfyOrNode:
        """Whether any value is true; false, 0, empty and missing values are not."""
    def ComfyPassOrNoneNode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        anything: Any | None | Output[Any] | Input = ...,
        default: Any | None | Output[Any] | Input = ...,
    ) -> _ComfyPassOrNoneNode:
        """Pass a value on; if there is none, another one.

        Args:
            anything: The value.
            default: Value to take where `anything` is missing.
        """
    def ComfySwitchNode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        switch: bool | Output[L['BOOLEAN']] | Input,
        on_false: Any | None | Output[Any] | Input = ...,
        on_true: Any | None | Output[Any] | Input = ...,
    ) -> _ComfySwitchNode:
        """Output one of two inputs; only that input is computed. One that is not connected gives the other.

        Args:
            switch: Which input.
            on_false: Output if switch is false.
            on_true: Output if switch is true.
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
            conditioning_1: First conditioning.
            conditioning_2: Second conditioning.
        """
    def ConditioningLoader(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        conditioning_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _ConditioningLoader:
        """Load a conditioning that was saved with SaveConditioning.

        Args:
            conditioning_name: A .safetensors file among the embeddings with a tensor `conditioning`; its other tensors, and the JSON in its metadata, are the further entries.
        """
    def ConditioningZeroOut(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        conditioning: Output[L['CONDITIONING']] | Input,
    ) -> _ConditioningZeroOut:
        """Set text embeddings to zero: the negative of models that were trained so.

        Args:
            conditioning: Conditioning to clear; entries other than text are kept.
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
        """Steer the image with a ControlNet and a hint: edges, depth and the like. Several can be chained.

        The hint is scaled to cover the image and cropped at the centre. One hint serves a whole batch; several must be
        as many as the images. Strength 0 changes nothing.

        Args:
            positive: Positive conditioning.
            negative: Negative conditioning.
            control_net: The ControlNet.
            image: Hint image.
            strength: Weight of the ControlNet.
            start_percent: Fraction of the sampling at which it starts.
            end_percent: Fraction of the sampling at which it ends.
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
    def ConvertArrayToString(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        array: Output[L['ARRAY']] | Input,
        indent: int | Output[L['INT']] | Input = ...,
    ) -> _ConvertArrayToString:
        """Write a list as JSON.

        Args:
            array: List to write.
            indent: Spaces by level; 0 writes one line.
        """
    def ConvertDictionaryToString(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        dictionary: Output[L['DICT']] | Input,
        indent: int | Output[L['INT']] | Input = ...,
    ) -> _ConvertDictionaryToString:
        """Write a dictionary as JSON.

        Args:
            dictionary: Dictionary to write.
            indent: Spaces by level; 0 writes one line.
        """
    def CreateBoundingBoxes(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        background: None | Output[L['IMAGE']] | Input = ...,
        bboxes: str | Path | None | Output[L['BOUNDING_BOX', 'ARRAY', 'STRING', 'COMBO']] | Input = ...,
        width: int | Output[L['INT']] | Input = ...,
        height: int | Output[L['INT']] | Input = ...,
        editor_state: Any | None | Output[Any] | Input = ...,
        last_incoming: Any | None | Output[Any] | Input = ...,
    ) -> _CreateBoundingBoxes:
        """Bounding boxes as an editor has drawn them, or as they come in: to prompt elements and a preview.

        Elements have coordinates in thousandths, [top, left, bottom, right], as prompts with a layout want them.

        Args:
            background: Shown darkened below the boxes in the preview.
            bboxes: Boxes, elements or their JSON; they count where they are others than `last_incoming`.
            width: Width of the canvas in pixels.
            height: Height of the canvas in pixels.
            editor_state: Boxes that were drawn: x, y, width, height and metadata.
            last_incoming: The `bboxes` that the drawing began with.
        """
    def CreateVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        images: Output[L['IMAGE']] | Input,
        fps: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        audio: None | Output[L['AUDIO']] | Input = ...,
        bit_depth: L['auto', 8, 10] | Output[L['COMBO', 'STRING']] | Input = ...,
        color_space: L['sRGB', 'HDR', 'HDR PQ'] | Output[L['COMBO', 'STRING']] | Input = ...,
        codec: L['none', 'auto', 'h264', 'av1'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _CreateVideo:
        """Create a video from images.

        Args:
            images: The frames.
            fps: Frames a second; 23.976, 29.97 and 59.94 stand for 24000/1001, 30000/1001 and 60000/1001.
            audio: Audio; cut or padded with silence to the video's length when it is saved.
            bit_depth: Bits per channel: 8, or `auto`, which is 8.
            color_space: Color space of the frames; only sRGB is supported.
            codec: Codec that SaveVideo takes where its own is `auto`; none and auto leave it to SaveVideo.
        """
    def CustomCombo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        choice: str | Path | Output[L['STRING', 'COMBO']] | Input,
        index: int | Output[L['INT']] | Input = ...,
        options: Any | None | Output[Any] | Input = ...,
    ) -> _CustomCombo:
        """A text that is chosen from a list of the user's own.

        Args:
            choice: The text.
            index: Its place in the list, from 0, where the list is not known.
            options: The list as `option1`, `option2`, ..., which editors write as inputs of the node.
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
        """Decode tokens to text; several sequences are separated by an empty line.

        Args:
            llm: Language model whose tokenizer is used.
            tokens: Tokens to decode.
            control_tokens: Write control tokens, too.
        """
    def DifferentialDiffusion(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        strength: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _DifferentialDiffusion:
        """Use a soft noise mask: darker areas start to change later (Differential Diffusion).

        Args:
            model: Model to patch; without a noise mask on the latent nothing changes.
            strength: Blend factor with the plain mask.
        """
    def DisableNoise(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
    ) -> _DisableNoise:
        """No initial noise, for a latent that already contains noise."""
    def DrawBBoxes(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        bboxes: Output[L['BOUNDING_BOX']] | Input,
        image: None | Output[L['IMAGE']] | Input = ...,
    ) -> _DrawBBoxes:
        """Draw boxes of a detector on images, with labels and scores.

        Args:
            bboxes: One list of boxes for all images, or a list for each of them.
            image: Images to draw on; black ones of the boxes' extent if missing.
        """
    def DualCFGGuider(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        cond1: Output[L['CONDITIONING']] | Input,
        cond2: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        cfg_conds: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        cfg_cond2_negative: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
        style: L['regular', 'nested'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _DualCFGGuider:
        """Guidance with three conditionings, for image editing models: text and image, image only, none.

        Args:
            model: Diffusion model.
            cond1: Text and image.
            cond2: Image only.
            negative: Neither.
            cfg_conds: Guidance scale from cond2 to cond1.
            cfg_cond2_negative: Guidance scale from negative to cond2.
            style: regular: both terms are added; nested: the second scale applies to the result of the first.
        """
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
            clip_name1: First text encoder, e.g. CLIP-L.
            clip_name2: Second text encoder, e.g. T5.
            type: Model family that uses them.
            device: Device to run on.
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
        """Reuse the network's output in steps where it is expected to change little: less work, with different results.

        For images and videos. A warning and the run record give the number of reused steps and their expected and measured
        error.

        Args:
            model: Model to patch.
            reuse_threshold: Expected relative change of the network's output below which a step is reused; 0: never.
            start_percent: Fraction of the sampling before which every step is computed.
            end_percent: Fraction of the sampling after which every step is computed.
            verbose: Report even if no step was reused.
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
        """Make an empty video latent.

        Args:
            width: Frame width in pixels; rounded down to a multiple of 16, with a warning.
            height: Frame height in pixels, likewise.
            length: Number of frames: 1, 5, 9, ..., other numbers are rounded down. The (length - 1) / 4 + 1 latent frames must be whole blocks.
            batch_size: Number of videos.
        """
    def EmptyAceStepLatentAudio(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        seconds: float | Output[L['FLOAT', 'INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
    ) -> _EmptyAceStepLatentAudio:
        """Make an empty latent of ACE-Step 1: 8 channels of 16 bands, 4096 of 44,100 samples a second each.

        Args:
            seconds: Length of the audio in seconds.
            batch_size: Number of latents.
        """
    def EmptyChromaRadianceLatentImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
    ) -> _EmptyChromaRadianceLatentImage:
        """Make an empty latent of a pixel-space model: 3 channels, cells of one pixel.

        Args:
            width: Image width in pixels.
            height: Image height in pixels.
            batch_size: Number of latents.
        """
    def EmptyFlux2LatentImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
    ) -> _EmptyFlux2LatentImage:
        """Make an empty latent of FLUX.2: 128 channels, cells of 16 pixels.

        Args:
            width: Image width in pixels.
            height: Image height in pixels.
            batch_size: Number of latents.
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
        """Make an empty video latent, for Wan and HunyuanVideo.

        Models with larger latent cells (Wan 2.2 5B: 16 pixels) keep the size in pixels, if they can.

        Args:
            width: Frame width in pixels; rounded down to a multiple of 16, with a warning.
            height: Frame height in pixels, likewise.
            length: Number of frames: 1, 5, 9, ...; other numbers are rounded down, with a warning.
            batch_size: Number of videos.
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
        """Make an empty video latent for HunyuanVideo 1.5.

        Args:
            width: Frame width in pixels; rounded down to a multiple of 16, with a warning.
            height: Frame height in pixels, likewise.
            length: Number of frames: 1, 5, 9, ...; other numbers are rounded down, with a warning.
            batch_size: Number of videos.
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
        """Make images of one colour.

        Args:
            width: Width in pixels.
            height: Height in pixels.
            batch_size: Number of images.
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
        """Make an empty video latent, for LTX-Video.

        Args:
            width: Frame width in pixels; rounded down to a multiple of 32, with a warning.
            height: Frame height in pixels, likewise.
            length: Number of frames: 1, 9, 17, ...; other numbers are rounded down, with a warning.
            batch_size: Number of videos.
        """
    def EmptyLatentAudio(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        seconds: float | Output[L['FLOAT', 'INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
    ) -> _EmptyLatentAudio:
        """Make an empty latent of Stable Audio: 64 channels, 2048 of 44,100 samples a second each, an even number.

        Args:
            seconds: Length of the audio in seconds.
            batch_size: Number of latents.
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
        """Make an empty latent of 4 channels.

        Samplers recognise an empty latent (all zeros) and give it the number of channels of their model.

        Args:
            width: Image width in pixels; rounded down to a multiple of 8, with a warning.
            height: Image height in pixels, likewise.
            batch_size: Number of images.
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
        """Make an empty joint latent of video and audio.

        Args:
            width: Frame width in pixels; rounded down to a multiple of 32, with a warning.
            height: Frame height in pixels, likewise.
            length: Number of frames, 24 a second: 5, 22, 39, ...; other numbers are rounded down, with a warning.
        """
    def EmptyQwenImageLayeredLatentImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        width: int | L['auto'] | Output[L['INT']] | Input = ...,
        height: int | L['auto'] | Output[L['INT']] | Input = ...,
        layers: int | Output[L['INT']] | Input = ...,
        batch_size: int | Output[L['INT']] | Input = ...,
    ) -> _EmptyQwenImageLayeredLatentImage:
        """Make an empty latent of Qwen-Image-Layered: an image and its layers, as frames.

        Args:
            width: Image width in pixels.
            height: Image height in pixels.
            layers: Number of layers.
            batch_size: Number of latents.
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
            width: Image width in pixels; rounded down to a multiple of 8, with a warning.
            height: Image height in pixels, likewise.
            batch_size: Number of images.
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
            steps: Number of steps.
            sigma_max: The first sigma.
            sigma_min: The last sigma before 0.
        """
    def FeatherMask(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        mask: Output[L['MASK']] | Input,
        left: int | Output[L['INT']] | Input = ...,
        top: int | Output[L['INT']] | Input = ...,
        right: int | Output[L['INT']] | Input = ...,
        bottom: int | Output[L['INT']] | Input = ...,
    ) -> _FeatherMask:
        """Let a mask fade out towards its edges.

        Args:
            mask: Mask to change.
            left: Over how many pixels it fades at the left edge.
            top: Likewise at the top.
            right: Likewise at the right edge.
            bottom: Likewise at the bottom.
        """
    def Flux2Scheduler(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        steps: int | Output[L['INT']] | Input = ...,
        width: int | Output[L['INT']] | Input = ...,
        height: int | Output[L['INT']] | Input = ...,
    ) -> _Flux2Scheduler:
        """Sigmas of FLUX.2 for an image size and a number of steps.

        Args:
            steps: Number of steps.
            width: Image width in pixels.
            height: Image height in pixels.
        """
    def FluxGuidance(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        conditioning: Output[L['CONDITIONING']] | Input,
        guidance: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _FluxGuidance:
        """Set the guidance scale that distilled models (FLUX.1 dev) take as an input; it costs no second pass.

        Args:
            conditioning: Conditioning to change.
            guidance: Higher follows the prompt more closely.
        """
    def FluxKontextImageScale(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
    ) -> _FluxKontextImageScale:
        """Scale images (Lanczos) to the size of about one megapixel that FLUX.1 Kontext knows and whose shape is nearest.

        Args:
            image: Images to scale; cut at the center to the new shape.
        """
    def FluxKontextMultiReferenceLatentMethod(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        conditioning: Output[L['CONDITIONING']] | Input,
        reference_latents_method: L['offset', 'index', 'uxo/uno', 'index_timestep_zero'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _FluxKontextMultiReferenceLatentMethod:
        """Set the positions of reference images in an edit model.

        Args:
            conditioning: Conditioning to change.
            reference_latents_method: offset: side by side; index: one after the other; uxo/uno: diagonal, for USO and UNO; index_timestep_zero: as index, with timestep 0.
        """
    def GetImageSize(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
    ) -> _GetImageSize:
        """Width, height and number of images.

        Args:
            image: Images to measure.
        """
    def GetVideoComponents(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        video: Output[L['VIDEO']] | Input,
    ) -> _GetVideoComponents:
        """Split a video into all frames, audio, rate, bits per channel (8) and color space (sRGB).

        Args:
            video: The video; with transparency, frames have four channels.
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
            mask: Mask to grow.
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
        """Start a video with images, for HunyuanVideo 1.5.

        Args:
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            vae: The model's VAE.
            width: Frame width in pixels.
            height: Frame height in pixels.
            length: Number of frames: 1, 5, 9, ...
            batch_size: Number of videos.
            start_image: First frames; scaled to cover the size and cropped at the centre.
            clip_vision_output: SigLIP output of the first image; image-to-video models were trained with it.
        """
    def ImageBatch(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image1: Output[L['IMAGE']] | Input,
        image2: Output[L['IMAGE']] | Input,
    ) -> _ImageBatch:
        """Put two batches of images into one.

        The second batch is scaled (bilinear) and cropped at the centre to the size of the first. If only one has alpha, the
        other becomes opaque.

        Args:
            image1: First images.
            image2: Images that follow.
        """
    def ImageBlend(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image1: Output[L['IMAGE']] | Input,
        image2: Output[L['IMAGE']] | Input,
        blend_factor: float | Output[L['FLOAT', 'INT']] | Input = ...,
        blend_mode: L['normal', 'multiply', 'screen', 'overlay', 'soft_light', 'difference'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _ImageBlend:
        """Blend two images. The second one is scaled (bicubic) and cut at the center to the size of the first.

        Args:
            image1: Image below.
            image2: Image above.
            blend_factor: Opacity of the result on the image below.
            blend_mode: How both are combined, as in W3C's compositing; difference is the image below less the one above.
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
        """Blur images with a Gaussian window.

        Args:
            image: Images to blur.
            blur_radius: Half the width of the window in pixels.
            sigma: Standard deviation of the Gaussian in units of the radius.
        """
    def ImageCompare(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image_a: None | Output[L['IMAGE']] | Input = ...,
        image_b: None | Output[L['IMAGE']] | Input = ...,
        compare_view: Any | None | Output[Any] | Input = ...,
    ) -> _ImageCompare:
        """Show two batches of images to be compared: they are saved for a while in the folder of temporary files.

        Args:
            image_a: The one batch.
            image_b: The other batch.
            compare_view: State of the editor's view; not used.
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
        """Composite images over others.

        Source and mask are repeated or cut to the destination's batch size. Channels follow the destination.

        Args:
            destination: Background; sets the size.
            source: Foreground, cut at the border.
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
        """Crop images to a rectangle, cut at the border.

        Args:
            image: Images to crop.
            width: Width of the rectangle in pixels.
            height: Height of the rectangle in pixels.
            x: Column of its left edge; at most the last column.
            y: Row of its top edge; at most the last row.
        """
    def ImageCropV2(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        crop_region: Any | Output[Any] | Input = ...,
    ) -> _ImageCropV2:
        """Crop images to a rectangle, cut at the border.

        Args:
            image: Images to cut.
            crop_region: The rectangle: a link, or {"__value__": {"x": 0, "y": 0, "width": 512, "height": 512}}.
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
        """Take images out of a batch.

        Args:
            image: The batch.
            batch_index: First image to take, counted from 0, or from the end if negative; within the batch.
            length: Number of images, at most up to the end of the batch.
        """
    def ImageInvert(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
    ) -> _ImageInvert:
        """Invert the colours of images; alpha stays.

        Args:
            image: Images to invert.
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
        """Pad images with gray, with a mask of the area to paint.

        Args:
            image: Images to pad.
            left: New columns on the left.
            top: New rows at the top.
            right: New columns on the right.
            bottom: New rows at the bottom.
            feathering: Pixels over which the mask falls from 1 to 0 inside the old image.
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
        """Scale images to a size. A side of 0 follows from the other side and the aspect ratio; 0 and 0 change nothing.

        Colours of RGBA images are weighted by alpha: hidden colours do not bleed into visible parts.

        Args:
            image: Images to scale.
            upscale_method: Interpolation; only area and lanczos antialias when shrinking.
            width: New width in pixels, or 0.
            height: New height in pixels, or 0.
            crop: center crops to the new aspect ratio, disabled squeezes.
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
        """Scale images by a factor, to the nearest whole pixel.

        Args:
            image: Images to scale.
            upscale_method: Interpolation; only area and lanczos antialias when shrinking.
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
        """Scale images so that the longer side has a given length.

        Args:
            image: Images to scale.
            upscale_method: Interpolation; only area and lanczos antialias when shrinking.
            largest_size: Length of the longer side in pixels; 0 changes nothing.
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
        """Scale images to about a number of pixels and keep their aspect ratio.

        Args:
            image: Images to scale.
            upscale_method: Interpolation; only area and lanczos antialias when shrinking.
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
        """Put two images side by side, or one above the other.

        The shorter batch repeats its last image. If only one has alpha, the other becomes opaque.

        Args:
            image1: First image.
            direction: Side of the first image at which the second one is put.
            match_image_size: Scale the second image (Lanczos) to the same height, or for up and down to the same width; else the smaller image is centred on the colour of the gap.
            spacing_width: Width of the gap in pixels; odd widths are rounded up.
            spacing_color: Colour of the gap.
            image2: Second image; without it the first is returned.
        """
    def ImageToMask(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        channel: L['red', 'green', 'blue', 'alpha'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _ImageToMask:
        """Take one channel of images as a mask, as it is.

        Args:
            image: The images.
            channel: The channel; alpha needs an RGBA image (LoadImage outputs alpha as MASK).
        """
    def ImageUpscaleWithModel(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        upscale_model: Output[L['UPSCALE_MODEL']] | Input,
        image: Output[L['IMAGE']] | Input,
    ) -> _ImageUpscaleWithModel:
        """Make images larger by a network, in overlapping tiles of 512 pixels.

        Transparency is scaled by Lanczos where the network takes three channels.

        Args:
            upscale_model: The network.
            image: Images.
        """
    def InpaintModelConditioning(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        vae: Output[L['VAE']] | Input,
        pixels: Output[L['IMAGE']] | Input,
        mask: Output[L['MASK']] | Input,
        noise_mask: bool | Output[L['BOOLEAN']] | Input = ...,
    ) -> _InpaintModelConditioning:
        """Condition an inpainting model on the masked image and the mask.

        Args:
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            vae: The model's VAE.
            pixels: Images; sides are cropped at the centre to whole latent cells.
            mask: 1 where to inpaint, at any size.
            noise_mask: Change only the masked area; else the model may change the whole image.
        """
    def InstructPixToPixConditioning(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        positive: Output[L['CONDITIONING']] | Input,
        negative: Output[L['CONDITIONING']] | Input,
        vae: Output[L['VAE']] | Input,
        pixels: Output[L['IMAGE']] | Input,
    ) -> _InstructPixToPixConditioning:
        """Condition a model on an image by concatenated latents (InstructPix2Pix, FLUX Canny and Depth).

        Args:
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            vae: The model's VAE.
            pixels: Images; sides are cropped at the centre to whole latent cells.
        """
    def InvertMask(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        mask: Output[L['MASK']] | Input,
    ) -> _InvertMask:
        """Invert a mask.

        Args:
            mask: Mask to invert.
        """
    def JoinImageWithAlpha(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        alpha: Output[L['MASK']] | Input,
    ) -> _JoinImageWithAlpha:
        """Make images transparent where a mask is 1.

        The shorter batch is repeated to the length of the longer one.

        Args:
            image: Colours.
            alpha: 1 where transparent, as LoadImage's MASK; scaled to the image's size.
        """
    def JsonExtractString(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        json_string: str | Path | Output[L['STRING', 'COMBO']] | Input,
        key: str | Path | Output[L['STRING', 'COMBO']] | Input,
    ) -> _JsonExtractString:
        """Give the value of a key of the first JSON object in a text, such as the answer of a language model.

        Text around the object (words, Markdown) is ignored. Without an object, or without the key, the result
        is empty. Lists and objects come as JSON.

        Args:
            json_string: Text to search.
            key: Key of the outermost object.
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
        """Denoise a latent, guided by positive and negative conditioning.

        Args:
            model: Diffusion model.
            seed: Seed of the noise; each batch item has its own noise.
            steps: Number of steps that run, for any denoise.
            cfg: Guidance scale; at 1 the negative is not used.
            sampler_name: The sampler.
            scheduler: The noise schedule.
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            latent_image: Latent to start from; an empty one sets the size only.
            denoise: Share of the noise levels that runs: 1 keeps nothing of the latent, 0 all of it.
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
        """Run a range of sampling steps, so that several nodes can share a schedule.

        Args:
            model: Diffusion model.
            add_noise: Add noise first; disable it for a latent with leftover noise.
            noise_seed: Seed of the noise; each batch item has its own noise.
            steps: Steps of the whole schedule.
            cfg: Guidance scale; at 1 the negative is not used.
            sampler_name: The sampler.
            scheduler: The noise schedule.
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            latent_image: Latent to start from.
            start_at_step: First step to run; beyond the end the latent is returned unchanged.
            end_at_step: Step to stop before.
            return_with_leftover_noise: Keep the remaining noise of a run that stops early, for another node to continue.
        """
    def KSamplerSelect(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        sampler_name: L['euler', 'euler_ancestral', 'heun', 'dpm_2', 'dpmpp_2m', 'dpmpp_2m_sde', 'dpmpp_3m_sde', 'lcm', 'res_multistep', 'gradient_estimation', 'er_sde', 'ddim', 'uni_pc', 'uni_pc_bh2', 'dpmpp_2m_sde_gpu', 'dpmpp_3m_sde_gpu'] | L['auto'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _KSamplerSelect:
        """Choose a sampler.

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
            steps: Number of steps.
            sigma_max: The first sigma.
            sigma_min: The last sigma before 0.
            rho: Higher values put more steps at low noise.
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
        """Decode a reply, a token at a time: each reads all weights once, so this is memory-bound.

        Outputs the text, its tokens, the KV cache to continue from, the finish reason (`stop`, `length` or `constraint`)
        and `valid`: false if the limit cut a reply that has to follow a grammar.

        Args:
            llm: Language model.
            cache: KV cache of the prompt; it is not changed, so several nodes can continue from it.
            sampling: Sampling parameters; greedy if not connected.
            grammar: Grammar that the reply follows.
            seed: Seed of the random draws; each sequence of a batch has its own.
            max_tokens: Longest reply in tokens.
            when_cut: What to do if the limit cuts a reply that has to follow a grammar.
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
        """Prefill a prompt: all tokens at once, so this is compute-bound and sets the time to first token.

        Args:
            llm: Language model.
            tokens: The prompt.
            cache: KV cache to continue from; it is not changed.
            kv: Storage of keys and values: the model's dtype, or int8 with a scale per token and head.
            chunk: Tokens per forward pass.
            reuse: Reuse cached prefixes of the same tokens, also from other runs, and cache the new ones.
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
            ckpt_name: The model's checkpoint, for the text connectors.
            device: Device to run on.
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
        """Guide an LTX-Video video with frames at a given time.

        The first two latent frames of a guide are appended after the video, with the positions of their time;
        LTXVCropGuides removes them after sampling. Further latent frames replace the video's own.

        Args:
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            vae: The model's VAE.
            latent: Video latent.
            image: One image, or 8n + 1 frames; scaled to cover the size and cropped at the centre.
            frame_idx: First frame of the guide, negative from the end; several frames start at 0 or 8n + 1.
            strength: Strength of the guide.
        """
    def LTXVAudioVAEDecode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        audio_vae: Output[L['VAE']] | Input,
    ) -> _LTXVAudioVAEDecode:
        """Decode an audio latent of LTX-2.

        Args:
            samples: The latent.
            audio_vae: Audio VAE from LTXVAudioVAELoader.
        """
    def LTXVAudioVAEEncode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        audio: Output[L['AUDIO']] | Input,
        audio_vae: Output[L['VAE']] | Input,
    ) -> _LTXVAudioVAEEncode:
        """Encode audio for LTX-2; it is resampled to the VAE's rate.

        Args:
            audio: Audio with one or two channels.
            audio_vae: Audio VAE from LTXVAudioVAELoader.
        """
    def LTXVAudioVAELoader(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        ckpt_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _LTXVAudioVAELoader:
        """Load LTX-2's audio VAE (of spectrograms) and vocoder.

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
        """Join the latents of a video and its audio, which LTX-2 samples together.

        Args:
            video_latent: Video latent.
            audio_latent: Audio latent.
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
        """Set the frame rate of LTX-Video's conditioning.

        Args:
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
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
        """Remove the guides of LTXVAddGuide after sampling.

        Args:
            positive: Positive conditioning with the guides.
            negative: Negative conditioning with the guides.
            latent: Video latent with the guides appended.
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
        """Classifier-free guidance with separate scales for video and audio.

        Args:
            model: LTX-2 model.
            positive: Positive conditioning.
            negative: Negative conditioning.
            video_cfg: Guidance scale of the video.
            audio_cfg: Guidance scale of the audio; if both are 1 the negative is not used.
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
        """Make an empty audio latent for a video's length.

        Args:
            audio_vae: Audio VAE from LTXVAudioVAELoader.
            frames_number: Frames of the video.
            frame_rate: Frames a second.
            batch_size: Number of latents.
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
        """Start a video with images, for LTX-Video.

        Args:
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            vae: The model's VAE.
            image: First frames; scaled to cover the size and cropped at the centre.
            width: Frame width in pixels.
            height: Frame height in pixels.
            length: Number of frames: 1, 9, 17, ...
            batch_size: Number of videos.
            strength: How much of the given frames is kept: 1 all, 0 nothing.
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
        """Start the video of a latent with images.

        Args:
            vae: The model's VAE.
            image: First frames; scaled to cover the size and cropped at the centre.
            latent: Video latent.
            strength: How much of the given frames is kept: 1 all, 0 nothing.
            bypass: Return the latent unchanged.
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
        """Upscale an LTX-Video latent in size or in time, depending on the upscaler.

        Args:
            samples: Video latent.
            upscale_model: Upscaler.
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
        """Compress images like video frames, which LTX-Video was trained on.

        Clean stills lead to videos without motion.

        Args:
            image: Images; odd sides lose the last row or column.
            img_compression: CRF of h264: 0 changes nothing, above 51 is 51.
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
        """Compute LTX-Video's sigmas: larger videos get more steps at high noise.

        Args:
            steps: Number of steps.
            max_shift: Shift of a video of 4096 tokens.
            base_shift: Shift of a video of 1024 tokens.
            stretch: Stretch the sigmas so that the last one before 0 is `terminal`.
            terminal: Last sigma before 0.
            latent: Video latent; without it, 4096 tokens.
        """
    def LTXVSeparateAVLatent(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        av_latent: Output[L['LATENT']] | Input,
    ) -> _LTXVSeparateAVLatent:
        """Split a joint latent into video and audio.

        Args:
            av_latent: Joint latent of LTXVConcatAVLatent, sampled or not.
        """
    def LatentApplyOperation(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        operation: Output[L['LATENT_OPERATION']] | Input,
    ) -> _LatentApplyOperation:
        """Apply an operation to a latent.

        Args:
            samples: The latent.
            operation: The operation.
        """
    def LatentApplyOperationCFG(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        operation: Output[L['LATENT_OPERATION']] | Input,
    ) -> _LatentApplyOperationCFG:
        """Apply an operation to the guidance term (positive less negative prediction) in each step.

        Args:
            model: Model to patch; at cfg 1 the operation changes the whole prediction.
            operation: The operation.
        """
    def LatentConcat(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples1: Output[L['LATENT']] | Input,
        samples2: Output[L['LATENT']] | Input,
        dim: L['x', '-x', 'y', '-y', 't', '-t'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _LatentConcat:
        """Concatenate two latents along width, height or time.

        Args:
            samples1: First latent; its mask and other entries are kept.
            samples2: Second latent; repeated or cut to the first's batch size.
            dim: x: width, y: height, t: time; - puts the second before the first.
        """
    def LatentCut(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        dim: L['x', 'y', 't'] | Output[L['COMBO', 'STRING']] | Input = ...,
        index: int | Output[L['INT']] | Input = ...,
        amount: int | Output[L['INT']] | Input = ...,
    ) -> _LatentCut:
        """Cut a part out of a latent.

        Args:
            samples: The latent.
            dim: Axis: width, height or time.
            index: First cell; negative from the end; clamped to the last.
            amount: Largest number of cells.
        """
    def LatentCutToBatch(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        dim: L['t', 'x', 'y'] | Output[L['COMBO', 'STRING']] | Input = ...,
        slice_size: int | Output[L['INT']] | Input = ...,
    ) -> _LatentCutToBatch:
        """Cut a latent into slices that become batch items; an incomplete last slice is dropped.

        Args:
            samples: The latent.
            dim: Axis: time, width or height.
            slice_size: Cells per slice, at most all.
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
        """Take items out of a batch; they keep their noise, so each can be sampled again alone.

        Args:
            samples: The latent.
            batch_index: First item, from 0; clamped to the last.
            length: Largest number of items.
        """
    def LatentOperationTonemapReinhard(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        multiplier: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _LatentOperationTonemapReinhard:
        """Compress large values of a latent by Reinhard tone mapping.

        Args:
            multiplier: Largest norm, in units of mean norm plus 5 standard deviations.
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
            upscale_method: Interpolation; bislerp interpolates direction (slerp) and length.
            width: Image width in pixels; 0 keeps the aspect ratio.
            height: Image height in pixels; 0 keeps the aspect ratio.
            crop: center crops to the new aspect ratio instead of stretching.
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
        """Load audio: all channels at the file's sample rate.

        Args:
            audio: Name of a file among the inputs, audio or video; the first of several tracks is used.
        """
    def LoadImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _LoadImage:
        """Load an image as RGB, and its transparency as a mask of the same size.

        The mask is 1 - alpha, all 0 if the image has no alpha; colours of transparent pixels are kept. The
        EXIF orientation is applied, colour profiles are not. 16 bits per channel are kept. Frames of an animation, and
        pages of one size, become a batch. A warning names what is lost.

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
        """Load one channel of an image as a mask.

        Args:
            image: Name of a file among the inputs.
            channel: A colour as it is; alpha inverted (1 where transparent), all 0 if the image has none.
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
            device: Device to run on.
            quantize: Quantize linear layers to 8 or 4 bits; layers that are quantized in the file stay as they are.
            packed: For GGUF files: `fast` repacks 4- and 8-bit weights, with the same values, for fast decoding; `mapped` leaves them memory-mapped in the file: less memory, slower replies.
        """
    def LoadVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        file: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _LoadVideo:
        """Load a video: frames in order, upright, with transparency and audio.

        Frames are decoded lazily. A file with a variable frame rate gets its average rate: frame k is the image on screen
        at the middle of its time, so length and audio stay in sync.

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
        """Add a bias to the first token of each word, at the start of a text and after a space.

        Args:
            llm: Language model whose tokenizer is used.
            words: One word a line.
            bias: Added to the logits of those tokens; -100 forbids them.
            sampling: Sampling parameters to extend.
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
        """Add a LoRA to a model and its text encoders. Weights are not changed; several LoRAs add up.

        Args:
            model: Diffusion model.
            clip: Text encoders.
            lora_name: A LoRA file in any of the usual key styles.
            strength_model: Strength on the model; 0 is none, negative inverts it.
            strength_clip: Strength on the text encoders.
            allow_partial: Skip keys that match no layer, with a warning, instead of failing.
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
        """Add a LoRA to a model. Weights are not changed; several LoRAs add up.

        Args:
            model: Diffusion model.
            lora_name: A LoRA file in any of the usual key styles.
            strength_model: Strength on the model; 0 is none, negative inverts it.
            allow_partial: Skip keys that match no layer, with a warning, instead of failing.
        """
    def ManualSigmas(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        sigmas: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
    ) -> _ManualSigmas:
        """Set the noise levels by hand.

        Args:
            sigmas: Decreasing numbers, separated by commas or spaces; the last is 0 for a fully denoised result.
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
            destination: First mask; sets the size.
            source: Second mask, cut at the border.
            x: Column of the source's left edge.
            y: Row of the source's top edge.
            operation: Operation per pixel; and, or, xor round to 0 or 1 first.
        """
    def MaskPreview(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        mask: Output[L['MASK']] | Input,
    ) -> _MaskPreview:
        """Preview a mask: it is saved in the folder of temporary files.

        Args:
            mask: Mask to show.
        """
    def MaskToImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        mask: Output[L['MASK']] | Input,
    ) -> _MaskToImage:
        """Show a mask as a gray RGB image.

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
        """Guide a video with an image, a short video or audio at a frame.

        Args:
            positive: Positive conditioning: what to show.
            latent: Joint latent of the video.
            frame_idx: First frame of the guide; negative from the end.
            vae: Video VAE, for images.
            audio_vae: Audio VAE, for audio.
            image: An image, or 5, 22, 39, ... frames; scaled to cover the size and cropped at the centre.
            audio: Audio, cut at the video's end.
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
        """Set up a video with audio from a prompt, optionally with a first or last image.

        Args:
            clip: Text encoder, which also reads the images.
            vae: Video VAE.
            prompt: Prompt for video and audio; images are `<Picture 1>`, `<Picture 2>` in it.
            width: Frame width in pixels.
            height: Frame height in pixels.
            length: Number of frames, 24 a second: 5, 22, 39, ...
            first_frame: First frame; scaled to the size.
            last_frame: Last frame; scaled to cover the size and cropped at the centre.
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
        """Set up a video with audio from references, for MiniMax-H3's reference models (ref2va).

        Args:
            clip: Text encoder, which also reads the images and videos.
            prompt: Prompt for video and audio; references are `<Picture 1>`, `<Video 1>`, `<Audio 1>` in it. Audio of videos is numbered before other audio.
            width: Frame width in pixels.
            height: Frame height in pixels.
            length: Number of frames, 24 a second: 5, 22, 39, ...
            ref_image_size: Largest reference: the video's area (match), or 2048 pixels on the shorter side (max).
            vae: Video VAE; without it only the text encoder reads image references.
            audio_vae: Audio VAE; without it audio references are not used.
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
        """Set the shifts of the noise levels of video and audio.

        Args:
            model: Model to patch.
            shift_video: a in sigma = a t / (1 + (a - 1) t) of the video: above 1 puts more steps at high noise.
            shift_audio: The same for audio.
        """
    def ModelAttentionBackend(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        attention: L['comfy kitchen attention', 'pytorch attention'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _ModelAttentionBackend:
        """Choose which code computes the attention of a model.

        Calls that it cannot serve go to the usual one; the run record says which were used. `--kernels` comes first.

        Args:
            model: Model to change.
            attention: comfy kitchen attention is in 8-bit integers, with other results, and needs a CUDA GPU.
        """
    def ModelSamplingAuraFlow(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        shift: float | L['auto'] | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _ModelSamplingAuraFlow:
        """Set the shift of a flow model, as ModelSamplingSD3, with another default.

        Args:
            model: Model to patch; its network keeps its own timestep unit.
            shift: a in sigma = a t / (1 + (a - 1) t): above 1 puts more steps at high noise.
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
        """Set the shift of FLUX for an image size: more pixels, more steps at high noise.

        Args:
            model: Model to patch.
            max_shift: mu of an image of 4096 tokens (1024 x 1024 pixels).
            base_shift: mu of an image of 256 tokens (256 x 256 pixels).
            width: Image width in pixels.
            height: Image height in pixels.
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
        """Set the shift of LTX-Video for a video size.

        Args:
            model: Model to patch.
            max_shift: Shift of a video of 4096 tokens.
            base_shift: Shift of a video of 1024 tokens.
            latent: Video latent; without it, 4096 tokens.
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
            model: Model to patch.
            shift: a in sigma = a t / (1 + (a - 1) t): above 1 puts more steps at high noise.
        """
    def NormalizeVideoLatentStart(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        latent: Output[L['LATENT']] | Input,
        start_frame_count: int | Output[L['INT']] | Input = ...,
        reference_frame_count: int | Output[L['INT']] | Input = ...,
    ) -> _NormalizeVideoLatentStart:
        """Match mean and standard deviation of the first latent frames to the following ones, within limits.

        The mean changes by -0.3 to 0.35, the standard deviation by -0.35 to 0.5.

        Args:
            latent: The latent.
            start_frame_count: Number of changed latent frames.
            reference_frame_count: Number of reference frames after them.
        """
    def Painter(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: None | Output[L['IMAGE']] | Input = ...,
        mask: str | Path | Output[L['COMBO', 'STRING']] | Input = ...,
        width: int | Output[L['INT']] | Input = ...,
        height: int | Output[L['INT']] | Input = ...,
        bg_color: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
    ) -> _Painter:
        """Put what was painted in an editor on an image, with a mask of where it is.

        Args:
            image: Image below; of a batch the first. If missing, a canvas of one color.
            mask: Name of a file among the inputs with the painting, transparent elsewhere; empty is none.
            width: Width of the canvas in pixels.
            height: Height of the canvas in pixels.
            bg_color: Color of the canvas.
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
        """Parse a reply into thinking, answer and tool calls (a JSON list).

        Args:
            text: The reply.
            thinking_begun: The prompt ended inside thinking, so the reply starts with it: connect ChatTemplate's or TextGenerate's output. Otherwise an end tag counts only after a start tag.
            tools: Functions that the model may call, as in ChatTemplate. Parameters between tags get the types of their schemas; without schemas they are strings.
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
            source: Value to show.
        """
    def PreviewAudio(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        audio: Output[L['AUDIO']] | Input,
    ) -> _PreviewAudio:
        """Preview audio: it is saved as FLAC in the folder of temporary files.

        Args:
            audio: Audio to play.
        """
    def PreviewImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        images: Output[L['IMAGE']] | Input,
    ) -> _PreviewImage:
        """Preview images: they are saved in the folder of temporary files.

        Args:
            images: Images to show.
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
    def PrimitiveBoundingBox(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        x: int | Output[L['INT']] | Input = ...,
        y: int | Output[L['INT']] | Input = ...,
        width: int | Output[L['INT']] | Input = ...,
        height: int | Output[L['INT']] | Input = ...,
    ) -> _PrimitiveBoundingBox:
        """A rectangle in pixels.

        Args:
            x: Its left edge.
            y: Its top edge.
            width: Its width.
            height: Its height.
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
        """Quantize the linear layers of a diffusion network, except fragile ones.

        LoRAs work before and after this node. To quantize while loading, which needs less memory, use
        `pipegraph run --quantize`.

        Args:
            model: Diffusion model.
            format: q8: int8, rotated, one scale per row; fp8: 8-bit floats, one scale per row; w4: 4 bits, a scale and an offset per 32 columns.
        """
    def RandomNoise(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        noise_seed: int | None | Output[L['INT']] | Input = ...,
    ) -> _RandomNoise:
        """Noise from a seed.

        Args:
            noise_seed: Seed; the same seed gives the same noise on every device.
        """
    def ReferenceLatent(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        conditioning: Output[L['CONDITIONING']] | Input,
        latent: None | Output[L['LATENT']] | Input = ...,
    ) -> _ReferenceLatent:
        """Add a reference image for an edit model; chain nodes for several images.

        Args:
            conditioning: Conditioning to change.
            latent: Image encoded by the model's VAE; without it nothing changes.
        """
    def RegexExtract(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        string: str | Path | Output[L['STRING', 'COMBO']] | Input,
        regex_pattern: str | Path | Output[L['STRING', 'COMBO']] | Input,
        mode: L['First Match', 'All Matches', 'First Group', 'All Groups'] | Output[L['COMBO', 'STRING']] | Input = ...,
        case_insensitive: bool | Output[L['BOOLEAN']] | Input = ...,
        multiline: bool | Output[L['BOOLEAN']] | Input = ...,
        dotall: bool | Output[L['BOOLEAN']] | Input = ...,
        group_index: int | Output[L['INT']] | Input = ...,
    ) -> _RegexExtract:
        """Extract what a regular expression matches; several results stand on lines of their own, none is an empty text.

        Args:
            string: Text to search.
            regex_pattern: Regular expression, as in Python.
            mode: The first match or all of them, or a group of the first match or of all. All Matches of an expression with groups gives the first group of each.
            case_insensitive: Capital and small letters are the same.
            multiline: ^ and $ match at each line, not only at the ends of the text.
            dotall: A dot matches line breaks, too.
            group_index: Which group; 0 is the whole match.
        """
    def RegexMatch(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        string: str | Path | Output[L['STRING', 'COMBO']] | Input,
        regex_pattern: str | Path | Output[L['STRING', 'COMBO']] | Input,
        case_insensitive: bool | Output[L['BOOLEAN']] | Input = ...,
        multiline: bool | Output[L['BOOLEAN']] | Input = ...,
        dotall: bool | Output[L['BOOLEAN']] | Input = ...,
    ) -> _RegexMatch:
        """Whether a regular expression matches anywhere in a text.

        Args:
            string: Text to search.
            regex_pattern: Regular expression, as in Python.
            case_insensitive: Capital and small letters are the same.
            multiline: ^ and $ match at each line, not only at the ends of the text.
            dotall: A dot matches line breaks, too.
        """
    def RegexReplace(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        string: str | Path | Output[L['STRING', 'COMBO']] | Input,
        regex_pattern: str | Path | Output[L['STRING', 'COMBO']] | Input,
        replace: str | Path | Output[L['STRING', 'COMBO']] | Input,
        case_insensitive: bool | Output[L['BOOLEAN']] | Input = ...,
        multiline: bool | Output[L['BOOLEAN']] | Input = ...,
        dotall: bool | Output[L['BOOLEAN']] | Input = ...,
        count: int | Output[L['INT']] | Input = ...,
    ) -> _RegexReplace:
        """Replace what a regular expression matches.

        Args:
            string: Text to search.
            regex_pattern: Regular expression, as in Python.
            replace: New text; `\\1` is the first group.
            case_insensitive: Capital and small letters are the same.
            multiline: ^ and $ match at each line, not only at the ends of the text.
            dotall: A dot matches line breaks, too.
            count: Matches to replace at most; 0 is all.
        """
    def RepeatImageBatch(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        amount: int | Output[L['INT']] | Input = ...,
    ) -> _RepeatImageBatch:
        """Repeat a batch of images.

        Args:
            image: Images to repeat.
            amount: Number of repetitions.
        """
    def RepeatLatentBatch(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        amount: int | Output[L['INT']] | Input = ...,
    ) -> _RepeatLatentBatch:
        """Repeat a batch; each copy gets its own noise.

        Args:
            samples: The latent.
            amount: Number of repetitions.
        """
    def ReplaceVideoLatentFrames(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        destination: Output[L['LATENT']] | Input,
        source: None | Output[L['LATENT']] | Input = ...,
        index: int | Output[L['INT']] | Input = ...,
    ) -> _ReplaceVideoLatentFrames:
        """Replace frames of a video latent.

        Args:
            destination: Video latent to change.
            source: New latent frames; without them nothing changes.
            index: First replaced latent frame; negative from the end.
        """
    def RescaleCFG(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        multiplier: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _RescaleCFG:
        """Rescale the guided prediction to the standard deviation of the positive one.

        Args:
            model: Model to patch; at cfg 1 nothing changes.
            multiplier: Blend factor: 0 none, 1 full.
        """
    def ResizeAndPadImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
        target_width: int | Output[L['INT']] | Input = ...,
        target_height: int | Output[L['INT']] | Input = ...,
        padding_color: L['white', 'black'] | Output[L['COMBO', 'STRING']] | Input = ...,
        interpolation: L['area', 'bicubic', 'nearest-exact', 'bilinear', 'lanczos'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _ResizeAndPadImage:
        """Scale images to fit into a size, and fill the rest with a color on both sides.

        Args:
            image: Images to scale; their aspect ratio is kept.
            target_width: Width of the result in pixels.
            target_height: Height of the result in pixels.
            padding_color: Color of the rest; transparency becomes opaque there with white, transparent with black.
            interpolation: How new pixels are made of old ones.
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
        """Resize images or masks; other sides follow from the aspect ratio.

        Args:
            input: Images or masks to resize.
            resize_type: How the new size is set.
            resize_type.width: New width in pixels; 0 follows from the height.
            resize_type.height: New height in pixels; 0 follows from the width; 0 and 0 change nothing.
            resize_type.crop: center crops to the new aspect ratio, disabled squeezes.
            resize_type.multiplier: New width divided by old width.
            resize_type.longer_size: New length of the longer side in pixels.
            resize_type.shorter_size: New length of the shorter side in pixels.
            resize_type.megapixels: Pixels to reach, in units of 1024 * 1024.
            resize_type.multiple: Sides become multiples of it: the nearest (default 1) for `scale total pixels`; the next smaller (default 8) for `scale to multiple`, which crops at the centre.
            resize_type.match: Images or masks of the wanted size.
            scale_method: Interpolation; only area and lanczos antialias when shrinking.
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
        """Compute width and height from aspect ratio and pixel count.

        Args:
            aspect_ratio: Width to height.
            megapixels: Pixels in units of 1024 * 1024, approximately.
            multiple: Both sides are rounded to multiples of it.
        """
    def SDTurboScheduler(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        steps: int | Output[L['INT']] | Input = ...,
        denoise: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _SDTurboScheduler:
        """Sigmas of SD Turbo and SDXL Turbo: some of their ten training levels.

        Args:
            model: Model with the noise levels; must predict noise.
            steps: Number of steps, from the first on.
            denoise: Start level: 1 is the highest noise; each 0.1 less is one level lower.
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
        """Sample a video block by block with a causal Wan model; each block attends to the blocks before it.

        Every block runs through all sigmas, which end at 0; each step renoises the prediction (as `lcm`).

        Args:
            num_frame_per_block: Latent frames per block, as in training: 3 for Self Forcing and CausVid, 1 for framewise models.
            window: Latent frames a block attends to, including its own and the sink; 0: all. With a window, time and memory per block do not grow with the video's length.
            sink: First latent frames that every block attends to.
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
        """Sample with a given sampler and sigmas.

        Args:
            model: Diffusion model.
            add_noise: Whether noise is added first.
            noise_seed: Seed of the noise; each batch item has its own noise.
            cfg: Guidance scale; at 1 the negative is not used.
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            sampler: The sampler.
            sigmas: Decreasing noise levels.
            latent_image: Latent to start from; an empty one sets the size only.
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
        """Sample with noise, guider, sampler and sigmas from nodes.

        Args:
            noise: Noise source.
            guider: Model and conditioning.
            sampler: The sampler.
            sigmas: Decreasing noise levels.
            latent_image: Latent to start from; an empty one sets the size only.
        """
    def SamplerER_SDE(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        solver_type: L['ER-SDE', 'Reverse-time SDE', 'ODE'] | Output[L['COMBO', 'STRING']] | Input = ...,
        max_stage: int | Output[L['INT']] | Input = ...,
        eta: float | Output[L['FLOAT', 'INT']] | Input = ...,
        s_noise: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _SamplerER_SDE:
        """Choose the extended reverse-time SDE solver's steps.

        Args:
            solver_type: How noise and prediction are weighed; ODE adds no noise.
            max_stage: Order of the solver.
            eta: Of the reverse-time SDE: how much of the noise is new; 0 is the ODE.
            s_noise: The new noise is multiplied by it.
        """
    def SamplerEulerAncestral(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        eta: float | Output[L['FLOAT', 'INT']] | Input = ...,
        s_noise: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _SamplerEulerAncestral:
        """Choose the ancestral Euler sampler.

        Args:
            eta: Share of fresh noise: 0 as euler, 1 as euler_ancestral.
            s_noise: Factor of the fresh noise.
        """
    def SamplerLCM(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        s_noise: float | Output[L['FLOAT', 'INT']] | Input = ...,
        s_noise_end: float | Output[L['FLOAT', 'INT']] | Input = ...,
        noise_clip_std: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _SamplerLCM:
        """Choose LCM's steps with other noise.

        Args:
            s_noise: Factor of the noise at the first step.
            s_noise_end: Factor of the noise at the last step; in between it changes evenly.
            noise_clip_std: Values beyond so many standard deviations are cut; 0 cuts none.
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
        """Set how the next token is sampled. Seed and length are inputs of the node that decodes.

        Args:
            temperature: 0 is greedy; 1 samples the model's distribution; higher is more random.
            top_k: Sample from this many likeliest tokens; 0: all.
            top_p: Sample from the smallest set of tokens with this total probability; 1: all.
            min_p: Sample from tokens with at least this fraction of the highest probability; 0: all.
            repetition_penalty: Penalty on tokens of the prompt and the reply; 1: off.
            presence_penalty: Subtracted from the logits of tokens in the reply; 0: off.
            frequency_penalty: The same, for each occurrence in the reply; 0: off.
            min_tokens: No end by a stop id before this many tokens; a text of `stop` still ends the reply.
            stop: Stop strings, one a line, left out of the reply; `\\n` is a line break.
            stop_ids: Token ids that end a reply besides the model's own, separated by commas.
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
        """Save images as an animated PNG (lossless).

        Args:
            images: The frames.
            filename_prefix: Start of the file name, as for SaveImage.
            fps: Frames a second; rounded to milliseconds per frame.
            compress_level: Compression effort.
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
        """Save images as an animated WebP.

        Args:
            images: The frames.
            filename_prefix: Start of the file name, as for SaveImage.
            fps: Frames a second; rounded to milliseconds per frame.
            lossless: Lossless compression.
            quality: Image quality, or compression effort if lossless.
            method: Compression effort.
        """
    def SaveAudio(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        audio: Output[L['AUDIO']] | Input,
        filename_prefix: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
    ) -> _SaveAudio:
        """Save audio as FLAC, lossless with 16 bits, and the graph in the file's tags.

        Args:
            audio: Audio to save; one file for each item of a batch.
            filename_prefix: Start of the file name, as for SaveImage.
        """
    def SaveAudioAdvanced(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        audio: Output[L['AUDIO']] | Input,
        filename_prefix: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        format: L['flac', 'mp3', 'opus'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _SaveAudioAdvanced:
        """Save audio with the graph in the file's tags.

        Args:
            audio: Audio to save; one file for each item of a batch.
            filename_prefix: Start of the file name, as for SaveImage.
            format: flac is lossless, of 16 bits.
            format.quality: V0 is the best variable bit rate of mp3, its default; opus has 128k. Others are bits a second.
        """
    def SaveAudioMP3(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        audio: Output[L['AUDIO']] | Input,
        filename_prefix: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        quality: L['V0', '128k', '320k'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _SaveAudioMP3:
        """Save audio as MP3 with the graph in the file's tags.

        Args:
            audio: Audio to save; one file for each item of a batch.
            filename_prefix: Start of the file name, as for SaveImage.
            quality: V0 is the best variable bit rate, others are bits a second.
        """
    def SaveAudioOpus(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        audio: Output[L['AUDIO']] | Input,
        filename_prefix: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        quality: L['64k', '96k', '128k', '192k', '320k'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _SaveAudioOpus:
        """Save audio as Opus with the graph in the file's tags.

        Args:
            audio: Audio to save; one file for each item of a batch.
            filename_prefix: Start of the file name, as for SaveImage.
            quality: Bits a second.
        """
    def SaveConditioning(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        conditioning: Output[L['CONDITIONING']] | Input,
        filename_prefix: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
    ) -> _SaveConditioning:
        """Save a conditioning as a .safetensors file; in the folder of embeddings ConditioningLoader loads it.

        Args:
            conditioning: Conditioning of one entry.
            filename_prefix: Start of the file name, as for SaveImage.
        """
    def SaveImage(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        images: Output[L['IMAGE']] | Input,
        filename_prefix: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        format: L['png', 'png 16-bit', 'jpeg', 'webp', 'avif', 'tiff', 'exr'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _SaveImage:
        """Save images with the graph embedded, as 8-bit PNG or in another format.

        Values are clipped to 0..1 and rounded to the nearest of 256 levels. An image with non-finite values is not
        saved; the others of its batch are, then the run fails.

        Args:
            images: Images with 1, 2 (gray, alpha), 3 or 4 (RGBA) channels.
            filename_prefix: Start of the file names, may hold folders; `%width%`, `%height%`, `%batch_num%`, `%year%`, `%month%`, `%day%`, `%hour%`, `%minute%`, `%second%` and `%date:yyyy-MM-dd%` are filled in; `%n` is where the counter goes, else it goes to the end.
            format: png, jpeg, webp and avif have 8 bits a channel, png 16-bit and tiff 16, exr 32 (floats, linear light). jpeg (quality 95) and avif (90) lose detail, webp does not; SaveImageAdvanced has their settings.
        """
    def SaveImageAdvanced(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        images: Output[L['IMAGE']] | Input,
        filename_prefix: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        format: L['png', 'exr', 'avif', 'jpeg', 'webp', 'tiff'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _SaveImageAdvanced:
        """Save images with the graph embedded. An image with non-finite values is not saved, then the run fails.

        JPEG holds at most 64 KB of graph and no transparency; a warning names what is lost.

        Args:
            images: Images with 1, 2 (gray, alpha), 3 or 4 (RGBA) channels.
            filename_prefix: Start of the file name, as for SaveImage.
            format: File format.
            format.bit_depth: auto: 8 bits of png and avif, 16 of tiff, floats of exr. Floats keep values outside 0..1.
            format.input_color_space: For exr: values are sRGB, HDR (BT.2100 HLG) or linear; the file is linear.
            format.crf: Quality: lower is better, and a larger file.
            format.save_mode: One file for each image.
            format.quality: Higher is better and larger.
            format.lossless: Keep every pixel; quality is then how hard to try.
        """
    def SaveVideo(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        video: Output[L['VIDEO']] | Input,
        filename_prefix: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        format: L['auto', 'mp4', 'webm', 'mkv', 'mov', 'gif', 'webp', 'apng', 'png'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _SaveVideo:
        """Save a video with the graph embedded; frames are encoded one by one.

        h264, h265, av1 and vp9 need even sides: odd sides repeat the last row or column. Transparency is kept by vp9 in
        webm, prores, ffv1, webp, apng, gif and png. If the encoder fails, frames are saved as PNG files and the run fails.
        Frames with NaN are saved black, then the run fails.

        Args:
            video: The video.
            filename_prefix: Start of the file name, as for SaveImage.
            format: auto: mp4, or the usual format of the codec (webm of av1); png: one file per frame.
            format.codec: auto: h264 in mp4, vp9 in webm, ffv1 (lossless) in mkv, prores in mov.
            format.codec.encoding: auto: the usual quality; re-encode: with crf. Frames are always encoded anew.
            format.codec.encoding.crf: Quality: lower is better, and a larger file; at most 51 with h264. By default 23 with h264, 30 with av1.
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
        """Save images as a WebM video.

        Args:
            images: The frames.
            filename_prefix: Start of the file name, as for SaveImage.
            codec: Video codec.
            fps: Frames a second.
            crf: Quality: lower is better, and a larger file.
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
        """Scale and shift the RoPE positions of a Wan network: position p becomes shift + scale p.

        If there are several such nodes, the last one is used.

        Args:
            model: Wan model to patch.
            scale_x: Scale of columns.
            shift_x: Shift to the right in tokens.
            scale_y: Scale of rows.
            shift_y: Shift down in tokens.
            scale_t: Scale of time: 7 for ChronoEdit, whose two latent frames are first and last of a longer video.
            shift_t: Shift in latent frames.
        """
    def SeedNode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        seed: int | None | Output[L['INT']] | Input = ...,
    ) -> _SeedNode:
        """A seed that several nodes share.

        Args:
            seed: The seed; empty draws one.
        """
    def SetFirstSigma(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        sigmas: Output[L['SIGMAS']] | Input,
        sigma: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _SetFirstSigma:
        """Replace the first sigma of a schedule.

        Args:
            sigmas: The schedule.
            sigma: New first sigma.
        """
    def SetLatentNoiseMask(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        mask: Output[L['MASK']] | Input,
    ) -> _SetLatentNoiseMask:
        """Set the inpainting mask of a latent; samplers keep the rest.

        Args:
            samples: The latent.
            mask: 1 where to inpaint, at any size.
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
        """Skip-layer guidance: guide away from a prediction without some layers, for one more call per step.

        Args:
            model: Model to patch.
            double_layers: Layers to skip, from 0: 7, 8, 9. Networks with one kind of layers have double layers.
            single_layers: The same for single layers, in networks that have them.
            scale: Guidance scale; 0 changes nothing.
            start_percent: Fraction of the sampling at which it starts.
            end_percent: Fraction of the sampling at which it ends.
            rescaling_scale: Share by which the standard deviation is rescaled to that of the positive prediction.
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
        """Skip some layers in the negative prediction.

        Args:
            model: Model to patch; at cfg 1 nothing changes.
            double_layers: Layers to skip, from 0: 7, 8, 9. Networks with one kind of layers have double layers.
            single_layers: The same for single layers, in networks that have them.
            start_percent: Fraction of the sampling at which it starts.
            end_percent: Fraction of the sampling at which it ends.
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
        """Use sliding tile attention: less work on long videos, with different results.

        Video tokens are grouped into tiles, and each tile attends to a window of tiles around it. For Wan and HunyuanVideo;
        attention between video and text is full. A warning gives the error of attention at the first step and the share of
        pairs that is computed.

        Args:
            model: Model to patch.
            tile_frames: Length of a tile in tokens; a token spans one latent frame.
            tile_height: Height of a tile in tokens, 16 pixels each (32 for Wan 2.2 5B).
            tile_width: Width of a tile in tokens.
            window_frames: Window length in tiles; at the ends of the video the window is shifted inside.
            window_height: Window height in tiles.
            window_width: Window width in tiles.
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
        """Decode a reply with a smaller draft model (speculative decoding); the distribution of replies stays the same.

        Args:
            llm: Language model.
            draft: Draft model with the same vocabulary.
            cache: KV cache of `llm` for the prompt; it is not changed.
            sampling: Sampling parameters; greedy if not connected.
            grammar: Grammar that the reply follows.
            seed: Seed of the random draws.
            max_tokens: Longest reply in tokens.
            draft_tokens: Tokens drafted at a time.
            when_cut: What to do if the limit cuts a reply that has to follow a grammar.
        """
    def SplitImageWithAlpha(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        image: Output[L['IMAGE']] | Input,
    ) -> _SplitImageWithAlpha:
        """Split images into colours and a mask that is 1 where they are transparent.

        Args:
            image: RGBA images; RGB ones give a mask of 0.
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
            step: First step of the second part.
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
        """Sample a causal model's video while it is saved: each block is sampled, decoded and passed on before the next.

        Reading the video twice computes it twice. A longer video starts like a shorter one of the same seed. (Frames differ
        from SamplerCustomAdvanced's of that seed, which draws the noise of the whole video at once.)

        Args:
            noise: Noise source.
            guider: Model and conditioning, without a negative (cfg 1).
            sampler: Sampler from SamplerARVideo.
            sigmas: Noise levels of each block, decreasing to 0.
            latent_image: Latent to start from; an empty one sets the size only.
            vae: The model's VAE.
            fps: Frames a second.
            audio: Audio; cut or padded with silence to the video's length.
        """
    def StringCompare(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        string_a: str | Path | Output[L['STRING', 'COMBO']] | Input,
        string_b: str | Path | Output[L['STRING', 'COMBO']] | Input,
        mode: L['Starts With', 'Ends With', 'Equal'] | Output[L['COMBO', 'STRING']] | Input = ...,
        case_sensitive: bool | Output[L['BOOLEAN']] | Input = ...,
    ) -> _StringCompare:
        """Compare two texts.

        Args:
            string_a: Text to examine.
            string_b: Its expected start, end or whole.
            mode: Kind of comparison.
            case_sensitive: Capital and small letters differ.
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
            delimiter: Text between them.
        """
    def StringContains(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        string: str | Path | Output[L['STRING', 'COMBO']] | Input,
        substring: str | Path | Output[L['STRING', 'COMBO']] | Input,
        case_sensitive: bool | Output[L['BOOLEAN']] | Input = ...,
    ) -> _StringContains:
        """Whether a text contains another one.

        Args:
            string: Text to search.
            substring: Text to find.
            case_sensitive: Capital and small letters differ.
        """
    def StringFormat(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        values: Mapping[str, Any | None | Output[Any] | Input] = ...,
        f_string: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
    ) -> _StringFormat:
        """Put values into a text: `{a}` becomes the value `a`, `{b:.2f}` the number `b` with two decimals.

        The forms are those of Python's `str.format`, without a look inside of values. Values that are no text, number or
        boolean are described.

        Args:
            f_string: The text; {{ and }} are braces.
        """
    def StringLength(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        string: str | Path | Output[L['STRING', 'COMBO']] | Input,
    ) -> _StringLength:
        """Count the characters of a text.

        Args:
            string: Text to measure.
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
            string: Text to change.
            find: Text to replace; nothing changes if it is empty.
            replace: Replacement.
        """
    def StringSubstring(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        string: str | Path | Output[L['STRING', 'COMBO']] | Input,
        start: int | Output[L['INT']] | Input = ...,
        end: int | Output[L['INT']] | Input = ...,
    ) -> _StringSubstring:
        """Cut a part out of a text.

        Args:
            string: Text to cut.
            start: First character, from 0; negative from the end.
            end: The character after the last; negative from the end.
        """
    def StringTrim(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        string: str | Path | Output[L['STRING', 'COMBO']] | Input,
        mode: L['Both', 'Left', 'Right'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _StringTrim:
        """Remove white space at the ends of a text.

        Args:
            string: Text to trim.
            mode: At which end.
        """
    def StructuredOutput(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        kind: L['json', 'regex', 'choices', 'grammar'] | Output[L['COMBO', 'STRING']] | Input,
        form: str | Path | Output[L['STRING', 'COMBO']] | Input,
    ) -> _StructuredOutput:
        """Compile a grammar that replies have to follow.

        Args:
            kind: `json`: a JSON schema. `regex`: an expression that the whole reply matches. `choices`: one of some texts. `grammar`: a grammar in Lark's notation, which begins at `start`.
            form: The schema, expression, choices (one a line, or a JSON list) or grammar.
        """
    def TemporalScoreRescaling(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model: Output[L['MODEL']] | Input,
        tsr_k: float | Output[L['FLOAT', 'INT']] | Input = ...,
        tsr_sigma: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _TemporalScoreRescaling:
        """Rescale the predicted noise towards the end of sampling, for more detail or more smoothness.

        Args:
            model: Model to change.
            tsr_k: Factor at low noise: below 1 more detail, above 1 smoother, 1 changes nothing.
            tsr_sigma: How early: larger is earlier.
        """
    def TextGenerate(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        clip: Output[L['CLIP', 'LLM']] | Input,
        images: Mapping[str, None | Output[L['IMAGE']] | Input] = ...,
        prompt: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        image: None | Output[L['IMAGE']] | Input = ...,
        video: None | Output[L['IMAGE']] | Input = ...,
        audio: None | Output[L['AUDIO']] | Input = ...,
        max_length: int | Output[L['INT']] | Input = ...,
        sampling_mode: L['on', 'off'] | Output[L['COMBO', 'STRING']] | Input = ...,
        thinking: bool | Output[L['BOOLEAN']] | Input = ...,
        use_default_template: bool | Output[L['BOOLEAN']] | Input = ...,
        mtp: L['auto', 'off', '2', '3', '4', '5'] | Output[L['COMBO', 'STRING']] | Input = ...,
        system_prompt: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        tools: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
        sampling: None | Output[L['SAMPLING']] | Input = ...,
        draw_seed: int | None | Output[L['INT']] | Input = ...,
        grammar: None | Output[L['GRAMMAR']] | Input = ...,
        when_cut: L['warn', 'fail'] | Output[L['COMBO', 'STRING']] | Input = ...,
    ) -> _TextGenerate:
        """Answer a prompt: chat template, images, prefill and decode in one.

        Args:
            clip: An LLM, or a CLIP whose text encoder is one.
            prompt: User message, or a whole chat as a JSON list of `{"role": ..., "content": ...}`.
            image: Images for a vision-language model, as in ChatTemplate.
            video: Frames, 24 a second; the model gets the first of each second, after the images.
            audio: Not supported by any model that can be loaded.
            max_length: Longest answer in tokens.
            sampling_mode: `on` samples with the settings below; `off` is greedy.
            sampling_mode.temperature: As in SamplingParams, like the inputs below.
            sampling_mode.top_k: Sample from this many likeliest tokens; 0: all.
            sampling_mode.top_p: Sample from the smallest set of tokens with this total probability.
            sampling_mode.min_p: Sample from tokens with at least this fraction of the highest probability.
            sampling_mode.repetition_penalty: Penalty on tokens of the prompt and the answer; 1: off.
            sampling_mode.seed: Seed of the random draws.
            sampling_mode.presence_penalty: Subtracted from the logits of tokens in the answer; 0: off.
            thinking: Let a thinking model think before it answers.
            use_default_template: Use the model's chat template; else continue the plain prompt.
            mtp: Multi-token prediction heads draft tokens; none are loaded, so all values are the same.
            system_prompt: System prompt; not used without the chat template.
            tools: Functions that the model may call, a JSON list of schemas.
            sampling: Sampling parameters instead of `sampling_mode`, which then stays off.
            draw_seed: Seed of the random draws with `sampling`.
            grammar: Grammar that the answer follows.
            when_cut: What to do if the limit cuts an answer that has to follow a grammar.
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
        mtp: L['auto', 'off', '2', '3', '4', '5'] | Output[L['COMBO', 'STRING']] | Input = ...,
        system_prompt: str | Path | Output[L['STRING', 'COMBO']] | Input = ...,
    ) -> _TextGenerateLTX2Prompt:
        """Expand a short request to a prompt for LTX-2.

        Args:
            clip: LTX-2's text encoder, or another language model.
            prompt: The request.
            image: First frame, for a vision-language model; Gemma 3's vision tower is not loaded.
            video: Frames, 24 a second, as in TextGenerate.
            audio: Not supported by any model that can be loaded.
            max_length: Longest prompt in tokens.
            sampling_mode: `on` samples with the settings below; `off` is greedy.
            sampling_mode.temperature: As in SamplingParams, like the inputs below.
            sampling_mode.top_k: Sample from this many likeliest tokens; 0: all.
            sampling_mode.top_p: Sample from the smallest set of tokens with this total probability.
            sampling_mode.min_p: Sample from tokens with at least this fraction of the highest probability.
            sampling_mode.repetition_penalty: Penalty on tokens of the request and the prompt; 1: off.
            sampling_mode.seed: Seed of the random draws.
            sampling_mode.presence_penalty: Subtracted from the logits of tokens in the prompt; 0: off.
            thinking: Let a thinking model think before it writes.
            use_default_template: Use the system prompt and the model's chat template; else continue the plain request.
            mtp: Multi-token prediction heads; none are loaded, so all values are the same.
            system_prompt: System prompt, instead of the built-in one.
        """
    def ThresholdMask(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        mask: Output[L['MASK']] | Input,
        value: float | Output[L['FLOAT', 'INT']] | Input = ...,
    ) -> _ThresholdMask:
        """Make a mask black and white.

        Args:
            mask: Mask to change.
            value: Values above it become 1, others 0.
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
        """Encode text as tokens.

        Args:
            llm: Language model whose tokenizer is used.
            text: A prompt. The model's BOS token is put before it.
            control_tokens: The text comes from a chat template: parse control tokens in it, and add no BOS token.
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
        """Cut a part out of audio.

        Args:
            audio: The audio.
            start_index: Start of the part in seconds; negative counts from the end.
            duration: Longest duration of the part in seconds.
        """
    def TrimVideoLatent(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        trim_amount: int | Output[L['INT']] | Input = ...,
    ) -> _TrimVideoLatent:
        """Trim latent frames from the start of a video latent.

        Args:
            samples: The latent.
            trim_amount: Number of latent frames: the first holds one video frame, each other four.
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
            weight_dtype: Dtype of linear layers: cast to fp8, except fragile ones (first and last projections, modulation); _fast also rounds activations to fp8.
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
        """Scale the attention of a U-Net with temporal layers; other networks are not changed.

        No supported model has temporal layers, and a warning says so. Graphs for Wan contain this node.

        Args:
            model: The model.
            self_structural: Factor of spatial self-attention.
            self_temporal: Factor of temporal self-attention.
            cross_structural: Factor of spatial cross-attention.
            cross_temporal: Factor of temporal cross-attention.
        """
    def UnetLoaderGGUF(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        unet_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _UnetLoaderGGUF:
        """Load a diffusion network alone from a GGUF file; UNETLoader does the same.

        Args:
            unet_name: A GGUF file, or any other file that UNETLoader takes.
        """
    def UpscaleModelLoader(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        model_name: str | Path | Output[L['COMBO', 'STRING']] | Input,
    ) -> _UpscaleModelLoader:
        """Load a network that makes images larger, such as ESRGAN, SPAN, DAT or SwinIR; spandrel tells which it is.

        Its linear layers run on the kernel layer, its attention does not; the run record says so.

        Args:
            model_name: A .safetensors file among the upscale models.
        """
    def VAEDecode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        samples: Output[L['LATENT']] | Input,
        vae: Output[L['VAE']] | Input,
    ) -> _VAEDecode:
        """Decode latents to images; from a joint latent of video and audio, the video.

        If a result in half precision is not finite, decoding is repeated in float32; a second failure is an error.

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
        """Decode latents to audio; from a joint latent of video and audio, the audio.

        Args:
            samples: The latents.
            vae: The model's audio VAE.
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
        """Decode latents to images in overlapping tiles, which takes less memory.

        Args:
            samples: The latents.
            vae: The model's VAE.
            tile_size: Side of a tile in pixels.
            overlap: Overlap of tiles in pixels; at most a quarter of a tile.
            temporal_size: Frames per tile; not used by VAEs that decode frame by frame, such as Wan's.
            temporal_overlap: Overlap of tiles in frames; likewise.
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
        """Decode a video latent while the video is saved: memory does not grow with its length.

        Reading the frames twice decodes them twice. The videos of a batch are joined in order.

        Args:
            samples: The latent.
            vae: The VAE of a video model.
            fps: Frames a second.
            audio: Audio; cut or padded with silence to the video's length.
        """
    def VAEEncode(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        pixels: Output[L['IMAGE']] | Input,
        vae: Output[L['VAE']] | Input,
    ) -> _VAEEncode:
        """Encode images to latents; sides are cropped at the centre to multiples of a latent cell (8 pixels).

        Args:
            pixels: The images; only the first three channels are used.
            vae: The model's VAE.
        """
    def VAEEncodeTiled(
        self,
        inputs: Mapping[str, Any] | None = None,
        /,
        *,
        pixels: Output[L['IMAGE']] | Input,
        vae: Output[L['VAE']] | Input,
        tile_size: int | Output[L['INT']] | Input = ...,
        overlap: int | Output[L['INT']] | Input = ...,
        temporal_size: int | Output[L['INT']] | Input = ...,
        temporal_overlap: int | Output[L['INT']] | Input = ...,
    ) -> _VAEEncodeTiled:
        """Encode images in overlapping tiles, which takes less memory. Sides are cropped as in VAEEncode.

        Args:
            pixels: Images; only the first three channels are used.
            vae: The model's VAE.
            tile_size: Side of a tile in pixels.
            overlap: Overlap of tiles in pixels; at most a quarter of a tile.
            temporal_size: Not used: a video is encoded at its whole length.
            temporal_overlap: Not used.
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
        """Follow a control video and a reference image, for Wan 2.2's Fun Control models.

        Args:
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            vae: The model's VAE.
            width: Frame width in pixels; a multiple of 32 for the 5B model.
            height: Frame height in pixels; a multiple of 32 for the 5B model.
            length: Number of frames: 1, 5, 9, ...
            batch_size: Number of videos.
            ref_image: Reference image; scaled to cover the size and cropped at the centre. The first of several is used.
            control_video: Edges, depths or poses, one per frame; missing frames at the end are free.
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
        """Make a video latent for Wan 2.2 5B and the shipped model: empty, or with fixed first frames.

        Args:
            vae: The model's VAE (wan2.2_vae).
            width: Frame width in pixels.
            height: Frame height in pixels.
            length: Number of frames: 1, 5, 9, ...
            batch_size: Number of videos.
            start_image: First frames; scaled to cover the size and cropped at the centre. 4n + 1 images are used.
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
        """Make a camera motion, at constant speed from the first frame to the last.

        Args:
            camera_pose: Direction of the motion.
            width: Frame width in pixels.
            height: Frame height in pixels.
            length: Number of frames: 1, 5, 9, ...
            speed: Amount of motion; 1 is a turn by 60 degrees.
            fx: Focal length in widths of an image of 16:9.
            fy: Focal length in heights of an image of 16:9.
            cx: Principal point in widths from the left.
            cy: Principal point in heights from the top.
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
        """Start a video with an image and move the camera, for Wan's Fun Camera models.

        Args:
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            vae: The model's VAE.
            width: Frame width in pixels.
            height: Frame height in pixels.
            length: Number of frames: 1, 5, 9, ...
            batch_size: Number of videos.
            clip_vision_output: CLIP vision output of the first image, for Wan 2.1.
            start_image: First frames; scaled to cover the size and cropped at the centre.
            camera_conditions: Camera motion for the same size and length.
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
        """Start and end a video with images, for Wan's image-to-video models.

        Args:
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            vae: The model's VAE.
            width: Frame width in pixels.
            height: Frame height in pixels.
            length: Number of frames: 1, 5, 9, ...
            batch_size: Number of videos.
            clip_vision_start_image: CLIP vision output of the first image, for Wan 2.1.
            clip_vision_end_image: CLIP vision output of the last image.
            start_image: First frames; scaled to cover the size and cropped at the centre.
            end_image: Last frames; scaled likewise.
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
        """Follow a control video, for Wan 2.1's Fun Control models.

        Args:
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            vae: The model's VAE.
            width: Frame width in pixels.
            height: Frame height in pixels.
            length: Number of frames: 1, 5, 9, ...
            batch_size: Number of videos.
            clip_vision_output: CLIP vision output of the first image.
            start_image: First frames; scaled to cover the size and cropped at the centre.
            control_video: Edges, depths or poses, one per frame; missing frames at the end are free.
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
        """Start a video with images, end it with images, or both, for Wan's Fun InP models.

        Args:
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            vae: The model's VAE.
            width: Frame width in pixels.
            height: Frame height in pixels.
            length: Number of frames: 1, 5, 9, ...
            batch_size: Number of videos.
            clip_vision_output: CLIP vision output of the first image, for Wan 2.1.
            start_image: First frames; scaled to cover the size and cropped at the centre.
            end_image: Last frames; scaled likewise.
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
        """Start a video with images, for Wan's image-to-video models.

        Args:
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            vae: The model's VAE.
            width: Frame width in pixels.
            height: Frame height in pixels.
            length: Number of frames: 1, 5, 9, ...
            batch_size: Number of videos.
            clip_vision_output: CLIP vision output of the first image, for Wan 2.1.
            start_image: First frames; scaled to cover the size and cropped at the centre.
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
        """Follow a control video, inpaint it by a mask, or use reference images, for Wan VACE.

        Chained nodes apply together, each with its strength. They need the same size, length and number of reference
        images.

        Args:
            positive: Positive conditioning: what to show.
            negative: Negative conditioning: what to avoid.
            vae: The model's VAE.
            width: Frame width in pixels.
            height: Frame height in pixels.
            length: Number of frames: 1, 5, 9, ...
            batch_size: Number of videos.
            strength: Weight of the control; 0 turns it off.
            control_video: Frames, or their edges, depths or poses; missing frames at the end are free.
            control_masks: One mask per frame, 1 where to inpaint; without masks, everything.
            reference_image: Reference images. Each takes a latent frame before the video: trim as many with TrimVideoLatent.
        """
