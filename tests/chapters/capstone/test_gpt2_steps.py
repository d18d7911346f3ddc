"""What the page says of GPT-2's steps, on a made machine whose memory delivers 10 GB/s and whose calls take 1 µs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.chapters.made_turns import made
from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.capstone import gpt2_steps as chapter
from tinytorch.chapters.gpt2 import GPT2
from tinytorch.perf.events.stream import recording
from tinytorch.perf.measuring import Measurement

CACHE, CALLS = GPT2.cache_bytes(1024), 126e-6
BEFORE = (GPT2.step_bytes + CACHE) / 10e9 + CALLS


def test_each_technique_leaves_the_bytes_operations_and_calls_that_it_does_not_save() -> None:
    again = GPT2.reread_flops(1024) / 100e9 + CALLS
    expected = {
        "a cache": (again, BEFORE),
        "eight-bit codes for the weights": (BEFORE, (GPT2.coded_bytes + CACHE) / 10e9 + CALLS),
        "half the numbers of the MLPs": (BEFORE, BEFORE - 4 * GPT2.halving_saves / 10e9),
        "a plan, whose calls cost nothing": (BEFORE, BEFORE - CALLS),
        "all of them together": (again, (GPT2.halved_coded_bytes + CACHE) / 10e9),
    }
    steps = chapter.least_steps(made_ceilings())
    assert [name.partition(" (")[0] for name in steps] == [*expected]
    for one, (first, then) in zip(steps.values(), expected.values(), strict=True):
        assert (one.before.value, one.after.value, one.gain.value) == pytest.approx((first, then, first / then))


@pytest.mark.parametrize(("peak", "first"), [(100e9, "a cache"), (1e15, "eight-bit codes")])
def test_the_largest_gain_stands_first_and_all_together_last(peak: float, first: str) -> None:
    """Where arithmetic costs nothing, the text is read again in the time of the weights: a cache only adds bytes."""
    *alone, (together, _) = chapter.least_steps(made_ceilings(peak=peak)).items()
    assert alone[0][0].startswith(first)
    assert together == "all of them together"
    gains = [one.gain.value for _, one in alone]
    assert gains == sorted(gains, reverse=True)


def test_three_blocks_are_a_quarter_of_the_body() -> None:
    assert chapter.BODY_BYTES == 4 * chapter.QUARTER_BYTES == 4 * 3 * 4 * (12 * 768**2 + 13 * 768)


def test_the_blocks_that_are_timed_have_gpt2s_shape_and_take_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[Any] = []

    def in_two_places(functions: Callable[[], dict[str, Callable[[], Any]]], **_: float) -> dict[str, Measurement]:
        for _place in range(2):
            with recording() as recorded:
                assert functions()["quarter"]().shape == (1, 1, 768)
            blocks.append(recorded.profile.events)
        return {"quarter": made(1.0, "s")}

    monkeypatch.setattr(chapter, "interleave", in_two_places)
    assert chapter.quarter_seconds().unit == "s"
    products = [sum(event.flops or 0 for event in events if event.op == "linear") for events in blocks]
    assert products == [3 * 2 * 12 * 768**2] * 2
