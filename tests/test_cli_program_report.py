"""The report of a program: verdicts agree and have a remedy, shares sum to the run, and text stays text."""

import re

import numpy as np
import pytest
from bs4 import BeautifulSoup, Tag

from tests.perf.made_ceilings import made_ceilings
from tinytorch import Linear, Profiler, Tensor
from tinytorch.cli.program_report import REMEDIES, html_report
from tinytorch.core.activations import GELU
from tinytorch.perf.machine import store
from tinytorch.perf.measuring import blas_threads
from tinytorch.perf.profiling import region
from tinytorch.perf.roofline.bounds import WORDS, Bottleneck

pytestmark = pytest.mark.usefixtures("made_machine")


def cells(page: BeautifulSoup, key: str) -> list[list[str]]:
    """Return the text of each row of the body of a table."""
    rows = page.select(f"#table-{key} tbody tr")
    return [[cell.get_text(" ", strip=True) for cell in row.select("th, td")] for row in rows]


def section(page: BeautifulSoup, title: str) -> Tag:
    (found,) = [each for each in page.select("section") if each.h2 is not None and each.h2.get_text() == title]
    return found


def test_every_verdict_has_its_remedy_and_stands_the_same_in_each_section() -> None:
    # A word without a remedy would end `tinytorch profile --html` in a KeyError, after the program has run.
    assert set(REMEDIES) == set(Bottleneck)
    x = Tensor(np.ones((512, 512), np.float32))
    with blas_threads(1), Profiler() as p:
        GELU()(Linear(512, 512)(x) + x)
    page = BeautifulSoup(html_report("three ops", p, made_ceilings(threads=1)), "html.parser")
    in_operations = {row[0]: row[-1] for row in cells(page, "operations") if row[1] == "forward"}
    in_roofline = {row[0]: row[-2] for row in cells(page, "roofline")}
    in_remedies = {
        name: word
        for word, _, names in (term.get_text().partition(": ") for term in page.select("dl dt"))
        for name in names.split(", ")
    }
    assert set(in_operations) == {"linear", "add", "gelu"}
    assert in_operations == in_roofline == in_remedies


@pytest.mark.parametrize("regions", [3, 40])
def test_the_shares_shown_and_the_share_below_them_are_the_whole_run(regions: int) -> None:
    with blas_threads(1), Profiler() as p:
        for number in range(regions):
            with region(f"part {number}"):
                sum(range(2000))
    page = BeautifulSoup(html_report("regions", p, None), "html.parser")
    values = [float(str(cell["data-value"])) for cell in page.select("#table-operations tbody tr > :nth-child(3)")]
    caption = page.select_one("#table-operations caption")
    assert caption is not None
    below = re.search(r"left out take ([\d.]+)\s*%", caption.get_text())
    rows = len(p.attribution())
    assert len(values) == min(rows, 25)
    assert (below is not None) == (rows > 25)  # never "0.0% is below them" where nothing is
    assert sum(values) + (float(below[1]) / 100 if below else 0) == pytest.approx(1, abs=1e-3)


@pytest.mark.usefixtures("no_collector")
def test_names_stay_text_and_what_is_not_known_is_said_without_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "kept_ceilings", lambda threads=1: None)
    evil = "</script><b id='evil'>&amp;"
    with blas_threads(1), Profiler() as p, region(evil):
        Linear(8, 4)(Tensor([[1.0] * 8]))
    page = BeautifulSoup(html_report(evil, p, None), "html.parser")
    assert page.select("#evil") == []
    assert page.h1 is not None
    assert page.h1.get_text() == f"Profile of {evil}"
    assert evil in {row[0].strip() for row in cells(page, "operations")}
    assert len(page.select("script")) == 1
    for words in WORDS:
        assert words not in page.get_text()
    assert "what this machine can do is not known" in section(page, "Roofline").get_text()
    assert "no verdict" in section(page, "What each verdict calls for").get_text()
    assert "Memory was not recorded" in section(page, "Memory over time").get_text()
    with Profiler() as nothing:
        pass
    empty = BeautifulSoup(html_report("nothing", nothing, None), "html.parser")
    assert "Nothing ran" in section(empty, "Timeline").get_text()
