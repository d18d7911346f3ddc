"""What tests of several folders share: a machine whose ceilings nobody has to measure."""

import gc
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure

from scripts.building.settings import ignored_warnings
from tests.chosen_settings import choose_settings
from tests.perf.made_ceilings import made_ceilings
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.machine import Ceilings, store
from tinytorch.perf.measuring import blas_threads
from tinytorch.perf.profiling.program import why_unreadable
from tinytorch.report.provenance import package_provenance
from tinytorch.report.records import Json

# Two seconds of each process to load, for formats of JSON schemas that no test in it checks.
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]
# Hypothesis ends slow examples otherwise, and slow draws, and no test may depend on how fast or busy the machine is.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_configure(config: pytest.Config) -> None:
    """Do without the warnings of a BLAS whose flags are false, and without what else this machine does."""
    _take_machine_as_quiet()
    for one in ignored_warnings():
        config.addinivalue_line("filterwarnings", one)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose tests that look into processes only where the system lets a program do so."""
    looking = [item for item in items if item.get_closest_marker("looks_into_processes")]
    if looking and why_unreadable():
        config.hook.pytest_deselected(items=looking)
        items[:] = [item for item in items if item not in looking]


@pytest.fixture
def made_machine(monkeypatch: pytest.MonkeyPatch) -> Ceilings:
    """Let the instruments take round ceilings for those that were measured on this machine, and return them."""
    made = made_ceilings()
    monkeypatch.setattr(
        store, "ceilings", lambda threads=1, refresh=False, on_progress=None: made_ceilings(threads=threads)
    )
    monkeypatch.setattr(store, "kept_ceilings", lambda threads=1: made_ceilings(threads=threads))
    return made


def _drawn_once(figure: Figure, **_: object) -> tuple[str, None]:
    figure.draw_without_rendering()
    return "<svg></svg>", None


@pytest.fixture(scope="module")
def figures_drawn_once() -> Iterator[None]:
    """Draw the figures of pages once and write none: two layouts, each until its ticks fit, take half a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tinytorch.report.layouts.both_layouts", _drawn_once)
        yield


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Keep Python from collecting garbage: a profiler takes that for something that ran."""
    gc.disable()
    yield
    gc.enable()


def _freeze() -> None:
    """Take what lives now out of the garbage collector's sight: instruments collect in many tests."""
    gc.collect()
    gc.freeze()


def pytest_collection() -> None:
    """Draw before anything is frozen."""
    _draw()


def pytest_collectstart() -> None:
    """Freeze also what has been collected: some modules make profiles as they are loaded, which collect garbage."""
    gc.freeze()


@settings(max_examples=1, database=None)
@given(st.none())
def _draw(_: None) -> None:
    """Let hypothesis make its generator of random numbers: it warns if whoever holds that is frozen by then."""


def pytest_collection_finish() -> None:
    """Freeze what collection made."""
    _freeze()


class QuietLoad(BackgroundLoad):
    """Background load that takes no core, unless a test sets `BackgroundLoad.cores`."""

    def cores(self) -> float:
        """Return no core, unless a test says how many."""
        return BackgroundLoad.cores(self) if BackgroundLoad.cores is not _MEASURED else 0.0


_MEASURED = BackgroundLoad.cores


def _refuse(*_: object) -> NoReturn:
    raise AssertionError("a test measures this machine and keeps the result: let it take `made_machine`")


@cache
def _package() -> Json:
    return package_provenance()


def _provenance(folder: Path | None = None) -> Json:
    return dict(_package()) if folder is None else package_provenance(folder)


def _take_machine_as_quiet() -> None:
    """Let pages that tests make, some while they are collected, know nothing of this busy moment.

    They take this machine as theirs alone, for other tests run beside them, and lint may. Nor do they know or find out
    how far repeats differ here, or how fast it is: the book would take over what is kept of that. The package, which
    nobody changes meanwhile, is read for the first of many pages.
    """
    patch = pytest.MonkeyPatch()
    patch.setattr("tinytorch.report.page.BackgroundLoad", QuietLoad)
    patch.setattr("tinytorch.perf.profiling.repeated.BackgroundLoad", QuietLoad)
    patch.setattr("tinytorch.perf.machine.store.BackgroundLoad", QuietLoad)
    patch.setattr("tinytorch.perf.machine.measured_ceilings.measured_ceilings", _refuse)
    patch.setattr("tinytorch.report.provenance.package_provenance", _provenance)
    choose_settings(patch, repeats="0")
    patch.setattr("tinytorch.perf.measuring.between_run_variance.KEPT", Path(os.devnull) / "no-repeats")


@pytest.fixture(autouse=True, scope="module")
def _frozen_leftovers() -> None:
    """Freeze what the tests before made, above all the compiler's types and graphs."""
    _freeze()


@pytest.fixture(autouse=True, scope="module")
def _one_blas_thread() -> Iterator[None]:
    """Hold each process to one thread, as pages are: threads of several processes wait on few cores, busily."""
    with blas_threads(1):
        yield
