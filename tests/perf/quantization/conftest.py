"""One BLAS thread for these tests: on a busy machine, two wait for each other longer than small products take."""

from collections.abc import Iterator

import pytest

from tinytorch.perf.measuring import blas_threads


@pytest.fixture(autouse=True, scope="module")
def _one_blas_thread() -> Iterator[None]:
    with blas_threads(1):
        yield
