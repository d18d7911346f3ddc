"""What the page says of the speed and bytes of fewer numbers, and how its studies time them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import made, records, said_in
from tests.perf.quantization.small_zoo import make
from tinytorch import models
from tinytorch.chapters.compression import speed as chapter
from tinytorch.chapters.compression.speed import (
    LowRank,
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
from tinytorch.perf.measuring.conditions import BetweenRuns, Conditions, Sample
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


def test_a_break_even_varies_as_its_density_does() -> None:
    """A speedup that repeats find a tenth larger or smaller breaks even at a density a tenth larger or smaller."""
    levels = (0.5, 0.8, 0.95)
    ours = [
        Measurement(
            "speedup", (0.1 / (1 - level),) * 9, "", Conditions(between_runs=BetweenRuns(0.05), sample=Sample.TRIALS)
        )
        for level in levels
    ]
    predicted = chapter.predicted_break_even(SparseSpeed(levels, ours, ours, None, []), "predicted").interval
    density = ours[0].interval
    assert predicted.low == pytest.approx(1 - density.high / 2)
    assert predicted.high == pytest.approx(1 - density.low / 2)
    found = time_break_even(levels, ours, "break-even")
    assert found is not None
    width = found.interval.high - found.interval.low
    assert width == pytest.approx(0.2 * (1 - found.median), rel=0.05), "a tenth of the density to either side"


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


def test_zeros_alone_make_nothing_smaller() -> None:
    mlp = make("mlp")
    page = Page("compression")
    chapter.record_zeros(page, {0.5: made(1.0), 0.9: made(1.5)}, mlp, magnitude_prune(mlp, 0.75))
    said = records(page)
    claim = said["pruning-is-faster"]
    assert (claim["verdict"], claim["counted"]) == ("refuted", True), "whatever the speed, the bytes are the same"
    assert said["sparsity-after"]["value"] == pytest.approx(0.75, abs=1e-4)
    assert said["bytes-before"]["value"] == said["bytes-after"]["value"] == stored_bytes(mlp)
    assert (said["zeros-stored"]["value"], said["zeros-speedup"]["value"]) == (1, 1.5)
    shown = [(row["share"]["value"], row["stored"]["value"], row["flops"]["value"]) for row in said["zeros"]["rows"]]
    assert shown == [(share, 4 * (512 * 512 + 512), 2 * 512 * 512) for share in (0.5, 0.9)]


def sparse_speeds(ninety: float = 2.0, noise: float = 0.0) -> SparseSpeed:
    levels = (0.5, 0.9, 0.98)
    ours = [made(0.6), made(ninety, noise=noise), made(4.0)]
    return SparseSpeed(levels, ours, [made(0.5)] * 3, made(0.7, "%"), [0.75, 0.15, 0.03])


def sparse_records(
    many: SparseSpeed, zeros: Measurement | None = None, pruned: Module | None = None, one: SparseSpeed | None = None
) -> dict[str, Json]:
    """Return what the page says of a pruned MLP in sparse rows, and of sparse products."""
    pruned = pruned or magnitude_prune(make("mlp"), 0.9)
    one = one or replace(sparse_speeds(), break_even=made(0.6, "%"))
    zeros = zeros or made(1.0)
    page = Page("compression")
    page.number("zeros-speedup", zeros)
    chapter.record_sparse(page, one, many, zeros, pruned, sparse_model(pruned))
    return records(page)


def test_sparse_storage_breaks_even_where_six_bytes_do() -> None:
    said = sparse_records(sparse_speeds())
    size = 1024 * 1024
    assert said["bytes-break-even"]["value"] == pytest.approx(1 - (4 * size - 4 * 1025) / (6 * size), abs=2 / size)
    assert (said["csr-90"]["value"], said["csr-90-speed"]["value"]) == (0.15, 2.0)
    assert (said["time-break-even-one"]["value"], said["time-break-even-many"]["value"]) == (0.6, 0.7)
    pruned = magnitude_prune(make("mlp"), 0.9)
    assert said["mlp-csr"]["value"] == stored_bytes(pruned) / stored_bytes(sparse_model(pruned))
    assert "csr-speed" in said


def test_a_product_in_proportion_to_its_weights_breaks_even_at_its_rate() -> None:
    """0.6 as fast at half of the weights is 0.3 of the rate: below that density it pays."""
    said = sparse_records(sparse_speeds())
    assert said["stored-cost-many"]["value"] == pytest.approx(1 / 0.3)
    assert said["break-even-predicted-many"]["value"] == pytest.approx(1 - 0.3)
    assert said["break-even-predicted-many"]["kind"] == "modelled"
    levels = (0.2, 0.5, 0.6, 0.8, 0.9)
    # Half of the weights decide, not the least share of zeros.
    proportional = [made(0.2), *(made(0.3 / (1 - level)) for level in levels[1:])]
    found = SparseSpeed(levels, proportional, proportional, None, [])
    assert chapter.stored_cost(found, "cost").median == pytest.approx(1 / 0.3)
    assert chapter.predicted_break_even(found, "predicted").median == pytest.approx(0.7)
    assert crossing(levels, [each.median for each in proportional]) == pytest.approx(0.7, abs=0.05)


def test_a_break_even_that_was_not_found_leaves_no_number() -> None:
    said = sparse_records(sparse_speeds(), one=replace(sparse_speeds(), break_even=None))
    assert (said["time-break-even-one"]["kind"], said["time-break-even-many"]["kind"]) == ("absent", "measured")


def test_positions_take_bytes_too() -> None:
    claim = sparse_records(sparse_speeds())["sparse-is-smaller"]
    assert (claim["verdict"], claim["counted"]) == ("refuted", True)
    active = sparse_records(sparse_speeds())["mlp-active"]["value"]
    weights = magnitude_prune(make("mlp"), 0.9).parameters()
    total, left = (sum(count(each.data) for each in weights) for count in (np.size, np.count_nonzero))
    assert active == pytest.approx(total / left)


@pytest.mark.parametrize(
    ("zeros", "ninety", "noise", "verdict"),
    [
        (1.0, 2.0, 0.0, "supported"),
        (1.5, 2.0, 0.0, "refuted"),
        (1.0, 0.9, 0.0, "refuted"),
        (1.0, 1.0, 0.1, "open"),
    ],
)
def test_speed_needs_sparse_kernels_only_where_they_bring_it(
    zeros: float, ninety: float, noise: float, verdict: str
) -> None:
    said = sparse_records(sparse_speeds(ninety, noise), made(zeros))
    assert said["speed-needs-sparse-kernels"]["verdict"] == verdict


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
        ((2.0, 2.0, 2.0), "the MLP, the CNN and the GPT"),
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
    assert said_in(said["flops-kept"]) == word
    assert (said["gpt-half-flops"]["value"], said["gpt-half-speed"]["value"]) == (3, gains[2])
    assert len(said["structured"]["rows"]) == 6


def halves(gain: float, noise: float = 0.0, smaller: float = 2.0) -> dict[str, Json]:
    found = {name: {0.5: Thinner(3.0, smaller, made(gain, noise=noise), 0.8)} for name in ("mlp", "cnn", "gpt")}
    page = Page("compression")
    chapter.record_structured(page, found)
    return records(page)


def test_what_cannot_be_told_apart_is_not_short() -> None:
    assert halves(2.9, noise=0.1)["flops-kept"]["word"] == "none of them"


@pytest.mark.parametrize(
    ("gain", "noise", "smaller", "verdict"),
    [
        (1.5, 0.0, 2.0, "supported"),
        (0.8, 0.0, 2.0, "refuted"),
        (1.5, 0.0, 1.0, "refuted"),
        (1.0, 0.1, 2.0, "open"),
    ],
)
def test_whole_units_make_models_smaller_and_faster(gain: float, noise: float, smaller: float, verdict: str) -> None:
    assert halves(gain, noise, smaller)["structured-is-faster"]["verdict"] == verdict


def change(after: float) -> Statistic:
    """Return the change of 1,000 examples from nine tenths right."""
    before, later = (np.arange(1000) < round(1000 * share) for share in (0.9, after))
    return accuracy_change(paired_accuracy(before, later), "change")


def test_the_error_of_a_rank_is_that_of_the_singular_values_left_out() -> None:
    mlp = make("mlp")
    low = {0.5: low_rank_model(mlp, 0.5, keep=["5"])}
    weight = dict(mlp.named_parameters())["3.weight"].data
    squares = np.linalg.svd(weight.astype(np.float64), compute_uv=False) ** 2
    rank = dict(low[0.5].named_modules())["3"].rank  # type: ignore[attr-defined]
    found = chapter.low_rank_mlp(mlp, low, {0.5: 0.3}, {0.5: change(0.88)})[0.5]
    assert found.error == pytest.approx(np.sqrt(squares[rank:].sum() / squares.sum()), rel=1e-4)
    assert (found.predicted, found.stored) == (0.3, stored_bytes(low[0.5]) / stored_bytes(mlp))
    assert found.gain.n > 5


def test_low_rank_is_told_by_layer_and_by_model() -> None:
    gains = {64: made(4.0), 128: made(2.5), 512: made(0.9)}
    half = LowRank(0.15, 0.16, 0.7, made(1.1), change(0.88))
    page = Page("compression")
    chapter.record_low_rank(page, gains, {0.5: half, 0.25: replace(half, error=0.3, change=change(0.8))})
    said = records(page)
    assert [row["promised"]["value"] for row in said["low-rank"]["rows"]] == [8, 4, 1]
    assert (said["rank-128"]["value"], said["break-even"]["value"], said["break-even-speed"]["value"]) == (
        2.5,
        512,
        0.9,
    )
    assert said["rank-half-change"]["value"] == pytest.approx(-0.02)
    assert (said["rank-quarter-error"]["value"], said["rank-quarter-change"]["value"]) == (0.3, pytest.approx(-0.1))
    row = said["low-rank-mlp"]["rows"][0]
    assert (row["predicted"]["value"], row["error"]["value"], row["stored"]["value"]) == (0.15, 0.16, 0.7)
    assert (said["low-rank-saves"]["verdict"], said["low-rank-saves"]["counted"]) == ("supported", True)
    assert said["hundred-ranks"]["value"] == 200_000 / 1_000_000


def test_answers_are_arithmetic() -> None:
    page = Page("compression")
    chapter.record_answers(page)
    said = {key: record.get("value") for key, record in records(page).items()}
    wide = 4096**2
    assert (said["q-dense"], said["q-csr"]) == (4 * wide, 6 * round(wide / 20) + 4 * 4097)
    # The course's question: a weight of 512 by 256 at rank 64.
    assert (said["q-rank"], said["q-rank-gain"]) == (170, pytest.approx(131_072 / 49_152))
    assert said["gpt2-rank"] == 307
    mlps, saved = 24 * 768 * 3072, 24 * (768 * 3072 - 307 * 3840)
    assert said["gpt2-mlps"] == pytest.approx(mlps / 124_439_808)
    assert said["gpt2-left"] == pytest.approx(1 - saved / 124_439_808)
    assert (said["q-amdahl"], said["q-amdahl-limit"]) == (pytest.approx(1 / (0.4 + 0.2)), pytest.approx(2.5))
    assert (said["q-quarter"], said["q-mask"], said["q-places"]) == (0.25, 0.25, 1 / 32)
