"""The jobs that people are told about exist, list themselves, and say one sentence when they cannot start."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository.test_locks import PYTHONS

ROOT = Path(__file__).resolve().parents[2]


def make(*arguments: str, path: str | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    # Without what an outer `make test` hands down to the makes inside it.
    handed_down = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHON")
    environment = {name: value for name, value in os.environ.items() if name not in handed_down}
    environment |= variables | ({"PYTHON": sys.executable} if path is None else {"PATH": path})
    return subprocess.run(["make", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_plain_make_lists_every_job_that_the_documents_name() -> None:
    listed = make()
    assert listed.returncode == 0
    jobs = set(re.findall(r"^  make ([a-z-]+) +\S", listed.stdout, re.MULTILINE))
    for document in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        code = re.findall(r"```bash\n(.*?)```", text, re.DOTALL) + re.findall(r"`([^`\n]+)`", text)
        named = set(re.findall(r"\bmake (?:[A-Z_]+=\S+ )*([a-z-]+)", "\n".join(code)))
        assert {"book", "test"} <= named <= jobs, document


@pytest.mark.parametrize("job", ["book", "test", "live", "check", "check-site", "check-notebooks"])
def test_settings_count_from_the_command_line_alone(job: str) -> None:
    exported = {"CPU": "x86_64", "PAGES": "none", "TESTS": "none", "PORT": "tcp://1", "PEERS": "yes", "OUTCOME": "odd"}
    assert make("--dry-run", job, **exported).stdout == make("--dry-run", job).stdout
    assert make("--dry-run", "chapter", NAME="my-computer").returncode != 0
    assert "older_cpu" in make("--dry-run", "test", "CPU=avx2").stdout


@pytest.mark.parametrize("job", ["book", "peers"])
def test_without_a_new_enough_python_there_is_one_clear_sentence(tmp_path: Path, job: str) -> None:
    for name in ("python3", *(f"python{version}" for version in PYTHONS)):
        old = tmp_path / name
        old.write_text("#!/bin/sh\nexit 1\n")
        old.chmod(0o755)
    tried = make(job, path=f"{tmp_path}:/usr/bin:/bin")
    assert (tried.returncode != 0, len(tried.stderr.strip().splitlines())) == (True, 1)
    assert f"needs Python {PYTHONS[0]} to {PYTHONS[-1]} and found none" in tried.stderr
