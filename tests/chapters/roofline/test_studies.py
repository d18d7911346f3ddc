"""What the page on rooflines computes of places that were made up: each number and verdict, on all of its sides."""

from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_places import candidates_of, made_place
from tests.perf.made_ceilings import made_ceilings, spread
from tinytorch.chapters.roofline import studies
from tinytorch.core.ops import elementwise
from tinytorch.perf.measuring import Measurement, Unmeasured, from_turns
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.roofline.bounds import Bottleneck
from tinytorch.perf.roofline.placement import Placed

MACHINE = made_ceilings(threads=1)
MIB = 2**20


def in_turns(seconds: dict[int, float], noise: float = 0.002) -> dict[int, Measurement]:
    """Return times that were taken in turns, with noise that differs from one to another."""
    noises = np.random.default_rng(0).permuted(np.tile(np.linspace(-noise, noise, 13), (len(seconds), 1)), axis=1)
    taken = {str(key): (one * (1 + own)).tolist() for (key, one), own in zip(seconds.items(), noises, strict=True)}
    made = from_turns(taken, sample="rounds", conditions=Conditions(blas_threads=1))
    return {key: made[str(key)] for key in seconds}


def test_each_level_has_the_ridge_of_its_bandwidth() -> None:
    ladder = studies.ladder(MACHINE)
    assert {name: one.ridge.median for name, one in ladder.items()} == {"L1": 0.25, "L2": 1.0, "memory": 10.0}
    assert [one.bytes and one.bytes.value for one in ladder.values()] == [32 * 1024, MIB, None]


@pytest.mark.parametrize(
    ("operations", "moved", "least", "bound"),
    [(MIB, 16 * MIB, 16 * MIB / 10e9, "memory-bound"), (2**33, 12 * MIB, 2**33 / 100e9, "compute-bound")],
)
def test_what_a_reader_counted_is_placed(operations: int, moved: int, least: float, bound: str) -> None:
    found = studies.by_hand("it", operations, moved, spread(2 * least, "s"), MACHINE)
    assert (found.demand.intensity, found.slope.of) == (operations / moved, "memory")
    assert (found.least.value, found.of_roof.median) == pytest.approx((least, 0.5))
    assert found.verdict.sentence_word == bound


def rows_in(least: float, overlap: bool) -> dict[int, Measurement]:
    """Return times of products whose arithmetic takes as long as their bytes at so many rows."""
    law = max if overlap else lambda *parts: sum(parts)
    return in_turns({rows: 6e-3 * law(1, rows / least) for rows in (1, 2, 4, 8, 16, 32, 64, 128, 256)})


@pytest.mark.parametrize(("overlap", "twice"), [(True, 40), (False, 21)])
def test_the_time_of_one_row_doubles_between_one_and_two_times_the_crossing(overlap: bool, twice: float) -> None:
    """Weights of 64 MiB come from memory, whose ridge is at 10: predicted are 20 rows; one row does 1/20 of that."""
    rows = studies.products(rows_in(20, overlap), 4096, 4096, MACHINE)
    assert rows[16].placed.intensity.value == pytest.approx(8 / (1 + 32 / 4096))
    found = studies.crossing(rows, MACHINE)
    assert (found.ridge.median, found.predicted.value) == pytest.approx((10, 20))
    assert isinstance(found.doubled, Measurement)
    assert isinstance(found.over, Measurement)
    assert found.doubled.median == pytest.approx(twice, rel=0.1)
    assert found.bend.median == pytest.approx(20 if overlap else 21, rel=1e-3)
    assert found.over.median == pytest.approx(2 if overlap else 22 / 21, rel=0.03)
    assert (found.few.median, found.many.median) == pytest.approx((1, 4) if overlap else (24 / 21, 276 / 84), rel=0.02)


def test_rows_that_never_double_the_time_have_no_crossing() -> None:
    found = studies.crossing(studies.products(rows_in(200, True), 4096, 4096, MACHINE), MACHINE)
    assert isinstance(found.doubled, Unmeasured)
    assert "256 rows" in found.doubled.reason
    assert found.over is found.doubled


@pytest.mark.parametrize(("cost", "slope", "level"), [(5e-8, 400e9, "L1"), (1e-6, 100e9, "L2"), (1e-3, 10e9, "memory")])
def test_calls_count_until_the_bytes_of_the_level_that_fits_take_as_long(cost: float, slope: float, level: str) -> None:
    one = made_place("4 numbers", 4, 48, 0.01, Bottleneck.OVERHEAD, "L1")
    call = replace(one, verdict=replace(one.verdict, overhead=replace(one.verdict.overhead, seconds=spread(cost, "s"))))
    until, found = studies.until_bytes_take_as_long(call, MACHINE)
    assert until.value == pytest.approx(cost * slope / 12)
    assert found == level


def test_passes_calls_and_tanh_predict_a_gelu() -> None:
    """The 17 arrays of 4 MiB go at the bandwidth of L2, which holds three blocks; tanh takes twice its 8 MiB.

    Each of 8 steps is called for each of 64 blocks of 16,384 numbers.
    """
    found = studies.gelu_by_steps(made_place("tanh", MIB, 8 * MIB, 0.5), MACHINE)
    passes, both, every = 17 * 4 * MIB / 100e9, 2 * 8 * MIB / 10e9, 8 * 64 * 0.5e-6
    assert (found.slope.of, found.moved.value, found.calls.value) == ("L2", 19 * 4 * MIB, 512)
    assert [found.passes.value, found.calling.value] == pytest.approx([passes, every])
    assert found.predicted.value == pytest.approx(passes + both + every)


def test_a_gelu_takes_as_many_steps_as_the_page_says() -> None:
    studies.CountingArray.steps = studies.CountingArray.arrays = 0
    x, output, scratch = (np.ones(8, np.float32).view(studies.CountingArray) for _ in range(3))
    elementwise._gelu_block(x, output, None, scratch)
    assert (studies.CountingArray.steps, studies.CountingArray.arrays) == (studies.GELU_STEPS, studies.GELU_ARRAYS)


def test_an_expression_moves_what_each_of_its_steps_moves() -> None:
    assert studies.arrays_moved(lambda x: x + 1, "a step").value == 2
    assert studies.arrays_moved(lambda x: 2 * (x * x) + x, "three steps").value == 3 + 2 + 3


def test_a_chip_has_the_ridges_that_follow_from_what_is_promised() -> None:
    (chip,) = studies.chips({"a chip": (400e12, 800e12, 2e12, "its maker")})
    assert (chip["ridge"].value, chip["ridge_in_8"].value, chip["memory"].source) == (200, 400, "its maker")


def test_twice_the_bandwidth_gains_what_waits_for_memory() -> None:
    few, many = made_place("few", 2 * MIB, 4 * MIB, 0.8), made_place("many", 2048 * MIB, 12 * MIB, 0.9)
    assert [studies.gain_of_twice_the_bandwidth(one, MACHINE).value for one in (few, many)] == [2, 1]


def test_what_other_pages_time_has_the_name_of_its_call() -> None:
    passed = studies.passes({("gpt", 64): made_place("GPT, 64", MIB, MIB, 0.2)})
    assert "GPT, batch of 64" in (passed["gpt", 64].seconds.conditions.call or "")


def test_a_step_of_gpt2_reads_its_weights() -> None:
    read, arithmetic, together = studies.gpt2_step(MACHINE)
    weights = 4 * (124_439_808 - 1023 * 768)
    assert read.value == pytest.approx(weights / 10e9)
    assert arithmetic.value == pytest.approx(weights / 2 / 100e9, rel=2e-3), "half an operation a byte"
    assert together.value == pytest.approx(20, rel=2e-3), "as for any weights: twice the ridge of 10"


@pytest.mark.parametrize(
    ("longer", "bottleneck", "verdict"),
    [
        (1.02, Bottleneck.OVERHEAD, "supported"),
        (1.02, Bottleneck.MEMORY, "refuted"),
        (1.02, Bottleneck.BELOW, "refuted"),
        (1.02, Bottleneck.OPEN, "open"),
        (1.5, Bottleneck.OVERHEAD, "open"),
        (1.5, Bottleneck.MEMORY, "open"),
        (1.1, Bottleneck.OVERHEAD, "open"),
    ],
)
def test_what_takes_hardly_longer_on_twice_the_data_is_overhead_bound(
    longer: float, bottleneck: Bottleneck, verdict: str
) -> None:
    """Where twice the data takes more than a tenth longer, or may, the condition is not met."""
    four, eight = (made_place(f"{count} numbers", count, 12 * count, 0.01, bottleneck, "L1") for count in (4, 8))
    times = in_turns({4: 1e-3, 8: longer * 1e-3})
    pair = replace(four, seconds=times[4]), replace(eight, seconds=times[8])
    assert studies.overhead_if_alike([pair], at_most=1.1).verdict == verdict


@pytest.mark.parametrize(
    ("bottleneck", "verdict"),
    [(Bottleneck.MEMORY, "supported"), (Bottleneck.BELOW, "refuted"), (Bottleneck.OPEN, "open")],
)
def test_a_low_rate_is_judged_by_all_that_surely_have_one(bottleneck: Bottleneck, verdict: str) -> None:
    """Two operations a byte from memory reach a fifth of the peak at their roof."""
    low, near, high = (made_place("product", 2 * MIB, MIB, share) for share in (0.1, 0.25, 1.0))
    places = [low, *(bound(one, Bottleneck.COMPUTE) for one in (near, high))]
    assert studies.memory_if_slow(places, at_most=0.05).verdict == "supported"
    assert studies.memory_if_slow([*places, bound(low, bottleneck)], at_most=0.05).verdict == verdict


def bound(one: Placed, bottleneck: Bottleneck) -> Placed:
    """Return it with another verdict."""
    return replace(one, verdict=replace(one.verdict, candidates=candidates_of(bottleneck)))
