"""Drawings of the page on compression: what they show is what the formats hold."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from scipy.sparse import csr_array

from tinytorch.chapters.compression import drawings
from tinytorch.report import Drawing, Page, color

SVG = "{http://www.w3.org/2000/svg}"


def drawn(drawing: Drawing) -> ET.Element:
    return ET.fromstring(drawing.svg(key="d", alt="a drawing"))


def words(drawing: Drawing) -> list[str]:
    return [str(text.text) for text in drawn(drawing).iter(f"{SVG}text")]


def test_sparse_rows_are_those_of_scipy() -> None:
    matrix = csr_array(np.array(drawings.SMALL))
    said = words(drawings.csr_drawing())
    for name, numbers in (("values", matrix.data), ("inputs", matrix.indices), ("starts", matrix.indptr)):
        first = said.index(name) + 1
        assert said[first : first + len(numbers)] == [str(number) for number in numbers]


def test_each_pattern_keeps_half_of_the_weight() -> None:
    fills = [rect.get("fill") for rect in drawn(drawings.patterns_drawing()).iter(f"{SVG}rect")]
    kept = np.array([fill == color("pruned") for fill in fills]).reshape(3, 8, 8)
    assert kept.sum(axis=(1, 2)).tolist() == [32, 32, 32]
    assert (kept[1].reshape(8, 2, 4).sum(axis=2) == 2).all(), "two of each four neighbours"
    assert (kept[2] == kept[2][0]).all(), "whole columns"


def test_a_softer_answer_is_more_even() -> None:
    tinted = [rect for rect in drawn(drawings.distillation_drawing()).iter(f"{SVG}rect") if rect.get("width") == "24"]
    heights = np.array([float(rect.get("height") or 0) for rect in tinted]).reshape(2, 3) / 34
    for row, heat in zip(heights, (1, 3), strict=True):
        expected = np.exp(np.array([4, 2, 0]) / heat)
        assert row == pytest.approx(expected / expected.sum(), abs=1e-3)


@pytest.mark.parametrize(
    "show", [drawings.show_patterns, drawings.show_csr, drawings.show_low_rank, drawings.show_distillation]
)
def test_each_is_a_figure_of_the_page(show: Callable[[Page], None]) -> None:
    page = Page("compression")
    show(page)
    assert page.records[-1].kind == "figure"
