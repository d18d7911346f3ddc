"""What the page says of the accuracy of compressed models, told made results: every word that it can choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from tests.chapters.made_turns import made, records, said_in
from tests.perf.quantization.small_zoo import make
from tinytorch import models
from tinytorch.chapters.compression import accuracy as chapter
from tinytorch.chapters.compression.accuracy import differences, over_seeds
from tinytorch.perf.compression import Compression, StepReport, magnitude_prune, structured_prune
from tinytorch.perf.measuring import Counted, current_blas_threads
from tinytorch.perf.quantization import paired_accuracy, stored_bytes
from tinytorch.report import Page
from tinytorch.report.records import Json


def test_numbers_over_seeds() -> None:
    change = differences("change", [0.5, 0.75, 1.0], [0.25, 0.75, 0.5])
    assert change.samples == (0.25, 0, 0.5)
    assert (change.median, change.unit) == (0.25, "points")
    assert over_seeds("score", np.array([0.5, 0.7]).tolist()).n == 2


def test_it_begins_with_one_thread_and_the_trained_zoo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "trained", make)
    page, trained = chapter.begin()
    assert (page.name, [*trained]) == ("compression", [*models.ZOO])
    assert current_blas_threads() == 1


def test_scores_and_changes_are_of_the_digits() -> None:
    one, other = make("mlp"), make("mlp", seed=1)
    first, second = chapter.scores([one, other])
    assert (first, second) == (models.accuracy(one, "mlp"), models.accuracy(other, "mlp"))
    change = chapter.mlp_change(models.correct(one, "mlp"), other, "other")
    assert change.median == pytest.approx(second - first)
    assert change.name == "change of test accuracy, other"


#: Places of nine trainings around their middle, in an order in which neighbours know nothing of one another.
PLACES = (0, 3, -2, 4, -4, 1, -1, 2, -3)


def around(score: float, apart: float = 0.001) -> list[float]:
    """Return the scores of nine trainings."""
    return [score + apart * place for place in PLACES]


def pruned_records(eighty: Sequence[float]) -> dict[str, Json]:
    cut = {0: around(0.95), 0.5: around(0.94), 0.8: around(0.6), 0.9: around(0.4)}
    tuned = {0: around(0.95), 0.5: around(0.952), 0.8: eighty, 0.9: around(0.7)}
    page = Page("compression")
    chapter.record_pruned(page, cut, tuned)
    return records(page)


@pytest.mark.parametrize(
    ("eighty", "verdict", "free"),
    [
        (around(0.951), "supported", 0.8),
        (around(0.85), "refuted", 0.5),
        ([0.9, 0.99, 0.99, 0.9, 0.9, 0.99, 0.95, 0.99, 0.9], "open", 0.5),
    ],
)
def test_four_fifths_can_go_only_if_a_loss_is_excluded(eighty: Sequence[float], verdict: str, free: float) -> None:
    said = pruned_records(eighty)
    assert said["eighty-per-cent"]["verdict"] == verdict
    assert said["free"]["value"] == free
    assert said["seeds"]["value"] == 9
    assert said["change-80"]["value"] == pytest.approx(np.median(np.subtract(eighty, around(0.95))))
    assert said["raw-90"]["value"] == pytest.approx(-0.55)
    assert "change-0" not in said
    assert [series["x"] for series in said["accuracy"]["series"]] == [[0, 50, 80, 90]] * 2


def test_nothing_is_free_where_everything_costs() -> None:
    page = Page("compression")
    tuned = {0: around(0.95), 0.8: around(0.6), 0.9: around(0.5)}
    chapter.record_pruned(page, {0: around(0.95), 0.8: around(0.5), 0.9: around(0.4)}, tuned)
    assert records(page)["free"]["kind"] == "absent"


def test_a_pattern_is_told_with_its_bytes_and_its_change() -> None:
    mlp = make("mlp")
    change = chapter.mlp_change(models.correct(mlp, "mlp"), magnitude_prune(mlp, 0.9), "2:4")
    page = Page("compression")
    chapter.record_n_m(page, 0.5625, change)
    said = records(page)
    assert (said["nm-bytes"]["value"], said["nm-change"]["value"]) == (0.5625, change.median)


@pytest.mark.parametrize(
    ("pruned", "word"),
    [
        (around(0.95), "the pruned one"),
        (around(0.85), "the one that was always small"),
        (around(0.93, apart=-0.02), "open"),
        (around(0.9), "neither, to within 3 points"),
    ],
)
def test_the_pruned_model_meets_the_one_that_was_always_small(pruned: Sequence[float], word: str) -> None:
    mlp, slim = make("mlp"), make("cnn")
    page = Page("compression")
    chapter.record_small(page, pruned, around(0.9), mlp, slim)
    said = records(page)
    assert said_in(said["train-small"]) == word
    assert said["slim-bytes"]["value"] == stored_bytes(mlp) / stored_bytes(slim)
    assert said["pruned-less-small"]["value"] == pytest.approx(np.median(np.subtract(pruned, around(0.9))))
    assert said["trained-small"]["value"] == pytest.approx(0.9)


def distilled_records(
    taught: Sequence[float], speed: float = 12.0, smaller: float = 20.0, noise: float = 0.0
) -> dict[str, Json]:
    """Return what the page says of students, whose teachers reach 0.97, and which reach 0.9 alone."""
    page = Page("compression")
    page.number("trained-small", Counted(0.9, "%", "alone"))
    page.number("slim-bytes", Counted(smaller, "", "bytes over bytes"))
    chapter.record_distilled(page, around(0.97), taught, around(0.9), made(speed, noise=noise))
    return records(page)


@pytest.mark.parametrize(
    ("taught", "word"),
    [
        (around(0.95), "the one with a teacher"),
        (around(0.85), "the one without"),
        (around(0.93, apart=-0.02), "open"),
        (around(0.9), "neither, to within 3 points"),
    ],
)
def test_a_teacher_helps_only_beyond_the_seeds(taught: Sequence[float], word: str) -> None:
    said = distilled_records(taught)
    assert said_in(said["teacher-helps"]) == word
    assert (said["teacher"]["value"], said["taught"]["value"]) == (
        pytest.approx(0.97),
        pytest.approx(np.median(taught)),
    )
    assert said["taught-less-teacher"]["value"] == pytest.approx(np.median(np.subtract(taught, around(0.97))))


@pytest.mark.parametrize(
    ("after", "speed", "smaller", "noise", "verdict"),
    [
        (0.94, 12.0, 20.0, 0.0, "supported"),
        (0.94, 3.0, 20.0, 0.0, "refuted"),
        (0.94, 12.0, 8.0, 0.0, "refuted"),
        (0.85, 12.0, 20.0, 0.0, "refuted"),
        (0.94, 10.0, 20.0, 0.2, "open"),
    ],
)
def test_ten_times_is_of_bytes_and_of_speed(
    after: float, speed: float, smaller: float, noise: float, verdict: str
) -> None:
    said = distilled_records(around(after), speed, smaller, noise)
    assert said["distillation-ten-times"]["verdict"] == verdict
    assert said["student-speed"]["value"] == speed


@pytest.mark.parametrize(
    ("fewer", "speed", "noise", "verdict"),
    [
        (11.0, 4.0, 0.0, "supported"),
        (11.0, 2.0, 0.0, "refuted"),
        (9.0, 4.0, 0.0, "refuted"),
        (11.0, 2.5, 0.2, "open"),
    ],
)
def test_a_tenth_of_the_memory_is_three_times_as_fast(fewer: float, speed: float, noise: float, verdict: str) -> None:
    page = Page("compression")
    chapter.record_small_gpt(page, fewer, made(speed, noise=noise))
    said = records(page)
    assert said["distilled-attention"]["verdict"] == verdict
    assert (said["small-gpt-bytes"]["value"], said["small-gpt-speed"]["value"]) == (fewer, speed)


def test_methods_are_compared_with_the_whole_model_in_bytes_time_and_accuracy() -> None:
    whole = make("mlp")
    half = structured_prune(whole, 0.5)
    page = Page("compression")
    chapter.record_methods(page, whole, {"half": half}, {"half": made(1.5)})
    (row,) = records(page)["methods"]["rows"]
    assert (row["method"], row["speedup"]["value"]) == ("half", 1.5)
    assert row["stored"]["value"] == stored_bytes(half) / stored_bytes(whole)
    assert row["score"]["value"] == models.accuracy(half, "mlp")
    assert row["change"]["value"] == pytest.approx(models.accuracy(half, "mlp") - models.accuracy(whole, "mlp"))


@pytest.mark.parametrize(
    ("stored", "speed", "correct", "word"),
    [
        (50, 1.5, 89, "half"),  # one answer of a hundred is no proven loss
        (100, 1.5, 89, "none"),
        (50, 1.0, 89, "none"),
        (50, 1.0005, 89, "none"),  # proven, but the page's noise would hide it
        (50, 1.5, 70, "none"),
    ],
)
def test_the_best_methods_store_less_run_faster_and_have_no_proven_loss(
    monkeypatch: pytest.MonkeyPatch, stored: int, speed: float, correct: int, word: str
) -> None:
    whole, half = make("mlp"), make("mlp", seed=1)
    monkeypatch.setattr(chapter, "stored_bytes", lambda model: 100 if model is whole else stored)
    monkeypatch.setattr(models, "correct", lambda model, _name: right(90 if model is whole else correct))
    page = Page("compression")
    chapter.record_methods(page, whole, {"half": half, "slow": half}, {"half": made(speed), "slow": made(0.5)})
    said = records(page)["all-three"]
    assert (said["word"], said["numbers"]) == (word, ["method-0-speed", "method-1-speed"])


def right(correct: int) -> npt.NDArray[np.bool_]:
    """Return a hundred examples of which so many are right."""
    return np.arange(100) < correct


def steps() -> list[StepReport]:
    """Return the four steps of a CNN: 1,000 bytes, 400, 400 and 100, with nine, six, eight and eight tenths right."""
    rows = (
        ("original", 1000, 1.0, 90),
        ("structured_prune", 400, 2.0, 60),
        ("fine_tune", 400, 2.0, 80),
        ("quantize", 100, 3.0, 80),
    )
    return [
        StepReport(
            name, "", 1, 0.0, stored, made(1e-3, "s"), made(gain), paired_accuracy(right(90), right(some)), right(some)
        )
        for name, stored, gain, some in rows
    ]


def test_all_steps_multiply_to_the_whole() -> None:
    page = Page("compression")
    chapter.record_combined(page, Compression(make("cnn"), steps()), right(95))
    said = records(page)
    assert (said["channels-bytes"]["value"], said["bits-bytes"]["value"]) == (2.5, 4)
    assert said["combined-bytes"]["value"] == 10
    assert said["combined-speed"]["value"] == 3
    assert (said["q-phone"]["value"], said["q-phone"]["kind"]) == (pytest.approx(0.2 / 3), "modelled")


def test_what_was_fine_tuned_is_compared_with_what_was_trained_as_long() -> None:
    page = Page("compression")
    chapter.record_combined(page, Compression(make("cnn"), steps()), right(95))
    said = records(page)
    rows = said["combined"]["rows"]
    assert [row["step"] for row in rows][:3] == ["as trained", "trained as long", "half of the channels removed"]
    assert [row["score"]["value"] for row in rows] == [0.9, 0.95, 0.6, 0.8, 0.8]
    assert [row["change"] and row["change"]["value"] for row in rows] == [None, None, -0.3, -0.15, -0.15]
    assert (said["channels-change"]["value"], said["combined-change"]["value"]) == (-0.3, -0.15)


def test_steps_that_were_not_measured_are_refused() -> None:
    first, *others = steps()
    for lacking in (replace(first, speedup=None), replace(first, right=None)):
        with pytest.raises(ValueError, match="timed and scored"):
            chapter.record_combined(Page("compression"), Compression(make("cnn"), [lacking, *others]), right(95))
