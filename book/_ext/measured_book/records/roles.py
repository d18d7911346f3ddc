"""Roles and directives that put records into a page's text: numbers, verdicts and claims by key, ledger and card."""

import os
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from myst_nb.sphinx_ import NbMetadataCollector
from sphinx.application import Sphinx
from sphinx.transforms import DoctreeReadEvent, SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from measured_book.elements.exhibits import Exhibit, place_exhibits
from measured_book.elements.nodes import Written, line_of, place_of, raw_html
from measured_book.elements.slots import (
    Idents,
    Slot,
    absent_claim_html,
    absent_slot,
    filled_line,
    hold_punctuation,
    line_html,
    number_slot,
    quoted_html,
    verdict_slot,
    why_slot,
)
from measured_book.execution.results import (
    NO_WORDS,
    RecordError,
    executed_notebook,
    faults_in,
    forget_notebook,
    has_words,
    read_page,
)
from measured_book.notebooks.downloads import downloads_of
from measured_book.records.card import CARD_ID, TITLE, card_html
from measured_book.records.claims import (
    Row,
    absent_row,
    claim_line,
    claim_row,
    claims_table,
    ledger_html,
    linked_row,
    row_id,
    wall_html,
)
from measured_book.records.outputs import refuse
from measured_book.sources.bibliography import FILE, claim_words, named_source
from measured_book.sources.names import split_reference
from measured_book.state import BookState, PageRecords, PageState, state_of
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.prose import arms, key_of, outcome_key, record_name, split_words
from tinytorch.report.expressions import UNMEASURED
from tinytorch.report.numbers import format_record
from tinytorch.report.records import ABSENT, NUMBER_KINDS, Json
from tinytorch.settings import variables

LOGGER = logging.getLogger(__name__)


def warn(message: str, location: Any) -> None:
    """Report what makes the build fail."""
    LOGGER.warning("%s [measured]", message, location=location, type="measured")


class ShowError(Exception):
    """Refusal to show a record; the message says which and why. It is empty where another warning has said that."""


class Pending(nodes.General, nodes.Inline, nodes.Element):
    """Place of something that is made of records once all pages are read.

    Attributes: ``role`` (measured, why, claim, ledger or card), ``reference``, and of a role ``written``: how the
    page has it.
    """


class _MeasuredRole(SphinxRole):
    """Role that names a record: by ``key`` or ``page:key``, or by the expression that made it."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        try:
            reference = record_name(self.text)
        except ValueError as error:
            warn(str(error), self.get_location())
            return [nodes.Text(self.text)], []
        page, _ = split_reference(reference, self.env.docname)
        state_of(self.env).of(self.env.docname).uses.add(page)
        node = Pending(role=self.name, reference=reference, written=f"{{{self.name}}}`{self.text}`")
        node["expression"] = split_words(self.text)[0]
        self.set_source_info(node)
        return [node], []


class QuotedRole(SphinxRole):
    """``{quoted}`73 %|Kaplan et al. 2020 <https://…>` ``: a number from elsewhere, with its source beside it."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the number as HTML, or warn if it has no source."""
        number, bar, source = (part.strip() for part in self.text.partition("|"))
        if not (number and bar and source):
            warn(f"a quoted number needs its source, as in `73 %|who says so`, not {self.text!r}", self.get_location())
            return [nodes.Text(self.text)], []
        address = named_source(source)[1]  # for the list of references
        return [nodes.raw("", quoted_html(number, source), format="html", address=address, words=number)], []


class ClaimDirective(SphinxDirective):
    """``{claim} key``: a claim where the chapter tests it, with its words: see `measured_book.records.claims`."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"source": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Return the place of the claim, and remember its words."""
        here = state_of(self.env).of(self.env.docname)
        reference = self.arguments[0].strip()
        if self.content:
            bibliography = Path(self.env.srcdir, FILE)
            self.env.note_dependency(str(bibliography))
            try:
                here.claim_words[reference] = claim_words(
                    list(self.content), self.options.get("source", ""), bibliography
                )
            except ValueError as error:
                here.claim_words[reference] = NO_WORDS
                warn(f"claim {reference!r}: {error}", self.get_location())
        here.claims.add(reference)
        here.uses.add(split_reference(reference, self.env.docname)[0])
        node = Pending(role="claim", reference=reference)
        self.set_source_info(node)
        return [node]


class PlaceDirective(SphinxDirective):
    """``{claims}``: the page's claims as a table; ``{claim-ledger}`` and ``{claim-wall}``: those of all pages."""

    def run(self) -> list[nodes.Node]:
        """Return the place."""
        state_of(self.env).of(self.env.docname).has_ledger |= self.name == "claim-ledger"
        node = Pending(role=self.name, reference="")
        self.set_source_info(node)
        return [node]


def _says_anything(section: nodes.section) -> bool:
    """Return whether a section has more than a heading: text, a picture, or what records show or will fill."""
    seen = (nodes.Text, nodes.raw, nodes.image, Pending, Exhibit)
    body = (child for child in section.children if not isinstance(child, nodes.title))
    return any(isinstance(node, seen) for child in body for node in child.findall())


class Told(nodes.General, nodes.Element):
    """Text of one outcome, held until the outcome is known. Attributes: ``reference``, ``expression``, ``outcome``."""


class OutcomeDirective(SphinxDirective):
    """``{outcome} expression``: one text for each result that a measurement can have, of which the page shows one.

    The texts stand between ``:::slower`` and ``:::``. Of a measured value they have ends, as in ``:::slower = above
    1.2``. For what was withheld or not measured the book has a text, if the page has none.
    """

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec: ClassVar = {"name": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Return the texts, held back."""
        expression = self.arguments[0].strip()
        try:
            reference = self.options.get("name") or outcome_key(expression)
            texts = list(arms(list(self.content), 0))
        except ValueError as error:
            warn(str(error), self.get_location())
            return []
        held: list[nodes.Node] = []
        for arm in texts:
            told = Told(reference=reference, expression=expression, outcome=arm.outcome)
            self.set_source_info(told)
            body = self.content[arm.line : arm.line + len(arm.lines)]
            self.state.nested_parse(body, self.content_offset + arm.line, told)
            held.append(told)
        for outcome in {Verdict.WITHHELD.value, UNMEASURED} - {arm.outcome for arm in texts}:
            held.append(Told(reference=reference, expression=expression, outcome=outcome, of_the_book=True))
        return held


def _settle_outcomes(doctree: nodes.document, state: BookState, docname: str) -> None:
    """Keep the text of each outcome, with its reason behind it, and drop the others; now the records are known."""
    left: dict[int, nodes.Element] = {}
    said: set[str] = set()
    for told in list(doctree.findall(Told)):
        record = state.find(told["reference"], docname, "verdict", ABSENT)
        left[id(told.parent)] = told.parent
        if record is None:
            fault = state.of(docname).faults.get(told["reference"]) or state.of(docname).faults.get(told["expression"])
            fault = fault or state.missing(told["reference"], docname, "outcome", "verdict", ABSENT)
            if fault and told["reference"] not in said:
                warn(f"{{outcome}}: {fault}", place_of(told))
            said.add(told["reference"])
            told.parent.remove(told)
            continue
        outcome = record.get("text", UNMEASURED)
        if (told["outcome"] == outcome) is state.shows_other or (state.shows_other and told.get("of_the_book")):
            told.parent.remove(told)
            continue
        if told.get("of_the_book"):
            words = _OF_THE_BOOK[outcome].format(reason=record.get("reason", "").rstrip("."))
            before = told.parent.index(told) - 1
            if before >= 0 and told.parent[before].astext().startswith(words):  # of the outcome above
                told.parent.remove(told)
                continue
            told += nodes.paragraph("", words)
        paragraphs = list(told.findall(nodes.paragraph))
        # The number that decides has its interval behind it, if the text shows it.
        is_shown = any(one["reference"] == key_of(told["expression"]) for one in told.findall(Pending))
        rests_on = bool(record.get("tests")) or outcome == Verdict.WITHHELD.value
        if paragraphs and rests_on and not record["fixed"] and not is_shown:
            why = Pending(role="why", reference=told["reference"], written="{outcome}")
            why.source, why.line = told.source, told.line
            paragraphs[-1] += [nodes.Text(" "), why]
        told.replace_self(told.children)
    for section in left.values():
        if isinstance(section, nodes.section) and section.parent is not None and not _says_anything(section):
            section.parent.remove(section)


#: What a page says of an outcome for which it has no text of its own.
_OF_THE_BOOK = {
    Verdict.WITHHELD.value: "Other programs were using the machine meanwhile, so this build draws no conclusion.",
    UNMEASURED: "This build did not measure it: {reason}.",
}


def _gather_claims(doctree: nodes.document) -> None:
    """Put the claims of the section in which a table of them stands into that table."""
    for table in [node for node in doctree.findall(Pending) if node["role"] == "claims"]:
        beside = [each for each in table.parent.findall(Pending) if each["role"] == "claim"]
        table["rows"] = beside
        for each in beside:
            each.parent.remove(each)


class ResolveRecords(SphinxPostTransform):
    """Replacement of each `Pending` node by what its record says."""

    default_priority = 5  # ahead of HTML that is made late, which docutils orders by this number

    def run(self, **_: Any) -> None:
        """Resolve every node of the page."""
        self._docname = self.env.docname
        self._state = state_of(self.env)
        self._idents = Idents(self._docname)
        makers: dict[str, Callable[[Pending], nodes.Element]] = {
            "measured": lambda node: self._number_of(node["reference"], self._idents),
            "why": lambda node: why_slot(self._record(node["reference"], "verdict"), self._idents),
            "claim": self._claim,
            "claims": self._claims,
            "claim-ledger": self._ledger,
            "claim-wall": self._wall,
            "card": self._card,
        }
        _gather_claims(self.document)
        for node in list(self.document.findall(Pending)):
            self._expression = str(node.get("expression", ""))
            try:
                made = makers[node["role"]](node)
            except ShowError as error:
                made = _refused(error, node)
            if self.app.builder.format != "html":
                node.replace_self(self._text_of(node))
                continue
            made.source, made.line = node.source, node.line
            node.replace_self(made)
            if isinstance(made, Slot):
                hold_punctuation(made)

    def _text_of(self, node: Pending) -> nodes.Text:
        """Return the number as text, for builders other than HTML's."""
        record = self._state.find(node["reference"], self._docname, *NUMBER_KINDS)
        return nodes.Text(format_record(record).text if record else node["reference"])

    def _record(self, reference: str, *kinds: str) -> Json:
        record = self._state.find(reference, self._docname, *kinds)
        if record is None and (fault := self._state.of(self._docname).faults.get(self._expression)):
            raise ShowError(fault)
        if record is None:
            wanted = "number" if kinds[0] in NUMBER_KINDS else kinds[0]
            raise ShowError(self._state.missing(reference, self._docname, wanted, *kinds) or "")
        return record

    def _address(self, docname: str) -> str:
        return self.app.builder.get_relative_uri(self._docname, docname)

    def _title(self, docname: str) -> str:
        return self.env.titles[docname].astext() if docname in self.env.titles else docname

    def _number_of(self, reference: str, idents: Idents) -> Slot:
        record = self._record(reference, *NUMBER_KINDS, "verdict", ABSENT)
        if record["kind"] == ABSENT:
            return absent_slot(record, idents)
        if record["kind"] == "verdict":
            return verdict_slot(record, idents)
        page = record["page"]
        origin = (self._title(page), self._address(page)) if page != self._docname else None
        return number_slot(record, idents, origin)

    def _name_of(self, reference: str) -> str:
        """Return what a number is of; for one that was not measured its key says it."""
        record = self._record(reference, *NUMBER_KINDS, ABSENT)
        return str(record.get("what", record["key"]))

    def _evidence(self, record: Json, idents: Idents) -> tuple[nodes.paragraph, list[str]]:
        """Return a claim's evidence, and as HTML the numbers that it rests on besides, each with its name."""
        page = record["page"]
        inside: set[str] = set()

        def number(key: str) -> Slot:
            inside.add(key)
            return self._number_of(_on_page(key, page), idents)

        evidence = filled_line(record["evidence"], number)
        also = [
            f"{escape(self._name_of(_on_page(key, page)))} {self._number_of(_on_page(key, page), idents).written()}"
            for key in record["numbers"]
            if key not in inside
        ]
        return evidence, also

    def _claim(self, node: Pending) -> nodes.Element:
        record = self._record(node["reference"], "claim", ABSENT)
        if record["kind"] == ABSENT:
            return raw_html(absent_claim_html(record))
        evidence, _ = self._evidence(record, Idents())
        html = claim_line(record, self._row_address(record))  # where the ledger shows its evidence
        said = (nodes.paragraph("", record[part]) for part in ("statement", "quote"))
        return Written("", *said, evidence, html=html)

    def _row_address(self, record: Json) -> str | None:
        """Return the address of a claim's row in the ledger; None if no page has it."""
        ledger = self._ledger_address()
        return f"{ledger}#{row_id(record)}" if ledger else None

    def _ledger_address(self) -> str | None:
        """Return the address of the page that lists all claims; None if no page does."""
        ledger = min((name for name, page in self._state.pages.items() if page.has_ledger), default=None)
        return self._address(ledger) if ledger else None

    def _claims(self, node: Pending) -> nodes.Element:
        page = self._state.of(self._docname).records
        here = []
        for claim in node["rows"]:
            try:
                here.append(self._record(claim["reference"], "claim", ABSENT))
            except ShowError as error:
                _refused(error, claim)
        keys = {record["key"] for record in here if record["page"] == self._docname}
        elsewhere = [record for record in (page.of_kind("claim") if page else []) if record["key"] not in keys]
        said: list[nodes.paragraph] = []
        rows = [self._claim_row(record, said) for record in here]
        rows += [linked_row(record, self._found(record)) for record in elsewhere]
        return Written("", *said, html=claims_table(rows, self._ledger_address()) if rows else "")

    def _claim_row(self, record: Json, said: list[nodes.paragraph]) -> str:
        """Return a claim's row, and add what it says to ``said``, for the search."""
        if record["kind"] == ABSENT:
            return absent_row(record)
        evidence, _ = self._evidence(record, self._idents)
        said += [*(nodes.paragraph("", record[part]) for part in ("statement", "quote")), evidence]
        return claim_row(record, line_html(evidence), self._found(record))

    def _found(self, record: Json) -> str:
        """Return the number of the test that decides a claim, else the first of its text, as HTML; empty if none."""
        deciding = record["tests"][0]["value"] if record["tests"] else None
        keys = [_on_page(key, record["page"]) for key in record["numbers"]]
        keys.sort(key=lambda key: self._record(key, *NUMBER_KINDS, "verdict", ABSENT).get("value") != deciding)
        return "".join(self._number_of(key, self._idents).written() for key in keys[:1])

    def _home(self, record: Json) -> str | None:
        """Return the page that discusses the claim, its own page first; None if no page does."""
        full = f"{record['page']}:{record['key']}"
        homes = [
            docname
            for docname, page in self._state.pages.items()
            if any(":".join(split_reference(reference, docname)) == full for reference in page.claims)
        ]
        return record["page"] if record["page"] in homes else min(homes, default=None)

    @property
    def _all_claims(self) -> list[Json]:
        return [record for page in self._state.records.values() for record in page.of_kind("claim")]

    def _ledger(self, node: Pending) -> nodes.raw:
        return raw_html(ledger_html([self._ledger_row(record, node) for record in self._all_claims]))

    def _wall(self, _: Pending) -> nodes.raw:
        address = self._ledger_address()
        return raw_html("" if address is None else wall_html(self._all_claims, address))

    def _ledger_row(self, record: Json, node: Pending) -> Row:
        home = self._home(record)
        if home is None:
            if has_words(record):
                warn(
                    f"claim {record['key']!r} of page {record['page']!r} is discussed on no page: add its {{claim}}",
                    node,
                )
            home = record["page"]
        evidence, _ = self._evidence(record, self._idents)
        return Row(record, line_html(evidence), self._title(home), self._address(home))

    def _card(self, _: Pending) -> nodes.raw:
        return raw_html(card_html(self._state.records[self._docname], downloads_of(self.env, self._docname)))


def _refused(error: ShowError, node: Pending) -> nodes.raw:
    """Return what stands in the place of a record that is not shown; warns at the line of what names it."""
    if str(error) and not node.get("is_answer"):
        warn(str(error), place_of(node))
    return raw_html(f'<strong class="missing">{escape(str(error) or node["reference"])}</strong>')


def _on_page(reference: str, page: str) -> str:
    """Return the reference in full, as it is meant on ``page``."""
    return ":".join(split_reference(reference, page))


class TakeRecords(SphinxTransform):
    """Taking of a page's records, when all of its text is read: they decide what of it stays, and bring a card."""

    # Right before Sphinx's own collectors look at the page, who are to see the card's section.
    default_priority = DoctreeReadEvent.default_priority - 1

    def apply(self, **_: Any) -> None:
        """Read the page's records, drop outputs that show nothing, and append the card."""
        docname, state = self.env.docname, state_of(self.env)
        place_exhibits(self.document)
        for output in list(self.document.findall(nodes.container)):
            if output.get("nb_element") == "cell_code_output" and not output.children:
                output.parent.remove(output)
        for node in self.document.findall(Pending):
            if isinstance(node.parent, nodes.title):
                warn("a number cannot stand in a heading: write it into the text below", place_of(node))
        self._take(state, docname)
        _settle_outcomes(self.document, state, docname)

    def _take(self, state: BookState, docname: str) -> None:
        """Put the records of the page, if it is a notebook, into the state, and a card at its end."""
        notebook = executed_notebook(self.env, docname)
        if notebook is None:
            return
        refuse(self.document, notebook, docname)
        executed = NbMetadataCollector.get_exec_data(self.env, docname)
        here = state.of(docname)
        here.faults = faults_in(notebook)
        try:
            records = read_page(notebook, docname, executed.get("runtime") if executed else None, here.claim_words)
        except RecordError as error:
            here.refused = True
            warn(str(error), docname)
            return
        if records is not None:
            here.records = records
            self._check_claims(here, records)
            card = nodes.section("", nodes.title("", TITLE), Pending(role="card", reference=""), ids=[CARD_ID])
            next(iter(self.document.findall(nodes.section)), self.document).append(card)

    def _check_claims(self, here: PageState, records: PageRecords) -> None:
        """Warn of each claim that is tested and that the text has no words for.

        Where the text has a claim that no cell tests, one of the two keys is wrong, and that is said in its place.
        """
        docname, path = self.env.docname, str(self.env.doc2path(self.env.docname))
        tested = {record["key"] for record in records.of_kind("claim", ABSENT)}
        if {key for page, key in (split_reference(each, docname) for each in here.claims) if page == docname} - tested:
            return
        for record in records.of_kind("claim"):
            key = record["key"]
            if has_words(record) or key in here.claim_words:
                continue
            said = (
                f"page.test({key!r}, ...) tests a claim that the page does not state: write ```{{claim}} {key}``` with "
            )
            said += "the source's words behind '>' and below them, in one sentence, what they claim"
            warn(said, (docname, line_of(f'"{key}"', path)))


def _unresolved(_self: Any, _node: Pending) -> None:
    raise nodes.SkipNode


def _write_slot(self: Any, node: Slot) -> None:
    self.body.append(node.written())
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register roles, directives and transforms."""
    os.environ |= variables(building_book="1")  # inherited by the kernels that execute the pages
    app.add_node(Told)
    app.add_directive("outcome", OutcomeDirective)
    app.add_node(Pending, html=(_unresolved, None), text=(_unresolved, None), latex=(_unresolved, None))
    app.add_node(Slot, html=(_write_slot, None))
    app.add_role("measured", _MeasuredRole())
    app.add_role("quoted", QuotedRole())
    app.add_directive("claim", ClaimDirective)
    app.add_directive("claims", PlaceDirective)
    app.add_directive("claim-ledger", PlaceDirective)
    app.add_directive("claim-wall", PlaceDirective)
    app.connect("source-read", lambda app, docname, _: forget_notebook(app, docname))
    app.add_transform(TakeRecords)
    app.add_post_transform(ResolveRecords)
