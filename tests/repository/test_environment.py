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
from tests.repository.lock_markers import PYTHONS

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
            raise self.error
        self.seen.append(tuple(str(part) for part in command))
        if "venv" in self.seen[-1]:
            Path(command[-1]).mkdir()


def ensure(checkout: Path, monkeypatch: pytest.MonkeyPatch, commands: Commands, group: str | None = None) -> None:
    monkeypatch.setattr(environment, "run", commands)
    environment.ensure(checkout / ".venv", checkout / "a.lock", group, "https://index.example" if group else None)


CPYTHON = SimpleNamespace(name="cpython")
PYPY = SimpleNamespace(name="pypy")


def pretend(
    monkeypatch: pytest.MonkeyPatch,
    system: str = "Linux",
    processor: str = "x86_64",
    libc: tuple[str, str] = ("glibc", "2.36"),
    python: tuple[int, int, int] = (3, 11, 7),
    implementation: SimpleNamespace = CPYTHON,
    maxsize: int = 2**63 - 1,
) -> None:
    """Let the environment believe that it is made on another machine, by another Python."""
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: processor)
    monkeypatch.setattr(platform, "libc_ver", lambda: libc)
    monkeypatch.setattr(platform, "python_version", lambda: ".".join(map(str, python)))
    monkeypatch.setattr(platform, "python_implementation", lambda: "PyPy" if implementation is PYPY else "CPython")
    for name, value in (("version_info", python), ("implementation", implementation), ("maxsize", maxsize)):
        monkeypatch.setattr(sys, name, value)


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        ({"system": "Darwin", "processor": "x86_64", "libc": ("", "")}, "macOS on x86_64"),
        ({"system": "Windows", "processor": "AMD64", "libc": ("", "")}, "Windows on AMD64"),
        ({"processor": "riscv64"}, "Linux on riscv64"),
        ({"libc": ("glibc", "2.9.1")}, "Linux with glibc 2.9.1"),
        ({"libc": ("musl", "1.2")}, "Linux with another C library than glibc (musl)"),
        ({"python": (3, 10, 13)}, "Python 3.10.13"),
        ({"python": (3, 15, 0)}, "Python 3.15.0"),
        ({"implementation": PYPY}, "PyPy"),
        ({"maxsize": 2**31 - 1}, "a 32-bit Python"),
    ],
)
def test_what_the_lock_has_no_packages_for_is_told_before_anything_is_changed(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, machine: dict[str, Any], said: str
) -> None:
    ensure(checkout, monkeypatch, Commands())
    before = {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()}
    commands = Commands()
    with monkeypatch.context() as elsewhere:
        pretend(elsewhere, **machine)
        with pytest.raises(RuntimeError) as error:
            ensure(checkout, elsewhere, commands)
    assert str(error.value) == f"a.lock has no packages for {said}: it has them for {environment.SUPPORTED}."
    assert commands.seen == []
    assert {path: path.read_bytes() for path in checkout.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "machine",
    [
        {},
        {"processor": "aarch64", "libc": ("glibc", "2.28"), "python": (3, 14, 2)},
        {"libc": ("glibc", "3.0")},
        {"system": "Darwin", "processor": "arm64", "libc": ("", ""), "python": (3, 13, 0)},
    ],
)
def test_what_the_lock_has_packages_for_is_made(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, machine: dict[str, Any]
) -> None:
    with monkeypatch.context() as elsewhere:
        pretend(elsewhere, **machine)
        ensure(checkout, elsewhere, commands := Commands())
    assert len(commands.seen) == STEPS


def test_the_pythons_are_those_that_the_lock_is_tested_for() -> None:
    assert tuple(".".join(map(str, version)) for version in environment.PYTHONS) == (PYTHONS[0], PYTHONS[-1])
    assert f"CPython {PYTHONS[0]} to {PYTHONS[-1]} " in environment.SUPPORTED
    glibc = f"glibc {'.'.join(map(str, environment.GLIBC))} or newer"
    assert glibc in environment.SUPPORTED
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"You need Python {PYTHONS[0]} to {PYTHONS[-1]}," in readme
    assert f"Linux needs {glibc};" in readme


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
    (command,) = [seen for seen in commands.seen if "torch==2.13.0" in seen]
    assert "--no-deps" in command
    assert command[command.index("--index-url") + 1] == "https://index.example"


def test_every_other_package_must_have_its_hash(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(checkout, monkeypatch, commands := Commands())
    installs = [seen for seen in commands.seen if "install" in seen]
    assert [("--require-hashes" in seen, "--no-deps" in seen) for seen in installs] == [(True, False), (False, True)]


WITH_UV = "numpy==2.4.0 \\\n    --hash=sha256:aa\n"
WITH_UV += "uv==0.13.8 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n    # via us\n"


def test_uv_installs_the_rest_where_the_lock_has_it(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (checkout / "a.lock").write_text(WITH_UV)
    ensure(checkout, monkeypatch, commands := Commands())
    assert len(commands.seen) == STEPS + 1
    by_pip, by_uv = commands.seen[1:3]
    only = Path(by_pip[-1])
    assert only.read_text() == "uv==0.13.8 \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
    assert by_uv[0] == str(checkout / ".venv" / "bin" / "uv")
    assert by_uv[-1] == str(checkout / "a.lock")
    assert all("--require-hashes" in command for command in (by_pip, by_uv))


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


def test_pip_installs_all_where_uv_fails(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class NoUv(Commands):
        def __call__(self, *command: str | Path) -> None:
            if Path(command[0]).name == "uv":
                raise subprocess.CalledProcessError(2, "uv")
            super().__call__(*command)

    (checkout / "a.lock").write_text(WITH_UV)
    ensure(checkout, monkeypatch, commands := NoUv())
    (whole,) = [seen for seen in commands.seen if seen[-1] == str(checkout / "a.lock")]
    assert "pip" in whole
    assert "--require-hashes" in whole
    assert "pip does, which takes longer" in capsys.readouterr().out


def test_a_set_up_that_fails_says_so_and_leaves_no_stamp(tmp_path: Path) -> None:
    """The lock names a package that is not to be had."""
    (tmp_path / "scripts").mkdir()
    for name in ("Makefile", "pyproject.toml", "scripts/environment.py", "scripts/let_through.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "requirements.lock").write_text(f"no-such-package==1 --hash=sha256:{'0' * 64}\n")
    settings = {**os.environ, "PYTHON": sys.executable, "PIP_NO_INDEX": "1"}
    made = subprocess.run(
        ["make", "environment"], cwd=tmp_path, env=settings, capture_output=True, text=True, check=False
    )
    assert made.returncode != 0
    assert ".venv could not be made" in made.stderr
    assert "Traceback" not in made.stderr
    assert (tmp_path / ".venv" / "pyvenv.cfg").exists()
    assert not (tmp_path / ".venv" / environment.STAMP).exists()
