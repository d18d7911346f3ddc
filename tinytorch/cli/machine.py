"""``tinytorch machine``: what this machine is, and what it can do at most."""

from __future__ import annotations

import argparse
import json

from tinytorch.cli.usage import Commands, check_folder
from tinytorch.perf.whole_files import write_whole
from tinytorch.report.machine_listing import examine, print_examination


def add(commands: Commands) -> None:
    """Add the command's options to the command line."""
    machine = commands.add_parser("machine", help="show what this machine is, and what it can do at most")
    machine.add_argument("--refresh", action="store_true", help="measure anew what is kept from an earlier run")
    machine.add_argument("--json", metavar="FILE", help="write everything as JSON")
    machine.set_defaults(run=_run)


def _run(chosen: argparse.Namespace) -> None:
    check_folder("json", chosen.json)
    examined = examine(refresh=chosen.refresh)
    if chosen.json:
        write_whole(chosen.json, json.dumps(examined.to_json(), allow_nan=False))
    print_examination(examined)
