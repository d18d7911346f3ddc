"""A record below its cell: data for the build, and HTML and words for eyes in a notebook.

JupyterLab, Visual Studio Code and GitHub each bring colours of their own for light and dark, so nothing here
names one: text takes the colour around it and rules are made of that colour.
"""

from __future__ import annotations

import base64
import os
import sys
from dataclasses import dataclass
from html import escape
from typing import Any

from tinytorch.report import tables
from tinytorch.report.numbers import (
    Formatted,
    format_number,
    format_record,
    interval_name,
    number_of_samples,
    unbroken,
)
from tinytorch.report.provenance import cautions
from tinytorch.report.records import ABSENT, NUMBER_KINDS, Json, Record
from tinytorch.report.verdicts import evidence_words

#: The MIME type under which records stand in the outputs of an executed notebook.
RECORD_MIME = "application/vnd.tinytorch.record+json"
#: The MIME type of what a page's text names and its cells do not give: ``name`` and ``said``.
FAULT_MIME = "application/vnd.tinytorch.fault+json"
#: Set while the book is built: numbers and words then show nothing below their cell, prose takes them by key.
BUILDING = "TINYTORCH_BUILDING_BOOK"


def is_building() -> bool:
    """Return whether the cells run for the book's build, not for a reader."""
    return BUILDING in os.environ


def publish_fault(name: str, said: str, *, is_final: bool = True) -> None:
    """Tell that an expression of a page's text, or an outcome of a name, gives nothing to show, and why.

    A reader's notebook is told of it if that is final: no cell below may still give it.
    """
    if is_building():
        from IPython.display import publish_display_data

        publish_display_data({FAULT_MIME: {"name": name, "said": said}})  # type: ignore[no-untyped-call]
    elif is_final:
        print(said)


@dataclass(frozen=True)
class Shown:
    """A record with its renderings.

    It is published when it is made, so that each of several in one cell arrives; as a cell's last expression
    it shows nothing a second time. The book's build makes what its page shows from the record itself.

    Attributes:
        record: what is shown.
        on_page: HTML that only the cell can make, for its place on the page: a figure's drawing, or a note.
        png: a figure as a bitmap, for places that show no other drawing.
    """

    record: Record
    on_page: str | None = None
    png: bytes | None = None

    @property
    def text(self) -> str:
        """For a terminal."""
        return words(self.record.to_json())

    @property
    def html(self) -> str:
        """For a reader's notebook."""
        return view(self.record.to_json(), self.on_page)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:  # noqa: ARG002
        bundle: dict[str, Any] = {RECORD_MIME: self.record.to_json()}
        if not is_building():
            bundle |= {"text/html": self.html, "text/plain": self.text}
        elif self.on_page is not None:
            bundle["text/html"] = self.on_page
        if self.png is not None:
            bundle["image/png"] = base64.b64encode(self.png).decode("ascii")
        return bundle

    def _ipython_display_(self) -> None:
        """Show nothing: `publish` has shown it when it was made."""

    def publish(self) -> None:
        """Hand the record and its renderings to the notebook; does nothing outside of IPython."""
        ipython = sys.modules.get("IPython")
        if ipython is None or ipython.get_ipython() is None:
            return
        ipython.display.publish_display_data(self._repr_mimebundle_())

    def __str__(self) -> str:
        return self.text


#: How what is absent begins.
NOT_MEASURED = "Not measured in this build"
#: Icons of a claim's verdicts, so that none rests on its word's colour.
ICONS = {"supported": "✓", "refuted": "✗", "open": "?", "withheld": "–"}
#: Only what tables and figures need to be read as on the page.
_STYLE = """<style>
.measured-table {overflow-x: auto}
.measured-table table {border-collapse: collapse; margin: 0.5em 0}
.measured-table caption {caption-side: top; padding: 0 0 0.4em; color: inherit; font-weight: 600; text-align: left}
.measured-table :is(th, td) {padding: 0.3em 0.9em 0.3em 0; background: none; text-align: left; vertical-align: baseline}
.measured-table tr {border-bottom: 1px solid color-mix(in srgb, currentcolor 25%, transparent)}
.measured-table :is(th, td).numeric {font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap}
.measured-table tbody th {font-weight: 500}
.measured-table :is(.unit, .spread) {font-weight: 400; opacity: 0.75}
.measured-table td.modelled {font-style: italic}
.measured-figure {max-width: 45rem; margin: 0.5em 0}
.measured-figure svg {display: block; width: 100%; max-width: 36rem; height: auto; color: inherit}
.measured-figure svg.wide {max-width: none}
.measured-figure svg.narrow {display: none}
</style>
"""


def number_text(body: Json) -> str:
    """Return a number's body in words for a terminal: value, interval and n."""
    shown = format_record(body)
    sure = _sure(body, shown)
    return f"{shown.text} ({sure})" if sure else shown.text


def _sure(body: Json, shown: Formatted) -> str:
    """Return how sure a number is: its interval, unless it stands in the value's place, and n; empty for one sample."""
    interval = body["interval"]
    if interval is None:
        return f"n = {body['n']}" if body["n"] > 1 else ""
    ends = f" {shown.interval}" if shown.digits else ""
    return f"{interval_name(interval['confidence'])}{ends}{number_of_samples(body['n'])}"


def _machine_words(record: Json) -> list[str]:
    """Return where a page is made, a sentence for each thing that a reader needs to judge its numbers."""
    machine = record["machine"]
    cores = f"{machine['cores_usable']} of {machine['cores_logical']} cores"
    memory = format_number(machine["memory_bytes"], "B").text
    return [f"Measured on {machine['cpu']}, {cores}, {memory} of memory.", *cautions(record)]


def words(record: Json) -> str:
    """Return any record in words, for a terminal; ``record`` is as `Record.to_json` gives it."""
    key, kind = record.get("expression", record["key"]), record["kind"]
    if kind == "table":
        return tables.to_text(*tables.from_body(record), caption=record["caption"])
    if kind == "figure":
        return f"[figure {key}: {record['alt']}] {record['caption']}"
    if kind in NUMBER_KINDS:
        modelled = "modelled, " if kind == "modelled" else ""
        return f"{key}: {modelled}{number_text(record)}"
    if kind == "verdict":
        return f"{key}: {record['word']}, because {record['because']}"
    if kind == "claim":  # whose words stand on the page
        return f"{key}: {record['verdict']}. {evidence_words(record)}"
    if kind == ABSENT:
        return f"{key}: {NOT_MEASURED}: {record['reason']}"
    return "\n".join(_machine_words(record))


def _number_html(record: Json) -> str:
    shown = format_record(record)
    modelled = "modelled, not measured" if record["kind"] == "modelled" else ""
    said = "; ".join(part for part in (modelled, _sure(record, shown), record["what"]) if part)
    return f"<strong>{escape(shown.text)}</strong> <small>{escape(said)}</small>"


def _figure_html(record: Json, drawing: str) -> str:
    caption = escape(unbroken(record["caption"]))
    return (
        f'<figure class="measured-figure" id="figure-{record["key"]}">\n{drawing}\n'
        f"<figcaption>{caption}</figcaption>\n</figure>"
    )


def view(record: Json, on_page: str | None) -> str:
    """Return the HTML of any record for a notebook.

    Args:
        record: as `Record.to_json` gives it.
        on_page: what only the cell could make, as `Shown` has it.
    """
    key, kind = record["key"], record["kind"]
    if kind == "table":
        return _STYLE + tables.to_html(*tables.from_body(record), caption=record["caption"], key=key)
    if on_page is not None:
        return _STYLE + (_figure_html(record, on_page) if kind == "figure" else on_page)
    if kind == "claim":
        return f"<p>{escape(words(record))}</p>"
    if kind == "provenance":
        return "<br>\n".join(map(escape, _machine_words(record)))
    if kind in NUMBER_KINDS:
        inner = _number_html(record)
    elif kind == "verdict":
        inner = f"<strong>{escape(record['word'])}</strong> <small>because {escape(record['because'])}</small>"
    else:
        inner = f"<em>{NOT_MEASURED}: {escape(record['reason'])}</em>"
    return f"<code>{escape(str(record.get('expression', key)))}</code> {inner}"
