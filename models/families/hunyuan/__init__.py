"""HunyuanVideo and HunyuanVideo 1.5."""

from .video import HUNYUAN_VIDEO
from .video_15 import HUNYUAN_VIDEO_15

__all__ = ["HUNYUAN_VIDEO", "HUNYUAN_VIDEO_15"]
