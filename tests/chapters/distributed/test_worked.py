"""Numbers of the page that no rank measures: laws, rules, and the answers to the questions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.synthetic_machine import around
from tinytorch.chapters.distributed import explorer, worked
from tinytorch.perf.distributed import given_link
from tinytorch.perf.profiling.breakdown import amdahl


def test_gpt2s_gradients_take_what_a_ring_of_eight_does_on_the_assumed_link() -> None:
    found = worked.answers(given_link(5e-6, 12.5e9), 175e9, around(100e9, "FLOP/s"))
    sent, step = 7 / 4 * 4 * 124_439_808, 3 * 291_648_307_200  # published counts of GPT-2 at 1,024 positions
    assert found["reduced-bytes"].value == pytest.approx(sent)
    assert found["reduced"].value == pytest.approx(sent / 12.5e9 + 14 * 5e-6)
    assert found["step-flops"].value == step


@given(st.floats(0, 1), st.integers(2, 100_000))
def test_both_laws_are_one_of_a_share_that_counts_from_one_rank_or_from_all(serial: float, ranks: int) -> None:
    scaled = worked.gustafson(serial, ranks)
    of_one_rank = serial / scaled  # of the time that one rank would take for the grown work
    assert amdahl(1 - of_one_rank, ranks) == pytest.approx(scaled)


def test_gustafsons_published_examples() -> None:
    # J. L. Gustafson, 1988: 1,024 processors, shares of 0.4 to 0.8 % serial, scaled speedups of 1,020 down to 1,016.
    assert worked.gustafson(0.004, 1024) == pytest.approx(1020, abs=0.5)
    assert worked.gustafson(0.008, 1024) == pytest.approx(1016, abs=0.5)


def test_each_rule_is_where_arithmetic_lasts_as_long_as_messages() -> None:
    flops, cluster = 312e12, explorer.CLUSTERS[0]
    link = cluster.links.between.beta_s_per_byte
    data, tensor, context, experts, pipeline = (one["far"].value for one in worked.rules(cluster.links, flops))
    parameters = 1e9  # gradients of two bytes go round twice while the backward pass makes four operations for each
    assert 4 * parameters * data / flops == pytest.approx(4 * parameters * link)
    rows = 100.0  # two products, four times as wide inside, and the ring that sums rows of two bytes
    assert 16 * rows * tensor**2 / 8 / flops == pytest.approx(2 * 7 / 8 * 2 * rows * tensor * link)
    width = 4096.0  # scores and weighted sums of a block of positions, against its keys and values
    assert 4 * context**2 * width / flops == pytest.approx(4 * context * width * link)
    assert 16 * experts**2 / flops == pytest.approx(4 * experts * link), "a token goes to its expert and back"
    assert 24 * pipeline * width / flops == pytest.approx(2 * width * link), "layers times width; a token is handed on"
