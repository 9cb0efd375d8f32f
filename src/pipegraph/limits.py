"""Limits on files and graphs. Standard library only; every folder may import it.

Readers check limits before they do the work, so that a small file cannot exhaust the machine. ``docs/limits.md``
lists these constants; a test keeps the page equal to this file.
"""

from __future__ import annotations

from typing import Final

GRAPH_BYTES: Final = 64 << 20
"""Bytes of a graph file."""
GRAPH_DEPTH: Final = 64
"""Nesting levels of lists and objects in a graph file."""
EDITOR_NODES: Final = 20_000
"""Nodes of a file of ComfyUI's editor, those of its subgraphs counted as often as they are used."""
NUMBER_DIGITS: Final = 4000
"""Digits of a number in a graph file."""
PROBLEMS: Final = 100
"""Problems that are listed; the others are counted."""
TEXT_BYTES: Final = 64 << 20
"""Bytes of all texts that a picture or video file carries, unpacked."""
MEDIA_PARTS: Final = 100_000
"""Parts (chunks, boxes, elements, directory entries) of a picture, video or audio file that are read."""
PICTURE_PIXELS: Final = 178_956_970
"""Pixels of a picture file, all its frames together."""
SILENCE_BYTES: Final = 64 << 20
"""Bytes of silence that fill the gaps of a file's sound, 4 a sample; longer gaps are left out."""
HEADER_BYTES: Final = 100_000_000
"""Bytes of the header of a file of weights (safetensors' own limit)."""
TENSOR_DIMENSIONS: Final = 8
"""Dimensions of a tensor in a file of weights."""
