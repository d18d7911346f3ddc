"""Which scripts `make bench` runs, and what the one that counts verdicts takes for a miss."""

import re
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.verdict_rules import FOLKLORE, NamedRule, ours
from benchmarks.verdicts import SLOWER, Counts, misses, workloads
from scripts import run_benchmarks


def test_each_script_is_run_once_in_order_and_one_that_fails_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    for name, code in (("first", 3), ("second", 0), ("third", 1)):
        lines = f"import sys\nif __name__ == \"__main__\":\n    print('ran {name}')\n    sys.exit({code})\n"
        (folder / f"{name}.py").write_text(lines)
    (folder / "notes.md").write_text('__name__ == "__main__"')
    (folder / "shared.py").write_text("print('ran shared')\n")
    monkeypatch.setattr(run_benchmarks, "ROOT", tmp_path)
    assert run_benchmarks.main() == 1
    said = capfd.readouterr()
    assert re.findall(r"ran (\w+)", said.out) == ["first", "second", "third"]
    assert re.findall(r"benchmarks\.(\w+)", said.err.splitlines()[-1]) == ["first", "third"]


@pytest.mark.parametrize(
    ("judge", "tool", "source", "missed"),
    [
        ((6, 90), (6, 90), "a tool", 0),
        ((7, 90), (0, 0), "a tool", 3),  # on each workload
        ((6, 89), (0, 0), "a tool", 1),
        ((6, 90), (6, 91), "a tool", 1),
        ((6, 90), (7, 91), "a tool", 0),
        ((6, 90), (6, 91), FOLKLORE, 0),
    ],
)
def test_a_miss_is_too_many_false_verdicts_too_few_found_or_a_tool_that_finds_more_with_as_few(
    judge: tuple[int, int], tool: tuple[int, int], source: str, missed: int
) -> None:
    counts = {}
    for name, (alarms, found) in (("ours", judge), ("tool", tool)):
        own = {one: Counter({1: found if one == SLOWER else alarms}) for one in workloads()}
        counts[name] = Counts(own, own)
    rules = [NamedRule("ours", "this package", ours), NamedRule("tool", source, ours)]
    assert len(misses(rules, counts, 100)) == missed
