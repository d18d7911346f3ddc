"""What tests of kernels share: the threads that kernels have by default, between which some divide their work."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _one_blas_thread() -> None:
    """Hold nothing to one thread."""
