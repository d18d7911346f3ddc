"""Renderers of a page's numbers, verdicts, claims and links in its notebooks: the book's values, or their names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from measured_book.records.html import ICONS, ShowError, formatted, shown_value
from measured_book.state import BookState, split_reference, state_of
from sphinx.environment import BuildEnvironment

from tinytorch.report.claims import filled_text
from tinytorch.report.notebook_view import NOT_MEASURED, number_text
from tinytorch.report.numbers import format_interval
from tinytorch.report.records import ABSENT, NUMBER_KINDS, Json

_TITLED = re.compile(r"(?P<title>.+?)\s*<(?P<target>[^>]+)>", re.DOTALL)


def _value(record: Json, option: str) -> str:
    """Return a number as prose shows it, and where the whole of it is asked for, its interval behind it."""
    if record["kind"] == ABSENT:
        return f"*{NOT_MEASURED.lower()}*"
    text = f"**{shown_value(record, option).text}**"
    if record["kind"] == "modelled":
        return f"{text} (modelled)"
    if record["interval"] and option == "":
        interval = record["interval"]
        text += f" [{format_interval(interval['low'], interval['high'], formatted(record))}]"
    return text


@dataclass
class _Renderer:
    """Part of a renderer that is alike for every notebook of a page."""

    env: BuildEnvironment
    docname: str

    @property
    def state(self) -> BookState:
        """All pages' records, among others."""
        return state_of(self.env)

    def record(self, reference: str, *kinds: str) -> Json | None:
        """Return the record that the page names by ``reference``."""
        return self.state.find(reference, self.docname, *kinds)

    def file(self, path: str) -> Path:
        """Return where a file is that the page includes."""
        return (Path(self.env.doc2path(self.docname)).parent / path).resolve()

    def role(self, name: str, text: str) -> str:
        """Return what stands for a role; of one that is not known, its text."""
        if name in ("measured", "verdict"):
            reference, _, option = (part.strip() for part in text.partition("|"))
            return self.number(reference, option) if name == "measured" else self.word(reference)
        if name == "quoted":
            number, _, source = (part.strip() for part in text.partition("|"))
            found = _TITLED.fullmatch(source)
            return f"{number} ([{found['title']}]({found['target']}))" if found else f"{number} ({source})"
        titled = _TITLED.fullmatch(text)
        if name == "math":
            return f"${text}$"
        if name == "ref":
            return f"*{titled['title'] if titled else self.title(text.strip())}*"
        return titled["title"] if titled else text

    def title(self, label: str) -> str:
        """Return the title of the section that has the label, or the label where no section has it."""
        labels: dict[str, tuple[str, str, str]] = self.env.domaindata["std"]["labels"]
        return labels[label.lower()][2] if label.lower() in labels else label

    def number(self, reference: str, option: str) -> str:
        """Return what stands for a number."""
        record = self.record(reference, *NUMBER_KINDS, ABSENT)
        try:
            return f"`{reference}`" if record is None else _value(record, option)
        except ShowError:  # the page says so, and its build fails
            return f"`{reference}`"

    def word(self, reference: str) -> str:
        """Return what stands for a verdict."""
        record = self.record(reference, "verdict", ABSENT)
        if record is None:
            return f"`{reference}`"
        return f"**{record['word']}**" if record["kind"] == "verdict" else _value(record, "")

    def plain_number(self, reference: str, page: str) -> str:
        """Return a number that a text of ``page`` names, with its interval."""
        record = self.state.find(reference, page, *NUMBER_KINDS, ABSENT)
        if record is None:
            return reference
        return NOT_MEASURED.lower() if record["kind"] == ABSENT else number_text(record)


class BookRenderer(_Renderer):
    """Renderer of what the book's build found: for a notebook that is read as it ran."""

    def claim(self, reference: str) -> str:
        """Return a claim with its verdict and evidence."""
        record = self.record(reference, "claim", ABSENT)
        if record is None:
            return f"**Claim** `{reference}`"
        if record["kind"] == ABSENT:
            return f"**Claim** `{reference}`\n\nNot tested in this build: {record['reason'].rstrip('.')}."
        evidence = filled_text(record["evidence"], lambda key: self.plain_number(key, record["page"]))
        source = f"[{record['source']}]({record['source_url']})" if record["source_url"] else record["source"]
        verdict = f"**Claim: {ICONS[record['verdict']]} {record['verdict']}**"
        return f"{verdict}\n\n{record['statement']}\n\n{evidence}\n\nSource: {source}"

    def is_measured(self, reference: str) -> bool:
        """Return whether this build measured what the reference names."""
        record = self.record(reference, *NUMBER_KINDS, "verdict", "claim", "table", "figure", ABSENT)
        return record is not None and record["kind"] != ABSENT

    def answer(self, reference: str) -> str:
        """Return the answer of a prediction."""
        return f"It is {self.role('measured', reference) if self._is_number(reference) else self.word(reference)}."

    def _is_number(self, reference: str) -> bool:
        return self.record(reference, *NUMBER_KINDS) is not None


class ReaderRenderer(_Renderer):
    """Renderer of where a reader who runs the notebook finds its numbers; another page's are the book's."""

    def _is_here(self, reference: str) -> bool:
        return split_reference(reference, self.docname)[0] == self.docname

    def number(self, reference: str, option: str) -> str:
        """Return a number's name, or the book's value of another page's."""
        return f"`{reference}`" if self._is_here(reference) else f"{super().number(reference, option)} in the book"

    def word(self, reference: str) -> str:
        """Return a verdict's name, or the book's word of another page's."""
        return f"`{reference}`" if self._is_here(reference) else f"{super().word(reference)} in the book"

    def claim(self, reference: str) -> str:
        """Return what is claimed; the verdict is the reader's machine's."""
        record = self.record(reference, "claim")
        if record is None:
            return f"**Claim** `{reference}`"
        return f"**Claim**\n\n{record['statement']}\n\nThe cell that records `{reference}` gives its verdict here."

    def is_measured(self, reference: str) -> bool:  # noqa: ARG002 - the same for every reference
        """Return True: whoever runs the notebook may be able to measure what this build could not."""
        return True

    def answer(self, reference: str) -> str:
        """Return where the answer of a prediction is."""
        return f"Run the cells below: they give `{reference}`."
