"""Generate a video chunk by chunk with a causal video model: Self Forcing (arXiv 2506.08009, algorithm 2).

Each chunk is sampled in few steps, each a prediction that is noised again, attending to the KV cache of earlier chunks.
Then the network is called once more on the finished chunk at noise level 0, which fills the cache for that chunk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pipegraph.models.family import LatentFormat
from pipegraph.models.model import Model
from pipegraph.models.sampling.guiders import GuidedDenoiser
from pipegraph.models.sampling.model_sampling import ModelSampling
from pipegraph.models.sampling.samplers import Sampler
from pipegraph.models.sampling.samplers_sde import lcm
from pipegraph.models.sampling.steps import Denoiser, SamplerStep, StepNoise, Steps

from .memory import Memory


@dataclass(frozen=True, slots=True)
class ChunkStep:
    """One sampling step of one chunk."""

    start: int
    """The chunk's first latent frame."""
    step: SamplerStep
    """Numbered over all chunks; its prediction is of this chunk."""
    finished: bool


@dataclass(frozen=True, slots=True)
class Rollout:
    """Chunk length and attention window, in latent frames."""

    chunk: int
    window: int = 0
    """Maximum number of visible frames, including the current chunk and the sink. 0: all."""
    sink: int = 0
    """First frames that are never evicted (attention sink)."""

    def sampler(self) -> RolloutSampler:
        """The value on a SAMPLER wire."""
        return RolloutSampler("ar_video", self._run, blockwise=True, rollout=self)

    def check(self, cells: int, first: int, latent: LatentFormat) -> None:
        """ValueError if ``cells`` latent frames, the first ones known, cannot be split into chunks."""
        left = (cells - first) % self.chunk
        if left:
            lengths = [1 + latent.frames * (c - 1) for c in (cells - left, cells - left + self.chunk) if c > first]
            raise ValueError(
                f"a video of {1 + latent.frames * (cells - 1)} frames has {cells - first} latent frames to be made, "
                f"which are no whole number of chunks of {self.chunk}: make it {' or '.join(map(str, lengths))} long"
            )
        least = max(self.chunk + self.sink, first)
        if self.window and self.window < least:
            raise ValueError(
                f"a window of {self.window} latent frames has no room for a chunk of {self.chunk} and {self.sink} that "
                f"are always seen: it must be {least} or more, or 0 for no window"
            )

    def parts(
        self,
        denoise: GuidedDenoiser,
        cells: int,
        state: Callable[[int, int], Tensor],
        sigmas: Tensor,
        noise: StepNoise,
    ) -> Iterator[ChunkStep]:
        """Generate ``cells`` latent frames; yields after each step of each chunk.

        Args:
            denoise: The model with one conditioning, without guidance.
            cells: Latent frames, including known first ones.
            state: First and last frame (exclusive) -> their state [B, C, n, h, w] at sigmas[0].
            sigmas: The noise levels of every chunk; they end at 0.
            noise: Fresh noise.
        """
        first = begins_with(denoise.model, 1)
        known = 0 if first is None else first.shape[2]
        self.check(cells, known, denoise.model.latent)
        if float(sigmas[-1]) != 0:
            raise ValueError(f"a causal video needs sigmas that end at 0, these end at {float(sigmas[-1]):.4g}")
        chunks, memory = (cells - known) // self.chunk, None
        for number in range(chunks):
            start = known + number * self.chunk
            x = state(start, start + self.chunk)
            if memory is None:
                memory = self._memory(denoise, x, cells)
                if known:
                    self._remember(memory, denoise, begins_with(denoise.model, len(x)))
            for step in lcm(_Seeing(denoise, memory), x, sigmas, noise):
                done, total = number * step.total + step.done, chunks * step.total
                yield ChunkStep(start, step._replace(done=done, total=total), step.done == step.total)
                x = step.denoised
            if number + 1 < chunks:
                self._remember(memory, denoise, x)

    def _run(self, denoise: Denoiser, x: Tensor, sigmas: Tensor, noise: StepNoise) -> Steps:
        if not isinstance(denoise, GuidedDenoiser):
            raise ValueError("a causal model makes a video from its beginning on: a noise mask cannot be used with it")
        latent = torch.zeros_like(x)
        if (first := begins_with(denoise.model, len(x))) is not None:
            latent[:, :, : first.shape[2]] = first
        for part in self.parts(denoise, x.shape[2], lambda a, b: x[:, :, a:b], sigmas, noise):
            latent[:, :, part.start : part.start + self.chunk] = part.step.denoised
            yield part.step._replace(denoised=latent)
        return latent

    def _memory(self, denoise: GuidedDenoiser, x: Tensor, cells: int) -> Memory:
        network: Any = denoise.model.loaded.network
        name, config = type(network).__name__, network.config
        if name != "WanTransformer3DModel" or config.in_channels != x.shape[1] or config.image_dim is not None:
            raise ValueError(
                f"{denoise.model.loaded.name or name} cannot make a video chunk by chunk: it needs a causal Wan model "
                "for text to video (Self Forcing, CausVid, Causal Forcing)"
            )
        if getattr(network, "_parallel_config", None) is not None:
            raise ValueError("a video made chunk by chunk cannot be shared by several processes: leave out --parallel")
        changes = (*denoise.model.patches, *denoise.model.guidance, denoise.model.step_cache)
        if names := ", ".join(type(change).__name__ for change in changes if change is not None):
            raise ValueError(f"a video made block by block cannot use {names}: give the sampler the model without it")
        entries = denoise.entries
        if len(entries) != 1 or entries[0].area is not None or entries[0].mask is not None or entries[0].controls:
            raise ValueError(
                "a causal model takes one conditioning of the whole image: give it cfg 1 and no further "
                "conditionings, areas or controls"
            )
        _, rows, columns = config.patch_size
        tokens = -(-x.shape[-2] // rows), -(-x.shape[-1] // columns)
        return Memory(network, *tokens, min(self.window or cells, cells), self.chunk, self.sink)

    @staticmethod
    def _remember(memory: Memory, denoise: GuidedDenoiser, clean: Tensor | None) -> None:
        assert clean is not None
        with memory.attached():
            denoise(clean, 0.0)
        memory.keep(clean.shape[2])


@dataclass(frozen=True, slots=True)
class RolloutSampler(Sampler):
    """A sampler that generates a video chunk by chunk."""

    rollout: Rollout = Rollout(1)


class _Seeing:
    """A denoiser with a KV cache."""

    def __init__(self, inner: GuidedDenoiser, memory: Memory) -> None:
        self._inner, self._memory = inner, memory
        self.sampling: ModelSampling = inner.sampling

    def __call__(self, x: Tensor, sigma: float) -> Tensor:
        with self._memory.attached():
            return self._inner(x, sigma)


def begins_with(model: Model, count: int) -> Tensor | None:
    """The network state of the first frames that the model continues from, [count, C, n, h, w]; None without."""
    if model.begins_with is None:
        return None
    first = model.process_in(model.begins_with.to(model.loaded.device, torch.float32))
    return first.expand(count, -1, -1, -1, -1)
