"""HTML of numbers, verdicts and claims: what is seen, and what is reached by mouse, touch or keyboard."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape

from tinytorch.perf.measuring.judge import CANNOT_TELL
from tinytorch.report.claims import split_at_placeholders
from tinytorch.report.notebook_view import ICONS
from tinytorch.report.numbers import FRACTIONS, NO_BREAK, SCALES, Formatted, format_number, format_record, unbroken
from tinytorch.report.records import Json

_KIND_WORDS = {
    "measured": "Measured",
    "counted": "Counted, not timed",
    "derived": "Computed from other numbers of this build",
    "modelled": "Modelled, not measured",
}
#: What an interval promises where there are samples enough.
_WANTED = 0.95
_HOW_WORDS = {
    "warmup_runs": "warm-up runs",
    "warmup_seconds": "seconds of warm-up",
    "warmup_steady": "steady after it",
    "inner_loops": "calls in a sample",
    "garbage_collector": "garbage collector",
    "blas_threads": "BLAS threads",
    "interleaved_with": "in turns with",
    "cpu_per_wall": "CPU time over wall time",
    "interval_by": "interval by",
    "minor_page_faults_per_call": "page faults in a call",
    "between_repeats": "varies between repeats by",
}
#: What is said otherwise of a part of a whole.
_PART_WORDS = {"between_repeats": "its odds vary between repeats by"}
#: Conditions that are standard deviations, as fractions of the value.
_DEVIATIONS = ("between_repeats",)
#: What `how` says that other lines of the detail already tell.
_TOLD = ("statistic", "repeats", "widened")


@dataclass
class Idents:
    """Counter of ids that are unique on one page, of which ``docname`` is the name."""

    docname: str = ""
    count: int = field(default=0)
    addressed: set[str] = field(default_factory=set)

    def new(self, stem: str) -> str:
        """Return the next id that begins with ``stem``."""
        self.count += 1
        return f"{stem}-{self.count}"

    def address(self, record: Json) -> str:
        """Return the attribute that gives a number or word of this page its address where it first stands."""
        stem = "word" if record["kind"] == "verdict" else "number"
        address = f"{stem}-{record['key']}"
        if record["page"] != self.docname or address in self.addressed:
            return ""
        self.addressed.add(address)
        return f' id="{address}"'


def _how_words(how: Json) -> str:
    told = [(name, value) for name, value in how.items() if name not in _TOLD]
    known = _HOW_WORDS | (_PART_WORDS if "part_of" in how else {})
    return "; ".join(f"{known.get(name, name.replace('_', ' '))}: {_plain(name, value)}" for name, value in told)


def _plain(name: str, value: object) -> str:
    """Return a condition in words; one that each side has of its own by side."""
    if value is None:
        return "not known"
    if isinstance(value, dict):
        inside = ((_HOW_WORDS.get(key, key), _plain(key, one), isinstance(one, dict)) for key, one in value.items())
        return ", ".join(f"{key} ({words})" if nested else f"{key} {words}" for key, words, nested in inside)
    if isinstance(value, list):
        return ", ".join(_plain(name, one) for one in value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{format_number(value, '%')} (standard deviation)" if name in _DEVIATIONS else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _coverage_words(confidence: float) -> str:
    """Return how many of how many intervals are right, rounded down: "of 100 intervals made like this one, 95 are"."""
    of = next((many for many in (100, 1_000, 10_000) if confidence <= 1 - 1 / many), 100_000)
    right = math.floor(confidence * of + 1e-9)
    return f"of {of:,} intervals made like this one, {right:,} are right"


def _sureness(record: Json, shown: Formatted) -> list[str]:
    """Return how sure a number is and what kind of number it is, a sentence each."""
    kind, n = _KIND_WORDS[record["kind"]], record["n"]
    if record["kind"] == "derived" and record["interval"] is None:
        kind += ", without an interval of its own"
    if record["interval"] is None and n == 1:
        once = " in one sample, so there is no interval" if record["kind"] == "measured" else ""
        return [f"{kind}: {_exactly(record, shown)}{once}."]
    of = (
        f": {record['how'].get('statistic', 'median')} of {n:,} samples"
        if record["kind"] == "measured" or n > 1
        else ""
    )
    statistic = f"{kind}{of}."
    if record["interval"] is None:
        return ["Not resolved: the samples do not tell between which ends it lies.", statistic]
    lies = f"between {shown.low} and {shown.high}" if shown.low != shown.high else f"at {shown.low}"
    confidence = record["interval"]["confidence"]
    if confidence >= _WANTED - 1e-9:
        return [f"It lies {shown.with_unit(lies)}; {_coverage_words(confidence)}.", statistic]
    few = "the samples are too few, or too much alike, to tell"
    return [f"It may lie {shown.with_unit(lies)}, or elsewhere: {few}; {_coverage_words(confidence)}.", statistic]


def detail_lines(record: Json) -> list[str]:
    """Return what stands behind a number, a sentence each: how sure it is, of how many samples, what ran, how."""
    ran = "What ran" if record["kind"] == "measured" else "What it is"
    lines = [*_sureness(record, format_record(record)), f"{ran}: {record['what'].rstrip('.')}."]
    if "widened" in record["how"]:
        lines.insert(1, f"Widened {record['how']['widened']}.")
    if how := _how_words(record["how"]):
        lines.append(f"{how[0].upper()}{how[1:]}.")
    return lines


def _exactly(record: Json, shown: Formatted) -> str:
    """Return the number, and where its prefix hides digits of an exact one, these too."""
    value, unit = record["value"], record["unit"]
    if isinstance(value, int) and unit in SCALES and unit not in ("", "1") and unit not in FRACTIONS:
        return f"{value:,}{NO_BREAK}{unit}"
    return shown.text


def _value_html(shown: Formatted) -> str:
    value = f'<span class="value">{escape(shown.prose)}</span>'
    return f'{value}{shown.joiner}<span class="unit">{escape(shown.unit)}</span>' if shown.unit else value


def _with_detail(
    record: Json, inner: str, classes: str, lines: list[str], ident: str, extra: str = "", address: str = ""
) -> str:
    """Return a button that opens its detail: phrasing content only, so that it may stand in a paragraph.

    ``data-key`` says which record it shows, for who reads the page with its records: see `measured_book.pages.reading`.
    """
    # Only the first sentence is an element, as a page has hundreds of details; the style sheet keeps the ends of lines.
    said = "\n".join([f'<span class="line">{escape(lines[0])}</span>', *map(escape, lines[1:])])
    key = f"{record['page']}:{record['key']}"
    return (
        f'<button type="button" class="{classes}"{address} data-key="{key}" popovertarget="{ident}" '
        f'popovertargetaction="show">{inner}</button>'
        f'<span popover class="measured-detail" id="{ident}"> {said}{extra}</span>'
    )


def number_html(record: Json, idents: Idents, origin: tuple[str, str] | None = None) -> str:
    """Return a number with its detail behind it.

    Args:
        record: a measured, counted, derived or modelled number.
        idents: makes the page's ids.
        origin: title and address of the page that it comes from, if that is another.
    """
    shown, extra = format_record(record), ""
    if origin is not None:
        title, address = origin
        extra = f' <span class="line">From <a href="{escape(address)}">{escape(title)}</a>.</span>'
    classes = " ".join(dict.fromkeys(["measured", record["kind"], *([] if shown.is_resolved else ["unresolved"])]))
    tag = '<span class="kind-tag">model</span>' if record["kind"] == "modelled" else ""
    ident, address = idents.new("measured"), idents.address(record)
    return _with_detail(record, _value_html(shown) + tag, classes, detail_lines(record), ident, extra, address)


def absent_html(record: Json, idents: Idents) -> str:
    """Return what stands in the place of a number or word that this build did not measure, with the reason behind."""
    inner = "not measured in this build"
    return _with_detail(record, inner, "measured absent", [f"{record['reason'].rstrip('.')}."], idents.new("absent"))


def absent_claim_html(record: Json) -> str:
    """Return what stands in the place of a claim that this build could not test, with the reason."""
    reason = escape(record["reason"].rstrip("."))
    return f'<p class="not-measured" id="claim-{record["key"]}" role="note">Not tested in this build: {reason}.</p>'


def verdict_html(record: Json, reason: str, idents: Idents) -> str:
    """Return a verdict word with its reason, in which numbers already stand, behind it."""
    inner = escape(record["word"])
    lines = [f"Because {reason.rstrip('.')}.", "The word was chosen by code from these numbers."]
    undecided = " undecided" if record["word"] == CANNOT_TELL else ""
    ident, address = idents.new("verdict"), idents.address(record)
    return _with_detail(record, inner, f"measured verdict{undecided}", lines, ident, address=address)


_BEFORE = re.compile(r"[(\[“‘„]+$")
_AFTER = re.compile(r"^[.,;:!?)\]”’…]+")
_SEEN = re.compile(r"<button[^>]*>(.*?)</button>", re.DOTALL)
_TAG = re.compile(r"<[^>]+>")
#: Letters of words that stand for a number from which on they may have to be broken, and hold nothing to their end.
_LONG = 30


def kept_together(before: str, number: str, after: str) -> tuple[str, str, str]:
    """Return the three with the punctuation that touches the number moved into its HTML, held to it.

    Args:
        before: the plain text before it.
        number: its HTML; what is too long for a line of a phone holds nothing.
        after: the plain text after it.
    """
    seen = _SEEN.search(number)
    if seen and len(_TAG.sub("", seen[1])) > _LONG:
        return before, number, after
    opening, closing = _BEFORE.search(before), _AFTER.search(after)
    if opening is None and closing is None:
        return before, number, after
    first, last = opening[0] if opening else "", closing[0] if closing else ""
    held = f'<span class="keep">{escape(first)}{number}{escape(last)}</span>'
    return before[: len(before) - len(first)], held, after[len(last) :]


def filled_html(text: str, number: Callable[[str], str]) -> str:
    """Return ``text`` as HTML, with the HTML ``number(key)`` for each key in braces."""
    pieces = [list(piece) for piece in split_at_placeholders(text)]
    parts = []
    for index, (piece, key) in enumerate(pieces):
        if key is None:
            parts.append(escape(str(piece)))
            continue
        before, held, after = kept_together(str(piece), number(key), str(pieces[index + 1][0]))
        pieces[index + 1][0] = after
        parts += [escape(before), held]
    return "".join(parts)


def named_source(source: str) -> tuple[str, str | None]:
    """Return name and address of a source written as ``name <address>``; None for the address if it has none."""
    found = re.fullmatch(r"(?P<name>.+?)\s*<(?P<address>https?://[^>\s]+)>", source)
    return (found["name"], found["address"]) if found else (source, None)


def quoted_html(number: str, source: str) -> str:
    """Return a number that was typed because it comes from elsewhere, with its source beside it."""
    name, address = named_source(source)
    named = f'<a class="reference external" href="{escape(address)}">{escape(name)}</a>' if address else escape(name)
    return (
        f'<span class="quoted"><span class="quoted-value">{escape(number)}</span> '
        f'<span class="quoted-source">({named})</span></span>'
    )


def verdict_mark(verdict: str) -> str:
    """Return a claim's verdict as icon and word."""
    name = verdict.replace(" ", "-")
    return (
        f'<span class="claim-verdict {name}"><span class="icon" aria-hidden="true">{ICONS[verdict]}</span> '
        f"{escape(verdict)}</span>"
    )


def quotation_html(record: Json) -> str:
    """Return what a claim's source says in its own words, as a paragraph."""
    return f'<p class="claim-quote"><q>{escape(record["quote"])}</q></p>\n'


def source_html(record: Json) -> str:
    """Return a claim's source, linked if its address is known."""
    if record["source_url"]:
        address = escape(record["source_url"])
        return f'<a class="reference external" href="{address}">{escape(record["source"])}</a>'
    return escape(record["source"])


def claim_html(record: Json, evidence: str, also: list[str], ledger: str | None) -> str:
    """Return the box of a claim.

    Args:
        record: the claim's.
        evidence: as HTML, with its numbers.
        also: further numbers that the verdict rests on, as HTML.
        ledger: address of its row among all claims, if a page lists them.
    """
    key, name = record["key"], record["verdict"].replace(" ", "-")
    more = f'<p class="claim-numbers">Rests on: {", ".join(also)}.</p>\n' if also else ""
    link = f' <a class="claim-ledger-link" href="{escape(ledger)}">All claims</a>' if ledger else ""
    label = "Claim, counted" if record["counted"] else "Claim"
    return (
        f'<div class="claim claim-{name}" id="claim-{key}" role="group" aria-labelledby="claim-{key}-statement">\n'
        f'<p class="claim-head"><a class="claim-label" href="#claim-{key}">{label}</a> '
        f"{verdict_mark(record['verdict'])}</p>\n"
        f'<p class="claim-statement" id="claim-{key}-statement">{escape(unbroken(record["statement"]))}</p>\n'
        f'{quotation_html(record)}<p class="claim-evidence">{evidence}</p>\n{more}'
        f'<p class="claim-source">Source: {source_html(record)}.{link}</p>\n</div>'
    )
