"""The claims of the page on rooflines: each predicate on all of its sides, on places that were made up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.chapters.made_places import candidates_of, made_place
from tests.chapters.roofline.test_records import MACHINE, MIB, additions, by_hand, slow, squares, together
from tinytorch.chapters.roofline import claims, records
from tinytorch.perf.roofline.bounds import Bottleneck
from tinytorch.perf.roofline.placement import Placed
from tinytorch.report import Page
from tinytorch.report.records import Json

#: What is said of a claim that memory bounds something which has this verdict.
OF_MEMORY: dict[Bottleneck, str] = {
    Bottleneck.MEMORY: "supported",
    Bottleneck.COMPUTE: "refuted",
    Bottleneck.OVERHEAD: "refuted",
    Bottleneck.BELOW: "refuted",
    Bottleneck.OPEN: "open",
}
SIDES = list(OF_MEMORY.items())


@pytest.fixture(autouse=True)
def _no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw nothing: claims rest on numbers, and to draw takes most of a test's time."""
    monkeypatch.setattr(Page, "figure", lambda *_, **__: None)


def bound(one: Placed, bottleneck: Bottleneck) -> Placed:
    """Return it with another verdict."""
    return replace(one, verdict=replace(one.verdict, candidates=candidates_of(bottleneck)))


def crossing(
    share: float = 0.05, first: Bottleneck = Bottleneck.MEMORY, last: Bottleneck = Bottleneck.COMPUTE
) -> list[Placed]:
    """Return products whose ridge is at 10 FLOP/B; one row, at a half, reaches ``share`` of the peak."""
    of_roof = share * 100e9 / (0.5 * 10e9)
    places = {
        1: made_place("1 rows", 2 * MIB, 4 * MIB, of_roof, first),
        2: made_place("2 rows", 4 * MIB, 4 * MIB, 0.3, Bottleneck.BELOW),
        16: made_place("16 rows", 320 * MIB, 4 * MIB, 0.9, Bottleneck.COMPUTE),
        32: made_place("32 rows", 640 * MIB, 4 * MIB, 0.95, Bottleneck.COMPUTE),
        64: made_place("64 rows", 1280 * MIB, 4 * MIB, 0.99, last),
    }
    return list(together(places).values())


def judged(
    *,
    crossings: Mapping[int, Sequence[Placed]] | None = None,
    sums: Mapping[int, Placed] | None = None,
    changed: Mapping[str, Placed] | None = None,
    products: Mapping[int, Placed] | None = None,
) -> dict[str, Json]:
    """Return the claims of a page that records what is given, and what is usual else."""
    page = Page("roofline")
    rows = crossings or {1024: crossing(), 4096: crossing()}
    sums = sums or additions()
    placed = by_hand() | slow() | {"add of 4 numbers": sums[4]} | dict(changed or {})
    products = products or squares()
    records.record_crossing(page, rows, MACHINE)
    records.show_asked(page, by_hand())
    records.record_additions(page, sums, MACHINE)
    records.record_placed(page, {name: one for name, one in placed.items() if name != "add of 4 numbers"})
    records.record_sizes(page, products)
    claims.record_claims(page, rows, sums, placed, products)
    return {one.key: one.to_json() for one in page.records if one.kind == "claim"}


def test_every_claim_has_its_sources_words() -> None:
    found = judged()
    assert len(found) == 7
    assert all(one["quote"] and one["source_url"] for one in found.values())
    assert [key for key, one in found.items() if one["counted"]] == ["add-intensity"]


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.05, "supported"), (0.9, "supported"), (1.0, "open"), (1.1, "refuted")]
)
def test_what_reaches_the_peak_left_of_the_ridge_refutes_it(share: float, verdict: str) -> None:
    found = judged(crossings={1024: crossing(), 4096: crossing(share)})
    assert found["ridge-point"]["verdict"] == verdict
    says_which = "scatter too much to tell are those of (rows × width) 1 × 4,096." in found["ridge-point"]["evidence"]
    assert says_which is (verdict == "open")


def test_without_a_product_left_of_the_ridge_nothing_is_said_of_it() -> None:
    right = [one for one in crossing() if one.name not in ("1 rows", "2 rows")]
    found = judged(crossings={1024: right, 4096: right})
    assert found["ridge-point"]["verdict"] == "open"


@pytest.mark.parametrize(
    ("eight", "bottleneck", "verdict"),
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
    eight: float, bottleneck: Bottleneck, verdict: str
) -> None:
    """Where twice the data takes more than a tenth longer, or may, the condition is not met."""
    sums = additions(eight)
    sums[4] = bound(sums[4], bottleneck)
    assert judged(sums=sums)["small-tensors"]["verdict"] == verdict


def test_an_addition_has_a_twelfth_of_an_operation_a_byte() -> None:
    assert judged()["add-intensity"]["verdict"] == "refuted"


def test_what_is_open_between_others_refutes_a_bound() -> None:
    products = squares()
    last = products[2048]
    others = (Bottleneck.COMPUTE, Bottleneck.OVERHEAD)
    products[2048] = replace(last, verdict=replace(last.verdict, candidates=others))
    assert judged(products=products)["large-products"]["verdict"] == "refuted"


@pytest.mark.parametrize(("bottleneck", "verdict"), SIDES)
def test_large_products_are_judged_by_the_largest(bottleneck: Bottleneck, verdict: str) -> None:
    products = squares()
    products[2048] = bound(products[2048], bottleneck)
    assert judged(products=products)["large-products"]["verdict"] == verdict


@pytest.mark.parametrize(("bottleneck", "verdict"), SIDES)
def test_a_low_rate_is_judged_by_all_that_have_one(bottleneck: Bottleneck, verdict: str) -> None:
    low = {
        name: bound(one, Bottleneck.MEMORY)
        for name, one in (by_hand() | slow(0.05)).items()
        if name != "matrix × matrix"
    }
    sums = additions()
    low["add of 4 numbers"] = bound(sums[4], bottleneck)
    assert judged(changed=low)["low-rate"]["verdict"] == verdict


def test_a_rate_that_may_be_higher_is_not_called_low() -> None:
    """Each of the others is bound by memory; the product with a vector reaches 5 % of the peak, or a little more."""
    low = {
        name: bound(one, Bottleneck.MEMORY)
        for name, one in (by_hand() | slow(0.05)).items()
        if name != "matrix × matrix"
    }
    low["add of 4 numbers"] = bound(additions()[4], Bottleneck.MEMORY)
    near = made_place("matrix × vector", 2 * MIB, 4 * MIB, 0.05 * 100e9 / (0.5 * 10e9), Bottleneck.BELOW)
    assert judged(changed=low | {"matrix × vector": near})["low-rate"]["verdict"] == "supported"


@pytest.mark.parametrize(("bottleneck", "verdict"), SIDES)
def test_large_models_are_judged_by_few_rows_and_by_many(bottleneck: Bottleneck, verdict: str) -> None:
    few = judged(crossings={1024: crossing(), 4096: crossing(first=bottleneck, last=Bottleneck.MEMORY)})
    many = judged(crossings={1024: crossing(), 4096: crossing(last=bottleneck)})
    assert few["large-models"]["verdict"] == many["large-models"]["verdict"] == verdict


@pytest.mark.parametrize("name", ["add", "GELU", "add of 4 numbers"])
@pytest.mark.parametrize(("bottleneck", "verdict"), SIDES)
def test_elementwise_operations_and_small_tensors_are_memory_bound_if_all_are(
    name: str, bottleneck: Bottleneck, verdict: str
) -> None:
    every = by_hand() | slow() | {"add of 4 numbers": additions()[4]}
    changed = {key: bound(every[key], Bottleneck.MEMORY) for key in ("add", "GELU", "add of 4 numbers")}
    found = judged(changed=changed | {name: bound(every[name], bottleneck)})
    assert found["elementwise-memory-bound"]["verdict"] == verdict
