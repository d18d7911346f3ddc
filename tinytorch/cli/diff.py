"""``tinytorch diff``: what got faster and slower between two profiles of repeated runs, with an exit code."""

import argparse
import sys
from html import escape

from tinytorch.cli.compare import REGRESSION
from tinytorch.cli.usage import Parser, add_matters, check_above_zero, check_folder, share
from tinytorch.perf.events.call_tree import Frame
from tinytorch.perf.events.trace import NOT_NAMED, stack_text
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.profiling.repeated import (
    MATTERS,
    REPEATED,
    Change,
    ProfileChange,
    RepeatedProfile,
    compare_profiles,
    tree_of,
)
from tinytorch.report import tables
from tinytorch.report.flame_graph import SCRIPT, STYLE, boxes_html, flame_boxes
from tinytorch.report.standalone import standalone_page
from tinytorch.report.tables import Column

_COLUMNS = (
    Column("name", "what"),
    Column("base", "base"),
    Column("new", "new"),
    Column("speedup", "speedup"),
    Column("verdict", "the new one is"),
)
#: What a stack's colour says where it is neither faster nor slower.
_LOOKS = {Verdict.OPEN: "open", Verdict.WITHHELD: "open", Verdict.NO_DIFFERENCE: "the same"}


def add(diff: Parser) -> None:
    """Add the command's options to its parser."""
    diff.add_argument(
        "base", metavar="BASE", help="profile of the older version, saved with `tinytorch profile --save`"
    )
    diff.add_argument("new", metavar="NEW", help="profile of the newer version")
    diff.add_argument("--html", metavar="FILE", help="write the tables and a flame graph to an HTML file")
    diff.add_argument(
        "--limit", type=int, default=10, metavar="N", help="number of operations and of modules to show (default 10)"
    )
    add_matters(diff, MATTERS)
    diff.set_defaults(run=_run)


def _run(chosen: argparse.Namespace) -> int:
    check_above_zero(chosen, "limit")
    check_folder("html", chosen.html)
    (base, base_machine), (new, new_machine) = REPEATED.read(chosen.base), REPEATED.read(chosen.new)
    machines = (str(base_machine), str(new_machine))
    found = compare_profiles(base, new, share(chosen.matters), machines)
    for warning in found.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    caption, limit = _caption(chosen.matters), chosen.limit
    ops = (found.whole, *found.ops[:limit])
    for title, changes in (("operation", ops), ("module or region", found.layers[:limit])):
        if changes:
            print(tables.to_text(_rows(changes), _COLUMNS, caption=f"By {title}. {caption}"))
            print()
    for name, missing in (("new", found.only_base), ("base", found.only_new)):
        if missing:
            print(f"not compared, because the {name} profile does not have it: {', '.join(missing)}")
    for change in found.slower:
        ends = change.speedup.interval
        print(f"slower: {change.name}, {ends.low:.3f} to {ends.high:.3f} of its speed")
    if not found.slower:
        print("nothing is proven to be slower")
    if chosen.html:
        write_whole(chosen.html, html_diff(base, new, machines, found, chosen.matters))
    return REGRESSION if found.slower else 0


def _caption(percent: float) -> str:
    matter = f"what matters is a difference of {percent:g} % or more"
    return f"A speedup above 1 is faster; {matter}. Verdicts hold together with 95 %."


def _rows(changes: tuple[Change, ...]) -> list[dict[str, object]]:
    names = ("name", "base", "new", "speedup", "verdict")
    cells = ((one.name, one.base, one.new, one.speedup.estimate, str(one.speedup)) for one in changes)
    return [dict(zip(names, each, strict=True)) for each in cells]


def html_diff(
    base: RepeatedProfile, new: RepeatedProfile, machines: tuple[str, str], found: ProfileChange, percent: float
) -> str:
    """Return the comparison as one page: tables, and a flame graph of the new runs coloured by verdicts."""
    known = {change.name: change for change in found.stacks}

    def look(names: tuple[str, ...], _frame: Frame) -> tuple[str, str]:
        change = known.get(stack_text(names) if names else NOT_NAMED)
        if change is None:
            return "the same" if not _frame.self_ns else "only one", ""
        times = f"{change.base.median * 1e3:.4g} ms before, {change.new.median * 1e3:.4g} ms now"
        verdict = change.speedup.verdict
        return _LOOKS.get(verdict, verdict.value), f"in itself {times}: {change.speedup}"

    flames = boxes_html(flame_boxes(tree_of(new.stacks), look), key="flames", label="Differential flame graph")
    said = [*found.warnings, f"base: {base.name}, {machines[0]}", f"new: {new.name}, {machines[1]}"]
    said += [f"only in the base: {', '.join(found.only_base)}"] if found.only_base else []
    said += [f"only in the new one: {', '.join(found.only_new)}"] if found.only_new else []
    parts = ["".join(f"<p>{escape(sentence)}</p>" for sentence in said)]
    for title, changes in (("Operations", (found.whole, *found.ops)), ("Modules and regions", found.layers)):
        if changes:
            table = tables.to_html(_rows(changes), _COLUMNS, caption=_caption(percent), key=title.split()[0].lower())
            parts.append(f"<h2>{title}</h2>\n{table}")
    parts.append(
        "<h2>Flame graph</h2>\n<p>Widths are median times of the new runs; blue got faster in itself, orange slower, "
        f"pale grey cannot be told, and rose is only in the new ones.</p>\n{flames}"
    )
    return standalone_page("What got faster and slower", "\n".join(parts), style=STYLE, script=SCRIPT)
