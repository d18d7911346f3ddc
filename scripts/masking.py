"""Takes what was measured out of a built site's files, so that what is left can be compared byte for byte.

Masked is what comes out of a clock or is chosen by code from it: measured and modelled numbers with what stands
behind them, verdicts and the evidence of claims, tables and drawings that hold such numbers (their rows may be sorted
by them), what cells printed, times, durations and the machine's load. All else is left: text, counted numbers, links,
ids, styles, scripts, the code of cells, what keys and kinds of records there are.
"""

from __future__ import annotations

import json
import re
from typing import Any

from bs4 import BeautifulSoup, Tag

MASK = "[measured]"
#: Kinds of numbers that differ from run to run; a counted number does not.
_MEASURED = ("measured", "derived", "modelled")
#: Tables of words that code chose from measurements, and of how many of them were in the wrong.
_CHOSEN = ("dominated", "false-alarms")
#: Elements whose content is measured, whatever is in them.
_WHOLE = (
    "time",
    ".page-measured",
    ".claim-verdict",
    ".claim-evidence",
    ".claim-numbers",
    ".ledger tbody td:nth-of-type(-n+2)",
    ".ledger-counts",
    "figure.measured-figure svg",
    ".measured-table[aria-labelledby=last-executions] tbody",
    ".measured-table[aria-labelledby^=cells-] tbody",
    ".execution-cells tbody",
    ".cell_output pre",
    ".predict-result",
    *(f".measured-table[aria-labelledby=table-{key}-caption] tbody" for key in _CHOSEN),
)
#: What a question's form holds of its answer.
_ANSWERS = tuple(
    f"data-{name}" for name in ("value", "low", "high", "tolerance", "shown", "difference", "factor", "scale", "word")
)
#: What a masked element keeps beside its first class; others hold dates, sizes or words for those who do not see it.
_KEPT_ATTRIBUTES = ("id", "popovertarget", "role", "type")
#: Lines of a page's card, and of the report made of it, that tell of the run rather than of the machine or the code.
_RUN = ("Made", "Noise", "Noise floor", "Load")
#: What that report says besides where others used the machine.
_BUSY = "this machine was busy"
#: A result of another page in a notebook's text.
_QUOTED = re.compile(r"\*\*[^*]+\*\*(?: \[[^\]]*\])? in the book")
_CLOCK = re.compile(r"\d\s?(ns|µs|ms|s|min)$")
_CLOCK_UNIT = re.compile(r"\((ns|µs|ms|s|min)\)")
_WORD = re.compile(r"\w+")


class Masked:
    """A file's text without what was measured, and the words that were taken out."""

    def __init__(self, text: str, words: set[str]) -> None:
        self.text, self.words = text, words


def _take_out(element: Tag, words: set[str]) -> None:
    # The index for searching reads neighbouring cells of a table as one word.
    words.update(_WORD.findall(element.get_text(" ")) + _WORD.findall(element.get_text("")))
    kept = {name: value for name, value in element.attrs.items() if name in _KEPT_ATTRIBUTES}
    element.attrs = {**kept, "class": element.get_attribute_list("class")[0]} if element.has_attr("class") else kept
    element.clear()
    element.append(MASK)


def _is_measured_table(table: Tag) -> bool:
    if table.select_one("td .spread, td[title*=interval], .kind-tag, .measured.measured") is not None:
        return True
    return any(_CLOCK_UNIT.search(unit.get_text()) for unit in table.select("th .unit"))


def _mask_numbers(page: BeautifulSoup, words: set[str]) -> None:
    for button in page.select("button.measured"):
        if {"absent", "counted"} & set(button.get_attribute_list("class")):
            continue
        detail = page.find(id=str(button.get("popovertarget")))
        for element in (button, detail):
            if isinstance(element, Tag):
                _take_out(element, words)


def mask_page(html: str) -> Masked:
    """Return a page without what was measured."""
    page = BeautifulSoup(html, "html.parser")
    words: set[str] = set()
    for row in page.select(".ledger tr"):  # a verdict and what stands beside it
        words.update(_WORD.findall(row.get_text("")))
    _mask_numbers(page, words)
    for selector in _WHOLE:
        for element in page.select(selector):
            _take_out(element, words)
    for box in page.select("div.claim"):
        box["class"] = "claim"
    for form in page.select("form.predict-form"):
        form.attrs = {name: value for name, value in form.attrs.items() if name not in _ANSWERS}
    # Sphinx adds a checksum where the file is there already; this one's name has one.
    for link in page.select('link[href*="/mystnb."]'):
        link["href"] = str(link["href"]).partition("?")[0]
    for box in page.select(".measured-table.stack"):  # as wide as the numbers in it
        box["class"] = " ".join(name for name in box.get_attribute_list("class") if name != "stack")
    for table in page.select(".measured-table table"):
        if _is_measured_table(table):
            for part in table.select("tbody, .unit"):
                _take_out(part, words)
    for cell in page.select("td[data-value]"):
        if _CLOCK.search(cell.get_text()):
            _take_out(cell, words)
    for row in page.select(".measured-card dl > div, .measured-table tr"):
        name, value = row.find(["dt", "th"]), row.find(["dd", "td"])
        if isinstance(name, Tag) and isinstance(value, Tag) and name.get_text() in _RUN:
            _take_out(value, words)
    for report in page.select(".page-mismatch pre"):
        kept = [
            line for line in report.get_text().splitlines() if line.partition(":")[0] not in _RUN and _BUSY not in line
        ]
        words.update(_WORD.findall(report.get_text()))
        report.string = "\n".join(kept)
    return Masked(str(page), words)


def _holds_measured(value: Any) -> bool:
    if isinstance(value, dict):
        return value.get("kind") in _MEASURED or any(map(_holds_measured, value.values()))
    return isinstance(value, list) and any(map(_holds_measured, value))


def _mask_record(record: dict[str, Any]) -> dict[str, Any]:
    hidden = {
        "derived": ("value", "interval", "n", "samples", "conditions", "what"),
        "measured": ("value", "interval", "n", "samples", "conditions", "what"),
        "modelled": ("value", "interval", "n", "samples", "conditions", "what"),
        "verdict": ("word", "because"),
        "claim": ("verdict", "evidence"),
        "table": ("rows",) if record["key"] in _CHOSEN or _holds_measured(record.get("rows")) else (),
        # Words for a drawing that code made of what it shows.
        "figure": ("series", "alt") if _holds_measured(record.get("series")) else ("alt",),
    }.get(record["kind"], ())
    return {name: MASK if name in (*hidden, "when") else _without_run(value) for name, value in record.items()}


def _without_run(rows: Any) -> Any:
    """Return a table's rows without those of the machine's card that tell of the run; anything else as it is."""
    if not isinstance(rows, list):
        return rows
    return [MASK if isinstance(row, dict | list) and _names_run(row) else row for row in rows]


def _names_run(row: dict[str, Any] | list[Any]) -> bool:
    """Return whether it is a row of the card that tells of the run; files of measurements hold rows as lists."""
    return (row[0] if isinstance(row, list) else row.get("what")) in _RUN


def _mask_content(content: dict[str, Any]) -> dict[str, Any]:
    provenance = content["provenance"]
    return {
        **content,
        "duration_seconds": MASK,
        "provenance": {**provenance, "when": MASK, "machine": {**provenance["machine"], "load": MASK}},
        "records": [_mask_record(record) for record in content["records"]],
    }


def mask_records(text: str) -> Masked:
    """Return a page's file of records without what was measured."""
    return Masked(json.dumps(_mask_content(json.loads(text)), indent=1, sort_keys=False), set())


def mask_measurements(text: str) -> Masked:
    """Return the book's file of measurements, as JSON or as a script, without what was measured.

    Raises:
        ValueError: if it is neither.
    """
    start, _, literal = text.partition("{")
    held, end = json.JSONDecoder().raw_decode("{" + literal)
    inner = held.get("measurements", held)
    inner["pages"] = [_mask_content(page) for page in inner["pages"]]
    return Masked(start + json.dumps(held, indent=1) + literal[end - 1 :], set())


def mask_quotations(text: str) -> Masked:
    """Return a notebook that was not executed without the results of the book that its text quotes."""
    return Masked(_QUOTED.sub(MASK, text), set())


def mask_notebook(text: str) -> Masked:
    """Return an executed notebook without outputs, text and times of its cells: its code, and what cells it has.

    Numbers stand in its text; the same text is compared in the page and in the notebook that is empty.
    """
    content = json.loads(text)
    content["metadata"].pop("cell_times", None)
    for cell in content["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = MASK
            cell["metadata"].pop("execution", None)
        else:
            cell["source"] = MASK
    return Masked(json.dumps(content, indent=1), set())
