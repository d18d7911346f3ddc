"""The command line: a thin edge that reads arguments, calls the instruments, and prints; a file for each command."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version

from tinytorch.cli import bench, compare, diff, links, machine, measure, profile, report
from tinytorch.cli.usage import Parser, UsageError, sentence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, the command's own, or 2 with one sentence on stderr.

    `compare` and `diff` have 1 for a proven regression, `profile` the code of a script, `measure --check` 1 for a file
    that cannot be used; an interruption is 130.
    """
    own, behind = profile.own_part(sys.argv[1:] if arguments is None else arguments)
    chosen = _parser().parse_args(own)
    if behind:
        chosen.arguments = behind
    code = 0
    try:
        code = chosen.run(chosen) or 0
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (UsageError, ValueError, TypeError, LookupError, RuntimeError, OSError) as error:
        print(f"tinytorch {chosen.command}: {sentence(error)}", file=sys.stderr)
        return 2
    return code


def _parser() -> Parser:
    parser = Parser(prog="tinytorch", description="Instruments for the performance of models.")
    parser.add_argument("--version", action="version", version=f"tinytorch {version('tinytorch')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (profile, diff, machine, bench, compare, report, measure, links):
        command.add(commands)
    return parser
