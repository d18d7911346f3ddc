"""What the studies of speed and bytes compute, and how they time it."""

import pytest

from tests.chapters.made_turns import made
from tinytorch.chapters.compression import speed as chapter
from tinytorch.chapters.compression.speed import Line, crossing, line_through, time_break_even
from tinytorch.perf.measuring import Counted, Measurement, Unmeasured
from tinytorch.perf.measuring.conditions import BetweenRuns, Conditions, Sample


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
    line: Line = line_through(0.2, made(1 / (0.1 + 0.9 * 0.8 * 1.5)), 0.9, made(1 / (0.1 + 0.9 * 0.1 * 1.5)))
    assert (line.call.median, line.weight.median) == pytest.approx((0.1, 1.5))
    assert line.break_even("predicted").value == pytest.approx(1 - 1 / 1.5)


def test_sparse_storage_breaks_even_where_six_bytes_do() -> None:
    size = 64 * 64
    assert chapter.bytes_break_even(64).value == pytest.approx(1 - (4 * size - 4 * 65) / (6 * size), abs=2 / size)


@pytest.mark.parametrize(
    ("gains", "noise", "verdict"),
    [
        ((2.0, 2.0, 2.0), 0.0, "supported"),
        ((2.0, 4.0, 2.0), 0.0, "refuted"),
        ((2.0, 2.9, 2.0), 0.1, "open"),
    ],
)
def test_all_models_must_be_short_of_their_promise(gains: tuple[float, ...], noise: float, verdict: str) -> None:
    three = Counted(3.0, "", "FLOPs over FLOPs")
    found = {
        name: {"promised": three, "gain": made(gain, noise=noise)}
        for name, gain in zip(("MLP", "CNN", "GPT"), gains, strict=True)
    }
    assert chapter.short_of_promise(found).verdict == verdict
