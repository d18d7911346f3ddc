"""What the page on rooflines computes of places that were made up: each number and verdict, on all of its sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.chapters.made_places import candidates_of, made_place
from tests.perf.made_ceilings import made_ceilings, spread
from tinytorch.chapters.roofline import studies
from tinytorch.core.ops import elementwise
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.roofline.bounds import Bottleneck
from tinytorch.perf.roofline.placement import Placed

MACHINE = made_ceilings(threads=1)
MIB = 2**20


def timed(one: Placed, seconds: float, noise: float = 0.005) -> Placed:
    """Return it with another time."""
    return replace(one, seconds=replace(spread(seconds, "s", noise), conditions=Conditions(blas_threads=1)))


def together(placed: Mapping[Any, Placed]) -> dict[Any, Placed]:
    """Return the places as those of one measurement in turns, with noise that differs from one to another."""
    found = {}
    for index, (key, one) in enumerate(placed.items()):
        others = tuple(other.name for name, other in placed.items() if name != key)
        samples = tuple(np.roll(one.seconds.samples, index).tolist())
        conditions = replace(one.seconds.conditions, interleaved_with=others)
        found[key] = replace(one, seconds=Measurement(one.name, samples, "s", conditions))
    return found


def test_each_level_and_each_set_has_the_ridge_of_its_bandwidth() -> None:
    ladder = studies.ladder(MACHINE)
    assert {name: one.ridge.median for name, one in ladder.items()} == {"L1": 0.25, "L2": 1.0, "memory": 10.0}
    assert [one.bytes and one.bytes.value for one in ladder.values()] == [32 * 1024, MIB, None]
    sets = studies.working_sets({"few": [(4,), (4,)], "a row": [(1024, 1024), (1024,), (1024,)]}, MACHINE)
    found = [(one.bytes and one.bytes.value, one.slope.of, one.ridge.median) for one in sets.values()]
    assert found == [(32, "L1", 0.25), (4 * (MIB + 2048), "memory", 10.0)]


def test_what_other_pages_time_has_the_name_of_its_call() -> None:
    passed = studies.passes({("gpt", 64): made_place("GPT, 64", MIB, MIB, 0.2)})
    assert "GPT, batch of 64" in (passed["gpt", 64].seconds.conditions.call or "")


@pytest.mark.parametrize("rows", [5, 20, 60])
def test_the_crossing_is_where_one_row_and_a_row_of_many_meet(rows: float) -> None:
    """Weights of 4 MiB come from memory, whose ridge is at 10: predicted are 20 rows."""
    times = {1: 1.0, 2: 2.5, 16: 3.0, 64: 64 / rows}
    places = {count: timed(made_place(f"{count} rows", MIB, MIB, 0.5), seconds) for count, seconds in times.items()}
    placed = list(together(places).values())
    found = studies.crossing(1024, placed, studies.ladder(MACHINE)["memory"])
    assert found.predicted.value == pytest.approx(20)
    assert found.measured.median == pytest.approx(rows, rel=0.02)
    assert found.over.median == pytest.approx(rows / 20, rel=0.02)
    assert found.copied.median == pytest.approx(2.5 * rows, rel=0.02)
    assert found.second_row.median == pytest.approx(2.5, rel=0.02)
    products = studies.products({1024: placed, 4096: placed})
    assert [(one.weights, one.rows) for one in products[3:5]] == [("1,024 wide", 64), ("4,096 wide", 1)]


@pytest.mark.parametrize(("cost", "slope", "level"), [(5e-8, 400e9, "L1"), (1e-6, 100e9, "L2"), (1e-3, 10e9, "memory")])
def test_calls_count_until_the_bytes_of_the_level_that_fits_take_as_long(cost: float, slope: float, level: str) -> None:
    one = made_place("4 numbers", 4, 48, 0.01, Bottleneck.OVERHEAD, "L1")
    call = replace(one, verdict=replace(one.verdict, overhead=replace(one.verdict.overhead, seconds=spread(cost, "s"))))
    until, found = studies.until_bytes_take_as_long(call, MACHINE)
    assert until.value == pytest.approx(cost * slope / 12)
    assert found == level


def test_passes_calls_and_tanh_predict_a_gelu() -> None:
    """The 17 arrays of 4 MiB go at the bandwidth of L2, which holds three blocks; tanh takes twice its 8 MiB.

    Each of 8 steps is called for each of 64 blocks of 16,384 numbers.
    """
    gelu, tanh = made_place("GELU", 8 * MIB, 8 * MIB, 0.1), made_place("tanh", MIB, 8 * MIB, 0.5)
    found = studies.gelu_by_steps(gelu, tanh, MACHINE)
    passes, both, every = 17 * 4 * MIB / 100e9, 2 * 8 * MIB / 10e9, 8 * 64 * 0.5e-6
    assert (found.slope.of, found.moved.value, found.calls.value) == ("L2", 19 * 4 * MIB, 512)
    assert [found.passes.value, found.calling.value] == pytest.approx([passes, every])
    assert found.predicted.value == pytest.approx(passes + both + every)
    assert found.explained.median == pytest.approx((passes + both + every) / (10 * 8 * MIB / 10e9))


class _Counting(np.ndarray[Any, Any]):
    """An array that counts the steps that NumPy takes with it, and the arrays that these read and write."""

    steps = arrays = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = (), **kwargs: Any) -> Any:
        plain = [one.view(np.ndarray) if isinstance(one, _Counting) else one for one in inputs]
        _Counting.steps += 1
        _Counting.arrays += sum(isinstance(one, np.ndarray) for one in plain) + 1
        getattr(ufunc, method)(*plain, out=tuple(one.view(np.ndarray) for one in out), **kwargs)
        return out[0]


def test_a_gelu_takes_as_many_steps_as_the_page_says() -> None:
    _Counting.steps = _Counting.arrays = 0
    x, output, scratch = (np.ones(8, np.float32).view(_Counting) for _ in range(3))
    elementwise._gelu_block(x, output, None, scratch)
    assert (_Counting.steps, _Counting.arrays) == (studies.GELU_STEPS, studies.GELU_ARRAYS)


def test_twice_the_bandwidth_gains_what_waits_for_memory() -> None:
    few, many = made_place("few", 2 * MIB, 4 * MIB, 0.8), made_place("many", 2048 * MIB, 12 * MIB, 0.9)
    assert [studies.gain_of_twice_the_bandwidth(one, MACHINE).value for one in (few, many)] == [2, 1]


def test_a_step_of_gpt2_reads_its_weights() -> None:
    read, arithmetic, together = studies.gpt2_step(MACHINE)
    weights = 4 * (124_439_808 - 1023 * 768)
    assert read.value == pytest.approx(weights / 10e9)
    assert arithmetic.value == pytest.approx(weights / 2 / 100e9, rel=2e-3), "half an operation a byte"
    assert together.value == pytest.approx(20, rel=2e-3), "as for any weights: twice the ridge of 10"


#: GELU and softmax, of as many operations and bytes, are known to a hundredth each; linear is a second above its roof.
GELU, LINEAR = made_place("gelu", MIB, MIB, 0.1), made_place("linear", 1024 * MIB, 8 * MIB, 0.5)


def softmax(of_roof: float) -> list[Placed]:
    """Return three ops, of which softmax is as given."""
    return [GELU, LINEAR, made_place("softmax", MIB, MIB, of_roof)]


@pytest.mark.parametrize(("of_roof", "named"), [(0.11, "gelu"), (0.1005, "gelu or softmax"), (0.09, "softmax")])
def test_farthest_are_all_that_intervals_cannot_tell_from_the_first(of_roof: float, named: str) -> None:
    found, share = studies.farthest(softmax(of_roof))
    assert found == named
    assert share.median == pytest.approx(min(of_roof, 0.1))


@pytest.mark.parametrize(
    ("of_roof", "named"),
    [(0.9, "linear"), (1 / (102.4 * 1.005 + 1), "softmax or linear"), (1 / 110, "softmax")],
)
def test_most_to_gain_are_all_that_intervals_cannot_tell_from_the_first(of_roof: float, named: str) -> None:
    assert studies.most_to_gain(softmax(of_roof))[0] == named


def test_time_above_the_roof_has_the_intervals_of_both() -> None:
    _, found = studies.most_to_gain(softmax(0.9))
    time = 2 * 1024 * MIB / 100e9
    assert found.median == pytest.approx(time / 2)
    assert (found.interval.low, found.interval.high) == pytest.approx((0.99 * time - time / 2, 0.51 * time))


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.05, "supported"), (0.9, "supported"), (1.0, "open"), (1.1, "refuted")]
)
def test_what_reaches_the_peak_left_of_the_ridge_refutes_it(share: float, verdict: str) -> None:
    """One row, at half an operation a byte, reaches ``share`` of the peak; what lies right of 10 counts for nothing."""
    one = made_place("1 rows", 2 * MIB, 4 * MIB, share * 100e9 / (0.5 * 10e9))
    two, many = made_place("2 rows", 4 * MIB, 4 * MIB, 0.3), made_place("64 rows", 128 * MIB, 4 * MIB, 1.2)
    found = studies.left_of_the_ridge(studies.products({1024: [two, many], 4096: [one, many]}), below=1)
    assert found.verdict == verdict
    assert studies.left_of_the_ridge(studies.products({1024: [many]}), below=1).verdict == "open"


@pytest.mark.parametrize(
    ("longer", "bottleneck", "verdict"),
    [
        (1.02, Bottleneck.OVERHEAD, "supported"),
        (1.02, Bottleneck.MEMORY, "refuted"),
        (1.02, Bottleneck.BELOW, "refuted"),
        (1.02, Bottleneck.OPEN, "open"),
        (1.5, Bottleneck.OVERHEAD, "open"),
        (1.5, Bottleneck.MEMORY, "open"),
        (1.1, Bottleneck.OVERHEAD, "open"),
    ],
)
def test_what_takes_hardly_longer_on_twice_the_data_is_overhead_bound(
    longer: float, bottleneck: Bottleneck, verdict: str
) -> None:
    """Where twice the data takes more than a tenth longer, or may, the condition is not met."""
    four, eight = (made_place(f"{count} numbers", count, 12 * count, 0.01, bottleneck, "L1") for count in (4, 8))
    pair = together({4: timed(four, 1e-6, 0.002), 8: timed(eight, longer * 1e-6, 0.002)})
    assert studies.overhead_if_alike(pair[4], pair[8], at_most=1.1).verdict == verdict


@pytest.mark.parametrize(
    ("bottleneck", "verdict"),
    [(Bottleneck.MEMORY, "supported"), (Bottleneck.BELOW, "refuted"), (Bottleneck.OPEN, "open")],
)
def test_a_low_rate_is_judged_by_all_that_surely_have_one(bottleneck: Bottleneck, verdict: str) -> None:
    """Two operations a byte from memory reach a fifth of the peak at their roof."""
    low, near, high = (made_place("product", 2 * MIB, MIB, share) for share in (0.1, 0.25, 1.0))
    places = [low, *(bound(one, Bottleneck.COMPUTE) for one in (near, high))]
    assert studies.memory_if_slow(places, at_most=0.05).verdict == "supported"
    assert studies.memory_if_slow([*places, bound(low, bottleneck)], at_most=0.05).verdict == verdict


def bound(one: Placed, bottleneck: Bottleneck) -> Placed:
    """Return it with another verdict."""
    return replace(one, verdict=replace(one.verdict, candidates=candidates_of(bottleneck)))
