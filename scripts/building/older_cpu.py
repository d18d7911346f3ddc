"""Variables that hold Numba, OpenBLAS and NumPy to the instructions of an older CPU than the one they run on.

So that what readers of such a CPU meet can be built and tested where there is none. Only the instructions are those of
the older CPU: clock, caches and cores stay this machine's. `python -m scripts.building.older_cpu avx2 COMMAND` runs a
command so.
"""

import os
import sys

from llvmlite.binding import get_host_cpu_features
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__  # type: ignore[import-not-found]

from tinytorch.perf.host.identity import LATER_THAN_AVX2
from tinytorch.settings import variables

CPUS = ("avx2",)


def older_cpu_settings(cpu: str) -> dict[str, str]:
    """Return the variables of a process that is to do as ``cpu`` would: "avx2", x86-64 without AVX-512 and VNNI.

    Raises:
        ValueError: if ``cpu`` is none of `CPUS`, or this machine lacks its instructions.
    """
    if cpu not in CPUS:
        raise ValueError(f"CPU must be {' or '.join(CPUS)}, not {cpu!r}")
    features = dict(get_host_cpu_features())
    if not features.get("avx2"):
        raise ValueError("CPU=avx2 needs an x86-64 processor with AVX2, which this one is not")
    # What NumPy may run here by a choice at start, and would not on AVX2.
    numpy = [name for name in __cpu_dispatch__ if __cpu_features__.get(name) and name.startswith(("AVX512", "X86_V4"))]
    kept = {name: has and not name.startswith(LATER_THAN_AVX2) for name, has in features.items()}
    return {
        **variables(cpu=cpu),
        # The name alone is not enough: Numba takes this machine's features along.
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": ",".join(f"{'+' if has else '-'}{name}" for name, has in sorted(kept.items())),
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": " ".join(numpy),
    }


def main() -> None:
    """Run the command that follows the name of a CPU on the command line, held to it, in the place of this process."""
    cpu, *command = sys.argv[1:]
    try:
        settings = older_cpu_settings(cpu)
    except ValueError as error:
        sys.exit(f"Nothing ran: {error}.")
    os.execvpe(command[0], command, {**os.environ, **settings})


if __name__ == "__main__":
    main()
