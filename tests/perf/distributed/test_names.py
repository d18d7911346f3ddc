"""The package for several ranks: importing it costs a rank neither SciPy nor Numba, and starts no MPI."""

import subprocess
import sys

from tinytorch.perf import distributed


def test_every_name_is_there() -> None:
    assert all(getattr(distributed, name) is not None for name in distributed.__all__)


def test_a_rank_that_imports_the_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, tinytorch.perf.distributed, tinytorch.chapters.distributed.step_programs;"
        "sys.exit(any(name in sys.modules for name in ('scipy', 'numba', 'matplotlib', 'mpi4py.MPI')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
