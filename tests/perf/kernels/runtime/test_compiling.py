"""What compiled kernels leave on disk, what is said of the time it took, and of a Numba that compiles nothing."""

import importlib
import os
import pkgutil
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError
from numba.core.registry import CPUDispatcher

from tinytorch.perf import kernels
from tinytorch.perf.kernels.runtime import compiling
from tinytorch.perf.kernels.runtime.compiling import kernel

#: Needs one kernel, which closes over another, in a folder of its own; says how many this process compiled, how often
#: it read one from disk, and which ones were compiled.
PROGRAM = """
import sys
from pathlib import Path
from tinytorch.perf.kernels.runtime import compiling
compiling.KEPT = Path(sys.argv[1])
if sys.argv[2] == "rank":
    sys.modules["mpi4py.MPI"] = None
import numpy as np
from tinytorch.core import ops
from tinytorch.perf.kernels.pointwise import SHARES
relu_share = SHARES[ops.relu]
x = np.array([-1.0, 2.0], np.float32)
y = np.empty_like(x)
compiling.warm(relu_share, 0, 2, x, y)
before = list(relu_share.overloads)
relu_share(0, 2, x, y)
assert y.tolist() == [0.0, 2.0] and list(relu_share.overloads) == before
here = len(compiling._seconds.taken)
print(here, sum(relu_share.stats.cache_hits.values()), *compiling.compile_seconds())
"""


def run(folder: Path, place: str = "alone") -> str:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder), place], check=True, capture_output=True, text=True
    ).stdout.strip()


COMPILED = "pointwise._share.<locals>.share_relu pointwise.relu"


def test_what_numba_does_not_promise_was_tried_with_this_release() -> None:
    """After a new release: see that all of tests/perf/kernels passes, then write it into TRIED_WITH."""
    assert numba.__version__.startswith(f"{compiling.TRIED_WITH}.")


@pytest.mark.parametrize("place", ["rank", "alone"])
def test_a_process_compiles_or_has_a_child_compile_and_the_next_one_reads(tmp_path: Path, place: str) -> None:
    """Outside of Linux nobody forks, and the process compiles itself."""
    forks = place == "alone" and sys.platform == "linux"
    assert run(tmp_path, place) == (f"0 1 {COMPILED}" if forks else f"2 0 {COMPILED}")
    assert run(tmp_path, place) == f"0 1 {COMPILED}"


def test_a_child_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_LONGEST_COMPILATION", 0.1)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    assert not compiling._ended_well(child.pid)
    child.wait()


def test_what_cannot_be_compiled_raises_here_and_once(capfd: pytest.CaptureFixture[str]) -> None:
    wrong = kernel(mixed)
    with pytest.raises(TypingError):
        wrong(1)
    assert capfd.readouterr() == ("", ""), "the child says nothing"


def test_without_a_folder_kernels_compile_and_say_so(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    assert run(blocked) == f"2 0 {COMPILED}"


@pytest.mark.parametrize(("hours", "stay"), [((0, 0.5, 2, 3, 4), 3), ((0,) * 6, 6)])
def test_folders_go_that_are_neither_new_nor_in_use(tmp_path: Path, hours: tuple[float, ...], stay: int) -> None:
    for number, age in enumerate(hours):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "kernel.nbc").touch()
        moment = time.time() - 3600 * age
        os.utime(tmp_path / str(number), (moment, moment))
    compiling.remove_old_folders(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [str(number) for number in range(stay)]


def test_a_process_whose_folder_is_removed_compiles_on_and_keeps_what_it_makes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compiling, "cache_folder", lambda: tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    three = adder(3, "three")
    assert three(1) == 4
    shutil.rmtree(tmp_path / "kept")
    assert three(0.5) == 3.5
    assert any((tmp_path / "kept").glob("*.nbc"))


def test_the_key_is_of_all_sources(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(compiling, "_KERNELS", tmp_path)
    keys: list[str] = []
    for text in ("x = 1", "x = 2"):
        (tmp_path / "other.py").write_text(text)
        keys.append(compiling.source_key.__wrapped__())
    assert keys[0] != keys[1]


def mixed(a: Any) -> Any:
    return a + "text"


@kernel
def divide(a: Any, b: Any) -> Any:
    return a / b


def test_kernels_divide_as_numpy_does() -> None:
    assert divide(np.float32(1), np.float32(0)) == np.inf


def test_numba_is_imported_when_a_kernel_is_first_asked_for() -> None:
    program = (
        "import sys\n"
        "import numpy as np\n"
        "from tinytorch.perf import compression, memoization, quantization\n"
        "from tinytorch.perf.acceleration import accelerated, unfused_gelu\n"
        "unfused_gelu(np.ones(2, np.float32))\n"
        "before = 'numba' in sys.modules\n"
        "with accelerated(): pass\n"
        "print(before, 'numba' in sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, env=environment)
    assert said.stdout.split() == ["False", "True"]


def adder(number: int, variant: str) -> Any:
    def add(x: int) -> int:
        return x + number

    return kernel(add, variant)


def test_functions_of_the_same_lines_have_names_of_their_own() -> None:
    one, two = adder(1, "one"), adder(2, "two")
    assert one.py_func.__qualname__ != two.py_func.__qualname__
    assert (one(1), two(1)) == (2, 3)
    with pytest.raises(ValueError, match="variant"):
        adder(3, "")


def test_no_two_kernels_share_a_name() -> None:
    found: dict[str, int] = {}
    for entry in pkgutil.walk_packages(kernels.__path__, f"{kernels.__name__}."):
        module = importlib.import_module(entry.name)
        for value in vars(module).values():
            if isinstance(value, CPUDispatcher):
                name = f"{value.py_func.__module__}.{value.py_func.__qualname__}"
                assert found.setdefault(name, id(value)) == id(value), name
    assert len(found) > 50


def test_a_numba_that_compiles_nothing_is_refused_in_a_sentence() -> None:
    program = "from tinytorch.perf.acceleration import accelerated\naccelerated().__enter__()"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stderr.splitlines()[-1].startswith("RuntimeError: NUMBA_DISABLE_JIT is set, and")
