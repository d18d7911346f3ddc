"""The program in C that the chapter shows: compiled and run where there is a compiler."""

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from tinytorch.perf.engines.snippets import Printed
from tinytorch.perf.measuring import Unmeasured

_SOURCE = Path(__file__).with_name("product.c")


def run_program() -> Printed | Unmeasured:
    """Return what the program prints, or why it did not run: it needs a compiler of C that knows this CPU."""
    compiler = shutil.which("cc")
    if compiler is None:
        return Unmeasured("there is no C compiler on the machine of this build")
    with TemporaryDirectory() as folder:
        program = Path(folder, "product")
        command = [compiler, "-O3", "-march=native", str(_SOURCE), "-o", str(program), "-lm"]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return Unmeasured("the C compiler of this machine could not compile the program")
        done = subprocess.run([program], capture_output=True, text=True, check=True)
    return Printed(done.stdout, "cc")
