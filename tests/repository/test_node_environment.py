"""What the checks run on Node.js is installed once, and what is missing is said in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts import node_environment
from scripts.environment import STAMP


def program(folder: Path, name: str, lines: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{lines}\n")
    file.chmod(0o755)


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path with a Node.js and an npm that notes its arguments, and the folder that is made."""
    programs, folder = tmp_path / "bin", tmp_path / "node"
    programs.mkdir()
    program(programs, "node", "echo v22.12.0")
    program(programs, "npm", 'echo "$@" >> calls')
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr(node_environment, "FOLDER", folder)
    return folder


def test_it_is_installed_once_from_the_lock_without_running_scripts(made: Path) -> None:
    assert (node_environment.main(), node_environment.main()) == (0, 0)
    [call] = (made / "calls").read_text().splitlines()
    assert call.startswith("ci --ignore-scripts")
    lock = (node_environment.CHECKS / "package-lock.json").read_bytes()
    assert (made / "package-lock.json").read_bytes() == lock
    packages = json.loads(lock)["packages"]
    assert all("integrity" in package for name, package in packages.items() if name)


def test_an_interrupted_installation_is_made_anew(made: Path) -> None:
    assert node_environment.main() == 0
    (made / STAMP).unlink()
    assert node_environment.main() == 0
    assert len((made / "calls").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("version", "said"),
    [("v20.18.9", "is v20.18.9"), (None, "but npm is not on the path")],
)
def test_what_is_missing_is_said(
    made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, version: str | None, said: str
) -> None:
    programs = made.parent / "bin"
    if version:
        program(programs, "node", f"echo {version}")
    else:
        (programs / "npm").unlink()
        monkeypatch.setenv("PATH", str(programs))
    assert node_environment.main() == 1
    told = capsys.readouterr().err
    assert said in told
    assert "Node.js 20.19 or newer" in told
    assert not made.exists()


def test_a_failing_npm_is_a_failure(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(made.parent / "bin", "npm", "exit 1")
    assert node_environment.main() == 1
    assert "`npm ci" in capsys.readouterr().err
    assert not (made / STAMP).exists()
