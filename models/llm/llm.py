"""The value on an LLM wire: a network that predicts tokens, its tokenizer, and facts about both."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from pipegraph.kernels.hooks.install import install

from ..loaded import Loaded
from .facts import Facts, read_facts

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from .network.vision import Vision
    from .tokenizer import Tokenizer


@dataclass(frozen=True, eq=False)
class LLM:
    """A language model. Running it does not change it."""

    loaded: Loaded
    """A network of transformers with a language-model head, in eval mode, on the kernel layer.

    Its dtype is that of the hidden states, and of keys and values.
    """
    tokenizer: Tokenizer | None
    facts: Facts
    vision: Vision | None = None
    """Image input of a vision-language model."""
    prefix_caches: dict[tuple[str, str], Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    """``prefixes.PrefixCache`` by kind of cache and device."""

    @classmethod
    def of(cls, network: PreTrainedModel, tokenizer: Tokenizer | None = None, name: str = "") -> LLM:
        """Put a transformers model on the kernel layer, in place, and read its facts.

        Raises:
            ValueError: the model has no language-model head, or a layer whose cache is not supported.
        """
        if network.get_output_embeddings() is None:
            raise ValueError(f"{type(network).__name__} has no language-model head: it predicts no tokens")
        from .cache import kv_cache as cache
        from .network import experts, layers
        from .network.vision import Vision

        name = name or type(network).__name__
        facts = read_facts(network, tokenizer)
        if "reuse" in (getattr(network.config.get_text_config(decoder=True), "kv_sharing_modes", None) or ()):
            raise ValueError(f"{name}: layers that share the keys of other layers are not supported")
        cache.attention_groups(facts.kinds, name)
        network.eval().requires_grad_(False)
        install(network)
        layers.register()
        network.set_attn_implementation(layers.NAME)
        if network._can_set_experts_implementation():
            experts.register()
            network.set_experts_implementation(experts.NAME)
        device = next(network.parameters()).device
        floats = (p.dtype for p in network.parameters() if p.is_floating_point())
        loaded = Loaded(network, device, next(floats, torch.get_default_dtype()), name)
        return cls(loaded, tokenizer, facts, Vision.of(network))
