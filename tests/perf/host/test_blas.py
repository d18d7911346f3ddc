"""Which BLAS there is and how many threads it has: this machine's by threadpoolctl, others made."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from tests.perf.made_blas import OF_MACOS, Accelerate15, MadeController, load
from tinytorch.models import weights
from tinytorch.perf.acceleration.techniques import with_threads
from tinytorch.perf.host.blas import Blas, limited_blas_threads, loaded_blas, numpy_blas, thread_limit
from tinytorch.perf.kernels.runtime.threads import limit
from tinytorch.perf.measuring import blas_threads, current_blas_threads, measure
from tinytorch.perf.measuring.sampling import limit_blas_threads

ACCELERATE = Blas("accelerate", None, None, None, None, None)
OF_SCIPY = "/python/site-packages/scipy/.dylibs/libscipy_openblas.dylib"


def listed() -> list[int]:
    """Return the threads of each BLAS that threadpoolctl lists, but for SciPy's own."""
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas" and "scipy.libs" not in pool["filepath"]]
    return [pool["num_threads"] for pool in pools]


def in_another_thread() -> int | None:
    with ThreadPoolExecutor() as pool:
        return pool.submit(current_blas_threads).result()


def test_a_blas_that_threadpoolctl_lists_has_the_threads_that_it_says() -> None:
    before = listed()
    assert [one.threads for one in loaded_blas() if one.version and one.of != "scipy"] == before
    with blas_threads(1):
        assert listed() == [1] * len(before)
        assert thread_limit() == limit() == 1
        with threadpool_limits(2, "blas"):
            assert listed() == [2] * len(before)
            assert thread_limit() == (2 if before else 1)
    assert listed() == before
    assert limited_blas_threads(1) in (1, None)
    assert listed() == before


@given(st.lists(st.integers(1, 6), max_size=6))
def test_threads_are_given_back_one_after_the_other(counts: list[int]) -> None:
    controller = MadeController("/usr/lib/libopenblas.so", 5)

    def inside(left: list[int], around: int) -> None:
        assert controller.threads == current_blas_threads() == around
        if left:
            with blas_threads(left[0]):
                assert limit() == min(left[0], 3)
                inside(left[1:], left[0])
            assert controller.threads == around

    with pytest.MonkeyPatch.context() as patched:
        load(patched, [controller], cores=3)
        inside(counts, 5)


def test_no_threads_are_refused_before_anything_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = MadeController("/usr/lib/libopenblas.so", 5)
    load(monkeypatch, [controller])
    with pytest.raises(ValueError, match="count must be at least 1 thread, not 0"):
        limit_blas_threads(0)
    assert controller.threads == 5


def test_accelerate_of_macos_15_is_held_to_one_thread_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    load(monkeypatch, framework=Accelerate15())
    assert loaded_blas() == (ACCELERATE,)
    assert numpy_blas().label() == "accelerate"
    assert current_blas_threads() is None
    with blas_threads(1):
        assert current_blas_threads() == loaded_blas()[0].threads == 1
        assert in_another_thread() is None, "its setting is a thread's own"
        with blas_threads(3):
            assert current_blas_threads() is None, "nobody knows how many it then takes"
            assert limit() == thread_limit() == 3
        assert current_blas_threads() == 1
        assert limit() == 1
    assert current_blas_threads() is None
    assert limit() == 4, "kernels use all cores where nobody limited them"
    assert (limited_blas_threads(1), limited_blas_threads(2)) == (1, None)


def test_accelerate_before_macos_15_is_not_said_to_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    load(monkeypatch, framework=object())
    for count in (1, 2):
        with blas_threads(count):
            assert (current_blas_threads(), limit(), thread_limit()) == (None, count, count)
    assert limited_blas_threads(1) is None
    assert measure(lambda: None, "nothing", repeats=3, warmup_seconds=0.01).conditions.blas_threads == "unknown"


def test_a_variable_set_before_the_start_holds_accelerate_and_not_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    load(monkeypatch, framework=object(), at_start="1")
    assert current_blas_threads() == loaded_blas()[0].threads == 1
    with blas_threads(2):
        assert current_blas_threads() == 1
        assert limit() == 2


def test_numpys_blas_is_named_also_beside_one_of_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    of_scipy = MadeController(OF_SCIPY, 8)
    load(monkeypatch, [of_scipy], framework=Accelerate15())
    assert loaded_blas() == (ACCELERATE, Blas("openblas", "0.3.30", "armv8", None, 8, "scipy"))
    assert numpy_blas() == ACCELERATE
    with blas_threads(1):
        assert (of_scipy.threads, current_blas_threads()) == (8, 1), "SciPy's own multiplies nothing here"
    assert current_blas_threads() is None


def test_numpys_own_copy_is_its_blas_whatever_else_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    own = MadeController(OF_SCIPY.replace("scipy", "numpy"), 2)
    load(monkeypatch, [MadeController(OF_SCIPY, 8), MadeController("/opt/lib/libblis.so", 4, "blis"), own])
    assert numpy_blas() == Blas("openblas", "0.3.30", "armv8", None, 2, "numpy")
    assert current_blas_threads() == 4


@pytest.mark.parametrize(("noted", "name"), [({"name": "blas", "version": "3.9.0"}, "blas"), ({}, "unknown")])
def test_of_a_blas_that_nobody_can_ask_only_the_name_is_known(
    monkeypatch: pytest.MonkeyPatch, noted: dict[str, str], name: str
) -> None:
    load(monkeypatch, noted=noted, framework=Accelerate15())
    assert numpy_blas() == Blas(name, None, None, None, None, None)
    with blas_threads(1):
        assert current_blas_threads() is None
        assert limit() == 1


def test_this_numpy_notes_its_blas_where_it_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(OF_MACOS) <= set(np.show_config(mode="dicts")["Build Dependencies"]["blas"])
    load(monkeypatch)
    monkeypatch.setattr(weights, "threadpool_info", list)
    assert weights.arithmetic() == f"{np.__version__} accelerate"


def test_more_cores_are_more_threads_of_kernels_where_blas_lists_none(monkeypatch: pytest.MonkeyPatch) -> None:
    load(monkeypatch, framework=Accelerate15())
    with blas_threads(1):
        assert with_threads(lambda: (limit(), current_blas_threads()), 2)() == (2, None)
