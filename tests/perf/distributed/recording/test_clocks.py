"""Clocks of ranks against clocks that are known: shifted and skewed, over round trips that take any time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.distributed.recording.clocks import Clocks, Reading, RoundTrip, reading_of

#: Of a clock that has run for years, in ns: more than a float tells apart.
LONG = 10**17
DELAYS = st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=30)


def trips_to(shift: int, skew: int, delays: list[tuple[int, int]], start: int) -> list[RoundTrip]:
    """Return round trips to a clock that is ``shift`` ns behind and loses ``skew`` ns in a second."""
    found, now = [], start
    for there, back in delays:
        found.append(RoundTrip(now, behind(now + there, shift, skew), now + there + back))
        now += there + back + 1000
    return found


def behind(when: int, shift: int, skew: int) -> int:
    return when - shift - when * skew // 10**9


@given(st.integers(-LONG, LONG), DELAYS, st.integers(0, LONG))
def test_the_error_holds_the_truth_whichever_way_was_slow(shift: int, delays: list[tuple[int, int]], now: int) -> None:
    reading = reading_of(trips_to(shift, 0, delays, now))
    assert abs(reading.offset - shift) <= reading.error + 16, "16 ns is what a float of a hundred years is rounded to"
    assert reading.error == min(map(sum, delays)) / 2, "the fastest trip tells most"


@given(st.integers(-(10**15), 10**15), st.integers(-(10**5), 10**5), DELAYS, DELAYS, st.integers(0, 10**15))
def test_times_between_two_readings_are_right_within_the_error_told(
    shift: int, skew: int, first: list[tuple[int, int]], last: list[tuple[int, int]], start: int
) -> None:
    end = start + 10**11
    known = (reading_of(trips_to(shift, skew, first, start)), reading_of(trips_to(shift, skew, last, end)))
    clocks = Clocks(((Reading(start, 0.0, 0.0), Reading(end, 0.0, 0.0)), known))
    times = [start + (end - start) * part // 7 for part in range(1, 7)]
    own = [behind(when, shift, skew) for when in times]
    for when, found in zip(times, clocks.on_rank_0(1, own), strict=True):
        # The readings themselves are taken at a clock that runs on by `skew` within a round trip.
        assert abs(int(found) - when) <= clocks.largest_error(1) + 2e6 * abs(skew) / 1e9 + 3
    assert list(clocks.on_rank_0(0, times)) == times


def test_a_clock_drifts_not_before_the_first_and_after_the_last_reading() -> None:
    clocks = Clocks(((Reading(0, 0.0, 0.0),), (Reading(100, 10.0, 1.0),)))
    later = clocks.followed_by(Clocks(((Reading(300, 0.0, 0.0),), (Reading(200, 30.0, 3.0),))))
    assert list(later.on_rank_0(1, [0, 100, 125, 200, 900])) == [10, 110, 140, 230, 930]
    assert later.largest_error(1) == 3


def test_what_tells_nothing_of_a_clock_is_refused() -> None:
    with pytest.raises(ValueError, match="round"):
        reading_of([])
    with pytest.raises(ValueError, match="came"):
        reading_of([RoundTrip(5, 0, 4)])
    one = Reading(5, 0.0, 0.0)
    with pytest.raises(ValueError, match="readings"):
        Clocks(((one,), ()))
    with pytest.raises(ValueError, match="later"):
        Clocks(((one,),)).followed_by(Clocks(((one,),)))
    with pytest.raises(ValueError, match="clocks"):
        Clocks(((one,),)).followed_by(Clocks(((one,), (one,))))
