"""Train the shipped prompt writer: a small Llama that turns a request into a caption of the shipped models' worlds.

    python -m recipes.train_writer STATE --minutes 20 [--export]

Requests and answers are drawn anew for every step (``requests.py``, ``video_requests.py``); the loss is on the answer
only. STATE is a folder outside the repository. ``--export`` writes what STATE holds as a transformers folder and
measures it.
"""

import argparse
import hashlib
import json
import random
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from pipegraph.models.paths import EMBEDDED

from . import requests, video_requests
from .requests import Wish, answer, request
from .score import wilson

OUT = EMBEDDED / "prompt-writer"
SPECIAL = ["<|pad|>", "<|begin|>", "<|end|>", "<|user|>", "<|assistant|>"]
VOCABULARY = 640
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role not in ('user', 'assistant') %}"
    "{{ raise_exception('the prompt writer knows the roles user and assistant, not ' + m.role) }}{% endif %}"
    "{{ '<|' + m.role + '|>' + m.content + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
IGNORED = -100
CLIPS = 0.35
"""Share of requests that are for clips."""
PICTURES_ASKED, CLIPS_ASKED = ("object", "colour", "background", "size"), ("object", "colour", "background", "motion")


def tokenizer(seed: int = 0) -> PreTrainedTokenizerFast:
    """Byte-level BPE of requests and answers."""
    rng = random.Random(seed)
    text = []
    for _ in range(20000):
        words, wish = request(rng)
        text += [words, answer(wish, rng)]
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        text, trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=alphabet)
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token=SPECIAL[0],
        bos_token=SPECIAL[1],
        eos_token=SPECIAL[2],
        extra_special_tokens=SPECIAL[3:],
        model_max_length=256,
        chat_template=TEMPLATE,
    )


def network() -> LlamaForCausalLM:
    """Llama with 4 layers of width 160, 5 heads over 1 key head, tied embeddings; 1.2 million parameters."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=160,
        intermediate_size=432,
        num_hidden_layers=4,
        num_attention_heads=5,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        rms_norm_eps=1e-5,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return LlamaForCausalLM(config)


def batch(words: PreTrainedTokenizerFast, rng: random.Random, count: int) -> tuple[Tensor, Tensor]:
    """Ids and labels [B, T], padded at the right; only answers have labels."""
    pad, bos, end, user, assistant = range(len(SPECIAL))
    rows = []
    for _ in range(count):
        asked, said = _clip(rng) if rng.random() < CLIPS else _picture(rng)
        head = [bos, user, *words.encode(asked, add_special_tokens=False), end, assistant]
        rows.append((head, [*words.encode(said, add_special_tokens=False), end]))
    longest = max(len(h) + len(t) for h, t in rows)
    ids, labels = torch.full((2, count, longest), pad)
    labels.fill_(IGNORED)
    for i, (head, tail) in enumerate(rows):
        ids[i, : len(head) + len(tail)] = torch.tensor(head + tail)
        labels[i, len(head) : len(head) + len(tail)] = torch.tensor(tail)
    return ids, labels


def _picture(rng: random.Random) -> tuple[str, str]:
    asked, wish = request(rng)
    return asked, answer(wish, rng)


def _clip(rng: random.Random) -> tuple[str, str]:
    asked, wish = video_requests.request(rng)
    return asked, video_requests.answer(wish, rng)


def train(state: Path, minutes: float, rate: float, size: int) -> None:
    """Train from what ``state`` holds, or from nothing, with a rate that falls to zero."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    words, net = tokenizer(), network()
    weights = state / "writer.safetensors"
    if weights.is_file():
        net.load_state_dict(load_file(weights), strict=False)
    rng = random.Random(time.time_ns())
    decayed = [p for p in net.parameters() if p.ndim == 2]
    rest = [p for p in net.parameters() if p.ndim < 2]
    groups = [dict(params=decayed, weight_decay=0.05), dict(params=rest, weight_decay=0.0)]
    opt = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98))
    began, step, mean = time.time(), 0, 0.0
    while (done := (time.time() - began) / 60 / minutes) < 1:
        for group in opt.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 50) * min(1.0, (1 - done) / 0.7)
        ids, labels = batch(words, rng, size)
        loss = net(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        step, mean = step + 1, 0.98 * mean + 0.02 * float(loss.detach())
        if step % 100 == 0:
            print(f"step {step} loss {mean / (1 - 0.98**step):.4f} min {(time.time() - began) / 60:.1f}", flush=True)
            _save(net, weights)
    _save(net, weights)


def _save(net: LlamaForCausalLM, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {k: v.contiguous() for k, v in net.state_dict().items() if k != "lm_head.weight"}
    save_file(kept, path.with_suffix(".tmp"))
    path.with_suffix(".tmp").replace(path)


@torch.no_grad()
def write(net: LlamaForCausalLM, words: PreTrainedTokenizerFast, requests: list[str]) -> list[str]:
    """The answers to requests, greedily, one at a time."""
    said = []
    for text in requests:
        chat = words.apply_chat_template(
            [{"role": "user", "content": text}], add_generation_prompt=True, tokenize=False
        )
        ids = torch.tensor([words.encode(str(chat), add_special_tokens=False)])
        out = net.generate(input_ids=ids, max_new_tokens=32, do_sample=False)
        said.append(str(words.decode(out[0, ids.shape[1] :], skip_special_tokens=True)))
    return said


def judge(net: LlamaForCausalLM, words: PreTrainedTokenizerFast, count: int, seed: int) -> dict[str, Any]:
    """Shares, with the lower end of their 95 % interval, over held-out requests for pictures and for clips."""
    rng = random.Random(f"writer {seed}")
    pictures = [request(rng, held_out=True) for _ in range(count)]
    clips = [video_requests.request(rng, held_out=True) for _ in range(count)]
    said = write(net, words, [text for text, _ in [*pictures, *clips]])
    scenes = [requests.read(text) for text in said[:count]]
    shown = [requests.fulfils(s, w) if s else None for s, (_, w) in zip(scenes, pictures, strict=True)]
    moving = [video_requests.read(text) for text in said[count:]]
    moved = [video_requests.fulfils(s, w) if s else None for s, (_, w) in zip(moving, clips, strict=True)]
    return {
        **_table(PICTURES_ASKED, shown, [w for _, w in pictures]),
        "clips": _table(CLIPS_ASKED, moved, [w for _, w in clips]),
    }


def _table(
    asked: tuple[str, ...], shown: list[dict[str, bool | None] | None], wishes: Sequence[Wish]
) -> dict[str, Any]:
    def row(answers: list[bool]) -> dict[str, float]:
        return {
            "share": round(sum(answers) / max(1, len(answers)), 3),
            "low": round(wilson(sum(answers), len(answers)), 3),
            "of": len(answers),
        }

    result = {"valid": row([s is not None for s in shown])}
    for what in asked:
        wanted = [w if s is None else s[what] for s, w in zip(shown, _wanted(what, wishes), strict=True)]
        result[what] = row([x for x in wanted if x is not None])
    return result


def _wanted(what: str, wishes: Sequence[Wish]) -> list[bool | None]:
    """For an answer that is no caption: False where the request wished something, else None."""
    free: dict[str, Callable[[Wish], bool]] = {
        "object": lambda w: False,
        "motion": lambda w: False,
        "colour": lambda w: not w.colour and not w.scene,
        "background": lambda w: not w.background,
        "size": lambda w: not w.size and not w.scene,
    }
    return [None if free[what](wish) else False for wish in wishes]


def export(state: Path, out: Path, count: int, seed: int) -> None:
    """Write float16 weights, tokenizer, chat template and ``scores.json`` as a transformers folder."""
    net, words = network(), tokenizer()
    missing, unexpected = net.load_state_dict(load_file(state / "writer.safetensors"), strict=False)
    assert not unexpected and missing in ([], ["lm_head.weight"]), (missing, unexpected)
    net.generation_config.max_new_tokens = 32
    net.half().save_pretrained(out)
    words.save_pretrained(out)
    net.float()
    scores = {"weights": weights_id(out), "seed": seed, **judge(net.eval(), words, count, seed)}
    (out / "scores.json").write_text(json.dumps(scores, indent=1) + "\n", "utf-8")
    print(json.dumps(scores, indent=1))


def weights_id(folder: Path) -> str:
    """Which weights a score belongs to: the start of the SHA-256 of their file."""
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()[:16]


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("state", type=Path)
    ask.add_argument("--minutes", type=float, default=20)
    ask.add_argument("--rate", type=float, default=3e-3)
    ask.add_argument("--batch", type=int, default=64)
    ask.add_argument("--export", action="store_true")
    ask.add_argument("--count", type=int, default=400)
    ask.add_argument("--seed", type=int, default=20260101)
    args = ask.parse_args()
    if args.export:
        export(args.state, OUT, args.count, args.seed)
    else:
        train(args.state, args.minutes, args.rate, args.batch)


if __name__ == "__main__":
    main()
