"""What tests of several folders share: a machine whose ceilings nobody has to measure."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scripts.blas_settings import ignored_warnings
from tests import own_warnings
from tests.perf.made_ceilings import made_ceilings
from tinytorch.perf.host.background_load import Neighbours
from tinytorch.perf.machine import Ceilings, store

# Hypothesis ends an example after 200 ms otherwise, and no test may depend on how fast or busy the machine is.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")


def pytest_configure(config: pytest.Config) -> None:
    """Do without the warnings of a BLAS whose flags are false; of those on old ways only our own are errors."""
    own_warnings.pytest_configure(config)
    for one in ignored_warnings():
        config.addinivalue_line("filterwarnings", one)


@pytest.fixture
def made_machine(monkeypatch: pytest.MonkeyPatch) -> Ceilings:
    """Let the instruments take round ceilings for those that were measured on this machine, and return them."""
    made = made_ceilings()
    monkeypatch.setattr(store, "ceilings", lambda threads=1, refresh=False: made_ceilings(threads=threads))
    monkeypatch.setattr(store, "kept_ceilings", lambda threads=1: made_ceilings(threads=threads))
    return made


def _freeze() -> None:
    """Take what lives now out of the garbage collector's sight: instruments collect in many tests."""
    gc.collect()
    gc.freeze()


@settings(max_examples=1, database=None)
@given(st.none())
def _draw(_: None) -> None:
    """Let hypothesis make its generator of random numbers, and look for who holds it."""


def pytest_collection_finish() -> None:
    """Freeze what collection made, and hypothesis's generator: it warns if whoever holds that is out of sight."""
    _draw()
    _freeze()


@pytest.fixture(autouse=True, scope="session")
def _nobody_else() -> Iterator[None]:
    """Let pages that tests make take this machine as theirs alone: other tests run beside them, and lint may."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tinytorch.report.page.Neighbours", QuietNeighbours)
        yield


class QuietNeighbours(Neighbours):
    """Neighbours that take no core; a test that needs busy ones sets `Neighbours.cores`, which these then follow."""

    def cores(self) -> float:
        """Return no core, unless a test says how many."""
        return Neighbours.cores(self) if Neighbours.cores is not _MEASURED else 0.0


_MEASURED = Neighbours.cores


@pytest.fixture(autouse=True, scope="session")
def _no_look_at_repeats() -> Iterator[None]:
    """Let pages that tests make start no processes that time how far repeats differ."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tinytorch.report.page.look", lambda: None)
        yield


@pytest.fixture(autouse=True, scope="module")
def _frozen_leftovers() -> None:
    """Freeze what the tests before made, above all the compiler's types and graphs."""
    _freeze()
