"""Mathematics becomes MathML, or the build says why not."""

from xml.etree import ElementTree as ET

import pytest
from measured_book.site.math import MathError, line_parts, lines_html, to_mathml

NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"


@pytest.mark.parametrize(
    ("latex", "element"),
    [
        (r"\frac{a}{b}", "mfrac"),
        (r"x_{1}^{2}", "msubsup"),
        (r"\sqrt{d}", "msqrt"),
        (r"\begin{pmatrix}1 & 2\\3 & 4\end{pmatrix}", "mtable"),
        (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "mtable"),
        (r"a &= b \\ c &= d", "mtable"),
        (r"\operatorname{softmax}(QK^\top)", "msup"),
    ],
)
def test_what_the_book_needs(latex: str, element: str) -> None:
    root = ET.fromstring(to_mathml(latex, block=True))
    assert root.tag == f"{NAMESPACE}math"
    assert root.get("display") == "block"
    assert ET.fromstring(to_mathml("n < m", block=False)).get("display") == "inline"
    assert root.get("alttext") == latex
    assert root.find(f".//{NAMESPACE}{element}") is not None


def test_words_are_names_beside_which_a_sign_keeps_its_space() -> None:
    root = ET.fromstring(to_mathml(r"\text{all bytes} + \text{B} \longrightarrow 0", block=True))
    names = [(each.text, each.get("mathvariant")) for each in root.iter(f"{NAMESPACE}mi")]
    assert names == [("all\xa0bytes", None), ("B", "normal")]
    assert [each.text for each in root.iter(f"{NAMESPACE}mo")] == ["+", "⟶"]
    assert root.find(f".//{NAMESPACE}mtext") is None


@pytest.mark.parametrize("latex", [r"\nosuchcommand", r"x_{1", r"\frac{a}", r"a & b"])
def test_what_cannot_be_written_is_said(latex: str) -> None:
    with pytest.raises(MathError, match="cannot write"):
        to_mathml(latex, block=False)
    with pytest.raises(MathError, match="cannot write"):
        lines_html(f"a = {latex}")


@pytest.mark.parametrize(
    "marked",
    [
        "s = r",
        r"f(x = y) ¦+ \text{what is long enough for two lines} ¦- z",
        r"\frac{a = b}{c} ¦= -\text{what is long enough} ¦\text{ in words}",
        r"L_\text{one that is long} ¦= x^{-1}\Bigl[a ¦- b\Bigr]",
    ],
)
def test_a_line_may_begin_with_a_sign_outside_of_all_brackets(marked: str) -> None:
    assert [part for part, _ in line_parts(marked.replace("¦", ""))] == [part.strip() for part in marked.split("¦")]


def test_of_a_long_formula_the_outer_brackets_do_not_stretch() -> None:
    words = r"\text{what is too long for a phone's line}"
    parts = [part for part, _ in line_parts(rf"\left(1 + \left(2 - 1\right) \cdot {words}\right)")]
    assert parts == [r"\Bigl(1", rf"+ \left(2 - 1\right) \cdot {words}\Bigr)"]


def test_formulas_side_by_side_are_apart_and_signs_at_the_begin_of_a_line_no_prefixes() -> None:
    parts = [("a = 1,", False), (r"\text{and}", True), ("b = 2", True)]
    assert line_parts(r"a = 1, \qquad\text{and}\qquad b = 2") == parts
    assert lines_html(r"a = 1, \qquad b = 2").count('<span class="side">') == 2
    html = lines_html(r"a - \text{what is long enough for two lines}")
    assert html.count("<math ") == 2
    assert html.count('<mo form="infix">') == 1
    assert html.count("<wbr>") == 1
    assert '<mo form="infix">' in lines_html("= b")
    assert '<mo form="infix">' not in lines_html("-b")


@pytest.mark.parametrize(
    ("latex", "kind", "cells"),
    [
        (r"\begin{aligned} a &= b \\ &= c + d \end{aligned}", "aligned", 4),
        (r"\begin{array}{lll} a & b & \text{some words} \\ c & d & e \end{array}", "columns-3", 6),
    ],
)
def test_rows_of_formulas_are_a_grid(latex: str, kind: str, cells: int) -> None:
    html = lines_html(latex)
    assert f'class="math-rows {kind}"' in html
    assert html.count('class="math-row"') == 2
    assert html.count("<span>") == cells
    assert ("<span>some words</span>" in html) == (kind == "columns-3")


@pytest.mark.parametrize(
    "latex",
    [r"\begin{aligned} a &= b \\ c \end{aligned}", r"a &= b \\ c &= d", r"\begin{pmatrix}1 & 2\\3 & 4\end{pmatrix}"],
)
def test_what_is_no_grid_stays_whole(latex: str) -> None:
    assert lines_html(latex) == to_mathml(latex, block=True)
