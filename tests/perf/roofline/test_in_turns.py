"""Ceilings that are sampled in turns with calls: which they are, and that shares of them are those of neighbours."""

from dataclasses import replace

import numpy as np
import pytest

from tests.perf.made_ceilings import made_ceilings, spread
from tests.perf.small_models import rows, two_layers
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import recording
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import blas_threads, from_turns
from tinytorch.perf.measuring.conditions import BetweenRuns, ComputeProbe, Conditions, Instrument, MemoryProbe
from tinytorch.perf.measuring.measurement import Measurement
from tinytorch.perf.roofline.bounds import CeilingsInTurns, Slope, slope_at
from tinytorch.perf.roofline.in_turns import interleave_with_ceilings, record_with_ceilings
from tinytorch.perf.roofline.placement import place, place_calls, place_ops, ridge


def by_probe(name: str, value: float, unit: str, instrument: Instrument) -> Measurement:
    """Return a rate that a probe measured."""
    return replace(spread(value, unit, 0.2), name=name, conditions=Conditions(threads=1, instrument=instrument))


def probed_ceilings(threads: int = 1) -> Ceilings:
    """Return made ceilings that say by which probes they were measured; the system's own speed is not in them."""
    peak = by_probe("compiled multiply-add", 100e9, "FLOP/s", ComputeProbe(vector_bits=128, chains=12))
    made = made_ceilings(0.2, threads)
    levels = tuple(
        replace(level, copy=by_probe("copy bandwidth", level.copy.median, "B/s", MemoryProbe(working_set_bytes=size)))
        for level, size in zip(made.levels, (2**14, 2**17, 2**22), strict=True)
    )
    return replace(made, fp32_peak=peak, multiply_add=((2, peak),), levels=levels)


def test_a_share_of_a_ceiling_in_turns_does_not_feel_what_slows_both() -> None:
    """A slow moment triples both times: 40 % of the roof before it and after it."""
    x = Tensor(np.ones((64, 64), np.float32))
    with recording() as recorded:
        x @ x
    flops, between = 2 * 64**3, BetweenRuns(0.2, 0.02, 1.0)
    slow = np.array([1, 3, 1, 2, 3, 1, 2, 1, 3, 1, 2, 1])
    noise = 1 + 0.01 * np.resize([1, -1, 0.5], 12)
    taken = {"call": (slow * noise * 2.5e-6).tolist(), "peak": (slow * 1e-6).tolist()}
    times = from_turns(taken, sample="rounds", conditions=Conditions(blas_threads=1, inner_loops=1000))
    times = {
        name: replace(one, conditions=replace(one.conditions, between_runs=between)) for name, one in times.items()
    }
    kept = made_ceilings(0.3, threads=1)
    peak = times["peak"].per(flops, "FLOP/s")
    slope = Slope("L2", "L2", times["peak"].per(2 * 3 * 64 * 64 * 4, "B/s"))  # bytes take half as long
    here = CeilingsInTurns(**{**vars(kept), "fp32_peak": peak, "slopes": {3 * 64 * 64 * 4: slope}})
    near, far = (place("product", recorded.profile.events, times["call"], one).of_roof for one in (here, kept))
    assert near.median == pytest.approx(0.4, rel=0.02)
    assert near.spread < 0.08
    assert far.spread > 0.3


def test_calls_have_the_ceilings_of_the_levels_that_their_ops_lie_in() -> None:
    made = probed_ceilings()
    sizes = {"near": 32, "far": 1024}
    calls = {name: (lambda x: x + x, Tensor(np.ones((n, n), np.float32))) for name, n in sizes.items()}
    with blas_threads(1):
        placed = place_calls(calls, made, repeats=6)
    assert {name: one.slope.of for name, one in placed.items()} == {"near": "L1", "far": "memory"}
    for one in placed.values():
        paired = np.divide(one.roof.samples, one.seconds.samples)
        assert one.of_roof.samples == pytest.approx(paired)
        assert one.slope.bandwidth.median != slope_at(one.demand.working_set, made).bandwidth.median


def test_recordings_and_ceilings_are_pairs() -> None:
    model, x = two_layers(), rows()
    with blas_threads(1):
        runs, here = record_with_ceilings(lambda: model(x), probed_ceilings(), repeats=7)
    placed = place_ops(runs, here)["linear", "forward", "numpy"]
    assert placed.of_roof.samples == pytest.approx(np.divide(placed.roof.samples, placed.seconds.samples))
    with pytest.raises(ValueError, match="repeats"):
        record_with_ceilings(lambda: model(x), probed_ceilings(), repeats=0)


@pytest.mark.parametrize(
    "made", [probed_ceilings(2), replace(probed_ceilings(), fp32_from="sgemm"), made_ceilings(threads=1)]
)
def test_ceilings_without_a_short_probe_stay_as_they_are(made: Ceilings) -> None:
    times, here = interleave_with_ceilings({"a sum": lambda: sum(range(99))}, made, [2**12], repeats=6)
    assert here is made
    assert list(times) == ["a sum"]


def test_a_slope_that_was_not_sampled_in_turns_is_that_of_the_level() -> None:
    made = made_ceilings()
    own = Slope("L1", "L1", spread(1.0, "B/s"))
    here = CeilingsInTurns(**{**vars(made), "slopes": {4096: own}})
    assert slope_at(4096, here) is own
    assert slope_at(8192, here).bandwidth.median == slope_at(8192, made).bandwidth.median


@pytest.mark.parametrize(("by", "alike"), [("compiled multiply-add", True), ("sgemm", False)])
def test_a_ridge_does_not_feel_what_slows_peak_and_bandwidth(by: str, alike: bool) -> None:
    made = made_ceilings(0.3, threads=1)
    found = ridge(replace(made, fp32_from=by), made.levels[0])
    assert found.median == pytest.approx(0.25)
    assert (found.spread < 1e-6) == alike
