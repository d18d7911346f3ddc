"""Amdahl's and Gustafson's laws: their closed forms, published examples, and what they have in common."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.chapters.distributed.scaling_laws import amdahl_speedup, gustafson_speedup

SHARES = st.floats(0, 1)
RANKS = st.integers(2, 100_000)


@given(SHARES, RANKS)
def test_both_are_one_law_of_a_share_that_counts_from_one_rank_or_from_all(serial: float, ranks: int) -> None:
    assert amdahl_speedup(serial, ranks) == pytest.approx(1 / (serial + (1 - serial) / ranks))
    scaled = gustafson_speedup(serial, ranks)
    of_one_rank = serial / scaled  # of the time that one rank would take for the grown work
    assert amdahl_speedup(of_one_rank, ranks) == pytest.approx(scaled)


def test_published_examples() -> None:
    # J. L. Gustafson, 1988: 1,024 processors, shares of 0.4 to 0.8 % serial, scaled speedups of 1,020 down to 1,016.
    assert gustafson_speedup(0.004, 1024) == pytest.approx(1020, abs=0.5)
    assert gustafson_speedup(0.008, 1024) == pytest.approx(1016, abs=0.5)
    assert amdahl_speedup(0.05, 10**9) == pytest.approx(20)


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"serial must be a share of 0 to 1, not 1\.5"):
        amdahl_speedup(1.5, 2)
    with pytest.raises(ValueError, match="ranks must be at least 1, not 0"):
        gustafson_speedup(0.5, 0)
