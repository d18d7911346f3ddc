"""BLAS libraries that are not here: as threadpoolctl lists them, as NumPy notes them, and Apple's two functions."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tinytorch.perf.host import blas
from tinytorch.perf.kernels.runtime import threads

#: What the wheel of NumPy 2.4.6 for macOS 14 on arm64 notes of its BLAS.
OF_MACOS = {"name": "accelerate", "found": True, "version": "unknown", "detection method": "system"}


@dataclass
class MadeController:
    """What threadpoolctl gives of a BLAS that it lists, as far as it is asked."""

    filepath: str
    threads: int
    api: str = "openblas"

    def get_num_threads(self) -> int:
        return self.threads

    def set_num_threads(self, count: int) -> None:
        self.threads = count

    def info(self) -> dict[str, Any]:
        return {
            "internal_api": self.api,
            "filepath": self.filepath,
            "num_threads": self.threads,
            "version": "0.3.30",
            "architecture": "armv8",
        }


@dataclass
class Accelerate15:
    """The two functions of macOS 15, whose setting is the calling thread's own."""

    own: threading.local = field(default_factory=threading.local)

    def BLASGetThreading(self) -> int:  # noqa: N802
        return getattr(self.own, "model", 0)

    def BLASSetThreading(self, model: int) -> int:  # noqa: N802
        if model not in (0, 1):
            return -1
        self.own.model = model
        return 0


def load(
    monkeypatch: pytest.MonkeyPatch,
    listed: Sequence[MadeController] = (),
    *,
    noted: dict[str, Any] = OF_MACOS,
    framework: object = None,
    at_start: str | None = None,
    cores: int = 4,
) -> None:
    """Let this process have the BLAS that threadpoolctl lists so, that NumPy notes so, and so many cores.

    Args:
        framework: Apple's Accelerate; an object without functions is that before macOS 15.
        at_start: ``VECLIB_MAXIMUM_THREADS`` as the process started.
    """

    class Controller:
        def select(self, **by: str) -> SimpleNamespace:
            assert by == {"user_api": "blas"}
            return SimpleNamespace(lib_controllers=[*listed])

    monkeypatch.setattr(blas, "ThreadpoolController", Controller)
    monkeypatch.setattr(np, "show_config", lambda mode: {"Build Dependencies": {"blas": noted}})
    monkeypatch.setattr(blas, "_framework", lambda: framework)
    monkeypatch.setattr(blas, "_AT_START", at_start)
    monkeypatch.setattr(blas.ThreadSwitch, "asked", None)
    monkeypatch.setattr(blas, "usable_cores", lambda: list(range(cores)))
    monkeypatch.setattr(threads, "usable_cores", lambda: list(range(cores)))
    monkeypatch.setattr(threads, "_switch", blas.ThreadSwitch)
