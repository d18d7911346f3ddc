"""What it costs to import the package's parts, each in a fresh process, over an empty Python.

    python -m benchmarks.imports

Every page, every rank and every fresh process of a measurement pays this. The targets are ratios to importing NumPy,
which all of them need, measured in turns with it.
"""

import subprocess
import sys
import time
from statistics import median

from rich.console import Console
from rich.table import Table

REPEATS = 7
#: Of each import, the most that it may take beside that of NumPy.
TARGETS = {
    "tinytorch": 0.5,
    "tinytorch.core.tensor": 2.0,
    "tinytorch.models": 3.0,
    "tinytorch.perf.measuring": 2.0,
    "tinytorch.perf.profiling": 7.5,
    "tinytorch.perf.quantization": 4.0,
    "tinytorch.report": 11.0,
}


def import_seconds(module: str) -> float:
    """Return how long a fresh process takes that imports the module."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter() - start


def main() -> int:
    """Print the time of each import and its ratio to NumPy's; return 1 if one is above target."""
    rounds = [{name: import_seconds(name) for name in ("sys", "numpy", *TARGETS)} for _ in range(REPEATS)]
    of = {name: median(one[name] - one["sys"] for one in rounds) for name in ("numpy", *TARGETS)}
    table = Table("import", "milliseconds", "over NumPy", "target")
    missed = 0
    for name, target in TARGETS.items():
        ratio = of[name] / of["numpy"]
        missed += ratio > target
        table.add_row(name, f"{of[name] * 1e3:.0f}", f"{ratio:.1f}", f"{target:g}")
    Console(width=110).print(f"NumPy: {of['numpy'] * 1e3:.0f} ms", table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
