"""Generate text from a prompt, images and video frames in one node."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le

from pipegraph.generators import converted
from pipegraph.runtime.node import (
    Extra,
    Formerly,
    Grows,
    Needs,
    NodeEvent,
    RunContext,
    Step,
    Under,
    Wire,
    node,
    outputs,
)

from ..wire import LLM, Audio, Clip, Grammar, Sampling, SeedInt
from .generate import Kernels, MaxTokens, WhenCut, decoding, reading, replied, set_up
from .prompt import LongText, SeenImage, written_chat

On = Under("sampling_mode", "on")
Temperature = Annotated[float, Ge(0), Le(100), Step(0.05), On]
TopK = Annotated[int, Ge(0), On]
TopP = Annotated[float, Gt(0), Le(1), Step(0.01), On]
MinP = Annotated[float, Ge(0), Le(1), Step(0.01), On]
RepetitionPenalty = Annotated[float, Gt(0), Le(10), Step(0.01), On]
PresencePenalty = Annotated[float, Ge(-10), Le(10), Step(0.1), On]
DrawnBy = Annotated[SeedInt, On]
SeenImages = Annotated[
    Mapping[str, Any],
    Wire("IMAGE"),
    Needs("pictures", "reads text only, no images"),
    Grows(tuple(f"image_{i}" for i in range(9))),
]
DraftHeads = Literal["auto", "off", "2", "3", "4", "5"]
Heard = Annotated[Audio, Needs("sounds", "reads text and images, no audio")]
FRAMES = 24
"""Frames a second of the video input; the model gets one frame of each second."""


@outputs
class Generated:
    """Answer, thinking before it, finish reason (`stop`, `length`, `constraint`), whether the reply is complete."""

    generated_text: str
    thinking: str
    finish: str
    valid: bool


@node("TextGenerate", category="llm", title="Generate Text", effect="random")
def text_generate(
    ctx: RunContext,
    clip: Clip | LLM,
    prompt: LongText = "",
    image: SeenImage | None = None,
    images: SeenImages | None = None,
    video: SeenImage | None = None,
    audio: Heard | None = None,
    max_length: MaxTokens = 512,
    sampling_mode: Literal["on", "off"] = "off",
    temperature: Temperature = 0.7,
    top_k: TopK = 64,
    top_p: TopP = 0.95,
    min_p: MinP = 0.05,
    repetition_penalty: RepetitionPenalty = 1.05,
    seed: DrawnBy = 0,
    presence_penalty: PresencePenalty = 0.0,
    thinking: bool = False,
    use_default_template: bool = True,
    mtp: DraftHeads = "auto",
    system_prompt: Annotated[LongText, Formerly("system"), Extra()] = "",
    tools: Annotated[LongText, Extra()] = "",
    sampling: Sampling | None = None,
    draw_seed: Annotated[SeedInt, Extra()] = 0,
    grammar: Grammar | None = None,
    when_cut: Annotated[WhenCut, Extra()] = "warn",
) -> Generator[NodeEvent, None, Generated]:
    """Answer a prompt: chat template, images, prefill and decode in one.

    Args:
        clip: An LLM, or a CLIP whose text encoder is one.
        prompt: User message, or a whole chat as a JSON list of `{"role": ..., "content": ...}`.
        image: Images for a vision-language model, as in ChatTemplate.
        images: Further images, after those of `image`.
        video: Frames, 24 a second; the model gets the first of each second, after the images.
        audio: Not supported by any model that can be loaded.
        max_length: Longest answer in tokens.
        sampling_mode: `on` samples with the settings below; `off` is greedy.
        temperature: As in SamplingParams, like the inputs below.
        top_k: Sample from this many likeliest tokens; 0: all.
        top_p: Sample from the smallest set of tokens with this total probability.
        min_p: Sample from tokens with at least this fraction of the highest probability.
        repetition_penalty: Penalty on tokens of the prompt and the answer; 1: off.
        seed: Seed of the random draws.
        presence_penalty: Subtracted from the logits of tokens in the answer; 0: off.
        thinking: Let a thinking model think before it answers.
        use_default_template: Use the model's chat template; else continue the plain prompt.
        mtp: Multi-token prediction heads draft tokens; none are loaded, so all values are the same.
        system_prompt: System prompt; not used without the chat template.
        tools: Functions that the model may call, a JSON list of schemas.
        sampling: Sampling parameters instead of `sampling_mode`, which then stays off.
        draw_seed: Seed of the random draws with `sampling`.
        grammar: Grammar that the answer follows.
        when_cut: What to do if the limit cuts an answer that has to follow a grammar.
    """
    from pipegraph.models.llm.chat.reply import split_thinking
    from pipegraph.models.llm.chat.template import can_switch_thinking
    from pipegraph.models.llm.decode.decode import decode
    from pipegraph.models.llm.decode.prefill import prefill
    from pipegraph.models.llm.decode.sampling import SamplingParams
    from pipegraph.models.llm.tokens import Tokens as Values

    llm, around = _language_model(clip)
    if audio is not None:
        raise ValueError(f"{llm.loaded.name} reads text and images, no audio; disconnect `audio`")
    if sampling_mode == "on":
        if sampling is not None:
            raise ValueError("sampling_mode is on and settings come over `sampling`, too; keep one of them")
        draw_seed = seed
        sampling = SamplingParams(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
            presence_penalty=presence_penalty,
        )
    pictures = _shown([image, *(images or {}).values()], video)
    params, constraint, stopper = set_up(llm, sampling, grammar, draw_seed, max_length)
    thinking_begun = False
    if use_default_template:
        switch: Any = "on" if thinking else "off" if can_switch_thinking(llm.tokenizer.chat_template) else "auto"
        chat, tokens = written_chat(ctx, llm, prompt, system_prompt, tools, switch, image=pictures)
        thinking_begun = chat.begins_thinking
    elif pictures or tools:
        raise ValueError("images, video and tools are parts of a chat, and use_default_template is off")
    else:
        if system_prompt:
            ctx.warn("system_prompt is part of a chat and is not used: use_default_template is off")
        tokens = Values((llm.tokenizer.encode(prompt),))
    kernels: Kernels = {}
    prefilled = yield from reading(converted(prefill(llm, tokens), lambda event: event, around), kernels)
    steps = decode(llm, prefilled, params, constraint=constraint, stopper=stopper, go_on=False)
    reply = yield from decoding(converted(steps, lambda event: event, around), kernels)
    outputs = replied(ctx, reply, constraint, when_cut, kernels, max_length)
    thought, answer = split_thinking(outputs.text, inside=thinking_begun)
    return Generated(answer, thought, outputs.finish, outputs.valid)


def _shown(batches: Sequence[Any], video: Any) -> list[Any]:
    """Images and one frame of each second, [H, W, C], in order."""
    images = [image for batch in batches if batch is not None for image in batch]
    return [*images, *(() if video is None else video[::FRAMES])]


def _language_model(clip: Any) -> tuple[Any, Callable[[], AbstractContextManager[Any]]]:
    """The language model on a wire of either type, and a context in which its LoRAs act."""
    from pipegraph.models.llm.llm import LLM as LanguageModel

    if isinstance(clip, LanguageModel):
        return clip, nullcontext
    return clip.writer.llm, clip.writer.running
