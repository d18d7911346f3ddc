"""The division of a collective's time into waiting and moving."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.distributed.recording.matched_calls import divided

CALLS = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=6)


@given(CALLS)
def test_waiting_and_moving_make_up_the_call(calls: list[tuple[int, int]]) -> None:
    starts = [start for start, _ in calls]
    ends = [start + length for start, length in calls]
    parts = divided(starts, ends)
    for start, end, part in zip(starts, ends, parts, strict=True):
        assert part.waiting + part.moving == end - start
        assert part.waiting >= 0
        assert part.moving >= 0
    assert parts[starts.index(max(starts))].waiting == 0, "nobody waits for himself"


def test_a_late_rank_makes_the_others_wait() -> None:
    assert divided([0, 70, 20], [100, 100, 101]) == [(70, 30), (0, 30), (50, 31)]
    assert divided([0, 70], [30, 100]) == [(0, 30), (0, 30)], "a root that left before did not wait"


def test_what_is_no_collective_is_refused() -> None:
    with pytest.raises(ValueError, match="of one length above 0, not 1 and 2"):
        divided([1], [1, 2])
    with pytest.raises(ValueError, match="rank 1's call must not end at 4 before its start at 5"):
        divided([1, 5], [2, 4])
