"""The BLAS of this process: which libraries are loaded, how many threads they may use, and what sets that.

threadpoolctl asks and limits OpenBLAS, MKL, BLIS and FlexiBLAS. Apple's Accelerate, which the wheels of NumPy and SciPy
for macOS 14 and later call, it does not list; that is done here, as far as Accelerate lets anybody. The compiled
kernels go by the same numbers, also where no BLAS can be asked.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, ClassVar

import numpy as np
from threadpoolctl import ThreadpoolController

from tinytorch.perf.host.pinned_threads import usable_cores

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
#: NumPy's name for Apple's BLAS, and where macOS has it.
_ACCELERATE = "accelerate"
_FRAMEWORK = "/System/Library/Frameworks/Accelerate.framework/Accelerate"
#: What BLASSetThreading takes, from macOS 15 on: as many threads as Accelerate sees fit, or the caller's alone.
#: Source: Apple, BLAS_THREADING in thread_api.h of vecLib; https://developer.apple.com/documentation/accelerate.
_MULTI_THREADED, _SINGLE_THREADED = 0, 1
#: What alone limits Accelerate before macOS 15, if it is set before the process starts.
#: Source: https://github.com/joblib/threadpoolctl/issues/136.
_AT_START = os.environ.get("VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True, slots=True)
class Blas:
    """A loaded BLAS: ``name``, ``version``, the ``core`` its kernels are for and the ``vectors`` these use.

    ``threads`` it may use now; ``of`` is the package whose own copy it is. What is not known is None.
    """

    name: str
    version: str | None
    core: str | None
    vectors: str | None
    threads: int | None
    of: str | None

    def label(self) -> str:
        """Return what is known of which it is, in words: "openblas 0.3.30 SkylakeX", or "accelerate"."""
        return " ".join(part for part in (self.name, self.version, self.core) if part)


class _Unlisted:
    """NumPy's BLAS where threadpoolctl does not list it: Accelerate, or one that nobody can ask or limit.

    What is set holds for the thread that sets it, as Accelerate keeps it for each thread.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        library = _framework() if name == _ACCELERATE else None
        self._get: Callable[[], int] | None = getattr(library, "BLASGetThreading", None)
        self._set: Callable[[int], int] | None = getattr(library, "BLASSetThreading", None)

    def get_num_threads(self) -> int | None:
        """Return 1 where it may use no more, else None: how many it uses is up to it."""
        if self.name == _ACCELERATE and _AT_START == "1":
            return 1
        return 1 if self._get is not None and self._get() == _SINGLE_THREADED else None

    def set_num_threads(self, num_threads: int | None) -> None:
        """Let it use one thread or, with another number or None, as many as it sees fit, where it can be told."""
        if self._set is not None:
            self._set(_SINGLE_THREADED if num_threads == 1 else _MULTI_THREADED)


@cache
def _framework() -> Any:
    """Return Apple's Accelerate, or None where it is not."""
    try:
        return ctypes.CDLL(_FRAMEWORK)
    except OSError:
        return None


def _numpy_blas_name() -> str:
    """Return the name of the BLAS that NumPy was built for, as its build noted it: "accelerate", "scipy-openblas"."""
    noted = np.show_config(mode="dicts")["Build Dependencies"].get("blas", {})
    return str(noted.get("name", "unknown")).lower()


def _owner(path: str) -> str | None:
    """Return the package whose own copy of a BLAS lies at ``path``; None for the system's."""
    return next((of for of in ("numpy", "scipy") if re.search(rf"[/\\]{of}\W", path)), None)


@lru_cache(maxsize=1)
def _listed(controller: type[ThreadpoolController], _modules: int) -> list[Any]:
    """Return the controllers of the BLAS that ``controller`` lists while so many ``_modules`` are imported.

    To search all that is loaded takes milliseconds, and a library comes with a module.
    """
    return list(controller().select(user_api="blas").lib_controllers)


def _libraries() -> tuple[list[Any], _Unlisted | None]:
    """Return the controllers of the BLAS that threadpoolctl lists, and NumPy's own if it is not among them."""
    listed = _listed(ThreadpoolController, len(sys.modules))
    if any(_owner(each.filepath) != "scipy" for each in listed):
        return listed, None
    return listed, _Unlisted(_numpy_blas_name())


def loaded_blas() -> tuple[Blas, ...]:
    """Return the BLAS libraries that are loaded now: NumPy's if threadpoolctl does not list it, then those it lists."""
    listed, own = _libraries()
    pools = [each.info() for each in listed]
    pools.sort(key=lambda pool: str(pool["filepath"]))  # as loaded, they have no order
    known = tuple(
        Blas(
            pool["internal_api"],
            pool.get("version"),
            pool.get("architecture"),
            _CORE_VECTORS.get(str(pool.get("architecture", "")).lower()),
            pool["num_threads"],
            _owner(pool["filepath"]),
        )
        for pool in pools
    )
    return known if own is None else (Blas(own.name, None, None, None, own.get_num_threads(), None), *known)


def numpy_blas() -> Blas:
    """Return the BLAS that NumPy's products call: its own copy, or else the system's."""
    return max(loaded_blas(), key=lambda one: (one.of == "numpy", one.of is None))


class ThreadSwitch:
    """Sets how many threads BLAS and the compiled kernels may use; to make it takes long, to use it does not.

    It knows the libraries that were loaded when it was made, but for SciPy's own, which is loaded when SciPy is first
    asked for and multiplies nothing here.
    """

    #: How many threads this process was asked to use last, by any switch; None before anybody asked.
    asked: ClassVar[int | None] = None

    def __init__(self) -> None:
        listed, own = _libraries()
        self._listed = [library for library in listed if _owner(library.filepath) != "scipy"]
        self._all = self._listed if own is None else [*self._listed, own]

    def set(self, count: int) -> Callable[[], None]:
        """Let them use ``count`` threads; return what gives them back those that they had.

        Where a library cannot be limited, only the kernels are: `known` then is None.

        Raises:
            ValueError: if ``count`` is below 1.
        """
        if count < 1:
            raise ValueError(f"count must be at least 1 thread, not {count}")
        before, asked = [library.get_num_threads() for library in self._all], ThreadSwitch.asked
        for library in self._all:
            library.set_num_threads(count)
        ThreadSwitch.asked = count

        def give_back() -> None:
            for library, threads in zip(self._all, before, strict=True):
                library.set_num_threads(threads)
            ThreadSwitch.asked = asked

        return give_back

    def known(self) -> int | None:
        """Return how many threads the library with the most may use now; None if one of them does not say."""
        counts: list[int | None] = [library.get_num_threads() for library in self._all]
        numbers = [count for count in counts if count is not None]
        return max(numbers) if len(numbers) == len(counts) else None

    def limit(self) -> int:
        """Return how many threads kernels may use: as many as a listed BLAS, or, without one, as many as were set.

        Where none were set, these are the usable cores.
        """
        if self._listed:
            return max(library.get_num_threads() or 1 for library in self._listed)
        return len(usable_cores()) if self.asked is None else self.asked


def current_blas_threads() -> int | None:
    """Return how many threads the loaded BLAS may use now, from the calling thread; None if that is not known.

    It is not of Accelerate where that may use more than one, nor, before macOS 15, unless the variable
    ``VECLIB_MAXIMUM_THREADS`` was 1 as the process started.

    Examples:
        >>> from tinytorch.perf.measuring import blas_threads, current_blas_threads
        >>> with blas_threads(1):
        ...     current_blas_threads() in (1, None)
        True
    """
    return ThreadSwitch().known()


def limited_blas_threads(count: int) -> int | None:
    """Return how many threads BLAS has in a process like this one that limits it to ``count``; None if not known.

    Raises:
        ValueError: if ``count`` is below 1.
    """
    switch = ThreadSwitch()
    give_back = switch.set(count)
    try:
        return switch.known()
    finally:
        give_back()


def thread_limit() -> int:
    """Return how many threads BLAS was told to use, and compiled kernels may use: see `ThreadSwitch.limit`."""
    return ThreadSwitch().limit()
