"""Numbers, verdicts and claims as nodes that know their HTML: what is seen, and what mouse, touch or keys reach."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TypeVar

from docutils import nodes

from measured_book.sources.bibliography import named_source
from tinytorch.perf.measuring.conditions import (
    ComputeProbe,
    Conditions,
    Instrument,
    MemoryProbe,
    PageProbe,
    Planned,
    Ranks,
    Sample,
)
from tinytorch.report.numbers import (
    FRACTIONS,
    NO_BREAK,
    SCALES,
    Formatted,
    conditions_of_record,
    format_number,
    format_record,
    interval_name,
    percent,
)
from tinytorch.report.records import Json
from tinytorch.report.verdicts import ICONS, OPEN, UNTESTED, WITHHELD, split_at_placeholders, verdict_lines

Value = TypeVar("Value")
_KIND_WORDS = {
    "measured": "Measured",
    "counted": "Counted, not timed",
    "derived": "Computed",
    "modelled": "Modelled, not measured",
}
#: From how many samples on they are drawn, and about how many of more, equally apart in their order.
_FEW, _MANY = 5, 60
#: Names of what a number was computed from that its detail tells.
_MOST_NAMES = 3


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


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _conditions_words(had: Conditions, apart_from: Conditions | None = None) -> str:
    """Return how a number was measured, in sentences; of a side, ``apart_from`` the conditions of the whole."""
    known = apart_from or Conditions()
    told = []

    def tell(value: Value | None, before: Value | None, words: Callable[[Value], str]) -> None:
        if value not in (None, ()) and value != before:
            told.append(words(value))

    if had.sample is not Sample.CALLS and had.sample != known.sample:
        told.append(f"the samples are {had.sample}")
    tell(had.warmup_runs, known.warmup_runs, lambda runs: f"warm-up of {_counted(runs, 'call')}")
    tell(had.warmup_seconds, known.warmup_seconds, lambda seconds: f"warm-up of {seconds:,.4g} s")
    if had.warmup_steady is False and known.warmup_steady is not False:
        told.append("calls were still becoming faster when the warm-up ended")
    tell(had.inner_loops, known.inner_loops, lambda loops: f"{_counted(loops, 'call')} per sample")
    tell(had.collector_off, known.collector_off, lambda off: "garbage collector off" if off else "garbage collector on")
    if had.blas_threads == "unknown" != known.blas_threads:
        told.append("unknown number of BLAS threads")
    elif isinstance(had.blas_threads, int) and had.blas_threads != known.blas_threads:
        told.append(_counted(had.blas_threads, "BLAS thread"))
    tell(had.threads, known.threads, lambda threads: _counted(threads, "thread"))
    tell(
        had.cores,
        known.cores,
        lambda cores: f"pinned to {'core' if len(cores) == 1 else 'cores'} {', '.join(map(str, cores))}",
    )
    tell(had.caches, known.caches, lambda caches: f"caches: {caches}")
    tell(had.block, known.block, lambda block: f"new places in memory after every {_counted(block, 'sample')}")
    tell(had.interleaved_with, known.interleaved_with, lambda names: f"interleaved with {_listed(names)}")
    tell(had.order_seed, known.order_seed, lambda seed: f"in a random order with seed {seed}")
    tell(had.cpu_per_wall, known.cpu_per_wall, lambda share: f"{share:.3g} s of CPU time per second")
    tell(had.page_faults_per_call, known.page_faults_per_call, lambda faults: f"{faults:,.4g} page faults per call")
    what = "its odds differ" if had.part_of else "differs"
    tell(
        had.between_runs,
        known.between_runs,
        lambda spread: f"{what} between runs with a standard deviation of {format_number(spread.deviation, '%')}",
    )
    tell(had.part_of, known.part_of, lambda whole: f"a part of {whole}")
    tell(had.interval_by, known.interval_by, lambda way: f"interval by {way}")
    tell(had.call, known.call, lambda call: f"other pages time the same call as “{call}”")
    tell(had.planned, known.planned, _planned_words)
    if had.instrument is not None and had.instrument != known.instrument:
        told.append(", ".join(_instrument_words(had.instrument)))
    sentences = ["; ".join(told)] if told else []
    sentences += [f"{side.name}: {words}" for side in had.sides if (words := _conditions_words(side.conditions, had))]
    sentences += [had.note] if had.note and had.note != known.note else []
    return " ".join(f"{each[0].upper()}{each[1:].rstrip('.')}." for each in sentences)


def _planned_words(plan: Planned) -> str:
    """Return what the number of samples was planned for, and what came of it."""
    asked = f"planned so that {percent(plan.power)} of repeats find a difference of {percent(plan.resolve)}"
    ended = ", more than the time limit allowed" if plan.ended_by_time else ""
    found = "no difference" if plan.reached is None else f"a difference of {percent(plan.reached)}"
    return f"{asked}, which needs {_counted(plan.number, 'sample')}{ended}; those taken find {found} as often"


def _instrument_words(one: Instrument) -> list[str]:
    """Return what an instrument has of its own, in phrases."""
    match one:
        case ComputeProbe():
            chains = [f"{one.chains} independent chains"] if one.chains else []
            return [f"vectors of {one.vector_bits} bits", *chains, *([one.instruction] if one.instruction else [])]
        case MemoryProbe():
            vectors = [f"vectors of {one.vector_bits} bits"] if one.vector_bits else []
            return [f"a working set of {one.working_set_bytes:,} bytes", *vectors]
        case PageProbe():
            return [f"pages of {one.page_bytes:,} bytes", f"{one.faults_per_page:,.4g} faults per page"]
        case Ranks():
            cores = "more ranks than cores" if one.oversubscribed else "one core per rank"
            kept = {None: [], True: ["pinned"], False: ["not pinned"]}[one.pinned]
            return [_counted(one.ranks, "rank"), cores, *kept, *([f"for {one.series}"] if one.series else [])]


def _sureness(record: Json, shown: Formatted) -> list[str]:
    """Return how sure a number is and what kind of number it is, a sentence each."""
    kind, n = _KIND_WORDS[record["kind"]], record["n"]
    if record["kind"] == "derived":
        reason = f", because {record['no_interval'].rstrip('.')}" if "no_interval" in record else ""
        kind += f" from {_listed(record['of'])}, without an interval of its own{reason}"
    elif record["kind"] == "modelled":
        kind += f", by {record['model']}"
    if record["interval"] is None and n == 1:
        once = " in one sample, so there is no interval" if record["kind"] == "measured" else ""
        return [f"{kind}: {_exactly(record, shown)}{once}."]
    value = conditions_of_record(record).statistic or "median"
    of = f": {value} of {n:,} samples" if record["kind"] == "measured" or n > 1 else ""
    statistic = f"{kind}{of}."
    if record["interval"] is None:
        return [statistic]
    ends = f"{shown.low} to {shown.high}" if shown.low != shown.high else shown.low
    name = interval_name(record["interval"]["confidence"])
    return [f"{name[0].upper()}{name[1:]}: {shown.with_unit(ends)}.", statistic]


def _listed(names: Sequence[str]) -> str:
    """Return what a number was computed from, of many the first ones."""
    quoted = [f"“{name}”" for name in names]
    if len(quoted) > _MOST_NAMES:
        quoted = [*quoted[: _MOST_NAMES - 1], f"{len(quoted) - _MOST_NAMES + 1} more"]
    return " and ".join(part for part in (", ".join(quoted[:-1]), quoted[-1]) if part)


def detail_lines(record: Json, shown: Formatted | None = None) -> list[str]:
    """Return what stands behind a number, a sentence each: how sure it is, of how many samples, what ran, how."""
    if record["kind"] == "quoted":
        return [f"Quoted from {named_source(record['source'])[0]}: {record['what'].rstrip('.')}."]
    ran = "What ran" if record["kind"] == "measured" else "What it is"
    lines = [*_sureness(record, shown or format_record(record)), f"{ran}: {record['what'].rstrip('.')}."]
    conditions = conditions_of_record(record)
    if words := _conditions_words(conditions):
        lines.append(words)
    return lines


def _exactly(record: Json, shown: Formatted) -> str:
    """Return the number, and where its prefix hides digits of an exact one, these too."""
    value, unit = record["value"], record["unit"]
    if isinstance(value, int) and unit in SCALES and unit not in ("", "1") and unit not in FRACTIONS:
        return f"{value:,}{NO_BREAK}{unit}"
    return shown.text


class Slot(nodes.General, nodes.Inline, nodes.Element):
    """A number or word that a record puts into a sentence.

    Attributes: ``record``; ``text``, as it is read; ``lines`` that stand behind it; ``html`` of both; ``before`` and
    ``after``, the punctuation that is held to it: see `hold_punctuation`.
    """

    def written(self) -> str:
        """Return its HTML, with the punctuation that is held to it."""
        before, after = self.get("before", ""), self.get("after", "")
        html = str(self["html"])
        return f'<span class="keep">{escape(before)}{html}{escape(after)}</span>' if before or after else html


def data_key(record: Json) -> str:
    """Return the attribute that says which record an element shows."""
    return f' data-key="{record["page"]}:{record["key"]}"'


def _value_html(shown: Formatted) -> str:
    value = f'<span class="value">{escape(shown.prose)}</span>'
    return f'{value}{shown.joiner}<span class="unit">{escape(shown.unit)}</span>' if shown.unit else value


def _samples(record: Json) -> str:
    """Return the attribute from which a script draws samples: their places in 300 steps of the interval and around it.

    First stand the ends of the interval and the value; samples that lie far outside stand at the edge.
    """
    samples, interval = record.get("samples") or [], record.get("interval")
    if len(samples) < _FEW or not interval:
        return ""
    low, high = interval["low"], interval["high"]
    around = 2 * (high - low)
    first, last = max(low - around, min(*samples, low)), min(high + around, max(*samples, high))
    if not first < last:
        return ""
    drawn = sorted(samples)[:: -(-len(samples) // _MANY)]
    marks = (min(max(value, first), last) for value in (low, record["value"], high, *drawn))
    return f' data-samples="{" ".join(str(round(300 * (mark - first) / (last - first))) for mark in marks)}"'


def _with_detail(
    record: Json, text: str, inner: str, classes: str, lines: list[str], ident: str, extra: str = "", address: str = ""
) -> Slot:
    """Return a button that opens its detail: phrasing content only, so that it may stand in a paragraph.

    ``data-key`` says which record it shows: who compares pages leaves it out: see `scripts.compare_builds`.
    """
    # Only the first sentence is an element, as a page has hundreds of details; the style sheet keeps the ends of lines.
    said = "\n".join([f'<span class="line">{escape(lines[0])}</span>', *map(escape, lines[1:])])
    html = (
        f'<button type="button" class="{classes}"{address}{data_key(record)} popovertarget="{ident}" '
        f'popovertargetaction="show">{inner}</button>'
        f'<span popover class="measured-detail" id="{ident}"{_samples(record)}> {said}{extra}</span>'
    )
    return Slot("", record=record, text=text, lines=lines, html=html)


def number_slot(record: Json, idents: Idents, origin: tuple[str, str] | None = None) -> Slot:
    """Return a number with its detail behind it, and title and address of the page that it comes from, if another.

    What is quoted has its source beside it, and no detail.
    """
    shown, extra = format_record(record), ""
    if record["kind"] == "quoted":
        return Slot("", record=record, text=shown.text, lines=[], html=quoted_html(shown.text, record["source"]))
    if origin is not None:
        title, address = origin
        extra = f' <span class="line">From <a href="{escape(address)}">{escape(title)}</a>.</span>'
    classes = " ".join(dict.fromkeys(["measured", record["kind"]]))
    tag = f'<span class="kind-tag">{_MODEL}</span>' if record["kind"] == "modelled" else ""
    inner, lines = _value_html(shown) + tag, detail_lines(record, shown)
    ident, address = idents.new("measured"), idents.address(record)
    return _with_detail(record, shown.text, inner, classes, lines, ident, extra, address)


def absent_slot(record: Json, idents: Idents) -> Slot:
    """Return what stands in the place of a number or word that this build did not measure, with the reason behind."""
    text, lines = "not measured in this build", [f"{record['reason'].rstrip('.')}."]
    return _with_detail(record, text, text, "measured absent", lines, idents.new("absent"))


def absent_claim_html(record: Json) -> str:
    """Return what stands in the place of a claim that this build could not test, with the reason."""
    reason = escape(record["reason"].rstrip("."))
    return f'<p class="not-measured" id="claim-{record["key"]}" role="note">Not tested in this build: {reason}.</p>'


def verdict_slot(record: Json, idents: Idents) -> Slot:
    """Return a verdict word with its reason, in which numbers already stand, behind it."""
    lines = [f"Because {record['because'].rstrip('.')}.", *verdict_lines(record)]
    undecided = " undecided" if record["outcome"] in (OPEN, WITHHELD, UNTESTED) else ""
    ident, address = idents.new("verdict"), idents.address(record)
    text, inner = str(record["word"]), escape(record["word"])
    return _with_detail(record, text, inner, f"measured verdict{undecided}", lines, ident, address=address)


def why_slot(record: Json, idents: Idents) -> Slot:
    """Return the mark behind a text that a result chose, with what the result is behind it."""
    because = [f"Because {record['because'].rstrip('.')}."]
    lines = [f"Found: {record['word']}.", *because, *verdict_lines(record)]
    ident, address = idents.new("why"), idents.address(record)
    name = "interval" if record["tests"] else "why"
    return _with_detail(record, name, name, "measured why", lines, ident, address=address)


_BEFORE = re.compile(r"[(\[“‘„]+$")
_AFTER = re.compile(r"^[.,;:!?)\]”’…]+")
#: Letters of words that stand for a number from which on they may have to be broken, and hold nothing to their end.
_LONG = 30
#: What stands beside a modelled number.
_MODEL = "model"


def hold_punctuation(slot: Slot) -> None:
    """Hold the punctuation that touches a number to it; one that is too long for a line of a phone holds nothing."""
    line, place = slot.parent, slot.parent.index(slot)
    if len(slot["text"] + _MODEL * (slot["record"]["kind"] == "modelled")) > _LONG:
        return
    for beside, touching, name in ((place - 1, _BEFORE, "before"), (place + 1, _AFTER, "after")):
        text = line[beside] if 0 <= beside < len(line) else None
        if isinstance(text, nodes.Text) and (found := touching.search(text.astext())):
            slot[name] = found[0]
            rest = text.astext()
            line[beside] = nodes.Text(rest[: found.start()] + rest[found.end() :])


def filled_line(text: str, number: Callable[[str], Slot]) -> nodes.paragraph:
    """Return ``text`` as a line in which ``number(key)`` stands for each key in braces."""
    line = nodes.paragraph()
    for piece, key in split_at_placeholders(text):
        line += [nodes.Text(piece), *([] if key is None else [number(key)])]
    for slot in list(line.findall(Slot)):
        hold_punctuation(slot)
    return line


def line_html(line: nodes.Element) -> str:
    """Return the HTML of a line of text and slots."""
    return "".join(part.written() if isinstance(part, Slot) else escape(part.astext()) for part in line.children)


def quoted_html(number: str, source: str) -> str:
    """Return a number that was typed because it comes from elsewhere, with its source beside it."""
    name, address = named_source(source)
    named = f'<a class="reference external" href="{escape(address)}">{escape(name)}</a>' if address else escape(name)
    return (
        f'<span class="quoted"><span class="quoted-value">{escape(number)}</span> '
        f'<span class="quoted-source">({named})</span></span>'
    )


def verdict_mark(record: Json) -> str:
    """Return a claim's verdict as icon and word."""
    verdict = record["verdict"]
    name = verdict.replace(" ", "-")
    return (
        f'<span class="claim-verdict {name}"{data_key(record)}><span class="icon" aria-hidden="true">{ICONS[verdict]}'
        f"</span> {escape(verdict)}</span>"
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
