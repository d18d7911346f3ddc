"""What the first build of the book on a fresh machine takes, by part.

    python -m benchmarks.build_parts

Clones the last commit into an empty folder and runs `make book` there as its very first command, environment included.
The target is at most eight minutes on two cores.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
TARGET_SECONDS = 8 * 60


def main() -> int:
    """Print the parts and the whole; return 1 if the whole takes longer than the target, or the build fails."""
    with tempfile.TemporaryDirectory(prefix="first-build-") as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        start = time.monotonic()
        code = subprocess.run(["make", "book"], cwd=clone, check=False).returncode
        whole = time.monotonic() - start
        if code != 0:
            return 1
        parts: dict[str, float | None] = json.loads((clone / "_build" / "parts.json").read_text("utf-8"))
    table = Table("part", "seconds")
    for name, seconds in parts.items():
        table.add_row(name, "–" if seconds is None else f"{seconds:.1f}")
    table.add_row("all, by the clock", f"{whole:.1f}")
    Console(width=110).print(table, f"at most {TARGET_SECONDS} s are right")
    return 1 if whole > TARGET_SECONDS else 0


if __name__ == "__main__":
    sys.exit(main())
