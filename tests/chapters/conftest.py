"""One BLAS thread for tests of chapters, which hold it to one as their pages begin; given back after each module."""

from collections.abc import Iterator

import pytest

from tinytorch.perf.measuring import blas_threads


@pytest.fixture(autouse=True, scope="module")
def _one_blas_thread() -> Iterator[None]:
    with blas_threads(1):
        yield
