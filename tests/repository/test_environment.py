"""An environment is trusted only when it was completed from exactly these files by exactly this Python."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts import environment

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


def test_a_complete_environment_is_left_alone(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(checkout, monkeypatch, first := Commands())
    ensure(checkout, monkeypatch, second := Commands())
    assert len(first.seen) == STEPS
    assert second.seen == []


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


@pytest.mark.parametrize("file", ["pyproject.toml", "a.lock"])
def test_a_change_of_what_it_was_made_from_makes_it_anew(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    ensure(checkout, monkeypatch, Commands())
    with (checkout / file).open("a") as end:
        end.write("# one line more\n")
    ensure(checkout, monkeypatch, again := Commands())
    assert len(again.seen) == STEPS


def test_another_python_makes_it_anew(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(checkout, monkeypatch, Commands())
    monkeypatch.setattr(sys, "version", sys.version + " (another build)")
    ensure(checkout, monkeypatch, again := Commands())
    assert len(again.seen) == STEPS


def test_a_group_comes_from_its_index_without_dependencies(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(checkout, monkeypatch, commands := Commands(), group="extra")
    (command,) = [seen for seen in commands.seen if "torch==2.13.0" in seen]
    assert "--no-deps" in command
    assert command[command.index("--index-url") + 1] == "https://index.example"


def test_every_other_package_must_have_its_hash(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure(checkout, monkeypatch, commands := Commands())
    installs = [seen for seen in commands.seen if "install" in seen]
    assert [("--require-hashes" in seen, "--no-deps" in seen) for seen in installs] == [(True, False), (False, True)]


@pytest.fixture
def real_checkout(tmp_path: Path) -> Path:
    """A checkout whose lock names a package that is not to be had, so that making its environment must fail."""
    (tmp_path / "scripts").mkdir()
    for name in ("Makefile", "pyproject.toml", "scripts/environment.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "requirements.lock").write_text(f"no-such-package==1 --hash=sha256:{'0' * 64}\n")
    return tmp_path


def make_environment(checkout: Path) -> subprocess.Popen[str]:
    settings = {**os.environ, "PYTHON": sys.executable, "PIP_NO_INDEX": "1"}
    return subprocess.Popen(
        ["make", "environment"],
        cwd=checkout,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_set_up_that_fails_says_so_and_leaves_no_stamp(real_checkout: Path) -> None:
    process = make_environment(real_checkout)
    _, said = process.communicate(timeout=120)
    assert process.returncode != 0
    assert ".venv could not be made" in said
    assert "Traceback" not in said
    assert (real_checkout / ".venv" / "pyvenv.cfg").exists()
    assert not (real_checkout / ".venv" / environment.STAMP).exists()


def test_a_set_up_that_is_killed_leaves_no_stamp(real_checkout: Path) -> None:
    process = make_environment(real_checkout)
    deadline = time.monotonic() + 60
    while not (real_checkout / ".venv" / "pyvenv.cfg").exists():
        assert time.monotonic() < deadline, "the environment was never begun"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    assert not (real_checkout / ".venv" / environment.STAMP).exists()
