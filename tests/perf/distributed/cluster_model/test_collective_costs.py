"""What collectives cost by the model, against messages counted one by one and bounds that no algorithm beats."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.distributed.cluster_model import collective_costs as costs
from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, GivenLink, given_link

LINE = GivenLink(3.0, 0.5)
RANKS = st.integers(1, 5000)
SIZES = st.floats(1, 1e9)
LINES = st.builds(GivenLink, st.floats(1e-9, 1e-3), st.floats(1e-12, 1e-6))


def counted(messages: list[float]) -> float:
    """Return the time of messages of so many bytes, one after another."""
    return sum(LINE.alpha_s + LINE.beta_s_per_byte * nbytes for nbytes in messages)


def test_a_ring_sends_a_part_to_the_next_rank_in_each_step() -> None:
    for ranks in (2, 3, 7):
        assert costs.ring_all_reduce(84, ranks, LINE) == pytest.approx(counted([84 / ranks] * (2 * (ranks - 1))))


@pytest.mark.parametrize(("ranks", "rounds"), [(2, 1), (8, 3), (1024, 10), (3, 3), (6, 4), (1000, 11)])
def test_doubling_sends_the_whole_array_in_each_round(ranks: int, rounds: int) -> None:
    assert costs.doubling_all_reduce(84, ranks, LINE) == pytest.approx(counted([84] * rounds))


def test_halving_sends_halves_of_halves_and_gathers_them_again() -> None:
    halves = [40.0, 20.0, 10.0]
    assert costs.halving_all_reduce(80, 8, LINE) == pytest.approx(counted([*halves, *reversed(halves)]))
    assert costs.halving_all_reduce(80, 9, LINE) == pytest.approx(counted([80, *halves, *reversed(halves), 80]))


def test_gathering_goes_round_a_ring_or_doubles_what_it_has() -> None:
    assert costs.all_gather(80, 8, LINE) == pytest.approx(counted([10, 20, 40]))
    assert costs.all_gather(60, 3, LINE) == pytest.approx(counted([20, 20]))


def test_small_arrays_are_doubled_and_large_ones_shared_out() -> None:
    link = given_link(10e-6, 1e9)
    assert costs.all_reduce(8, 64, link) == costs.doubling_all_reduce(8, 64, link)
    assert costs.all_reduce(1e8, 64, link) == costs.halving_all_reduce(1e8, 64, link)
    assert costs.all_reduce(1e8, 63, link) == costs.ring_all_reduce(1e8, 63, link)
    assert costs.all_reduce(1e8, 1, link) == costs.all_gather(1e8, 1, link) == 0


@given(SIZES, RANKS, LINES)
def test_nothing_beats_the_bounds_of_latency_and_bandwidth(nbytes: float, ranks: int, line: GivenLink) -> None:
    found = costs.all_reduce(nbytes, ranks, line)
    moved = (ranks - 1) / ranks * nbytes * line.beta_s_per_byte
    assert found >= math.ceil(math.log2(ranks)) * line.alpha_s * (1 - 1e-9)
    assert found >= moved * (1 - 1e-9)
    assert found <= costs.ring_all_reduce(nbytes, ranks, line)
    gathered = costs.all_gather(nbytes, ranks, line)
    assert gathered >= moved * (1 - 1e-9)
    assert found <= 2 * gathered * (1 + 1e-9), "a sum is a reduce-scatter and an all-gather at most"


def test_links_are_checked() -> None:
    with pytest.raises(ValueError, match="alpha_s"):
        GivenLink(-1, 0)
    with pytest.raises(ValueError, match="beta_s_per_byte"):
        GivenLink(0, math.inf)
    with pytest.raises(ValueError, match="bytes_per_second"):
        given_link(0, 0)
    with pytest.raises(ValueError, match="ranks_per_node"):
        Cluster(LINE, LINE, 0)
    assert given_link(0, 4e9).beta_s_per_byte == 0.25e-9
