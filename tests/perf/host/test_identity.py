"""Which machine this is and what of it a process may use, against what the system says in other ways."""

import json
import os
import platform
import re
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests.chosen_settings import choose_settings
from tinytorch.perf.host import background_load, pinned_threads
from tinytorch.perf.host import identity as identity_module
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.host.cgroup_limits import Hosting, free_memory, hosting, service_of
from tinytorch.perf.host.identity import (
    Cache,
    caches,
    cpu_name,
    identity,
    is_narrower,
    reported_capacities,
    steering_variables,
    widest_vectors,
)
from tinytorch.perf.machine import measured_ceilings


@pytest.fixture(autouse=True)
def _held_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask of this machine's own CPU, also where the tests run as an older one would."""
    choose_settings(monkeypatch, cpu="")


def listed_by_lscpu() -> dict[str, str]:
    """Return what `lscpu` prints; nothing where the system has none. Of several kinds of cores all names, as we do."""
    try:
        done = subprocess.run(["lscpu"], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"})
    except OSError:
        return {}
    lines = [[part.strip() for part in line.split(":", 1)] for line in done.stdout.splitlines() if ":" in line]
    names = [value for name, value in lines if name == "Model name"]
    return dict(lines) | ({"Model name": " + ".join(names)} if names else {})


def test_it_agrees_with_what_the_system_says() -> None:
    made = identity()
    assert (made.memory_bytes, made.cores_logical) == (psutil.virtual_memory().total, psutil.cpu_count())
    assert 1 <= made.cores_usable <= made.cores_logical
    assert made.kernel in made.system
    assert (made.numpy, made.numba, made.python) == (version("numpy"), version("numba"), platform.python_version())
    assert made.blas, "NumPy has loaded a BLAS"
    written = json.loads(json.dumps(made.to_json(), allow_nan=False))
    assert written["blas"][0]["name"] == made.blas[0].name
    said = listed_by_lscpu()
    assert made.cpu == said.get("Model name", made.cpu)
    assert set(made.extensions) <= set(said["Flags"].split() if "Flags" in said else made.extensions)


def cpuinfo(*kinds: tuple[str, str]) -> str:
    """Return /proc/cpuinfo of a 64-bit Arm machine with a core of each kind: its implementer and part."""
    cores = [
        f"processor\t: {core}\nFeatures\t: fp asimd\nCPU implementer\t: {implementer}\nCPU architecture: 8\n"
        f"CPU variant\t: 0x3\nCPU part\t: {part}\nCPU revision\t: 1\n"
        for core, (implementer, part) in enumerate(kinds)
    ]
    return "\n".join([*cores, "Model\t\t: Raspberry Pi 5 Model B Rev 1.0\n"])


@pytest.mark.parametrize(
    ("kinds", "listed", "name"),
    [
        ([("0x41", "0xd0c")], "Vendor ID: ARM\n  Model name:  Neoverse-N1\n    Model: 1\n", "Neoverse-N1"),
        (
            [("0x41", "0xd05")] * 2 + [("0x41", "0xd0b")] * 2,
            "  Model name:  Cortex-A55\n  Model name:  Cortex-A76\n",
            "Cortex-A55 + Cortex-A76",
        ),
        ([("0x61", "0x000")] * 2, "", "implementer 0x61 part 0x000"),
        ([("0x99", "0xd0c"), ("0x41", "0xd0b")], "", "implementer 0x99 part 0xd0c + implementer 0x41 part 0xd0b"),
    ],
)
def test_each_kind_of_arm_core_is_named_once_as_lscpu_does_and_without_it_by_its_numbers(
    kinds: list[tuple[str, str]], listed: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity_module, "_cpuinfo", lambda: cpuinfo(*kinds))
    monkeypatch.setattr(identity_module, "_output_of", lambda *_: listed)
    assert cpu_name() == name


def test_caches_are_those_that_lscpu_lists() -> None:
    said = listed_by_lscpu()
    units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
    known = caches()
    for level, name in ((1, "L1d cache"), (2, "L2 cache"), (3, "L3 cache")):
        found = re.match(r"([\d.]+) (\wiB)(?: \((\d+) instance)?", said.get(name, ""))
        if found:
            mine = [cache for cache in known if cache.level == level]
            assert sum(cache.size for cache in mine) == pytest.approx(float(found[1]) * units[found[2]], rel=0.01)
            assert len(mine) == int(found[3] or 1)


def cache_folder(folder: Path, core: int, index: int, level: int, kind: str, size: str, shared: str) -> None:
    path = folder / f"cpu{core}" / "cache" / f"index{index}"
    path.mkdir(parents=True)
    for name, text in (("level", str(level)), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
        (path / name).write_text(f"{text}\n")


def test_a_shared_cache_counts_once_and_neither_instructions_nor_one_of_unknown_size_do(tmp_path: Path) -> None:
    for core in range(4):
        cache_folder(tmp_path, core, 0, 1, "Data", "32K", str(core))
        cache_folder(tmp_path, core, 1, 1, "Instruction", "64K", str(core))
        cache_folder(tmp_path, core, 2, 2, "Unified", "1M", "0-1" if core < 2 else "2,3")
    cache_folder(tmp_path, 0, 3, 3, "Unified", "", "0")
    cache_folder(tmp_path, 0, 4, 3, "Unified", "2048K", "0")
    (tmp_path / "cpu0" / "cache" / "index4" / "type").unlink()
    known = caches(tmp_path)
    assert known[4:] == (Cache(2, "Unified", 2**20, (0, 1)), Cache(2, "Unified", 2**20, (2, 3)))
    for cores, ones, twos in ((range(4), 4, 2), ([1], 1, 1), ([0, 2], 2, 2)):
        assert reported_capacities(known, cores) == {1: ones * 2**15, 2: twos * 2**20}


@pytest.mark.parametrize(
    ("flags", "vectors"),
    [
        ("fpu sse2 avx avx2 avx512f", "AVX-512"),
        ("fpu sse2 avx avx2", "AVX2"),
        ("sse2", "SSE2"),
        ("fp asimd sve", "SVE"),
        ("", None),
    ],
)
def test_the_widest_vectors_are_named(flags: str, vectors: str | None) -> None:
    assert widest_vectors(flags) == vectors


@pytest.mark.parametrize(
    ("blas", "cpu", "narrower"),
    [
        ("AVX2", "AVX-512", True),
        ("SSE2", "AVX", True),
        ("AVX", "AVX2", False),  # both have 256 bits
        ("AVX-512", "AVX-512", False),
        (None, "AVX-512", False),
        ("AVX2", None, False),
    ],
)
def test_a_blas_is_narrower_only_if_both_widths_are_known(blas: str | None, cpu: str | None, narrower: bool) -> None:
    assert is_narrower(blas, cpu) is narrower


def test_only_variables_that_steer_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"OMP_NUM_THREADS": "1", "NUMPY_MADVISE_HUGEPAGE": "0", "SECRET_TOKEN": "x"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert given.items() - steering_variables().items() == {("SECRET_TOKEN", "x")}


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


SPIN = "import time\nwhile time.process_time() < 0.5: pass"


def test_the_work_of_children_is_our_own_while_they_run_and_after() -> None:
    before = background_load._own_seconds()
    command = [sys.executable, "-S", "-c", f"{SPIN}\nprint(1, flush=True)\ninput()"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.read(1)
    assert background_load._own_seconds() - before > 0.25
    child.communicate("\n")
    assert background_load._own_seconds() - before > 0.25


def test_a_process_that_is_not_a_child_is_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who started it has ended by then, so that it is nobody's; the pipe is open until it ends, too."""
    start = f"import subprocess, sys; subprocess.Popen([sys.executable, '-S', '-c', {SPIN!r}], start_new_session=True)"
    monkeypatch.setattr(background_load, "_RESOLUTION", 0.0)
    watch = BackgroundLoad()
    subprocess.run([sys.executable, "-S", "-c", start], stdout=subprocess.PIPE, check=True)
    assert watch.cores() * (time.perf_counter() - watch._since) > 0.25
