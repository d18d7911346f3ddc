"""Kinds of records: how each reads in a terminal and below its cell, what is sent around of it, and what it holds.

JupyterLab, Visual Studio Code and GitHub each bring colours of their own for light and dark, so no HTML here names one:
text takes the colour around it and rules are made of that colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from tinytorch.report import tables
from tinytorch.report.numbers import format_number, format_record, is_number, number_text, sureness, unbroken
from tinytorch.report.provenance import cautions
from tinytorch.report.records import ABSENT, NUMBER_KINDS, Json
from tinytorch.report.verdicts import DECIDED, evidence_words

#: How what is absent begins.
NOT_MEASURED = "Not measured in this build"
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


class Kind:
    """A record as one of its kind; ``name`` is what the text of its page calls it by."""

    #: What a file of measurements keeps of it, besides its key.
    kept: tuple[str, ...] = ()

    def __init__(self, record: Json) -> None:
        self.record = record
        self.name = str(record.get("expression", record["key"]))

    def text(self) -> str:
        """Return it in words, for a terminal."""
        raise NotImplementedError

    def inner_html(self) -> str:
        """Return what stands behind its name in a reader's notebook."""
        raise NotImplementedError

    def html(self, on_page: str | None) -> str:
        """Return it for a reader's notebook; ``on_page`` is what only the cell could make, as `Shown` has it."""
        return _STYLE + on_page if on_page is not None else f"<code>{escape(self.name)}</code> {self.inner_html()}"

    def compact(self) -> Json:
        """Return what a file of measurements keeps of it: neither samples nor conditions nor prose."""
        return {"key": self.record["key"], **{name: self.record[name] for name in self.kept}}

    def markdown(self) -> str:
        """Return it in the middle of a sentence, as Markdown."""
        raise NotImplementedError

    def numbers(self) -> Iterator[Json]:
        """Yield each number that it holds: its own, or those of its cells or series."""
        yield from ()

    def verdicts(self) -> Iterator[Json]:
        """Yield each verdict that it holds, with its ``outcome``, ``fixed`` and ``tests``."""
        yield from ()


class Number(Kind):
    """A value of any kind, with its interval and its samples."""

    kept = ("kind", "value", "unit", "interval", "n", "what")
    #: What the value is in the terminal and in the notebook, if it was not measured.
    modelled = ("", "")

    def text(self) -> str:
        """Return name, value, interval and n."""
        return f"{self.name}: {self.modelled[0]}{number_text(self.record)}"

    def inner_html(self) -> str:
        """Return the value, how sure it is, and what it is of."""
        shown = format_record(self.record)
        said = "; ".join(filter(None, (self.modelled[1], sureness(self.record, shown), self.record["what"])))
        return f"<strong>{escape(shown.text)}</strong> <small>{escape(said)}</small>"

    def markdown(self) -> str:
        """Return the value, and behind it its interval."""
        shown = format_record(self.record)
        interval = f" [{shown.interval}]" if shown.digits and shown.interval else ""
        return f"**{shown.text}**{' (modelled)' if self.modelled[0] else interval}"

    def numbers(self) -> Iterator[Json]:
        """Yield the number itself."""
        yield self.record


class ModelledNumber(Number):
    """A value that a law gives."""

    modelled = ("modelled, ", "modelled, not measured")


class VerdictWord(Kind):
    """A verdict, or a name or truth value that code chose."""

    kept = ("kind", "word")

    def text(self) -> str:
        """Return the word and its reason."""
        return f"{self.name}: {self.record['word']}, because {self.record['because']}"

    def inner_html(self) -> str:
        """Return the word and its reason."""
        word, because = escape(self.record["word"]), escape(self.record["because"])
        return f"<strong>{word}</strong> <small>because {because}</small>"

    def markdown(self) -> str:
        """Return the word."""
        return f"**{self.record['word']}**"

    def verdicts(self) -> Iterator[Json]:
        """Yield the verdict; a name or a truth value that code chose for the text rests on no test, and is none."""
        if "expression" not in self.record or self.record["tests"] or self.record["outcome"] != DECIDED:
            yield self.record


class Claim(Kind):
    """A claim that was tested, whose words stand on the page."""

    kept = ("kind", "statement", "verdict")

    def text(self) -> str:
        """Return the verdict and what was found."""
        return f"{self.name}: {self.record['verdict']}. {evidence_words(self.record)}"

    def html(self, on_page: str | None) -> str:  # noqa: ARG002 - a page has its words
        """Return the verdict and what was found."""
        return f"<p>{escape(self.text())}</p>"

    def verdicts(self) -> Iterator[Json]:
        """Yield the verdict on it."""
        yield self.record


class Table(Kind):
    """A table, of which each cell is a value, a word or a verdict."""

    def text(self) -> str:
        """Return the table in columns of a fixed width."""
        return tables.to_text(*tables.from_body(self.record), caption=self.record["caption"])

    def html(self, on_page: str | None) -> str:  # noqa: ARG002 - the record holds all of it
        """Return the table with its style."""
        cells = tables.from_body(self.record)
        return _STYLE + tables.to_html(*cells, caption=self.record["caption"], key=self.record["key"])

    def compact(self) -> Json:
        """Return its cells in the order of its columns; of a number without samples, of a verdict the word."""
        columns = [{"key": column["key"], "label": column["label"]} for column in self.record["columns"]]
        rows = [[_compact_cell(row[column["key"]]) for column in columns] for row in self.record["rows"]]
        about = {name: self.record[name] for name in ("key", "kind", "caption")}
        return {**about, "columns": columns, "rows": rows}

    def numbers(self) -> Iterator[Json]:
        """Yield each number among its cells."""
        return (cell for row in self.record["rows"] for cell in row.values() if is_number(cell))

    def verdicts(self) -> Iterator[Json]:
        """Yield each verdict among its cells."""
        cells = (cell for row in self.record["rows"] for cell in row.values())
        return (cell for cell in cells if isinstance(cell, dict) and "outcome" in cell)


def _compact_cell(cell: Any) -> Any:
    if is_number(cell):
        return {name: cell[name] for name in Number.kept}
    return cell["word"] if isinstance(cell, Mapping) else cell


class Figure(Kind):
    """A figure or a drawing, with the numbers of its series."""

    def text(self) -> str:
        """Return the words for who does not see it, and its caption."""
        return f"[figure {self.name}: {self.record['alt']}] {self.record['caption']}"

    def html(self, on_page: str | None) -> str:
        """Return the drawing with its caption."""
        caption = escape(unbroken(self.record["caption"]))
        return (
            f'{_STYLE}<figure class="measured-figure" id="figure-{self.record["key"]}">\n{on_page}\n'
            f"<figcaption>{caption}</figcaption>\n</figure>"
        )

    def numbers(self) -> Iterator[Json]:
        """Yield each number that is drawn."""
        return (number for series in self.record["series"] for number in series["numbers"])


class Absent(Kind):
    """What this build did not measure."""

    kept = ("kind", "reason")

    def text(self) -> str:
        """Return the reason."""
        return f"{self.name}: {NOT_MEASURED}: {self.record['reason']}"

    def inner_html(self) -> str:
        """Return the reason."""
        return f"<em>{NOT_MEASURED}: {escape(self.record['reason'])}</em>"

    def markdown(self) -> str:
        """Return that it was not measured."""
        return f"*{NOT_MEASURED.lower()}*"


class Provenance(Kind):
    """Where a page was made."""

    def text(self) -> str:
        """Return a sentence for each thing that a reader needs to judge the page's numbers."""
        machine = self.record["machine"]
        cores = f"{machine['cores_usable']} of {machine['cores_logical']} cores"
        memory = format_number(machine["memory_bytes"], "B").text
        return "\n".join([f"Measured on {machine['cpu']}, {cores}, {memory} of memory.", *cautions(self.record)])

    def html(self, on_page: str | None) -> str:  # noqa: ARG002 - the record holds all of it
        """Return the sentences, a line each."""
        return "<br>\n".join(map(escape, self.text().splitlines()))


_KINDS: dict[str, type[Kind]] = {
    **dict.fromkeys(NUMBER_KINDS, Number),
    "modelled": ModelledNumber,
    "verdict": VerdictWord,
    "claim": Claim,
    "table": Table,
    "figure": Figure,
    ABSENT: Absent,
    "provenance": Provenance,
}


def of_kind(record: Json) -> Kind:
    """Return a record as one of its kind."""
    return _KINDS[record["kind"]](record)
