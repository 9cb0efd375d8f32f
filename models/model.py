"""The value on a MODEL wire: network, family, noise levels and LoRAs, with the prediction of x0."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import torch
from torch import Tensor

from .control import Control, ControlNet
from .family import Family, Inputs, LatentFormat
from .loaded import Loaded

if TYPE_CHECKING:
    from .adapters.lora import Lora
    from .patches.step_cache import CachedRun, StepCache
    from .sampling.differential import Differential
    from .sampling.guidance import Guidance
    from .sampling.model_sampling import ModelSampling

VAE_LATENTS: Final = (
    "concat_latent_image",
    "vace_inactive",
    "vace_reactive",
    "control_latent",
    "reference_latent",
    "reference_latents",
)
"""CONDITIONING entries that are VAE latents, as on a LATENT wire, or tuples of them."""


@dataclass(frozen=True, eq=False, slots=True)
class PreparedControl:
    """A ControlNet of one run: its prepared hint, and the noise levels between which it is active."""

    net: ControlNet
    hint: Tensor
    strength: float
    start: float
    end: float

    def acts(self, sigma: float) -> bool:
        return self.end <= sigma <= self.start


@dataclass(frozen=True, eq=False, slots=True)
class Prepared:
    """A CONDITIONING item prepared for a run."""

    inputs: Inputs
    strength: float = 1.0
    """Weight relative to the other items of the conditioning."""
    area: tuple[int, int, int, int] | None = None
    """Height, width, top, left in latent cells: the area it applies to. None: everywhere."""
    mask: Tensor | None = None
    """Spatial weight, float [B or 1, H, W] at any size."""
    start: float = math.inf
    end: float = 0.0
    """Active from noise level ``start`` down to ``end``."""
    controls: tuple[PreparedControl, ...] = ()
    patches: tuple[Patch, ...] = ()
    """Patches of the network for this item."""

    def acts(self, sigma: float) -> bool:
        """Whether it is active at this noise level."""
        return self.end <= sigma <= self.start

    def crop(self, x: Tensor) -> Tensor:
        """The area of x [B, C, H, W] that it applies to."""
        if self.area is None:
            return x
        height, width, top, left = self.area
        return x[..., top : top + height, left : left + width]

    def batch_key(self) -> tuple[Any, ...]:
        """Items with equal keys can share one call of the network."""
        shapes = tuple((name, t.shape[1:], t.dtype) for name, t in self.inputs.batched.items())
        controls = tuple((id(c.net), c.strength, c.start, c.end) for c in self.controls)
        return shapes, self.area, controls, tuple(map(id, self.patches))


class Patch(Protocol):
    """A change of how a network computes, made by a node."""

    def around(self, model: Model, state: Tensor) -> AbstractContextManager[None]:
        """Context of one call of the model's network for the state [B, C, ...], in which the change is active."""
        ...


@dataclass(frozen=True, eq=False)
class Model:
    """A diffusion network ready for sampling. Immutable: ``with_...`` returns a new value on the same weights."""

    loaded: Loaded
    """Its network; states are float32 whatever its dtype."""
    family: Family
    sampling: ModelSampling
    latent: LatentFormat
    loras: tuple[tuple[Lora, float], ...] = ()
    recommended: Mapping[str, Any] = field(default_factory=dict)
    """Recommended settings: steps, cfg, guidance, sampler_name, ..."""
    patches: tuple[Patch, ...] = ()
    guidance: tuple[Guidance, ...] = ()
    """Changes of guidance, applied in this order."""
    differential: Differential | None = None
    """Varies the noise mask from step to step."""
    step_cache: StepCache | None = None
    """When steps may be reused instead of computed."""
    begins_with: Tensor | None = None
    """Causal video models: the VAE latent [1, C, n, h, w] of the first frames to continue from."""

    def with_sampling(self, sampling: ModelSampling) -> Model:
        """A copy with other noise levels."""
        return replace(self, sampling=sampling)

    def with_lora(self, lora: Lora, strength: float) -> Model:
        """A copy with one more LoRA."""
        changed = self.loaded.with_network(lora.changed(self.loaded.network, strength))
        return replace(self, loaded=changed, loras=(*self.loras, (lora, strength)))

    def process_in(self, latent: Tensor) -> Tensor:
        """VAE latent z to the network's state: (z - shift) * scale."""
        return self.latent.process_in(latent)

    def process_out(self, state: Tensor) -> Tensor:
        """The inverse of :meth:`process_in`."""
        return self.latent.process_out(state)

    def _known(self, latent: Any) -> Any:
        """VAE latents (one or several) as network states."""
        if isinstance(latent, tuple):
            return tuple(map(self._known, latent))
        return self.process_in(latent.to(self.loaded.device))

    @torch.no_grad()
    def prepare(self, conditioning: Sequence[Any], x: Tensor) -> list[Prepared]:
        """Prepare a CONDITIONING once per run, for states like x [B, C, H, W].

        Raises:
            ValueError: text or hints for another number of pictures than x has, or what the family lacks.
        """
        with self.loaded.resident() as network:
            return [self._prepare(network, text, extras, x) for text, extras in conditioning]

    def _prepare(self, network: Any, text: Tensor, extras: Mapping[str, Any], x: Tensor) -> Prepared:
        area = extras.get("area")
        whole = Prepared(Inputs({}), extras.get("strength", 1.0), area, extras.get("mask"))
        device = self.loaded.device
        part = whole.crop(x).to(device)
        latents = {k: v for k in VAE_LATENTS if (v := extras.get(k)) is not None}
        extras = {**extras, **{k: self._known(v) for k, v in latents.items()}}
        text = self.loaded.inputs(_rows("text", text, len(x)))
        inputs = self.family.prepare(network, text, extras, part)
        inputs = Inputs({k: _rows(k, v, len(x)).to(device) for k, v in inputs.batched.items()}, inputs.shared)
        return replace(
            whole,
            inputs=inputs,
            start=self._sigma(extras.get("start_percent", 0.0)),
            end=self._sigma(extras.get("end_percent", 1.0)),
            controls=tuple(self._prepare_control(c, part) for c in extras.get("control", ()) if c.strength),
        )

    def _prepare_control(self, control: Control, x: Tensor) -> PreparedControl:
        if control.net.family is not self.family:
            expected, actual = self.family.title, control.net.family.title
            raise ValueError(f"ControlNet {control.net.loaded.name} is for {actual}, the model is {expected}")
        assert self.family.prepare_hint  # a family without has no ControlNets
        hint = control.net.loaded.inputs(_rows("hint images", self.family.prepare_hint(control, x), len(x)))
        start, end = self._sigma(control.start_percent), self._sigma(control.end_percent)
        return PreparedControl(control.net, hint, control.strength, start, end)

    def _sigma(self, percent: float) -> float:
        """Noise level at a fraction of sampling; the ends are open, so that rounding cannot drop a step."""
        return math.inf if percent <= 0 else self.sampling.percent_to_sigma(percent)

    @torch.no_grad()
    def predict(
        self, x: Tensor, sigma: Tensor, prepared: Sequence[Prepared], cached: CachedRun | None = None
    ) -> list[Tensor]:
        """Predict the denoised image for a state.

        Args:
            x: State float32 [B, C, H, W].
            sigma: Noise level of each picture, [B], or of each place, [B, 1, ...] of x's size.
            prepared: What :meth:`prepare` gave.
            cached: Memory of the run, where steps may be reused.

        Returns:
            The denoised picture x0 for each entry, float32, of the shape of its area of x.
        """
        groups: dict[tuple[Any, ...], list[int]] = {}
        for i, entry in enumerate(prepared):
            groups.setdefault(entry.batch_key(), []).append(i)
        denoised: dict[int, Tensor] = {}
        reused = cached is not None and cached.begin(
            self.sampling.network_input(sigma, x),
            float(sigma.max()),
            frozenset(tuple(id(prepared[i]) for i in members) for members in groups.values()),
        )
        with self.loaded.resident() as network, self._adapted():
            for members in groups.values():
                predicted = self._predict_together(
                    network, x, sigma, [prepared[i] for i in members], cached, reused=reused
                )
                denoised.update(zip(members, torch.split(predicted, len(x)), strict=True))
        if cached is not None and not reused:
            cached.end()
        return [denoised[i] for i in range(len(prepared))]

    def _predict_together(
        self,
        network: Any,
        x: Tensor,
        sigma: Tensor,
        entries: Sequence[Prepared],
        cached: CachedRun | None,
        *,
        reused: bool,
    ) -> Tensor:
        """One call of the network for entries of equal keys; x0 [entries * B, C, h, w]."""
        count, first = len(entries), entries[0]
        part = first.crop(x)
        sigma = first.crop(sigma) if sigma.ndim > 1 else sigma
        state = self.loaded.inputs(self.sampling.network_input(sigma, part))
        state = state.repeat(count, *[1] * (x.ndim - 1))
        key = tuple(id(e) for e in entries)
        if cached is not None and reused:
            output = cached.reuse(key, state).to(x.device)
        else:
            output = self._ask(network, state, sigma, entries).to(x.device)
            if cached is not None:
                cached.learn(key, state.to(x.device), output)
        return torch.cat([self.sampling.denoised(sigma, o, part) for o in torch.split(output, len(x))])

    def _ask(self, network: Any, state: Tensor, sigma: Tensor, entries: Sequence[Prepared]) -> Tensor:
        """Output of the network for entries of equal keys, float32 of the state's shape."""
        count, first = len(entries), entries[0]
        timestep = self.sampling.timestep(sigma).to(state.device).repeat(count, *[1] * (sigma.ndim - 1))
        batched = {k: torch.cat([e.inputs.batched[k] for e in entries]) for k in first.inputs.batched}
        inputs = Inputs(batched, first.inputs.shared)
        residuals = {}
        if first.controls:
            residuals = self._residuals(network, state, timestep, inputs, entries, float(sigma.max()))
        with ExitStack() as around:
            for patch in (*self.patches, *first.patches):
                around.enter_context(patch.around(self, state))
            return self.family.call(network, state, timestep, inputs, residuals).float()

    def _residuals(
        self,
        network: Any,
        state: Tensor,
        timestep: Tensor,
        inputs: Inputs,
        entries: Sequence[Prepared],
        sigma: float,
    ) -> dict[str, list[Tensor]]:
        """Sum of the residuals of all ControlNets active at this noise level."""
        total: dict[str, list[Tensor]] = {}
        for i, control in enumerate(entries[0].controls):
            if not control.acts(sigma):
                continue
            hint, loaded = torch.cat([e.controls[i].hint for e in entries]), control.net.loaded
            control_inputs = Inputs({k: v.to(loaded.dtype) for k, v in inputs.batched.items()}, inputs.shared)
            assert self.family.control
            with loaded.resident() as control_network:
                residuals = self.family.control(
                    control_network, network, loaded.inputs(state), timestep, control_inputs, hint, control.strength
                )
            for name, samples in residuals.items():
                samples = [s.to(state.dtype) for s in samples]
                total[name] = [a + b for a, b in zip(total[name], samples, strict=True)] if name in total else samples
        return total

    def _adapted(self) -> Any:
        """Context in which the LoRAs are active."""
        if not self.loras:
            return nullcontext()
        from .adapters.lora import active

        return active(self.loaded.network, self.loras)


def _rows(subject: str, tensor: Tensor, count: int) -> Tensor:
    """The tensor with ``count`` rows; a single row is shared."""
    if len(tensor) not in (1, count):
        raise ValueError(f"{len(tensor)} {subject} for {count} images: give one, or one for each")
    return tensor.expand(count, *tensor.shape[1:])
