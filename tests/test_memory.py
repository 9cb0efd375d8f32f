"""Amounts of memory as people write them."""

from __future__ import annotations

import pytest

from pipegraph.memory import read_size, show_size, size_setting, total_memory


@pytest.mark.parametrize("text, size", [("512M", 512 << 20), (" 1.5 GiB ", 3 << 29), ("12", 12), ("2kb", 2048)])
def test_sizes(text: str, size: int) -> None:
    assert read_size(text) == size


@pytest.mark.parametrize("text", ["", "a lot", "-1", "1 PiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"a number of bytes like 512M or 1\.5GiB is wanted, not"):
        read_size(text)


@pytest.mark.parametrize("size, text", [(12, "12 bytes"), (1536, "1.5 KiB"), (3 << 29, "1.5 GiB")])
def test_sizes_are_shown_in_the_largest_unit(size: int, text: str) -> None:
    assert show_size(size) == text


def test_a_setting_names_its_variable_when_it_is_no_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEGRAPH_X", "")
    assert size_setting("PIPEGRAPH_X", 5) == 5
    monkeypatch.setenv("PIPEGRAPH_X", "7K")
    assert size_setting("PIPEGRAPH_X", 5) == 7168
    monkeypatch.setenv("PIPEGRAPH_X", "lots")
    with pytest.raises(ValueError, match="PIPEGRAPH_X: a number of bytes"):
        size_setting("PIPEGRAPH_X", 5)


def test_this_machine_has_memory() -> None:
    assert total_memory() > 1 << 29
