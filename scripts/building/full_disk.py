"""A full disk: whether it is what ended a build, and the sentence that says what to free."""

import errno
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

#: With less than so many free bytes on a disk no build gets by; a folder of less is not worth removing.
LEAST = 2**20
#: How errors that come as text say it.
_SAID = ("No space left", "disk is full", "Disk quota", f"OSError({errno.ENOSPC},", f"OSError({errno.EDQUOT},")


class Disk(NamedTuple):
    """The disk that a folder is on: its number in the system, and the bytes that may still be written on it."""

    number: int
    free: int


def disk_of(folder: Path) -> Disk:
    """Return the disk of a folder."""
    found = os.statvfs(folder)
    return Disk(folder.stat().st_dev, found.f_frsize * (found.f_bavail if os.geteuid() else found.f_bfree))


def in_words(size: int) -> str:
    """Return a number of bytes with its unit, as a reader of sizes would: `0 B`, `15 kB`, `1.2 GB`."""
    amount = float(size)
    for unit in ("B", "kB", "MB"):
        if amount < 999.5:
            return f"{amount:.0f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def _removable(output: Path) -> list[str]:
    """Return the folders of what was built that are worth removing, each with its size, the largest first."""
    folders = [path for path in output.iterdir() if path.is_dir()]
    sizes = [(sum(each.lstat().st_size for each in path.rglob("*")), path.name) for path in folders]
    return [f"{output.name}/{name}: {in_words(size)}" for size, name in sorted(sizes, reverse=True) if size >= LEAST]


def full_disk(output: Path, said: str) -> str | None:
    """Return in one sentence what to free, if a full disk is what ended a build; else None.

    Args:
        output: the folder of what is built; its disk is looked at, and that of temporary files.
        said: what the build said at its end.
    """
    built = output if output.is_dir() else output.parent
    places = [(folder, disk_of(folder)) for folder in (built, Path(tempfile.gettempdir()))]
    full = [(folder, disk) for folder, disk in places if disk.free < LEAST]
    if not full and not any(words in said for words in _SAID):
        return None
    folder, disk = (full or places)[0]
    ours = _removable(output) if output.is_dir() and disk.number == places[0][1].number else []
    remove = f", or remove what a build makes anew ({', '.join(ours)}; all of it: `make clean`)" if ours else ""
    return f"The disk of {folder} is full, with {in_words(disk.free)} free: make space there{remove}, and build again."
