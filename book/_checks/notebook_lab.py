"""A JupyterLab as Binder would start it: an environment made of `binder/` alone, a copy of the sources, a server."""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Seconds that a server may take until it answers.
_LONGEST_START = 180.0
#: Variables of this machine's user and build that a Binder session would not have.
_NOT_IN_BINDER = ("JUPYTER_", "IPYTHON", "MPLCONFIG", "TINYTORCH_", "PYTHONPATH", "VIRTUAL_ENV")


@dataclass(frozen=True)
class Place:
    """Where it all lies: the environment, the copy of the sources, and the home folder of the session."""

    environment: Path
    checkout: Path
    home: Path


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address without a final slash, and the token that it asks for."""

    address: str
    token: str

    def launch(self, path: str) -> str:
        """Return the address that a launch button leads to for ``path``, without what other pages left open."""
        return f"{self.address}/lab/tree/{path}?token={self.token}&reset"


def settings(place: Place) -> dict[str, str]:
    """Return the environment variables of a session: this machine's, without its user's and with the new programs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_IN_BINDER)}
    path = f"{place.environment / 'bin'}{os.pathsep}{kept.get('PATH', '')}"
    return {**kept, "PATH": path, "HOME": str(place.home), "JUPYTER_PREFER_ENV_PATH": "1", "PYTHONNOUSERSITE": "1"}


def copy_sources(target: Path) -> None:
    """Copy what git tracks or would add, as it lies here now: notebooks save into what they are opened from."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        source = ROOT / name
        if source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def make(folder: Path) -> Place:
    """Make the environment of `binder/` and the copy of the sources anew below ``folder``, as repo2docker does.

    Raises:
        subprocess.CalledProcessError: if a step fails; what it said is on standard error.
    """
    shutil.rmtree(folder, ignore_errors=True)
    place = Place(folder / "environment", folder / "checkout", folder / "home")
    for path in (place.checkout, place.home):
        path.mkdir(parents=True)
    copy_sources(place.checkout)
    subprocess.run([sys.executable, "-m", "venv", str(place.environment)], check=True)
    install = ["python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    run = {"cwd": place.checkout, "env": settings(place), "check": True, "stdin": subprocess.DEVNULL}
    python = str(place.environment / "bin" / "python")
    subprocess.run([python, *install[1:], "--requirement", "binder/requirements.txt"], **run)  # type: ignore[call-overload]
    subprocess.run(["binder/postBuild"], stdout=subprocess.DEVNULL, **run)  # type: ignore[call-overload]
    return place


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _wait(lab: Lab, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _LONGEST_START
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(f"JupyterLab ended with exit code {server.returncode} before it answered")
        try:
            with urllib.request.urlopen(f"{lab.address}/api?token={lab.token}", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not answer within {_LONGEST_START:.0f} s")


@contextmanager
def running(place: Place) -> Iterator[Lab]:
    """Start JupyterLab in the copy, on a free port of the loopback interface; yield it when it answers, end it after.

    Raises:
        RuntimeError: if it ends or does not answer; its log is in the home folder.
    """
    port, token = _free_port(), secrets.token_hex(16)
    lab = Lab(f"http://127.0.0.1:{port}", token)
    command = [str(place.environment / "bin" / "jupyter"), "lab", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"]
    # So that the check can ask the application what it shows; it changes nothing that a reader sees.
    command += ["--LabApp.expose_app_in_browser=True", "--ServerApp.terminals_enabled=False"]
    with (place.home / "lab.log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=place.checkout, env=settings(place), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            _wait(lab, server)
            yield lab
        finally:
            server.terminate()
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
