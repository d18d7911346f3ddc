"""Build the book roughly, show it on this machine, and build it again whenever one of its sources is saved.

`python -m scripts.live_book PAGE ...` runs these pages alone. Only what changed runs again, and each measurement
has a tiny budget. Open pages reload themselves when a build has ended.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import uvicorn
from sphinx_autobuild.filter import IgnoreFilter  # type: ignore[import-untyped]
from sphinx_autobuild.middleware import JavascriptInjectorMiddleware  # type: ignore[import-untyped]
from sphinx_autobuild.server import RebuildServer  # type: ignore[import-untyped]
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from scripts.build_book import Wanted
from scripts.serve_book import HOST, bound

ROOT = Path(__file__).resolve().parent.parent
#: What a build is made of; a change of the lock needs `make`, which also makes the environment anew.
WATCHED = ("book", "tinytorch", "_config.yml", "_toc.yml")
#: Files that are no sources: what Python, editors and version control write beside them.
NO_SOURCES = r"(/__pycache__/|/\.[^/]*$|~$|\.sw[a-z]$|\.new$|/4913$)"
SCRIPT = "/live-reload.js"
#: In a file of its own, as pages allow no script within them.
RELOADER = b"""new WebSocket(`ws://${location.host}/live-reload`).onmessage = () => location.reload();
"""


class Injector(JavascriptInjectorMiddleware):  # type: ignore[misc]
    """Adds the script that reloads a page to each page as it is sent; the files of the site stay as they are."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(app, "")
        self.script = f'<script src="{SCRIPT}"></script>'.encode()


def build(root: Path, pages: Sequence[str], changed_paths: Sequence[Path] = ()) -> None:
    """Build these pages of the book, all if there are none, in a process of its own, and say what was saved before."""
    if changed_paths:
        names = sorted({os.path.relpath(path, root) for path in changed_paths})
        print(f"\nSaved: {', '.join(names)}.", flush=True)
    subprocess.run([sys.executable, "-m", "scripts.build_book", "--rough", *pages], cwd=root, check=False)


def make_app(root: Path, pages: Sequence[str]) -> Starlette:
    """Return the application that shows the site of the checkout at ``root`` and builds ``pages`` anew on changes."""
    site = Wanted(rough=True).output(root) / "html"
    watched: list[os.PathLike[str]] = [root / name for name in WATCHED]
    watcher = RebuildServer(watched, IgnoreFilter([], [NO_SOURCES]), partial(build, root, pages))
    return Starlette(
        routes=[
            WebSocketRoute("/live-reload", watcher),
            Route(SCRIPT, lambda _: Response(RELOADER, media_type="text/javascript")),
            Mount("/", StaticFiles(directory=site, html=True, check_dir=False)),
        ],
        middleware=[Middleware(Injector)],
        lifespan=watcher.lifespan,
    )


def main() -> int:
    """Build, serve and watch until interrupted; return the exit code."""
    port, pages = os.environ.get("PORT", "8000"), sys.argv[1:]
    try:
        taken = bound(port)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    with taken:
        build(ROOT, pages)
        print(f"The book is on http://{HOST}:{port} and is built again on each save; Ctrl+C ends this.", flush=True)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(uvicorn.Config(make_app(ROOT, pages), log_level="warning")).run(sockets=[taken])
    return 0


if __name__ == "__main__":
    sys.exit(main())
