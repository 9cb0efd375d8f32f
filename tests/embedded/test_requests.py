"""The requests that the prompt writer learns from: answers fulfil wishes, and only captions are read as captions."""

from __future__ import annotations

import random

import pytest
from recipes import video_requests
from recipes.requests import Wish, answer, fulfils, read, request
from recipes.world import Scene, Thing, caption, sample_scene


@pytest.mark.parametrize("held_out", [False, True])
def test_answers_fulfil_their_wish(held_out: bool) -> None:
    rng = random.Random(1)
    for _ in range(500):
        text, wish = request(rng, held_out=held_out)
        scene = read(answer(wish, rng))
        assert scene is not None and False not in fulfils(scene, wish).values(), text
        assert wish.held_out == held_out


def test_reads_every_caption() -> None:
    rng = random.Random(2)
    for _ in range(500):
        scene = sample_scene(rng)
        words = caption(scene, rng)
        if not words.startswith(("in ", "at ", "on ")):  # the background first: not how the writer answers
            assert read(words) == scene, words


@pytest.mark.parametrize(
    "prompt",
    [
        "",
        "a red apple",
        "a apple on the beach",
        "an red apple on the beach",
        "a red cat on the beach",
        "a dog at night",
        "a red apple on a red background",
        "a red apple on a loud background",
        "a red apple on the beach please",
        "an apple left of on the beach",
    ],
)
def test_refuses_what_is_no_caption(prompt: str) -> None:
    assert read(prompt) is None


def test_tells_what_is_wrong() -> None:
    wish = Wish(frozenset({"apple", "burger"}), "red", "at night", "big")
    right = Scene((Thing("apple", "red"),), "at night", size="big")
    assert fulfils(right, wish) == {"object": True, "colour": True, "background": True, "size": True}
    wrong = Scene((Thing("car", "blue"),), "on the beach")
    assert not any(fulfils(wrong, wish).values())
    assert fulfils(wrong, Wish(frozenset({"car"})))["colour"] is None


@pytest.mark.parametrize("held_out", [False, True])
def test_answers_to_requests_for_clips_fulfil_them(held_out: bool) -> None:
    rng = random.Random(4)
    for _ in range(500):
        text, wish = video_requests.request(rng, held_out=held_out)
        scene = video_requests.read(video_requests.answer(wish, rng))
        assert scene is not None and False not in video_requests.fulfils(scene, wish).values(), text
        assert wish.held_out == held_out
    wrong = video_requests.read("a blue car rising at night")
    wish = video_requests.ClipWish(frozenset({"fish"}), "red", "in the sea")
    assert wrong and not any(video_requests.fulfils(wrong, wish).values())


@pytest.mark.parametrize(
    "prompt",
    [
        "a red apple on the beach",
        "a red apple moving on the beach",
        "a red apple rising in the snow",
        "a blue fish moving left in the sea",
        "an house rising at night",
        "a red apple rising at night please",
    ],
)
def test_refuses_what_is_no_caption_of_a_clip(prompt: str) -> None:
    assert video_requests.read(prompt) is None
