"""The recipe: words, scenes, the scorer, and the shipped tokenizers against it."""

import random

import numpy as np
import pytest
from recipes import reading, score, video_reading, video_train, world
from recipes.measure import EMBEDDED, sigmas
from recipes.networks import TEXT_TOKENS, VOCABULARY, clip_ids, t5_ids
from recipes.render import draw
from recipes.video_world import Moving, ids, sample
from tokenizers import Tokenizer
from transformers import AutoTokenizer

BASE = EMBEDDED / "flux-tiny"
ODD = [
    "",
    "A RED Automobile, on the beach!",
    "cat,dog light-grey grey x9y kitty",
    "red cat " * 20,
    "grey  grey\ngrey",
    "a hamburger under a huge violet gown, seaside",
    "dragon",
]


def captions(count: int) -> list[str]:
    rng = random.Random(0)
    return [world.caption(world.sample_scene(rng, two=0.4, held_out=i % 2 == 0), rng) for i in range(count)]


@pytest.mark.parametrize(("folder", "ids"), [("tokenizer", clip_ids), ("tokenizer_2", t5_ids)])
def test_the_shipped_tokenizers_give_the_ids_of_training(folder: str, ids: object) -> None:
    tokenizer = AutoTokenizer.from_pretrained(BASE / folder)
    assert callable(ids) and tokenizer.model_max_length == TEXT_TOKENS
    prompts = captions(500) + ODD
    got = tokenizer(prompts, padding="max_length", max_length=TEXT_TOKENS, truncation=True).input_ids
    assert got == [ids(p) for p in prompts]


def test_captions_need_no_unknown_word() -> None:
    tokenizer = Tokenizer.from_file(str(BASE / "tokenizer_2/tokenizer.json"))
    unknown = VOCABULARY.index("<unk>")
    assert all(unknown not in tokenizer.encode(c).ids for c in captions(500))
    assert unknown in tokenizer.encode("a dragon").ids
    assert all(meaning in VOCABULARY for meaning in world.SYNONYMS.values())


def test_held_out_pairs_are_never_in_training() -> None:
    rng = random.Random(1)
    seen = {t for _ in range(2000) for t in world.sample_scene(rng, two=0.5).things}
    assert len(world.HELD_OUT) == len(world.COLOURABLE) and not seen & world.HELD_OUT
    assert world.is_held_out(world.sample_scene(rng, two=0.0, held_out=True))


def test_facts_of_a_caption() -> None:
    apple, cat = world.Thing("apple", "red"), world.Thing("cat")
    scene = world.Scene((apple, cat), "blue", relation="left of")
    words = "a red apple left of a cat on a blue background"
    whole, each = reading.facts(scene, words)
    assert whole[0] == world.OBJECTS.index("apple") + 1 and whole[3] == 0 and whole[5] == 1
    red, of, blue = each[1], each[4], each[9]
    assert red == each[2] == [1, whole[0], world.COLOURS.index("red") + 1, 1, reading.IGNORE, 1, 0]
    assert each[6][3] == 2 and each[6][6] == 1 and of == [0, *[reading.IGNORE] * 6]
    assert blue == [2, *[reading.IGNORE] * 3, world.BACKGROUNDS.index("blue"), *[reading.IGNORE] * 2]


def test_facts_of_a_clips_caption() -> None:
    scene, unasked = Moving(world.Thing("fish", "yellow"), "left", "blue"), video_reading.IGNORE
    said = ["a yellow fish", "moving left", "on a blue background"]
    end, words = video_reading.facts(scene, said)
    fish, moving, blue = words[2], words[3], words[7]
    assert fish == words[0] == [0, end[0], world.COLOURS.index("yellow") + 1, unasked, unasked]
    assert moving == [1, unasked, unasked, 0, unasked] and blue == [2, unasked, unasked, unasked, end[3]]
    assert unasked not in end and words[9:] == [[unasked] * 5] * (len(words) - 9)
    assert video_reading.facts(scene, ["a yellow fish", "", ""])[0][2:] == [unasked] * 2


def test_some_captions_of_clips_leave_parts_out() -> None:
    rng = random.Random(2)
    told = [video_train.told(sample(rng), rng) for _ in range(600)]
    without = [sum(end[i] == video_reading.IGNORE for _, (end, _) in told) / len(told) for i in range(4)]
    assert without[:2] == [0, 0] and 0.03 < without[2] < 0.12 and 0.14 < without[3] < 0.27
    for caption, (_, words) in told:
        assert sum(row[0] >= 0 for row in words) == ids(caption)[1] - 1, caption  # its end is not a word


def test_the_scorer_knows_real_renders_and_is_not_fooled() -> None:
    result = score.check(count=30, seed=3)
    assert all(row["share"] >= 0.95 for row in result["real"].values())
    assert result["shuffled"]["exact"]["share"] <= 0.1


def test_the_scorer_sees_single_faults() -> None:
    rng = random.Random(5)
    said = world.Scene((world.Thing("umbrella", "yellow"),), "blue")
    swapped = world.Scene((world.Thing("umbrella", "blue"),), "yellow")
    other = world.Scene((world.Thing("guitar", "yellow"),), "blue")
    pixels = {s: np.asarray(draw(s, rng), np.float32) for s in (said, swapped, other)}
    assert score.score(pixels[said], said).exact
    fault = score.score(pixels[swapped], said)
    assert fault.colours == (False,) and not fault.background
    fault = score.score(pixels[other], said)
    assert fault.objects == (False,) and fault.background


def test_wilson_interval() -> None:
    assert score.wilson(190, 200) == pytest.approx(0.9104, abs=1e-4)
    assert score.wilson(0, 10) == pytest.approx(0, abs=1e-12) and score.wilson(0, 0) == 0


def test_schedule_is_shifted_and_ends_in_zero() -> None:
    assert sigmas(4, 1.5) == pytest.approx([1, 0.8181818, 0.6, 0.3333333, 0])
