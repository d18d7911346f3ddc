"""What the studies of speed and bytes compute, and how they time it."""

from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import made, run_once
from tests.perf.quantization.small_zoo import make
from tinytorch import models
from tinytorch.chapters.compression import speed as chapter
from tinytorch.chapters.compression.speed import Line, Thinner, crossing, line_through, time_break_even
from tinytorch.core.layers import Linear
from tinytorch.perf.compression import csr_nbytes, magnitude_prune, sparse_model, structured_prune
from tinytorch.perf.measuring import Counted, Measurement, Unmeasured
from tinytorch.perf.measuring.conditions import BetweenRuns, Conditions, Sample
from tinytorch.perf.quantization import stored_bytes


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
    assert (None if isinstance(found, Unmeasured) else found.median) == (middle and pytest.approx(middle))


def test_a_break_even_varies_as_its_density_does() -> None:
    """A speedup that repeats find a tenth larger or smaller breaks even at a density a tenth larger or smaller."""
    levels, conditions = (0.5, 0.8, 0.95), Conditions(between_runs=BetweenRuns(0.05), sample=Sample.TRIALS)
    ours = [Measurement("speedup", (0.1 / (1 - level),) * 9, "", conditions) for level in levels]
    predicted = line_through(0.5, ours[0], 0.95, ours[2]).break_even("predicted").carried
    assert predicted is not None
    density = ours[0].interval
    assert predicted.interval.low == pytest.approx(1 - density.high / 2)
    assert predicted.interval.high == pytest.approx(1 - density.low / 2)
    found = time_break_even(levels, ours, "break-even")
    assert not isinstance(found, Unmeasured)
    width = found.interval.high - found.interval.low
    assert width == pytest.approx(0.2 * (1 - found.median), rel=0.05), "a tenth of the density to either side"


def test_a_line_through_two_speedups_gives_its_parts_and_all_others() -> None:
    """A call of a tenth of the dense product; of the rest, three halves of a dense weight for each that is left."""
    levels = (0.2, 0.5, 0.6, 0.8, 0.9)
    line: Line = line_through(0.2, made(1 / (0.1 + 0.9 * 0.8 * 1.5)), 0.9, made(1 / (0.1 + 0.9 * 0.1 * 1.5)))
    assert (line.call.median, line.weight.median) == pytest.approx((0.1, 1.5))
    assert line.break_even("predicted").value == pytest.approx(1 - 1 / 1.5)
    assert line.speedup(0.98, "predicted").value == pytest.approx(1 / (0.1 + 0.9 * 0.03))
    assert crossing(levels, [0.3 / (1 - level) for level in levels]) == pytest.approx(0.7, abs=0.05)


def test_speeds_are_ratios_of_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = {0.5: 16.0, 0.6: 10.0, 0.9: 4.0, 0.99: 2.0}
    seconds = {"dense": 8.0, "2": 0.5} | {f"CSR {each}": took for each, took in levels.items()}
    seconds |= {f"SciPy {each}": 2 * took for each, took in levels.items()}
    monkeypatch.setattr("tinytorch.chapters.calls.interleave", run_once(seconds))
    found = chapter.sparse_speed(64, 3, [*levels])
    assert found.levels[0.5].stored.value == csr_nbytes(64, 64, 2048) / (4 * 64 * 64)
    speeds = [(each.ours.median, each.scipy.median) for each in found.levels.values()]
    assert speeds == [(0.5, 0.25), (0.8, 0.4), (2, 1), (4, 2)]
    through = line_through(0.5, found.levels[0.5].ours, 0.9, found.levels[0.9].ours)
    assert (found.line.weight.samples, found.line.call.samples) == (through.weight.samples, through.call.samples)
    assert [(row["one"], row["many"]) for row in chapter.beside(found, found)] == [
        (x, x) for x in found.levels.values()
    ]
    for share, verdict in ((0.05, "supported"), (0.15, "refuted"), (0.1, "open")):
        near = replace(found, break_even=made(found.predicted.value + share, noise=0.02))
        assert str(near.as_predicted) == verdict
    absent = Unmeasured("beyond what was tried")
    assert replace(found, break_even=absent).as_predicted is absent
    low = chapter.low_rank_speedups(64, 3, (2,))[2]
    assert (low.promised.value, low.gain.median) == (16, 16)


def test_zeros_alone_make_nothing_smaller() -> None:
    found = chapter.zeros_in_dense(32, 4, (0.5,), repeats=6)[0.5]
    assert (found.stored.value, found.kept.value, found.flops.value) == (4 * (32 * 32 + 32), 1, 2 * 32 * 32)


def test_sparse_storage_breaks_even_where_six_bytes_do() -> None:
    size = 64 * 64
    assert chapter.bytes_break_even(64).value == pytest.approx(1 - (4 * size - 4 * 65) / (6 * size), abs=2 / size)


def test_bytes_and_weights_are_counted_over_what_is_left() -> None:
    pruned = magnitude_prune(make("mlp"), 0.9)
    sparse = sparse_model(pruned)
    assert chapter.fewer_bytes(pruned, sparse).value == stored_bytes(pruned) / stored_bytes(sparse)
    total, left = (sum(count(each.data) for each in pruned.parameters()) for count in (np.size, np.count_nonzero))
    assert chapter.fewer_weights(pruned, "fewer").value == pytest.approx(total / left)


def test_thinner_versions_promise_what_their_flops_do() -> None:
    mlp = make("mlp")
    half, gain = structured_prune(mlp, 0.5), made(1.5)
    found = chapter.thinner_versions({"mlp": mlp}, {"mlp": {0.5: half}}, {"mlp": {0.5: gain}})["mlp", 0.5]
    work = [
        sum(layer.weight.data.size for _, layer in model.named_modules() if isinstance(layer, Linear))
        for model in (mlp, half)
    ]
    assert found.promised.value == pytest.approx(work[0] / work[1])
    assert found.smaller.value == stored_bytes(mlp) / stored_bytes(half)
    assert (found.gain, found.score.value) == (gain, models.accuracy(half, "mlp"))


@pytest.mark.parametrize(
    ("gains", "noise", "verdict"),
    [
        ((2.0, 2.0, 2.0), 0.0, "supported"),
        ((2.0, 4.0, 2.0), 0.0, "refuted"),
        ((2.0, 2.9, 2.0), 0.1, "open"),
    ],
)
def test_all_models_must_be_short_of_their_promise(gains: tuple[float, ...], noise: float, verdict: str) -> None:
    one, three = Counted(0.5, "%", "share"), Counted(3.0, "", "FLOPs over FLOPs")
    found = [
        Thinner(name, one, three, made(gain, noise=noise), three, one)
        for name, gain in zip(("MLP", "CNN", "GPT"), gains, strict=True)
    ]
    assert chapter.short_of_promise(found).verdict == verdict
