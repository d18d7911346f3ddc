"""One page of the book: every number, word, table, figure and claim that its cells hand to the text."""

from __future__ import annotations

import gc
import sys
from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal, cast

from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.between_run_variance import watch_spread
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.judge import Ends, Judgement, Verdict, is_disturbed, word_between
from tinytorch.perf.measuring.values import Value, as_measurement
from tinytorch.prose import key_of, outcome_key, split_words
from tinytorch.report import tables
from tinytorch.report.drawings import Drawing
from tinytorch.report.expressions import (
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
from tinytorch.report.notebook_view import NOT_MEASURED, Shown, is_building, number_text, publish_fault
from tinytorch.report.provenance import WITHHELD, WITHHELD_WORD, provenance
from tinytorch.report.records import (
    ABSENT,
    NUMBER_KINDS,
    Json,
    Record,
    checked_key,
    checked_text,
    conditions_of_record,
    now,
    number_body,
)
from tinytorch.report.rows import Rows as AnyRows
from tinytorch.report.tables import Column
from tinytorch.report.verdicts import (
    UNTESTED,
    Claim,
    Said,
    called,
    conditions_of,
    judged_claim,
    placeholders,
    tested,
    verdict_of,
    words_of,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tinytorch.perf.engines.snippets import Printed

#: The key of the record that says where a page was made.
PROVENANCE_KEY = "provenance"


def _note(key: str, reason: str, instead_of: Literal["table", "figure"] | None) -> str | None:
    """Return the note that stands in place of a table or figure."""
    if instead_of is None:
        return None
    return f'<p class="not-measured" id="{instead_of}-{key}" role="note">{NOT_MEASURED}: {escape(reason)}</p>'


def _said(key: str, word: Said | Measurement, words: Mapping[str, Ends | str]) -> tuple[Said, list[str]]:
    """Return what is said, what a measurement is called or this page calls a word, and all that could have been."""
    ends = {name: one for name, one in words.items() if not isinstance(one, str)}
    names = {name: one for name, one in words.items() if isinstance(one, str)}
    if isinstance(word, Measurement) != bool(ends) or (ends and names):
        raise ValueError(
            f"words of {key!r} must be {{word: (low, high)}} for a measurement, and {{name: word}} for what was judged"
        )
    said = word_between(word, ends) if isinstance(word, Measurement) else called(word, names)
    return said, list(dict.fromkeys([*ends, *names.values()]))


class Page:
    """The records of one page, emitted as they are made.

    ``Page("profiling")`` records the machine, the BLAS and the package first.
    Keys are lower-case words joined by hyphens, unique on the page. Each method records, shows what there is to
    see, and returns the ``Shown`` thing. Outside of a notebook nothing is printed; ``records`` holds them all.

    Examples:
        >>> from tinytorch.report import Page
        >>> page = Page("sample")
        >>> [record.key for record in page.records]
        ['provenance']
    """

    def __init__(self, name: str) -> None:
        self.name = checked_text(name, "name", "Page")
        self.records: list[Record] = []
        self._values: dict[str, Any] = {}
        self._waiting: set[str] = set()
        self.background = BackgroundLoad()
        if is_building():
            # Each measurement begins with a collection of garbage: let it not walk through all that was imported.
            gc.freeze()
        self._emit(PROVENANCE_KEY, "provenance", provenance())
        watch_spread()

    def number(
        self, key: str, value: Value | Unmeasured | int, what: str | None = None, *, unit: str | None = None
    ) -> Shown:
        """Record a number for the role ``{measured}``.

        Args:
            key: what prose calls it by.
            value: a `Measurement`, `Counted`, `Derived`, `Modelled` or `Quoted`; or a bare whole number, which was
                counted and for which ``unit`` and ``what`` are needed; or `Unmeasured`, which is told in its place.
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
        body = number_body(key, value, unit=unit, what=what)
        return self._emit(key, body.pop("kind"), body)

    def word(
        self,
        key: str,
        word: Said | Measurement | Unmeasured,
        words: Mapping[str, Ends | str] | None = None,
        *,
        because: str,
        numbers: Sequence[str] = (),
    ) -> Shown:
        """Record a verdict, for the role ``{verdict}``.

        Where other processes took the machine's time from one of the numbers, or from what was tested, it is withheld,
        as a claim's verdict is: see ``tinytorch.report.provenance``.

        Args:
            key: what prose calls it by.
            word: what the judge returned, such as ``verdict_between`` and ``Comparison``; a word that code chose from
                counts; or a measurement, of which ``words`` says what it is called.
            words: of a measurement the ends between which it has each word, for the judge: see ``word_between``; of
                another what this page calls those that a study names otherwise.
            because: the reason; ``{key}`` in it becomes that number.
            numbers: keys of numbers that the word rests on besides.

        Raises:
            ValueError: if something is empty, the key is taken, a number is not recorded yet, or ``words`` do not fit.

        Examples:
            >>> from tinytorch.perf.measuring import Measurement
            >>> from tinytorch.report import Page
            >>> page = Page("sample")
            >>> gain = Measurement("gain", (2.9, 3.0, 3.1, 3.0, 2.95, 3.05, 3.0, 2.9), "")
            >>> number = page.number("gain", gain)
            >>> words = {"worth it": (2, None), "hardly worth it": (None, 2)}
            >>> print(page.word("pays", gain, words, because="it is {gain}"))
            pays: worth it, because it is 3.0× (95% interval 2.7 to 3.3×, n = 8)
        """
        if isinstance(word, Unmeasured):
            return self._unmeasured(key, word)
        self._check_new(key)
        word, could_be = _said(key, word, words or {})
        checked_text(words_of(word), "word", key)
        rests_on = list(dict.fromkeys([*numbers, *placeholders(checked_text(because, "because", key), key)]))
        self._check_numbers(rests_on, key)
        said = because.strip()
        is_disturbed_test = is_disturbed(conditions_of(word), self.background.cores())
        if (is_disturbed_test or self._is_disturbed(rests_on)) and verdict_of(word).is_decided:
            word, said = Judgement(Verdict.WITHHELD), f"{WITHHELD_WORD}: {said}"
        body: Json = {"word": words_of(word), **tested(word), "because": said, "numbers": rests_on}
        if others := [other for other in could_be if other != body["word"]]:
            body["others"] = others
        body["fixed"] = self._is_fixed(body, rests_on)
        if verdict_of(word) is Verdict.OPEN and self._keys(ABSENT) & {*rests_on}:
            body["outcome"] = UNTESTED
        return self._emit(key, "verdict", body)

    def withhold_if_disturbed(self, word: Judgement | str, *rests_on: Measurement) -> Judgement:
        """Return a verdict for a table's cell, withheld where ``word`` would be.

        Args:
            word: the verdict.
            rests_on: what was measured for it.
        """
        said = Judgement(Verdict.SUPPORTED, word=word) if isinstance(word, str) else word
        disturbed = is_disturbed([one.conditions for one in rests_on], self.background.cores())
        return Judgement(Verdict.WITHHELD) if disturbed and said.verdict.is_decided else said

    def judged(self, comparison: Comparison) -> Comparison:
        """Return the comparison as ``compare`` would record it: withheld where other programs were at work."""
        disturbed = is_disturbed([comparison.estimate.conditions], self.background.cores())
        return comparison.withheld(WITHHELD_WORD) if disturbed and comparison.verdict.is_decided else comparison

    def compare(self, key: str, comparison: Comparison | Unmeasured) -> Shown:
        """Record a comparison: its estimate under its key, its verdict under the key with ``-verdict`` behind it.

        The verdict rests on the interval of the estimate, and is withheld as ``word`` says.

        Raises:
            ValueError: if one of the two keys is taken.

        Examples:
            >>> from tinytorch.perf.measuring.comparison import compare_paired
            >>> from tinytorch.report import Page
            >>> page = Page("sample")
            >>> compared = page.compare("speedup", compare_paired([2.0] * 9, [1.0] * 9, matters=0.05))
            >>> [record.key for record in page.records[-2:]], page.records[-1].body["word"]
            (['speedup', 'speedup-verdict'], 'faster')
        """
        if isinstance(comparison, Unmeasured):
            self._unmeasured(f"{key}-verdict", comparison)
            return self._unmeasured(key, comparison)
        self._check_new(key)
        self._check_new(f"{key}-verdict")
        self.number(key, comparison.estimate)
        return self.word(f"{key}-verdict", comparison, because=f"the estimate is {{{key}}}, and {comparison.because}")

    def absent(self, *keys: str, reason: str, instead_of: Literal["table", "figure"] | None = None) -> list[Shown]:
        """Record that this build did not measure something that another build of the page does.

        The roles ``{measured}`` and ``{verdict}`` then say so in the place of the number or word, with the reason
        behind it. In place of a table, a figure or a claim's box a note says it, at the same address.

        Args:
            keys: of what is not measured.
            reason: why, and what would measure it, in one sentence.
            instead_of: what would have been shown at this place; None for numbers, words and claims, which the text
                places.

        Raises:
            ValueError: if there is no key, one is taken, or the reason is empty.

        Examples:
            >>> from tinytorch.report import Page
            >>> print(*Page("sample").absent("two-cores", reason="it needs a second core"))
            two-cores: Not measured in this build: it needs a second core
        """
        if not keys:
            raise ValueError("keys must name at least one number, word, claim, table or figure")
        for key in keys:
            self._check_new(key)
        body = {"reason": checked_text(reason, "reason", keys[0])}
        return [
            self._emit(key, ABSENT, dict(body), on_page=_note(key, reason, instead_of)) for key in dict.fromkeys(keys)
        ]

    def _unmeasured(self, key: str, why: Unmeasured, instead_of: Literal["table", "figure"] | None = None) -> Shown:
        return self.absent(key, reason=why.reason, instead_of=instead_of)[0]

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
        """Show and record a table: a row for each object, a column for each attribute that is named.

        A cell is a value, a whole number that was counted, text, a verdict, or None for "does not apply". A column of
        `Modelled` or `Quoted` values looks so. A comparison is judged as ``compare`` does. A verdict is withheld, as
        ``word`` says, where other processes took the machine's time from what it was tested on, or, where it names
        nothing, from a number of its row.

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
        """Show and record a figure, as SVG that follows light and dark.

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

    def printed(self, key: str, printed: Printed | Unmeasured) -> Shown:
        """Print what a snippet for PyTorch printed, and record how many lines these are.

        The page includes the snippet, so that a reader sees the code that ran. ``{if-measured} key`` holds what the
        page says of the output, ``{if-absent} key`` the one sentence for a build without PyTorch, which prints nothing.

        Args:
            key: of the number of lines.
            printed: of ``tinytorch.perf.engines.snippets.printed_by``.
        """
        if isinstance(printed, Unmeasured):
            return self._unmeasured(key, printed)
        lines = printed.text.splitlines()
        print("\n".join(lines))
        return self.number(key, len(lines), f"printed by {printed.by}", unit="lines")

    def claim(
        self,
        key: str,
        *,
        statement: str,
        source: str,
        quote: str,
        verdict: Judgement,
        evidence: str,
        numbers: Sequence[str] = (),
        source_url: str | None = None,
        counted: bool = False,
    ) -> Shown:
        """Record a claim, for the directive ``{claim}`` and the ledger.

        Where other processes took the machine's time from one of the numbers, the verdict is withheld: see
        ``tinytorch.report.provenance``.

        Args:
            key: what the directive calls it by; its address is ``#claim-key``.
            statement: what is claimed, in one sentence.
            source: who says so.
            quote: what the source says, in its own words and with its condition.
            verdict: what the judge returned: see ``verdict_between``, ``verdict_of_all`` and ``decided``.
            evidence: what this page found; ``{key}`` in it becomes that number.
            numbers: keys of numbers that the verdict rests on besides; ``page:key`` for another page's.
            source_url: where to read it.
            counted: whether the verdict follows from definitions and shapes, so that no machine decides it otherwise.

        Raises:
            ValueError: if something is empty or no verdict, a number is not recorded yet, the key is taken, the claim
                is judged although it rests on a number that this build did not measure, or it is said to be counted
                although it rests on a measured one.
        """
        self._check_new(key)
        body = Claim(key, statement, source, quote, verdict, evidence, tuple(numbers), source_url, counted).body()
        if not body["numbers"]:
            raise ValueError(f"claim {key!r} must rest on at least one number: name it in evidence or numbers")
        self._check_numbers(body["numbers"], key)
        unmeasured = [name for name in body["numbers"] if name in self._keys(ABSENT)]
        if unmeasured and verdict.verdict is not Verdict.OPEN:
            raise ValueError(
                f"verdict of {key!r} must be open, not {verdict.verdict}: {', '.join(unmeasured)} was not measured"
            )
        measured = [name for name in body["numbers"] if name in self._keys("measured")]
        if counted and measured:
            raise ValueError(
                f"claim {key!r} must not be counted, as it rests on what was measured: {', '.join(measured)}"
            )
        if unmeasured:
            body["outcome"] = UNTESTED
        elif verdict.verdict.is_decided and self._is_disturbed(body["numbers"]):
            body |= {"verdict": Verdict.WITHHELD.value, **tested(Judgement(Verdict.WITHHELD))}
            body["evidence"] += f" {WITHHELD}"
        body["fixed"] = counted or self._is_fixed(body, body["numbers"])
        return self._emit(key, "claim", body)

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
        conditions = [test.measurement.conditions for test in found.tests]
        if found.verdict.is_decided and is_disturbed(conditions, self.background.cores()):
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
            body = verdict_body(said, words or "the page's code chose it by what was measured above")
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
        if self._is_named(key, expression):
            known = next(record for record in self.records if record.key == key)
            if known.body.get("texts") != [*texts]:
                raise ExpressionError(f"{expression!r} is used further up: write :name: and a name below the outcome")
            return
        value = evaluate(expression, namespace, calls=True)
        found = outcome_of(expression, value, {outcome: ends for outcome, (ends, _) in texts.items()})
        about = {"expression": expression, "texts": [*texts]}
        if isinstance(value, Unmeasured):
            self._emit(key, ABSENT, {"reason": value.reason, **about, "text": found.outcome})
        else:
            conditions, because = rests_on(found.said, value), "it was counted"
            if verdict_of(found.said).is_decided and is_disturbed(conditions, self.background.cores()):
                found = Found(Judgement(Verdict.WITHHELD), Verdict.WITHHELD.value)
                because = WITHHELD_WORD
            body = verdict_body(found.said, because)
            body["fixed"] |= not conditions
            self._emit(key, "verdict", {**body, **about, "text": found.outcome})
        if (told := texts.get(found.outcome)) and told[1]:
            print(told[1])

    def _is_named(self, key: str, expression: str) -> bool:
        """Return whether there is a record of an expression, or of a name that it is."""
        known = next((record for record in self.records if record.key == key), None)
        if known is not None and known.body.get("expression", expression) != expression:
            other = known.body["expression"]
            raise ExpressionError(f"{expression!r} and {other!r} have one name, {key!r}: give one another variable")
        return known is not None

    def _check_new(self, key: str) -> None:
        checked_key(key)
        if any(record.key == key for record in self.records):
            raise ValueError(f"key must be new on page {self.name!r}, but {key!r} is taken")

    def _check_numbers(self, keys: Sequence[str], user: str) -> None:
        """Raise ValueError if a number of this page is not recorded yet; other pages' are checked by the build."""
        known = self._keys(*NUMBER_KINDS, ABSENT)
        missing = [key for key in keys if ":" not in key and key not in known]
        if missing:
            raise ValueError(f"{user!r} names {', '.join(missing)}, which page {self.name!r} has not recorded yet")

    def _is_fixed(self, body: Json, keys: Sequence[str]) -> bool:
        """Return whether no measurement could turn a verdict: what was tested was counted, or all that it rests on."""
        if body["tests"]:
            return bool(body["fixed"])
        mine = {record.key: record.kind for record in self.records}
        return bool(keys) and all(mine.get(key) == "counted" for key in keys)

    def _is_disturbed(self, keys: Sequence[str]) -> bool:
        """Return whether other programs took the machine's time from one of these numbers of this page."""
        numbers = (record for record in self.records if record.key in keys and record.kind in NUMBER_KINDS)
        return is_disturbed([conditions_of_record(number.body) for number in numbers], self.background.cores())

    def _withhold(self, rows: Sequence[dict[str, Any]], columns: Sequence[Column]) -> None:
        """Withhold the verdicts that were tested on what others disturbed, or in whose rows that is."""
        judged, others = [column.key for column in columns if column.judged], self.background.cores()
        for row in rows if judged else ():
            measured = [as_measurement(cell).conditions for cell in row.values() if isinstance(cell, Value)]
            for key in (key for key in judged if row[key] is not None):
                is_fixed = isinstance(row[key], Judgement) and row[key].is_fixed
                rests_on = [] if is_fixed else conditions_of(row[key]) or measured
                if verdict_of(row[key]).is_decided and is_disturbed(rests_on, others):
                    row[key] = Judgement(Verdict.WITHHELD)

    def _keys(self, *kinds: str) -> set[str]:
        """Return the keys of this page's records of these kinds."""
        return {record.key for record in self.records if record.kind in kinds}

    def _number_words(self, key: str) -> str:
        """Return a number of this page in words; another page's is not known here, so its key stands for it."""
        found = next((record for record in self.records if record.key == key), None)
        if found is None:
            return key
        return NOT_MEASURED.lower() if found.kind == ABSENT else number_text(found.body)

    def _emit(self, key: str, kind: str, body: Json, *, on_page: str | None = None, png: bytes | None = None) -> Shown:
        record = Record(key, kind, self.name, now(), body)
        self.records.append(record)
        shown = Shown(record, self._number_words, on_page=on_page, png=png)
        shown.publish()
        return shown
