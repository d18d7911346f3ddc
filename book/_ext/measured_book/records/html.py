"""HTML of numbers, verdicts and claims: what is seen, and what is reached by mouse, touch or keyboard."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape

from tinytorch.perf.measuring.comparison import CANNOT_TELL
from tinytorch.report.claims import split_at_placeholders
from tinytorch.report.numbers import (
    FRACTIONS,
    NO_BREAK,
    SCALES,
    Formatted,
    Scale,
    format_confidence,
    format_interval,
    format_number,
)
from tinytorch.report.records import Json

#: What may follow a key in `{measured}`, and what it shows.
OPTIONS = {
    "": "the value with its unit",
    "low": "the lower end of its interval",
    "high": "the upper end of its interval",
    "interval": "both ends",
    "n": "the number of samples",
    "bare": "the digits without unit",
    "short": "an exact count in prefixes",
}
_KIND_WORDS = {
    "measured": "Measured",
    "counted": "Counted, not timed",
    "derived": "Computed from other numbers of this build, without an interval of its own",
    "modelled": "Modelled, not measured",
}
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
}
#: What `how` says that the first line of the detail already tells.
_TOLD = ("statistic",)
ICONS = {"supported": "✓", "refuted": "✗", "cannot tell here": "?"}


class ShowError(Exception):
    """Refusal to show a record; the message says which and why."""


@dataclass
class Idents:
    """Counter of ids that are unique on one page."""

    count: int = field(default=0)

    def new(self, stem: str) -> str:
        """Return the next id that begins with ``stem``."""
        self.count += 1
        return f"{stem}-{self.count}"


def formatted(record: Json, option: str = "") -> Formatted:
    """Return the record's value as it is shown, ``short`` if that is the option."""
    interval = record["interval"]
    half = (interval["high"] - interval["low"]) / 2 if interval else None
    value = record["value"]
    return format_number(value, record["unit"], half_width=half, short=option == "short")


def _interval_words(record: Json, shown: Formatted) -> str:
    interval = record["interval"]
    return format_interval(interval["low"], interval["high"], shown)


def shown_value(record: Json, option: str = "") -> Formatted:
    """Return what `{measured}` with ``option`` shows.

    Raises:
        ShowError: if the option is unknown, or needs an interval that the number does not have.
    """
    if option not in OPTIONS:
        known = ", ".join(name for name in OPTIONS if name)
        raise ShowError(f"{record['key']!r} cannot be shown as {option!r}: the options are {known}")
    shown = formatted(record, option)
    if option in ("low", "high", "interval") and not record["interval"]:
        raise ShowError(f"{record['key']!r} has no interval, so it has no {option!r}")
    if option == "n":
        return Formatted(f"{record['n']:,}", "", Scale(1.0, ""), 0)
    if option == "bare":
        return Formatted(shown.digits, "", shown.scale, shown.decimals)
    if option == "interval":
        words = _interval_words(record, shown).removesuffix(shown.unit).rstrip(NO_BREAK)
        return Formatted(words, shown.unit, shown.scale, shown.decimals)
    if option in ("low", "high"):
        end = record["interval"][option]
        digits = format_interval(end, end, shown).partition(" to ")[0]
        return Formatted(digits, shown.unit, shown.scale, shown.decimals)
    return shown


def _how_words(how: Json) -> str:
    parts = []
    for name, value in how.items():
        if name in _TOLD:
            continue
        words = _HOW_WORDS.get(name, name.replace("_", " "))
        text = ", ".join(map(str, value)) if isinstance(value, list) else _plain(value)
        parts.append(f"{words}: {text}")
    return "; ".join(parts)


def _plain(value: object) -> str:
    if value is None:
        return "not known"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def detail_lines(record: Json) -> list[str]:
    """Return what stands behind a number, a sentence each: how sure it is, what ran, how."""
    shown = formatted(record)
    first = f"{_KIND_WORDS[record['kind']]}: {_exactly(record, shown)}"
    if record["interval"]:
        coverage = format_confidence(record["interval"]["confidence"]).replace("%", f"{NO_BREAK}%")
        statistic = record["how"].get("statistic", "median")
        first += f", {statistic} of {record['n']} samples; {coverage} interval {_interval_words(record, shown)}"
    elif record["kind"] == "measured":
        first += ", one sample, so no interval"
    ran = "What ran" if record["kind"] == "measured" else "What it is"
    lines = [f"{first}.", f"{ran}: {record['what'].rstrip('.')}."]
    if record["how"]:
        lines.append(f"{_how_words(record['how'])}.")
    return lines


def _exactly(record: Json, shown: Formatted) -> str:
    """Return the number, and where its prefix hides digits of an exact one, these too."""
    value, unit = record["value"], record["unit"]
    if isinstance(value, int) and unit in SCALES and unit not in ("", "1") and unit not in FRACTIONS:
        return f"{value:,}{NO_BREAK}{unit}"
    return shown.text


def _value_html(shown: Formatted) -> str:
    if not shown.unit:
        return f'<span class="value">{escape(shown.digits)}</span>'
    return (
        f'<span class="value">{escape(shown.digits)}</span>{shown.joiner}<span class="unit">{escape(shown.unit)}</span>'
    )


def _with_detail(inner: str, classes: str, lines: list[str], ident: str, extra: str = "") -> str:
    """Return a button that opens its detail: phrasing content only, so that it may stand in a paragraph."""
    said = " ".join(f'<span class="line">{escape(line)}</span>' for line in lines)
    return (
        f'<button type="button" class="{classes}" popovertarget="{ident}">{inner}</button>'
        f'<span popover class="measured-detail" id="{ident}"> {said}{extra}</span>'
    )


def number_html(record: Json, option: str, idents: Idents, origin: tuple[str, str] | None = None) -> str:
    """Return a number with its detail behind it.

    Args:
        record: a measured, counted, derived or modelled number.
        option: one of `OPTIONS`.
        idents: makes the page's ids.
        origin: title and address of the page that it comes from, if that is another.

    Raises:
        ShowError: as `shown_value` does.
    """
    shown = shown_value(record, option)
    extra = ""
    if origin is not None:
        title, address = origin
        extra = f' <span class="line">From <a href="{escape(address)}">{escape(title)}</a>.</span>'
    classes = " ".join(dict.fromkeys(["measured", record["kind"]]))
    tag = '<span class="kind-tag">model</span>' if record["kind"] == "modelled" else ""
    return _with_detail(_value_html(shown) + tag, classes, detail_lines(record), idents.new("measured"), extra)


def absent_html(record: Json, idents: Idents) -> str:
    """Return what stands in the place of a number or word that this build did not measure, with the reason behind."""
    inner = "not measured in this build"
    return _with_detail(inner, "measured absent", [f"{record['reason'].rstrip('.')}."], idents.new("absent"))


def absent_claim_html(record: Json) -> str:
    """Return what stands in the place of a claim that this build could not test, with the reason."""
    reason = escape(record["reason"].rstrip("."))
    return f'<p class="not-measured" id="claim-{record["key"]}" role="note">Not tested in this build: {reason}.</p>'


def verdict_html(record: Json, reason: str, idents: Idents) -> str:
    """Return a verdict word with its reason, in which numbers already stand, behind it."""
    inner = escape(record["word"])
    lines = [f"Because {reason.rstrip('.')}.", "The word was chosen by code from these numbers."]
    undecided = " undecided" if record["word"] == CANNOT_TELL else ""
    return _with_detail(inner, f"measured verdict{undecided}", lines, idents.new("verdict"))


_BEFORE = re.compile(r"[(\[“‘„]+$")
_AFTER = re.compile(r"^[.,;:!?)\]”’…]+")


def kept_together(before: str, number: str, after: str) -> tuple[str, str, str]:
    """Return the three with the punctuation that touches the number moved into its HTML, held to it.

    Args:
        before: the plain text before it.
        number: its HTML.
        after: the plain text after it.
    """
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
        ledger: address of the page that lists all claims, if there is one.
    """
    key, name = record["key"], record["verdict"].replace(" ", "-")
    more = f'<p class="claim-numbers">Rests on: {", ".join(also)}.</p>\n' if also else ""
    link = f' <a class="claim-ledger-link" href="{escape(ledger)}">All claims</a>' if ledger else ""
    return (
        f'<div class="claim claim-{name}" id="claim-{key}" role="group" aria-labelledby="claim-{key}-statement">\n'
        f'<p class="claim-head"><span class="claim-label">Claim</span> {verdict_mark(record["verdict"])}</p>\n'
        f'<p class="claim-statement" id="claim-{key}-statement">{escape(record["statement"])}</p>\n'
        f'<p class="claim-evidence">{evidence}</p>\n{more}'
        f'<p class="claim-source">Source: {source_html(record)}.{link}</p>\n</div>'
    )
