"""What mpiexec starts for each rank of `launch`: it runs the rank's program, and notes the signal that it dies of.

When a process dies, mpiexec kills all others at once and reports any of them. The note is written before mpiexec can
know. Run by its path, so that nothing is imported but the standard library.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def main(folder: Path) -> int:
    """Run the rank's program to its end; return its exit code."""
    # What mpiexec gave this process to talk through, the child needs.
    command = [sys.executable, "-m", "tinytorch.perf.distributed.ranks.rank_program", str(folder)]
    child = subprocess.Popen(command, close_fds=False)
    code = child.wait()
    if code >= 0:
        return code
    aside = folder / f".killed-{child.pid}.part"
    aside.write_text(str(-code), "utf-8")
    os.replace(aside, folder / f"killed-{child.pid}")
    return 128 - code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
