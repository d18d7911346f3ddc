"""Gustafson's law: beside Amdahl's, and published examples."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.distributed.cluster_model.scaling_laws import gustafson
from tinytorch.perf.profiling.breakdown import amdahl


@given(st.floats(0, 1), st.integers(2, 100_000))
def test_both_are_one_law_of_a_share_that_counts_from_one_rank_or_from_all(serial: float, ranks: int) -> None:
    scaled = gustafson(serial, ranks)
    of_one_rank = serial / scaled  # of the time that one rank would take for the grown work
    assert amdahl(1 - of_one_rank, ranks) == pytest.approx(scaled)


def test_published_examples() -> None:
    # J. L. Gustafson, 1988: 1,024 processors, shares of 0.4 to 0.8 % serial, scaled speedups of 1,020 down to 1,016.
    assert gustafson(0.004, 1024) == pytest.approx(1020, abs=0.5)
    assert gustafson(0.008, 1024) == pytest.approx(1016, abs=0.5)
