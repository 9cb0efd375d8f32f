"""Show images side by side."""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Any

from pipegraph.runtime.node import NodeEvent, RunContext, Wire, node

from ..wire import Image
from .files import write_pictures

View = Annotated[Any, Wire("IMAGECOMPARE,*")]


@node("ImageCompare", category="image", title="Image Compare", effect="writes", output_node=True)
def image_compare(
    ctx: RunContext, image_a: Image | None = None, image_b: Image | None = None, compare_view: View | None = None
) -> Generator[NodeEvent, None, None]:
    """Show two batches of images to be compared: they are saved for a while in the folder of temporary files.

    Args:
        image_a: The one batch.
        image_b: The other batch.
        compare_view: State of the editor's view; not used.
    """
    for images, prefix in ((image_a, "compare_a"), (image_b, "compare_b")):
        if images is not None and len(images):
            yield from write_pictures(images, ctx, prefix, temporary=True)
