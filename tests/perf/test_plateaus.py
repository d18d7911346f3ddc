"""Plateaus: found where a curve was made to step, whatever the noise, the scale, and one disturbed point."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.plateaus import Plateau, find_plateaus


def curve(lengths: list[int], rates: list[float], noise: float = 0.0, seed: int = 0) -> npt.NDArray[np.float64]:
    flat = np.repeat(rates, lengths)
    return flat * np.exp(noise * np.random.default_rng(seed).standard_normal(flat.size))


def lasts(found: tuple[Plateau, ...]) -> list[int]:
    return [plateau.last for plateau in found]


def test_steps_are_found_where_they_are() -> None:
    found = find_plateaus(curve([6, 8, 9, 8], [500, 200, 100, 40]), 4)
    assert lasts(found) == [5, 13, 22, 30]
    assert [plateau.first for plateau in found] == [0, 6, 14, 23]
    assert [plateau.rate for plateau in found] == pytest.approx([500, 200, 100, 40])


def test_noise_of_a_tenth_moves_no_border() -> None:
    for seed in range(60):
        assert lasts(find_plateaus(curve([6, 8, 9, 8], [500, 200, 100, 40], 0.1, seed), 4)) == [5, 13, 22, 30]


def test_a_disturbed_point_moves_no_border() -> None:
    for disturbed in (2, 9, 17, 27):
        rates = curve([6, 8, 9, 8], [500, 200, 100, 40])
        rates[disturbed] /= 10
        assert lasts(find_plateaus(rates, 4)) == [5, 13, 22, 30]


def test_a_point_on_the_slope_belongs_to_the_nearer_plateau() -> None:
    for between, last in ((190.0, 4), (110.0, 3)):
        assert lasts(find_plateaus([200.0] * 4 + [between] + [100.0] * 4, 2))[0] == last


def test_a_flat_or_rising_curve_is_one_plateau() -> None:
    for seed in range(50):
        assert len(find_plateaus(curve([20], [100], 0.05, seed), 4)) == 1
    assert len(find_plateaus(curve([5, 5], [100, 300]), 4)) == 1


def test_steps_below_a_quarter_do_not_count() -> None:
    assert len(find_plateaus(curve([8, 8], [124, 100]), 2)) == 1
    assert len(find_plateaus(curve([8, 8], [126, 100]), 2)) == 2


def test_fewer_are_found_than_asked_for_where_there_are_fewer() -> None:
    for seed in range(50):
        assert lasts(find_plateaus(curve([10, 10], [400, 100], 0.05, seed), 4)) == [9, 19]


@given(st.floats(1e-9, 1e12), st.integers(0, 1000))
def test_the_unit_does_not_matter(scale: float, seed: int) -> None:
    rates = curve([5, 6, 7], [400, 150, 50], 0.2, seed)
    assert lasts(find_plateaus(rates * scale, 3)) == lasts(find_plateaus(rates, 3))


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=24), st.integers(1, 5))
def test_plateaus_cover_the_curve_in_order(rates: list[float], at_most: int) -> None:
    found = find_plateaus(rates, at_most)
    assert 1 <= len(found) <= at_most
    assert [plateau.first for plateau in found] == [0, *(last + 1 for last in lasts(found)[:-1])]
    assert lasts(found)[-1] == len(rates) - 1
    assert all(a.rate >= 1.25 * b.rate for a, b in pairwise(found))


@pytest.mark.parametrize("rates", [[], [1.0, 0.0], [1.0, -1.0], [1.0, np.nan], [[1.0]]])
def test_what_is_no_curve_is_refused(rates: list[float]) -> None:
    with pytest.raises(ValueError, match="rates must be"):
        find_plateaus(rates, 2)


def test_no_plateau_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at_most must be at least 1"):
        find_plateaus([1.0], 0)
