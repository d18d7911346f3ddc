"""What the page says of whole models in fewer bits, told made results: every word and verdict that it can choose."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pytest

from tests.chapters.made_turns import made, records
from tests.perf.made_ceilings import made_ceilings
from tests.perf.quantization.small_zoo import make
from tinytorch import models
from tinytorch.chapters.quantization import versions as chapter
from tinytorch.chapters.quantization.versions import DARK, DYNAMIC, FOUR_BITS, RETRAINED, TWO_BITS, UNCALIBRATED
from tinytorch.core.module import Module
from tinytorch.perf.measuring import Statistic, current_blas_threads
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


def test_rows_of_granularity_are_errors_and_bytes_of_four_bits() -> None:
    seen: list[int] = []

    def version(name: str, bits: int, per: str) -> Module:
        seen.append(bits)
        return quantized(bits, per)

    (row,) = chapter.granularity_rows({"mlp": make("mlp")}, version)
    assert row["model"] == "MLP"
    expected = models.held_out_logits(make("mlp"), "mlp").astype(np.float64)
    for per in ("tensor", "channel", "group"):
        off = np.linalg.norm(models.held_out_logits(quantized(4, per), "mlp") - expected)
        assert row[per] == pytest.approx(off / np.linalg.norm(expected), rel=1e-5)
    assert row["tensor-bytes"] < row["channel-bytes"] < row["group-bytes"] == stored_bytes(quantized(4, "group"))
    assert set(seen) == {4}


@pytest.mark.parametrize(
    ("least", "noise", "verdict"),
    [(1.5, 0.0, "supported"), (0.8, 0.0, "refuted"), (1.0, 0.1, "cannot tell here")],
)
def test_channels_are_better_only_where_they_are_for_every_model(least: float, noise: float, verdict: str) -> None:
    against = {(name, bits): made(3.0) for name in NAMES for bits in (8, 4)} | {("gpt", 4): made(least, noise=noise)}
    row = {"model": "MLP", **dict.fromkeys(("tensor", "channel", "group"), 0.1)}
    row |= dict.fromkeys(("tensor-bytes", "channel-bytes", "group-bytes"), 1000)
    page = Page("quantization")
    chapter.record_granularity(page, [row], against)
    said = records(page)
    assert said["per-channel"]["verdict"] == verdict
    assert said["gpt-tensor-over-channel-4"]["value"] == least


def test_a_version_is_scored_on_the_test_set() -> None:
    model, two = make("mlp"), quantized(2)
    found = chapter.scored("mlp", model, {"two": two})["two"]
    expected, got = (models.held_out_logits(each, "mlp").astype(np.float64) for each in (model, two))
    assert found.error == pytest.approx(np.linalg.norm(got - expected) / np.linalg.norm(expected), rel=1e-5)
    assert found.change.median == pytest.approx(models.accuracy(two, "mlp") - models.accuracy(model, "mlp"))


@pytest.mark.parametrize(
    ("dynamic", "dark", "verdict"),
    [(0.9, 0.9, "supported"), (0.9, 0.6, "refuted"), (0.6, 0.9, "refuted"), (0.9, 0.88, "cannot tell here")],
)
def test_no_calibration_is_needed_only_if_neither_loses_two_points(dynamic: float, dark: float, verdict: str) -> None:
    found = {label: chapter.Scored(0.01, change(after)) for label, after in ((UNCALIBRATED, dynamic), (DARK, dark))}
    page = Page("quantization")
    chapter.record_calibration(page, found)
    said = records(page)
    assert said["no-calibration"]["verdict"] == verdict
    assert said["dark-change"]["value"] == pytest.approx(dark - 0.9)
    assert said["dynamic-change"]["value"] == pytest.approx(dynamic - 0.9)


def sides(
    scores: Mapping[str, float], eighth: int = 250, examples: int = 1000, gpt: Mapping[str, float] | None = None
) -> dict[str, dict[str, Tradeoff]]:
    """Return tradeoffs of the three models, which get nine tenths right in float, with scores by version."""
    stored = {FLOAT: 1000, DYNAMIC: eighth, FOUR_BITS: 150, TWO_BITS: 80, RETRAINED: 80}
    whole = right(0.9, examples)

    def side(label: str, name: str) -> Tradeoff:
        after = {**scores, **(gpt or {} if name == "gpt" else {})}.get(label, 0.9)
        accuracy = paired_accuracy(whole, right(after, examples))
        divergence = change(0.5) if name == "gpt" and label != FLOAT else None
        return Tradeoff(stored[label], made(1e-3, "s"), made(1.5), accuracy, 0.1, divergence)

    return {name: {label: side(label, name) for label in stored} for name in NAMES}


def tradeoff_records(made_sides: dict[str, dict[str, Tradeoff]]) -> dict[str, Json]:
    page = Page("quantization")
    chapter.record_tradeoffs(page, made_sides)
    return records(page)


def test_the_table_compares_every_version_with_float() -> None:
    said = tradeoff_records(sides({DYNAMIC: 0.85}))
    rows = said["three-sides"]["rows"]
    assert len(rows) == 15
    assert [row["change"] for row in rows if row["version"] == FLOAT] == [None] * 3
    assert [row["version"] for row in said["divergence"]["rows"]] == [DYNAMIC, FOUR_BITS, TWO_BITS, RETRAINED]
    assert said["cnn-change"]["value"] == pytest.approx(-0.05)
    assert said["gpt-speedup"]["value"] == 1.5


@pytest.mark.parametrize(("stored", "verdict"), [(260, "supported"), (300, "refuted"), (200, "refuted")])
def test_four_times_smaller_is_within_a_tenth(stored: int, verdict: str) -> None:
    said = tradeoff_records(sides({}, eighth=stored))
    assert said["four-times-smaller"]["verdict"] == verdict
    assert said["mlp-smaller"]["value"] == pytest.approx(1000 / stored)


@pytest.mark.parametrize(
    ("after", "examples", "verdict"),
    [
        (0.9, 1000, "supported"),
        (0.9, 100, "cannot tell here"),
        (0.8, 1000, "refuted"),
        (0.89, 1000, "cannot tell here"),
    ],
)
def test_a_loss_below_one_point_needs_examples_enough(after: float, examples: int, verdict: str) -> None:
    said = tradeoff_records(sides({DYNAMIC: after}, examples=examples))
    assert said["loss-below-one"]["verdict"] == verdict
    assert said["mlp-change"]["value"] == pytest.approx(after - 0.9)


def test_one_model_that_loses_refutes_it_for_all() -> None:
    assert tradeoff_records(sides({}, gpt={DYNAMIC: 0.7}))["loss-below-one"]["verdict"] == "refuted"


@pytest.mark.parametrize(
    ("learned", "word"),
    [
        (0.85, "most of it"),
        (0.65, "some of it"),
        (0.5, "cannot tell here"),
        (0.4, "hardly any of it"),
        (0.7, "cannot tell here"),
    ],
)
def test_what_training_recovers_is_a_share_of_what_the_gpt_lost(learned: float, word: str) -> None:
    page = Page("quantization")
    chapter.record_pareto(page, sides({FOUR_BITS: 0.88}, gpt={TWO_BITS: 0.5, RETRAINED: learned}))
    said = records(page)
    assert said["recovers"]["word"] == word
    assert said["gpt-recovered"]["value"] == pytest.approx((learned - 0.5) / 0.4)
    assert said["gpt-two-bytes"]["value"] == 0.08
    assert (said["gpt-four"]["value"], said["gpt-two"]["value"]) == (pytest.approx(-0.02), pytest.approx(-0.4))
    assert "pareto" in said


@pytest.mark.parametrize("rounded", [0.9, 0.899, 0.95])
def test_nothing_is_recovered_where_nothing_is_proven_lost(rounded: float) -> None:
    page = Page("quantization")
    chapter.record_pareto(page, sides({}, gpt={TWO_BITS: rounded, RETRAINED: 0.9}))
    said = records(page)
    assert said["recovers"]["word"] == "cannot tell here"
    assert "gpt-recovered" not in said


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


@pytest.mark.parametrize(
    ("none", "fifth", "verdict"), [(0.5, 0.8, "refuted"), (0.8, 0.5, "supported"), (0.8, 0.801, "cannot tell here")]
)
def test_to_quantize_everything_is_best_where_float_layers_bring_nothing(
    none: float, fifth: float, verdict: str
) -> None:
    said = mixed_records(none, fifth)
    assert said["quantize-everything"]["verdict"] == verdict
    assert said["mixed-gain"]["value"] == pytest.approx(fifth - none)


def test_layers_are_named_and_counted() -> None:
    said = mixed_records(0.5, 0.8)
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
