"""What the page on rooflines would say of places that were made up: each word and verdict, on all of its sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.chapters.made_places import made_place
from tests.perf.made_ceilings import made_ceilings, spread
from tinytorch.chapters.roofline import records as chapter
from tinytorch.core.op import Spec, Work
from tinytorch.perf.events.stream import Event, OpKey
from tinytorch.perf.roofline.bounds import Bottleneck
from tinytorch.perf.roofline.placement import Placed, place
from tinytorch.report import Page
from tinytorch.report.records import Json

MACHINE = made_ceilings(threads=1)
MIB = 2**20


def made(record: Callable[[Page], None]) -> dict[str, Json]:
    """Return by key what ``record`` adds to a page."""
    page = Page("roofline")
    before = len(page.records)
    record(page)
    return {one.key: one.to_json() for one in page.records[before:]}


def operations(
    of_roof: float = 0.8,
    small: Bottleneck = "overhead",
    softmax: Bottleneck = "memory",
    product: Bottleneck = "compute",
) -> dict[str, Placed]:
    """Return the page's operations; softmax reaches ``of_roof``, and it, the small one and the product are so bound."""
    return {
        "add": made_place("add", MIB, 12 * MIB, 0.9),
        "GELU": made_place("GELU", 8 * MIB, 8 * MIB, 0.8),
        "softmax": made_place("softmax", 5 * MIB, 8 * MIB, of_roof, softmax),
        "matrix × vector": made_place("matrix × vector", 2 * MIB, 4 * MIB, 0.9),
        "matrix × matrix": made_place("matrix × matrix", 2048 * MIB, 12 * MIB, 0.9, product),
        "add of 4 numbers": made_place("add of 4 numbers", 4, 48, 0.01, small, "L1"),
    }


def record_all(page: Page, placed: dict[str, Placed]) -> None:
    """Record what the page says of its operations, in its order."""
    chapter.show_operations(page, placed)
    chapter.record_operations(page, placed, MACHINE)
    chapter.record_bounds(page, placed)


def test_the_ridge_of_each_level_is_peak_over_bandwidth() -> None:
    found = made(lambda page: chapter.record_ceilings(page, MACHINE))
    assert (found["peak"]["value"], found["memory-bandwidth"]["value"]) == (100e9, 10e9)
    ridges = {key: record["value"] for key, record in found.items() if key.startswith("ridge-")}
    assert ridges == pytest.approx({"ridge-l1": 0.25, "ridge-l2": 1.0, "ridge-memory": 10.0})


def test_each_operation_has_its_numbers_and_its_word() -> None:
    found = made(lambda page: record_all(page, operations()))
    assert found["bound-matrix-matrix"]["word"] == "compute-bound"
    assert found["bound-add-of-4-numbers"]["word"] == "overhead-bound"
    assert found["of-roof-gelu"]["value"] == pytest.approx(0.8)
    assert found["time-matrix-vector"]["value"] == pytest.approx(4 * MIB / 10e9 / 0.9)
    assert len(found["ops"]["rows"]) == 6


def test_each_row_has_the_bandwidth_that_its_roof_is_made_of() -> None:
    found = made(lambda page: record_all(page, operations()))
    roofs = {row["name"]: (row["slope"], row["bandwidth"]["value"]) for row in found["ops-roofs"]["rows"]}
    assert roofs["add"] == ("memory", pytest.approx(10e9))
    assert roofs["add of 4 numbers"] == ("L1", pytest.approx(400e9))


@pytest.mark.parametrize(("of_roof", "word"), [(1.2, "softmax"), (1.005, "none of them"), (0.8, "none of them")])
def test_what_surely_beats_its_roof_is_named(of_roof: float, word: str) -> None:
    """The time is known to a hundredth."""
    assert made(lambda page: record_all(page, operations(of_roof)))["above-roof"]["word"] == word


@pytest.mark.parametrize(
    ("softmax", "product", "verdict"),
    [
        ("memory", "compute", "supported"),
        ("none", "compute", "refuted"),
        ("overhead", "compute", "refuted"),
        ("unclear", "compute", "cannot tell here"),
        ("memory", "memory", "refuted"),
        ("unclear", "memory", "refuted"),
    ],
)
def test_elementwise_operations_are_memory_bound_if_all_are(
    softmax: Bottleneck, product: Bottleneck, verdict: str
) -> None:
    found = made(lambda page: record_all(page, operations(softmax=softmax, product=product)))
    assert found["elementwise-memory-bound"]["verdict"] == verdict


@pytest.mark.parametrize(
    ("bottleneck", "verdict"),
    [
        ("overhead", "supported"),
        ("memory", "refuted"),
        ("compute", "refuted"),
        ("none", "refuted"),
        ("unclear", "cannot tell here"),
    ],
)
def test_small_tensors_are_bound_by_what_their_addition_is(bottleneck: Bottleneck, verdict: str) -> None:
    found = made(lambda page: record_all(page, operations(small=bottleneck)))
    assert found["small-tensors"]["verdict"] == verdict


def crossing(left: float, right: float) -> list[Placed]:
    """Return products of three numbers of rows whose first and last reach these shares of the peak."""
    few = made_place("1 rows", 8 * MIB, 4 * MIB, left * 100e9 / (2 * 10e9))
    some = made_place("16 rows", 48 * MIB, 4 * MIB, 0.9, "compute")
    return [few, some, made_place("512 rows", 1024 * MIB, 8 * MIB, right, "compute")]


@pytest.mark.parametrize(
    ("left", "right", "verdict"),
    [
        (0.1, 0.95, "supported"),
        (0.9, 0.95, "refuted"),
        (0.9, 0.5, "refuted"),
        (0.1, 0.5, "cannot tell here"),
        (0.8, 0.95, "cannot tell here"),
        (0.1, 0.8, "cannot tell here"),
    ],
)
def test_the_ridge_is_where_the_peak_begins_if_both_sides_say_so(left: float, right: float, verdict: str) -> None:
    found = made(lambda page: chapter.record_crossing(page, crossing(left, right)))
    assert found["ridge-point"]["verdict"] == verdict
    assert (found["first-share"]["value"], found["last-share"]["value"]) == pytest.approx((left, right))
    assert (found["first-intensity"]["value"], found["last-intensity"]["value"]) == pytest.approx((2.0, 128.0))
    roof = next(series for series in found["crossing"]["series"] if series["label"] == "roof")
    assert {number["kind"] for number in roof["numbers"]} == {"modelled"}


def test_the_uncertainty_of_the_peak_is_in_a_share_of_it() -> None:
    """What reaches 0.83 of a peak that is known to a twentieth may reach less than four fifths."""
    for noise, verdict in ((0.0, "supported"), (0.05, "cannot tell here")):
        places = [*crossing(0.1, 0.9)[:-1], product_of_share(0.83, noise)]
        found = made(partial(chapter.record_crossing, crossing=places))
        assert found["last-share"]["value"] == pytest.approx(0.83)
        assert found["ridge-point"]["verdict"] == verdict
        assert (found["last-share"]["interval"]["low"] < 0.8) == (noise > 0)


def product_of_share(share: float, noise: float) -> Placed:
    """Return a product that takes a peak's time over ``share``, to half a per cent, where the peak is so noisy."""
    event = Event("matmul", "numpy", "forward", "", (), Spec((1,), np.dtype(np.float32)), Work(2**30), 8 * MIB, 0, 1, 1)
    seconds = replace(spread(2**31 / 100e9 / share, "s", 0.005), how={"blas_threads": 1})
    return place("512 rows", [event], seconds, made_ceilings(noise, threads=1))


def by_op(softmax: float = 0.9) -> dict[OpKey, Placed]:
    """Return three ops: one is farthest from its roof, another has most time above it, and softmax is as given."""
    return {
        ("gelu", "forward", "numpy"): made_place("gelu", MIB, MIB, 0.1),
        ("linear", "forward", "numpy"): made_place("linear", 1024 * MIB, 8 * MIB, 0.5, "compute"),
        ("softmax", "forward", "numpy"): made_place("softmax", MIB, MIB, softmax),
    }


def answers(products: list[Placed], softmax: float = 0.9) -> dict[str, Json]:
    """Return the records of the answers, with these products of more and more rows."""
    gpt = made_place("GPT, 64", 2048 * MIB, 64 * MIB, 0.25)
    return made(lambda page: chapter.record_answers(page, MACHINE, operations(), products, gpt, by_op(softmax)))


def test_answers_are_what_the_model_of_the_roofline_says() -> None:
    found = answers(crossing(0.1, 0.9))
    assert found["q-gelu-intensity"]["value"] == 1.0
    assert found["q-rows"]["value"] == 16
    assert found["q-gain-vector"]["value"] == pytest.approx(2)
    assert found["q-gain-matrix"]["value"] == pytest.approx(1)
    assert found["q-floor"]["value"] == pytest.approx(2048 * MIB / 100e9)
    assert found["q-gpt-time"]["value"] == pytest.approx(4 * 2048 * MIB / 100e9)
    assert found["q-farthest"]["word"] == "gelu"
    assert found["q-most-to-gain"]["word"] == "linear"
    assert found["q-most-seconds"]["value"] == pytest.approx(1024 * MIB / 100e9)


def test_words_name_all_that_the_intervals_cannot_tell_from_the_first() -> None:
    """Softmax and GELU, of as many operations and bytes, are known to a hundredth each."""
    assert answers(crossing(0.1, 0.9), softmax=0.11)["q-farthest"]["word"] == "gelu"
    assert answers(crossing(0.1, 0.9), softmax=0.1005)["q-farthest"]["word"] == "gelu or softmax"
    assert answers(crossing(0.1, 0.9), softmax=0.09)["q-farthest"]["word"] == "softmax"
    # GELU and softmax take MIB / 10e9 s at the roof. What is 1024 MIB / 100e9 s above it: linear.
    alike = answers(crossing(0.1, 0.9), softmax=1 / (102.4 * 1.005 + 1))
    assert alike["q-most-to-gain"]["word"] == "softmax or linear"
    assert answers(crossing(0.1, 0.9), softmax=1 / 110)["q-most-to-gain"]["word"] == "softmax"


def test_time_above_the_roof_has_the_intervals_of_both() -> None:
    found = answers(crossing(0.1, 0.9))["q-most-seconds"]
    time = 2 * 1024 * MIB / 100e9
    assert (found["interval"]["low"], found["interval"]["high"]) == pytest.approx((0.99 * time - time / 2, 0.51 * time))


def test_where_no_product_is_right_of_the_ridge_no_count_is_given() -> None:
    few = [made_place(f"{rows} rows", 8 * MIB, 4 * MIB, 0.9) for rows in (1, 2, 3)]
    found = answers(few)["q-rows"]
    assert (found["kind"], found["reason"]) == ("absent", "of up to 3 rows none is surely right of the ridge")


def test_whole_models_have_a_word_and_a_share_by_batch() -> None:
    wholes = {("gpt", 1): made_place("GPT, 1", MIB, MIB, 0.3, "overhead"), ("gpt", 64): made_place("b", MIB, MIB, 0.5)}
    found = made(lambda page: chapter.record_models(page, wholes))
    assert (found["gpt-1-bound"]["word"], found["gpt-64-bound"]["word"]) == ("overhead-bound", "memory-bound")
    assert found["gpt-64-of-roof"]["value"] == pytest.approx(0.5)


def test_operations_of_the_gpt_have_a_row_each() -> None:
    rows = made(lambda page: chapter.show_gpt(page, by_op()))["gpt-ops"]["rows"]
    assert [row["name"] for row in rows] == ["gelu", "linear", "softmax"]
