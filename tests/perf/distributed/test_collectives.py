"""Rings, collectives measured on ranks, and links fitted to times whose alpha and beta are known."""

from __future__ import annotations

import os
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from queue import SimpleQueue
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import curve_fit, nnls
from scipy.stats import t

from tests.chapters.made_turns import ALPHA, BETA, SIZES, made_times
from tests.perf.distributed import programs as programs
from tinytorch.perf.distributed.collectives import measured
from tinytorch.perf.distributed.collectives.link_fit import TOLERANCE, FittedLink, fit, fit_pieces, line_through
from tinytorch.perf.distributed.collectives.timing import KINDS, even_sizes, pairs_of, ring_all_reduce
from tinytorch.perf.distributed.ranks.communicator import Communicator, Place
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.host import pinned_threads
from tinytorch.perf.host.blas import limited_blas_threads
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.conditions import Ranks


def test_what_lies_on_a_line_is_found_exactly() -> None:
    link = fit(made_times(0.0))
    assert link.alpha_s == pytest.approx(ALPHA, rel=1e-9)
    assert link.beta_s_per_byte == pytest.approx(BETA, rel=1e-9)
    assert link.bandwidth is not None
    assert link.bandwidth.median == pytest.approx(1 / BETA, rel=1e-9)
    assert link.holds
    assert link.worst < 1e-9


def covered(noise: float, misfit: float, runs: int = 80) -> tuple[float, float]:
    """Return in which share of runs the intervals hold alpha and beta."""
    links = [fit(made_times(noise, misfit, seed=seed)) for seed in range(runs)]
    alpha = sum(ALPHA in link.alpha.interval for link in links) / runs
    return alpha, sum(BETA in link.beta.interval for link in links) / runs


@pytest.mark.parametrize(("noise", "misfit"), [(0.05, 0.0), (0.02, 0.05)])
def test_intervals_hold_what_they_are_to_hold(noise: float, misfit: float) -> None:
    """Of 80 runs 95 % are 76; fewer than 70 come up once in 450 times if that is the true share."""
    assert min(covered(noise, misfit)) >= 70 / 80


positive = st.floats(1e-7, 1e-2)


@given(st.lists(positive, min_size=3, max_size=8), st.integers(2, 5))
def test_the_line_is_that_of_scipys_least_squares_above_zero(times: list[float], ratio: int) -> None:
    sizes, given_times = np.array([float(ratio**i) for i in range(len(times))]), np.array(times)
    alpha, beta = (float(one[0]) for one in line_through(sizes, given_times[None]))
    scale = float(sizes.max())
    design = np.stack([1 / given_times, sizes / scale / given_times], axis=1)
    norms = np.linalg.norm(design, axis=0)
    expected, residual = nnls(design / norms, np.ones(len(times)))
    found = np.array([alpha, beta * scale]) * norms
    assert (found >= 0).all()
    assert float(np.linalg.norm(design / norms @ found - 1)) == pytest.approx(residual, rel=1e-6, abs=1e-9)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * expected.max())


def test_where_sizes_lie_off_the_line_intervals_are_those_of_scipys_regression() -> None:
    times = made_times(1e-6, 0.1, seed=3)
    link = fit(times)
    sizes = np.array(SIZES, np.float64)
    medians = np.array([times[size].median for size in SIZES])

    def line(size: npt.NDArray[np.float64], alpha: float, beta: float) -> npt.NDArray[np.float64]:
        return alpha + beta * size

    values, covariance = curve_fit(line, sizes, medians, p0=(ALPHA, BETA), sigma=medians, absolute_sigma=False)
    half = t.ppf(0.975, len(SIZES) - 2) * np.sqrt(np.diag(covariance))
    assert (link.alpha_s, link.beta_s_per_byte) == pytest.approx(tuple(values), rel=1e-5)
    assert link.alpha.interval.half_width == pytest.approx(half[0], rel=0.02)
    assert link.beta.interval.half_width == pytest.approx(half[1], rel=0.02)


def broken(jump: float) -> dict[int, Measurement]:
    """Return times of a library that sends small messages at once, and asks first, for ``jump`` s, from 4096 B on."""
    times = made_times(0.02, sizes=[2**power for power in range(3, 23)])
    late = {size: tuple(s + jump for s in one.samples) for size, one in times.items() if size >= 4096}
    return {size: Measurement(one.name, late.get(size, one.samples), "s") for size, one in times.items()}


def test_a_change_of_protocol_shows_in_the_residuals_and_makes_two_lines() -> None:
    times = broken(8e-6)
    whole = fit(times)
    assert not whole.holds
    assert whole.worst > TOLERANCE
    jumps = {after: whole.residuals[after] - whole.residuals[before] for before, after in pairwise(whole.residuals)}
    assert max(jumps, key=jumps.__getitem__) == 4096
    assert jumps[4096] > 2 * TOLERANCE
    small, large = fit_pieces(times)
    assert small.sizes == (8, 2048)
    assert large.sizes == (4096, 2**22)
    assert small.holds
    assert large.holds
    assert small.alpha_s == pytest.approx(ALPHA, rel=0.05)
    assert large.alpha_s == pytest.approx(ALPHA + 8e-6, rel=0.05)
    assert [link.sizes for link in fit_pieces(broken(0.0))] == [(8, 2**22)]


def test_bytes_that_cost_nothing_have_no_bandwidth() -> None:
    flat = {size: Measurement("flat", tuple(3e-6 + 1e-9 * np.arange(9)), "s") for size in SIZES[:4]}
    link: FittedLink = fit(flat)
    assert link.beta_s_per_byte < 1e-15
    assert link.bandwidth is None


def test_times_that_make_no_line_are_refused() -> None:
    times = made_times(0.01)
    others = [Measurement("one", *each) for each in (((1.0,), "s"), ((1.0,) * 15, "ms"), ((0.0,) * 15, "s"))]
    for wrong in ({size: times[size] for size in SIZES[:2]}, *({**times, 1: other} for other in others)):
        with pytest.raises(ValueError, match="times"):
            fit(wrong)


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
    values = arrays_of(told)
    made = measured._collectives({**values, "oversubscribed": True}, pinned=True)
    rows = {(kind, size): one.samples for kind, times in made.times.items() for size, one in times.items()}
    cases = zip(values["kinds"], values["sizes"], strict=True)
    assert rows == dict(zip(cases, map(tuple, values["seconds"].tolist()), strict=True))
    with pytest.raises(ValueError, match="kind"):
        made.of("point to point between hosts")
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


Array = npt.NDArray[Any]


class Thread:
    """What a ring needs of a communicator; counts messages and bytes that this rank sends."""

    def __init__(self, rank: int, size: int, mail: defaultdict[tuple[int, int], SimpleQueue[Array]]) -> None:
        self.rank, self.size, self._mail = rank, size, mail
        self.messages = self.nbytes = 0

    def begin_send(self, array: Array, to: int, tag: int = 0) -> Thread:
        del tag
        self.messages += 1
        self.nbytes += array.nbytes
        self._mail[self.rank, to].put(array.copy())
        return self

    def wait(self) -> None:
        return None

    def receive(self, source: int, tag: int = 0) -> Array:
        del tag
        return self._mail[source, self.rank].get()


def summed(arrays: list[Array]) -> tuple[list[Array], list[Thread]]:
    """Return what each rank of a ring has in the end, and the ranks."""
    size = len(arrays)
    mail: defaultdict[tuple[int, int], SimpleQueue[Array]] = defaultdict(SimpleQueue)
    for rank in range(size):
        mail[rank, (rank + 1) % size].qsize()  # made before threads could make it twice
    ranks = [Thread(rank, size, mail) for rank in range(size)]
    with ThreadPoolExecutor(size) as pool:
        made = list(pool.map(lambda array, rank: ring_all_reduce(array, cast(Communicator, rank)), arrays, ranks))
    return made, ranks


@given(
    st.integers(1, 6),
    st.lists(st.integers(0, 9), max_size=3),
    st.sampled_from(["f4", "f8", "i8"]),
    st.integers(0, 2**32),
)
def test_every_rank_ends_with_numpys_sum(size: int, shape: list[int], dtype: str, seed: int) -> None:
    draw = np.random.default_rng(seed)
    arrays = [np.array(draw.normal(size=shape) * 100).astype(dtype) for _ in range(size)]
    given_before = [array.copy() for array in arrays]
    made, ranks = summed(arrays)
    for one, rank in zip(made, ranks, strict=True):
        assert one.shape == tuple(shape)
        assert one.dtype == np.dtype(dtype)
        np.testing.assert_allclose(one, np.sum(arrays, axis=0, dtype=dtype), rtol=1e-5, atol=1e-3)
        np.testing.assert_array_equal(one, made[0])  # to the last bit: each part was added up in one place
        assert rank.messages == 2 * (size - 1)
        if arrays[0].size % size == 0:  # twice the array but for its own share
            assert rank.nbytes == 2 * (size - 1) * one.nbytes // size
    for array, before in zip(arrays, given_before, strict=True):
        np.testing.assert_array_equal(array, before)
