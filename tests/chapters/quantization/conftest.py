"""One BLAS thread for these tests, as for those of the package."""

from tests.perf.quantization.conftest import _one_blas_thread

__all__ = ["_one_blas_thread"]
