"""What the page says of GPT-2's steps, on a made machine whose memory delivers 10 GB/s and whose calls take 1 µs."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.chapters.capstone.made_trials import in_turns
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


@pytest.mark.parametrize(("gain", "word"), [(0.8, "none"), (2.5, "kept"), (4.1, "more")])
def test_codes_of_blocks_of_gpt2s_shape_gain_at_most_their_bytes(
    monkeypatch: pytest.MonkeyPatch, gain: float, word: str
) -> None:
    blocks: list[Any] = []

    def in_a_place(functions: Callable[[], dict[str, Callable[[], Any]]], **_: float) -> dict[str, Measurement]:
        run = functions()["floats"]
        with recording() as recorded:
            assert run().shape == (1, 1, 768)
        blocks.append(recorded.profile.events)
        return in_turns({"floats": gain, "codes": 1.0})

    monkeypatch.setattr(chapter, "interleave", in_a_place)
    found = chapter.codes_for_floats()
    assert found.kept.word == word
    assert found.gained.estimate.median == pytest.approx(gain, rel=0.01)
    assert found.allowed.value == pytest.approx(4, rel=0.02)
    assert [sum(event.flops or 0 for event in events if event.op == "linear") for events in blocks] == [
        3 * 2 * 12 * 768**2
    ]
