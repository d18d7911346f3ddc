"""Drawings of the page on several ranks: they fit, and say what the code that they stand for does."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from tinytorch.chapters.distributed import drawings
from tinytorch.report import Page


@pytest.mark.parametrize("ranks", [2, 3, 4, 5])
def test_the_ring_ends_each_phase_with_whole_sums_where_the_text_says(ranks: int) -> None:
    start, added, copied = drawings.sums_in_parts(ranks)
    assert start == [[1] * ranks] * ranks
    assert [held.count(ranks) for held in added] == [1] * ranks, "one whole sum on each rank"
    assert {held.index(ranks) for held in added} == set(range(ranks)), "another one on each"
    assert copied == [[ranks] * ranks] * ranks
    drawings.ring_drawing(ranks)


@pytest.mark.parametrize(("stages", "micro"), [(1, 1), (2, 4), (4, 8), (3, 2)])
def test_a_pipeline_wastes_the_share_of_its_formula_and_hands_on_in_order(stages: int, micro: int) -> None:
    turns = drawings.turns_of(stages, micro)
    idle = sum(doing is None for row in turns for doing in row)
    assert idle / (stages * len(turns[0])) == pytest.approx((stages - 1) / (micro + stages - 1))
    for batch in range(micro):
        forward = [row.index(("forward", batch)) for row in turns]
        backward = [row.index(("backward", batch)) for row in turns]
        assert forward == sorted(set(forward)), "from the first stage to the last"
        assert backward[::-1] == sorted(set(backward)), "and back"
        assert max(forward) < min(backward)


def test_a_rank_keeps_what_the_stages_leave() -> None:
    svg = ET.fromstring(drawings.sharding_drawing(4).svg(key="k", alt="A drawing."))
    told = [element.text for element in svg.iter() if element.tag.endswith("}text")]
    assert [text for text in told if text and text[0].isdigit()] == ["16", "7", "5.5", "4"]


def test_all_stand_among_the_figures_of_the_page() -> None:
    page = Page("made")
    for show in (drawings.show_ring, drawings.show_overlap, drawings.show_sharding, drawings.show_tensor):
        assert show(page).on_page is not None
    assert drawings.show_pipeline(page).on_page is not None
    assert [record.kind for record in page.records[-5:]] == ["figure"] * 5
