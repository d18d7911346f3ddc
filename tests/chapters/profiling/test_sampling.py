"""A program that is sampled from inside and from outside: looks from outside agree with the program's own clocks."""

import pytest

from tinytorch.chapters.profiling import sampling
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.profiling import program

PROGRAM = """
import time
def plain():
    end = time.thread_time() + 0.3
    while time.thread_time() < end: pass
def other():
    end = time.thread_time() + 0.1
    while time.thread_time() < end: pass
spent = {"plain": 0.0, "other": 0.0}
for _ in range(4):
    for part in (plain, other):
        begun = time.perf_counter()
        part()
        spent[part.__name__] += time.perf_counter() - begun
"""


def seen(run):  # type: ignore[no-untyped-def]  # its source runs in another process
    """Run a program, and say that each function was seen once."""
    run()
    return {"plain": 1, "other": 1}


def test_shares_from_outside_are_those_of_the_programs_clocks() -> None:
    if why := program.why_unreadable():
        pytest.skip(why)
    found = sampling.in_turns(PROGRAM, seen, repeats=1)
    assert not isinstance(found, Unmeasured)
    shares = {name: one.share.median for name, one in found.items()}
    assert shares["clocks"] > 0.5, "three quarters, as far as other programs leave it"
    assert shares["outside"] > 0.5
    assert shares["inside"] == 0.5
    assert found["outside"].slower is not None


def test_where_nobody_may_look_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "why_unreadable", lambda: "nobody may look")
    assert sampling.in_turns(PROGRAM, seen) == Unmeasured("nobody may look")
