"""What a page's key holds: the modules that its code may import, and the machine."""

import subprocess
import sys
from pathlib import Path

import pytest
from measured_book.execution.closure import SourcePackage
from measured_book.execution.key import digest_of, modules_of, page_key, surroundings
from sphinx.errors import ExtensionError

from tests.chosen_settings import choose_settings
from tinytorch.perf.host import identity
from tinytorch.perf.host.pinned_threads import may_pin, pinned_to, usable_cores

PACKAGES = ["../ship"]
PATHS = ["../requirements.lock"]
CELLS = ["from ship import engine"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in ("book", "ship"):
        (tmp_path / name).mkdir()
    for name in ("__init__", "engine", "sail"):
        (tmp_path / "ship" / f"{name}.py").write_text("x = 1\n")
    (tmp_path / "ship" / "schema.json").write_text("{}\n")
    (tmp_path / "ship" / "deep").mkdir()
    (tmp_path / "ship" / "deep" / "model.onnx").write_bytes(b"1")
    (tmp_path / "requirements.lock").write_text("numpy==2\n")
    return tmp_path / "book"


def key(source: Path) -> str:
    around = surroundings(source, PACKAGES, PATHS)
    return page_key(modules_of(CELLS, around), around)


def test_what_a_page_does_not_use_is_not_in_its_key(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(source)
    assert key(source) == before
    (source.parent / "ship" / "sail.py").write_text("x = 2\n")
    (source.parent / "ship" / "rudder.py").write_text("x = 2\n")
    monkeypatch.setenv("UNRELATED", "1")
    assert key(source) == before


@pytest.mark.parametrize(
    "name", ["ship/engine.py", "ship/__init__.py", "ship/schema.json", "ship/deep/model.onnx", "requirements.lock"]
)
def test_one_byte_of_what_the_page_uses_gives_another_key(source: Path, name: str) -> None:
    before = key(source)
    path = source.parent / name
    path.write_bytes(path.read_bytes() + b"\n")
    assert key(source) != before


@pytest.mark.parametrize(
    "name", ["OPENBLAS_CORETYPE", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "PYTHONOPTIMIZE"]
)
def test_what_steers_kernels_is_in_the_key(source: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(name, raising=False)
    before = key(source)
    monkeypatch.setenv(name, "1")
    assert key(source) != before


def test_each_kind_of_arm_cpu_has_a_key_of_its_own(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/proc/cpuinfo has no line "model name" there."""
    keys = set()
    for part in ("0xd0c", "0xd40", "0xfff", "0xffe"):
        text = f"processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: {part}\n"
        monkeypatch.setattr(identity, "_cpuinfo", lambda text=text: text)
        monkeypatch.setattr(identity, "_output_of", lambda *_: "")
        keys.add(key(source))
    assert len(keys) == 4


def test_the_cores_that_a_build_may_use_are_in_the_key(source: Path) -> None:
    before, cores = key(source), usable_cores()
    with pinned_to(cores[:1]):
        now = key(source)
    assert (now == before) == (len(cores) == 1 or not may_pin())
    assert key(source) == before


def test_a_package_of_another_tree_is_named_with_both_places(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = source.parent / "other" / "ship"
    other.mkdir(parents=True)
    (other / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(other.parent))
    with pytest.raises(ExtensionError) as error:
        key(source)
    for folder in (other, source.parent / "ship"):
        assert str(folder / "__init__.py") in str(error.value)


def test_engines_are_in_the_key_of_pages_that_may_look_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Path(__file__).resolve().parents[3] / "book"
    keys: dict[str, set[str]] = {"racing": set(), "alone": set()}
    for version in ("1.0", "1.1"):
        peers = tmp_path / f"python-{version}"
        peers.write_text(f'#!/bin/sh\necho \'{{"JAX": "{version}"}}\'\n')
        peers.chmod(0o755)
        choose_settings(monkeypatch, peers=str(peers))
        around = surroundings(book, ["../tinytorch"], [])
        for name, cell in (("racing", "tinytorch.perf.engines.turns"), ("alone", "tinytorch.core.tensor")):
            keys[name].add(page_key(modules_of([f"import {cell}"], around), around))
    assert [len(keys["racing"]), len(keys["alone"])] == [2, 1]


def test_a_folder_has_another_digest_when_a_file_comes_changes_or_goes(tmp_path: Path) -> None:
    digests = [digest_of(tmp_path)]
    for name, text in (("a.json", "1"), ("a.json", "2"), ("builds/b.json", "1")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        assert digest_of(tmp_path) not in digests
        digests.append(digest_of(tmp_path))
    (tmp_path / "builds" / "b.json").unlink()
    (tmp_path / "builds").rmdir()
    (tmp_path / "a.json").write_text("1")
    assert digest_of(tmp_path) == digests[1]


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
