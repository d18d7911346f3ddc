"""The package is built from the sources that are there, whatever earlier builds and this machine's settings left."""

import os
import shutil
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from measured_book.notebooks.package import build_wheel

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of what the package is built from, with two modules."""
    made = tmp_path / "checkout"
    (made / "tinytorch").mkdir(parents=True)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, made / name)
    for name in ("__init__", "datasets"):
        (made / "tinytorch" / f"{name}.py").write_text(f'"""{name}."""\n')
    return made


def wheel_in_place(checkout: Path, folder: Path) -> set[str]:
    """Build the wheel as `pip install .` does, and return the names of its modules."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--isolated"]
    command += ["--disable-pip-version-check", "--wheel-dir", str(folder), str(checkout)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PIP_CONFIG_FILE": os.devnull})
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        return {name for name in wheel.namelist() if name.endswith(".py")}


def test_a_module_that_is_gone_is_not_in_the_next_wheel(checkout: Path, tmp_path: Path) -> None:
    init, old, new = (f"tinytorch/{name}.py" for name in ("__init__", "datasets", "data_sets"))
    assert wheel_in_place(checkout, tmp_path / "first") == {init, old}
    (checkout / old).rename(checkout / new)
    assert wheel_in_place(checkout, tmp_path / "second") == {init, new}


#: Settings of pip and setuptools, as files and variables, that would change the wheel or where it is written.
SETTINGS: dict[str, tuple[str, str]] = {
    "pip's file of the user": (".config/pip/pip.conf", "[global]\nconfig-settings = --build-option=--build-number=7\n"),
    "pip's older file": (".pip/pip.conf", "[global]\nconfig-settings = --build-option=--build-number=7\n"),
    "setuptools' file of the user": (".pydistutils.cfg", "[bdist_wheel]\nbuild_number = 7\n"),
}
VARIABLES = {
    "PIP_CONFIG_SETTINGS": "--build-option=--build-number=7",
    "DIST_EXTRA_CONFIG": "{home}/extra.cfg",
    "PIP_CONFIG_FILE": "{home}/pip.conf",
}


@pytest.mark.parametrize("setting", [*SETTINGS, *VARIABLES])
def test_settings_of_this_machine_do_not_change_the_wheel_that_readers_get(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    expected = build_wheel(checkout)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    if setting in SETTINGS:
        name, text = SETTINGS[setting]
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    else:
        (home / "extra.cfg").write_text("[bdist_wheel]\nbuild_number = 7\n")
        (home / "pip.conf").write_text("[global]\nconfig-settings = --build-option=--build-number=7\n")
        monkeypatch.setenv(setting, VARIABLES[setting].format(home=home))
    built = build_wheel(checkout)
    assert zipfile.ZipFile(BytesIO(built)).namelist() == zipfile.ZipFile(BytesIO(expected)).namelist()
    assert built == expected
