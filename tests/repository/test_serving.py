"""`make serve` and `make live` show the site, and say one sentence where they cannot have their port."""

import asyncio
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from sphinx_autobuild.filter import IgnoreFilter  # type: ignore[import-untyped]
from starlette.types import Message

from scripts import live_book, serve_book

ROOT = Path(serve_book.__file__).resolve().parent.parent


@pytest.mark.parametrize("command", [["serve_book", "PORT"], ["serve_book", "PORT", "--check"], ["live_book"]])
def test_a_busy_port_is_told_in_one_sentence_before_anything_is_built(command: list[str]) -> None:
    with socket.create_server((serve_book.HOST, 0)) as other:
        busy = str(other.getsockname()[1])
        module, *arguments = [busy if part == "PORT" else part for part in command]
        run = [sys.executable, "-m", f"scripts.{module}", *arguments]
        settings = {"PORT": busy, "PATH": ""}
        done = subprocess.run(run, cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        f"The book cannot be shown on port {busy} (address already in use): choose another one, such as PORT=8001."
    ]


@pytest.mark.parametrize("port", ["", "0", "65536", "-1", "http", "8000.0", "²"])
def test_what_is_no_port_is_told_so(port: str) -> None:
    with pytest.raises(ValueError, match="PORT must be a whole number from 1 to 65535, not "):
        serve_book.bound(port)


def test_the_site_is_served_on_the_port(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>The book.</p>")
    with socket.create_server((serve_book.HOST, 0)) as free:
        port = free.getsockname()[1]
    taken = serve_book.bound(str(port))
    threading.Thread(target=serve_book.serve, args=(tmp_path, taken), daemon=True).start()
    with urllib.request.urlopen(f"http://{serve_book.HOST}:{port}/") as answer:
        assert answer.read() == b"<p>The book.</p>"


def live(root: Path, path: str) -> str:
    """Return the body that the server of `make live` answers with."""
    answer: list[Message] = []

    async def ask() -> None:
        async def receive() -> Message:
            await asyncio.Event().wait()  # the reader waits for the answer, and neither asks more nor leaves
            raise AssertionError

        async def send(message: Message) -> None:
            answer.append(message)

        scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "root_path": "", "headers": []}
        await live_book.make_app(root, [])({**scope, "query_string": b""}, receive, send)

    asyncio.run(ask())
    return b"".join(message.get("body", b"") for message in answer[1:]).decode()


def test_live_pages_get_a_script_of_their_own_site_and_only_sources_are_watched(tmp_path: Path) -> None:
    site = tmp_path / "_build" / "rough" / "_build" / "html"
    for folder in (tmp_path / "book", tmp_path / "tinytorch", site):
        folder.mkdir(parents=True)
    (tmp_path / "_config.yml").touch()
    (tmp_path / "_toc.yml").touch()
    (site / "index.html").write_text("<p>The book.</p>")
    assert live(tmp_path, "/") == '<p>The book.</p><script src="/live-reload.js"></script>'
    assert "location.reload()" in live(tmp_path, "/live-reload.js")
    ignored = IgnoreFilter([], [live_book.NO_SOURCES])
    for name in ("book/index.md", "book/_ext/measured_book/state.py", "tinytorch/core/op.py", "_config.yml"):
        assert not ignored(f"/home/somebody/checkout/{name}")
    for name in ("tinytorch/__pycache__/op.cpython-311.pyc", "book/.index.md.swp", "book/index.md~", "book/4913"):
        assert ignored(f"/home/somebody/checkout/{name}")
