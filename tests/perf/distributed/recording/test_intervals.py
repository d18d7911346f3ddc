"""Pieces of time against counting every nanosecond of small examples."""

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.perf.distributed.recording.made_tracks import Made
from tinytorch.perf.distributed.recording.intervals import gaps, innermost_intervals, length, merged

INTERVALS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: tuple(sorted(pair))), max_size=8
)


def covered(intervals: Any) -> set[int]:
    return {when for start, end in intervals for when in range(start, end)}


@given(INTERVALS, st.integers(-2, 42), st.integers(-2, 42))
def test_stretches_are_sets_of_nanoseconds(one: Any, start: int, end: int) -> None:
    first = merged(one)
    assert covered(first) == covered(one)
    assert all(a[1] < b[0] for a, b in pairwise(first)), "in order and apart"
    assert length(first) == len(covered(one))
    free = gaps(first, start, end)
    assert covered(free) == set(range(start, end)) - covered(one)
    assert length(free) == len(covered(free))


@st.composite
def nested(draw: st.DrawFn, start: int = 0, end: int = 60, depth: int = 3) -> list[tuple[int, int]]:
    """Draw events of one rank: they follow or contain one another."""
    found = []
    now = start
    while now < end and draw(st.booleans()):
        first = draw(st.integers(now, end))
        last = draw(st.integers(first, end))
        found += [(first, last), *(draw(nested(first, last, depth - 1)) if depth else [])]
        now = last
    return found


@given(nested(), st.randoms(), st.sampled_from([0, -1000]))
def test_each_moment_belongs_to_the_innermost_op(drawn: list[tuple[int, int]], order: Any, shift: int) -> None:
    made, events = Made(0, 60), [(start + shift, end + shift) for start, end in drawn]
    for number in order.sample(range(len(events)), len(events)):
        made.op(str(number), *events[number])
    inners = innermost_intervals(made.events)
    assert covered((inner.start, inner.end) for inner in inners) == covered(events)
    assert sum(inner.end - inner.start for inner in inners) == len(covered(events)), "no two overlap"
    for inner in inners:
        own = made.events[inner.event]
        assert own.start <= inner.start < inner.end <= own.end
        shortest = min(b - a for a, b in events if a <= inner.start and inner.end <= b)
        assert own.total_ns == shortest
