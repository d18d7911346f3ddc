"""Events of a build, told to the process that started it: which page, what ran, each warning, and what failed.

The process names an open file descriptor in the environment; each event is one line of JSON. Without one nothing
is told, as when Sphinx is run by hand.
"""

import json
import logging as standard_logging
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.logging import NAMESPACE, WarningStreamHandler, WarningSuppressor

from measured_book.execution.runs import PageRunError
from measured_book.sources.myst import fences
from tinytorch import settings
from tinytorch.prose import code_of, parts

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
#: How IPython's tracebacks name the line of a cell, "Cell In[3], line 2", and that of a module, "File ~/a.py:12".
_PLACE = re.compile(r"^ *Cell In\[(\d+)\], line (\d+)", re.MULTILINE)
_MODULE = re.compile(r"^ *File (?P<path>\S.*?\.py):(?P<line>\d+)\b", re.MULTILINE)
_PACKAGE = "tinytorch"


def tell(event: str, **facts: Any) -> None:
    """Write an event, if somebody listens."""
    descriptor = settings.SETTINGS.build_events
    if descriptor:
        with suppress(BrokenPipeError):  # whoever listened is gone; the build goes on
            os.write(int(descriptor), (json.dumps({"event": event, **facts}) + "\n").encode())


class _Warnings(WarningStreamHandler):
    """Handler that tells each warning that Sphinx shows: of Sphinx's kind, so that it holds back what that does."""

    def emit(self, record: standard_logging.LogRecord) -> None:
        """Tell one warning; Sphinx's own handler, which came first, has made a path of its location."""
        where = getattr(record, "location", None)
        text = standard_logging.LogRecord.getMessage(record)
        tell("warning", where=where if isinstance(where, str) else "", text=_ANSI.sub("", text))


def failing_cell(error: BaseException, docname: str, source: Path) -> dict[str, Any]:
    """Return what is known of a cell that failed: page, number of the code cell, its line, the code and the error.

    Also the lines of modules that it led to, under ``modules``: of the chapters' the last, and the one that raised it.
    """
    cause = error.__cause__
    name, value = getattr(cause, "ename", type(cause).__name__), getattr(cause, "evalue", str(cause))
    facts: dict[str, Any] = {"page": docname, "source": source.name, "error": f"{name}: {value}".strip(": ")}
    text = _ANSI.sub("", getattr(cause, "traceback", None) or "")
    place = _PLACE.search(text)
    if place is not None:
        cell, line = _page_cell(source.read_text("utf-8-sig"), int(place[1])), int(place[2])
        code = _marked(text[place.end() :], line)
        facts |= {"cell": cell, "line": line, "code": code, "source_line": _source_line(source, cell, line, code)}
        facts["modules"] = _modules(text, source.resolve().parent.parent / _PACKAGE)
    return facts


def _page_cell(text: str, executed: int) -> int:
    """Return which code cell of a page is the one that was executed as this one, also counting the cells of texts."""
    cells, lines, count, done = 0, text.splitlines(), 0, 0
    for fence in fences(text):
        if fence.name != "code-cell":
            continue
        count += bool(code_of(list(parts("\n".join(lines[done : fence.first]))))) + 1
        cells, done = cells + 1, fence.end
        if count >= executed:
            break
    return cells


def _marked(text: str, line: int) -> str | None:
    """Return the code of a line to which an arrow points in the part of a traceback that ``text`` begins with."""
    marked = re.search(rf"^-+> *{line} (.*)$", text, re.MULTILINE)
    return marked[1].strip() if marked else None


def _source_line(source: Path, cell: int, line: int, code: str | None) -> int | None:
    """Return the page's line of a line of a code cell, counted from 1; None if the page has other code there."""
    text = source.read_text("utf-8-sig")
    cells = [fence for fence in fences(text) if fence.name == "code-cell"]
    found = cells[cell - 1].body_first + line if cell <= len(cells) else 0
    return (
        found
        if code and text.splitlines()[found - 1 : found] and text.splitlines()[found - 1].strip() == code
        else None
    )


def _modules(text: str, package: Path) -> list[dict[str, Any]]:
    """Return file, line and code of the last frame of a chapter's module, and of the last in the package."""
    frames: list[dict[str, Any]] = []
    for found in _MODULE.finditer(text):
        path = Path(found["path"]).expanduser()
        if path.is_relative_to(package):
            line = int(found["line"])
            code = _marked(text[found.end() :], line)
            frames.append({"file": path.relative_to(package.parent).as_posix(), "line": line, "code": code})
    chapters = [frame for frame in frames if frame["file"].startswith(f"{_PACKAGE}/chapters/")]
    return [*chapters[-1:], *(frame for frame in frames[-1:] if frame not in chapters[-1:])]


def _finished(app: Sphinx, exception: Exception | None) -> None:
    if isinstance(exception, PageRunError):
        tell("failed-cell", **failing_cell(exception, exception.docname, Path(app.env.doc2path(exception.docname))))


def succeeded(app: Sphinx, exception: Exception | None) -> bool:
    """Return whether the build that ends had no fault: Sphinx sets ``statuscode`` only after its last event."""
    return exception is None and not app._warncount


def listen(app: Sphinx, handler: standard_logging.Handler) -> None:
    """Hand each warning that Sphinx shows to ``handler`` as well."""
    handler.setLevel(standard_logging.WARNING)
    handler.addFilter(WarningSuppressor(app))
    standard_logging.getLogger(NAMESPACE).addHandler(handler)


def setup(app: Sphinx) -> None:
    """Listen to warnings and to a page that ends the build; of other ends scripts/building/jupyter_book.py tells."""
    if settings.SETTINGS.build_events:
        listen(app, _Warnings())
    app.connect("env-updated", lambda *_: tell("writing"))
    app.connect("build-finished", _finished)
