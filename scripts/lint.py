"""Linting by every tool, each to its end: `make lint` names at the end those that found something."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_PROGRAMS = Path(sys.executable).parent
#: Each tool by the name that it is told by.
TOOLS: Mapping[str, Sequence[str]] = {
    "ruff check": (f"{_PROGRAMS / 'ruff'}", "check", "."),
    "ruff format": (f"{_PROGRAMS / 'ruff'}", "format", "--check", "."),
    "mypy": (f"{_PROGRAMS / 'mypy'}",),
    "pages": (sys.executable, "-m", "scripts.check_pages"),
    "imports": (f"{_PROGRAMS / 'lint-imports'}",),
    "codespell": (f"{_PROGRAMS / 'codespell'}",),
}


def main() -> int:
    """Lint the checkout; return 1 if any tool failed."""
    folders = [str(ROOT / "book" / "_ext"), str(ROOT / "book" / "_checks")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    failed = []
    for name, command in TOOLS.items():
        print(f"{name}:", flush=True)
        if subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode:
            failed.append(name)
    mends = " (`make format` mends what ruff can mend)" if any(name.startswith("ruff") for name in failed) else ""
    print(f"\nFailed: {', '.join(failed)}{mends}." if failed else "\nAll passed.", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
