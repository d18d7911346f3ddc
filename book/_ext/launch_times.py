"""How long a reader waits for the first result in JupyterLab: a table of the times that `make check-notebooks` took."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from tinytorch.report import tables
from tinytorch.report.records import Json
from tinytorch.report.tables import Column

#: Kept from a run of the check in a quiet hour, beside what it checks; relative to the book's sources.
TIMES = "../binder/launch.json"
_NONE = (
    '<p class="not-measured" role="note">Nobody has measured yet how long this takes: '
    "<code>make check-notebooks</code> does, and its times belong into <code>binder/launch.json</code>.</p>"
)


def read_times(path: Path) -> Json | None:
    """Return the times that the check wrote; None if there is no file.

    Raises:
        ExtensionError: if it is not a file of these times.
    """
    if not path.is_file():
        return None
    try:
        document: Json = json.loads(path.read_text("utf-8"))
        if (document["schema"], document["schema_version"]) != ("tinytorch-launch", 1) or not document["pages"]:
            raise ValueError("it is of another kind or names no page")
    except (ValueError, KeyError, TypeError) as error:
        raise ExtensionError(f"{path.name} must be what `make check-notebooks` writes: {error}") from None
    return document


def table_html(document: Json) -> str:
    """Return the table of the steps from nothing to a result, with the machine and the day in its caption."""
    pages = list(document["pages"].values())
    firsts = [page["first_output_seconds"] for page in pages if page["first_output_seconds"] is not None]
    steps = [
        ("Install the packages, downloads included", document["environment_seconds"]),
        ("Start JupyterLab", document["start_seconds"]),
        ("Open a chapter as a notebook", median(page["open_seconds"] for page in pages)),
        ("Open it and see its first output", median(firsts) if firsts else None),
        ("Open it and run all its cells", median(page["all_seconds"] for page in pages)),
    ]
    machine, count = document["machine"], len(pages)
    load = "" if machine["load"] is None else f", load {machine['load']:.2g}"
    caption = (
        f"From nothing to a result in JupyterLab, measured once on {machine['cpu']}, {machine['cores']} cores{load}, "
        f"on {datetime.fromisoformat(document['when']):%d %B %Y}; of a chapter, the median of {count}."
    )
    columns = [Column("step", "Step"), Column("time", "Time", "s")]
    rows = [{"step": step, "time": time} for step, time in steps]
    return tables.to_html(rows, columns, caption=caption, key="launch-times")


class LaunchTimesDirective(SphinxDirective):
    """``{launch-times}``: the table, or a note that nobody has measured yet."""

    def run(self) -> list[nodes.Node]:
        """Return the table; the page is read again when the file changes."""
        path = (Path(self.env.srcdir) / TIMES).resolve()
        self.env.note_dependency(str(path))
        document = read_times(path)
        return [nodes.raw("", _NONE if document is None else table_html(document), format="html")]


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("launch-times", LaunchTimesDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
