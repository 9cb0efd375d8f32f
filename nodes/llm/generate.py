"""Prefill and decode of language models, apart and together."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Gt, Le

from pipegraph.generators import converted
from pipegraph.runtime.node import Linked, NodeEvent, Progress, RunContext, Step, Token, node, outputs

from ..wire import LLM, Grammar, KVCache, Sampling, SeedInt, Tokens
from .prompt import LongText

if TYPE_CHECKING:
    from pipegraph.models.llm.prefill import Prefilled

MaxTokens = Annotated[int, Ge(1), Le(1 << 20)]
WhenCut = Literal["warn", "fail"]
Kernels = dict[str, set[str]]
"""Back ends that have run, by op."""
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
    """How the next token is chosen. The seed and the length belong to the node that decodes.

    Args:
        temperature: 0 takes the likeliest token; 1 draws as the model says; more is more daring.
        top_k: Draw among so many likeliest tokens; 0: all.
        top_p: Draw among the fewest likeliest tokens that have this probability together; 1: all.
        min_p: Draw among tokens at least this many times as likely as the likeliest; 0: all.
        repetition_penalty: Makes what prompt and reply hold less likely; 1: off.
        presence_penalty: Taken off the logits of tokens that the reply holds; 0: off.
        frequency_penalty: The same for each time that the reply holds them; 0: off.
        min_tokens: The reply does not end by an id before so many tokens; a text of `stop` ends it all the same.
        stop: Texts that end a reply and are left out of it, one a line; `\\n` is a line break.
        stop_ids: Ids that end a reply besides the model's own, with commas between them.
    """
    from pipegraph.models.llm.sampling import SamplingParams

    lines = [line.replace("\\n", "\n").replace("\\t", "\t") for line in stop.splitlines()]
    made = SamplingParams(
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
    if made.idle:
        ctx.warn(f"temperature is 0, so no token is drawn: {', '.join(made.idle)} does nothing")
    return made


def _ids(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.replace(",", " ").split())
    except ValueError as e:
        raise ValueError(f"ids are numbers with commas between them, not {text!r}") from e


@node("LogitBias", category="llm", output="sampling")
def logit_bias(
    llm: LLM,
    words: LongText,
    bias: Annotated[float, Ge(-100), Le(100), Step(0.5)] = -100.0,
    sampling: Sampling | None = None,
) -> Sampling:
    """Make tokens likelier or less likely: those that the words begin with, at a beginning and after a space.

    Args:
        llm: Whose tokens are meant.
        words: One a line.
        bias: Added to the logits of those tokens; -100 forbids them.
        sampling: What it is added to.
    """
    from dataclasses import replace

    from pipegraph.models.llm.sampling import SamplingParams

    tokenizer = llm.tokenizer
    if tokenizer is None:
        raise ValueError(f"{llm.name} has no tokenizer")
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
    """Read a prompt: all its tokens at once, so this is bound by arithmetic and sets the time to the first token.

    Args:
        llm: What reads.
        tokens: The prompt.
        cache: What was read before; it stays as it is.
        kv: How keys and values are kept: as the model computes, or as int8 with a scale a token and head.
        chunk: How many tokens run through the network at once.
        reuse: Begin with what the model has read before of the same tokens, also in other runs, and keep what it reads.
    """
    from pipegraph.models.llm.prefill import prefill

    kernels: Kernels = {}
    held = cache.cache if cache else None
    made: Prefilled = yield from reading(prefill(llm, tokens, cache=held, chunk=chunk, kv=kv, reuse=reuse), kernels)
    _note(ctx, made.stats, kernels)
    return made


@outputs
class Replied:
    """What a model said."""

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
    """Write a reply, a token at a time: each reads all weights once, so this is bound by memory.

    Gives the text, its tokens, the cache to go on from, why it ended (`stop`, `length`, or `constraint`) and whether it
    is whole: false if the limit cut a reply that has to keep to a form.

    Args:
        llm: What writes.
        cache: What it has read; it stays as it is, so that several nodes can go on from one.
        sampling: How tokens are chosen; the likeliest each time if nothing is linked.
        grammar: The form that the reply keeps to.
        seed: Of the draws; sequence i of a batch has draws of its own.
        max_tokens: The reply ends after so many tokens at the latest.
        when_cut: What a reply is that has a form and is cut by the limit.
    """
    from pipegraph.models.llm.decode import decode

    params, constraint, stopper = set_up(llm, sampling, grammar, seed, max_tokens)
    kernels: Kernels = {}
    reply = yield from telling(decode(llm, cache, params, constraint=constraint, stopper=stopper), kernels)
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
    """Write a reply with the help of a smaller model that guesses ahead; the distribution of replies stays the same.

    Args:
        llm: What writes.
        draft: What guesses; it must have the same tokens.
        cache: What `llm` has read; it stays as it is.
        sampling: How tokens are chosen; the likeliest each time if nothing is linked.
        grammar: The form that the reply keeps to.
        seed: Of the draws.
        max_tokens: The reply ends after so many tokens at the latest.
        draft_tokens: How many tokens are guessed at a time.
        when_cut: What a reply is that has a form and is cut by the limit.
    """
    from pipegraph.models.llm.speculative import speculate

    params, constraint, stopper = set_up(llm, sampling, grammar, seed, max_tokens)
    made = speculate(llm, cache, draft, params, draft_tokens=draft_tokens, constraint=constraint, stopper=stopper)
    kernels: Kernels = {}
    reply = yield from telling(made, kernels)
    return replied(ctx, reply, constraint, when_cut, kernels, max_tokens)


def set_up(llm: LLM, sampling: Any, grammar: Any, seed: int, max_tokens: int) -> tuple[Any, Any, Any]:
    """Parameters, constraint and stopper of a decode."""
    from dataclasses import replace

    from pipegraph.models.llm.sampling import SamplingParams
    from pipegraph.models.llm.stopping import Stopper, split_stops
    from pipegraph.models.llm.structured import Constraint

    if llm.tokenizer is None:
        raise ValueError(f"{llm.name} has no tokenizer")
    params = replace(sampling or SamplingParams(), seed=seed, max_tokens=max_tokens)
    texts, ids = split_stops(llm.tokenizer, params.stop)
    params = replace(params, stop=texts, stop_ids=(*params.stop_ids, *ids))
    stops = llm.facts.stop_ids | set(params.stop_ids)
    constraint = grammar and Constraint(grammar, llm.tokenizer, llm.facts.vocabulary, stops)
    return params, constraint, Stopper(llm.tokenizer, params.stop)


def reading(steps: Any, kernels: Kernels) -> Generator[Progress, None, Any]:
    """The events of a prefill as those of a node; gives what was read. What computes is added to ``kernels``."""
    return _events(steps, kernels, lambda step: Progress(step.done, step.total, "tok"))


def telling(steps: Any, kernels: Kernels) -> Generator[Token, None, Any]:
    """The events of a decode as those of a node; gives its reply. What computes is added to ``kernels``."""
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
    """The outputs of a decode; a reply that is shorter than was asked for, or not of its form, is said to be."""
    cut = [s for s in range(len(reply.texts)) if constraint and not constraint.complete(s)]
    told = {"cut_sequences": cut} if cut else {}
    _note(ctx, reply.stats, kernels, finish=list(reply.finish), **told)
    early = [len(ids) for ids, f in zip(reply.tokens, reply.finish, strict=True) if f == "length"]
    if early and min(early) < max_tokens:
        ctx.warn(
            f"the reply ends after {min(early)} tokens, before {max_tokens}: the context of the model is full, or the "
            "memory for its keys and values (PIPEGRAPH_KV_BUDGET)"
        )
    if cut:
        message = (
            f"the reply was cut after {len(reply.tokens.ids[cut[0]])} tokens and does not keep to its form; "
            "give it more tokens, or a form that ends sooner"
        )
        if when_cut == "fail":
            raise ValueError(message)
        ctx.warn(message)
    finish = ", ".join(dict.fromkeys(reply.finish))
    return Replied("\n\n".join(reply.texts), reply.tokens, reply.prefilled, finish, not cut)
