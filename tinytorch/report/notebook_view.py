"""A record below its cell, as HTML and words for a reader's notebook.

JupyterLab, Visual Studio Code and GitHub each bring colours of their own for light and dark, so nothing here
names one: text takes the colour around it and rules are made of that colour.
"""

from __future__ import annotations

from html import escape

from tinytorch.report import tables
from tinytorch.report.numbers import format_number, format_record, number_text, sureness, unbroken
from tinytorch.report.provenance import cautions
from tinytorch.report.records import ABSENT, NUMBER_KINDS, Json
from tinytorch.report.verdicts import evidence_words

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
    said = "; ".join(part for part in (modelled, sureness(record, shown), record["what"]) if part)
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
