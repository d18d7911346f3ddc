"""Where MPI comes from: mpi4py, imported when it is first needed, so that nothing else needs an MPI."""

from __future__ import annotations

from functools import cache
from types import ModuleType


class MPIMissingError(ImportError):
    """mpi4py or an MPI library is not installed; the message says what to install."""


@cache
def load_mpi() -> ModuleType:
    """Return ``mpi4py.MPI``; the first call starts MPI in this process.

    Raises:
        MPIMissingError: if mpi4py or an MPI library is not there.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py is there, but no MPI library that it can load
        raise MPIMissingError(
            f'this needs mpi4py and an MPI library: pip install "tinytorch[mpi]" brings both, and on a cluster '
            f"mpi4py works with the cluster's own MPI ({error})"
        ) from None
    return MPI
