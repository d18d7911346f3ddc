"""``tinytorch compare``: whether a new run is better or worse than a base, with an exit code."""

import argparse
import sys

from tinytorch.cli.benchmark_report import change_rows
from tinytorch.cli.usage import Parser, add_matters, share
from tinytorch.perf.benchmarking import load_results
from tinytorch.perf.benchmarking.performance import MATTERS
from tinytorch.perf.benchmarking.results import compare_results
from tinytorch.report import tables

#: Exit code of a proven regression.
REGRESSION = 1


def add(compare: Parser) -> None:
    """Add the command's options to its parser."""
    compare.add_argument("base", metavar="BASE", help="results of the older version")
    compare.add_argument("new", metavar="NEW", help="results of the newer version")
    add_matters(compare, MATTERS)
    compare.set_defaults(run=_run)


def _run(chosen: argparse.Namespace) -> int:
    matters = share(chosen.matters)
    changed = compare_results(load_results(chosen.base), load_results(chosen.new), matters)
    for warning in changed.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    rows, columns = change_rows(changed)
    caption = (
        "A speedup above 1 is faster. All intervals of times together hold with 95 %; "
        f"what matters is a difference of {chosen.matters:g} % or more."
    )
    print(tables.to_text(rows, columns, caption=caption))
    for name, missing in (("new", changed.only_base), ("base", changed.only_new)):
        if missing:
            print(f"not in the {name} run, and not compared: {', '.join(missing)}")
    for sentence in changed.regressions:
        print(f"regression: {sentence}")
    if not changed.regressions:
        print("no regression is proven")
    return REGRESSION if changed.regressions else 0
