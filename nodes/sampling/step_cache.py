"""Step caching: faster, with different results."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from annotated_types import Ge, Le

from pipegraph.runtime.node import NotBelow, RunContext, Step, node

from ..wire import Model

Threshold = Annotated[float, Ge(0), Le(3), Step(0.01)]
Percent = Annotated[float, Ge(0), Le(1), Step(0.01)]


@node("EasyCache", category="advanced/model")
def easy_cache(
    model: Model,
    ctx: RunContext,
    reuse_threshold: Threshold = 0.2,
    start_percent: Percent = 0.15,
    end_percent: Annotated[Percent, NotBelow("start_percent")] = 0.95,
    verbose: bool = False,
) -> Model:
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
    from pipegraph.models.patches.step_cache import StepCache

    if start_percent == end_percent:
        ctx.warn(f"start_percent and end_percent are both {start_percent:g}: no step is reused")
    return replace(model, step_cache=StepCache(reuse_threshold, start_percent, end_percent, verbose))
