"""What a shared host grants, read from made control groups of both versions."""

import os
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tinytorch.perf.host import pinned_threads
from tinytorch.perf.host.cgroup_limits import Hosting, free_memory, hosting, service_of
from tinytorch.perf.machine import measured_ceilings

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
    monkeypatch.setattr(pinned_threads, "allowed_cores", lambda: [3, 5, 6, 9])
    monkeypatch.setattr(pinned_threads, "cpu_quota", lambda: quota)
    assert pinned_threads.usable_cores() == [3, 5, 6, 9][:usable]


@pytest.mark.parametrize(("quota", "pins"), [(None, True), (0.5, False), (3.5, False), (4.0, True), (64.0, True)])
def test_only_where_no_quota_is_smaller_than_the_cores_may_anybody_pin(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, pins: bool
) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", print, raising=False)
    monkeypatch.setattr(pinned_threads, "allowed_cores", lambda: [3, 5, 6, 9])
    monkeypatch.setattr(pinned_threads, "cpu_quota", lambda: quota)
    assert pinned_threads.may_pin() == pins


def test_no_more_memory_is_free_than_a_control_group_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=8 * GIB))
    files = {
        "memory.max": f"{6 * GIB}\n",
        "memory.current": f"{GIB}\n",
        "pods/memory.max": f"{2 * GIB}\n",
        "pods/memory.current": f"{GIB}\n",
        "pods/memory.stat": f"anon {GIB // 2}\ninactive_file {GIB // 4}\nactive_file {GIB // 4}\n",
        "pods/one/memory.max": "max\n",
    }
    made(tmp_path, "0::/pods/one\n", files)
    assert free_memory(tmp_path / "groups", tmp_path / "own") == 2 * GIB - GIB + GIB // 4
    (tmp_path / "groups" / "pods" / "memory.current").write_text(f"{3 * GIB}")
    assert free_memory(tmp_path / "groups", tmp_path / "own") == 0


def test_free_memory_by_version_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=8 * GIB))
    files = {
        "memory/docker/memory.limit_in_bytes": f"{GIB}\n",
        "memory/docker/memory.usage_in_bytes": f"{GIB // 2}\n",
        "memory/docker/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB // 4}\n",
    }
    made(tmp_path, "4:memory:/docker\n", files)
    assert free_memory(tmp_path / "groups", tmp_path / "own") == GIB - GIB // 2 + GIB // 4


def test_a_group_that_does_not_say_what_it_holds_holds_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=800 * GIB))
    made(tmp_path, "0::/\n", {"memory.max": str(64 * GIB)})
    left = free_memory(tmp_path / "groups", tmp_path / "own")
    assert left == pytest.approx(64 * GIB - psutil.Process().memory_info().rss, abs=GIB // 8)


def test_without_control_groups_the_system_says_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=123))
    assert free_memory(tmp_path / "none", tmp_path / "none") == 123


def test_probes_take_a_quarter_of_what_is_free_to_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_ceilings, "free_memory", lambda: 512 * 2**20)
    assert measured_ceilings._largest({3: 256 * 2**20}) == 128 * 2**20


@pytest.mark.parametrize(
    ("last", "largest"),
    [(8, 128), (64, 256), (96, 384), (260, 390), (1024, 1536)],
    ids=["small", "four times", "most", "half as large again", "beyond most"],
)
def test_probes_go_clear_of_the_last_cache_and_not_far_beyond_a_huge_one(
    monkeypatch: pytest.MonkeyPatch, last: int, largest: int
) -> None:
    monkeypatch.setattr(measured_ceilings, "free_memory", lambda: 2**40)
    assert measured_ceilings._largest({2: 2**20, 3: last * 2**20}) == largest * 2**20
