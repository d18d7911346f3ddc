"""``tinytorch compare``: whether a new run is better or worse than a base, with an exit code."""

import argparse
import sys

from tinytorch.cli.usage import Parser, add_matters, share
from tinytorch.perf.benchmarking import load_results
from tinytorch.perf.benchmarking.performance import MATTERS, Change
from tinytorch.perf.benchmarking.results import ResultsChange, compare_results
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.report import tables
from tinytorch.report.numbers import format_number
from tinytorch.report.tables import Column

#: Exit code of a proven regression.
REGRESSION = 1


def add(compare: Parser) -> None:
    """Add the command's options to its parser."""
    compare.add_argument("base", metavar="BASE", help="result file of the older version, from `tinytorch bench --json`")
    compare.add_argument("new", metavar="NEW", help="result file of the newer version")
    add_matters(compare, MATTERS)
    compare.set_defaults(run=_run)


def _run(chosen: argparse.Namespace) -> int:
    matters = share(chosen.matters)
    changed = compare_results(load_results(chosen.base), load_results(chosen.new), matters)
    for warning in changed.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    rows, columns = change_rows(changed)
    caption = (
        "A speedup above 1 is faster. All intervals of times together hold with 95 % confidence; "
        f"a difference of {chosen.matters:g} % or more matters."
    )
    print(tables.to_text(rows, columns, caption=caption))
    for name, missing in (("new", changed.only_base), ("base", changed.only_new)):
        if missing:
            print(f"not compared, because the {name} run does not have it: {', '.join(missing)}")
    for sentence in changed.regressions:
        print(f"regression: {sentence}")
    if not changed.regressions:
        print("no proven regression")
    return REGRESSION if changed.regressions else 0


def change_rows(changed: ResultsChange) -> tuple[list[dict[str, object]], list[Column]]:
    """Return rows and columns of two runs' comparison: each variant and batch size, then the geometric mean."""
    labels = {"name": "variant", "batch": "batch", "speedup": "speedup", "verdict": "the new one is"}
    columns = [Column(key, label) for key, label in labels.items()]
    rows = [
        _speed_row(name, str(size), speedup)
        | {
            "memory": f"{change.memory}, {format_number(1 - 1 / float(change.memory), '%')} saved",
            "accuracy": _accuracy_words(change),
        }
        for name, change in changed.changes.items()
        for size, speedup in change.speedups.items()
    ]
    rows.append(_speed_row("geometric mean", "all", changed.geometric_mean) | {"memory": None, "accuracy": None})
    return rows, [*columns, Column("memory", "memory"), Column("accuracy", "accuracy")]


def _speed_row(name: str, batch: str, speedup: Comparison) -> dict[str, object]:
    return {"name": name, "batch": batch, "speedup": speedup.estimate, "verdict": str(speedup)}


def _accuracy_words(change: Change) -> str | None:
    if change.accuracy is None:
        return None
    ends = (change.accuracy.interval.low, change.accuracy.interval.high)
    return f"{change.accuracy}, {format_number(float(change.accuracy), 'points', ends=ends).cell_with_interval}"
