"""Every package of both environments has one version and its hashes, and comes from no place of one machine."""

import json
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.repository.lock_markers import PLATFORMS, PYTHONS, applies

ROOT = Path(__file__).resolve().parents[2]
LOCKS = ("requirements.lock", "requirements-peers.lock")


@cache
def entries(lock: str) -> list[tuple[Requirement, int]]:
    """The requirements of a lock, each with its number of hashes."""
    text = (ROOT / lock).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return [(Requirement(line.split(" --hash=")[0]), line.count("--hash=sha256:")) for line in lines]


@cache
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def installed(lock: str, python: str, platform: tuple[str, str]) -> dict[str, str]:
    """What a lock installs on a Python and a platform: versions by name; an error if one name has two."""
    versions: dict[str, str] = {}
    for requirement, _ in entries(lock):
        if applies(requirement, python, platform):
            name = canonicalize_name(requirement.name)
            assert name not in versions, f"{lock} gives {name} twice on Python {python}"
            versions[name] = str(requirement.specifier)
    return versions


@pytest.mark.parametrize("lock", LOCKS)
def test_every_entry_is_one_version_with_a_hash(lock: str) -> None:
    assert len(entries(lock)) > 20
    for requirement, hashes in entries(lock):
        assert re.fullmatch(r"==[\w.!+]+", str(requirement.specifier)), requirement
        assert requirement.url is None
        assert hashes >= 1, requirement


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_place(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert not re.search(r"https?://|file:|--find-links|index-url|(^|\s)/\w", text)
    assert text.splitlines()[1] == "#    make lock"


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("python", PYTHONS)
def test_all_that_the_project_asks_for_is_there(python: str, platform: tuple[str, str]) -> None:
    asked = project()["project"]["dependencies"] + [
        line for extra in project()["project"]["optional-dependencies"].values() for line in extra
    ]
    versions = installed("requirements.lock", python, platform)
    for requirement in map(Requirement, asked):
        pinned = versions[canonicalize_name(requirement.name)].removeprefix("==")
        assert requirement.specifier.contains(pinned, prereleases=True), requirement


@pytest.mark.parametrize("platform", PLATFORMS)
@pytest.mark.parametrize("python", PYTHONS)
def test_peers_are_compared_with_the_same_packages(python: str, platform: tuple[str, str]) -> None:
    ours = installed("requirements.lock", python, platform)
    theirs = installed("requirements-peers.lock", python, platform)
    asked = project()["project"]["dependencies"] + project()["dependency-groups"]["peers"]
    assert {canonicalize_name(Requirement(line).name) for line in asked} <= theirs.keys()
    assert {name: theirs[name] for name in ours.keys() & theirs.keys()} == {
        name: ours[name] for name in ours.keys() & theirs.keys()
    }


def test_torch_is_pinned_outside_the_lock_and_brings_no_cuda() -> None:
    (torch,) = map(Requirement, project()["dependency-groups"]["torch"])
    assert torch.name == "torch"
    assert re.fullmatch(r"==\d+\.\d+\.\d+", str(torch.specifier))
    names = {canonicalize_name(requirement.name) for lock in LOCKS for requirement, _ in entries(lock)}
    assert "torch" not in names
    assert not [name for name in names if name.startswith(("nvidia-", "triton", "cuda"))]


def test_every_package_of_node_has_its_hash() -> None:
    packages = json.loads((ROOT / "book" / "_checks" / "package-lock.json").read_text("utf-8"))["packages"]
    assert all("integrity" in package for name, package in packages.items() if name)
