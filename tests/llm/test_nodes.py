"""The nodes in graphs, on a tiny model of random weights."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import pipegraph as pg
from pipegraph.cli import main
from pipegraph.models.llm.tokenizer import Tokenizer
from pipegraph.nodes.llm.prompt import load_llm
from pipegraph.runtime.errors import Cancelled, RunError

from ..context import Context
from .gguf_files import write_gguf

LLM = ["llm", "llm"]
LOAD = {"class_type": "LoadLLM", "inputs": {"llm_name": "tiny"}}
FORM = '{"type": "object", "properties": {"n": {"type": "integer", "maximum": 99, "minimum": 0}}, "required": ["n"]}'
Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def models(tmp_path: Path, llm_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEGRAPH_MODELS", str(tmp_path / "models"))
    monkeypatch.chdir(tmp_path)
    shutil.copytree(llm_folder, tmp_path / "models" / "llm" / "tiny")
    torch.set_num_threads(1)


def graph(outputs: dict[str, Any], **nodes: tuple[str, dict[str, Any]]) -> Any:
    """A graph that may use the tiny model, as a workflow."""
    made = {name: {"class_type": kind, "inputs": inputs} for name, (kind, inputs) in nodes.items()}
    document = {"pipegraph": 1, "nodes": {"llm": LOAD, **made}, "outputs": outputs}
    Path("graph.json").write_text(json.dumps(document))
    return pg.load("graph.json")


def prompt(text: str = "The quick") -> dict[str, tuple[str, dict[str, Any]]]:
    return {
        "tokens": ("Tokenize", {"llm": LLM, "text": text}),
        "read": ("LLMPrefill", {"llm": LLM, "tokens": ["tokens", "tokens"]}),
    }


def events(result: Any, kind: str) -> list[Any]:
    return [e for e in result.events.since() if e.kind == kind]


def test_one_prefill_and_several_decodes(tokenizer: Tokenizer) -> None:
    hot = ("SamplingParams", {"temperature": 1.5})
    base = {"llm": LLM, "cache": ["read", "cache"], "max_tokens": 12, "sampling": ["hot", "sampling"]}
    again = {"llm": LLM, "cache": ["b", "cache"], "max_tokens": 5}
    result = graph(
        {"a": ["a", "text"], "b": ["b", "text"], "c": ["c", "text"], "ids": ["a", "tokens"], "on": ["on", "text"]},
        hot=hot,
        a=("LLMDecode", base | {"seed": 1}),
        b=("LLMDecode", base | {"seed": 2}),
        c=("LLMDecode", base | {"seed": 1, "max_tokens": 13}),
        on=("LLMDecode", again),
        **prompt(),
    ).run()
    assert [e.node for e in events(result, "started")].count("read") == 1
    assert result["a"] != result["b"]
    assert result["c"].startswith(result["a"])
    for node in ("a", "b", "c", "on"):
        told = [e.data for e in events(result, "token") if e.node == node]
        assert "".join(d["text"] for d in told) == result.outputs[node]
    told = [e.data["id"] for e in events(result, "token") if e.node == "a" and e.data["id"] >= 0]
    assert tuple(told) == result["ids"].ids[0]
    notes = result.record["notes"]
    assert notes["read"]["llm"]["prompt_tokens"] == len(tokenizer.encode("The quick"))
    assert notes["a"]["llm"]["reply_tokens"] == len(told)
    assert {"ttft_ms", "decode_tokens_per_s", "inter_token_ms", "kv_bytes"} <= notes["a"]["llm"].keys()
    for node, attention in (("read", "attention"), ("a", "paged_decode")):
        assert {attention, "linear", "rms_norm", "qk_norm_rope"} <= notes[node]["kernels"].keys()


def test_a_beginning_that_another_run_has_read_is_not_read_again(tokenizer: Tokenizer) -> None:
    text = "The quick brown fox jumps over the lazy dog. " * 3
    workflow = graph({"cache": ["read", "cache"]}, **prompt(text))
    workflow.run()
    longer = text + "What is a lighthouse?"
    for reuse in (True, False):
        run = workflow.run({"tokens.text": longer, "read.reuse": reuse})
        same = len(tokenizer.encode(text)) // 32 * 32
        assert run.record["notes"]["read"]["llm"]["reused_tokens"] == (same if reuse else 0)
        assert same and run.record["notes"]["read"]["llm"]["prompt_tokens"] == len(tokenizer.encode(longer))


def test_only_what_a_seed_changes_runs_again() -> None:
    decode = {"llm": LLM, "cache": ["read", "cache"], "max_tokens": 4}
    workflow = graph({"text": ["say", "text"]}, say=("LLMDecode", decode), **prompt("A tower"))
    first = workflow.run({"say.seed": 1})
    again = workflow.run({"say.seed": 1})
    assert "say" in again.cached and again["text"] == first["text"]
    other = workflow.run({"say.seed": 2})
    assert [e.node for e in events(other, "started")] == ["say"]


def test_weights_are_kept_in_fewer_bits_as_wanted(tmp_path: Path) -> None:
    """By the node, else by the run; which layers are in which format stands in the run record."""
    cases: list[tuple[Any, str, str]] = [("default", "", ""), ("default", "q8", "q8"), ("w4", "q8", "w4")]
    for wanted, of_run, format in cases:
        context = Context(tmp_path, tmp_path, quantize=of_run)
        weights = load_llm("tiny", context, quantize=wanted).loaded.network.model.layers[0].mlp.up_proj.weight
        assert getattr(weights, "format", "") == format
        assert [*context.notes] == ["weights"] * bool(format)


def test_the_processor_may_be_chosen_for_the_language_model_alone(tmp_path: Path) -> None:
    llm = load_llm("tiny", Context(tmp_path, tmp_path, device="meta"), device="cpu")
    assert llm.loaded.device.type == "cpu"


def test_a_chat_by_parts_and_in_one() -> None:
    talk = {"llm": LLM, "message": "What is a lighthouse?", "system": "Be brief."}
    one = {"clip": LLM, "prompt": "What is a lighthouse?", "system_prompt": "Be brief.", "max_length": 10}
    result = graph(
        {
            "text": ["chat", "text"],
            "back": ["back", "text"],
            "parts": ["say", "text"],
            "one": ["one", "generated_text"],
            "finish": ["one", "finish"],
            "count": ["again", "count"],
            "tokens": ["chat", "tokens"],
        },
        chat=("ChatTemplate", talk),
        back=("Detokenize", {"llm": LLM, "tokens": ["chat", 1], "control_tokens": True}),
        again=("Tokenize", {"llm": LLM, "text": ["chat", "text"], "control_tokens": True}),
        read=("LLMPrefill", {"llm": LLM, "tokens": ["chat", "tokens"], "chunk": 7}),
        say=("LLMDecode", {"llm": LLM, "cache": ["read", 0], "max_tokens": 10}),
        one=("TextGenerate", one),
    ).run()
    assert result["text"].startswith("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n")
    assert result["back"] == result["text"]
    assert result["count"] == len(result["tokens"].ids[0])
    assert result["parts"] == result["one"] != ""
    assert result["finish"] in ("stop", "length")


def test_a_system_prompt_over_a_link_in_comfyuis_form() -> None:
    """It reaches the model; by its older name, too; without the template it is said not to."""
    nodes: dict[str, Any] = {
        "1": {"class_type": "PrimitiveString", "inputs": {"value": "Be brief."}},
        "2": {"class_type": "LoadLLM", "inputs": {"llm_name": "tiny"}},
        "4": {"class_type": "PreviewAny", "inputs": {"source": ["3", 0]}},
    }

    def tokens(**inputs: Any) -> tuple[int, list[str]]:
        ask = {"clip": ["2", 0], "prompt": "What is a lighthouse?", "max_length": 1, **inputs}
        result = pg.load({**nodes, "3": {"class_type": "TextGenerate", "inputs": ask}}).run()
        return result.record["notes"]["3"]["llm"]["prompt_tokens"], [*result.warnings]

    plain, _ = tokens()
    told, _ = tokens(system_prompt=["1", 0], mtp="3")
    assert told > plain and tokens(system=["1", 0])[0] == told
    _, warnings = tokens(system_prompt=["1", 0], use_default_template=False)
    assert any("system_prompt is part of a chat and is not used" in warning for warning in warnings)


def test_replies_that_keep_to_a_form() -> None:
    """A random model says anything else; with the form it is JSON, and what is cut is said to be."""
    say = {"clip": LLM, "prompt": "Count!", "grammar": ["form", "grammar"]}
    hot = ("SamplingParams", {"temperature": 3.0})
    workflow = graph(
        {"text": ["say", 0], "valid": ["say", "valid"], "answer": ["parsed", "answer"]},
        form=("StructuredOutput", {"kind": "json", "form": FORM}),
        hot=hot,
        say=("TextGenerate", say | {"sampling": ["hot", 0], "max_length": 40}),
        parsed=("ParseReply", {"text": ["say", 0]}),
    )
    for seed in (1, 2):
        result = workflow.run({"say.draw_seed": seed})
        assert result["valid"] is True and [*json.loads(result["text"])] == ["n"]
        assert result["answer"] == result["text"]
    cut = workflow.run({"say.max_length": 2})
    assert cut["valid"] is False and "does not follow its grammar" in cut.warnings[0]
    told = cut.record["notes"]["say"]["llm"]
    assert told["finish"] == ["length"] and told["cut_sequences"] == [0]
    with pytest.raises(RunError, match="cut after 2 tokens"):
        workflow.run({"say.max_length": 2, "say.when_cut": "fail"})
    with pytest.raises(RunError, match="no JSON schema"):
        workflow.run({"form.form": "{"})


def test_thinking_that_the_template_begins_and_types_of_a_tool(tmp_path: Path) -> None:
    """ChatTemplate says to ParseReply that thinking is begun; its tools say the types of arguments.

    TextGenerate parts thinking from the answer itself.
    """
    tools = json.dumps([{"name": "f", "parameters": {"type": "object", "properties": {"zip": {"type": "string"}}}}])
    reply = "hm</think><tool_call><function=f><parameter=zip>123</parameter></function></tool_call>"
    template = tmp_path / "models" / "llm" / "tiny" / "chat_template.jinja"
    for end, begun in (("<think>\n", True), ("", False)):
        template.write_text("{{ tools | tojson if tools else '' }}{{ messages[0].content }}" + end)
        result = graph(
            {
                "said": ["one", "generated_text"],
                "thought": ["one", "thinking"],
                "thinking": ["parsed", "thinking"],
                "calls": ["parsed", "tool_calls"],
            },
            chat=("ChatTemplate", {"llm": LLM, "message": "hi", "tools": tools}),
            one=("TextGenerate", {"clip": LLM, "prompt": "hi", "max_length": 1}),
            parsed=("ParseReply", {"text": reply, "tools": tools, "thinking_begun": ["chat", "thinking_begun"]}),
        ).run()
        assert bool(result["thought"]) is begun and bool(result["said"]) is not begun  # a token, without an end
        assert result["thinking"] == ("hm" if begun else "")
        assert json.loads(result["calls"]) == [{"name": "f", "arguments": {"zip": "123"}}]


def test_settings_that_do_nothing_and_replies_that_end_early_are_said(tokenizer: Tokenizer) -> None:
    cold = ("SamplingParams", {"temperature": 0.0, "top_p": 0.5, "min_p": 0.1, "stop": "<|im_start|>"})
    endless = ("LogitBias", {"llm": LLM, "words": "fox", "bias": 100.0, "sampling": ["cold", 0]})
    decode = {"llm": LLM, "cache": ["read", "cache"], "sampling": ["endless", 0], "max_tokens": 300}
    result = graph({"text": ["say", "text"]}, cold=cold, endless=endless, say=("LLMDecode", decode), **prompt())
    idle, *early = result.run().warnings
    assert "top_p, min_p does nothing" in idle
    assert len(early) == 1 and "before 300: the context" in early[0]


def test_a_gguf_file_that_does_not_say_how_text_is_split_is_a_warning(tmp_path: Path, tokenizer: Tokenizer) -> None:
    from transformers import LlamaForCausalLM

    folder = tmp_path / "models" / "llm" / "tiny"
    network = LlamaForCausalLM.from_pretrained(folder)
    shutil.rmtree(folder)
    folder.mkdir()
    for pre, warned in (("", 1), ("gpt-2", 0)):
        write_gguf(folder / "weights.gguf", network, tokenizer, "F32", pre=pre)
        said = graph({"tokens": ["tokens", "tokens"]}, tokens=prompt()["tokens"]).run().warnings
        assert len(said) == warned and all("tokenizer.ggml.pre" in text for text in said)


def test_sampling_settings_and_biases(tokenizer: Tokenizer) -> None:
    decode = {"llm": LLM, "cache": ["read", "cache"], "max_tokens": 6, "sampling": ["bias", "sampling"]}
    sampling = {"temperature": 0.0, "stop": "\\n\nnever", "stop_ids": "5, 6", "min_tokens": 2}
    bias = {"llm": LLM, "words": "fox", "bias": 100.0, "sampling": ["s", "sampling"]}
    result = graph(
        {"ids": ["say", "tokens"], "sampling": ["bias", "sampling"]},
        s=("SamplingParams", sampling),
        bias=("LogitBias", bias),
        say=("LLMDecode", decode),
        **prompt(),
    ).run()
    firsts = {tokenizer.encode("fox")[0], tokenizer.encode(" fox")[0]}
    assert set(result["ids"].ids[0]) <= firsts
    made = result["sampling"]
    assert (made.stop, made.stop_ids, made.min_tokens) == (("\n", "never"), (5, 6), 2)
    assert set(made.logit_bias) == firsts


def test_speculation_says_the_same() -> None:
    decode = {"llm": LLM, "cache": ["read", "cache"], "max_tokens": 12}
    result = graph(
        {"plain": ["plain", "text"], "fast": ["fast", "text"]},
        plain=("LLMDecode", decode),
        fast=("SpeculativeDecode", decode | {"draft": LLM}),
        **prompt(),
    ).run()
    assert result["plain"] == result["fast"]
    assert result.record["notes"]["fast"]["llm"]["acceptance"] == 1.0


def test_a_prompt_that_is_too_long_is_told_before_it_is_read() -> None:
    workflow = graph({"cache": ["read", "cache"]}, **prompt("fox " * 300))
    with pytest.raises(RunError, match=r"reads 256 at most"):
        workflow.run()
    seen: list[str] = []
    workflow.on_event = lambda event: seen.append(event.kind)
    with pytest.raises(RunError):
        workflow.run()
    assert "progress" not in seen


def test_a_run_is_cancelled_within_a_token() -> None:
    decode = {"llm": LLM, "cache": ["read", "cache"], "max_tokens": 50, "sampling": ["s", 0]}
    workflow = graph(
        {"text": ["say", "text"]}, s=("SamplingParams", {"min_tokens": 50}), say=("LLMDecode", decode), **prompt("It")
    )
    seen: list[Any] = []

    def listen(event: Any) -> None:
        if event.kind == "token":
            seen.append(event)
            if len(seen) == 3:
                workflow.cancel()

    workflow.on_event = listen
    with pytest.raises(Cancelled):
        workflow.run()
    assert len(seen) == 3


def test_chat_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    def call(*args: str) -> tuple[str, str]:
        with pytest.raises(SystemExit) as left:
            main(["run", "chat.json", "--model", "tiny", "--message", "Hi", "--max-tokens", "8", *args])
        out, err = capsys.readouterr()
        assert left.value.code == 0, err
        return out, err

    out, err = call("--seed", "3")
    told, _ = call("--seed", "4", "--json")
    lines = [json.loads(line) for line in told.splitlines()]
    tokens = [line for line in lines if line["event"] == "token"]
    assert "".join(t["text"] for t in tokens) == out.removesuffix("\n")
    assert all(t["sequence"] == 0 and t["title"] == "LLM Decode" for t in tokens)
    assert "warning" not in err
    system, _ = call("--system", "Be brief.", "--temperature", "2")
    assert system != out


def test_a_missing_model_says_how_to_get_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "nowhere"))
    with pytest.raises(SystemExit) as left:
        main(["validate", "chat.json", "--model", "smollm2"])
    assert left.value.code == 2
    assert "pipegraph models add smollm2" in capsys.readouterr().err
    with pytest.raises(SystemExit) as left:
        main(["models", "add"])
    assert left.value.code == 2 and "SmolLM2-135M-Instruct" in capsys.readouterr().err
