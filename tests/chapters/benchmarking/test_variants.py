"""What the page says of its suite: three numbers of each variant, fronts and products, on times of known ratios."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.text import Annotation

from tests.chapters.made_turns import said_in
from tinytorch.chapters.benchmarking import variants
from tinytorch.perf.benchmarking import ParetoFront, Performance, kept_of_product, pareto_front
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.measuring import Counted, Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.noise import NoiseFloor
from tinytorch.report import Page, figures
from tinytorch.report.figures import subplots
from tinytorch.report.records import Json

NAMES = ("baseline", "quantized", "pruned", "structured", "accelerated", "combined")
#: Seconds and bytes of each variant, with a combination that multiplies its parts' gains.
TABLE = {
    "baseline": (12.0, 12_000),
    "quantized": (3.0, 3000),
    "pruned": (3.5, 1200),
    "structured": (6.0, 6000),
    "accelerated": (4.0, 12_000),
    "combined": (2.0, 6000),
}
PARTS = ("structured", "accelerated")


def performance(name: str, seconds: float, right: int = 1900, nbytes: int = 1000, examples: int = 2000) -> Performance:
    noise = 1 + 0.001 * np.random.default_rng(len(name)).standard_normal(30)
    conditions = Conditions(interleaved_with=tuple(other for other in NAMES if other != name))
    times = Measurement(name, tuple(seconds * noise), "s", conditions)
    correct = np.arange(examples) < right
    return Performance(name, "forward", {64: (times,)}, {64: Counted(nbytes + 5000, "B", name)}, nbytes, correct, "run")


def starve(one: Measurement) -> Measurement:
    return replace(one, conditions=replace(one.conditions, cpu_per_wall=0.5, blas_threads=1))


def results(**changed: tuple[float, int]) -> dict[str, dict[str, Performance]]:
    """Return the suites of two models by `TABLE`, but for variants of the MLP that are ``changed``."""

    def suite(table: Mapping[str, tuple[float, int]]) -> dict[str, Performance]:
        return {name: performance(name, seconds, 1900, nbytes) for name, (seconds, nbytes) in table.items()}

    return {"mlp": suite({**TABLE, **changed}), "cnn": suite(TABLE)}


def by_key(page: Page) -> dict[str, Json]:
    return {record.key: record.to_json() for record in page.records}


def test_each_variant_stands_beside_its_baseline() -> None:
    page, measured = Page("benchmarking"), results()["cnn"]
    variants.record_suite(page, measured)
    made = by_key(page)
    rows = {row["variant"]: row for row in made["suite"]["rows"]}
    assert [*rows] == ["baseline", "quantized", "pruned", "structured", "accelerated", "combined"]
    assert (rows["baseline"]["speed"], rows["baseline"]["verdict"]) == (None, None)
    assert rows["quantized"]["verdict"]["word"] == "faster"
    assert rows["quantized"]["speed"]["value"] == pytest.approx(4, rel=0.01)
    assert rows["pruned"]["memory"]["value"] == 6200
    assert rows["pruned"]["right"]["value"] == pytest.approx(0.95)
    assert made["suite-compared"]["value"] == 5


@pytest.mark.parametrize(
    ("combined", "word"),
    [(2.0, "open"), (4.0, "less than the product"), (1.0, "more than the product")],
)
def test_a_combination_is_held_against_the_product_of_its_parts(combined: float, word: str) -> None:
    page, measured = Page("benchmarking"), results(combined=(combined, 6000))
    kept = {
        model: kept_of_product(measured[model], "baseline", PARTS, "combined", batch=64) for model in ("mlp", "cnn")
    }
    variants.record_products(page, kept)
    made = by_key(page)
    assert made["mlp-kept"]["value"] == pytest.approx(2 / combined, rel=0.01)
    assert made["cnn-kept"]["value"] == pytest.approx(1, rel=0.01)
    assert said_in(made["mlp-product"]) == word


def test_the_front_counts_who_is_on_it_and_names_who_is_not() -> None:
    fronts = {
        "mlp": ParetoFront(("pruned", "combined"), {"quantized": ("pruned", "combined")}, {"combined": ("pruned",)}),
        "cnn": ParetoFront(("baseline",), {}, {}),
    }
    page = Page("benchmarking")
    variants.record_fronts(page, results(), fronts)
    made = by_key(page)
    assert made["front-size"]["value"] == 2 + 1
    assert made["all-variants"]["value"] == 6 + 6
    assert made["fronts"]["kind"] == "figure"


def test_nothing_is_off_a_front_by_a_verdict_that_the_page_withholds(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = results()["cnn"]
    proven = pareto_front(measured, batch=64)
    assert "baseline" in proven.dominated
    page = Page("benchmarking")
    page.noise = NoiseFloor("made", (), Measurement("made", (1.001,), ""))
    assert pareto_front(measured, batch=64, told=page.judged) == proven
    monkeypatch.setattr(BackgroundLoad, "cores", lambda _: 1.0)
    assert pareto_front(measured, batch=64, told=page.judged) == proven, "busy, but each had its core"
    starved = {
        name: replace(one, times={64: tuple(starve(each) for each in one.times[64])}) for name, one in measured.items()
    }
    front = pareto_front(starved, batch=64, told=page.judged)
    assert (front.front, dict(front.dominated)) == (NAMES, {})
    assert front.undecided["baseline"] == proven.dominated["baseline"]


def test_nothing_is_off_a_front_by_less_than_the_noise_floor() -> None:
    measured = {name: performance(name, seconds) for name, seconds in (("baseline", 1.1), ("combined", 1.0))}
    assert [*pareto_front(measured, batch=64).dominated] == ["baseline"]
    page = Page("benchmarking")
    for floor, front in ((1.05, ("combined",)), (1.2, ("baseline", "combined"))):
        page.noise = NoiseFloor("made", (), Measurement("made", (floor,), ""))
        assert pareto_front(measured, batch=64, told=page.judged).front == front


def test_all_are_drawn_and_named() -> None:
    figure, ax = subplots()
    measured = [
        performance(name, seconds, right, examples=100)
        for name, seconds, right in (("slow", 0.02, 95), ("fast", 0.005, 90), ("poor", 0.021, 80))
    ]
    variants.draw_front(ax, measured, ParetoFront(("slow", "fast"), {"poor": ("slow",)}, {}), 64)
    figures.check_figure(figure, caption="c", alt="a", key="front")
    names = [text for text in ax.texts if isinstance(text, Annotation)]
    assert [text.get_text() for text in names] == ["slow", "fast", "(poor)"]
    # From the top in the order of accuracy, each pointing at its place in ms and per cent.
    heights = [text.xyann[1] for text in names]
    assert heights == sorted(heights, reverse=True)
    assert names[1].xy == pytest.approx((5, 90), rel=0.01)
    body = figures.to_body(figure, caption="c", alt="a", key="front")
    assert [series["label"] for series in body["series"]] == ["slow", "fast", "poor"]
    assert body["series"][0]["numbers"][0]["n"] == 100


def test_without_an_accuracy_there_is_no_place() -> None:
    blind = Performance("blind", "forward", {}, {}, 1, None, "run")
    with pytest.raises(ValueError, match="'blind' has none"):
        variants.accuracy(blind)
