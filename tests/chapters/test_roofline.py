"""What the page on rooflines computes of places that were made up: each number and verdict, on all of its sides."""

import numpy as np
import pytest

from tests.perf.made_ceilings import made_ceilings, spread
from tinytorch.chapters.roofline import studies
from tinytorch.core.op import Array
from tinytorch.perf.measuring import Counted, Measurement, from_turns
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


@pytest.mark.parametrize(("overlap", "which"), [(True, 0), (False, 1)])
def test_growth_by_laws_is_that_of_a_curve_which_follows_one(overlap: bool, which: int) -> None:
    times = {rows: 6e-3 * (max(1, rows / 20) if overlap else 1 + rows / 20) for rows in (1, 2, 32, 40, 128)}
    taken = in_turns(times)
    assert studies.growth_by_laws(studies.bend(taken), 40)[which].value == pytest.approx(times[40] / times[1], rel=1e-2)


def test_an_expression_moves_what_each_of_its_steps_moves() -> None:
    assert studies.arrays_moved(lambda x: x + 1, "a step").value == 2
    assert studies.arrays_moved(lambda x: 2 * (x * x) + x, "three steps").value == 3 + 2 + 3


def test_an_expression_that_writes_to_buffers_moves_as_much() -> None:
    def doubled_square(x: Array, t: Array, y: Array) -> Array:
        np.multiply(x, x, out=t)
        t += 1
        return np.add(t, t, out=y)

    assert studies.arrays_moved(doubled_square, "three steps", buffers=2).value == 3 + 2 + 3


def test_whole_gains_what_amdahl_says_of_the_part_that_comes_to_its_roof() -> None:
    """Parts at half and at a tenth of their roofs: 12 s would become 1 + 10, or 2 + 1."""
    near = studies.by_hand("near", (10**11, MIB), spread(2.0, "s"), MACHINE)
    far = studies.by_hand("far", (10**11, MIB), spread(10.0, "s"), MACHINE)
    gains = [studies.gain_at_roof(near, far).median, studies.gain_at_roof(far, near).median]
    assert gains == pytest.approx([12 / 11, 12 / 3], rel=1e-2)


def test_steps_explain_the_tangent_the_other_passes_and_the_other_calls() -> None:
    """Of 100 µs the tangent takes 70; seventeen arrays of 64 KiB take 11.1 at 100 GB/s, and seven calls 3.5."""
    taken, size = in_turns({1: 100e-6, 2: 70e-6}), 16_384
    whole = studies.by_hand("GELU", (8 * size, 8 * size), taken[1], MACHINE)
    tangent = studies.by_hand("tanh", (size, 8 * size), taken[2], MACHINE)
    found = studies.explained_by_steps(whole, tangent, Counted(19, "arrays", "moved"), calls=8)
    assert found.median == pytest.approx((70 + 17 * 4 * size / 100e3 + 7 * 0.5) / 100, rel=1e-2)
