"""`make serve` and `make live` show the site, and say one sentence where they cannot have their port."""

import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import live_book, serve_book

ROOT = Path(serve_book.__file__).resolve().parent.parent


@pytest.fixture
def busy() -> Iterator[str]:
    """Return a port that another server has."""
    with socket.create_server((serve_book.HOST, 0)) as other:
        yield str(other.getsockname()[1])


@pytest.mark.parametrize("command", [["serve_book", "PORT"], ["serve_book", "PORT", "--check"], ["live_book"]])
def test_a_busy_port_is_told_in_one_sentence(busy: str, command: list[str]) -> None:
    module, *arguments = [busy if part == "PORT" else part for part in command]
    done = subprocess.run(
        [sys.executable, "-m", f"scripts.{module}", *arguments],
        cwd=ROOT,
        env={"PORT": busy, "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"The book cannot be shown on port {busy} (address already in use): choose another one, such as PORT=8001."
    ]


@pytest.mark.parametrize("port", ["", "0", "65536", "-1", "http", "8000.0", "²"])
def test_what_is_no_port_is_told_so(port: str) -> None:
    with pytest.raises(ValueError, match="PORT must be a whole number from 1 to 65535, not "):
        serve_book.bound(port)


def test_nothing_is_built_where_the_port_is_busy(busy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", busy)
    monkeypatch.setattr(sys, "argv", ["live_book"])
    monkeypatch.setattr(live_book, "build", lambda *_: pytest.fail("it began to build"))
    assert live_book.main() == 1


def test_the_site_is_served_on_the_port(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>The book.</p>")
    with socket.create_server((serve_book.HOST, 0)) as free:
        port = free.getsockname()[1]
    taken = serve_book.bound(str(port))
    threading.Thread(target=serve_book.serve, args=(tmp_path, taken), daemon=True).start()
    with urllib.request.urlopen(f"http://{serve_book.HOST}:{port}/") as answer:
        assert answer.read() == b"<p>The book.</p>"
