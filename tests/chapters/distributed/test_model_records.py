"""What the page records of larger machines: modelled numbers look so, published ones are quoted as printed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from bs4 import BeautifulSoup

from tests.perf.distributed.collectives.made_times import made_times
from tinytorch.chapters.distributed import model_records
from tinytorch.chapters.distributed.explorer import CLUSTERS, MODELS, RANKS, SHARDING, scaling_curve
from tinytorch.chapters.distributed.model_records import efficiency_figure
from tinytorch.chapters.distributed.published import published_results
from tinytorch.chapters.distributed.validation import MeasuredWorkload, Validated, Validation
from tinytorch.perf.distributed import Prediction, Split, best_splits, predict
from tinytorch.perf.distributed.collectives.link_fit import FittedLink, fit
from tinytorch.perf.measuring import Measurement
from tinytorch.report import Page

CLUSTER, MODEL = CLUSTERS[0], MODELS[0]
WORK = MODEL.workload(CLUSTER.flops_per_second)
ONE = predict(WORK, CLUSTER.links, Split())


def near() -> FittedLink:
    return fit(made_times(0.01))


def made_validation() -> Validation:
    def row(name: str, seconds: float, predicted: Prediction) -> Validated:
        samples = tuple(seconds * (1 + each / 100) for each in range(7))
        return Validated(name, predicted, Measurement(name, samples, "s"), 800)

    halved = predict(WORK, CLUSTER.links, Split(2))
    staged = predict(replace(WORK, update_s=1e-11), CLUSTER.links, Split(pipeline=2, micro=4))
    rows = (
        row("one rank", ONE.seconds, ONE),
        row("data, 2 ranks", ONE.seconds, halved),
        row("pipeline, 2 ranks", staged.seconds, staged),
    )
    return Validation(MeasuredWorkload(WORK, {}, rows[0].measured), CLUSTER.links, rows)


def bodies(page: Page) -> dict[str, Any]:
    return {record.key: record.to_json() for record in page.records}


def test_a_prediction_and_a_measurement_never_look_alike() -> None:
    page = Page("made")
    model_records.record_validation(page, made_validation(), near())
    made = bodies(page)
    rows = made["validation"]["rows"]
    assert [row["predicted"]["kind"] for row in rows] == 3 * ["modelled"]
    assert [row["measured"]["kind"] for row in rows] == 3 * ["measured"]
    assert rows[0]["error"]["value"] == pytest.approx(1 / 1.03 - 1)
    assert made["worst-error"]["value"] == pytest.approx(rows[1]["error"]["value"])
    assert made["worst-size"]["value"] == pytest.approx(abs(made["worst-error"]["value"]))
    assert made["worst-size"]["interval"]["low"] == pytest.approx(-made["worst-error"]["interval"]["high"])
    assert made["link-beta"]["unit"] == "s/B"
    assert made["gpt-rate"]["unit"] == "FLOP/s"


def test_the_parts_of_a_pipelines_step_add_up_to_its_prediction() -> None:
    page = Page("made")
    checked = made_validation()
    model_records.record_validation(page, checked, near())
    made = bodies(page)
    *parts, together = [row["seconds"] for row in made["pipeline-parts"]["rows"]]
    staged = checked.rows[-1].predicted
    assert {part["kind"] for part in (*parts, together)} == {"modelled"}
    assert sum(part["value"] for part in parts) == pytest.approx(together["value"]) == staged.seconds
    assert made["pipeline-parts"]["rows"][0]["part"] == "work of the last stage, 4 turns"
    # Two equal stages and four micro-batches would wait a fifth of the turns; here the last one also makes the logits.
    share = made["pipeline-bubble"]["value"]
    assert share == pytest.approx(staged.bubble / (staged.bubble + staged.computing))
    assert 0.17 < share < 0.2
    assert made["pipeline-handing"]["value"] == pytest.approx(staged.handing / staged.seconds)
    assert made["pipeline-measured"]["value"] == checked.rows[-1].measured.median


def test_on_one_core_nothing_is_said_of_predictions() -> None:
    page, alone = Page("made"), Page("made")
    model_records.record_validation(page, made_validation(), near())
    model_records.record_validation(alone, None, None)
    assert bodies(alone).keys() == bodies(page).keys()
    told = {key: record["kind"] for key, record in bodies(alone).items()}
    assert set(told) - {key for key, kind in told.items() if kind == "absent"} == {"provenance", "noise-floor"}


def test_published_numbers_are_quoted_as_they_were_printed() -> None:
    page = Page("made")
    model_records.record_published(page)
    model_records.record_published_runs(page)
    made = bodies(page)
    rows = made["published"]["rows"]
    assert rows[0]["published"] == "90 %"
    assert [row["error"] for row in rows].count(None) == 2, "what was given has no error"
    quoted = {column["key"]: column for column in made["published"]["columns"]}
    assert quoted["published"] != quoted["predicted"]
    errors = [abs(row["error"]["value"]) for row in rows if row["error"]]
    assert made["published-worst"]["value"] == max(errors)
    assert sum(row["runs"]["value"] for row in made["studies"]["rows"]) == len(rows) - 2
    assert [row["study"] for row in made["studies"]["rows"]] == list(dict.fromkeys(row["study"] for row in rows))
    assert all(row["assumed"] for row in made["studies"]["rows"])


def test_splits_are_modelled_numbers_and_their_parts_are_shares_of_the_step() -> None:
    page = Page("made")
    best = best_splits(WORK, CLUSTER.links, RANKS, memory_bytes=CLUSTER.memory_bytes, sharding=SHARDING)
    model_records.record_splits(page, CLUSTER, MODEL, best, ONE)
    made = bodies(page)
    assert len(made["splits"]["rows"]) == 6
    row = made["splits"]["rows"][0]
    assert (row["seconds"]["kind"], row["seconds"]["value"]) == ("modelled", best[0].seconds)
    assert row["bubble"]["value"] + row["messages"]["value"] == pytest.approx(1 - best[0].computing / best[0].seconds)
    assert row["efficiency"]["value"] == best[0].efficiency(ONE)
    assert made["second-over-best"]["value"] >= 1
    series = made["cluster-scaling"]["series"]
    assert [one["label"] for one in series] == ["the same batch", "four sequences a rank"]
    assert {number["kind"] for one in series for number in one["numbers"]} == {"modelled"}


def test_curves_have_a_point_for_each_number_of_ranks_that_fits() -> None:
    curve = scaling_curve(WORK, CLUSTER, [1, 8, 16, 4099])
    assert [point is None for point in curve] == [True, False, False, True]
    with pytest.raises(ValueError, match="curve 'none' must have a point, but nothing fits"):
        efficiency_figure({"none": [None]}, ONE)
    with pytest.raises(ValueError, match="curves must be at most 2, not 3"):
        efficiency_figure(dict.fromkeys("abc", curve), ONE)


def test_modelled_and_quoted_cells_look_as_what_they_are() -> None:
    page = Page("made")
    shown = page.table("published", [model_records._published_row(published_results()[0])],
        model_records._PUBLISHED_COLUMNS, caption="Published and modelled.")  # fmt: skip
    assert shown.on_page is not None
    row = BeautifulSoup(shown.on_page, "html.parser").select("tbody tr")[0]
    assert [span.get_text() for span in row.select(".quoted-value")] == ["90 %"]
    assert row.select(".modelled")
