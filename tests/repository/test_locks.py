"""Every package of all environments has one version and its hashes, and comes from no place of one machine."""

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from measured_book.sources.repository import Repository, binder_address
from notebook_lab import Lab
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements.lock", "requirements-peers.lock")
BINDER = "binder/requirements.txt"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = (("linux", "Linux"), ("darwin", "Darwin"))


def applies(requirement: Requirement, python: str, platform: tuple[str, str]) -> bool:
    """Return whether CPython of a version such as 3.11 on a platform, its ``sys_platform`` and system, installs it.

    Raises:
        KeyError: if the marker asks for a fact that is not stated here: the running Python's would be taken.
    """
    facts = {"python_version": python, "python_full_version": f"{python}.0", "implementation_name": "cpython"}
    facts |= {"platform_python_implementation": "CPython", "sys_platform": platform[0], "platform_system": platform[1]}
    facts |= {"os_name": "posix", "extra": "", "platform_machine": {"Linux": "x86_64", "Darwin": "arm64"}[platform[1]]}
    if requirement.marker is None:
        return True
    for name in re.findall(r"[a-z_]+(?= (?:[<>=!~]|in |not in ))", re.sub(r'"[^"]*"', '""', str(requirement.marker))):
        facts[name]
    return requirement.marker.evaluate(facts)


@cache
def entries(lock: str) -> list[tuple[Requirement, frozenset[str]]]:
    """The requirements of a lock, each with its hashes."""
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    hashes = [frozenset(re.findall(r"--hash=(sha256:[0-9a-f]{64})", line)) for line in lines]
    return [(Requirement(line.split(" --hash=")[0]), found) for line, found in zip(lines, hashes, strict=True)]


PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]


def installed(lock: str, python: str, platform: tuple[str, str]) -> dict[str, tuple[str, frozenset[str]]]:
    """What a lock installs on a Python and a platform: versions and hashes by name; an error if one name has two."""
    versions: dict[str, tuple[str, frozenset[str]]] = {}
    for requirement, hashes in entries(lock):
        if applies(requirement, python, platform):
            name = canonicalize_name(requirement.name)
            assert name not in versions, f"{lock} gives {name} twice on Python {python}"
            versions[name] = str(requirement.specifier), hashes
    return versions


def assert_there(asked: list[str], versions: dict[str, tuple[str, frozenset[str]]]) -> None:
    for requirement in map(Requirement, asked):
        pinned = versions[canonicalize_name(requirement.name)][0].removeprefix("==")
        assert requirement.specifier.contains(pinned, prereleases=True), requirement


@pytest.mark.parametrize("lock", [*LOCKS, BINDER])
def test_every_entry_is_one_version_with_a_hash_and_names_no_place(lock: str) -> None:
    assert len(entries(lock)) > 20
    for requirement, hashes in entries(lock):
        assert re.fullmatch(r"==[\w.!+]+", str(requirement.specifier)), requirement
        assert requirement.url is None
        assert hashes, requirement
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert not re.search(r"https?://|file:|--find-links|index-url|(^|\s)/\w", text)
    assert text.splitlines()[1] == "#    make lock"


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("python", PYTHONS)
def test_all_that_the_project_asks_for_is_there_and_peers_are_compared_with_the_same(
    python: str, platform: tuple[str, str]
) -> None:
    ours, theirs = (installed(lock, python, platform) for lock in LOCKS)
    needed = PROJECT["project"]["dependencies"]
    assert_there([*needed, *(line for extra in EXTRAS.values() for line in extra)], ours)
    assert_there([*needed, *PROJECT["dependency-groups"]["peers"]], theirs)
    common = ours.keys() & theirs.keys()
    assert {name: theirs[name][0] for name in common} == {name: ours[name][0] for name in common}


def test_torch_is_pinned_outside_the_lock_without_cuda_and_packages_of_node_have_hashes() -> None:
    (torch,) = map(Requirement, PROJECT["dependency-groups"]["torch"])
    assert re.fullmatch(r"torch==\d+\.\d+\.\d+", str(torch))
    names = [canonicalize_name(requirement.name) for lock in LOCKS for requirement, _ in entries(lock)]
    assert not [name for name in names if name == "torch" or name.startswith(("nvidia-", "triton", "cuda"))]
    packages = json.loads((ROOT / "book" / "_checks" / "package-lock.json").read_text("utf-8"))["packages"]
    assert all("integrity" in package for name, package in packages.items() if name)


def test_binder_has_packages_of_the_lock_as_far_as_chapters_and_notebooks_need_them() -> None:
    ours, theirs = (installed(lock, PYTHONS[0], PLATFORMS[0]) for lock in (LOCKS[0], BINDER))
    assert theirs == {name: ours.get(name) for name in theirs}, "run `make lock`"
    asked = [*PROJECT["project"]["dependencies"], *EXTRAS["notebook"], *EXTRAS["mpi"]]
    assert_there([*asked, *PROJECT["build-system"]["requires"]], theirs)
    assert not {"jupyter-book", "pytest", "playwright", "torch"} & theirs.keys()
    assert (ROOT / "binder" / "runtime.txt").read_text("ascii") == f"python-{PYTHONS[0]}\n"


def test_the_launch_button_leads_where_the_check_goes() -> None:
    address = binder_address(Repository("https://github.com/someone/book"), "book/machine.md")
    opened, _, path = address.partition("?urlpath=lab/tree/")
    assert opened == "https://mybinder.org/v2/gh/someone/book/HEAD"
    assert Lab("http://127.0.0.1:1", "secret").launch(path).startswith("http://127.0.0.1:1/lab/tree/book/machine.md?")
    assert (ROOT / path).is_file()
