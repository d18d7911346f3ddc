"""Run every script of benchmarks/, one after the other, without settings that would slow one library down."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from scripts.blas_settings import without_blas_settings

ROOT = Path(__file__).resolve().parent.parent


def find_benchmarks(root: Path) -> list[str]:
    """Return the module names of the scripts in `root`/benchmarks, sorted: the files that run when they are main."""
    files = sorted((root / "benchmarks").glob("*.py"))
    return [f"benchmarks.{file.stem}" for file in files if '__name__ == "__main__"' in file.read_text("utf-8")]


def main() -> int:
    """Run the benchmarks and return the exit code of the first that fails, or 0."""
    modules = find_benchmarks(ROOT)
    if not modules:
        print("There is no benchmark: benchmarks/ holds no script.", file=sys.stderr)
        return 1
    for module in modules:
        print(f"\n== {module}", flush=True)
        command = [sys.executable, "-m", module]
        code = subprocess.run(command, cwd=ROOT, env=without_blas_settings(os.environ), check=False).returncode
        if code != 0:
            print(f"{module} failed with exit code {code}.", file=sys.stderr)
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
