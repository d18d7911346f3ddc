"""What the CPU's features are said to be, where LLVM's list does not hold them."""

import pytest
from llvmlite import binding
from numba import config as numba_config

from tinytorch.perf.kernels.runtime.vectors import arm_features, cpu_features

LINUX, MACOS = "aarch64-unknown-linux-gnu", "arm64-apple-darwin23.0.0"


@pytest.fixture(autouse=True)
def every_target() -> None:
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()


@pytest.mark.parametrize(
    ("triple", "cpu", "listed", "has"),
    [
        # What LLVM lists of these hosts: under Linux no dot products, under macOS nothing.
        (LINUX, "cortex-a72", "+crc,+fp-armv8,+neon,-rand,-sve", {"neon"}),
        (LINUX, "neoverse-n1", "+crc,+fp-armv8,+lse,+neon,-rand,-sve", {"neon", "dotprod"}),
        (LINUX, "neoverse-v1", "+crc,+fp-armv8,+lse,+neon,+rand,+sve", {"neon", "dotprod", "i8mm"}),
        (LINUX, "a64fx", "+crc,+fp-armv8,+lse,+neon,+sve", {"neon"}),
        (MACOS, "apple-m1", "", {"neon", "dotprod"}),
        (MACOS, "apple-m2", "", {"neon", "dotprod", "i8mm"}),
        # What the user says of them counts.
        (LINUX, "neoverse-v1", "-i8mm", {"neon", "dotprod"}),
        (LINUX, "neoverse-n1", "-dotprod", {"neon"}),
        (LINUX, "generic", "+neon,+dotprod,+i8mm", {"neon", "dotprod", "i8mm"}),
        (LINUX, "generic", "-neon", set()),
    ],
)
def test_an_arm_target_has_what_its_cpu_s_name_says(triple: str, cpu: str, listed: str, has: set[str]) -> None:
    """Against the manuals: dot products are in Armv8.2 and later, matrix products in 8.6, and in neither of A64FX."""
    assert arm_features(triple, cpu, listed) == has


@pytest.mark.parametrize(("triple", "cpu"), [(LINUX, "neoverse-n1"), (MACOS, "apple-m1")])
def test_an_arm_host_s_features_are_those_of_its_list_and_of_its_name(
    triple: str, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numba_config, "CPU_NAME", cpu)
    monkeypatch.setattr(numba_config, "CPU_FEATURES", "+crc,-sve")
    monkeypatch.setattr(binding, "get_process_triple", lambda: triple)
    assert cpu_features() == {"crc", "neon", "dotprod"}


def test_another_host_has_what_numba_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba_config, "CPU_FEATURES", "+avx2,-avx512f,+fma")
    monkeypatch.setattr(binding, "get_process_triple", lambda: "x86_64-unknown-linux-gnu")
    assert cpu_features() == {"avx2", "fma"}
