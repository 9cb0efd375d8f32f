"""Expand short requests to prompts for LTX-2, with its text encoder, a language model."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, Literal

from pipegraph.runtime.node import NodeEvent, RunContext, node

from ..llm.generate import MaxTokens
from ..llm.prompt import LongText, SeenImage
from ..llm.text_generate import (
    DraftHeads,
    DrawnBy,
    Heard,
    MinP,
    PresencePenalty,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    text_generate,
)
from ..wire import LLM, Clip

_KEEP: Final = """
Keep everything that the request asks for, word for word where it is to be spoken, and add no persons, no speech, no cut
and no movement of the camera that it does not ask for. Say in the order of time what is seen and, beside it, what is
heard: voices, noises, music, the sound of the place. Use the present tense and plain words; name what can be seen and
heard, not what is felt or meant. Write one paragraph in English, without a title, a list or a remark before or after
it. A request that cannot be filled is repeated as it is."""
FROM_TEXT: Final = f"""You write prompts for a model that makes video with sound. Turn the user's request into one
detailed prompt. Begin with the visual style, then describe the place, the light, who or what is there and what looks
how; where the request leaves something open, choose it.{_KEEP}""".replace("\n", " ")
"""System prompt of the language model."""
FROM_IMAGE: Final = f"""You write prompts for a model that makes video with sound out of its first picture, which you
see. Turn the user's request into one short prompt of what happens from that picture on. Do not describe again what the
picture shows and stays as it is.{_KEEP}""".replace("\n", " ")
"""System prompt if the model gets the first frame."""


@node("TextGenerateLTX2Prompt", category="llm", title="Generate LTX2 Prompt", effect="random", output="generated_text")
def text_generate_ltx2_prompt(
    ctx: RunContext,
    clip: Clip | LLM,
    prompt: LongText = "",
    image: SeenImage | None = None,
    video: SeenImage | None = None,
    audio: Heard | None = None,
    max_length: MaxTokens = 512,
    sampling_mode: Literal["on", "off"] = "on",
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
    system_prompt: LongText = "",
) -> Generator[NodeEvent, None, str]:
    """Expand a short request to a prompt for LTX-2.

    Args:
        clip: LTX-2's text encoder, or another language model.
        prompt: The request.
        image: First frame, for a vision-language model; Gemma 3's vision tower is not loaded.
        video: Frames, 24 a second, as in TextGenerate.
        audio: Not supported by any model that can be loaded.
        max_length: Longest prompt in tokens.
        sampling_mode: `on` samples with the settings below; `off` is greedy.
        temperature: As in SamplingParams, like the inputs below.
        top_k: Sample from this many likeliest tokens; 0: all.
        top_p: Sample from the smallest set of tokens with this total probability.
        min_p: Sample from tokens with at least this fraction of the highest probability.
        repetition_penalty: Penalty on tokens of the request and the prompt; 1: off.
        seed: Seed of the random draws.
        presence_penalty: Subtracted from the logits of tokens in the prompt; 0: off.
        thinking: Let a thinking model think before it writes.
        use_default_template: Use the system prompt and the model's chat template; else continue the plain request.
        mtp: Multi-token prediction heads; none are loaded, so all values are the same.
        system_prompt: System prompt, instead of the built-in one.
    """
    from pipegraph.models.llm.chat.reply import parse_reply

    system, asked = system_prompt, prompt
    if use_default_template:
        system = system_prompt.strip() or (FROM_TEXT if image is None else FROM_IMAGE)
        asked = f"The request: {prompt}"
    generated = yield from text_generate(
        ctx,
        clip,
        asked,
        image,
        video=video,
        audio=audio,
        max_length=max_length,
        sampling_mode=sampling_mode,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        seed=seed,
        presence_penalty=presence_penalty,
        thinking=thinking,
        use_default_template=use_default_template,
        system_prompt=system,
    )
    written = parse_reply(generated.generated_text).answer
    if not written:
        ctx.warn("the model wrote nothing: the request is the prompt")
    return written or prompt
