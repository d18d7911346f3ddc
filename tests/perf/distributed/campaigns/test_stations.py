"""Which cores workers get: their own ones, apart from one another as long as there are enough."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.distributed.campaigns.stations import default_workers, physical_cores, stations
from tinytorch.perf.distributed.ranks.communicator import Place
from tinytorch.perf.host.pinned_threads import allowed_cores, kept_on, may_pin, usable_cores


def workers(*cores: tuple[int, ...], host: str = "a") -> list[Place]:
    """Return workers of one host that may use these cores."""
    return [Place(rank, host, 100 + rank, each) for rank, each in enumerate(cores)]


def alone(places: list[Place]) -> list[dict[int, int]]:
    """Return that each logical core is a physical one."""
    return [{core: core for core in place.cores} for place in places]


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(1, 6),
)
def test_workers_that_may_use_all_cores_get_their_own_until_there_are_too_few(
    whose: list[tuple[str, int]], threads: int, cores: int
) -> None:
    places = [Place(rank, host, 1, tuple(range(cores))) for rank, (host, _) in enumerate(whose)]
    made = stations(places, alone(places), threads)
    for host in {place.host for place in places}:
        there = [station for station in made if station.host == host]
        used = [core for station in there for core in station.cores]
        enough = len(there) * threads <= cores
        assert all(station.oversubscribed == (not enough) for station in there)
        assert all(station.workers == len(there) for station in there)
        assert (len(set(used)) == len(there) * threads) == enough
        assert max(map(used.count, used)) <= -(-len(there) * threads // cores)


def test_who_was_bound_to_a_core_by_a_launcher_keeps_it() -> None:
    places = workers((0, 1), (0,))
    first, second = stations(places, alone(places), 1)
    assert (first.cores, second.cores) == ((1,), (0,))
    assert not first.oversubscribed
    both = workers((0,), (0,))
    assert all(station.oversubscribed for station in stations(both, alone(both), 1))


def test_hardware_threads_of_one_core_are_shared_last_and_said_so() -> None:
    pairs = {0: 0, 1: 1, 2: 0, 3: 1}
    two = workers((0, 1, 2, 3), (0, 1, 2, 3))
    made = stations(two, [pairs, pairs], 1)
    assert [station.cores for station in made] == [(0,), (1,)]
    assert not any(station.shares_core for station in made)
    three = workers(*[(0, 1, 2, 3)] * 3)
    made = stations(three, [pairs] * 3, 1)
    assert [station.shares_core for station in made] == [True, False, True]
    assert not any(station.oversubscribed for station in made)
    with_two_threads = stations(two, [pairs, pairs], 2)
    assert [station.cores for station in with_two_threads] == [(0, 1), (2, 3)]


def test_a_thread_is_kept_on_cores_and_let_go() -> None:
    before = allowed_cores()
    with kept_on(before[-1:]):
        assert allowed_cores() == (before[-1:] if may_pin() else before)
    assert allowed_cores() == before
    assert physical_cores(usable_cores()).keys() == set(usable_cores())
    assert 1 <= default_workers(1) <= len(usable_cores())
    assert default_workers(1000) == 1
