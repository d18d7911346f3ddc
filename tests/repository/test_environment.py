"""An environment is trusted only when it was completed from exactly these files by exactly this Python."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts import environment
from tests.repository.test_configuration import PYTHONS

ROOT = Path(environment.__file__).resolve().parent.parent
STEPS = 4  # venv, pip of the lock, pip of the package, pip check


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[dependency-groups]\nextra = ['torch==2.13.0']\n")
    (tmp_path / "a.lock").write_text("numpy==2.4.0\n")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    return tmp_path


def ensure(
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    group: str | None = None,
    stop_at: int = -1,
    error: BaseException | None = None,
) -> list[tuple[str, ...]]:
    """Make the environment without what takes long, stop at a chosen step, and return the commands."""
    seen: list[tuple[str, ...]] = []
    stops = [stop_at]

    def run(*command: str | Path) -> None:
        if error is not None and [len(seen)] == stops:
            stops.clear()
            raise error
        seen.append(tuple(map(str, command)))
        if "venv" in seen[-1]:
            Path(command[-1]).mkdir()

    monkeypatch.setattr(environment, "run", run)
    environment.ensure(checkout / ".venv", checkout / "a.lock", group, "https://index.example" if group else None)
    return seen


MAC = {"system": "Darwin", "machine": "arm64", "libc_ver": ("", "")}


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (MAC | {"machine": "x86_64"}, "macOS on x86_64"),
        ({"system": "Windows", "machine": "AMD64"}, "Windows on AMD64"),
        ({"machine": "riscv64"}, "Linux on riscv64"),
        ({"libc_ver": ("glibc", "2.9.1")}, "Linux with glibc 2.9.1"),
        ({"libc_ver": ("musl", "1.2")}, "Linux with another C library than glibc (musl)"),
        ({"python": (3, 10, 13)}, "Python 3.10.13"),
        ({"python": (3, 15, 0)}, "Python 3.15.0"),
        ({"python_implementation": "PyPy"}, "PyPy"),
        ({"machine": "aarch64", "libc_ver": ("glibc", "2.28"), "python": (3, 14, 2)}, None),
        ({"libc_ver": ("glibc", "3.0")}, None),
        (MAC | {"python": (3, 13, 0)}, None),
    ],
)
def test_what_the_lock_has_no_packages_for_is_told(
    monkeypatch: pytest.MonkeyPatch, machine: dict[str, Any], said: str | None
) -> None:
    of = {"system": "Linux", "machine": "x86_64", "libc_ver": ("glibc", "2.36"), "python": (3, 11, 7)} | machine
    of = {"python_implementation": "CPython", "python_version": ".".join(map(str, of["python"]))} | of
    monkeypatch.setattr(environment, "platform", SimpleNamespace(**{name: lambda name=name: of[name] for name in of}))
    implementation = SimpleNamespace(name=of["python_implementation"].lower())
    known = SimpleNamespace(version_info=of["python"], implementation=implementation, maxsize=sys.maxsize)
    monkeypatch.setattr(environment, "sys", known)
    assert environment.unsupported() == said


def test_the_pythons_are_those_that_the_lock_is_tested_for() -> None:
    assert tuple(".".join(map(str, version)) for version in environment.PYTHONS) == (PYTHONS[0], PYTHONS[-1])
    for text in (environment.SUPPORTED, (ROOT / "README.md").read_text("utf-8")):
        assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in text
        assert f"glibc {'.'.join(map(str, environment.GLIBC))} or newer" in text


def test_a_python_that_is_too_old_is_told_so_in_one_line(tmp_path: Path) -> None:
    """Python 3.10 and older have no tomllib, which this one is not to find either."""
    code = "import runpy, sys; sys.version_info = (3, 10, 0); sys.modules['tomllib'] = None; "
    code += "sys.argv = ['environment.py', 'make', sys.argv[1], 'no.lock']; "
    code += f"runpy.run_path({environment.__file__!r}, run_name='__main__')"
    command = [sys.executable, "-c", code, str(tmp_path / "venv")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not (tmp_path / "venv").exists()
    assert re.fullmatch(r"no\.lock has no packages for Python 3\.\S+: [^\n]+\n", done.stderr)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), subprocess.CalledProcessError(1, "pip")])
@pytest.mark.parametrize("step", range(STEPS))
def test_work_that_stopped_half_way_is_begun_anew(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, step: int, error: BaseException
) -> None:
    ensure(checkout, monkeypatch)
    (checkout / "a.lock").write_text("numpy==2.5.0\n")
    with pytest.raises(type(error)):
        ensure(checkout, monkeypatch, stop_at=step, error=error)
    left_over = checkout / ".venv" / "left-over"
    left_over.parent.mkdir(exist_ok=True)
    left_over.touch()
    assert len(ensure(checkout, monkeypatch)) == STEPS
    assert not left_over.exists()


def test_a_change_of_what_it_was_made_from_makes_it_anew(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(checkout, monkeypatch)
    for file in ("pyproject.toml", "a.lock"):
        (checkout / file).write_text((checkout / file).read_text() + "# one line more\n")
        assert len(ensure(checkout, monkeypatch)) == STEPS, file
    monkeypatch.setattr(sys, "version", sys.version + " (another build)")
    assert len(ensure(checkout, monkeypatch)) == STEPS
    assert ensure(checkout, monkeypatch) == []


UV = "uv==0.13.8 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"


@pytest.mark.parametrize("fails", [False, True])
def test_uv_installs_the_lock_or_pip_where_uv_fails_and_a_group_comes_from_its_index(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    (checkout / "a.lock").write_text(f"numpy==2.4.0 \\\n    --hash=sha256:aa\n{UV}    # via us\n")
    error = subprocess.CalledProcessError(2, "uv")
    commands = ensure(checkout, monkeypatch, group="extra", stop_at=2 if fails else -1, error=error)
    by_pip, rest, group = commands[1:4]
    assert Path(by_pip[-1]).read_text() == UV
    assert (Path(rest[0]).name, rest[-1]) == ("python" if fails else "uv", str(checkout / "a.lock"))
    assert all("--require-hashes" in command for command in (by_pip, rest))
    assert "--no-deps" in group
    assert group[-3:] == ("--index-url", "https://index.example", "torch==2.13.0")


def test_an_environment_may_lie_behind_a_link_that_leads_to_nothing_else(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = checkout / "elsewhere"
    (checkout / ".venv").symlink_to(elsewhere)
    for _ in range(2):  # made where nothing is, and made anew
        ensure(checkout, monkeypatch)
        assert environment.is_made(elsewhere, environment.fingerprint(checkout / "a.lock", ["", ""]))
        (elsewhere / "pyvenv.cfg").touch()
        (elsewhere / environment.STAMP).unlink()
    (elsewhere / "pyvenv.cfg").rename(elsewhere / "a-book")
    with pytest.raises(RuntimeError, match="environment"):
        ensure(checkout, monkeypatch)
    assert (elsewhere / "a-book").exists()


def test_a_set_up_that_fails_says_so_and_leaves_no_stamp(tmp_path: Path) -> None:
    """No pip is there for the second step, and the first does without what takes longest."""
    (tmp_path / "scripts").mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "scripts/environment.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    script = tmp_path / "scripts" / "environment.py"
    code = script.read_text("utf-8")
    script.write_text(code.replace('"-m", "venv",', '"-m", "venv", "--without-pip",'), "utf-8")
    settings = {**os.environ, "PYTHON": sys.executable}
    command = ["make", "environment"]
    made = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
    assert made.returncode != 0
    assert re.search(r"\.venv could not be made: `\S+python -m pip install .*` failed\.", made.stderr)
    assert "Traceback" not in made.stderr
    assert (tmp_path / ".venv" / "pyvenv.cfg").exists()
    assert not (tmp_path / ".venv" / environment.STAMP).exists()


def test_only_what_is_on_the_list_reaches_a_job(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('reached')")
    odd = {"PYTHONPATH": str(tmp_path), "PYTHONOPTIMIZE": "2", "PIP_USER": "1", "TINYTORCH_CPU": "z80"}
    kept = {"PATH": "/bin", "PIP_INDEX_URL": "https://index.example", "LC_TIME": "C", "TINYTORCH_PEERS": "python"}
    code = "import json, os, sys; print(json.dumps([dict(os.environ), sys.flags.optimize]))"
    command = [sys.executable, "-I", environment.__file__, "run", "A=b=c", "-c", code]
    said = subprocess.run(command, env=odd | kept, capture_output=True, text=True, check=True).stdout
    variables, optimize = json.loads(said)
    variables.pop("LC_CTYPE", None)  # which Python sets by itself where there is no locale
    assert (variables, optimize) == (kept | {"A": "b=c"}, 0)
