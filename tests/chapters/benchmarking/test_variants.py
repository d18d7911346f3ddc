"""What the page says of its suite: rows of the course's table, fronts and products, on times whose ratios are known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from matplotlib.text import Annotation

from tinytorch.chapters.benchmarking import variants
from tinytorch.chapters.benchmarking.variants import Changes, Results
from tinytorch.perf.benchmarking import (
    ParetoFront,
    Performance,
    compare,
    compare_with_first,
    kept_of_product,
    plot_performance_comparison,
)
from tinytorch.perf.measuring import Measurement, quantity
from tinytorch.report import Page, color, figures, subplots
from tinytorch.report.records import Json

NAMES = ("baseline", "quantized", "pruned", "structured", "accelerated", "combined", "cached")
#: Seconds and bytes of each variant: those of the course's table, and a combination that multiplies its parts' gains.
TABLE = {
    "baseline": (12.0, 12_000),
    "quantized": (3.0, 3000),
    "pruned": (3.5, 1200),
    "structured": (6.0, 6000),
    "accelerated": (4.0, 12_000),
    "combined": (2.0, 6000),
    "cached": (2.2, 12_000),
}
PARTS = dict.fromkeys(("mlp", "cnn", "gpt"), ("structured", "accelerated"))


def performance(name: str, seconds: float, right: int = 1900, nbytes: int = 1000, examples: int = 2000) -> Performance:
    noise = 1 + 0.001 * np.random.default_rng(len(name)).standard_normal(30)
    how = {"interleaved_with": [other for other in NAMES if other != name]}
    times = Measurement(name, tuple(seconds * noise), "s", how)
    correct = np.arange(examples) < right
    return Performance(
        name, "forward", {64: (times,)}, {64: quantity(nbytes + 5000, "B", name)}, nbytes, correct, "run"
    )


def results(examples: int = 2000, **changed: tuple[float, int]) -> dict[str, dict[str, Performance]]:
    """Return the suites of three models by `TABLE`, but for variants of the MLP that are ``changed``."""

    def suite(table: Mapping[str, tuple[float, int]]) -> dict[str, Performance]:
        return {
            name: performance(name, seconds, examples - 100, nbytes, examples)
            for name, (seconds, nbytes) in table.items()
        }

    without_cache = {name: row for name, row in TABLE.items() if name != "cached"}
    return {"mlp": suite({**without_cache, **changed}), "cnn": suite(without_cache), "gpt": suite(TABLE)}


def changes_of(made: Results) -> Changes:
    return {model: compare_with_first(measured) for model, measured in made.items()}


def by_key(page: Page) -> dict[str, Json]:
    return {record.key: record.to_json() for record in page.records}


def test_each_variant_stands_beside_its_baseline() -> None:
    page, measured = Page("benchmarking"), results()
    variants.record_suite(page, measured, changes_of(measured))
    made = by_key(page)
    rows = {row["variant"]: row for row in made["suite-mlp"]["rows"]}
    assert [*rows] == ["baseline", "quantized", "pruned", "structured", "accelerated", "combined"]
    assert (rows["baseline"]["speed"], rows["baseline"]["verdict"]) == (None, None)
    assert rows["quantized"]["verdict"] == "faster"
    assert rows["quantized"]["speed"]["value"] == made["mlp-quantized-speed"]["value"] == pytest.approx(4, rel=0.01)
    assert made["gpt-pruned-size"]["value"] == pytest.approx(10)
    assert made["cnn-pruned-accuracy"]["value"] == 0
    assert (rows["pruned"]["memory"]["value"], rows["pruned"]["bytes"]["value"]) == (6200, 1200)
    assert rows["pruned"]["right"]["value"] == pytest.approx(0.95)
    assert "mlp-cached-speed" not in made


def test_the_dashboard_has_the_books_colour_of_each_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: dict[str, str] = {}

    def plot(made: Mapping[str, Performance], axes: object, colors: Mapping[str, str], ink: str) -> None:
        assert made.keys() == colors.keys()
        drawn.update(colors)
        plot_performance_comparison(made, axes, colors, ink)  # type: ignore[arg-type]

    monkeypatch.setattr(variants, "plot_performance_comparison", plot)
    page = Page("benchmarking")
    variants.record_dashboard(page, results()["gpt"])
    assert drawn["structured"] == drawn["pruned"] == color("pruned")
    assert drawn["accelerated"] == color("compiled")
    assert drawn["combined"] == color("numpy")
    assert by_key(page)["dashboard"]["kind"] == "figure"


@pytest.mark.parametrize(
    ("quantized", "examples", "verdict"),
    [
        ((3.0, 3000), 2000, "supported"),
        ((12.0, 3000), 2000, "refuted"),
        ((3.0, 6000), 2000, "refuted"),
        # Of 200 examples, none lost does not prove that not half a point is.
        ((3.0, 3000), 200, "cannot tell here"),
    ],
)
def test_a_row_of_the_courses_table_holds_if_all_models_have_its_numbers(
    quantized: tuple[float, int], examples: int, verdict: str
) -> None:
    page, measured = Page("benchmarking"), results(examples, quantized=quantized)
    changes = changes_of(measured)
    variants.record_suite(page, measured, changes)
    variants.record_course_table(page, changes)
    made = by_key(page)
    assert made["course-quantized"]["verdict"] == verdict
    others = "supported" if examples == 2000 else "cannot tell here"
    assert made["course-pruned"]["verdict"] == others
    assert made["course-cached"]["verdict"] == others


@pytest.mark.parametrize(("combined", "verdict"), [(2.0, "supported"), (4.0, "refuted"), (1.0, "refuted")])
def test_gains_multiply_if_they_do_in_all_models(combined: float, verdict: str) -> None:
    page, measured = Page("benchmarking"), results(combined=(combined, 6000))
    changes = changes_of(measured)
    kept = {
        model: kept_of_product(measured[model], "baseline", parts, "combined", batch=64)
        for model, parts in PARTS.items()
    }
    variants.record_suite(page, measured, changes)
    variants.record_products(page, kept)
    made = by_key(page)
    assert made["mlp-kept"]["value"] == pytest.approx(2 / combined, rel=0.01)
    assert made["cnn-kept"]["value"] == pytest.approx(1, rel=0.01)
    assert made["gains-multiply"]["verdict"] == verdict


def test_the_front_counts_who_is_on_it_and_names_who_is_not() -> None:
    fronts = {
        "mlp": ParetoFront(("pruned", "combined"), {"quantized": ("pruned", "combined")}, {"combined": ("pruned",)}),
        "cnn": ParetoFront(("baseline",), {}, {}),
        "gpt": ParetoFront(("cached",), {"pruned": ("cached",), "quantized": ("cached",)}, {}),
    }
    page = Page("benchmarking")
    variants.record_fronts(page, results(), fronts)
    made = by_key(page)
    rows = made["dominated"]["rows"]
    assert rows[0] == {
        "model": "MLP",
        "front": "pruned, combined",
        "out": "quantized by pruned, combined",
        "open": "combined",
    }
    assert (rows[1]["out"], rows[1]["open"]) == ("none", "none")
    assert rows[2]["out"] == "pruned by cached; quantized by cached"
    assert made["front-size"]["value"] == 2 + 1 + 1
    assert made["all-variants"]["value"] == 6 + 6 + 7


def test_a_row_is_judged_number_by_number() -> None:
    before = performance("baseline", 4.0, 190, 4000, 200)
    after = compare(before, performance("quantized", 1.0, 190, 1000, 200))
    held = variants.table_row_verdicts([after], faster=4, smaller=4, accuracy=-0.05, batch=64)
    assert held == ("supported",) * 3
    worse = compare(before, performance("quantized", 3.0, 150, 3000, 200))
    assert variants.table_row_verdicts([worse], faster=4, smaller=4, accuracy=-0.05, batch=64) == ("refuted",) * 3
    # One of two that is worse is enough.
    assert (
        variants.table_row_verdicts([after, worse], faster=4, smaller=4, accuracy=-0.05, batch=64) == ("refuted",) * 3
    )
    # Of 200 examples, none lost does not prove that not one in a thousand is.
    judged = variants.table_row_verdicts([after], faster=4, smaller=4, accuracy=-0.0001, batch=64)
    assert judged[2] == "cannot tell here"


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
