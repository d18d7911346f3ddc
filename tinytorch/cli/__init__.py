"""The command line: a thin edge that reads arguments, calls the instruments, and prints; a file for each command."""

import argparse
import io
import os
import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version

from tinytorch.cli.usage import Parser, UsageError, sentence

#: The commands, and what each does.
_COMMANDS = {
    "profile": "show where a script or a model spends its time",
    "diff": "compare two saved profiles (exit code 1 if there is a proven regression)",
    "machine": "show the hardware of this machine, and its measured peak FLOP/s and memory bandwidth",
    "bench": "measure the time, throughput, memory and accuracy of models",
    "compare": "compare two result files of `tinytorch bench` (exit code 1 if there is a proven regression)",
    "report": "write an HTML or Markdown report of result files of `tinytorch bench`",
    "measure": "run the measurements of the book's pages, and save the results for the page “Your machine”",
    "links": "measure the latency and bandwidth of messages and collectives between MPI ranks (starts ranks on this "
    "machine unless mpiexec or a scheduler has already started them)",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, the command's own, or 2 with one sentence on stderr.

    `compare` and `diff` have 1 for a proven regression, `profile` the code of a script, `measure --check` 1 for a file
    that cannot be used; an interruption is 130.
    """
    own, behind = list(sys.argv[1:] if arguments is None else arguments), list[str]()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a character that the terminal does not have costs no table
            stream.reconfigure(errors="backslashreplace")
    parser = Parser(prog="tinytorch", description="Measure the performance of machine-learning programs.")
    parser.add_argument("--version", action="version", version=f"tinytorch {version('tinytorch')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parsers = {name: commands.add_parser(name, help=what) for name, what in _COMMANDS.items()}
    if own and own[0] in parsers:
        given = set(os.environ)
        command = import_module(f"tinytorch.cli.{own[0]}")  # what the others import would be waited for in vain
        for name in set(os.environ) - given:  # threadpoolctl sets one: a program that we start is to have the caller's
            del os.environ[name]
        command.add(parsers[own[0]])
        if own[0] == "profile":
            own, behind = command.own_part(own)
    chosen = parser.parse_args(own, argparse.Namespace(line=shlex.join(["tinytorch", *own, *behind])))
    if behind:
        chosen.arguments = behind
    code = 0
    try:
        code = chosen.run(chosen) or 0
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    # No KeyError: that is a fault of ours, of which its one word would say nothing.
    except (UsageError, ValueError, TypeError, IndexError, RuntimeError, OSError) as error:
        print(f"tinytorch {chosen.command}: {sentence(error)}", file=sys.stderr)
        return 2
    return code
