"""``tinytorch report``: files of results as a page, or as Markdown."""

import argparse

from tinytorch.cli.benchmark_report import html_report, markdown_report
from tinytorch.cli.usage import Parser, UsageError, check_folder
from tinytorch.perf.benchmarking import load_results
from tinytorch.perf.measuring.atomic_io import write_whole


def add(report: Parser) -> None:
    """Add the command's options to its parser."""
    report.add_argument("files", nargs="+", metavar="FILE", help="what `tinytorch bench --json` wrote")
    report.add_argument("--html", metavar="OUT", help="write a page of HTML that needs no other file")
    report.add_argument("--markdown", metavar="OUT", help="write Markdown")
    report.set_defaults(run=_run)


def _run(chosen: argparse.Namespace) -> None:
    if not chosen.html and not chosen.markdown:
        raise UsageError("--html OUT or --markdown OUT must say what to write")
    for option in ("html", "markdown"):
        check_folder(option, getattr(chosen, option))
    results = [load_results(path) for path in chosen.files]
    if chosen.html:
        write_whole(chosen.html, html_report(results))
    if chosen.markdown:
        write_whole(chosen.markdown, markdown_report(results))
