"""What of a BLAS a measurement does without: variables that choose its kernels or threads, and warnings of no error."""

from collections.abc import Mapping

import numpy as np

#: Beginnings of their names: BLAS libraries and the OpenMP that they use.
BLAS_SETTINGS = ("BLIS_", "GOTO_", "KMP_", "MKL_", "NVPL_", "OMP_", "OPENBLAS_", "VECLIB_")


def without_blas_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables without those that choose BLAS kernels or thread counts."""
    return {name: value for name, value in environment.items() if not name.startswith(BLAS_SETTINGS)}


def raises_false_flags() -> bool:
    """Return whether a float32 product of ones by NumPy's BLAS raises floating-point flags, of errors that it has not.

    A kernel for Arm's SME does: the unit sets every flag on its way into the streaming mode and out of it. Sources: Arm
    Architecture Reference Manual, PSTATE.SM and FPSR; https://github.com/numpy/numpy/issues/28687, of macOS, where
    NumPy itself does without the flags.
    """
    ones = np.ones((64, 64), np.float32)
    try:
        with np.errstate(all="raise"):
            np.matmul(ones, ones)
    except FloatingPointError:
        return True
    return False


def ignored_warnings() -> list[str]:
    """Return the filters, as ``-W`` takes them, of what NumPy warns of after products: none unless flags are false.

    Where they are false, a true one cannot be told from them, and neither is one in any other operation hidden.
    """
    if not raises_false_flags():
        return []
    return [
        f"ignore:{flag} encountered in {product}:RuntimeWarning"
        for flag in ("divide by zero", "overflow", "invalid value")
        for product in ("matmul", "dot")
    ]
