"""What a shared host grants, read from made control groups of both versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from tinytorch.perf import team
from tinytorch.perf.hosting import Hosting, hosting, service_of

GIB = 2**30


def made(folder: Path, own: str, files: dict[str, str], cores: int = 8) -> Hosting:
    for name, text in files.items():
        path = folder / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "ascii")
    (folder / "own").write_text(own, "ascii")
    return hosting(cores, 16 * GIB, {}, folder / "groups", folder / "own")


def test_version_2_gives_the_tightest_of_all_groups_around(tmp_path: Path) -> None:
    files = {
        "cpu.max": "max 100000\n",
        "pods/cpu.max": "150000 100000\n",
        "pods/one/cpu.max": "400000 100000\n",
        "pods/memory.max": "max\n",
        "pods/one/memory.max": f"{2 * GIB}\n",
    }
    assert made(tmp_path, "0::/pods/one\n", files) == Hosting(None, 1.5, 2 * GIB)


def test_version_1_has_a_folder_for_each_controller(tmp_path: Path) -> None:
    files = {
        "cpu,cpuacct/docker/cpu.cfs_quota_us": "50000\n",
        "cpu,cpuacct/docker/cpu.cfs_period_us": "100000\n",
        "memory/docker/memory.limit_in_bytes": f"{GIB}\n",
    }
    own = "5:cpu,cpuacct:/docker\n4:memory:/docker\n0::/\n"
    assert made(tmp_path, own, files) == Hosting(None, 0.5, GIB)


def test_in_a_container_the_root_is_its_own_group(tmp_path: Path) -> None:
    assert made(tmp_path, "0::/of/the/host\n", {"cpu.max": "100000 100000"}).cpu_quota == 1.0


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"cpu.max": "max 100000", "memory.max": "max"},
        {"cpu.max": "800000 100000", "memory.max": str(16 * GIB)},
        {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"},
        {"cpu.max": "nonsense", "memory.max": ""},
    ],
)
def test_no_limit_is_none(tmp_path: Path, files: dict[str, str]) -> None:
    assert made(tmp_path, "1:cpu:/\n0::/\n", files) == Hosting(None, None, None)


def test_a_system_without_control_groups_has_no_limit(tmp_path: Path) -> None:
    assert hosting(8, GIB, {}, tmp_path / "none", tmp_path / "none") == Hosting(None, None, None)


@pytest.mark.parametrize(
    ("environment", "service"),
    [
        ({"BINDER_SERVICE_HOST": "10.0.0.1"}, "Binder"),
        ({"BINDER_REPO_URL": "https://example.org/book"}, "Binder"),
        ({"COLAB_RELEASE_TAG": "release-colab"}, "Google Colab"),
        ({"GITHUB_ACTIONS": "true"}, "GitHub Actions"),
        ({"GITHUB_ACTIONS": "", "HOME": "/root"}, None),
    ],
)
def test_a_service_is_known_by_its_variables(environment: dict[str, str], service: str | None) -> None:
    assert service_of(environment) == service


@pytest.mark.parametrize(("quota", "usable"), [(None, 4), (0.5, 1), (1.5, 2), (2.0, 2), (64.0, 4)])
def test_a_quota_leaves_no_more_cores_than_it_can_keep_busy(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, usable: int
) -> None:
    monkeypatch.setattr(team, "allowed_cores", lambda: [3, 5, 6, 9])
    monkeypatch.setattr(team, "cpu_quota", lambda: quota)
    assert team.usable_cores() == [3, 5, 6, 9][:usable]
