"""Where a page was made."""

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tinytorch.perf.machine import identity
from tinytorch.report.provenance import (
    bytes_text,
    cautions,
    hosting_words,
    identity_rows,
    narrower_blas,
    package_hash,
    package_provenance,
    provenance,
    shared_host,
)
from tinytorch.settings import variables


def machine(cpu: str | None, *blas: tuple[str, str | None]) -> dict[str, Any]:
    return {
        "machine": {"vectors": cpu},
        "environment": {},
        "blas": [{"name": "openblas", "version": "1", "of": None, "core": c, "vectors": v} for c, v in blas],
    }


def test_it_agrees_with_what_the_system_says() -> None:
    made = provenance()
    assert made["machine"]["memory_bytes"] == psutil.virtual_memory().total
    assert made["machine"]["cores_logical"] == psutil.cpu_count()
    assert made["machine"]["cpu"].strip()
    assert made["blas"], "NumPy has loaded a BLAS"


@pytest.mark.parametrize(
    ("given", "is_said"),
    [
        (machine("AVX-512", ("Haswell", "AVX2")), True),
        (machine("AVX-512", ("SkylakeX", "AVX-512")), False),
        (machine("AVX2", ("Haswell", "AVX2")), False),
        (machine("AVX-512", ("Unknown", None)), False),
        (machine(None, ("Haswell", "AVX2")), False),
        (machine("AVX-512"), False),
    ],
)
def test_a_narrower_blas_is_said(given: dict[str, Any], is_said: bool) -> None:
    said = narrower_blas(given) or ""
    assert ("Haswell (AVX2) although this CPU has AVX-512" in said) == is_said == bool(said)


def hosted(service: str | None, quota: float | None, limit: int | None) -> dict[str, Any]:
    hosting = {"service": service, "cpu_quota": quota, "memory_limit": limit}
    return {"machine": {"cores_logical": 8, "hosting": hosting}}


def test_a_shared_host_is_said_and_a_machine_of_ones_own_is_not_called_so() -> None:
    for host, words, is_held_up in (
        (hosted("Binder", 1.5, 2 * 2**30), "Binder, CPU quota 1.5 of 8 cores, memory limit 2.000\u00a0GiB. ", True),
        (hosted("Google Colab", None, None), "Google Colab. ", False),
    ):
        said = shared_host(host) or ""
        assert (words in said, "is stopped" in said) == (True, is_held_up)
    assert shared_host(hosted(None, None, None)) is shared_host({"machine": {"cores_logical": 8}}) is None
    assert hosting_words({"service": None, "cpu_quota": 0.5, "memory_limit": None}, 1) == "CPU quota 0.5 of 1 core"


def test_cautions_are_of_kernels_and_host() -> None:
    made = machine("AVX-512", ("Haswell", "AVX2"))
    made["machine"] |= hosted("Binder", None, None)["machine"]
    kernels, host = cautions(made)
    assert "Haswell" in kernels
    assert "Binder" in host
    assert cautions(machine("AVX2", ("Haswell", "AVX2"))) == []
    (tiny,) = cautions(machine("AVX2", ("Haswell", "AVX2")) | {"environment": variables(rough="1")})
    assert "very little time" in tiny


def test_what_system_and_libraries_report_is_told_in_words() -> None:
    made = replace(identity(), cpu="Made CPU", memory_bytes=2**30, huge_pages=None, extensions=(), load=None)
    rows = dict(identity_rows(made))
    assert rows["CPU"].startswith("Made CPU, ")
    assert rows["Memory"] == "1.000\u00a0GiB"
    assert (rows["Huge pages"], rows["Load"]) == ("none", "unknown")
    assert bytes_text(None) == "–"


def test_the_hash_sees_every_byte_and_name_of_the_sources(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="folder"):
        package_hash(tmp_path)
    (tmp_path / "sub").mkdir()
    module = tmp_path / "sub" / "module.py"
    module.write_bytes(b"x = 1\n")
    first = package_hash(tmp_path)
    (tmp_path / "sub" / "module.pyc").write_bytes(b"compiled")
    assert package_hash(tmp_path) == first
    module.write_bytes(b"x = 2\n")
    second = package_hash(tmp_path)
    module.rename(tmp_path / "sub" / "other.py")
    third = package_hash(tmp_path)
    (tmp_path / "data.json").write_bytes(b"{}")
    assert len({first, second, third, package_hash(tmp_path)}) == 4


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"])
def test_the_commit_is_that_of_the_package_and_not_of_another_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    commits = {}
    for name in ("own", "other"):
        package = tmp_path / name / "package"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(f"{name} = 1\n")
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        for arguments in (("init",), ("add", "."), (*who, "commit", "-m", name)):
            subprocess.run(["git", *arguments], cwd=tmp_path / name, check=True, capture_output=True)
        commits[name] = package_provenance(package)["commit"]
    assert commits["own"] != commits["other"]
    places = {"GIT_WORK_TREE": "", "GIT_INDEX_FILE": ".git/index"}
    monkeypatch.setenv(variable, str(tmp_path / "other" / places.get(variable, ".git")))
    made = package_provenance(tmp_path / "own" / "package")
    assert (made["commit"], made["changed"]) == (commits["own"], False)
