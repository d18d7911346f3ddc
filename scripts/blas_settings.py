"""Which environment variables choose kernels or thread counts of a BLAS, so that a measurement can do without them."""

from __future__ import annotations

from collections.abc import Mapping

#: Beginnings of their names: BLAS libraries and the OpenMP that they use.
BLAS_SETTINGS = ("BLIS_", "GOTO_", "KMP_", "MKL_", "NVPL_", "OMP_", "OPENBLAS_", "VECLIB_")


def without_blas_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables without those that choose BLAS kernels or thread counts."""
    return {name: value for name, value in environment.items() if not name.startswith(BLAS_SETTINGS)}
