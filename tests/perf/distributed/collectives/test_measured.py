"""Rings and collectives measured on ranks: one launch, looked at from all sides."""

import os
from typing import Any

import numpy as np
import pytest

from tests.perf.distributed.collectives import measuring_programs as programs
from tinytorch.perf.distributed.collectives import measured
from tinytorch.perf.distributed.collectives.link_fit import fit
from tinytorch.perf.distributed.collectives.timing import KINDS, even_sizes, pairs_of
from tinytorch.perf.distributed.ranks.communicator import Communicator, Place
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.ranks.measuring import is_oversubscribed
from tinytorch.perf.host import pinned_threads
from tinytorch.perf.host.blas import limited_blas_threads
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.measuring.conditions import Ranks

Told = list[dict[str, Any]]
RANKS = 2


@pytest.fixture(scope="module")
def told() -> Told:
    return launch(programs.measure, RANKS, threads=1, pinned=True)


def test_a_ring_adds_what_the_library_adds(told: Told) -> None:
    for one in told:
        np.testing.assert_array_equal(one["ring"], 2 * np.arange(5.0) + 1)


def test_collectives_are_timed_alike_on_all_ranks(told: Told) -> None:
    one, other = (told[rank]["collectives"] for rank in (0, 1))
    assert one == other
    assert one["kinds"] == [kind for kind in KINDS if kind != "point to point between hosts" for _ in range(2)]
    assert one["sizes"] == [8, 304] * 6
    assert np.shape(one["seconds"]) == (12, 7)
    assert np.min(one["seconds"]) > 0
    assert len(one["barrier"]) == 7
    assert all(loops >= 2 and loops % 2 == 0 for loops in one["loops"])
    assert one["cpu_per_wall"] > 0
    assert told[0]["few"] == 6


def arrays_of(told: Told) -> dict[str, Any]:
    one = told[0]["collectives"]
    return {**one, "seconds": np.array(one["seconds"]), "barrier": np.array(one["barrier"])}


def test_times_of_ranks_become_measurements_with_their_conditions(told: Told) -> None:
    one, values = told[0]["collectives"], arrays_of(told)
    made = measured._collectives(values, pinned=True)
    assert (made.kinds, made.sizes) == (tuple(dict.fromkeys(one["kinds"])), (8, 304))
    assert made.of("all-reduce")[304].samples == tuple(one["seconds"][one["kinds"].index("all-reduce") + 1])
    marked = is_oversubscribed(made.of("all-reduce")[8])
    assert marked == made.oversubscribed == (len(usable_cores()) < 2)
    with pytest.raises(ValueError, match="kind"):
        made.of("point to point between hosts")


def test_ranks_under_a_quota_of_one_core_share_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinned_threads, "allowed_cores", lambda: [4, 5])
    monkeypatch.setattr(pinned_threads, "cpu_quota", lambda: 1.0)
    made = Communicator.__new__(Communicator)
    made.places = tuple(Place(rank, "pod", rank, tuple(usable_cores())) for rank in range(2))
    assert made.oversubscribed
    assert not pinned_threads.may_pin(), "each would have a core that the quota does not grant"


def test_ranks_that_may_not_be_pinned_run_and_their_records_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_setaffinity", raising=False)
    made = measured.measure_collectives(2, [8], kinds=["all-reduce"], repeats=6)
    conditions = made.of("all-reduce")[8].conditions
    assert isinstance(conditions.instrument, Ranks)
    assert (conditions.instrument.pinned, conditions.blas_threads) == (False, limited_blas_threads(1) or "unknown")


def test_more_ranks_than_cores_are_marked_and_not_fitted(told: Told) -> None:
    made = measured._collectives({**arrays_of(told), "oversubscribed": True}, pinned=True)
    withheld = made.links("all-reduce")
    assert isinstance(withheld, Unmeasured)
    assert "more ranks than cores" in withheld.reason
    times = {size: made.of("all-reduce")[size] for size in made.sizes}
    with pytest.raises(ValueError, match="ranks"):
        fit({**times, 999: times[304]})


def test_sizes_can_be_shared_out_and_pairs_exist() -> None:
    assert even_sizes([8, 1, 30], 3) == [12, 36]

    def place(rank: int, host: str) -> Place:
        return Place(rank, host, rank, (rank,))

    assert pairs_of([place(0, "a"), place(1, "a")]) == {"point to point": (0, 1)}
    assert pairs_of([place(0, "a"), place(1, "b")]) == {"point to point between hosts": (0, 1)}
    both = pairs_of([place(0, "a"), place(1, "b"), place(2, "b"), place(3, "a")])
    assert both == {"point to point between hosts": (0, 1), "point to point": (1, 2)}


def test_wrong_plans_are_refused_before_anything_starts() -> None:
    wrong: dict[str, Any] = {"ranks": 1, "kinds": ["gossip"], "sizes": [], "repeats": 0}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=name):
            measured.measure_collectives(**{"ranks": 2, name: value})
