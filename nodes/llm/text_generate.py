"""A prompt, pictures and frames of a video to a text in one node."""

from __future__ import annotations

from collections.abc import Generator
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le

from pipegraph.generators import converted
from pipegraph.runtime.node import Needs, NodeEvent, RunContext, Step, Under, node, outputs

from ..wire import LLM, Audio, Clip, Grammar, Sampling, SeedInt
from .generate import Kernels, MaxTokens, WhenCut, reading, replied, set_up, telling
from .prompt import LongText, SeenImage, written_chat

On = Under("sampling_mode", "on")
Temperature = Annotated[float, Ge(0), Le(100), Step(0.05), On]
TopK = Annotated[int, Ge(0), On]
TopP = Annotated[float, Gt(0), Le(1), Step(0.01), On]
MinP = Annotated[float, Ge(0), Le(1), Step(0.01), On]
RepetitionPenalty = Annotated[float, Gt(0), Le(10), Step(0.01), On]
PresencePenalty = Annotated[float, Ge(-10), Le(10), Step(0.1), On]
DrawnBy = Annotated[SeedInt, On]
Heard = Annotated[Audio, Needs("sounds", "reads text and pictures and cannot hear")]
FRAMES = 24
"""Of a video in a second; one of so many is shown."""


@outputs
class Generated:
    """A text, why it ended (`stop`, `length`, `constraint`), whether it is whole and whether it begins in thinking."""

    generated_text: str
    finish: str
    valid: bool
    thinking_begun: bool


@node("TextGenerate", category="llm", title="Generate Text", effect="random")
def text_generate(
    ctx: RunContext,
    clip: Clip | LLM,
    prompt: LongText = "",
    image: SeenImage | None = None,
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
    system: LongText = "",
    tools: LongText = "",
    sampling: Sampling | None = None,
    draw_seed: SeedInt = 0,
    grammar: Grammar | None = None,
    when_cut: WhenCut = "warn",
) -> Generator[NodeEvent, None, Generated]:
    """Answer a prompt: chat template, pictures, prefill and decode in one.

    Args:
        clip: What answers: an LLM, or a CLIP whose text encoder is one.
        prompt: What the user says, or a whole chat as a JSON list of `{"role": ..., "content": ...}`.
        image: Pictures that a vision-language model is shown, as in ChatTemplate.
        video: Frames, 24 a second, of which the model is shown the first of each second, behind the pictures.
        audio: No language model that is read can hear.
        max_length: The answer ends after so many tokens at the latest.
        sampling_mode: `on` draws tokens, with the settings below; `off` takes the likeliest each time.
        temperature: As in SamplingParams, as are the next ones.
        top_k: Draw among so many likeliest tokens; 0: all.
        top_p: Draw among the fewest likeliest tokens that have this probability together.
        min_p: Draw among tokens at least this many times as likely as the likeliest.
        repetition_penalty: Makes what prompt and answer hold less likely; 1: off.
        seed: Of the draws.
        presence_penalty: Taken off the logits of tokens that the answer holds; 0: off.
        thinking: Whether a model that can think does so before it answers.
        use_default_template: Use the model's chat template; else go on from the prompt as it is.
        system: What the model is told first.
        tools: Functions that the model may call, a JSON list of schemas.
        sampling: Settings in the place of `sampling_mode`, which then stays off.
        draw_seed: Of the draws with `sampling`.
        grammar: The form that the answer keeps to.
        when_cut: What an answer is that has a form and is cut by the limit.
    """
    from pipegraph.models.llm.chat import can_switch_thinking
    from pipegraph.models.llm.decode import decode
    from pipegraph.models.llm.llm import Tokens as Values
    from pipegraph.models.llm.prefill import prefill
    from pipegraph.models.llm.sampling import SamplingParams

    llm = _llm_of(clip)
    if audio is not None:
        raise ValueError(f"{llm.name} reads text and pictures and cannot hear; take the link from `audio` away")
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
    params, constraint, stopper = set_up(llm, sampling, grammar, draw_seed, max_length)
    begun = False
    if use_default_template:
        thought: Any = "on" if thinking else "off" if can_switch_thinking(llm.tokenizer.chat_template) else "auto"
        chat, tokens = written_chat(ctx, llm, prompt, system, tools, thought, image=_shown(image, video))
        begun = chat.begins_thinking
    elif image is not None or video is not None or system or tools:
        raise ValueError("image, video, system and tools are parts of a chat, and use_default_template is off")
    else:
        tokens = Values((llm.tokenizer.encode(prompt),))
    kernels: Kernels = {}
    read = yield from reading(_adapted(clip, prefill(llm, tokens)), kernels)
    made = decode(llm, read, params, constraint=constraint, stopper=stopper, go_on=False)
    reply = yield from telling(_adapted(clip, made), kernels)
    said = replied(ctx, reply, constraint, when_cut, kernels, max_length)
    return Generated(said.text, said.finish, said.valid, begun)


def _shown(image: Any, video: Any) -> list[Any]:
    """Pictures and frames [H, W, C], in order."""
    return [*(() if image is None else image), *(() if video is None else video[::FRAMES])]


def _adapted(clip: Any, steps: Generator[Any, None, Any]) -> Generator[Any, None, Any]:
    """The same events, computed with the LoRAs that a CLIP has for its language model."""
    able = [e for e in getattr(clip, "encoders", {}).values() if hasattr(e, "adapted")]
    return converted(steps, lambda event: event, able[0].adapted) if able else steps


def _llm_of(clip: Any) -> Any:
    """The language model on a wire of either type."""
    encoders = getattr(clip, "encoders", None)
    if encoders is None:
        return clip
    able = [encoder for encoder in encoders.values() if hasattr(encoder, "llm")]
    if able and not able[0].writes:
        raise ValueError(f"the files of {able[0].llm.name} hold no output layer: it encodes prompts and writes no text")
    if not able:
        raise ValueError(
            f"the text encoders {', '.join(encoders)} write no text; load a language model, with LoadLLM, or with "
            "CLIPLoader and a type whose text encoder is one"
        )
    return able[0].llm
