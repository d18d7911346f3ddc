"""What the page on rooflines computes of places that were made up: each number and verdict, on all of its sides."""

import numpy as np
import pytest

from tests.perf.made_ceilings import made_ceilings, spread
from tinytorch.chapters.roofline import studies
from tinytorch.perf.measuring import Measurement, from_turns
from tinytorch.perf.measuring.conditions import Conditions

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


def test_tokens_of_gpt2_cross_the_ridge_where_rows_of_any_weights_do() -> None:
    assert studies.gpt2_step(MACHINE)[2].value == pytest.approx(20, rel=2e-3), "twice the ridge of 10"
