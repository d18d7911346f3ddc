"""What the page on two machines shows of the book's: roofs of one core and of several, and operations below them."""

from __future__ import annotations

import pytest

from tests.chapters.made_places import made_place
from tests.perf.made_ceilings import LEVELS, PEAK, made_ceilings
from tinytorch.chapters import your_machine as chapter
from tinytorch.perf.host.blas import thread_limit
from tinytorch.perf.roofline.bounds import Bottleneck
from tinytorch.report import Page

PLACED = [
    made_place("add", 10**6, 12 * 10**6, 0.9),
    made_place("product", 2 * 10**9, 12 * 10**6, 0.8, Bottleneck.COMPUTE),
]


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
    page = Page("your_machine")
    chapter.record_roofline(page, PLACED, made_ceilings())
    chapter.record_roofs(page, [made_ceilings(threads=1), made_ceilings(threads=2, peak=2 * PEAK)], PLACED)
    made = {record.key: record.to_json() for record in page.records}
    rows = made["roofs"]["rows"]
    assert [row["roof"] for row in rows] == 2 * ["FP32", "INT8", *(name for name, _, _ in LEVELS)]
    assert [row["threads"]["value"] for row in rows] == 5 * [1] + 5 * [2]
    assert rows[5]["rate"]["value"] == 2 * PEAK
    assert [row["rate"]["value"] for row in rows[2:5]] == [bandwidth for _, _, bandwidth in LEVELS]
    assert [row["holds"] and row["holds"]["value"] for row in rows[2:5]] == [capacity for _, capacity, _ in LEVELS]
    assert [row["name"] for row in made["ops"]["rows"]] == ["add", "product"]
    assert "roofline" in made


def test_operations_are_placed_by_what_they_ask_for() -> None:
    placed = {one.name: one for one in chapter.placed_operations(made_ceilings(threads=thread_limit()), width=8)}
    assert placed["add"].demand.bytes == 3 * 8 * 8 * 4
    assert placed["matrix × vector"].demand.flops == 2 * 8 * 8
    assert placed["matrix × matrix"].demand.flops == 2 * 8 * 8 * 8
    assert placed["GELU"].intensity.value == 1.0
