"""Repeated builds: how far the intervals of several builds of one machine agreed, as kept from other runs.

``python -m scripts.compare_builds SITE SITE ... --json measurements/builds/NAME.json`` writes such a file.
"""

import json
from datetime import date
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from measured_book.elements.nodes import table_region

Json = dict[str, Any]
#: Below the folder of measurements, so that it is not taken for a machine's.
FOLDER = "builds"


def sentence(made: Json) -> str:
    """Return what the file says of all pages, in HTML."""
    whole, when = made["all"], date.fromisoformat(made["when"])
    code = made["package"]["commit"]
    version = f", at commit {escape(code[:7])}" if code else ""
    return (
        f'<p class="quoted">From other runs: the book was built {made["builds"]} times on '
        f"{escape(made['machine']['cpu'])} "
        f"({when:%d %B %Y}{version}). Of any two builds, {_quoted(whole['holds'])} of the intervals held the median of "
        f"the other, and {_quoted(whole['touches'])} touched.</p>"
    )


def _quoted(share: float) -> str:
    return f'<span class="quoted-value">{100 * share:.0f} %</span>'


def table(made: Json) -> str:
    """Return the file's table in HTML, a row for each page and one for all."""
    heads = ("Numbers", "Hold the other's median (%)", "Touch the other's (%)", "Width over value (%)")
    rows = "\n".join(
        f'<tr><th scope="row">{escape(name.replace("_", " "))}</th>'
        + "".join(
            f'<td class="numeric"><span class="quoted-value">{text}</span></td>'
            for text in (
                f"{one['numbers']:,}",
                f"{100 * one['holds']:.0f}",
                f"{100 * one['touches']:.0f}",
                f"{100 * one['width']:.1f}",
            )
        )
        + "</tr>"
        for name, one in [*made["pages"].items(), ("all", made["all"])]
    )
    head = "".join(f'<th scope="col" class="numeric">{escape(text)}</th>' for text in heads)
    caption = "Intervals of repeated builds, of other runs; the width is that of the whole interval, in the median"
    return table_region("repeated-builds", caption, f'<th scope="col">Page</th>{head}', rows)


class RepeatedBuildsDirective(SphinxDirective):
    """``{repeated-builds}``: a sentence and a table for each file of repeated builds; nothing where there is none."""

    def run(self) -> list[nodes.Node]:
        """Return the sentences and tables."""
        made: list[nodes.Node] = []
        for path in files(self.env.app):
            self.env.note_dependency(str(path))
            kept = json.loads(path.read_text("utf-8"))
            made.append(nodes.raw("", sentence(kept) + "\n" + table(kept), format="html"))
        return made


def files(app: Sphinx) -> list[Path]:
    """Return the files of repeated builds, by name."""
    return sorted(Path(app.srcdir, app.config.measurements_folder, FOLDER).resolve().glob("*.json"))


def setup(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("repeated-builds", RepeatedBuildsDirective)
