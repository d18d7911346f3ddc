"""Mathematics becomes MathML, or the build says why not."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from measured_book.site.math import MathError, to_mathml

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
        (r"\text{FLOPs} = 2mnk", "mtext"),
    ],
)
def test_what_the_book_needs(latex: str, element: str) -> None:
    root = ET.fromstring(to_mathml(latex, block=True))
    assert root.tag == f"{NAMESPACE}math"
    assert root.get("display") == "block"
    assert root.get("alttext") == latex
    assert root.find(f".//{NAMESPACE}{element}") is not None


def test_within_a_line_it_is_inline() -> None:
    assert ET.fromstring(to_mathml("n < m", block=False)).get("display") == "inline"


@pytest.mark.parametrize("latex", [r"\nosuchcommand", r"x_{1", r"\frac{a}", r"a & b"])
def test_what_cannot_be_written_is_said(latex: str) -> None:
    with pytest.raises(MathError, match="cannot write"):
        to_mathml(latex, block=False)
