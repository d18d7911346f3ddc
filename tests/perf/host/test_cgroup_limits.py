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
NOWHERE = "1:cpu:/\n0::/\n"


def made(folder: Path, own: str, files: dict[str, str]) -> Hosting:
    for name, text in files.items():
        path = folder / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "ascii")
    (folder / "own").write_text(own, "ascii")
    return hosting(8, 16 * GIB, {}, folder / "groups", folder / "own")


@pytest.mark.parametrize(
    ("own", "files", "quota", "memory"),
    [
        (
            "0::/pods/one\n",
            {
                "cpu.max": "max 100000\n",
                "pods/cpu.max": "150000 100000\n",
                "pods/one/cpu.max": "400000 100000\n",
                "pods/memory.max": "max\n",
                "pods/one/memory.max": f"{2 * GIB}\n",
            },
            1.5,
            2 * GIB,
        ),
        (
            "5:cpu,cpuacct:/docker\n4:memory:/docker\n0::/\n",
            {
                "cpu,cpuacct/docker/cpu.cfs_quota_us": "50000\n",
                "cpu,cpuacct/docker/cpu.cfs_period_us": "100000\n",
                "memory/docker/memory.limit_in_bytes": f"{GIB}\n",
            },
            0.5,
            GIB,
        ),
        ("0::/of/the/host\n", {"cpu.max": "100000 100000"}, 1.0, None),
        (NOWHERE, {}, None, None),
        (NOWHERE, {"cpu.max": "max 100000", "memory.max": "max"}, None, None),
        (NOWHERE, {"cpu.max": "800000 100000", "memory.max": str(16 * GIB)}, None, None),
        (NOWHERE, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None, None),
        (NOWHERE, {"cpu.max": "nonsense", "memory.max": ""}, None, None),
    ],
    ids=["version 2: the tightest", "version 1", "in a container", "none", "max", "all", "off", "nonsense"],
)
def test_limits_are_those_of_all_groups_around(
    tmp_path: Path, own: str, files: dict[str, str], quota: float | None, memory: int | None
) -> None:
    assert made(tmp_path, own, files) == Hosting(None, quota, memory)


def test_a_system_without_control_groups_has_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=123))
    assert hosting(8, GIB, {}, tmp_path / "none", tmp_path / "none") == Hosting(None, None, None)
    assert free_memory(tmp_path / "none", tmp_path / "none") == 123


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


@pytest.mark.parametrize(
    ("quota", "usable", "pins"),
    [(None, 4, True), (0.5, 1, False), (1.5, 2, False), (2.0, 2, False), (4.0, 4, True), (64.0, 4, True)],
)
def test_a_quota_leaves_no_more_cores_than_it_can_keep_busy_and_only_a_larger_one_lets_anybody_pin(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, usable: int, pins: bool
) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", print, raising=False)
    monkeypatch.setattr(pinned_threads, "allowed_cores", lambda: [3, 5, 6, 9])
    monkeypatch.setattr(pinned_threads, "cpu_quota", lambda: quota)
    assert pinned_threads.usable_cores() == [3, 5, 6, 9][:usable]
    assert pinned_threads.may_pin() == pins


POD = {
    "memory.max": f"{6 * GIB}\n",
    "memory.current": f"{GIB}\n",
    "pods/memory.max": f"{2 * GIB}\n",
    "pods/memory.current": f"{GIB}\n",
    "pods/memory.stat": f"anon {GIB // 2}\ninactive_file {GIB // 4}\nactive_file {GIB // 4}\n",
    "pods/one/memory.max": "max\n",
}
DOCKER = {
    "memory/docker/memory.limit_in_bytes": f"{GIB}\n",
    "memory/docker/memory.usage_in_bytes": f"{GIB // 2}\n",
    "memory/docker/memory.stat": f"inactive_file 1\ntotal_inactive_file {GIB // 4}\n",
}


@pytest.mark.parametrize(
    ("own", "files", "free"),
    [
        ("0::/pods/one\n", POD, 2 * GIB - GIB + GIB // 4),
        ("0::/pods/one\n", POD | {"pods/memory.current": f"{3 * GIB}"}, 0),
        ("4:memory:/docker\n", DOCKER, GIB - GIB // 2 + GIB // 4),
        ("0::/\n", {}, 8 * GIB),
        # A group that does not say what it holds holds this process.
        ("0::/\n", {"memory.max": str(4 * GIB)}, 4 * GIB - psutil.Process().memory_info().rss),
    ],
    ids=["version 2", "full", "version 1", "no limit", "no use told"],
)
def test_no_more_memory_is_free_than_a_control_group_leaves(
    own: str, files: dict[str, str], free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=8 * GIB))
    made(tmp_path, own, files)
    left = free_memory(tmp_path / "groups", tmp_path / "own")
    assert left == pytest.approx(free, abs=GIB if files and len(files) == 1 else 0)


@pytest.mark.parametrize(
    ("free", "last", "largest"),
    [(512, 256, 128), *((2**20, *of) for of in ((8, 128), (64, 256), (96, 384), (260, 384), (1024, 384)))],
    ids=["a quarter of what is free", "small", "four times", "most", "larger", "far larger"],
)
def test_probes_go_clear_of_the_last_cache_and_not_far_beyond_a_huge_one(
    monkeypatch: pytest.MonkeyPatch, free: int, last: int, largest: int
) -> None:
    monkeypatch.setattr(measured_ceilings, "free_memory", lambda: free * 2**20)
    assert measured_ceilings._largest({2: 2**20, 3: last * 2**20}) == largest * 2**20
