"""Where a page was made: machine, BLAS, threads, package and versions."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from threadpoolctl import threadpool_info

from tinytorch.report.records import Json

#: Beginnings of the names of the variables that steer threads and kernels.
STEERING = ("OPENBLAS_", "OMP_", "MKL_", "NUMBA_", "BLIS_", "VECLIB_", "GOTO_")
PACKAGE = "tinytorch"
_HASHED_SUFFIXES = (".py", ".json")
#: Flags in /proc/cpuinfo and what their vectors are called, widest first.
_VECTOR_FLAGS = (
    ("avx512f", "AVX-512"),
    ("avx2", "AVX2"),
    ("avx", "AVX"),
    ("sse2", "SSE2"),
    ("sve", "SVE"),
    ("asimd", "NEON"),
)
#: Vectors that the kernels of OpenBLAS's x86-64 core types use.
#: Source: OpenBLAS, the SGEMMKERNEL lines of kernel/x86_64/KERNEL.* (EXCAVATOR, for one, runs Piledriver's).
_CORE_VECTORS = {
    "prescott": "SSE2",
    "core2": "SSE2",
    "nehalem": "SSE2",
    "atom": "SSE2",
    "sandybridge": "AVX",
    "bulldozer": "AVX",
    "piledriver": "AVX",
    "steamroller": "AVX",
    "excavator": "AVX",
    "haswell": "AVX2",
    "zen": "AVX2",
    "skylakex": "AVX-512",
    "cooperlake": "AVX-512",
    "sapphirerapids": "AVX-512",
}
_WIDTH: dict[str | None, int] = {"SSE2": 128, "AVX": 256, "AVX2": 256, "AVX-512": 512}


def steering_variables() -> dict[str, str]:
    """Return the variables of the environment that steer threads and kernels, sorted by name."""
    return {name: os.environ[name] for name in sorted(os.environ) if name.startswith(STEERING)}


def package_folder() -> Path:
    """Return the folder of the package's sources."""
    return Path(__file__).resolve().parents[1]


def package_hash(folder: Path) -> str:
    """Return the SHA-256 over all ``*.py`` and ``*.json`` below ``folder``, names and bytes, sorted by path.

    Raises:
        ValueError: if there is no such file below ``folder``.
    """
    paths = sorted(p for p in folder.rglob("*") if p.suffix in _HASHED_SUFFIXES and p.is_file())
    if not paths:
        raise ValueError(f"folder must hold *.py or *.json files, but {folder} has none")
    digest = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _git(folder: Path, *arguments: str) -> str | None:
    """Return what git says about ``folder``; None where there is no git or no repository."""
    try:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _package() -> Json:
    folder = package_folder()
    commit = _git(folder, "rev-parse", "HEAD")
    tracked = commit is not None and bool(_git(folder, "ls-files", "--", "."))
    changes = _git(folder, "status", "--porcelain", "--", ".") if tracked else None
    try:
        number = version(PACKAGE)
    except PackageNotFoundError:
        number = "not installed"
    return {
        "name": PACKAGE,
        "version": number,
        "sha256": package_hash(folder),
        "commit": commit if tracked else None,
        "changed": None if changes is None else bool(changes),
    }


def _cpuinfo() -> str:
    path = Path("/proc/cpuinfo")
    return path.read_text("utf-8") if path.is_file() else ""


def _sysctl(name: str) -> str:
    done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False, timeout=20)
    return done.stdout.strip()


def cpu_name() -> str:
    """Return the CPU's model name as the system gives it."""
    found = re.search(r"^model name\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    if found:
        return found[1].strip()
    if platform.system() == "Darwin":
        return _sysctl("machdep.cpu.brand_string") or platform.machine()
    return platform.processor() or platform.machine() or "unknown"


def widest_vectors(flags: str) -> str | None:
    """Return the name of the widest vector instructions among the ``flags`` of a CPU; None if none is known."""
    known = set(flags.lower().split())
    return next((name for flag, name in _VECTOR_FLAGS if flag in known), None)


def _cpu_flags() -> str:
    found = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    if found:
        return found[1]
    if platform.system() == "Darwin":
        return "asimd" if platform.machine() == "arm64" else _sysctl("machdep.cpu.leaf7_features")
    return ""


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _load() -> float | None:
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def _machine() -> Json:
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_name(),
        "vectors": widest_vectors(_cpu_flags()),
        "cores_physical": psutil.cpu_count(logical=False),
        "cores_logical": psutil.cpu_count(logical=True) or 1,
        "cores_usable": _usable_cores(),
        "memory_bytes": psutil.virtual_memory().total,
        "load": _load(),
    }


def _blas() -> list[Json]:
    pools: list[dict[str, Any]] = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    pools.sort(key=lambda pool: str(pool["filepath"]))  # as loaded, they have no order
    return [
        {
            "name": pool["internal_api"],
            "version": pool.get("version"),
            "core": pool.get("architecture"),
            "vectors": _CORE_VECTORS.get(str(pool.get("architecture", "")).lower()),
            "threads": pool["num_threads"],
            "of": next((of for of in ("numpy", "scipy") if re.search(rf"[/\\]{of}\W", pool["filepath"])), None),
        }
        for pool in pools
    ]


def blas_label(blas: Json) -> str:
    """Return the BLAS in words, with the package whose own copy it is: "openblas 0.3.30 of numpy"."""
    number = f" {blas['version']}" if blas["version"] else ""
    owner = f" of {blas['of']}" if blas["of"] else ""
    return f"{blas['name']}{number}{owner}"


def narrower_blas(provenance: Json) -> str | None:
    """Return a sentence on the BLAS libraries whose kernels use narrower vectors than the CPU has; None if none."""
    cpu = provenance["machine"]["vectors"]
    narrow = [blas for blas in provenance["blas"] if 0 < _WIDTH.get(blas["vectors"], 0) < _WIDTH.get(cpu, 0)]
    if not narrow:
        return None
    names = " and ".join(blas_label(blas) for blas in narrow)
    kernels = " and ".join(sorted({f"{blas['core']} ({blas['vectors']})" for blas in narrow}))
    verb = "runs" if len(narrow) == 1 else "run"
    return (
        f"{names} {verb} kernels for {kernels} although this CPU has {cpu}: "
        "the speeds on this page are those of the narrower kernels."
    )


def provenance() -> Json:
    """Return where this process runs: the ``provenance`` of `record.schema.json` but for the time."""
    return {
        "machine": _machine(),
        "blas": _blas(),
        "environment": steering_variables(),
        "package": _package(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
