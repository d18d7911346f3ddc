"""What the page on rooflines computes of places that were made up: each number and verdict, on all of its sides."""

from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_places import candidates_of, made_place
from tests.perf.made_ceilings import made_ceilings, spread
from tinytorch.chapters.roofline import studies
from tinytorch.perf.measuring import Measurement, from_turns
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.roofline.bounds import Bottleneck
from tinytorch.perf.roofline.placement import Placed

MACHINE = made_ceilings(threads=1)
MIB = 2**20


def in_turns(seconds: dict[int, float], noise: float = 0.002) -> dict[int, Measurement]:
    """Return times that were taken in turns, with noise that differs from one to another."""
    noises = np.random.default_rng(0).permuted(np.tile(np.linspace(-noise, noise, 13), (len(seconds), 1)), axis=1)
    taken = {str(key): (one * (1 + own)).tolist() for (key, one), own in zip(seconds.items(), noises, strict=True)}
    made = from_turns(taken, sample="rounds", conditions=Conditions(blas_threads=1))
    return {key: made[str(key)] for key in seconds}


@pytest.mark.parametrize(
    ("operations", "moved", "least", "bound"),
    [(MIB, 16 * MIB, 16 * MIB / 10e9, "memory-bound"), (2**33, 12 * MIB, 2**33 / 100e9, "compute-bound")],
)
def test_what_a_reader_counted_is_placed(operations: int, moved: int, least: float, bound: str) -> None:
    found = studies.by_hand("it", (operations, moved), spread(2 * least, "s"), MACHINE)
    assert (found.demand.intensity, found.slope.of) == (operations / moved, "memory")
    assert (found.least.value, found.of_roof.median) == pytest.approx((least, 0.5))
    assert found.verdict.sentence_word == bound


@pytest.mark.parametrize(("overlap", "bend"), [(True, 20), (False, 21)])
def test_a_curve_bends_where_arithmetic_takes_as_long_as_one_row(overlap: bool, bend: float) -> None:
    """Arithmetic and bytes take equally long at 20 rows; without overlap one row takes 21/20 of its bytes."""
    times = {rows: 6e-3 * (max(1, rows / 20) if overlap else 1 + rows / 20) for rows in (1, 2, 32, 128)}
    assert studies.bend(in_turns(times)).median == pytest.approx(bend, rel=1e-2)


def test_an_expression_moves_what_each_of_its_steps_moves() -> None:
    assert studies.arrays_moved(lambda x: x + 1, "a step").value == 2
    assert studies.arrays_moved(lambda x: 2 * (x * x) + x, "three steps").value == 3 + 2 + 3


def test_twice_the_bandwidth_gains_what_waits_for_memory() -> None:
    few, many = made_place("few", 2 * MIB, 4 * MIB, 0.8), made_place("many", 2048 * MIB, 12 * MIB, 0.9)
    assert [studies.gain_of_twice_the_bandwidth(one).value for one in (few, many)] == [2, 1]


def test_tokens_of_gpt2_cross_the_ridge_where_rows_of_any_weights_do() -> None:
    assert studies.gpt2_step(MACHINE)[2].value == pytest.approx(20, rel=2e-3), "twice the ridge of 10"


@pytest.mark.parametrize(
    ("longer", "bottleneck", "verdict"),
    [
        (1.02, Bottleneck.OVERHEAD, "supported"),
        (1.02, Bottleneck.MEMORY, "refuted"),
        (1.02, Bottleneck.OPEN, "open"),
        (1.5, Bottleneck.OVERHEAD, "open"),
    ],
)
def test_what_takes_hardly_longer_on_twice_the_data_is_overhead_bound(
    longer: float, bottleneck: Bottleneck, verdict: str
) -> None:
    """Where twice the data takes more than a tenth longer the condition is not met."""
    four, eight = (made_place(f"{count} numbers", count, 12 * count, 0.01, bottleneck, "L1") for count in (4, 8))
    times = in_turns({4: 1e-3, 8: longer * 1e-3})
    pair = replace(four, seconds=times[4]), replace(eight, seconds=times[8])
    assert studies.overhead_if_alike([pair], at_most=1.1).verdict == verdict


def test_a_low_rate_is_judged_by_all_that_surely_have_one() -> None:
    """Two operations a byte from memory reach a fifth of the peak at their roof."""
    low, near, high = (made_place("product", 2 * MIB, MIB, share) for share in (0.1, 0.25, 1.0))
    places = [low, *(bound(one, Bottleneck.COMPUTE) for one in (near, high))]
    assert studies.memory_if_slow(places, at_most=0.05).verdict == "supported"
    assert studies.memory_if_slow([*places, bound(low, Bottleneck.BELOW)], at_most=0.05).verdict == "refuted"


def bound(one: Placed, bottleneck: Bottleneck) -> Placed:
    """Return it with another verdict."""
    return replace(one, verdict=replace(one.verdict, candidates=candidates_of(bottleneck)))
