"""A built site as the gates meet it: its pages, and a server on loopback that compresses as a web host does."""

import gzip
import io
import mimetypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, BinaryIO

#: Folders whose HTML files are parts of pages or downloads, no pages.
NOT_PAGES = ("_static", "_sources", "_downloads", "_notebooks", "_records", "_figures")
COMPRESSED_TYPES = ("text/", "application/javascript", "application/json", "image/svg+xml", "application/xml")
LEVEL = 9
#: How often a server looks whether it is to end, in seconds: its end waits for that.
POLL = 0.02


def find_pages(site: Path) -> list[str]:
    """Return the addresses of a site's pages relative to it, sorted; FileNotFoundError if there are none."""
    pages = sorted(file.relative_to(site) for file in site.rglob("*.html"))
    pages = [page for page in pages if page.parts[0] not in NOT_PAGES]
    if not pages:
        raise FileNotFoundError(f"No page in {site}: build the book first with `make book`.")
    if (site.parent / "build-in-progress").exists():
        raise FileNotFoundError(f"The last build of {site} did not succeed: run `make book`.")
    return [page.as_posix() for page in pages]


def is_compressed(name: str) -> bool:
    """Return whether a web host sends a file of this name compressed: text of any kind, not images or fonts."""
    return (mimetypes.guess_type(name)[0] or "").startswith(COMPRESSED_TYPES)


@cache
def _compressed(path: Path, changed: int) -> bytes:
    """Return the file compressed; ``changed``, its time of change, makes a new version a new entry."""
    del changed
    return gzip.compress(path.read_bytes(), LEVEL, mtime=0)


def sent_bytes(path: Path) -> bytes:
    """Return what a web host would send for the file: compressed if it is text."""
    return _compressed(path, path.stat().st_mtime_ns) if is_compressed(path.name) else path.read_bytes()


class Handler(SimpleHTTPRequestHandler):
    """Serves files compressed, over connections that stay open, without a line of log for each."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: what a page asks for is watched from the browser."""

    def send_head(self) -> BinaryIO | None:
        """Send the headers of a file and return its compressed content, or do as the standard library does."""
        path = Path(self.translate_path(self.path))
        path = path / "index.html" if path.is_dir() and self.path.endswith("/") else path
        if not (path.is_file() and is_compressed(path.name)):
            return super().send_head()
        content = sent_bytes(path)
        self.send_response(200)
        self.send_header("Content-Type", f"{self.guess_type(path.name)}; charset=utf-8")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "max-age=600")  # what GitHub Pages says
        self.end_headers()
        return io.BytesIO(content)


@contextmanager
def serve(site: Path) -> Iterator[str]:
    """Serve a folder on a free port of the loopback interface; yield its address without a final slash."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site)))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(POLL,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
