"""Well-known packs of custom nodes for ComfyUI, by node name."""

from __future__ import annotations

import re
from typing import Final

_PACKS: Final = {
    r"IPAdapter.*|PrepImageForClipVision": "ComfyUI_IPAdapter_plus",
    r"VHS_.*": "ComfyUI-VideoHelperSuite",
    r".*\(rgthree\)": "rgthree-comfy",
    r"easy .*": "ComfyUI-Easy-Use",
    r"UltimateSDUpscale.*": "ComfyUI_UltimateSDUpscale",
    r"FaceDetailer.*|DetailerForEach.*|SAMLoader|UltralyticsDetectorProvider|Impact.*": "ComfyUI-Impact-Pack",
    r"KSampler \(Efficient\)|Efficient Loader|KSampler Adv\. \(Efficient\)": "efficiency-nodes-comfyui",
    r"ACN_.*|ControlNetLoaderAdvanced": "ComfyUI-Advanced-ControlNet",
    r"ADE_.*": "ComfyUI-AnimateDiff-Evolved",
    r".*Preprocessor": "comfyui_controlnet_aux",
    r"WanVideo.*": "ComfyUI-WanVideoWrapper",
    r"HyVideo.*": "ComfyUI-HunyuanVideoWrapper",
    r".*KJ(v\d)?|GetNode|SetNode": "ComfyUI-KJNodes",
    r"(UnetLoader|CLIPLoader|DualCLIPLoader|TripleCLIPLoader)GGUF.*": "ComfyUI-GGUF",
    r"CR .*": "ComfyUI_Comfyroll_CustomNodes",
}
"""Node name pattern -> repository."""


def pack_of(node: str) -> str:
    """The repository of the pack, or an empty string."""
    return next((pack for names, pack in _PACKS.items() if len(node) <= 200 and re.fullmatch(names, node)), "")
