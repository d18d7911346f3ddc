"""What the page says of the speed and bytes of fewer numbers, and how its studies time them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import made, records
from tests.perf.quantization.small_zoo import make
from tinytorch import models
from tinytorch.chapters.compression import speed as chapter
from tinytorch.chapters.compression.speed import (
    SparseSpeed,
    Thinner,
    crossing,
    low_rank_speedups,
    model_speedups,
    sparse_speed,
    time_break_even,
    zeros_in_dense,
)
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.compression import (
    LowRankLinear,
    csr_nbytes,
    low_rank_model,
    magnitude_prune,
    mask_units,
    remove_units,
    sparse_model,
    structured_prune,
    units_to_remove,
)
from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.quantization import accuracy_change, paired_accuracy, stored_bytes
from tinytorch.report import Page
from tinytorch.report.records import Json


@pytest.mark.parametrize(
    ("speedups", "expected"),
    [
        ([0.5, 0.8, 1.2, 2.0], 0.7),
        ([2.0, 0.5, 1.5, 3.0], 0.7),
        ([1.0, 1.1, 1.2, 2.0], 0.5),
        ([0.1, 0.2, 0.3, 0.9], 1.0),
        ([0.1, 0.2, 0.5, 3.0], 0.82),
    ],
)
def test_the_crossing_is_where_speedups_come_to_stay_above_one(speedups: list[float], expected: float) -> None:
    assert crossing([0.5, 0.6, 0.8, 0.9], speedups) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("speedups", "middle"),
    [
        ([0.5, 0.8, 1.2, 2.0], 0.7),
        # Above 1 from the first on, or never: the crossing lies where nothing was tried.
        ([1.5, 1.6, 1.7, 2.0], None),
        ([0.1, 0.2, 0.3, 0.5], None),
        ([0.1, 0.2, 0.3, 1.0], None),
    ],
)
def test_a_break_even_beyond_what_was_tried_is_not_told(speedups: list[float], middle: float | None) -> None:
    found = time_break_even([0.5, 0.6, 0.8, 0.9], [made(each, noise=0.05) for each in speedups], "break-even")
    assert (found and found.median) == (middle and pytest.approx(middle))


def test_speeds_are_ratios_of_turns() -> None:
    found = sparse_speed(64, 3, (0.5, 0.9, 0.99), repeats=6)
    assert [len(each) for each in (found.ours, found.scipy, found.stored)] == [3, 3, 3]
    assert found.stored[0] == csr_nbytes(64, 64, 2048) / (4 * 64 * 64)
    with pytest.raises(ValueError, match="sparsities must be"):
        sparse_speed(64, 3, (0.9, 0.5))
    assert [*zeros_in_dense(32, 4, (0.5,), repeats=6)] == [0.5]
    assert low_rank_speedups(512, 256, (2,), repeats=6)[0].median > 1, "a hundredth of the work"
    layer = Linear(512, 512, seed=0)
    faster = model_speedups(layer, {"low": LowRankLinear(layer, 2)}, Tensor(np.ones((256, 512), np.float32)), 6)
    assert faster["low"].median > 1


@pytest.mark.parametrize(
    ("speedup", "noise", "verdict"), [(1.0, 0.0, "refuted"), (1.5, 0.0, "supported"), (1.2, 0.1, "cannot tell here")]
)
def test_pruning_is_faster_from_a_fifth_on(speedup: float, noise: float, verdict: str) -> None:
    mlp = make("mlp")
    page = Page("compression")
    dense = {0.5: made(1.0), 0.9: made(speedup, noise=noise)}
    chapter.record_zeros(page, dense, mlp, magnitude_prune(mlp, 0.75))
    said = records(page)
    assert said["pruning-is-faster"]["verdict"] == verdict
    assert said["sparsity-after"]["value"] == pytest.approx(0.75, abs=1e-4)
    assert said["bytes-before"]["value"] == said["bytes-after"]["value"] == stored_bytes(mlp)
    assert said["zeros-stored"]["value"] == 1
    shown = [(row["share"]["value"], row["stored"]["value"], row["flops"]["value"]) for row in said["zeros"]["rows"]]
    assert shown == [(share, 4 * (512 * 512 + 512), 2 * 512 * 512) for share in (0.5, 0.9)]


def sparse_speeds() -> SparseSpeed:
    levels = (0.5, 0.9, 0.98)
    ours, scipy = ([made(scale * each) for each in (0.5, 2.0, 4.0)] for scale in (1, 0.5))
    return SparseSpeed(levels, ours, scipy, made(0.7, "%"), [0.75, 0.15, 0.03])


def sparse_records(dense: Module) -> dict[str, Json]:
    """Return what the page says of the sparse form of a model that was pruned from ``dense``."""
    pruned = magnitude_prune(make("mlp"), 0.9)
    one = replace(sparse_speeds(), break_even=made(0.6, "%"))
    page = Page("compression")
    page.number("bytes-after", stored_bytes(pruned), unit="B", what="pruned")
    chapter.record_sparse(page, one, sparse_speeds(), dense, pruned, sparse_model(pruned))
    return records(page)


def test_sparse_storage_breaks_even_where_six_bytes_do() -> None:
    said = sparse_records(make("mlp"))
    size = 1024 * 1024
    assert said["bytes-break-even"]["value"] == pytest.approx(1 - (4 * size - 4 * 1025) / (6 * size), abs=2 / size)
    assert said["csr-half"]["value"] == pytest.approx(1.5, abs=0.01)
    assert (said["csr-90"]["value"], said["csr-90-speed"]["value"]) == (0.15, 2.0)
    assert (said["time-break-even-one"]["value"], said["time-break-even-many"]["value"]) == (0.6, 0.7)
    pruned = magnitude_prune(make("mlp"), 0.9)
    assert said["mlp-csr"]["value"] == stored_bytes(pruned) / stored_bytes(sparse_model(pruned))
    assert "csr-speed" in said


def test_a_break_even_that_was_not_found_leaves_no_number() -> None:
    mlp = make("mlp")
    pruned = magnitude_prune(mlp, 0.9)
    page = Page("compression")
    page.number("bytes-after", stored_bytes(pruned), unit="B", what="pruned")
    nowhere = replace(sparse_speeds(), break_even=None)
    chapter.record_sparse(page, nowhere, sparse_speeds(), mlp, pruned, sparse_model(pruned))
    said = records(page)
    assert (said["time-break-even-one"]["kind"], said["time-break-even-many"]["kind"]) == ("absent", "measured")


def test_zeros_alone_make_nothing_smaller() -> None:
    assert sparse_records(make("mlp"))["sparse-is-smaller"]["verdict"] == "refuted"
    assert sparse_records(Linear(512, 512, seed=0))["sparse-is-smaller"]["verdict"] == "supported"


def test_removed_units_compute_what_masked_ones_do() -> None:
    cnn = make("cnn")
    gone, images = units_to_remove(cnn, prune_ratio=0.5), models.example("cnn", 4)
    masked, thinner = mask_units(cnn, gone), remove_units(cnn, gone)
    page = Page("compression")
    chapter.record_units(page, masked, thinner, images)
    said = records(page)
    assert said["apart"]["value"] < 1e-5
    assert said["thin-logit"]["value"] == pytest.approx(np.abs(thinner(images).data).max(), rel=1e-5)
    assert said["masked-bytes"]["value"] == stored_bytes(cnn) > said["thinner-bytes"]["value"] == stored_bytes(thinner)


def test_thinner_versions_promise_what_their_flops_do() -> None:
    mlp = make("mlp")
    half = structured_prune(mlp, 0.5)
    gain = made(1.5)
    found = chapter.thinner_versions({"mlp": mlp}, {"mlp": {0.5: half}}, {"mlp": {0.5: gain}})["mlp"][0.5]
    work = [
        sum(layer.weight.data.size for _, layer in model.named_modules() if isinstance(layer, Linear))
        for model in (mlp, half)
    ]
    assert found.flops == pytest.approx(work[0] / work[1])
    assert found.smaller == stored_bytes(mlp) / stored_bytes(half)
    assert (found.gain, found.score) == (gain, models.accuracy(half, "mlp"))


@pytest.mark.parametrize(
    ("gains", "word"),
    [
        ((4.0, 4.0, 4.0), "none of them"),
        ((2.0, 4.0, 4.0), "the MLP"),
        ((4.0, 2.0, 2.0), "the CNN and the GPT"),
    ],
)
def test_models_short_of_their_promise_are_named(gains: tuple[float, float, float], word: str) -> None:
    found = {
        name: {0.5: Thinner(3.0, 2.0, made(gain), 0.8), 0.75: Thinner(6.0, 4.0, made(1.0), 0.5)}
        for name, gain in zip(("mlp", "cnn", "gpt"), gains, strict=True)
    }
    page = Page("compression")
    chapter.record_structured(page, found)
    said = records(page)
    assert said["flops-kept"]["word"] == word
    assert (said["gpt-half-flops"]["value"], said["gpt-half-speed"]["value"]) == (3, gains[2])
    assert len(said["structured"]["rows"]) == 6


def test_what_cannot_be_told_apart_is_not_short() -> None:
    found = {name: {0.5: Thinner(3.0, 2.0, made(2.9, noise=0.1), 0.8)} for name in ("mlp", "cnn", "gpt")}
    page = Page("compression")
    chapter.record_structured(page, found)
    assert records(page)["flops-kept"]["word"] == "none of them"


def change(after: float) -> Statistic:
    """Return the change of 1,000 examples from nine tenths right."""
    before, later = (np.arange(1000) < round(1000 * share) for share in (0.9, after))
    return accuracy_change(paired_accuracy(before, later), "change")


def low_rank_records(quarter_gain: Measurement, after: float, quarter: Module) -> dict[str, Json]:
    gains = {64: made(4.0), 128: made(2.5), 512: made(0.9)}
    changes = {0.5: change(0.88), 0.25: change(after)}
    page = Page("compression")
    chapter.record_low_rank(page, gains, changes, quarter_gain, make("mlp"), quarter)
    return records(page)


@pytest.mark.parametrize(
    ("gain", "after", "verdict"),
    [
        (1.5, 0.9, "supported"),
        (0.8, 0.9, "refuted"),
        (1.5, 0.8, "refuted"),
        (1.5, 0.88, "cannot tell here"),
    ],
)
def test_low_rank_saves_only_with_less_time_and_no_loss(gain: float, after: float, verdict: str) -> None:
    mlp = make("mlp")
    low = low_rank_model(mlp, 0.25, keep=["5"])
    said = low_rank_records(made(gain), after, low)
    assert said["low-rank-saves"]["verdict"] == verdict
    assert said["rank-quarter-bytes"]["value"] == stored_bytes(mlp) / stored_bytes(low)
    assert (said["rank-128"]["value"], said["break-even"]["value"], said["break-even-speed"]["value"]) == (
        2.5,
        512,
        0.9,
    )
    assert [row["promised"]["value"] for row in said["low-rank"]["rows"]] == [8, 4, 1]
    assert said["rank-half-change"]["value"] == pytest.approx(-0.02)
    assert said["rank-quarter-change"]["value"] == pytest.approx(after - 0.9)


def test_low_rank_saves_nothing_without_fewer_bytes() -> None:
    assert low_rank_records(made(1.5), 0.9, make("mlp"))["low-rank-saves"]["verdict"] == "refuted"


def test_answers_are_arithmetic() -> None:
    page = Page("compression")
    chapter.record_answers(page)
    said = {key: record.get("value") for key, record in records(page).items()}
    wide = 4096**2
    assert (said["q-dense"], said["q-csr"]) == (4 * wide, 6 * round(wide / 20) + 4 * 4097)
    assert (said["q-rank"], said["q-rank-gain"]) == (2047, 8)
    assert (said["q-amdahl"], said["q-amdahl-limit"]) == (pytest.approx(1 / (0.4 + 0.2)), pytest.approx(2.5))
    assert (said["q-quarter"], said["q-mask"], said["q-places"]) == (0.25, 0.25, 1 / 32)
