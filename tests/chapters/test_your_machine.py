"""Roofs of one core and of several, and operations below them."""

import pytest

from tests.perf.made_ceilings import LEVELS, PEAK, made_ceilings
from tinytorch.chapters import your_machine as chapter
from tinytorch.perf.host.blas import thread_limit


class Found:
    """Stands in for the identity of a machine."""

    def __init__(self, cores: int) -> None:
        self.cores_usable = cores


@pytest.mark.parametrize(("cores", "threads"), [(1, [1]), (2, [1, 2]), (64, [1, 64])])
def test_one_core_has_the_roofs_of_one_thread_alone(
    cores: int, threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chapter, "identity", lambda: Found(cores))
    monkeypatch.setattr(chapter, "ceilings", lambda count: made_ceilings(threads=count))
    assert [one.threads for one in chapter.roofs()] == threads


def test_the_roofs_are_peaks_and_the_best_bandwidth_of_each_level() -> None:
    rows = [*chapter.roof_rows([made_ceilings(threads=1), made_ceilings(threads=2, peak=2 * PEAK)])]
    assert [row["roof"] for row in rows] == 2 * ["FP32", "INT8", *(name for name, _, _ in LEVELS)]
    assert [row["threads"] for row in rows] == 5 * [1] + 5 * [2]
    assert [row["rate"].median for row in (rows[0], rows[5])] == [PEAK, 2 * PEAK]
    levels = [(row["roof"], row["holds"] and row["holds"].value, row["rate"].median) for row in rows[2:5]]
    assert levels == [*LEVELS]


def test_operations_are_placed_by_what_they_ask_for() -> None:
    placed = {one.name: one for one in chapter.placed_operations(made_ceilings(threads=thread_limit()), width=8)}
    assert placed["add"].demand.bytes == 3 * 8 * 8 * 4
    assert placed["matrix × vector"].demand.flops == 2 * 8 * 8
    assert placed["matrix × matrix"].demand.flops == 2 * 8 * 8 * 8
    assert placed["GELU"].intensity.value == 1.0
