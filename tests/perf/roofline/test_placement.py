"""Places on a roofline whose ceilings are known, bounds that hold on any, and shares of ceilings taken in turns."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.perf.made_ceilings import KERNEL, OP, PEAK, made_ceilings, spread
from tests.perf.small_models import HIDDEN, INPUTS, OUTPUTS, ROWS, Mystery, rows, two_layers
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.op import UncountedError
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.stream import Profile, recording
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.measuring import Measurement, blas_threads, current_blas_threads, from_turns, ratio
from tinytorch.perf.measuring.conditions import BetweenRuns, ComputeProbe, Conditions, Instrument, MemoryProbe
from tinytorch.perf.roofline.bounds import Bottleneck, CeilingsInTurns, Slope, slope_at
from tinytorch.perf.roofline.in_turns import interleave_with_ceilings, record_with_ceilings
from tinytorch.perf.roofline.placement import (
    checked_threads,
    place,
    place_call,
    place_calls,
    place_groups,
    place_layers,
    place_ops,
    ridge,
)


def timed(seconds: float, noise: float = 0.0) -> Measurement:
    return replace(spread(seconds, "s", noise), conditions=Conditions(blas_threads=current_blas_threads()))


def product_run(count: int) -> Profile:
    a = Tensor(np.ones((count, count), np.float32))
    with recording() as recorded:
        a @ a
    return recorded.profile


def forward_run() -> Profile:
    with recording() as recorded:
        two_layers()(rows())
    return recorded.profile


def test_a_product_stands_where_the_hand_puts_it() -> None:
    """64 wide: 2 * 64**3 FLOP on 48 KiB, more than L1 holds; L2's ridge is at 1 FLOP/B."""
    made = made_ceilings()
    placed = place("product", product_run(64).events, timed(7e-6, 0.1), made)
    flops, moved = 2 * 64**3, 3 * 64 * 64 * 4
    assert (placed.demand.flops, placed.demand.bytes, placed.slope.of) == (flops, moved, "L2")
    assert placed.slope.bandwidth.median == pytest.approx(100e9)
    assert placed.intensity.value == flops / moved
    assert placed.roof.median == pytest.approx(flops / PEAK)
    assert placed.attained.median == pytest.approx(flops / 7e-6)
    assert placed.of_roof.median == pytest.approx(flops / PEAK / 7e-6)
    alone = placed.of_roof.interval
    noisy = place("product", product_run(64).events, timed(7e-6, 0.1), made_ceilings(0.2))
    both = noisy.of_roof.interval
    assert both.low < alone.low < placed.of_roof.median < alone.high < both.high
    assert placed.verdict.candidates == (Bottleneck.COMPUTE,)
    assert placed.calling.value == pytest.approx(OP)
    arithmetic, moving = flops / PEAK, moved / 100e9
    assert (placed.computing.value, placed.moving.value) == pytest.approx((arithmetic, moving))
    assert placed.predicted.value == pytest.approx(OP + arithmetic)
    assert placed.bandwidth.median == pytest.approx(moved / 7e-6)


def test_ops_without_arithmetic_have_a_share_of_the_roof_but_no_rate() -> None:
    with recording() as recorded:
        apply(ops.embedding, np.arange(50), Tensor(np.ones((100, 8), np.float32)))
    placed = place("lookup", recorded.profile.events, timed(1e-5), made_ceilings())
    assert (placed.demand.operations, placed.attained.median) == (0, 0)
    assert placed.of_roof.median == pytest.approx(placed.demand.bytes / 400e9 / 1e-5)


def test_ops_and_layers_of_recorded_runs_add_up() -> None:
    runs, made = [forward_run() for _ in range(7)], made_ceilings()
    by_op = place_ops(runs, made)
    assert list(by_op) == [("linear", "forward", "numpy"), ("relu", "forward", "numpy")]
    linear = by_op["linear", "forward", "numpy"]
    assert (linear.name, linear.seconds.n, linear.demand.calls) == ("linear", 7, 2)
    assert linear.demand.flops == 2 * ROWS * (INPUTS * HIDDEN + HIDDEN * OUTPUTS)
    assert linear.verdict.overhead.seconds.median == pytest.approx(2 * KERNEL)
    for run, seconds in zip(runs, linear.seconds.samples, strict=True):
        assert seconds == pytest.approx(1e-9 * sum(event.self_ns for event in run.events if event.op == "linear"))
    by_layer = place_layers(runs, made)
    assert list(by_layer) == ["Sequential", "Sequential.0", "Sequential.1", "Sequential.2"]
    whole = by_layer["Sequential"]
    parts = [by_layer[f"Sequential.{index}"] for index in range(3)]
    by_group = place_groups(lambda event: "product" if event.op == "linear" else "else", runs, made)
    assert list(by_group) == ["product", "else"]
    assert by_group["product"].demand == linear.demand
    for placed in (by_op.values(), parts, by_group.values()):
        assert whole.demand.operations == sum(one.demand.operations for one in placed)
        assert whole.demand.bytes == sum(one.demand.bytes for one in placed)
        assert whole.roof.median == pytest.approx(sum(one.roof.median for one in placed))
        assert whole.seconds.samples == pytest.approx(np.sum([one.seconds.samples for one in placed], axis=0))


def test_backward_is_an_op_of_its_own_and_a_single_run_will_do() -> None:
    with recording() as recorded:
        two_layers()(rows()).sum().backward()
    placed, noisy = (
        place_ops(recorded.profile, made_ceilings(noise))["linear", "backward", "numpy"] for noise in (0.0, 0.1)
    )
    assert (placed.name, placed.seconds.n) == ("linear backward", 1)
    ends = noisy.of_roof.interval
    assert ends.low < placed.of_roof.median / 1.05 < placed.of_roof.median * 1.05 < ends.high


def test_views_and_the_uncounted_are_left_out_of_ops_and_refused_alone() -> None:
    with recording() as recorded:
        Mystery()(rows()).reshape(-1)
    run, made = recorded.profile, made_ceilings()
    assert [key[0] for key in place_ops(run, made)] == ["linear"]
    assert list(place_layers(run, made)) == ["Mystery.linear"]
    with pytest.raises(UncountedError, match="mystery"):
        place("all", run.events, timed(1), made)
    with pytest.raises(ValueError, match="view"):
        place("view", run.events[-1:], timed(1), made)


def test_a_call_is_timed_without_the_recorder_and_counted_with_it() -> None:
    seen = []
    x = Tensor(np.ones((8, 8), np.float32), requires_grad=True)

    def run() -> None:
        seen.append((x @ x).requires_grad)

    placed = place_call("product", run, made_ceilings(), repeats=7)
    assert (placed.name, placed.seconds.n, placed.demand.flops) == ("product", 7, 2 * 8**3)
    assert len(seen) > placed.seconds.n
    assert not any(seen), "no gradients are recorded"


def test_calls_are_timed_in_turns_on_operands_that_they_share() -> None:
    weight = Tensor(np.ones((8, 8), np.float32))
    seen: dict[str, set[int]] = {"few": set(), "many": set()}

    def product(name: str, x: Tensor, weight: Tensor) -> None:
        seen[name].add(id(weight))
        x @ weight

    sizes = {"few": 2, "many": 16}
    calls = {
        name: (partial(product, name), Tensor(np.ones((rows, 8), np.float32)), weight) for name, rows in sizes.items()
    }
    placed = place_calls(calls, made_ceilings(), repeats=7)
    assert {name: one.demand.flops for name, one in placed.items()} == {"few": 2 * 2 * 64, "many": 2 * 16 * 64}
    assert ratio(placed["many"].seconds, placed["few"].seconds).n == 7
    assert seen["few"] == seen["many"]
    assert len(seen["few"]) > 1, "each block has copies of its own"


def test_roof_and_kernel_must_have_the_same_threads() -> None:
    run = replace(product_run(8), blas_threads=1)
    one, two = replace(timed(1e-3), conditions=Conditions(blas_threads=1)), made_ceilings(threads=2)
    for read, said in (
        (lambda: place("product", run.events, one, two), "they"),
        (lambda: place_ops(run, two), "they"),
        (lambda: place_layers(run, two), "they"),
        (lambda: place("product", run.events, spread(1e-3, "s"), two), "blas_threads"),
    ):
        with pytest.raises(ValueError, match=said):
            read()
    checked_threads(2, two, "what fits")


def test_threads_of_a_blas_that_does_not_say_are_held_against_what_was_asked_for_and_stay_unknown() -> None:
    run, made = replace(product_run(8), blas_threads=None), made_ceilings(threads=2)
    unknown = replace(timed(1e-3), conditions=Conditions(blas_threads="unknown"))
    for placed in (place("product", run.events, unknown, made), *place_ops(run, made).values()):
        assert placed.seconds.conditions.blas_threads == "unknown"


@pytest.mark.parametrize(("runs", "said"), [([8, 9], "shapes"), ([], "recorded")])
def test_runs_must_be_of_the_same_ops(runs: list[int], said: str) -> None:
    for read in (place_ops, place_layers):
        with pytest.raises(ValueError, match=said):
            read([product_run(each) for each in runs], made_ceilings())


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
