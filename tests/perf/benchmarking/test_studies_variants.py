"""Products of gains and rows of the course's table, on times whose ratios are known."""

from __future__ import annotations

import numpy as np
import pytest

from tinytorch.perf.benchmarking import Performance, compare
from tinytorch.perf.benchmarking.comparing import kept_of_product
from tinytorch.perf.benchmarking.studies_variants import table_row_verdicts
from tinytorch.perf.measuring import Measurement, quantity

NAMES = ("baseline", "first", "second", "combined")


def performance(name: str, seconds: float, right: int = 190, nbytes: int = 1000, processes: int = 1) -> Performance:
    noise = 1 + 0.001 * np.random.default_rng(len(name)).standard_normal(30)
    how = {"interleaved_with": [other for other in NAMES if other != name]}
    times = tuple(Measurement(name, tuple(seconds * noise), "s", how) for _ in range(processes))
    correct = np.arange(200) < right
    return Performance(name, "forward", {64: times}, {64: quantity(nbytes, "B", name)}, nbytes, correct, "run")


def test_gains_that_multiply_keep_all_of_the_product() -> None:
    seconds = {"baseline": 12.0, "first": 6.0, "second": 4.0, "combined": 2.0}
    measured = {name: performance(name, each) for name, each in seconds.items()}
    assert kept_of_product(measured, "baseline", ("first", "second"), "combined", 64).median == pytest.approx(
        1, rel=0.01
    )
    measured["combined"] = performance("combined", 4.0)
    assert kept_of_product(measured, "baseline", ("first", "second"), "combined", 64).median == pytest.approx(
        0.5, rel=0.01
    )


def test_products_need_neighbours_of_one_process() -> None:
    measured = {name: performance(name, 1.0) for name in NAMES}
    with pytest.raises(ValueError, match="one process, but 'combined' has 2"):
        kept_of_product(
            {**measured, "combined": performance("combined", 1.0, processes=2)}, "baseline", ("first",), "combined", 64
        )
    apart = Measurement("first", (1.0,) * 30, "s")
    alone = Performance("first", "forward", {64: (apart,)}, {}, 1, None, "other")
    measured["baseline"] = Performance(
        "baseline", "forward", {64: (Measurement("baseline", (1.0,) * 30, "s"),)}, {}, 1, None, "run"
    )
    with pytest.raises(ValueError, match="was not interleaved"):
        kept_of_product({**measured, "first": alone}, "baseline", ("first",), "combined", 64)


def test_a_row_is_judged_number_by_number() -> None:
    before = performance("baseline", 4.0, nbytes=4000)
    after = compare(before, performance("first", 1.0, nbytes=1000))
    assert table_row_verdicts(after, faster=4, smaller=4, accuracy=-0.05, batch=64) == ["supported"] * 3
    worse = compare(before, performance("first", 3.0, right=150, nbytes=3000))
    assert table_row_verdicts(worse, faster=4, smaller=4, accuracy=-0.05, batch=64) == ["refuted"] * 3
    # Of 200 examples, none lost does not prove that not one in a thousand is.
    assert table_row_verdicts(after, faster=4, smaller=4, accuracy=-0.0001, batch=64)[2] == "cannot tell here"
