"""Prefill and decode of language models."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Gt, Le

from pipegraph.generators import converted
from pipegraph.runtime.node import Linked, NodeEvent, Progress, RunContext, Step, Token, node, outputs

from ..wire import LLM, Grammar, KVCache, Sampling, SeedInt, Tokens
from .prompt import LongText

if TYPE_CHECKING:
    from pipegraph.models.llm.decode.prefill import Prefilled

MaxTokens = Annotated[int, Ge(1), Le(1 << 20)]
WhenCut = Literal["warn", "fail"]
Kernels = dict[str, set[str]]
"""Back ends that ran, by op."""
E = TypeVar("E")


def _check_ids(values: Mapping[str, Any], linked: Linked) -> Iterable[tuple[str, str]]:
    try:
        _ids(values.get("stop_ids", ""))
    except ValueError as error:
        yield "stop_ids", str(error)


@node("SamplingParams", category="llm", output="sampling", check=_check_ids)
def sampling_params(
    ctx: RunContext,
    temperature: Annotated[float, Ge(0), Le(100), Step(0.05)] = 0.7,
    top_k: Annotated[int, Ge(0)] = 0,
    top_p: Annotated[float, Gt(0), Le(1), Step(0.01)] = 1.0,
    min_p: Annotated[float, Ge(0), Le(1), Step(0.01)] = 0.0,
    repetition_penalty: Annotated[float, Gt(0), Le(10), Step(0.01)] = 1.0,
    presence_penalty: Annotated[float, Ge(-10), Le(10), Step(0.1)] = 0.0,
    frequency_penalty: Annotated[float, Ge(-10), Le(10), Step(0.1)] = 0.0,
    min_tokens: Annotated[int, Ge(0)] = 0,
    stop: LongText = "",
    stop_ids: str = "",
) -> Sampling:
    r"""Set how the next token is sampled. Seed and length are inputs of the node that decodes.

    Args:
        temperature: 0 is greedy; 1 samples the model's distribution; higher is more random.
        top_k: Sample from this many likeliest tokens; 0: all.
        top_p: Sample from the smallest set of tokens with this total probability; 1: all.
        min_p: Sample from tokens with at least this fraction of the highest probability; 0: all.
        repetition_penalty: Penalty on tokens of the prompt and the reply; 1: off.
        presence_penalty: Subtracted from the logits of tokens in the reply; 0: off.
        frequency_penalty: The same, for each occurrence in the reply; 0: off.
        min_tokens: No end by a stop id before this many tokens; a text of `stop` still ends the reply.
        stop: Stop strings, one a line, left out of the reply; `\n` is a line break.
        stop_ids: Token ids that end a reply besides the model's own, separated by commas.
    """
    from pipegraph.models.llm.decode.sampling import SamplingParams

    lines = [line.replace("\\n", "\n").replace("\\t", "\t") for line in stop.splitlines()]
    params = SamplingParams(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        presence_penalty=presence_penalty,
        frequency_penalty=frequency_penalty,
        min_tokens=min_tokens,
        max_tokens=max(256, min_tokens),
        stop=tuple(line for line in lines if line),
        stop_ids=_ids(stop_ids),
    )
    if params.idle:
        ctx.warn(f"temperature is 0, so no token is sampled: {', '.join(params.idle)} does nothing")
    return params


def _ids(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.replace(",", " ").split())
    except ValueError as e:
        raise ValueError(f"ids are numbers separated by commas, not {text!r}") from e


@node("LogitBias", category="llm", output="sampling")
def logit_bias(
    llm: LLM,
    words: LongText,
    bias: Annotated[float, Ge(-100), Le(100), Step(0.5)] = -100.0,
    sampling: Sampling | None = None,
) -> Sampling:
    """Add a bias to the first token of each word, at the start of a text and after a space.

    Args:
        llm: Language model whose tokenizer is used.
        words: One word a line.
        bias: Added to the logits of those tokens; -100 forbids them.
        sampling: Sampling parameters to extend.
    """
    from dataclasses import replace

    from pipegraph.models.llm.decode.sampling import SamplingParams

    tokenizer = llm.tokenizer
    if tokenizer is None:
        raise ValueError(f"{llm.loaded.name} has no tokenizer")
    before, start = sampling or SamplingParams(), len(tokenizer.start)
    listed = [word for word in words.splitlines() if word.strip()]
    first = {tokenizer.encode(text)[start] for word in listed for text in (word, " " + word.lstrip())}
    value = -float("inf") if bias == -100 else bias
    return replace(before, logit_bias={**before.logit_bias, **dict.fromkeys(sorted(first), value)})


@node("LLMPrefill", category="llm", title="LLM Prefill", output="cache")
def llm_prefill(
    ctx: RunContext,
    llm: LLM,
    tokens: Tokens,
    cache: KVCache | None = None,
    kv: Literal["native", "int8"] = "native",
    chunk: Annotated[int, Ge(1), Le(1 << 20)] = 512,
    reuse: bool = True,
) -> Generator[Progress, None, KVCache]:
    """Prefill a prompt: all tokens at once, so this is compute-bound and sets the time to first token.

    Args:
        llm: Language model.
        tokens: The prompt.
        cache: KV cache to continue from; it is not changed.
        kv: Storage of keys and values: the model's dtype, or int8 with a scale per token and head.
        chunk: Tokens per forward pass.
        reuse: Reuse cached prefixes of the same tokens, also from other runs, and cache the new ones.
    """
    from pipegraph.models.llm.decode.prefill import prefill

    kernels: Kernels = {}
    kv_cache = cache.cache if cache else None
    prefilled: Prefilled = yield from reading(
        prefill(llm, tokens, cache=kv_cache, chunk=chunk, kv=kv, reuse=reuse), kernels
    )
    _note(ctx, prefilled.stats, kernels)
    return prefilled


@outputs
class Replied:
    """The reply of a model."""

    text: str
    tokens: Tokens
    cache: KVCache
    finish: str
    valid: bool


@node("LLMDecode", category="llm", title="LLM Decode", effect="random")
def llm_decode(
    ctx: RunContext,
    llm: LLM,
    cache: KVCache,
    sampling: Sampling | None = None,
    grammar: Grammar | None = None,
    seed: SeedInt = 0,
    max_tokens: MaxTokens = 256,
    when_cut: WhenCut = "warn",
) -> Generator[NodeEvent, None, Replied]:
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
    from pipegraph.models.llm.decode.decode import decode

    params, constraint, stopper = set_up(llm, sampling, grammar, seed, max_tokens)
    kernels: Kernels = {}
    reply = yield from decoding(decode(llm, cache, params, constraint=constraint, stopper=stopper), kernels)
    return replied(ctx, reply, constraint, when_cut, kernels, max_tokens)


@node("SpeculativeDecode", category="llm", effect="random")
def speculative_decode(
    ctx: RunContext,
    llm: LLM,
    draft: LLM,
    cache: KVCache,
    sampling: Sampling | None = None,
    grammar: Grammar | None = None,
    seed: SeedInt = 0,
    max_tokens: MaxTokens = 256,
    draft_tokens: Annotated[int, Ge(1), Le(64)] = 4,
    when_cut: WhenCut = "warn",
) -> Generator[NodeEvent, None, Replied]:
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
    from pipegraph.models.llm.decode.speculative import speculate

    params, constraint, stopper = set_up(llm, sampling, grammar, seed, max_tokens)
    steps = speculate(llm, cache, draft, params, draft_tokens=draft_tokens, constraint=constraint, stopper=stopper)
    kernels: Kernels = {}
    reply = yield from decoding(steps, kernels)
    return replied(ctx, reply, constraint, when_cut, kernels, max_tokens)


def set_up(llm: LLM, sampling: Any, grammar: Any, seed: int, max_tokens: int) -> tuple[Any, Any, Any]:
    """Parameters, constraint and stopper of a decode."""
    from dataclasses import replace

    from pipegraph.models.llm.decode.sampling import SamplingParams
    from pipegraph.models.llm.decode.stopping import Stopper, split_stops
    from pipegraph.models.llm.decode.structured import Constraint

    if llm.tokenizer is None:
        raise ValueError(f"{llm.loaded.name} has no tokenizer")
    params = replace(sampling or SamplingParams(), seed=seed, max_tokens=max_tokens)
    texts, ids = split_stops(llm.tokenizer, params.stop)
    params = replace(params, stop=texts, stop_ids=(*params.stop_ids, *ids))
    stops = llm.facts.stop_ids | set(params.stop_ids)
    constraint = grammar and Constraint(grammar, llm.tokenizer, llm.facts.vocabulary, stops)
    return params, constraint, Stopper(llm.tokenizer, params.stop)


def reading(steps: Any, kernels: Kernels) -> Generator[Progress, None, Any]:
    """Convert the events of a prefill to node events; return its result. Back ends used are added to ``kernels``."""
    return _events(steps, kernels, lambda step: Progress(step.done, step.total, "tok"))


def decoding(steps: Any, kernels: Kernels) -> Generator[Token, None, Any]:
    """Convert the events of a decode to node events; return its reply. Back ends used are added to ``kernels``."""
    return _events(steps, kernels, lambda event: Token(event.text, event.id, event.sequence))


def _events(steps: Any, kernels: Kernels, convert: Callable[[Any], E]) -> Generator[E, None, Any]:
    from pipegraph.kernels.dispatch import noting

    return converted(steps, convert, lambda: noting(kernels))


def _note(ctx: RunContext, stats: Any, kernels: Kernels, **more: Any) -> None:
    ctx.note("llm", {**stats.record(), **more})
    ctx.note("kernels", {op: sorted(names) for op, names in sorted(kernels.items())})


def replied(
    ctx: RunContext, reply: Any, constraint: Any, when_cut: WhenCut, kernels: Kernels, max_tokens: int
) -> Replied:
    """Outputs of a decode; warns if the reply is shorter than requested or does not follow its grammar."""
    cut = [s for s in range(len(reply.texts)) if constraint and not constraint.complete(s)]
    extra = {"cut_sequences": cut} if cut else {}
    _note(ctx, reply.stats, kernels, finish=list(reply.finish), **extra)
    early = [len(ids) for ids, f in zip(reply.tokens, reply.finish, strict=True) if f == "length"]
    if early and min(early) < max_tokens:
        ctx.warn(
            f"the reply ends after {min(early)} tokens, before {max_tokens}: the context of the model is full, or the "
            "memory for its keys and values (PIPEGRAPH_KV_BUDGET)"
        )
    if cut:
        message = (
            f"the reply was cut after {len(reply.tokens.ids[cut[0]])} tokens and does not follow its grammar; "
            "give it more tokens, or a grammar that ends sooner"
        )
        if when_cut == "fail":
            raise ValueError(message)
        ctx.warn(message)
    finish = ", ".join(dict.fromkeys(reply.finish))
    return Replied("\n\n".join(reply.texts), reply.tokens, reply.prefilled, finish, not cut)
