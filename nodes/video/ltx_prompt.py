"""Prompts for LTX-2 that its own text encoder, a language model, writes out of short ones."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, Literal

from pipegraph.runtime.node import NodeEvent, RunContext, node

from ..llm.generate import MaxTokens
from ..llm.prompt import LongText, SeenImage
from ..llm.text_generate import (
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
TOLD: Final = f"""You write prompts for a model that makes video with sound. Turn the user's request into one
detailed prompt. Begin with the visual style, then describe the place, the light, who or what is there and what looks
how; where the request leaves something open, choose it.{_KEEP}""".replace("\n", " ")
"""What the language model is told first."""
SHOWN: Final = f"""You write prompts for a model that makes video with sound out of its first picture, which you
see. Turn the user's request into one short prompt of what happens from that picture on. Do not describe again what the
picture shows and stays as it is.{_KEEP}""".replace("\n", " ")
"""The same where it sees the first frame."""


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
    mtp: Literal["auto", "off"] = "auto",
    system_prompt: LongText = "",
) -> Generator[NodeEvent, None, str]:
    """Write a prompt for LTX-2 out of a short request.

    Args:
        clip: What writes: LTX-2's text encoder, or another language model.
        prompt: The request.
        image: The first frame, for a model that reads pictures; Gemma 3's eyes are not read.
        video: Frames, 24 a second, as in TextGenerate.
        audio: No language model that is read can hear.
        max_length: The prompt ends after so many tokens at the latest.
        sampling_mode: `on` draws tokens, with the settings below; `off` takes the likeliest each time.
        temperature: As in SamplingParams, as are the next ones.
        top_k: Draw among so many likeliest tokens; 0: all.
        top_p: Draw among the fewest likeliest tokens that have this probability together.
        min_p: Draw among tokens at least this many times as likely as the likeliest.
        repetition_penalty: Makes what request and prompt hold less likely; 1: off.
        seed: Of the draws.
        presence_penalty: Taken off the logits of tokens that the prompt holds; 0: off.
        thinking: Whether a model that can think does so before it writes.
        use_default_template: Tell the model what to do, in its chat template; else it goes on from the bare request.
        mtp: Whether heads that draft tokens are used: none are read, so both are the same.
        system_prompt: What it is told to do, in place of pipegraph's own words.
    """
    from pipegraph.models.llm.reply import parse_reply

    system, asked = system_prompt, prompt
    if use_default_template:
        system = system_prompt.strip() or (TOLD if image is None else SHOWN)
        asked = f"The request: {prompt}"
    made = yield from text_generate(
        ctx, clip, asked, image, video, audio, max_length, sampling_mode, temperature, top_k, top_p, min_p,
        repetition_penalty, seed, presence_penalty, thinking, use_default_template, system,
    )  # fmt: skip
    written = parse_reply(made.generated_text, thinking=made.thinking_begun).answer
    if not written:
        ctx.warn("the model wrote nothing: the request is the prompt")
    return written or prompt
