"""Which machine this is, against what the system says in other ways."""

import json
import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest

from tests.chosen_settings import choose_settings
from tinytorch.perf.host import identity as identity_module
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
