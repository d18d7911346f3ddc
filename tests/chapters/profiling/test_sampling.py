"""A program that is sampled from inside and from outside: looks from outside agree with the program's own clocks."""

import time

from tinytorch.chapters.profiling import sampling
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.profiling.program import why_unreadable


def test_shares_from_outside_are_those_of_the_programs_clocks() -> None:
    found = sampling.in_turns(rounds=1)
    if isinstance(found, Unmeasured):
        assert found.reason == why_unreadable()
        return
    shares = {name: row["share"].median for name, row in found.items()}
    assert shares["clocks"] > 0.5, "nearly all, as far as other programs leave it"
    assert shares["outside"] > 0.5
    assert 0 <= shares["inside"] <= 1


def test_a_thread_sees_the_function_that_runs() -> None:
    def busy() -> None:
        end = time.thread_time() + 0.2
        while time.thread_time() < end:
            pass

    assert sampling.sampled(busy)["busy"] > 0
