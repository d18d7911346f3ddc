"""What the page says of whole models in fewer bits, told made results: every word and verdict that it can choose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.axes import Axes

from tests.chapters.made_turns import made, records, said_in
from tests.perf.made_ceilings import made_ceilings
from tests.perf.quantization.small_zoo import make
from tinytorch import models
from tinytorch.chapters.quantization import versions as chapter
from tinytorch.chapters.quantization.versions import (
    BASELINES,
    DARK,
    DYNAMIC,
    FEWEST,
    FOUR_BITS,
    LONGER,
    RETRAINED,
    STATIC,
    TWO_BITS,
    UNCALIBRATED,
    WEIGHTS,
)
from tinytorch.core.module import Module
from tinytorch.perf.measuring import Statistic, current_blas_threads
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.perf.quantization import (
    Plan,
    Scheme,
    Sensitivity,
    accuracy_change,
    paired_accuracy,
    quantize_model,
    stored_bytes,
)
from tinytorch.perf.quantization.tradeoff import FLOAT, Tradeoff
from tinytorch.report import Page
from tinytorch.report.records import Json

NAMES = ("mlp", "cnn", "gpt")


def quantized(bits: int, per: str = "channel") -> Module:
    return quantize_model(make("mlp"), plan=Plan("weight-only", Scheme(bits, per=per)))  # type: ignore[arg-type]


def right(share: float, examples: int = 1000) -> npt.NDArray[np.bool_]:
    """Return examples of which the first are right."""
    return np.arange(examples) < round(share * examples)


def change(after: float, examples: int = 1000) -> Statistic:
    """Return a change from nine tenths of the examples."""
    return accuracy_change(paired_accuracy(right(0.9, examples), right(after, examples)), "change")


def test_it_begins_with_one_thread_and_the_trained_zoo(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = made_ceilings()
    monkeypatch.setattr(chapter, "ceilings", lambda threads: machine if threads == 1 else None)
    monkeypatch.setattr(models, "trained", make)
    page, found, trained = chapter.begin()
    assert (page.name, found, [*trained]) == ("quantization", machine, [*models.ZOO])
    assert current_blas_threads() == 1


def test_every_model_has_a_row_for_each_scale() -> None:
    one = chapter.Scored(1000, 0.1, change(0.85))
    found = {name: dict.fromkeys(("tensor", "channel", "group"), one) for name in ("mlp", "gpt")}
    page = Page("quantization")
    chapter.record_granularity(page, found)
    rows = records(page)["granularity"]["rows"]
    assert [(row["model"], row["per"]) for row in rows[2:4]] == [("MLP", "each group"), ("GPT", "the whole tensor")]
    assert (rows[0]["stored"]["value"], rows[0]["change"]["value"]) == (1000, pytest.approx(-0.05))


def test_a_version_is_scored_on_the_test_set() -> None:
    model, two = make("mlp"), quantized(2)
    found = chapter.scored("mlp", model, {"two": two})["two"]
    expected, got = (models.held_out_logits(each, "mlp").astype(np.float64) for each in (model, two))
    assert found.error == pytest.approx(np.linalg.norm(got - expected) / np.linalg.norm(expected), rel=1e-5)
    assert found.change.median == pytest.approx(models.accuracy(two, "mlp") - models.accuracy(model, "mlp"))
    assert found.stored == stored_bytes(two)


@pytest.mark.parametrize(("few", "dark", "word"), [(0.06, 0.4, DARK), (0.5, 0.4, FEWEST)])
def test_the_worse_calibration_is_the_one_with_the_larger_error(few: float, dark: float, word: str) -> None:
    found = {
        label: chapter.Scored(1000, error, change(after))
        for label, error, after in ((FEWEST, few, 0.9), (UNCALIBRATED, 0.01, 0.9), (DARK, dark, 0.8))
    }
    page = Page("quantization")
    chapter.record_calibration(page, found)
    said = records(page)
    assert said_in(said["worse-calibration"]) == word
    assert (said["dark-change"]["value"], said["dynamic-change"]["value"]) == (pytest.approx(-0.1), 0)
    assert (said["few-error"]["value"], said["dark-error"]["value"]) == (few, dark)


def sides(
    scores: Mapping[str, float],
    eighth: int = 250,
    examples: int = 1000,
    gpt: Mapping[str, float] | None = None,
    speedup: float = 1.5,
    noise: float = 0.0,
) -> dict[str, dict[str, Tradeoff]]:
    """Return tradeoffs of the three models, which get nine tenths right in float, with scores by version."""
    stored = {FLOAT: 1000, DYNAMIC: eighth, STATIC: eighth, WEIGHTS: eighth, FOUR_BITS: 150, TWO_BITS: 80}
    stored |= {RETRAINED: 80, LONGER: 1000}

    def score(label: str, name: str) -> float:
        return {**scores, **(gpt or {} if name == "gpt" else {})}.get(label, 0.9)

    def side(label: str, name: str) -> Tradeoff:
        baseline = score(BASELINES.get(label, FLOAT), name)
        accuracy = paired_accuracy(right(baseline, examples), right(score(label, name), examples))
        divergence = change(0.5) if name == "gpt" and label != FLOAT else None
        return Tradeoff(stored[label], made(1e-3, "s"), made(speedup, noise=noise), accuracy, 0.1, divergence)

    return {name: {label: side(label, name) for label in stored} for name in NAMES}


def eight_bit_records(made_sides: dict[str, dict[str, Tradeoff]]) -> dict[str, Json]:
    page = Page("quantization")
    chapter.record_eight_bits(page, made_sides)
    return records(page)


def test_eight_bits_of_all_models_stand_in_one_table() -> None:
    said = eight_bit_records(sides({DYNAMIC: 0.85}))
    rows = said["eight-bits"]["rows"]
    assert [row["model"] for row in rows] == ["MLP", "CNN", "GPT"]
    assert (rows[1]["stored"]["value"], rows[1]["change"]["value"]) == (0.25, pytest.approx(-0.05))
    assert said["cnn-change"]["value"] == pytest.approx(-0.05)
    assert (said["gpt-speedup"]["value"], said["gpt-static-change"]["value"]) == (1.5, 0)


def test_every_version_of_the_gpt_has_a_row() -> None:
    page = Page("quantization")
    chapter.record_gpt(page, sides({FOUR_BITS: 0.88})["gpt"])
    said = records(page)
    rows = said["gpt-sides"]["rows"]
    assert [row["version"] for row in rows][:2] == [FLOAT, DYNAMIC]
    assert (rows[0]["change"], rows[0]["divergence"]) == (None, None)
    assert rows[1]["divergence"]["value"] == pytest.approx(-0.4)
    assert (said["gpt-four"]["value"], said["gpt-two-bytes"]["value"]) == (pytest.approx(-0.02), 0.08)
    assert (said["gpt-weights-speedup"]["value"], said["gpt-four-speedup"]["value"]) == (1.5, 1.5)


@pytest.mark.parametrize(("stored", "verdict"), [(260, "supported"), (300, "refuted"), (200, "refuted")])
def test_four_times_smaller_is_within_a_tenth(stored: int, verdict: str) -> None:
    said = eight_bit_records(sides({}, eighth=stored))
    assert (said["four-times-smaller"]["verdict"], said["four-times-smaller"]["counted"]) == (verdict, True)
    assert said["mlp-smaller"]["value"] == pytest.approx(1000 / stored)


@pytest.mark.parametrize(
    ("speedup", "noise", "verdict"),
    [(2.5, 0.0, "supported"), (1.5, 0.0, "refuted"), (2.0, 0.1, "open"), (5.0, 0.0, "supported")],
)
def test_inference_must_be_twice_as_fast_in_all_models(speedup: float, noise: float, verdict: str) -> None:
    said = eight_bit_records(sides({}, speedup=speedup, noise=noise))
    assert said["inference-two-to-four"]["verdict"] == verdict


@pytest.mark.parametrize(
    ("after", "examples", "verdict"),
    [
        (0.9, 1000, "supported"),
        (0.9, 100, "open"),
        (0.8, 1000, "refuted"),
        (0.89, 1000, "open"),
    ],
)
def test_a_loss_below_one_point_needs_examples_enough(after: float, examples: int, verdict: str) -> None:
    said = eight_bit_records(sides({STATIC: after}, examples=examples))
    assert said["loss-below-one"]["verdict"] == verdict
    assert said["mlp-static-change"]["value"] == pytest.approx(after - 0.9)


def test_one_model_that_loses_refutes_it_for_all() -> None:
    assert eight_bit_records(sides({}, gpt={STATIC: 0.7}))["loss-below-one"]["verdict"] == "refuted"
    assert eight_bit_records(sides({}, gpt={DYNAMIC: 0.7}))["loss-below-one"]["verdict"] == "supported"


@pytest.mark.parametrize(
    ("scores", "gpt", "examples", "verdict"),
    [
        ({}, {STATIC: 0.9}, 1000, "supported"),
        ({}, {STATIC: 0.7}, 1000, "supported"),
        ({STATIC: 0.7}, {STATIC: 0.9}, 1000, "refuted"),
        ({}, {}, 60, "open"),
    ],
)
def test_most_cases_are_two_of_three(
    scores: Mapping[str, float], gpt: Mapping[str, float], examples: int, verdict: str
) -> None:
    assert eight_bit_records(sides(scores, gpt=gpt, examples=examples))["push-button"]["verdict"] == verdict


@pytest.mark.parametrize(
    ("after", "examples", "verdict"),
    [(0.9, 1000, "supported"), (0.8, 1000, "refuted"), (0.9, 60, "open"), (0.96, 1000, "refuted")],
)
def test_the_cnn_stays_within_two_points(after: float, examples: int, verdict: str) -> None:
    said = eight_bit_records(sides({STATIC: after}, gpt={STATIC: 0.5}, examples=examples))
    assert said["within-two"]["verdict"] == verdict


@pytest.mark.parametrize(
    ("verdicts", "most"),
    [
        (["supported", "supported", "refuted"], "supported"),
        (["refuted", "supported", "refuted"], "refuted"),
        (["supported", "open", "refuted"], "open"),
        (["supported", "refuted"], "refuted"),
    ],
)
def test_most_is_more_than_half(verdicts: list[str], most: str) -> None:
    assert chapter.verdict_of_most([Judgement(Verdict(one)) for one in verdicts]).verdict == most


@pytest.mark.parametrize(
    ("learned", "word"),
    [
        (0.85, "most of it"),
        (0.65, "some of it"),
        (0.5, "open"),
        (0.4, "hardly any of it"),
        (0.7, "open"),
    ],
)
def test_what_training_recovers_is_a_share_of_what_the_gpt_lost(learned: float, word: str) -> None:
    page = Page("quantization")
    chapter.record_trained_on(page, sides({}, gpt={TWO_BITS: 0.5, RETRAINED: learned}))
    said = records(page)
    assert said_in(said["recovers"]) == word
    assert said["gpt-recovered"]["value"] == pytest.approx((learned - 0.5) / 0.4)
    assert (said["gpt-two"]["value"], said["gpt-longer"]["value"]) == (pytest.approx(-0.4), 0)


def test_what_is_trained_is_compared_with_what_was_trained_as_long() -> None:
    """Both gain three points by more training: two bits cost nothing then, and gain nothing either."""
    page = Page("quantization")
    chapter.record_trained_on(page, sides({TWO_BITS: 0.5, RETRAINED: 0.93, LONGER: 0.93}))
    row = records(page)["trained-on"]["rows"][0]
    found = [row[key]["value"] for key in ("two", "learned", "longer")]
    assert found == [pytest.approx(-0.4), 0, pytest.approx(0.03)]


@pytest.mark.parametrize("rounded", [0.9, 0.899, 0.95])
def test_nothing_is_recovered_where_nothing_is_proven_lost(rounded: float) -> None:
    page = Page("quantization")
    chapter.record_trained_on(page, sides({}, gpt={TWO_BITS: rounded, RETRAINED: 0.9}))
    said = records(page)
    assert said_in(said["recovers"]) == "open"
    assert "gpt-recovered" not in said


def test_bits_against_accuracy_are_drawn_for_each_model() -> None:
    page = Page("quantization")
    chapter.record_pareto(page, sides({}))
    assert records(page)["pareto"]["kind"] == "figure"


def test_no_score_is_drawn_beyond_what_scores_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = []
    drawn = Axes.errorbar

    def noted(axes: Axes, x: Any, y: float, *, yerr: Any, **shown: Any) -> Any:
        ends.extend([y - yerr[0][0], y + yerr[1][0]])
        return drawn(axes, x, y, yerr=yerr, **shown)

    monkeypatch.setattr(Axes, "errorbar", noted)
    chapter.record_pareto(Page("quantization"), sides({RETRAINED: 1.0, LONGER: 0.99, TWO_BITS: 0.0}, examples=100))
    assert ends
    assert min(ends) >= 0
    assert max(ends) <= 100 + 1e-9


def test_what_is_recovered_is_as_uncertain_as_both_changes() -> None:
    found = chapter.recovered_share(change(0.5), change(0.7))
    assert found.median == pytest.approx(0.5)
    alone = [1 - end / -0.4 for end in (change(0.7).interval.low, change(0.7).interval.high)]
    assert found.interval.low < min(alone)
    assert found.interval.high > max(alone)


def mixed_records(none: float, fifth: float) -> dict[str, Json]:
    scan = [Sensitivity("blocks.0", "Linear", 0.5, 900), Sensitivity("head", "Linear", 0.1, 100)]
    found = {
        0.0: chapter.MixedVersion([], 0.1, right(none)),
        0.2: chapter.MixedVersion(["blocks.0"], 0.3, right(fifth)),
    }
    page = Page("quantization")
    chapter.record_mixed(page, scan, right(0.9), found)
    return records(page)


def test_layers_are_named_and_counted() -> None:
    said = mixed_records(0.5, 0.8)
    assert said["mixed-gain"]["value"] == pytest.approx(0.3)
    assert [row["kept"] for row in said["mixed"]["rows"]] == ["none", "blocks.0"]
    assert said["mixed"]["rows"][0]["change"]["value"] == pytest.approx(-0.4)
    assert (said["mixed-kept"]["value"], said["all-layers"]["value"]) == (1, 2)
    assert [each["label"] for each in said["sensitivity"]["series"]] == ["blocks.0", "head"]


def test_mixed_versions_are_scored_as_gpts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "correct", lambda model, name: right(0.5) if name == "gpt" else None)
    model, two = make("mlp"), quantized(2)
    found = chapter.mixed_versions(model, {0: [], 0.2: ["1"]}, {0: two, 0.2: model})
    assert [found[share].kept for share in (0, 0.2)] == [[], ["1"]]
    assert found[0].stored == stored_bytes(two) / stored_bytes(model)
    assert found[0.2].stored == 1
    assert found[0].right.mean() == 0.5
