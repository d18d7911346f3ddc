"""The verdict: chosen by the measured ceilings and their intervals, and by nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.ceilings import Ceilings, ceilings, verdict
from tinytorch.perf.timing import Measurement


def made(flops: float, bandwidth: float, op: float, noise: float = 0.0) -> Ceilings:
    """Return ceilings whose seven samples spread by ``noise`` on both sides."""

    def around(value: float, unit: str) -> Measurement:
        return Measurement("made", tuple(value * (1 + noise * k / 3) for k in range(-3, 4)), unit)

    return Ceilings(around(flops, "FLOP/s"), around(bandwidth, "B/s"), around(op, "s"))


@pytest.mark.parametrize(
    ("flops", "traffic", "calls", "expected"),
    [
        (10**9, 10**6, 1, "compute"),
        (10**6, 10**9, 1, "memory"),
        (10**3, 10**3, 10**6, "overhead"),
        (10**9, 10**9, 1, "unclear"),
    ],
)
def test_the_longest_predicted_time_decides(flops: int, traffic: int, calls: int, expected: str) -> None:
    assert verdict(flops, traffic, calls, 1.0, made(1e9, 1e9, 1e-6)).bottleneck == expected


def test_two_times_within_the_noise_are_unclear() -> None:
    assert verdict(10**9, 9 * 10**8, 1, 1.0, made(1e9, 1e9, 1e-6, noise=0.01)).bottleneck == "compute"
    assert verdict(10**9, 9 * 10**8, 1, 1.0, made(1e9, 1e9, 1e-6, noise=0.3)).bottleneck == "unclear"


@given(st.integers(1, 10**12), st.integers(1, 10**12), st.integers(1, 10**5), st.floats(1e-6, 1e3))
def test_predictions_are_amounts_over_ceilings(flops: int, traffic: int, calls: int, seconds: float) -> None:
    found = verdict(flops, traffic, calls, seconds, made(2e9, 5e9, 1e-6))
    parts = (flops / 2e9, traffic / 5e9, calls * 1e-6)
    assert (found.compute_seconds, found.memory_seconds, found.overhead_seconds) == pytest.approx(parts)
    assert found.explained == pytest.approx(max(parts) / seconds)
    assert found.efficiency == pytest.approx(flops / seconds / 2e9)


def test_a_time_of_nothing_raises() -> None:
    with pytest.raises(ValueError, match="seconds must be above 0"):
        verdict(1, 1, 1, 0.0, made(1, 1, 1))


def test_ceilings_are_measured_samples_and_kept() -> None:
    found = ceilings()
    assert [found.flops.unit, found.bandwidth.unit, found.op.unit] == ["FLOP/s", "B/s", "s"]
    for one in (found.flops, found.bandwidth, found.op):
        assert one.n >= 6
        assert one.minimum > 0
    assert ceilings() is found
