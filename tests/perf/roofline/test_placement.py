"""Places on a roofline whose ceilings are known, and what holds on any: the roof bounds, and grows as it should."""

import dataclasses
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
from tinytorch.perf.measuring import Measurement, current_blas_threads, ratio
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.roofline.bounds import Bottleneck
from tinytorch.perf.roofline.placement import (
    checked_threads,
    place,
    place_call,
    place_calls,
    place_groups,
    place_layers,
    place_ops,
)


def timed(seconds: float, noise: float = 0.0) -> Measurement:
    return dataclasses.replace(spread(seconds, "s", noise), conditions=Conditions(blas_threads=current_blas_threads()))


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
    run = dataclasses.replace(product_run(8), blas_threads=1)
    one, two = dataclasses.replace(timed(1e-3), conditions=Conditions(blas_threads=1)), made_ceilings(threads=2)
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
    run, made = dataclasses.replace(product_run(8), blas_threads=None), made_ceilings(threads=2)
    unknown = dataclasses.replace(timed(1e-3), conditions=Conditions(blas_threads="unknown"))
    for placed in (place("product", run.events, unknown, made), *place_ops(run, made).values()):
        assert placed.seconds.conditions.blas_threads == "unknown"


@pytest.mark.parametrize(("runs", "said"), [([8, 9], "shapes"), ([], "recorded")])
def test_runs_must_be_of_the_same_ops(runs: list[int], said: str) -> None:
    for read in (place_ops, place_layers):
        with pytest.raises(ValueError, match=said):
            read([product_run(each) for each in runs], made_ceilings())
