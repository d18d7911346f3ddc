"""Verdicts on a machine whose ceilings are known: exact predictions, boundaries, zones in which nothing can be told."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.made_ceilings import OP, PEAK, made_ceilings, spread
from tests.perf.small_models import Mystery, rows
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.layers import Linear
from tinytorch.core.op import Spec, UncountedError, Work
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import Event, recording
from tinytorch.perf.machine import Point
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.quantization import Plan, QuantizedLinear
from tinytorch.perf.roofline.bounds import Demand, bandwidth_at, best_bandwidth, demand_of, roof_seconds, verdict

KIB, MIB = 2**10, 2**20


def event(macs: int = 0, traffic: int = 0, elementwise: int = 0) -> Event:
    one = Spec((1,), np.dtype(np.float32))
    return Event("made", "numpy", "forward", "", (one,), one, Work(macs, elementwise), traffic, 0, 1000, 1000)


def demand(operations: float, memory_bytes: float = 0.0, calls: int = 1) -> Demand:
    """Return a demand whose bytes are those of one op, more than the caches hold."""
    flops, moved = int(operations), int(memory_bytes)
    return Demand(flops, 0, moved, calls, moved, "memory", ((moved, 1),))


def calling(asked: Demand, noise: float = 0.0) -> tuple[float, float, float]:
    seconds = asked.calls * OP
    return seconds, seconds * (1 - noise), seconds * (1 + noise)


NO_CALLS = (1e-6, 1e-6, 1e-6)


def found(asked: Demand, seconds: float = 1.0, noise: float = 0.0, time_noise: float = 0.0) -> str:
    made = made_ceilings(noise)
    return verdict(asked, spread(seconds, "s", time_noise), made, calling(asked, noise)).bottleneck


# On the made machine one second is 1e11 FLOP, 1e10 B of memory, 1e6 calls.
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (demand(1e11, 9e9, 900_000), "compute"),
        (demand(9e10, 1e10, 900_000), "memory"),
        (demand(9e10, 9e9, 1_000_000), "overhead"),
        (demand(1e11, 1e10, 10), "unclear"),
        (demand(1e11, 1e9, 1_000_000), "unclear"),
        (demand(1e9, 1e10, 1_000_000), "unclear"),
    ],
)
def test_the_longest_predicted_time_decides(asked: Demand, expected: str) -> None:
    assert found(asked) == expected


def test_two_times_within_the_noise_are_unclear() -> None:
    """The interval of seven samples is all of them, here ±2 %: predictions must differ by more than 4 %."""
    assert found(demand(1e11, 9.5e9), noise=0.02) == "compute"
    assert found(demand(1e11, 9.7e9), noise=0.02) == "unclear"
    assert found(demand(9.7e10, 1e10), noise=0.02) == "unclear"
    assert found(demand(9.5e10, 1e10), noise=0.02) == "memory"


def test_a_ceiling_that_explains_less_than_a_quarter_bounds_nothing() -> None:
    assert found(demand(1e11), seconds=3.99) == "compute"
    assert found(demand(1e11), seconds=4.01) == "unclear"
    assert found(demand(1e11), seconds=3.8, time_noise=0.1) == "unclear", "the quarter lies in the interval"
    assert found(demand(1e11), seconds=3.5, time_noise=0.1) == "compute"
    made = made_ceilings()
    slow = verdict(demand(1e11), spread(10, "s"), made, NO_CALLS)
    alike = verdict(demand(1e11, 1e10), spread(1, "s"), made, NO_CALLS)
    assert slow.because.endswith("none surely explains a quarter of it")
    assert alike.because.endswith("the two largest are within noise")
    assert {slow.sentence_word, alike.sentence_word} == {"unclear"}


@given(st.integers(1, 10**13), st.integers(2 * MIB, 10**12), st.integers(1, 10**6), st.floats(1e-6, 1e3))
def test_predictions_are_amounts_over_ceilings(operations: int, moved: int, calls: int, seconds: float) -> None:
    made = made_ceilings(noise=0.1)
    asked = demand(operations, moved, calls)
    result = verdict(asked, spread(seconds, "s", 0.2), made, calling(asked, 0.1))
    parts = {"compute": operations / PEAK, "memory": moved / 10e9, "overhead": calls * OP}
    for name, expected in parts.items():
        prediction = getattr(result, name)
        assert prediction.seconds == pytest.approx(expected)
        assert prediction.share == pytest.approx(expected / seconds)
        low, high = (0.9, 1.1) if name == "overhead" else (1 / 1.1, 1 / 0.9)
        assert (prediction.low, prediction.high) == pytest.approx((expected * low, expected * high))
        assert prediction.share_low == pytest.approx(expected * low / (1.2 * seconds))
        assert prediction.share_high == pytest.approx(expected * high / (0.8 * seconds))
    assert result.explained == pytest.approx(max(parts.values()) / seconds)
    assert result.efficiency == pytest.approx(operations / seconds / PEAK)
    assert list(result.predictions) == sorted(parts, key=lambda name: getattr(result, name).seconds, reverse=True)


def test_the_reason_names_the_three_shares() -> None:
    result = verdict(demand(5e10, 1e9, 1), spread(1, "s"), made_ceilings(), NO_CALLS)
    assert result.sentence_word == "compute-bound"
    assert result.because == (
        "arithmetic at the peak would take 50% of the measured time, "
        "compulsory bytes at the bandwidth of their levels 10% and calls at their least cost under 0.1%"
    )


@pytest.mark.parametrize("bad", [Measurement("none", (1.0, 0.0), "s"), Measurement("rate", (1.0,), "FLOP/s")])
def test_what_is_no_time_above_zero_raises(bad: Measurement) -> None:
    with pytest.raises(ValueError, match="seconds must be times above 0"):
        verdict(demand(1, 1), bad, made_ceilings(), NO_CALLS)


def test_each_op_has_the_roof_of_its_own_level() -> None:
    """32 KiB fit L1 at 4e11 B/s, one byte more is in L2 at 1e11, and beyond 1 MiB memory gives 1e10."""
    made = made_ceilings()
    inner, middle, outer = event(traffic=32 * KIB), event(traffic=32 * KIB + 1), event(traffic=MIB + 1)
    assert [demand_of([one], made).level for one in (inner, middle, outer)] == ["L1", "L2", "memory"]
    assert roof_seconds([inner], made) == pytest.approx((32 * KIB / 4e11,) * 3)
    assert roof_seconds([middle], made) == pytest.approx(((32 * KIB + 1) / 1e11,) * 3)
    asked = demand_of([inner, middle, outer, inner], made)
    assert asked.sets == ((32 * KIB, 2), (32 * KIB + 1, 1), (MIB + 1, 1))
    assert asked.bytes == sum(size * count for size, count in asked.sets)
    assert (asked.working_set, asked.level, asked.calls) == (MIB + 1, "memory", 4)
    expected = 64 * KIB / 4e11 + (32 * KIB + 1) / 1e11 + (MIB + 1) / 1e10
    assert verdict(asked, spread(1, "s"), made, NO_CALLS).memory.seconds == pytest.approx(expected)
    busy = event(macs=10**6, traffic=MIB + 1)  # 20 µs of arithmetic, 105 µs of bytes
    busier = event(macs=10**7, traffic=MIB + 1)  # 200 µs of arithmetic
    expected = (MIB + 1) / 1e10 + 2e7 / PEAK
    assert roof_seconds([busy, busier], made) == pytest.approx((expected,) * 3)
    assert roof_seconds([busy, busier], made_ceilings(noise=0.1)) == pytest.approx(
        (expected, expected / 1.1, expected / 0.9)
    )


def test_between_two_plateaus_the_ladder_decides() -> None:
    """L2 ends at 1 MiB with 1e11 B/s, memory gives 1e10; at 2 MiB a ladder's copy still ran at 4e10."""
    steps = ((MIB, 1e11), (2 * MIB, 4e10), (4 * MIB, 0.9e10))
    curve = tuple(Point(size, spread(reached, "B/s")) for size, reached in steps)
    slower = tuple(Point(size, spread(reached / 2, "B/s")) for size, reached in steps)
    made = dataclasses.replace(made_ceilings(), curves={"read": slower, "copy": curve, "triad": slower, "latency": ()})
    sizes = (32 * KIB, MIB, MIB + 1, 2 * MIB - 1, 2 * MIB, 4 * MIB - 1, 4 * MIB, 64 * MIB)
    expected = (4e11, 1e11, 1e11, 1e11, 4e10, 4e10, 1e10, 1e10)
    assert [bandwidth_at(size, made).median for size in sizes] == pytest.approx(expected)
    assert [bandwidth_at(size, made_ceilings()).median for size in sizes] == pytest.approx((4e11, 1e11, *[1e10] * 6))
    assert roof_seconds([event(traffic=3 * MIB)], made)[0] == pytest.approx(3 * MIB / 4e10)


def test_products_of_integers_have_a_peak_of_their_own() -> None:
    """1e9 multiply-accumulates of integers take 2 ms at 1e12 OP/s, 1e9 others 20 ms at 1e11; elementwise ones add."""
    made = dataclasses.replace(made_ceilings(), int8_peak=spread(1e12, "OP/s"))
    work = Work(2 * 10**9, 10**8, integer_macs=10**9)
    asked = demand_of([dataclasses.replace(event(), work=work)], made)
    assert (asked.flops, asked.integer, asked.elementwise) == (4 * 10**9, 2 * 10**9, 10**8)
    found_here = verdict(asked, spread(1, "s"), made, NO_CALLS)
    assert found_here.compute.seconds == pytest.approx(2e-3 + 20e-3 + 1e-3)
    assert found_here.efficiency == pytest.approx(22e-3)
    without = verdict(asked, spread(1, "s"), made_ceilings(), NO_CALLS)
    assert without.compute.seconds == pytest.approx(41e-3)


def test_quantized_products_are_of_integers_and_weight_only_ones_are_not() -> None:
    x = Tensor(np.ones((2, 64), np.float32))
    for mode, integer in (("dynamic", 2 * 2 * 64 * 32), ("weight-only", 0)):
        layer = QuantizedLinear(Linear(64, 32, seed=0), Plan(mode))  # type: ignore[arg-type]
        with recording() as recorded:
            layer(x)
        asked = demand_of(recorded.profile.events, made_ceilings())
        assert (asked.flops, asked.integer) == (2 * 2 * 64 * 32, integer)


def test_the_slope_is_the_best_of_the_three_streams() -> None:
    (level, *_) = made_ceilings().levels
    assert best_bandwidth(level) is level.copy
    swapped = dataclasses.replace(level, copy=level.read, read=level.copy)
    assert best_bandwidth(swapped) is level.copy


def test_arithmetic_is_counted_as_said() -> None:
    asked = demand_of([event(macs=3, traffic=8, elementwise=5)], made_ceilings())
    assert (asked.flops, asked.elementwise, asked.operations, asked.intensity) == (6, 5, 11, 11 / 8)
    with pytest.raises(ValueError, match="only make views"):
        _ = demand_of([event()], made_ceilings()).intensity


def test_bytes_of_real_ops_are_those_counted_by_hand() -> None:
    a, b = Tensor(np.ones((3, 5), np.float32)), Tensor(np.ones((5, 7), np.float32))
    with recording() as recorded:
        a @ b
        a + a
        apply(ops.gelu, a)
        a.reshape(15)
    product, add, gelu, view = recorded.profile.events
    made = made_ceilings()
    asked = demand_of([product], made)
    assert (asked.flops, asked.elementwise, asked.bytes) == (2 * 3 * 5 * 7, 0, 4 * (15 + 35 + 21))
    asked = demand_of([add], made)
    assert (asked.operations, asked.bytes, asked.intensity) == (15, 3 * 60, 1 / 12)
    assert demand_of([gelu], made).bytes == 2 * 60
    assert demand_of([view], made).bytes == 0


def test_nothing_and_the_uncounted_have_no_demand() -> None:
    with pytest.raises(ValueError, match="no op ran"):
        demand_of([], made_ceilings())
    with recording() as recorded:
        Mystery()(rows())
    with pytest.raises(UncountedError, match="mystery"):
        demand_of(recorded.profile.events, made_ceilings())
