"""A program that is sampled from inside and from outside: looks from outside agree with the program's own clocks."""

import time

import pytest

from tinytorch.chapters.profiling import sampling
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.profiling.program import why_unreadable


def test_shares_from_outside_are_those_of_the_programs_clocks() -> None:
    found = sampling.in_turns(repeats=1, turns=400)
    if isinstance(found, Unmeasured):
        assert found.reason == why_unreadable()
        return
    shares = {name: one.share.median for name, one in found.items()}
    assert shares["clocks"] > 0.5, "nearly all, as far as other programs leave it"
    assert shares["outside"] > 0.5
    assert 0 <= shares["inside"] <= 1
    assert found["outside"].slower is not None


def test_a_thread_sees_the_function_that_runs() -> None:
    def busy() -> None:
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass

    assert sampling.sampled(busy)["busy"] > 0


def test_where_nobody_may_look_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "why_unreadable", lambda: "nobody may look")
    assert sampling.in_turns() == Unmeasured("nobody may look")
