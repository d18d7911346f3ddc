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
    "pages": (sys.executable, "-m", "scripts.lint_pages"),
    "lists of pages": (sys.executable, "-m", "scripts.lint_lists"),
    "imports": (f"{_PROGRAMS / 'lint-imports'}",),
    "codespell": (f"{_PROGRAMS / 'codespell'}",),
}


def lint(tools: Mapping[str, Sequence[str]], root: Path) -> list[str]:
    """Run all tools in the folder ``root``, and return the names of those that failed."""
    folders = [str(root / "book" / "_ext"), str(root / "book" / "_checks")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    failed = []
    for name, command in tools.items():
        print(f"{name}:", flush=True)
        if subprocess.run(command, cwd=root, env=environment, check=False).returncode:
            failed.append(name)
    return failed


def main() -> int:
    """Lint the checkout; return 1 if any tool failed."""
    failed = lint(TOOLS, ROOT)
    mends = " (`make format` mends what ruff can mend)" if any(name.startswith("ruff") for name in failed) else ""
    print(f"\nFailed: {', '.join(failed)}{mends}." if failed else "\nAll passed.", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
