"""Which modules code may import: never fewer than Python then loads."""

import subprocess
import sys
from pathlib import Path

import pytest
from measured_book.execution.closure import SourcePackage

ROOT = Path(__file__).resolve().parents[3]


def made(folder: Path, **modules: str) -> SourcePackage:
    for name, text in {"__init__": "", **modules}.items():
        path = folder.joinpath("ship", *name.split("__of__")[::-1]).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (path.parent / "__init__.py").touch()
    return SourcePackage(folder / "ship")


@pytest.mark.parametrize(
    "cell",
    [
        "import ship.engine",
        "import ship.engine as e",
        "from ship import engine",
        "from ship.engine import power",
        "def later():\n    from ship.engine import power",
        "import subprocess\nsubprocess.run(['python', '-m', 'ship.engine'])",
    ],
)
def test_whatever_the_way_of_importing(tmp_path: Path, cell: str) -> None:
    package = made(tmp_path, engine="power = 1", sail="")
    assert {"ship", "ship.engine"} <= package.may_import([cell])


def test_what_a_module_imports_counts_and_the_packages_around_it(tmp_path: Path) -> None:
    package = made(
        tmp_path,
        engine="from ship.gear import wheel",
        wheel__of__gear="from .. import rudder\nfrom . import tooth",
        tooth__of__gear="",
        rudder="",
        sail="",
    )
    found = package.may_import(["import ship.engine"])
    assert found == {"ship", "ship.engine", "ship.gear", "ship.gear.wheel", "ship.gear.tooth", "ship.rudder"}


def test_unrelated_code_imports_nothing_and_a_magic_line_all_if_it_names_the_package(tmp_path: Path) -> None:
    package = made(tmp_path, engine='"""See `ship.sail`."""', sail="")
    assert package.may_import(["import ship.engine"]) == {"ship", "ship.engine"}
    assert package.may_import(["import numpy", "steamship = 1", "shipping.engine", "%matplotlib inline"]) == set()
    assert package.may_import(["%timeit ship.sail.hoist()"]) == {"ship", "ship.engine", "ship.sail"}


def test_a_folder_that_is_no_package_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="package"):
        SourcePackage(tmp_path)


RUN = """
import sys
{code}
print(*(name for name in sys.modules if name.partition(".")[0] == "tinytorch"))
"""


@pytest.fixture(scope="module")
def tinytorch() -> SourcePackage:
    return SourcePackage(ROOT / "tinytorch")


@pytest.mark.parametrize(
    "code",
    [
        "from tinytorch.core.tensor import Tensor\nfrom tinytorch.core.layers import Linear\n"
        "Linear(4, 4)(Tensor([[1.0] * 4])).sum().backward()",
        "from tinytorch.perf.acceleration import accelerated, vectorized_matmul\n"
        "import numpy as np\nwith accelerated():\n    vectorized_matmul(np.ones((4, 4)), np.ones((4, 4)))",
        "from tinytorch.perf.engines.agreement import load\nfrom tinytorch.perf.engines.protocol import engine\n"
        "from tinytorch.report import Page\nload(engine('tinytorch'))",
    ],
)
def test_never_fewer_than_python_loads(tinytorch: SourcePackage, code: str) -> None:
    command = [sys.executable, "-c", RUN.format(code=code)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert len(loaded) > 5
    assert loaded <= tinytorch.may_import([code])
