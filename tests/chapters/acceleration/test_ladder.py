"""Ladder of products: every way gives the product, is held against the peak, and is told as it was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns, made, records
from tests.perf.made_ceilings import PEAK, made_ceilings
from tinytorch.chapters.acceleration import ladder as chapter
from tinytorch.chapters.acceleration.ladder import (
    FREE_BLAS,
    ONE_CORE,
    STEPS,
    Rung,
    Step,
    TwoCores,
    matmul_ladder,
    square_matrices,
    vectorization_scaling,
)
from tinytorch.core.op import Array
from tinytorch.perf.acceleration import products
from tinytorch.perf.kernels.gemm.product_tiles import ROWS, VECTORS
from tinytorch.perf.machine import identity
from tinytorch.report import Page
from tinytorch.report.records import Json


def drawn(*shape: int) -> Array:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 7, 3), (10, 6, 21)])
def test_each_step_multiplies(step: Step, shape: tuple[int, int, int]) -> None:
    a, b = drawn(shape[0], shape[1]), drawn(shape[1], shape[2])
    found = step.function(a, b)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, a.astype(np.float64) @ b, rtol=0, atol=1e-5)


def test_the_ladder_holds_rates_against_the_peak_it_is_given() -> None:
    made = made_ceilings()
    steps = (Step("narrow", products.python_loops, "teaching", 8), Step("wide", products.blas, "real", 64))
    narrow, wide = matmul_ladder(16, steps=steps, made=made, repeats=6, at_most_seconds=0.05)
    assert (narrow.width, wide.width) == (8, 16)
    assert wide.flops == 2 * 16**3
    assert wide.rate.samples == pytest.approx([wide.flops / seconds for seconds in wide.seconds.samples])
    assert wide.of_peak.median == pytest.approx(wide.rate.median / made.fp32_peak.median)
    assert wide.seconds.unit == "s"
    assert all(step.reason and step.widest >= 64 for step in STEPS)


def test_a_wrong_step_is_not_timed() -> None:
    wrong = Step("wrong", lambda a, b: a + b, "teaching", 64)
    with pytest.raises(ArithmeticError, match="wrong is wrong"):
        matmul_ladder(8, steps=(wrong,), made=made_ceilings())
    with pytest.raises(ValueError, match="width must be at least 1"):
        square_matrices(0)


def test_scaling_times_both_ways_at_each_size() -> None:
    found = vectorization_scaling((1, 5), repeats=6)
    assert [*found] == [1, 5]
    assert all({*each} == {"loop", "vectorized"} for each in found.values())
    with pytest.raises(ValueError, match="sizes must be at least 1"):
        vectorization_scaling((0,))


def made_rungs(seconds: Mapping[str, float], noise: float = 0.0) -> list[Rung]:
    """Return all steps at their own width: each at a tenth of the peak but for those whose seconds are given."""
    at = {step.name: 10 * 2 * min(1024, step.widest) ** 3 / PEAK for step in STEPS}
    times = in_turns({**at, **seconds}, noise={"tiles of BLAS": noise})
    peak = made_ceilings().fp32_peak
    return [Rung(step, min(1024, step.widest), 1, times[step.name], peak) for step in STEPS]


def ladder_records(seconds: Mapping[str, float], noise: float = 0.0) -> dict[str, Json]:
    """Return what the page says of that ladder, loops in the order i, j, k three times as long as in i, k, j."""
    orders = in_turns({"compiled loops, i j k": 3.0, "compiled loops, i k j": 1.0})
    names = {step.name: step for step in STEPS}
    page = Page("acceleration")
    chapter.record_ladder(
        page,
        made_rungs(seconds, noise),
        [Rung(names[name], 512, 1, each, made_ceilings().fp32_peak) for name, each in orders.items()],
        made_ceilings(),
    )
    return records(page)


#: Seconds at the peak of a product 1,024 wide, and of the two widths at which Python's loops are measured.
FULL, LISTS, ELEMENTS = (2 * width**3 / PEAK for width in (1024, 128, 64))


def test_rates_shares_and_gains_are_those_of_the_rungs() -> None:
    said = ladder_records(
        {
            "BLAS": 2 * FULL,
            "tiles in registers, packed": 3 * FULL,
            "tiles in registers": 6 * FULL,
            "lists, Python, i j k": 4000 * LISTS,
            "lists, Python, i k j": 2000 * LISTS,
            "elements of arrays, Python": 8000 * ELEMENTS,
        }
    )
    value = {key: record.get("value") for key, record in said.items()}
    assert (value["rate-blas"], value["peak-blas"]) == (pytest.approx(PEAK / 2), pytest.approx(0.5))
    assert value["rate-four"] == pytest.approx(PEAK / 10)
    assert (value["left"], value["peak"]) == (pytest.approx(2), PEAK)
    assert (value["loops-to-blas"], value["lists-to-blas"]) == (pytest.approx(4000), pytest.approx(2000))
    assert (value["order-gain"], value["python-order-gain"]) == (pytest.approx(3), pytest.approx(2))
    assert (value["register-gain"], value["pack-gain"]) == (pytest.approx(10 / 6), pytest.approx(2))
    assert value["blas-gain"] == pytest.approx(1.5)
    assert said["blas-gain-verdict"]["word"] == "faster"
    assert (value["tile-rows"], value["tile-vectors"]) == (ROWS, VECTORS)
    assert value["tile-operations"] == pytest.approx(1 / ROWS + 1 / VECTORS)
    rows = said["ladder"]["rows"]
    assert [row["step"] for row in rows] == [step.name for step in STEPS]
    assert (rows[0]["kind"], rows[-1]["kind"]) == ("to learn", "to use")
    looks = {series["label"]: series["variant"] for series in said["ladder-rates"]["series"]}
    assert (looks["einsum, default"], looks["BLAS"]) == ("baseline", "compiled")


@pytest.mark.parametrize(
    ("loops", "blas", "noise", "verdict"),
    [
        (5, 5, 0.0, "supported"),
        (5, 20, 0.0, "refuted"),
        (20, 5, 0.0, "refuted"),
        (5, 10, 0.1, "cannot tell here"),
    ],
)
def test_tiles_help_only_if_they_help_loops_and_blas(loops: float, blas: float, noise: float, verdict: str) -> None:
    said = ladder_records({"compiled loops in tiles": loops * FULL, "tiles of BLAS": blas * FULL}, noise)
    assert said["tiling"]["verdict"] == verdict
    assert said["tile-gain"]["value"] == pytest.approx(10 / loops, rel=0.2)
    assert said["blas-tile-gain"]["value"] == pytest.approx(10 / blas, rel=0.2)


def test_a_second_core_is_held_against_the_peak_of_two() -> None:
    flops = 2 * 2048**3
    times = in_turns({"1": flops / 80e9, "2": flops / 120e9})
    page = Page("acceleration")
    chapter.record_second_core(page, TwoCores(times["1"], times["2"], made(160e9, "FLOP/s")), made_ceilings())
    value = {key: record.get("value") for key, record in records(page).items()}
    assert (value["two-blas"], value["two-blas-peak"]) == (pytest.approx(120e9), pytest.approx(0.75))
    assert (value["two-gain"], value["two-peak-gain"]) == (pytest.approx(1.5), pytest.approx(1.6))
    assert "one-only" not in value


@pytest.mark.parametrize("reason", [ONE_CORE, FREE_BLAS])
def test_without_a_second_core_the_page_says_why(reason: str) -> None:
    page = Page("acceleration")
    chapter.record_second_core(page, reason, made_ceilings())
    said = records(page)
    for key in ("two-blas", "two-blas-peak", "two-gain", "two-peak-gain"):
        assert (said[key]["kind"], said[key]["reason"]) == ("absent", reason)
    assert said["one-only"]["word"] == reason


@pytest.mark.parametrize(
    ("cores", "threads", "reason"), [(1, 1, ONE_CORE), (1, 2, ONE_CORE), (2, None, FREE_BLAS), (2, 1, FREE_BLAS)]
)
def test_the_reason_is_cores_before_blas(
    monkeypatch: pytest.MonkeyPatch, cores: int, threads: int | None, reason: str
) -> None:
    here = identity()
    monkeypatch.setattr(chapter, "identity", lambda: replace(here, cores_usable=cores))
    monkeypatch.setattr(chapter, "limited_blas_threads", lambda count: threads)
    assert chapter.second_core() == reason


def test_two_cores_multiply_the_same_matrices_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    here, machine = identity(), made_ceilings(peak=3 * PEAK)
    monkeypatch.setattr(chapter, "identity", lambda: replace(here, cores_usable=2))
    monkeypatch.setattr(chapter, "limited_blas_threads", lambda count: count)
    monkeypatch.setattr(chapter, "ceilings", lambda threads: machine if threads == 2 else made_ceilings())
    monkeypatch.setattr(chapter, "interleave", lambda runs, **plan: in_turns(dict.fromkeys(runs, 1.0)))
    found = chapter.second_core()
    assert isinstance(found, TwoCores)
    assert (found.one.name, found.two.name) == ("1", "2")
    assert found.peak == machine.fp32_peak


def sizes_records(faster: Mapping[int, float], noise: float = 0.0) -> dict[str, Json]:
    """Return what the page says where NumPy is so many times as fast by the number of elements; ``noise`` is of all."""
    times = {
        size: in_turns({"loop": gain, "vectorized": 1.0}, noise={"vectorized": noise or 1e-6})
        for size, gain in faster.items()
    }
    page = Page("acceleration")
    page.number("lists-to-blas", 2000.0, unit="", what="rate over rate")
    chapter.record_vectorization(page, times)
    return records(page)


@pytest.mark.parametrize(
    ("four", "noise", "word"), [(0.3, 0.0, "slower"), (1.4, 0.0, "faster"), (1.0, 0.3, "cannot tell here")]
)
def test_four_numbers_are_judged_by_their_comparison(four: float, noise: float, word: str) -> None:
    said = sizes_records({4: four, 64: 3.0, 16384: 50.0, 262144: 40.0}, noise)
    assert said["vectorized-4-verdict"]["word"] == word
    assert said["vectorized-4"]["value"] == pytest.approx(four, rel=0.01)
    assert said["vectorized-262144"]["value"] == pytest.approx(40, rel=0.01)


@pytest.mark.parametrize(
    ("last", "noise", "verdict"),
    [(4.0, 0.0, "supported"), (50.0, 0.0, "refuted"), (1.5, 0.0, "refuted"), (5.0, 0.1, "cannot tell here")],
)
def test_two_to_five_times_must_hold_for_every_size(last: float, noise: float, verdict: str) -> None:
    assert sizes_records({4: 3.0, 64: 3.0, 16384: last}, noise)["vectorization"]["verdict"] == verdict
