"""Events of a build, told to the process that started it: which page, what ran, each warning, and what failed.

The process names an open file descriptor in the environment; each event is one line of JSON. Without one nothing
is told, as when Sphinx is run by hand.
"""

import json
import logging as standard_logging
import os
import re
from pathlib import Path
from typing import Any

from measured_book.execution.runs import PageRunError
from sphinx.application import Sphinx
from sphinx.util.logging import NAMESPACE, WarningStreamHandler, WarningSuppressor

#: The variable that holds the file descriptor.
EVENTS = "TINYTORCH_BUILD_EVENTS"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
#: How IPython's tracebacks name the line of a cell: "Cell In[3], line 2".
_PLACE = re.compile(r"^Cell In\[(\d+)\], line (\d+)", re.MULTILINE)


def tell(event: str, **facts: Any) -> None:
    """Write an event, if somebody listens."""
    descriptor = os.environ.get(EVENTS)
    if descriptor is None:
        return
    try:
        os.write(int(descriptor), (json.dumps({"event": event, **facts}) + "\n").encode())
    except BrokenPipeError:  # whoever listened is gone; the build goes on
        del os.environ[EVENTS]


class _Warnings(WarningStreamHandler):
    """Handler that tells each warning that Sphinx shows: of Sphinx's kind, so that it holds back what that does."""

    def emit(self, record: standard_logging.LogRecord) -> None:
        """Tell one warning; Sphinx's own handler, which came first, has made a path of its location."""
        where = getattr(record, "location", None)
        text = standard_logging.LogRecord.getMessage(record)
        tell("warning", where=where if isinstance(where, str) else "", text=_ANSI.sub("", text))


def failing_cell(error: BaseException, docname: str, source: Path) -> dict[str, Any]:
    """Return what is known of a cell that failed: page, number of the code cell, its line, the code and the error."""
    cause = error.__cause__
    name, value = getattr(cause, "ename", type(cause).__name__), getattr(cause, "evalue", str(cause))
    facts: dict[str, Any] = {"page": docname, "source": source.name, "error": f"{name}: {value}".strip(": ")}
    text = _ANSI.sub("", getattr(cause, "traceback", None) or "")
    place = _PLACE.search(text)
    if place is not None:
        cell, line = int(place[1]), int(place[2])
        marked = re.search(rf"^-+> *{line} (.*)$", text[place.end() :], re.MULTILINE)
        code = marked[1].strip() if marked else None
        facts |= {"cell": cell, "line": line, "code": code, "source_line": _only_line(source, code)}
    return facts


def _only_line(source: Path, code: str | None) -> int | None:
    """Return the number of the line that holds ``code``; None if several do, or none."""
    lines = source.read_text("utf-8").splitlines() if code else []
    found = [number for number, line in enumerate(lines, 1) if line.strip() == code]
    return found[0] if len(found) == 1 else None


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
    if EVENTS in os.environ:
        listen(app, _Warnings())
    app.connect("env-updated", lambda *_: tell("writing"))
    app.connect("build-finished", _finished)
