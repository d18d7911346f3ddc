"""`make live` shows the site on this machine, tells pages when to reload, and builds on saves of sources only."""

import asyncio
from pathlib import Path
from typing import Any

from sphinx_autobuild.filter import IgnoreFilter  # type: ignore[import-untyped]
from starlette.types import Message

from scripts import live_book


def get(root: Path, path: str) -> tuple[dict[str, str], str]:
    """Return the headers and the body that the server answers with."""
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
    assert answer[0]["status"] == 200
    headers = {name.decode(): value.decode() for name, value in answer[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in answer[1:])
    assert int(headers["content-length"]) == len(body)
    return headers, body.decode()


def test_pages_get_a_script_of_their_own_site_and_other_files_are_left(tmp_path: Path) -> None:
    for folder in ("book", "tinytorch", "_build/rough/_build/html"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("_config.yml", "_toc.yml"):
        (tmp_path / name).touch()
    page = tmp_path / "_build" / "rough" / "_build" / "html" / "index.html"
    page.write_text("<p>The book.</p>")
    page.with_name("style.css").write_text("a {}")
    assert get(tmp_path, "/")[1] == '<p>The book.</p><script src="/live-reload.js"></script>'
    assert get(tmp_path, "/style.css")[1] == "a {}"
    headers, script = get(tmp_path, "/live-reload.js")
    assert headers["content-type"].startswith("text/javascript")
    assert "location.reload()" in script
    assert page.read_text() == "<p>The book.</p>"


def test_sources_are_watched_and_not_what_editors_and_python_write_beside() -> None:
    ignored = IgnoreFilter([], [live_book.NO_SOURCES])
    for name in ("book/index.md", "book/_ext/measured_book/state.py", "tinytorch/core/op.py", "_config.yml"):
        assert not ignored(f"/home/somebody/checkout/{name}")
        assert any(name.startswith(watched) for watched in live_book.WATCHED)
    for name in ("tinytorch/__pycache__/op.cpython-311.pyc", "book/.index.md.swp", "book/index.md~", "book/4913"):
        assert ignored(f"/home/somebody/checkout/{name}")
