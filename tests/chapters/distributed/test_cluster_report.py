"""Tables and figures of larger machines: what is modelled looks so, what others published is quoted as printed."""

from __future__ import annotations

import pytest
from bs4 import BeautifulSoup
from tinytorch.chapters.distributed.cluster_report import (
    published_table,
    scaling_figure,
    splits_table,
    validation_table,
)

from tinytorch.chapters.distributed.published import published_results
from tinytorch.chapters.distributed.validation import MeasuredWorkload, Validated, Validation
from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, given_link
from tinytorch.perf.distributed.cluster_model.prediction import Prediction, Split, predict
from tinytorch.perf.distributed.cluster_model.splits import best_splits, scaling_curve
from tinytorch.perf.distributed.cluster_model.workload import transformer_workload
from tinytorch.perf.measuring import Measurement
from tinytorch.report import Page
from tinytorch.report.shown import Shown

GPT = transformer_workload(
    layers=6, width=512, heads=8, positions=256, vocabulary=1000, examples=48, flops_per_second=1e12
)
CLUSTER = Cluster(given_link(3e-6, 100e9), given_link(15e-6, 10e9), 4)
ONE = predict(GPT, CLUSTER, Split())


@pytest.fixture(scope="module")
def page() -> Page:
    return Page("cluster")


def cells(shown: Shown, label: str) -> list[str]:
    """Return the classes of a column's cells and their texts."""
    assert shown.on_page is not None
    table = BeautifulSoup(shown.on_page, "html.parser")
    labels = [head.get_text() for head in table.select("thead .label")]
    at = labels.index(label)
    found = [row.select("th, td")[at] for row in table.select("tbody tr")]
    looks = [[cell, *cell.select("span")] for cell in found]
    words = ([*(str(name) for part in parts for name in part.get_attribute_list("class") if name)] for parts in looks)
    return [" ".join([*names, cell.get_text()]) for names, cell in zip(words, found, strict=True)]


def test_splits_are_modelled_numbers_and_their_parts_are_shares_of_the_step(page: Page) -> None:
    found = best_splits(GPT, CLUSTER, 12)[:3]
    shown = splits_table(page, "splits", found, ONE, caption="The fastest splits.")
    for text, prediction in zip(cells(shown, "Step"), found, strict=True):
        assert text.startswith("numeric modelled ")
        assert float(text.split()[-1]) == pytest.approx(prediction.seconds * 1e3, rel=0.01)
    row = shown.record.body["rows"][0]
    assert row["seconds"]["kind"] == "modelled"
    assert row["seconds"]["value"] == found[0].seconds
    shares = [row[part]["value"] for part in ("bubble", "tensor", "handing", "gradients")]
    assert sum(shares) == pytest.approx(1 - found[0].computing / found[0].seconds)
    assert row["efficiency"]["value"] == found[0].efficiency(ONE)


def test_curves_have_a_modelled_point_for_each_number_of_ranks_that_fits(page: Page) -> None:
    curve = scaling_curve(GPT, CLUSTER, [1, 4, 16, 4097])
    figure = scaling_figure({"the batch stays": curve}, ONE)
    shown = page.figure(
        "curve", figure, caption="It falls.", alt="A dashed line that falls from the left to the right."
    )
    (series,) = shown.record.body["series"]
    assert series["x"] == [1, 4, 16]
    assert {number["kind"] for number in series["numbers"]} == {"modelled"}
    with pytest.raises(ValueError, match="curve 'none' must have a point, but nothing fits"):
        scaling_figure({"none": [None]}, ONE)
    with pytest.raises(ValueError, match="curves must be at most 2, not 3"):
        scaling_figure(dict.fromkeys("abc", curve), ONE)


def made_validation() -> Validation:
    def row(name: str, seconds: float, predicted: Prediction) -> Validated:
        samples = tuple(seconds * (1 + each / 100) for each in range(7))
        return Validated(name, predicted, Measurement(name, samples, "s"), 800)

    rows = (row("one rank", ONE.seconds, ONE), row("data, 2 ranks", ONE.seconds, predict(GPT, CLUSTER, Split(2))))
    return Validation(MeasuredWorkload(GPT, {}, rows[0].measured), CLUSTER, rows)


def test_a_prediction_and_a_measurement_never_look_alike(page: Page) -> None:
    made = made_validation()
    shown = validation_table(page, "validation", made, caption="Predicted and measured.")
    assert all("modelled" in text for text in cells(shown, "Predicted"))
    assert not any("modelled" in text for text in cells(shown, "Measured"))
    rows = shown.record.body["rows"]
    assert [row["predicted"]["kind"] for row in rows] == ["modelled", "modelled"]
    assert [row["measured"]["kind"] for row in rows] == ["measured", "measured"]
    assert [row["kept"]["kind"] for row in rows] == ["counted", "counted"]
    assert rows[1]["state"]["kind"] == "modelled"
    assert rows[0]["error"]["value"] == pytest.approx(1 / 1.03 - 1)
    assert made.worst.name == "data, 2 ranks"


def test_published_numbers_are_quoted_as_they_were_printed(page: Page) -> None:
    shown = published_table(page, "published", published_results(), caption="Published and modelled.")
    texts = cells(shown, "Published")
    assert all(text.startswith("quoted-value ") for text in texts)
    assert texts[0] == "quoted-value 90 %"
    assert all("modelled" in text for text in cells(shown, "Predicted"))
    errors = [row["error"] for row in shown.record.body["rows"]]
    assert errors.count(None) == 2, "what was given has no error"
