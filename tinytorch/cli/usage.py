"""Parts that all commands share: their error, their parser, and checks of options."""

import argparse
from pathlib import Path
from typing import NoReturn


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
    """Raise UsageError if ``path`` is in a folder that does not exist, so that nothing runs in vain."""
    if path and not Path(path).absolute().parent.is_dir():
        raise UsageError(f"--{option} {path} is in a folder that does not exist")


def check_batch(option: str, batch: int, one: int) -> None:
    """Raise UsageError if memory does not hold ``batch`` inputs of at least ``one`` byte each, before they are made."""
    from tinytorch.perf.host.cgroup_limits import free_memory

    if batch * one > free_memory():
        raise UsageError(f"{option} {batch} needs more memory than there is: give a smaller one")


def add_matters(parser: argparse.ArgumentParser, default: float) -> None:
    """Add the option of the relative difference that matters, in per cent; `share` reads it."""
    parser.add_argument(
        "--matters",
        type=float,
        default=100 * default,
        metavar="PERCENT",
        help=f"difference of times that matters (default {100 * default:g})",
    )


def share(percent: float) -> float:
    """Return ``percent`` as a share, or raise UsageError."""
    if not percent >= 0:
        raise UsageError(f"--matters must be at least 0, such as 2 for two per cent, not {percent:g}")
    return percent / 100


def sizes(option: str, text: str) -> tuple[int, ...]:
    """Return whole numbers from text such as "1,28,28", or raise UsageError that names the option."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} must be whole numbers and commas, such as 1,28,28, not {text!r}") from None
