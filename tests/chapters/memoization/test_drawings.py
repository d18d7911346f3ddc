"""The drawings of the page on memoization show what they say, and stay within their frame for other sizes."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from tinytorch.chapters.memoization import drawings
from tinytorch.report import Drawing, Page

SVG = "{http://www.w3.org/2000/svg}"


def parts(drawing: Drawing, tag: str) -> list[ET.Element]:
    return [*ET.fromstring(drawing.svg(key="drawn", alt="what is drawn")).iter(f"{SVG}{tag}")]


def words(drawing: Drawing) -> list[str]:
    return [element.text or "" for element in parts(drawing, "text")]


@pytest.mark.parametrize("steps", [1, 3, 5])
def test_without_a_cache_a_position_is_computed_once_a_step(steps: int) -> None:
    numbers = [int(word) for word in words(drawings.recomputed(steps)) if word.isdigit()]
    # By triangular numbers without a cache, and one new position a step with one.
    assert len(numbers) == steps * (steps + 1) // 2 + steps
    assert sum(numbers) == sum(n * (n + 1) // 2 for n in range(1, steps + 1)) + steps


def test_a_step_has_a_score_for_each_kept_key_and_its_own() -> None:
    assert "4 scores, 4 weights" in words(drawings.step(kept=3))


def test_a_cache_has_keys_and_values_of_each_layer_head_and_position() -> None:
    assert len(parts(drawings.layout(layers=3, heads=2, kept=4, room=7), "rect")) == 2 * 3 * 2 * 7


def test_a_prefill_reads_all_rows_and_a_step_one() -> None:
    drawing = drawings.phases(prompt=4, steps=3)
    assert len(parts(drawing, "rect")) == 4 + 3
    assert [word for word in words(drawing) if word.isdigit()] == ["1", "2", "3", "4"]


def test_a_common_page_is_there_once() -> None:
    found = words(drawings.pages(first=(0, 1), second=(0, 2, 3), count=5))
    assert [found.count(word) for word in ("A and B", "B", "free")] == [1, 3, 1]


def test_the_page_shows_each_of_them() -> None:
    page = Page("memoization")
    before = len(page.records)
    for show in (
        drawings.show_recomputed,
        drawings.show_step,
        drawings.show_layout,
        drawings.show_phases,
        drawings.show_pages,
    ):
        show(page)
    assert [record.key for record in page.records[before:]] == ["recomputed", "step", "layout", "phases", "pages"]
