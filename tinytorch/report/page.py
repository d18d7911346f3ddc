"""One page of the book: every number, word, table, figure and claim that its cells hand to the text."""

from __future__ import annotations

import base64
import gc
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal, cast

from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.measuring.between_run_variance import watch_spread
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.judge import Ends, Judgement, Verdict, is_disturbed
from tinytorch.perf.measuring.values import Value, as_measurement
from tinytorch.prose import key_of, outcome_key, split_words
from tinytorch.report import tables
from tinytorch.report.drawings import Drawing
from tinytorch.report.expressions import (
    CHOSEN,
    ExpressionError,
    Found,
    NotYetError,
    evaluate,
    name_of,
    number_of,
    outcome_of,
    rests_on,
    verdict_body,
)
from tinytorch.report.flame_graph import Box, boxes_html
from tinytorch.report.kinds import NOT_MEASURED, of_kind
from tinytorch.report.numbers import number_body
from tinytorch.report.provenance import WITHHELD_WORD, provenance
from tinytorch.report.records import ABSENT, FAULT_MIME, RECORD_MIME, Json, checked_key, checked_text, is_building, now
from tinytorch.report.rows import Rows as AnyRows
from tinytorch.report.tables import Column
from tinytorch.report.verdicts import Said, conditions_of, judged_claim, tested, verdict_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tinytorch.perf.engines.snippets import Printed

#: The key of the record that says where a page was made.
PROVENANCE_KEY = "provenance"


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

    record: Json
    on_page: str | None = None
    png: bytes | None = None

    @property
    def text(self) -> str:
        """For a terminal."""
        return of_kind(self.record).text()

    @property
    def html(self) -> str:
        """For a reader's notebook."""
        return of_kind(self.record).html(self.on_page)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:  # noqa: ARG002
        bundle: dict[str, Any] = {RECORD_MIME: self.record}
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


def _note(key: str, reason: str, instead_of: Literal["table", "figure"] | None) -> str | None:
    """Return the note that stands in place of a table or figure."""
    if instead_of is None:
        return None
    return f'<p class="not-measured" id="{instead_of}-{key}" role="note">{NOT_MEASURED}: {escape(reason)}</p>'


class Page:
    """A page: it records and shows numbers, tables, figures and verdicts.

    ``Page("profiling")`` records the machine, the BLAS and the package first.
    Keys are lower-case words joined by hyphens, unique on the page. Each method records, shows what there is to
    see, and returns the ``Shown`` thing. Outside of a notebook nothing is printed; ``records`` holds them all.

    Examples:
        >>> from tinytorch.report import Page
        >>> page = Page("sample")
        >>> [record["key"] for record in page.records]
        ['provenance']
    """

    def __init__(self, name: str) -> None:
        self.name = checked_text(name, "name", "Page")
        self.records: list[Json] = []
        self._values: dict[str, Any] = {}
        self._waiting: set[str] = set()
        self._ends: dict[str, dict[str, Ends | None]] = {}
        self.background = BackgroundLoad()
        if is_building():
            # Each measurement begins with a collection of garbage: let it not walk through all that was imported.
            gc.freeze()
        self._emit(PROVENANCE_KEY, "provenance", provenance())
        watch_spread()

    def number(
        self,
        key: str,
        value: Value | Comparison | Unmeasured | int,
        what: str | None = None,
        *,
        unit: str | None = None,
    ) -> Shown:
        """Record a number under a name, so that other pages can show it.

        The page's own text shows a value by its expression.

        Args:
            key: what prose calls it by.
            value: a `Measurement`, `Counted`, `Derived`, `Modelled` or `Quoted`; a comparison, for its estimate; or a
                bare whole number, which was counted and for which ``unit`` and ``what`` are needed; or `Unmeasured`,
                which is told in its place.
            what: what ran or was counted; the value's own words if None.
            unit: of a bare number: ``"parameters"``, ``"B"``, ``"FLOP"``.

        Raises:
            TypeError, ValueError: if it is not a finite number, has no unit or words, nobody knows where it comes from,
                or the key is taken.

        Examples:
            >>> from tinytorch.perf.measuring import Counted
            >>> from tinytorch.report import Page
            >>> whole, coded = Counted(4096, "B", "float32 weights"), Counted(1024, "B", "weights in eight bits")
            >>> print(Page("sample").number("smaller", whole.over(coded, "bytes saved")))
            smaller: 4.00×
        """
        if isinstance(value, Unmeasured):
            return self._unmeasured(key, value)
        self._check_new(key)
        value = value.estimate if isinstance(value, Comparison) else value
        body = number_body(key, value, unit=unit, what=what)
        return self._emit(key, body.pop("kind"), body)

    def judged(self, comparison: Comparison) -> Comparison:
        """Return the comparison as a table shows it: withheld where other programs were at work."""
        return comparison.withheld(WITHHELD_WORD) if self._must_withhold(comparison) else comparison

    def _must_withhold(self, said: Said, *measured: Conditions) -> bool:
        """Return whether other programs took time from what a decided verdict was tested on, else from ``measured``."""
        fixed = isinstance(said, Judgement) and said.is_fixed
        conditions = [] if fixed else conditions_of(said) or measured
        return verdict_of(said).is_decided and is_disturbed(list(conditions), self.background.cores())

    def _unmeasured(self, key: str, why: Unmeasured, instead_of: Literal["table", "figure"] | None = None) -> Shown:
        """Record that this build did not measure something, with the reason, in its place."""
        self._check_new(key)
        body = {"reason": checked_text(why.reason, "reason", key)}
        return self._emit(key, ABSENT, body, on_page=_note(key, why.reason, instead_of))

    def table(
        self,
        key: str,
        rows: AnyRows | Unmeasured,
        columns: Mapping[str, str] | Sequence[Column | tuple[str, str] | tuple[str, str, str]],
        *,
        caption: str,
        quoted: Collection[str] = (),
        totals: Mapping[str, str] | None = None,
        words: Mapping[str, str] | None = None,
    ) -> Shown:
        """Show and record a table with a row for each object and a column for each named attribute.

        A cell is a value, a whole number that was counted, text, a verdict, or None for "does not apply". A column of
        `Modelled` or `Quoted` values looks so. A verdict is withheld where other processes took the machine's time from
        what it was tested on, or, where it names nothing, from a number of its row.

        Args:
            key: its name; the table's address is ``#table-key``.
            rows: objects, or objects by name, whose name is then the attribute ``name``, and they themselves ``row``.
            columns: the heading of each column by the attribute of its cells, ``"speed.gain"`` for one of an attribute;
                units come from the values. The first column names the rows.
            caption: what the table says.
            quoted: attributes whose text others published.
            totals: of factors, the attribute that holds their product so far, in each row that has both.
            words: what this page calls texts and verdicts that a study names otherwise.

        Raises:
            TypeError, ValueError: if rows or columns do not fit, a number is not finite, or the key is taken.

        Examples:
            >>> from tinytorch.perf.measuring import Counted
            >>> from tinytorch.report import Page
            >>> stored = {"float32": Counted(4096, "B", "weights"), "8 bits": Counted(1024, "B", "weights")}
            >>> headings = {"name": "Format", "row": "Stored"}
            >>> print(Page("sample").table("sizes", stored, headings, caption="What is stored."))
            Format   Stored (KiB)
            ───────  ────────────
            float32          4.00
            8 bits           1.00
            <BLANKLINE>
            What is stored.
        """
        if isinstance(rows, Unmeasured):
            return self._unmeasured(key, rows, "table")
        self._check_new(key)
        said = checked_text(caption, "caption", key)
        if isinstance(columns, Mapping):
            columns, rows = tables.declared(rows, columns, key, quoted=quoted, totals=totals or {}, words=words)
        checked = tables.checked_columns(columns, key)
        cells = tables.checked_rows(cast("Sequence[Mapping[str, Any]]", rows), checked, key)
        for row in cells:
            row |= {name: self.judged(cell) for name, cell in row.items() if isinstance(cell, Comparison)}
        self._withhold(cells, checked)
        return self._emit(key, "table", tables.to_body(cells, checked, caption=said, key=key))

    def figure(self, key: str, figure: Figure | Unmeasured, *, caption: str, alt: str) -> Shown:
        """Show and record a figure, as an SVG with light and dark colours.

        Args:
            key: its name; the figure's address is ``#figure-key``.
            figure: of ``tinytorch.report.charts``; or drawn on ``tinytorch.report.figures.subplots``, with labels and
                units on all axes.
            caption: the message of the figure.
            alt: what a reader who does not see it needs to know.

        Raises:
            ValueError: if it breaks a rule of ``figures.check_figure``, or the key is taken.

        Examples:
            >>> from tinytorch.perf.measuring import Counted
            >>> from tinytorch.report import Page, lines
            >>> rows = [{"bits": bits, "stored": Counted(128 * bits, "B", "weights")} for bits in (8, 16, 32)]
            >>> chart = lines(rows, x="bits", y="stored", xlabel="bits", ylabel="stored")
            >>> print(Page("sample").figure("stored", chart, caption="Bytes follow bits.", alt="A rising line."))
            [figure stored: A rising line.] Bytes follow bits.
        """
        from tinytorch.report import figures, layouts

        if isinstance(figure, Unmeasured):
            return self._unmeasured(key, figure, "figure")
        self._check_new(key)
        figures.check_figure(figure, caption=caption, alt=alt, key=key)
        figures.settle(figure)
        body = figures.to_body(figure, caption=caption, alt=alt, key=key)
        svg, png = layouts.both_layouts(figure, key=key, alt=alt, bitmap=is_building())
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None:
            pyplot.close(figure)  # else the notebook's backend shows it a second time, as a bitmap
        return self._emit(key, "figure", body, on_page=svg, png=png)

    def drawing(self, key: str, drawing: Drawing, *, caption: str, alt: str) -> Shown:
        """Show and record a drawing of a mechanism; it stands among the figures, and holds no series.

        Args:
            key: its name; its address is ``#figure-key``.
            drawing: what to show.
            caption: what it says.
            alt: what a reader who does not see it needs to know.

        Raises:
            ValueError: if the caption or the alt text is empty, both are the same, or the key is taken.
        """
        from tinytorch.report import figures

        self._check_new(key)
        figures.check_words(caption=caption, alt=alt, key=key)
        body = {"caption": caption.strip(), "alt": alt.strip(), "series": []}
        return self._emit(key, "figure", body, on_page=drawing.svg(key=key, alt=alt.strip()))

    def flames(
        self, key: str, boxes: Sequence[Box], *, caption: str, alt: str, files: Mapping[str, str] | None = None
    ) -> Shown:
        """Show and record a flame graph, which can be searched and walked by keys; it stands among the figures.

        Args:
            key: its name; its address is ``#figure-key``.
            boxes: of ``flame_boxes``.
            caption: what it says.
            alt: what a reader who does not see it needs to know.
            files: texts that the page offers below it, by file name: the recording in other tools' formats.

        Raises:
            ValueError: if there are no boxes, the caption or the alt text is empty, both are the same, or the key is
                taken.
        """
        from tinytorch.report import figures

        self._check_new(key)
        figures.check_words(caption=caption, alt=alt, key=key)
        body = {"caption": caption.strip(), "alt": alt.strip(), "series": [], "files": dict(files or {})}
        return self._emit(key, "figure", body, on_page=boxes_html(boxes, key=f"{key}-boxes", label=alt.strip()))

    def printed(self, printed: Printed | Unmeasured) -> None:
        """Print what a snippet for PyTorch printed; nothing in a build without PyTorch.

        The page includes the snippet, so that a reader sees the code that ran, and says by ``{outcome}`` what each of
        the two builds shows.
        """
        if not isinstance(printed, Unmeasured):
            print(printed.text.rstrip("\n"))

    def test(
        self,
        key: str,
        *values: Value | Judgement | Unmeasured,
        above: float | None = None,
        below: float | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> Shown:
        """Test a claim, whose words stand in the directive ``{claim} key`` of the page; the ledger lists it.

        It is counted if all that is tested was counted: then no machine decides it otherwise. Where other processes
        took the machine's time from a value, the verdict is withheld: see ``tinytorch.report.provenance``.

        Args:
            key: what the directive calls it by; its address is ``#claim-key``.
            values: what must all lie between the ends; or a verdict that the judge returned already.
            above, below: ends that a value must not touch.
            at_least, at_most: ends that it may touch.

        Raises:
            ValueError: if there is no value, one has no ends to be held against, or the key is taken.

        Examples:
            >>> from tinytorch.perf.measuring import Counted
            >>> from tinytorch.report import Page
            >>> whole, coded = Counted(4096, "B", "float32 weights"), Counted(1024, "B", "weights in eight bits")
            >>> print(Page("sample").test("a-quarter", whole.over(coded, "bytes saved"), at_least=3.6, at_most=4.4))
            a-quarter: supported. bytes saved: 4.00×, counted; the test asks for 3.60× to 4.40×.
        """
        measured = [value for value in values if not isinstance(value, Unmeasured)]
        absent = [value for value in values if isinstance(value, Unmeasured)]
        if absent:
            return self._unmeasured(key, absent[0])
        self._check_new(key)
        found = judged_claim(key, measured, above=above, below=below, at_least=at_least, at_most=at_most)
        if self._must_withhold(found):
            found = Judgement(Verdict.WITHHELD)
        body = {"verdict": found.verdict.value, **tested(found), "counted": found.is_fixed}
        return self._emit(key, "claim", body)

    def fill(self, namespace: Mapping[str, Any], *expressions: str) -> None:
        """Record what a text names by expressions; the builder writes the cell that calls this behind each text.

        Args:
            namespace: the page's ``globals()``.
            expressions: each a name, an attribute, an index, or one operation on these; behind `` | `` words for its
                card. One that gives nothing to show is told in its place, and hides no other. One whose name a later
                cell defines is recorded then.
        """
        for text in dict.fromkeys([*expressions, *sorted(self._waiting)]):
            expression, words = split_words(text)
            try:
                self._fill(expression, words or None, namespace)
            except NotYetError as error:
                self._waiting.add(text)
                publish_fault(expression, str(error), is_final=not expressions)
            except (TypeError, ValueError) as error:
                publish_fault(expression, str(error))
            else:
                self._waiting.discard(text)

    def _fill(self, expression: str, words: str | None, namespace: Mapping[str, Any]) -> None:
        key = key_of(expression)
        if self._is_named(key, expression):
            if key in self._values and evaluate(expression, namespace) != self._values[key]:
                raise ExpressionError(f"{expression!r} had another value further up: give one of them another name")
            return
        value = evaluate(expression, namespace)
        self._values[key] = value
        said = name_of(value)
        if said is not None:
            said = Judgement(Verdict.WITHHELD) if self._must_withhold(said) else said
            body = verdict_body(said, words or CHOSEN)
            self._emit(key, "verdict", {**body, "expression": expression})
            return
        number = number_of(expression, value)
        if isinstance(number, Unmeasured):
            self._emit(key, ABSENT, {"reason": number.reason, "expression": expression})
            return
        body = number_body(key, number, what=words)
        self._emit(key, body.pop("kind"), {**body, "expression": expression})

    def decide(
        self,
        namespace: Mapping[str, Any],
        expression: str,
        texts: Mapping[str, tuple[Ends | None, str]],
        name: str | None = None,
    ) -> None:
        """Record which text of an outcome holds; the builder writes the cell that calls this behind each text.

        Where other processes took the machine's time from what it rests on, the outcome is withheld.

        Args:
            namespace: the page's ``globals()``.
            expression: of a comparison, a verdict, a word or truth value, or a measurement whose texts have ends.
            texts: of each outcome its ends, None without any, and what a notebook prints for it, which may be empty.
            name: what other parts of the book call it by; by its expression if None.
        """
        try:
            self._decide(name or outcome_key(expression), expression, texts, namespace)
        except (TypeError, ValueError) as error:
            publish_fault(name or expression, str(error))

    def _decide(
        self, key: str, expression: str, texts: Mapping[str, tuple[Ends | None, str]], namespace: Mapping[str, Any]
    ) -> None:
        ends = {outcome: each for outcome, (each, _) in texts.items()}
        if self._is_named(key, expression):
            if self._ends.get(key) != ends:
                raise ExpressionError(f"{expression!r} is used further up: write :name: and a name below the outcome")
            return
        value = evaluate(expression, namespace, calls=True)
        found = outcome_of(expression, value, ends)
        self._ends[key] = ends
        about = {"expression": expression, "texts": [*texts]}
        if isinstance(value, Unmeasured):
            self._emit(key, ABSENT, {"reason": value.reason, **about, "text": found.outcome})
        else:
            if self._must_withhold(found.said, *rests_on(found.said, value)):
                found = Found(Judgement(Verdict.WITHHELD), Verdict.WITHHELD.value)
            is_withheld = verdict_of(found.said) is Verdict.WITHHELD
            body = verdict_body(found.said, WITHHELD_WORD if is_withheld else CHOSEN)
            self._emit(key, "verdict", {**body, **about, "text": found.outcome})
        if (told := texts.get(found.outcome)) and told[1]:
            print(told[1])

    def _is_named(self, key: str, expression: str) -> bool:
        """Return whether there is a record of an expression, or of a name that it is."""
        known = next((record for record in self.records if record["key"] == key), None)
        if known is not None and known.get("expression", expression) != expression:
            other = known["expression"]
            raise ExpressionError(f"{expression!r} and {other!r} have one name, {key!r}: give one another variable")
        return known is not None

    def _check_new(self, key: str) -> None:
        checked_key(key)
        if any(record["key"] == key for record in self.records):
            raise ValueError(f"key must be new on page {self.name!r}, but {key!r} is taken")

    def _withhold(self, rows: Sequence[dict[str, Any]], columns: Sequence[Column]) -> None:
        """Withhold the verdicts that were tested on what others disturbed, or in whose rows that is."""
        judged = [column.key for column in columns if column.judged]
        for row in rows if judged else ():
            measured = [as_measurement(cell).conditions for cell in row.values() if isinstance(cell, Value)]
            for key in (key for key in judged if row[key] is not None):
                if self._must_withhold(row[key], *measured):
                    row[key] = Judgement(Verdict.WITHHELD)

    def _emit(self, key: str, kind: str, body: Json, *, on_page: str | None = None, png: bytes | None = None) -> Shown:
        record = {"key": key, "kind": kind, "page": self.name, "when": now(), **body}
        self.records.append(record)
        shown = Shown(record, on_page=on_page, png=png)
        shown.publish()
        return shown
