"""Which scripts `make bench` runs, and what the one that counts verdicts takes for a miss."""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.verdict_rules import FOLKLORE, NamedRule, ours
from benchmarks.verdicts import SLOWER, Counts, misses, workloads
from scripts import run_benchmarks
from scripts.run_benchmarks import find_benchmarks


def test_each_script_is_run_once_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    for name in ("training.py", "forward.py", "notes.md"):
        (folder / name).write_text('if __name__ == "__main__":\n    main()\n')
    (folder / "shared.py").write_text("LIMIT = 1\n")
    assert find_benchmarks(tmp_path) == ["benchmarks.forward", "benchmarks.training"]
    assert find_benchmarks(tmp_path / "elsewhere") == []


def test_one_that_fails_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    for name, code in (("first", 3), ("second", 0), ("third", 1)):
        lines = f"import sys\nif __name__ == \"__main__\":\n    print('ran {name}')\n    sys.exit({code})\n"
        (folder / f"{name}.py").write_text(lines)
    monkeypatch.setattr(run_benchmarks, "ROOT", tmp_path)
    assert run_benchmarks.main() == 1
    said = capfd.readouterr()
    assert all(f"ran {name}" in said.out for name in ("first", "second", "third"))
    last = said.err.strip().splitlines()[-1]
    assert "benchmarks.first" in last
    assert "benchmarks.third" in last
    assert "second" not in last


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
