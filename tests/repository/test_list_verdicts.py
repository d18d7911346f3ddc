"""The list of a book's verdicts: what is counted, what share is open, and what no measurement could turn."""

import json
from pathlib import Path

import pytest

from scripts.list_verdicts import counted, main, verdicts_of
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.prose import Ends
from tinytorch.report import Page
from tinytorch.report.records import Json, page_file
from tinytorch.report.tables import Column

TIME = Measurement("a run", (1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 1.02, 0.98), "s")
COUNT = Measurement("bytes", (4096.0,), "B")


def ends(end: float) -> dict[str, tuple[Ends | None, str]]:
    """Return texts of what lies above and below an end."""
    return {"slow": ((end, None), ""), "quick": ((None, end), ""), "open": (None, "")}


def records() -> Json:
    """Return the records of a page with each outcome but one that was withheld, of which two are fixed."""
    page = Page("folder/page")
    page.number("time", TIME)
    page.number("bytes", 4096, unit="B", what="bytes")
    page.decide({"count": COUNT}, "count", {"few": ((None, 8192), ""), "many": ((8192, None), "")}, "few-bytes")
    page.decide({"time": TIME}, "time", ends(0.1), "slow")
    page.decide({"time": TIME}, "time", ends(1.0), "near-one")
    page.test("counted", COUNT, at_most=8192)
    page.test("open", TIME, above=1.0)
    rows = [{"what": "same", "verdict": compare_paired([1.0, 1.001] * 10, [1.001, 1.0] * 10, 0.05)}]
    rows += [{"what": "base", "verdict": None}, {"what": "other", "verdict": Verdict.WITHHELD}]
    page.table("gains", rows, [Column("what", "What"), Column("verdict", "Verdict", judged=True)], caption="Gains")
    return page_file(page.name, page.records)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    file = site / "_records" / "folder" / "page.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(records()), "utf-8")
    return site


def test_each_verdict_is_listed_with_what_it_comes_to(site: Path) -> None:
    listed = {(one.key, one.kind, one.outcome, one.fixed) for one in verdicts_of(site)}
    assert listed == {
        ("few-bytes", "verdict", "decided", True),
        ("slow", "verdict", "decided", False),
        ("near-one", "verdict", "open", False),
        ("counted", "claim", "decided", True),
        ("open", "claim", "open", False),
        ("gains", "table", "no difference", False),
        ("gains", "table", "withheld", False),
    }
    assert {one.page for one in verdicts_of(site)} == {"folder/page"}
    words = {one.key: one.words for one in verdicts_of(site) if one.kind != "table"}
    assert words["near-one"].startswith("open, between 0.9")
    assert words["counted"] == "supported"


def test_what_is_fixed_is_in_no_count_and_is_printed_last(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listed = list(verdicts_of(site))
    assert counted(listed) == (
        "5 verdicts: 1 decided, 1 no difference, 2 open, 1 withheld. Open: 40.0%. Counted besides, in no share: 2."
    )
    assert counted([one for one in listed if one.fixed]).startswith("No verdict that a measurement could turn.")
    assert main([str(site)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[3] for line in lines[-3:-1]] == ["counted", "counted"]
    assert lines[-1] == counted(listed)
