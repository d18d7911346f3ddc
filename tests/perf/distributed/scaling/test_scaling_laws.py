"""Amdahl's and Gustafson's laws: each other's limits, and back from a speedup to the serial share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.breakdown import amdahl
from tinytorch.perf.distributed.scaling.scaling_laws import (
    amdahl_serial,
    amdahl_speedup,
    gustafson_serial,
    gustafson_speedup,
)

SHARES = st.floats(0, 1)
RANKS = st.integers(2, 100_000)


@given(SHARES, RANKS)
def test_the_serial_share_is_found_again(serial: float, ranks: int) -> None:
    assert amdahl_serial(amdahl_speedup(serial, ranks), ranks) == pytest.approx(serial, abs=1e-9)
    assert gustafson_serial(gustafson_speedup(serial, ranks), ranks) == pytest.approx(serial, abs=1e-9)
    assert amdahl_speedup(serial, ranks) == pytest.approx(amdahl(1 - serial, ranks))


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
    with pytest.raises(ValueError, match="ranks must be at least 2 to tell a serial share, not 1"):
        amdahl_serial(1.0, 1)
    with pytest.raises(ValueError, match="speedup must be above 0, not 0"):
        gustafson_serial(0, 2)
