"""A prompt to a text in one node."""

from __future__ import annotations

from collections.abc import Generator

from pipegraph.runtime.node import NodeEvent, RunContext, node, outputs

from .llm import LongText, Thinking, written_chat
from .llm_generate import Kernels, MaxTokens, WhenCut, reading, replied, set_up, telling
from .wire import LLM, Grammar, Sampling, SeedInt


@outputs
class Generated:
    """A text, why it ended (`stop`, `length`, or `constraint`) and whether it is whole."""

    text: str
    finish: str
    valid: bool


@node("TextGenerate", category="llm", effect="random")
def text_generate(
    ctx: RunContext,
    llm: LLM,
    prompt: LongText,
    system: LongText = "",
    max_length: MaxTokens = 256,
    sampling: Sampling | None = None,
    grammar: Grammar | None = None,
    seed: SeedInt = 0,
    thinking: Thinking = "auto",
    tools: LongText = "",
    chat: bool = True,
    when_cut: WhenCut = "warn",
) -> Generator[NodeEvent, None, Generated]:
    """Answer a prompt: chat template, prefill and decode in one.

    Args:
        llm: What answers.
        prompt: What the user says, or a whole chat as a JSON list of `{"role": ..., "content": ...}`.
        system: What the model is told first.
        max_length: The answer ends after so many tokens at the latest.
        sampling: How tokens are chosen; the likeliest each time if nothing is linked.
        grammar: The form that the answer keeps to.
        seed: Of the draws.
        thinking: Whether the model thinks before it answers; auto leaves it to the template.
        tools: Functions that the model may call, a JSON list of schemas.
        chat: Use the model's chat template; else go on from the prompt as it is.
        when_cut: What an answer is that has a form and is cut by the limit.
    """
    from pipegraph.models.llm.decode import decode
    from pipegraph.models.llm.llm import Tokens as Values
    from pipegraph.models.llm.prefill import prefill

    params, constraint, stopper = set_up(llm, sampling, grammar, seed, max_length)
    if chat:
        _, tokens = written_chat(ctx, llm, prompt, system, tools, thinking)
    else:
        assert llm.tokenizer is not None  # set_up made sure
        tokens = Values((llm.tokenizer.encode(prompt),))
    kernels: Kernels = {}
    read = yield from reading(prefill(llm, tokens), kernels)
    told = decode(llm, read, params, constraint=constraint, stopper=stopper, go_on=False)
    reply = yield from telling(told, kernels)
    made = replied(ctx, reply, constraint, when_cut, kernels)
    return Generated(made.text, made.finish, made.valid)
