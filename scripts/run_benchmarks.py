"""Run every script of benchmarks/, one after the other, without settings that would slow one library down."""

import os
import subprocess
import sys
from pathlib import Path

from scripts.blas_settings import without_blas_settings

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run all benchmarks, say at the end which failed, as one whose target is missed does, and return 1 if any did."""
    files = sorted((ROOT / "benchmarks").glob("*.py"))
    modules = [f"benchmarks.{file.stem}" for file in files if '__name__ == "__main__"' in file.read_text("utf-8")]
    failed = []
    for module in modules:
        print(f"\n== {module}", flush=True)
        command = [sys.executable, "-m", module]
        code = subprocess.run(command, cwd=ROOT, env=without_blas_settings(os.environ), check=False).returncode
        if code != 0:
            failed.append(f"{module} (exit code {code})")
    if failed:
        print(f"\n{len(failed)} of {len(modules)} missed a target or failed: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
