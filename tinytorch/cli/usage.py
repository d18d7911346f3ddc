"""Parts that all commands share: their error, their parser, and checks of options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

#: Exit code after an interruption, as shells have it: 128 and the number of the signal.
INTERRUPTED = 130


class UsageError(Exception):
    """Error of a command that cannot be done; the message is one sentence that says why."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the usage around it."""

    def error(self, message: str) -> NoReturn:
        """Leave with exit code 2 and the sentence on stderr."""
        self.exit(2, f"{self.prog}: {message}\n")


def sentence(error: BaseException) -> str:
    """Return an error's message on one line; of a file that the system refuses, the file first."""
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def check_folder(option: str, path: str | None) -> None:
    """Raise UsageError if ``path`` is a folder, or in one that does not exist, so that nothing runs in vain."""
    if path and not Path(path).absolute().parent.is_dir():
        raise UsageError(f"--{option} {path} is in a folder that does not exist")
    if path and Path(path).is_dir():
        raise UsageError(f"--{option} {path} is a folder: give the name of a file")


def check_above_zero(chosen: argparse.Namespace, *options: str) -> None:
    """Raise UsageError if one of these options, whole numbers, was given and is below 1."""
    for option in options:
        value = getattr(chosen, option)
        if value is not None and value < 1:
            raise UsageError(f"--{option.replace('_', '-')} must be at least 1, not {value}")


def progress(*columns: ProgressColumn) -> Progress:
    """Return what a terminal sees of how far a task is, a log nothing; it is drawn when it is told, never by itself.

    A thread that draws by itself would run beside what is measured.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    shown = (TextColumn("{task.description}"), BarColumn(), *columns, TimeElapsedColumn())
    return Progress(*shown, console=console, transient=True, auto_refresh=False, disable=not console.is_terminal)


def check_batch(option: str, batch: int, one: int) -> None:
    """Raise UsageError if memory does not hold ``batch`` inputs of at least ``one`` byte each, before they are made."""
    from tinytorch.perf.host.cgroup_limits import free_memory

    if batch * one > free_memory():
        raise UsageError(f"{option} {batch} needs more memory than is free: give a smaller number")


def add_matters(parser: argparse.ArgumentParser, default: float) -> None:
    """Add the option of the relative difference that matters, in per cent; `share` reads it."""
    parser.add_argument(
        "--matters",
        type=float,
        default=100 * default,
        metavar="PERCENT",
        help=f"smallest relative difference in time that counts as a change, in per cent (default {100 * default:g})",
    )


def share(percent: float) -> float:
    """Return ``percent`` as a share, or raise UsageError."""
    if not percent >= 0:
        raise UsageError(f"--matters must be a percentage of 0 or more, such as 2 for 2 %, not {percent:g}")
    return percent / 100


def sizes(option: str, text: str) -> tuple[int, ...]:
    """Return whole numbers from text such as "1,28,28", or raise UsageError that names the option."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} must be whole numbers and commas, such as 1,28,28, not {text!r}") from None
