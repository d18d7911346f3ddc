"""An environment is trusted only when it was completed from exactly these files by exactly this Python."""

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scripts import environment
from tests.repository.test_locks import PYTHONS

ROOT = Path(environment.__file__).resolve().parent.parent
STEPS = 4  # venv, pip of the lock, pip of the package, pip check


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[dependency-groups]\nextra = ['torch==2.13.0']\n")
    (tmp_path / "a.lock").write_text("numpy==2.4.0\n")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    return tmp_path


class Commands:
    """Stands in for `environment.run`: notes each command, makes the folder, and stops at a chosen step."""

    def __init__(self, stop_at: int = -1, error: BaseException | None = None) -> None:
        self.seen: list[tuple[str, ...]] = []
        self.stop_at, self.error = stop_at, error

    def __call__(self, *command: str | Path) -> None:
        if len(self.seen) == self.stop_at and self.error is not None:
            self.stop_at = -1
            raise self.error
        self.seen.append(tuple(str(part) for part in command))
        if "venv" in self.seen[-1]:
            Path(command[-1]).mkdir()


def ensure(checkout: Path, monkeypatch: pytest.MonkeyPatch, commands: Commands, group: str | None = None) -> None:
    monkeypatch.setattr(environment, "run", commands)
    environment.ensure(checkout / ".venv", checkout / "a.lock", group, "https://index.example" if group else None)


MAC = {"system": "Darwin", "machine": "arm64", "libc_ver": ("", "")}


def pretend(monkeypatch: pytest.MonkeyPatch, python: tuple[int, int, int] = (3, 11, 7), **of: Any) -> None:
    """Let the environment believe that it is made on another machine, by another Python."""
    of = {"system": "Linux", "machine": "x86_64", "libc_ver": ("glibc", "2.36"), "implementation": "CPython"} | of
    monkeypatch.setattr(platform, "python_version", lambda: ".".join(map(str, python)))
    monkeypatch.setattr(platform, "python_implementation", lambda: of["implementation"])
    for name in ("system", "machine", "libc_ver"):
        monkeypatch.setattr(platform, name, lambda name=name: of[name])
    monkeypatch.setattr(sys, "version_info", python)
    monkeypatch.setattr(sys, "implementation", SimpleNamespace(name=of["implementation"].lower()))
    monkeypatch.setattr(sys, "maxsize", of.get("maxsize", 2**63 - 1))


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
        ({"implementation": "PyPy"}, "PyPy"),
        ({"maxsize": 2**31 - 1}, "a 32-bit Python"),
        ({}, None),
        ({"machine": "aarch64", "libc_ver": ("glibc", "2.28"), "python": (3, 14, 2)}, None),
        ({"libc_ver": ("glibc", "3.0")}, None),
        (MAC | {"python": (3, 13, 0)}, None),
    ],
)
def test_what_the_lock_has_no_packages_for_is_told_before_anything_is_changed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, machine: dict[str, Any], said: str | None
) -> None:
    ensure(checkout, monkeypatch, Commands())
    (checkout / "a.lock").write_text("numpy==2.5.0\n")
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    commands = Commands()
    with monkeypatch.context() as elsewhere:
        pretend(elsewhere, **machine)
        if said is None:
            ensure(checkout, elsewhere, commands)
            assert len(commands.seen) == STEPS
            return
        with pytest.raises(RuntimeError) as error:
            ensure(checkout, elsewhere, commands)
    assert str(error.value) == f"a.lock has no packages for {said}: it has them for {environment.SUPPORTED}."
    assert commands.seen == []
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before


def test_the_pythons_are_those_that_the_lock_is_tested_for() -> None:
    assert tuple(".".join(map(str, version)) for version in environment.PYTHONS) == (PYTHONS[0], PYTHONS[-1])
    for text in (environment.SUPPORTED, (ROOT / "README.md").read_text("utf-8")):
        assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}" in text
        assert f"glibc {'.'.join(map(str, environment.GLIBC))} or newer" in text


def test_a_python_that_is_too_old_is_told_so_in_one_line(tmp_path: Path) -> None:
    """Python 3.10 and older have no tomllib, which this one is not to find either."""
    code = "import runpy, sys; sys.version_info = (3, 10, 0); sys.modules['tomllib'] = None; "
    code += "sys.argv = ['environment.py', sys.argv[1], 'no.lock']; "
    code += f"runpy.run_path({environment.__file__!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "venv")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert re.fullmatch(r"no\.lock has no packages for Python 3\.\S+: [^\n]+\n", done.stderr)
    assert not (tmp_path / "venv").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), subprocess.CalledProcessError(1, "pip")])
@pytest.mark.parametrize("step", range(STEPS))
def test_work_that_stopped_half_way_is_begun_anew(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, step: int, error: BaseException
) -> None:
    ensure(checkout, monkeypatch, Commands())
    (checkout / "a.lock").write_text("numpy==2.5.0\n")
    with pytest.raises(type(error)):
        ensure(checkout, monkeypatch, Commands(step, error))
    left_over = checkout / ".venv" / "left-over"
    left_over.parent.mkdir(exist_ok=True)
    left_over.touch()
    ensure(checkout, monkeypatch, again := Commands())
    assert len(again.seen) == STEPS
    assert not left_over.exists()


def test_a_change_of_what_it_was_made_from_makes_it_anew(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(checkout, monkeypatch, Commands())
    for file in ("pyproject.toml", "a.lock", ""):
        if file:
            (checkout / file).write_text((checkout / file).read_text() + "# one line more\n")
        else:
            monkeypatch.setattr(sys, "version", sys.version + " (another build)")
        ensure(checkout, monkeypatch, again := Commands())
        assert len(again.seen) == STEPS, file
    ensure(checkout, monkeypatch, again := Commands())
    assert again.seen == []


def test_a_group_comes_from_its_index_without_dependencies(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(checkout, monkeypatch, commands := Commands(), group="extra")
    installs = [seen for seen in commands.seen if "install" in seen]
    assert [("--require-hashes" in seen, "--no-deps" in seen) for seen in installs] == [
        (True, False),
        *[(False, True)] * 2,
    ]
    assert installs[1][-3:] == ("--index-url", "https://index.example", "torch==2.13.0")


WITH_UV = "numpy==2.4.0 \\\n    --hash=sha256:aa\n"
WITH_UV += "uv==0.13.8 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n    # via us\n"


@pytest.mark.parametrize("fails", [False, True])
def test_uv_installs_the_rest_where_the_lock_has_it_and_pip_all_where_uv_fails(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fails: bool
) -> None:
    (checkout / "a.lock").write_text(WITH_UV)
    error = subprocess.CalledProcessError(2, "uv")
    ensure(checkout, monkeypatch, commands := Commands(2 if fails else -1, error))
    assert len(commands.seen) == STEPS + 1
    by_pip, rest = commands.seen[1:3]
    assert Path(by_pip[-1]).read_text() == "uv==0.13.8 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    assert rest[-1] == str(checkout / "a.lock")
    assert Path(rest[0]).name == ("python" if fails else "uv")
    assert all("--require-hashes" in command for command in (by_pip, rest))
    assert ("pip does" in capsys.readouterr().out) is fails


def test_an_environment_may_lie_behind_a_link_that_leads_to_nothing_else(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = checkout / "elsewhere"
    (checkout / ".venv").symlink_to(elsewhere)
    for _ in range(2):  # made where nothing is, and made anew
        ensure(checkout, monkeypatch, Commands())
        assert environment.is_made(elsewhere, environment.fingerprint(checkout / "a.lock", ["", ""]))
        (elsewhere / "pyvenv.cfg").touch()
        (elsewhere / environment.STAMP).unlink()
    (elsewhere / "pyvenv.cfg").unlink()
    (elsewhere / "a-book").touch()
    with pytest.raises(RuntimeError, match="environment"):
        ensure(checkout, monkeypatch, Commands())
    assert (elsewhere / "a-book").exists()


def test_a_set_up_that_fails_says_so_and_leaves_no_stamp(tmp_path: Path) -> None:
    """No pip is there for the second step, and the first does without what takes longest."""
    (tmp_path / "scripts").mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "scripts/environment.py", "scripts/let_through.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    script = tmp_path / "scripts" / "environment.py"
    code = script.read_text("utf-8")
    script.write_text(code.replace('"-m", "venv",', '"-m", "venv", "--without-pip",'), "utf-8")
    made = subprocess.run(
        ["make", "environment"],
        cwd=tmp_path,
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode != 0
    assert re.search(r"\.venv could not be made: `\S+python -m pip install .*` failed\.", made.stderr)
    assert "Traceback" not in made.stderr
    assert (tmp_path / ".venv" / "pyvenv.cfg").exists()
    assert not (tmp_path / ".venv" / environment.STAMP).exists()
