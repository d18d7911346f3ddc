"""What is published: files of this build and none of an earlier one, at addresses that change with what they hold."""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from sphinx.application import Sphinx

from measured_book.execution.events import succeeded
from measured_book.machines.explorers import FOLDER as MEASUREMENTS
from measured_book.notebooks.downloads import SOURCES_FOLDER
from measured_book.records.other_outcome import OTHER
from measured_book.site.frame import PDF
from measured_book.site.search import GENERATED
from measured_book.state import state_of
from tinytorch import settings
from tinytorch.perf.measuring.atomic_io import write_whole

IMAGES, DOWNLOADS = "_images", "_downloads"
#: Beside the site: the versions that its pages were last given.
VERSIONS = "versions.json"
#: An address of a script or style within the site, as an attribute holds it.
_ADDRESS = re.compile(rb'(?<=")((?:\.\./)*)([\w./-]+\.(?:js|css))(?:\?v=\w+)?(?=")')


def _of_earlier_builds(app: Sphinx) -> Iterator[Path]:
    """Yield the files of the site that are of pages, images or machines that the book no longer has."""
    site, env = Path(app.outdir), app.env
    shown = {app.builder.get_target_uri(name) for name in (*env.found_docs, *GENERATED)}
    for path in site.rglob("*.html"):
        if path.relative_to(site).as_posix() not in shown and not path.name.endswith(f".{OTHER}.html"):
            yield path
    sources = {Path(env.doc2path(name)).relative_to(app.srcdir) for name in env.found_docs}
    for path in (site / SOURCES_FOLDER).rglob("*.*"):
        if path.relative_to(site / SOURCES_FOLDER) not in sources:
            yield path
    if not app.config.book_pdf:
        yield site / PDF
    found = ((site / IMAGES).rglob("*"), (site / DOWNLOADS).rglob("*"), (site / MEASUREMENTS).glob("*.json"))
    held = [path for paths in found for path in paths if path.is_file()]
    if held:
        pages = b"".join((site / name).read_bytes() for name in shown if (site / name).is_file())
        yield from (path for path in held if quote(path.relative_to(site).as_posix()).encode() not in pages)


def remove_earlier(app: Sphinx, exception: Exception | None) -> None:
    """Remove what earlier builds left and this one did not write; a build of some pages leaves all."""
    if not succeeded(app, exception) or app.builder.format != "html" or settings.SETTINGS.build_pages:
        return
    for path in list(_of_earlier_builds(app)):
        path.unlink(missing_ok=True)


def add_versions(app: Sphinx, exception: Exception | None) -> None:
    """Add to each address of a script or style on the pages a version of what it holds now, as all files are written.

    A browser and hosts in between keep files for minutes: new pages would show what an old index or old data hold.
    """
    if exception is not None or app.builder.format != "html":
        return
    site = Path(app.outdir)
    files = [path for pattern in ("_*/**/*.js", "_*/**/*.css", "*.js") for path in site.glob(pattern)]
    versions = {path.relative_to(site).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:8] for path in files}
    kept = site.parent / VERSIONS
    known = json.dumps(versions, sort_keys=True)
    unchanged = kept.is_file() and kept.read_text("utf-8") == known
    pages = {app.builder.get_target_uri(name) for name in state_of(app.env).written} if unchanged else None

    def versioned(found: re.Match[bytes]) -> bytes:
        version = versions.get(found[2].decode())
        return found[0] if version is None else found[1] + found[2] + b"?v=" + version.encode()

    for path in site.rglob("*.html"):
        if pages is not None and path.relative_to(site).as_posix() not in pages:
            continue
        written = path.stat()
        before = path.read_bytes()
        if (after := _ADDRESS.sub(versioned, before)) != before:
            path.write_bytes(after)
            os.utime(path, ns=(written.st_atime_ns, written.st_mtime_ns))  # which says when its text was written
    write_whole(kept, known)


def setup(app: Sphinx) -> None:
    """Connect behind all that writes files of the site."""
    app.connect("build-finished", remove_earlier, priority=920)
    app.connect("build-finished", add_versions, priority=920)
