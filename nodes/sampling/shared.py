"""Input types that the sampling nodes share. Names and order are ComfyUI's."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from annotated_types import Ge, Le

from pipegraph.generators import converted
from pipegraph.runtime.node import Auto, Doc, Lazy, Progress, RunContext, Step

from ..ports import NegativeConditioning
from ..wire import Conditioning

if TYPE_CHECKING:
    from pipegraph.models.sampling.guiders import Guider
    from pipegraph.models.sampling.noise import Noise
    from pipegraph.models.sampling.run import Sampled
    from pipegraph.models.sampling.samplers import Sampler

SamplerNames = Literal[
    "euler", "euler_ancestral", "heun", "dpm_2", "dpmpp_2m", "dpmpp_2m_sde", "dpmpp_3m_sde", "lcm", "res_multistep",
    "gradient_estimation", "er_sde", "ddim", "uni_pc", "uni_pc_bh2", "dpmpp_2m_sde_gpu", "dpmpp_3m_sde_gpu",
]  # fmt: skip
SchedulerNames = Literal[
    "simple", "sgm_uniform", "karras", "exponential", "ddim_uniform", "beta", "normal", "linear_quadratic", "kl_optimal"
]
TABLE_SCHEDULES = ("simple", "ddim_uniform", "beta")
"""Schedules that take each noise level from the model's table, so it limits the number of steps."""
SamplerName = Annotated[SamplerNames, Auto("sampler_name")]
SchedulerName = Annotated[SchedulerNames, Auto("scheduler")]
Steps = Annotated[int, Ge(1), Le(10000), Auto("steps")]
Cfg = Annotated[
    float,
    Ge(0),
    Le(100),
    Step(0.1),
    Auto("cfg"),
    Doc("Guidance scale; at 1 the negative is not used."),
]
Denoise = Annotated[float, Ge(0), Le(1), Step(0.01)]


Negative = Lazy[NegativeConditioning]
"""A negative conditioning, computed only if it is used."""


def check_steps(values: Mapping[str, Any], model: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Check that the model's table has enough noise levels for the steps."""
    steps, scheduler, levels = values.get("steps"), values.get("scheduler"), model.get("levels")
    if scheduler in TABLE_SCHEDULES and type(steps) is int and levels and steps > levels - 1:
        most = f"{levels - 1} noise levels for this model, too few for {steps} steps"
        yield "steps", f'the schedule "{scheduler}" has {most}'


def used_negative(ctx: RunContext, negative: Negative, cfg: float) -> Conditioning | None:
    """The negative conditioning; at cfg 1 it is not computed, with a warning if that ignores a prompt."""
    if not math.isclose(cfg, 1.0):
        return negative.get()
    if any(text.strip() for text in negative.lost_texts()):
        ctx.warn("cfg is 1: the negative prompt is not used")
    return None


def sampling_events(
    ctx: RunContext, guider: Guider, noise: Noise, sampler: Sampler, sigmas: Any, latent: dict[str, Any]
) -> Generator[Progress, None, Sampled]:
    """Run a sampler for a node: progress after each step, report into the run record."""
    from pipegraph.kernels.dispatch import noting
    from pipegraph.models.sampling.findings import finding
    from pipegraph.models.sampling.guiders import fit_mask
    from pipegraph.models.sampling.run import sample

    for message in guider.warnings():
        ctx.warn(message)
    mask = latent.get("noise_mask")
    if mask is not None and not fit_mask(mask, latent["samples"]).any():
        ctx.warn(f"nothing to repaint: the mask is {'too small for the latent' if mask.any() else 'empty'}")
    kernels, findings = dict[str, set[str]](), dict[str, Any]()

    @contextmanager
    def observed() -> Iterator[None]:
        with noting(kernels), finding(findings):
            yield

    steps = sample(guider, noise, sampler, sigmas, latent)
    sampled = yield from converted(steps, lambda step: Progress(step.done, step.total), observed)
    ctx.note("sampling", sampled.report.as_dict())
    ctx.note("kernels", {op: sorted(names) for op, names in sorted(kernels.items())})
    for message in findings.values():
        ctx.warn(str(message))
    return sampled
