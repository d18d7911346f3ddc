"""Measurements that nobody took, on a machine that does not exist: the specimen's picture must not depend on ours."""

from __future__ import annotations

from typing import Any

import tinytorch.report.page as pages
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.noise import NoiseFloor

BEFORE = Measurement("before", (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3, 1.12e-3), "s", {"inner_loops": 4})
AFTER = Measurement("after", (0.5e-3, 0.55e-3, 0.6e-3, 0.52e-3, 0.57e-3, 0.65e-3, 0.56e-3), "s", {"inner_loops": 4})
SPEEDUP = Measurement("before / after", (2.0, 2.0, 2.0, 2.02, 2.02, 2.0, 2.0), "", {"inner_loops": 4})
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
    "blas": [
        {"name": "openblas", "version": "1.0", "core": "A core", "vectors": "AVX2", "threads": 1, "of": "numpy"},
    ],
    "environment": {},
    "package": {"name": "tinytorch", "version": "0.0.0", "sha256": "0" * 64, "commit": None, "changed": None},
    "python": "3.11.0",
    "numpy": "2.0.0",
}


def fix_provenance(machine: dict[str, Any] = PROVENANCE["machine"]) -> None:
    """Make pages of this process say that they were made at a fixed time on a fixed machine."""
    floor = Measurement("the same code against itself", (1.01, 1.02, 1.03, 1.02, 1.01, 1.02, 1.03), "")
    for name, value in {
        "provenance": lambda: {**PROVENANCE, "machine": machine},
        "now": lambda: WHEN,
        "small_noise_floor": lambda: NoiseFloor("nothing", (), floor),
    }.items():
        setattr(pages, name, value)
