"""``tinytorch history``: a folder of results as a page of numbers over time, with the changes marked."""

from __future__ import annotations

import argparse
from pathlib import Path

from tinytorch.cli.usage import Commands, UsageError, check_folder
from tinytorch.perf.benchmarking.history import history_of
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.report.history_report import html_history


def add(commands: Commands) -> None:
    """Add the command's options to the command line."""
    history = commands.add_parser("history", help="show results in a folder over time, and which commit moved what")
    history.add_argument("folder", metavar="FOLDER", help="files that `tinytorch bench --json` wrote, any depth")
    history.add_argument("--html", metavar="OUT", required=True, help="the page to write")
    history.set_defaults(run=_run)


def _run(chosen: argparse.Namespace) -> None:
    check_folder("html", chosen.html)
    if not Path(chosen.folder).is_dir():
        raise UsageError(f"FOLDER must be a folder of results, but {chosen.folder} is none")
    made = history_of(Path(chosen.folder))
    write_whole(chosen.html, html_history(made))
    print("\n".join(made.sentences()) or "no change is proven")
