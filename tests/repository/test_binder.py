"""Binder gets the packages of the lock and no others, and opens a chapter as a notebook."""

import re
import tomllib
from pathlib import Path

from measured_book.site.repository import Repository, binder_address
from notebook_lab import Lab
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repository.lock_markers import PLATFORMS, PYTHONS, applies

ROOT = Path(__file__).resolve().parents[2]
BINDER = ROOT / "binder"


def pinned(path: Path) -> dict[str, tuple[str, set[str]]]:
    """Version and hashes of each package that a lock gives Binder's Python and system, by name."""
    text = path.read_text("utf-8").replace("\\\n", " ")
    found: dict[str, tuple[str, set[str]]] = {}
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        requirement = Requirement(line.split(" --hash=")[0])
        if applies(requirement, PYTHONS[0], PLATFORMS[0]):
            hashes = set(re.findall(r"--hash=(sha256:[0-9a-f]{64})", line))
            found[canonicalize_name(requirement.name)] = (str(requirement.specifier), hashes)
    return found


def test_every_package_is_the_lock_s_with_its_hashes() -> None:
    ours, theirs = pinned(ROOT / "requirements.lock"), pinned(BINDER / "requirements.txt")
    assert len(theirs) > 50
    for name, (version, hashes) in theirs.items():
        assert hashes, name
        assert name in ours, f"{name} is in binder/requirements.txt and not in requirements.lock: run `make lock`"
        assert (version, hashes) == ours[name], f"{name} differs from requirements.lock: run `make lock`"


def test_what_chapters_and_notebooks_need_is_there() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"]
    asked = [
        *project["project"]["dependencies"],
        *extras["notebook"],
        *extras["mpi"],
        *project["build-system"]["requires"],
    ]
    there = pinned(BINDER / "requirements.txt")
    for requirement in map(Requirement, asked):
        version = there[canonicalize_name(requirement.name)][0].removeprefix("==")
        assert requirement.specifier.contains(version), requirement
    assert not {"jupyter-book", "pytest", "playwright", "torch"} & there.keys()


def test_the_python_is_the_one_that_the_lock_was_made_for() -> None:
    assert (BINDER / "runtime.txt").read_text("ascii") == f"python-{PYTHONS[0]}\n"


def test_the_launch_button_leads_where_the_check_goes() -> None:
    address = binder_address(Repository("https://github.com/someone/book", "github"), "book/machine.md")
    opened, _, path = address.partition("?urlpath=lab/tree/")
    assert opened == "https://mybinder.org/v2/gh/someone/book/HEAD"
    assert Lab("http://127.0.0.1:1", "secret").launch(path).startswith("http://127.0.0.1:1/lab/tree/book/machine.md?")
    assert (ROOT / path).is_file()
