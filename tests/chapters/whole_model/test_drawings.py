"""Drawings of a whole model are true to what they show."""

from __future__ import annotations

import re

from tests.chapters.made_turns import records
from tinytorch.chapters.whole_model import drawings
from tinytorch.report import Page


def test_what_is_left_is_shorter_by_what_the_part_gained() -> None:
    svg = drawings.amdahl_bar(0.5, 5.0).svg(key="amdahl", alt="Two bars.")
    part, rest, less, same = (float(width) for width in re.findall(r'<rect[^>]* width="([\d.]+)"', svg))
    assert part == rest == same
    assert less == part / 5


def test_each_drawing_has_words_for_those_who_do_not_see_it() -> None:
    page = Page("whole_model")
    drawings.show_fusion(page)
    drawings.show_amdahl(page)
    drawings.show_calls(page)
    said = records(page)
    assert all(said[key]["alt"] for key in ("fusion", "amdahl", "calls"))
