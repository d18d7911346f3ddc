"""Measurements that nobody took, on a machine that does not exist: the specimen's picture must not depend on ours."""

from typing import Any

import tinytorch.report.page as pages
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.measurement import Measurement
from tinytorch.perf.measuring.statistics import Stated


def fixed(name: str, value: float, low: float, high: float, unit: str = "") -> Measurement:
    """Return seven samples with a median and an interval that are given."""
    conditions = Conditions(inner_loops=4, statistic="median")
    return Measurement(name, (value,) * 7, unit, conditions, law=Stated(value, low, high))


BEFORE = fixed("before", 1.12e-3, 1.0e-3, 1.3e-3, "s")
AFTER = fixed("after", 0.56e-3, 0.5e-3, 0.65e-3, "s")
SPEEDUP = fixed("before / after", 2.0, 1.93, 2.02)
#: An interval wider than its value, and one sample, which has none.
WIDE = fixed("before / busy", 1.2, 0.9, 9.0)
ONCE = Measurement("before / unknown", (2.0,), "", Conditions())
WHEN = "2026-01-01T00:00:00+00:00"
PROVENANCE: dict[str, Any] = {
    "machine": {
        "system": "An operating system",
        "cpu": "A processor",
        "vectors": "AVX2",
        "cores_physical": 4,
        "cores_logical": 8,
        "cores_usable": 8,
        "memory_bytes": 2**34,
        "load": 0.0,
    },
    "blas": [{"name": "openblas", "version": "1.0", "core": "A core", "vectors": "AVX2", "threads": 1, "of": "numpy"}],
    "environment": {},
    "package": {"name": "tinytorch", "version": "0.0.0", "sha256": "0" * 64, "commit": None, "changed": None},
    "python": "3.11.0",
    "numpy": "2.0.0",
}


def fix_provenance(machine: dict[str, Any] = PROVENANCE["machine"]) -> None:
    """Make pages of this process say that they were made at a fixed time on a fixed machine."""
    for name, value in {"provenance": lambda: {**PROVENANCE, "machine": machine}, "now": lambda: WHEN}.items():
        setattr(pages, name, value)
