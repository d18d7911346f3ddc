"""What the page says of the accuracy of compressed models, told made results: every word that it can choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import made, records
from tests.perf.quantization.small_zoo import make
from tinytorch import models
from tinytorch.chapters.compression import accuracy as chapter
from tinytorch.chapters.compression.accuracy import differences, over_seeds
from tinytorch.perf.compression import Compression, StepReport, magnitude_prune
from tinytorch.perf.measuring import current_blas_threads
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


def pruned_records(ninety: Sequence[float]) -> dict[str, Json]:
    cut = {0: around(0.95), 0.5: around(0.94), 0.9: around(0.4), 0.95: around(0.2)}
    tuned = {0: around(0.95), 0.5: around(0.952), 0.9: ninety, 0.95: around(0.7)}
    page = Page("compression")
    chapter.record_pruned(page, cut, tuned)
    return records(page)


@pytest.mark.parametrize(
    ("ninety", "verdict", "free"),
    [
        (around(0.951), "supported", 0.9),
        (around(0.85), "refuted", 0.5),
        ([0.9, 0.99, 0.99, 0.9, 0.9, 0.99, 0.95, 0.99, 0.9], "cannot tell here", 0.5),
    ],
)
def test_nine_tenths_can_go_only_if_a_loss_is_excluded(ninety: Sequence[float], verdict: str, free: float) -> None:
    said = pruned_records(ninety)
    assert said["ninety-per-cent"]["verdict"] == verdict
    assert said["free"]["value"] == free
    assert said["seeds"]["value"] == 9
    assert said["change-90"]["value"] == pytest.approx(np.median(np.subtract(ninety, around(0.95))))
    assert said["raw-90"]["value"] == pytest.approx(-0.55)
    assert "change-0" not in said
    assert [series["x"] for series in said["accuracy"]["series"]] == [[0, 50, 90, 95]] * 2


def test_nothing_is_free_where_everything_costs() -> None:
    page = Page("compression")
    chapter.record_pruned(page, {0: around(0.95), 0.9: around(0.4)}, {0: around(0.95), 0.9: around(0.5)})
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
        (around(0.93), "the pruned one"),
        (around(0.85), "the one that was always small"),
        (around(0.9, apart=-0.02), "cannot tell here"),
        (around(0.9), "cannot tell here"),
    ],
)
def test_the_pruned_model_meets_the_one_that_was_always_small(pruned: Sequence[float], word: str) -> None:
    mlp, slim = make("mlp"), make("cnn")
    page = Page("compression")
    chapter.record_small(page, pruned, around(0.9), mlp, slim)
    said = records(page)
    assert said["train-small"]["word"] == word
    assert said["slim-bytes"]["value"] == stored_bytes(mlp) / stored_bytes(slim)
    assert said["pruned-less-small"]["value"] == pytest.approx(np.median(np.subtract(pruned, around(0.9))))
    assert said["trained-small"]["value"] == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("taught", "verdict"),
    [
        (around(0.93), "supported"),
        (around(0.85), "refuted"),
        (around(0.9, apart=-0.02), "cannot tell here"),
        # Who is as good in each pair beats nobody.
        (around(0.9), "refuted"),
    ],
)
def test_a_teacher_helps_only_beyond_the_seeds(taught: Sequence[float], verdict: str) -> None:
    page = Page("compression")
    page.number("trained-small", 0.9, unit="%", what="alone")
    page.number("seeds", 9, unit="seeds", what="trainings")
    chapter.record_distilled(page, around(0.97), taught, around(0.9))
    said = records(page)
    assert said["distilled-is-better"]["verdict"] == verdict
    assert (said["teacher"]["value"], said["taught"]["value"]) == (
        pytest.approx(0.97),
        pytest.approx(np.median(taught)),
    )


def steps() -> list[StepReport]:
    """Return the four steps of a CNN: 1,000 bytes, 400, 400 and 100, with nine, six, eight and eight tenths right."""
    whole = np.arange(100) < 90
    return [
        StepReport(
            name, "", 1, 0.0, stored, made(1e-3, "s"), made(gain), paired_accuracy(whole, np.arange(100) < correct)
        )
        for name, stored, gain, correct in (
            ("original", 1000, 1.0, 90),
            ("structured_prune", 400, 2.0, 60),
            ("fine_tune", 400, 2.0, 80),
            ("quantize", 100, 3.0, 80),
        )
    ]


def test_all_steps_multiply_to_the_whole() -> None:
    page = Page("compression")
    chapter.record_combined(page, Compression(make("cnn"), steps()))
    said = records(page)
    assert (said["channels-bytes"]["value"], said["bits-bytes"]["value"]) == (2.5, 4)
    assert said["combined-bytes"]["value"] == 10
    assert said["combined-speed"]["value"] == 3
    assert said["channels-change"]["value"] == pytest.approx(-0.3)
    assert said["combined-change"]["value"] == pytest.approx(-0.1)
    rows = said["combined"]["rows"]
    assert [row["step"] for row in rows][:2] == ["as trained", "half of the channels removed"]
    assert rows[0]["change"] is None
    assert rows[1]["change"]["value"] == pytest.approx(-0.3)


def test_steps_that_were_not_measured_are_refused() -> None:
    first, *others = steps()
    for lacking in (replace(first, speedup=None), replace(first, accuracy=None)):
        with pytest.raises(ValueError, match="timed and scored"):
            chapter.record_combined(Page("compression"), Compression(make("cnn"), [lacking, *others]))
