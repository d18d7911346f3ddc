"""Verdicts on a machine whose ceilings are known: exact predictions, boundaries, zones in which nothing can be told."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.made_ceilings import OP, PEAK, made_ceilings, spread
from tests.perf.small_models import Mystery, rows
from tinytorch.core.layers import Linear
from tinytorch.core.op import Spec, UncountedError, Work
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import Event, recording
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.levels import Point
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import BetweenRuns
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.quantization import Plan, QuantizedLinear
from tinytorch.perf.roofline.bounds import (
    Bottleneck,
    Demand,
    bandwidth_at,
    best_bandwidth,
    demand_of,
    roof_seconds,
    slope_at,
    slope_of,
    verdict,
)

KIB, MIB = 2**10, 2**20


def event(macs: int = 0, traffic: int = 0, elementwise: int = 0) -> Event:
    one = Spec((1,), np.dtype(np.float32))
    return Event("made", "numpy", "forward", "", (one,), one, Work(macs, elementwise), traffic, 0, 1000, 1000)


def demand(operations: float, memory_bytes: float = 0.0, calls: int = 1) -> Demand:
    """Return a demand whose bytes are those of one op, more than the caches hold."""
    flops, moved = int(operations), int(memory_bytes)
    return Demand(flops, 0, moved, calls, moved, ((moved, 1),))


NO_CALLS = spread(1e-6, "s")


def found(asked: Demand, seconds: float = 1.0, made: Ceilings | None = None, time_noise: float = 0.0) -> str:
    calls = spread(asked.calls * OP, "s")
    return verdict(asked, spread(seconds, "s", time_noise), made or made_ceilings(), calls).sentence_word


# On the made machine one second is 1e11 FLOP, 1e10 B of memory, 1e6 calls.
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (demand(1e11, 9e9, 900_000), "compute-bound"),
        (demand(9e10, 1e10, 900_000), "memory-bound"),
        (demand(9e10, 9e9, 1_000_000), "overhead-bound"),
        (demand(1e11, 1e10, 10), "compute- or memory-bound"),
        (demand(1e11, 1e9, 1_000_000), "compute- or overhead-bound"),
        (demand(1e9, 1e10, 1_000_000), "memory- or overhead-bound"),
        (demand(1e11, 1e10, 1_000_000), "compute-, memory- or overhead-bound"),
    ],
)
def test_the_longest_predicted_time_decides_and_two_alike_leave_the_order_open(asked: Demand, expected: str) -> None:
    result = verdict(asked, spread(1.0, "s"), made_ceilings(), spread(asked.calls * OP, "s"))
    assert result.sentence_word == expected
    assert (result.bottleneck is Bottleneck.OPEN) is (len(result.candidates) > 1)
    assert result.because.endswith("is open") is (len(result.candidates) > 1)
    said = Verdict.OPEN if len(result.candidates) > 1 else Verdict.SUPPORTED
    assert (result.said.verdict, str(result.said)) == (said, expected)
    assert [test.measurement for test in result.said.tests] == [result.reached]


@pytest.mark.parametrize("seconds", [1.0, 4.5])
@pytest.mark.parametrize("noise", [0.0, 0.25])
def test_a_bound_far_above_the_others_decides_however_uncertain_the_peak_and_the_time_are(
    seconds: float, noise: float
) -> None:
    """Half of the time and a tenth of it as much for bytes and calls: a model whose peak is known to a quarter."""
    made = dataclasses.replace(made_ceilings(), fp32_peak=spread(PEAK, "FLOP/s", noise))
    assert found(demand(1e11, 8e8, 40_000), seconds, made, time_noise=0.25) == "compute-bound"


def apart(made: Ceilings, noise: float) -> Ceilings:
    """Return ceilings whose peak has noise of its own, in another order than that of the bandwidths."""
    peak = Measurement("peak", tuple(np.roll(spread(PEAK, "FLOP/s", noise).samples, 3).tolist()), "FLOP/s")
    return dataclasses.replace(made, fp32_peak=peak)


NEAR, NOISY = demand(1e11, 9e9), made_ceilings(0.2)
FROM_BLAS = dataclasses.replace(NOISY, fp32_from="sgemm")


@pytest.mark.parametrize(
    ("asked", "made", "expected"),
    [
        (NEAR, NOISY, "compute-bound"),
        (demand(9e10, 1e10), NOISY, "memory-bound"),
        (NEAR, apart(NOISY, 0.2), "compute- or memory-bound"),
        (NEAR, apart(made_ceilings(0.005), 0.005), "compute-bound"),
        (NEAR, FROM_BLAS, "compute- or memory-bound"),
        (demand(1e11, 3e9), FROM_BLAS, "compute-bound"),
        # Calls are held against a bound with the intervals of both.
        (demand(1e11, calls=900_000), made_ceilings(0.02), "compute-bound"),
        (demand(1e11, calls=900_000), NOISY, "compute- or overhead-bound"),
        # What needs no arithmetic can be bound by its bytes.
        (demand(0, 9e9), made_ceilings(), "memory-bound"),
        (demand(0, 1e9), made_ceilings(), "below every roof"),
    ],
)
def test_noise_that_is_common_to_peak_and_bandwidth_cancels_where_both_were_sampled_in_turns(
    asked: Demand, made: Ceilings, expected: str
) -> None:
    assert found(asked, made=made) == expected


@pytest.mark.parametrize(
    ("alone", "turns", "expected"), [(0.3, 0.01, "compute-bound"), (0.01, 0.3, "compute- or memory-bound")]
)
def test_between_repeats_counts_what_a_quotient_in_turns_differs_by(alone: float, turns: float, expected: str) -> None:
    runs = BetweenRuns(alone, turns, 1.0)

    def known(one: Measurement) -> Measurement:
        return dataclasses.replace(one, conditions=dataclasses.replace(one.conditions, between_runs=runs, block=7))

    made = made_ceilings()
    memory = made.levels[-1]
    memory = dataclasses.replace(memory, read=known(memory.read), copy=known(memory.copy), triad=known(memory.triad))
    made = dataclasses.replace(made, fp32_peak=known(made.fp32_peak), levels=(*made.levels[:-1], memory))
    assert found(demand(1e11, 8e9), made=made) == expected


@pytest.mark.parametrize(
    ("seconds", "noise", "is_below"),
    [(4.9, 0.0, False), (5.1, 0.0, True), (5.1, 0.1, False), (20, 0.1, True)],  # one that may explain a fifth is not
)
def test_below_every_roof_is_what_surely_no_bound_explains_a_fifth_of(
    seconds: float, noise: float, is_below: bool
) -> None:
    made = verdict(demand(1e11, 9e9, 900_000), spread(seconds, "s", noise), made_ceilings(), spread(0.9, "s"))
    assert made.sentence_word == ("below every roof" if is_below else "compute-bound")
    assert (made.bottleneck is Bottleneck.BELOW) is (made.candidates == ()) is is_below
    assert made.reached.median == pytest.approx(1 / seconds)


@pytest.mark.parametrize(
    ("candidates", "memory", "overhead"),
    [
        ([Bottleneck.MEMORY], "supported", "refuted"),
        ([Bottleneck.OVERHEAD, Bottleneck.MEMORY], "open", "open"),
        ([Bottleneck.COMPUTE, Bottleneck.MEMORY], "open", "refuted"),
        ([], "refuted", "refuted"),
    ],
)
def test_one_bound_is_the_largest_if_no_other_may_be(candidates: list[Bottleneck], memory: str, overhead: str) -> None:
    made = verdict(demand(1e11, 9e9, 900_000), spread(4.9, "s"), made_ceilings(), spread(0.9, "s"))
    made = dataclasses.replace(made, candidates=tuple(candidates))
    assert (made.is_memory_bound.verdict, made.is_overhead_bound.verdict) == (memory, overhead)
    assert [test.measurement for test in made.is_memory_bound.tests] == [made.reached]


def test_a_second_bound_that_may_explain_a_fifth_keeps_a_run_from_being_below_all() -> None:
    """Arithmetic explains 18 % for sure; bytes 17 %, or a fifth if memory was as slow as it may have been."""
    made = made_ceilings()
    slow = spread(10e9, "B/s", 0.3)
    levels = (*made.levels[:-1], dataclasses.replace(made.levels[-1], read=slow, copy=slow, triad=slow))
    asked = demand(1.8e10, 1.7e9)
    assert found(asked) == "below every roof"
    assert found(asked, made=dataclasses.replace(made, levels=levels)) == "compute- or memory-bound"


@given(st.integers(1, 10**13), st.integers(2 * MIB, 10**12), st.integers(1, 10**6), st.floats(1e-6, 1e3))
def test_predictions_are_amounts_over_ceilings(operations: int, moved: int, calls: int, seconds: float) -> None:
    asked, time, cost = demand(operations, moved, calls), spread(seconds, "s", 0.2), spread(calls * OP, "s", 0.1)
    machine = made_ceilings(noise=0.1)
    result = verdict(asked, time, machine, cost)
    one_peak, one_level = machine.fp32_peak.interval, bandwidth_at(moved, machine).interval
    known = {
        "compute": (operations / one_peak.high, operations / one_peak.low),
        "memory": (moved / one_level.high, moved / one_level.low),
        "overhead": (cost.interval.low, cost.interval.high),
    }
    parts = {"compute": operations / PEAK, "memory": moved / 10e9, "overhead": calls * OP}
    for name, expected in parts.items():
        prediction = getattr(result, name)
        ends = (prediction.seconds.median, prediction.seconds.interval.low, prediction.seconds.interval.high)
        assert ends == pytest.approx((expected, *known[name]), rel=5e-3)
        assert prediction.share.median == pytest.approx(expected / seconds)
        ends = prediction.share.interval
        assert ends.low * seconds < known[name][0] < known[name][1] < ends.high * seconds, "wider than the ceiling"
    assert result.reached.median == pytest.approx(max(parts.values()) / seconds)
    assert result.efficiency == pytest.approx(operations / seconds / PEAK)
    longest = [getattr(result, name).seconds.median for name in result.predictions]
    assert longest == sorted(longest, reverse=True)


@pytest.mark.parametrize("bad", [Measurement("none", (1.0, 0.0), "s"), Measurement("rate", (1.0,), "FLOP/s")])
def test_what_is_no_time_above_zero_raises(bad: Measurement) -> None:
    with pytest.raises(ValueError, match="seconds"):
        verdict(demand(1, 1), bad, made_ceilings(), NO_CALLS)


def test_each_op_has_the_roof_of_its_own_level() -> None:
    """32 KiB fit L1 at 4e11 B/s, one byte more is in L2 at 1e11, and beyond 1 MiB memory gives 1e10."""
    made = made_ceilings()
    inner, middle, outer = event(traffic=32 * KIB), event(traffic=32 * KIB + 1), event(traffic=MIB + 1)
    assert [slope_at(one.traffic, made).of for one in (inner, middle, outer)] == ["L1", "L2", "memory"]
    assert roof_seconds([inner], made).median == pytest.approx(32 * KIB / 4e11)
    assert roof_seconds([middle], made).median == pytest.approx((32 * KIB + 1) / 1e11)
    asked = demand_of([inner, middle, outer, inner])
    assert asked.sets == ((32 * KIB, 2), (32 * KIB + 1, 1), (MIB + 1, 1))
    assert asked.bytes == sum(size * count for size, count in asked.sets)
    assert (asked.working_set, asked.calls) == (MIB + 1, 4)
    expected = 64 * KIB / 4e11 + (32 * KIB + 1) / 1e11 + (MIB + 1) / 1e10
    assert verdict(asked, spread(1, "s"), made, NO_CALLS).memory.seconds.median == pytest.approx(expected)
    mean = slope_of(asked, made)
    assert (mean.of, mean.bandwidth.unit) == ("L1 to memory", "B/s")
    assert mean.bandwidth.median == pytest.approx(asked.bytes / expected)
    assert slope_of(demand_of([inner, inner]), made).of == "L1"
    busy = event(macs=10**6, traffic=MIB + 1)  # 20 µs of arithmetic, 105 µs of bytes
    busier = event(macs=10**7, traffic=MIB + 1)  # 200 µs of arithmetic
    expected = (MIB + 1) / 1e10 + 2e7 / PEAK
    sure, noisy = (roof_seconds([busy, busier], made_ceilings(noise)) for noise in (0.0, 0.1))
    assert (sure.interval.low, sure.interval.high) == pytest.approx((expected, expected))
    assert noisy.median == pytest.approx(expected)
    assert noisy.interval.low < expected / 1.05 < expected * 1.05 < noisy.interval.high


def test_between_two_plateaus_the_ladder_decides() -> None:
    """L2 ends at 1 MiB with 1e11 B/s, memory gives 1e10; at 2 MiB a ladder's copy still ran at 4e10."""
    made = with_ladder(((MIB, 1e11), (2 * MIB, 4e10), (4 * MIB, 0.9e10)))
    # The step at 2 MiB was disturbed: the next one shows what it could have been.
    disturbed = with_ladder(((MIB, 1e11), (2 * MIB, 1.5e10), (4 * MIB, 3e10), (8 * MIB, 0.9e10)))
    sizes = (32 * KIB, MIB, MIB + 1, 2 * MIB - 1, 2 * MIB, 4 * MIB - 1, 4 * MIB, 64 * MIB)
    for ladder, expected in ((made, (4e10, 4e10, 1e10)), (disturbed, (3e10, 3e10, 3e10))):
        reached = [bandwidth_at(size, ladder).median for size in sizes]
        assert reached == pytest.approx((4e11, 1e11, 1e11, 1e11, *expected, 1e10))
    assert [slope_at(size, made).of for size in sizes] == ["L1", "L2", *["L2 to memory"] * 4, "memory", "memory"]
    assert [bandwidth_at(size, made_ceilings()).median for size in sizes] == pytest.approx((4e11, 1e11, *[1e10] * 6))
    assert roof_seconds([event(traffic=3 * MIB)], made).median == pytest.approx(3 * MIB / 4e10)


def with_ladder(steps: tuple[tuple[int, float], ...]) -> Ceilings:
    """Return the made ceilings with a ladder whose copy ran at these rates, and the other streams at half of them."""
    curve, slower = (tuple(Point(size, spread(rate * of, "B/s")) for size, rate in steps) for of in (1, 0.5))
    return dataclasses.replace(made_ceilings(), curves={"read": slower, "copy": curve, "triad": slower, "latency": ()})


def test_products_of_integers_have_a_peak_of_their_own() -> None:
    """1e9 multiply-accumulates of integers take 2 ms at 1e12 OP/s, 1e9 others 20 ms at 1e11; elementwise ones add."""
    work = Work(2 * 10**9, 10**8, integer_macs=10**9)
    asked = demand_of([dataclasses.replace(event(), work=work)])
    assert (asked.flops, asked.integer, asked.elementwise) == (4 * 10**9, 2 * 10**9, 10**8)
    for peak, seconds in ((1e12, 2e-3 + 20e-3 + 1e-3), (PEAK, 41e-3)):
        made = dataclasses.replace(made_ceilings(), int8_peak=spread(peak, "OP/s"))
        result = verdict(asked, spread(1, "s"), made, NO_CALLS)
        assert result.compute.seconds.median == pytest.approx(seconds)
        assert result.efficiency == pytest.approx(seconds - 1e-3)


def test_quantized_products_are_of_integers_and_weight_only_ones_are_not() -> None:
    x = Tensor(np.ones((2, 64), np.float32))
    for mode, integer in (("dynamic", 2 * 2 * 64 * 32), ("weight-only", 0)):
        layer = QuantizedLinear(Linear(64, 32, seed=0), Plan(mode))  # type: ignore[arg-type]
        with recording() as recorded:
            layer(x)
        asked = demand_of(recorded.profile.events)
        assert (asked.flops, asked.integer) == (2 * 2 * 64 * 32, integer)


def test_the_slope_is_the_best_of_the_three_streams() -> None:
    (level, *_) = made_ceilings().levels
    assert best_bandwidth(level) is level.copy
    assert best_bandwidth(dataclasses.replace(level, copy=level.read, read=level.copy)) is level.copy


def test_arithmetic_is_counted_as_said() -> None:
    asked = demand_of([event(macs=3, traffic=8, elementwise=5)])
    assert (asked.flops, asked.elementwise, asked.operations, asked.intensity) == (6, 5, 11, 11 / 8)
    for asking in (lambda: demand_of([event()]).intensity, lambda: slope_of(demand_of([event()]), made_ceilings())):
        with pytest.raises(ValueError, match="views"):
            asking()


def test_nothing_and_the_uncounted_have_no_demand() -> None:
    with pytest.raises(ValueError, match="no op ran"):
        demand_of([])
    with recording() as recorded:
        Mystery()(rows())
    with pytest.raises(UncountedError, match="mystery"):
        demand_of(recorded.profile.events)
