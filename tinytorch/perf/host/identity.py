"""Identity of this machine: processor, caches, memory, libraries, and the variables that steer them."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llvmlite.binding
import numpy as np
import psutil

from tinytorch import settings
from tinytorch.perf.host.blas import Blas, loaded_blas, numpy_blas
from tinytorch.perf.host.cgroup_limits import Hosting, hosting
from tinytorch.perf.host.memory_pages import huge_page_policy
from tinytorch.perf.host.pinned_threads import allowed_cores, usable_cores
from tinytorch.settings import variable

#: Beginnings of the names of the variables that steer threads, kernels and budgets.
STEERING = (
    *(variable("cpu"), variable("rough")),
    *("OPENBLAS_", "OMP_", "MKL_", "NUMBA_", "NUMPY_", "NPY_", "BLIS_", "VECLIB_", "GOTO_"),
)
#: Beginnings of the names of what x86-64 has had since AVX2 and vectors of 256 bits, in /proc/cpuinfo and in LLVM.
LATER_THAN_AVX2 = ("avx512", "avx10", "amx", "avx_", "avxifma", "avxne", "avxvnni", "gfni", "vaes", "vpclmul")
#: Flags in /proc/cpuinfo and what their vectors are called, widest first.
_VECTOR_FLAGS = (
    ("avx512f", "AVX-512"),
    ("avx2", "AVX2"),
    ("avx", "AVX"),
    ("sse2", "SSE2"),
    ("sve", "SVE"),
    ("asimd", "NEON"),
)
#: Beginnings of the flags that name vector extensions, on x86-64 and on Arm.
_EXTENSIONS = ("sse", "ssse", "pni", "avx", "fma", "f16c", "amx", "asimd", "sve", "i8mm", "bf16")
_WIDTH: dict[str | None, int] = {"SSE2": 128, "AVX": 256, "AVX2": 256, "AVX-512": 512}
_CORES_FOLDER = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True)
class Cache:
    """One cache as the system reports it: its ``level``, ``kind``, size in bytes, and the ``cores`` that share it."""

    level: int
    kind: str
    size: int
    cores: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Identity:
    """Facts that tell this machine and this process from others. What the system does not say is None.

    Attributes:
        system: name, release and architecture of the system; ``kernel`` its release alone.
        cpu: model name; ``vectors`` the widest vectors it has, ``extensions`` all flags of vector instructions.
        cores_physical, cores_logical: of the machine; ``cores_usable`` those that this process may keep busy.
        caches: data and unified caches, each instance once, innermost first.
        memory_bytes: of the machine; ``huge_pages`` the policy: "always", "madvise" or "never".
        python, numpy, numba, llvm: versions; ``numba_cpu`` the CPU that Numba compiles for, which the
            variable NUMBA_CPU_NAME chooses.
        blas: libraries loaded now.
        environment: set variables that steer threads and kernels.
        hosting: what a host that others share grants this process.
        load: processes that ran or waited, mean of the last minute, at the time of asking.
    """

    system: str
    kernel: str
    cpu: str
    vectors: str | None
    extensions: tuple[str, ...]
    cores_physical: int | None
    cores_logical: int
    cores_usable: int
    caches: tuple[Cache, ...]
    memory_bytes: int
    huge_pages: str | None
    python: str
    numpy: str
    numba: str
    llvm: str
    numba_cpu: str
    blas: tuple[Blas, ...]
    environment: dict[str, str]
    hosting: Hosting
    load: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return asdict(self)


def steering_variables() -> dict[str, str]:
    """Return the variables of the environment that steer threads, kernels and budgets, sorted by name."""
    return {name: os.environ[name] for name in sorted(os.environ) if name.startswith(STEERING)}


@cache
def _cpuinfo() -> str:
    path = Path("/proc/cpuinfo")
    return path.read_text("utf-8") if path.is_file() else ""


def _output_of(*command: str) -> str:
    """Return what a program prints, without line ends around it; "" if there is no such program."""
    environment = {**os.environ, "LC_ALL": "C"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20, env=environment)
    except OSError:
        return ""
    return done.stdout.strip()


def held_to() -> str | None:
    """Return the older CPU that this process is held to, such as "AVX2"; None where it may do all that its CPU can."""
    return settings.SETTINGS.cpu.upper() or None


def cpu_name() -> str:
    """Return the CPU's model name as the system gives it, and the older CPU that this process is held to, if any."""
    held = held_to()
    return _model_name() if held is None else f"{_model_name()}, held to {held}"


def _model_name() -> str:
    model = re.search(r"^model name\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    if model:
        return model[1].strip()
    if name := _arm_cpu_name():
        return name
    if platform.system() == "Darwin":
        return _output_of("sysctl", "-n", "machdep.cpu.brand_string") or platform.machine()
    return platform.processor() or platform.machine() or "unknown"


def _arm_cpu_name() -> str:
    """Return the kinds of cores of an Arm CPU under Linux, each once: "Cortex-A55 + Cortex-A76"; "" of another CPU.

    /proc/cpuinfo has only their numbers there, whose names `lscpu` knows. Without it a kind is named by these numbers:
    "implementer 0x41 part 0xd0c".
    """
    numbers = re.findall(r"^CPU (implementer|part)\s*:\s*(0x[0-9a-f]+)$", _cpuinfo(), re.MULTILINE)
    if not numbers:
        return ""
    names = re.findall(r"^\s*Model name:\s*(.*\w)", _output_of("lscpu"), re.MULTILINE)
    words = [f"{name} {number}" for name, number in numbers]
    names = names or [" ".join(pair) for pair in zip(words[::2], words[1::2], strict=True)]
    return " + ".join(dict.fromkeys(names))


def cpu_flags() -> str:
    """Return the flags of the CPU that this process may use, as the system lists them, separated by spaces.

    "" if the system does not list them.
    """
    flags = _system_flags()
    if held_to() is None:
        return flags
    return " ".join(flag for flag in flags.split() if not flag.lower().startswith(LATER_THAN_AVX2))


def _system_flags() -> str:
    found = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", _cpuinfo(), re.MULTILINE)
    if found:
        return found[1].strip()
    if platform.system() == "Darwin":
        return "asimd" if platform.machine() == "arm64" else _output_of("sysctl", "-n", "machdep.cpu.leaf7_features")
    return ""


def widest_vectors(flags: str) -> str | None:
    """Return the name of the widest vector instructions among the ``flags`` of a CPU; None if none is known."""
    known = set(flags.lower().split())
    return next((name for flag, name in _VECTOR_FLAGS if flag in known), None)


def is_narrower(blas_vectors: str | None, cpu_vectors: str | None) -> bool:
    """Return whether a BLAS is known to use narrower vectors than the CPU has."""
    return 0 < _WIDTH.get(blas_vectors, 0) < _WIDTH.get(cpu_vectors, 0)


def _cores(listed: str) -> tuple[int, ...]:
    """Return the cores of a list of the kernel, such as "0-2,5"."""
    cores: list[int] = []
    for part in listed.strip().split(","):
        first, _, last = part.partition("-")
        cores += range(int(first), int(last or first) + 1)
    return tuple(cores)


@cache
def caches(folder: Path = _CORES_FOLDER) -> tuple[Cache, ...]:
    """Return the data and unified caches that the system reports below ``folder``, innermost first; () if none."""
    found = set()
    for path in folder.glob("cpu[0-9]*/cache/index[0-9]*"):
        try:
            level, kind, size, shared = (
                (path / name).read_text("ascii").strip() for name in ("level", "type", "size", "shared_cpu_list")
            )
        except OSError:  # a virtual machine may list a cache and leave out its size
            continue
        number = re.fullmatch(r"(\d+)([KM]?)", size)
        if kind in ("Data", "Unified") and number:
            unit = {"": 1, "K": 2**10, "M": 2**20}[number[2]]
            found.add(Cache(int(level), kind, int(number[1]) * unit, _cores(shared)))
    return tuple(sorted(found, key=lambda cache: (cache.level, cache.cores)))


def reported_capacities(known: Iterable[Cache], cores: Iterable[int]) -> dict[int, int]:
    """Return the bytes of each level of cache that ``cores`` have together: {1: ..., 2: ...}, by growing level."""
    used = set(cores)
    sizes: dict[int, int] = {}
    for one in sorted(known, key=lambda cache: cache.level):
        if used & set(one.cores):
            sizes[one.level] = sizes.get(one.level, 0) + one.size
    return sizes


def machine_label() -> str:
    """Return in words what times depend on: the CPU, its usable cores, Python, NumPy and NumPy's BLAS with its core."""
    versions = f"Python {platform.python_version()}, NumPy {np.__version__}, {numpy_blas().label()}"
    return f"{cpu_name()}, {len(usable_cores())} usable cores, {versions}"


def identity() -> Identity:
    """Return the identity of this machine and of this process.

    Examples:
        >>> from tinytorch.perf.machine import identity
        >>> here = identity()
        >>> 1 <= here.cores_usable <= here.cores_logical
        True
    """
    flags = cpu_flags()
    memory = psutil.virtual_memory().total
    return Identity(
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        kernel=platform.release(),
        cpu=cpu_name(),
        vectors=widest_vectors(flags),
        extensions=tuple(sorted(flag for flag in set(flags.lower().split()) if flag.startswith(_EXTENSIONS))),
        cores_physical=psutil.cpu_count(logical=False),
        cores_logical=psutil.cpu_count(logical=True) or 1,
        cores_usable=len(usable_cores()),
        caches=caches(),
        memory_bytes=memory,
        huge_pages=huge_page_policy(),
        python=platform.python_version(),
        numpy=np.__version__,
        numba=version("numba"),  # to import it takes a quarter of a second
        llvm=".".join(map(str, llvmlite.binding.llvm_version_info)),
        numba_cpu=str(os.environ.get("NUMBA_CPU_NAME") or llvmlite.binding.get_host_cpu_name()),
        blas=loaded_blas(),
        environment=steering_variables(),
        hosting=hosting(len(allowed_cores()), memory),
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    )
