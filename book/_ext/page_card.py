"""The card at the end of a page: how and where what it shows was measured."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from html import escape, unescape
from statistics import median

from page_downloads import Download, downloads_html
from record_store import PageRecords, numbers_in

from tinytorch.report import disturbance
from tinytorch.report.notebook_view import number_text
from tinytorch.report.numbers import NO_BREAK, format_number
from tinytorch.report.page import NOISE_KEY
from tinytorch.report.provenance import blas_label, blas_threads_words, cautions, steering_words
from tinytorch.report.records import ABSENT, NUMBER_KINDS, Json

TITLE = "How this was measured"
CARD_ID = "how-this-was-measured"
_MARKUP = re.compile(r"<[^>]*>")


def _spreads(page: PageRecords) -> list[tuple[float, str]]:
    """Return the relative half-width of each interval on the page, with the key of the record it is in.

    Differences in points are left out: they may lie at 0, of which no half-width is a share.
    """
    return [
        ((number["interval"]["high"] - number["interval"]["low"]) / 2 / abs(number["value"]), record["key"])
        for record in page.records.values()
        for number in numbers_in(record)
        if number["interval"] and number["value"] and number["unit"] != "points"
    ]


def _share(value: float) -> str:
    return f"±{NO_BREAK}{format_number(value, '%').text}"


def _noise(page: PageRecords) -> str | None:
    spreads = _spreads(page)
    if not spreads:
        return None
    worst, key = max(spreads)
    middle = median(spread for spread, _ in spreads)
    return (
        f"half-widths of {len(spreads)} intervals: {_share(middle)} in the median, "
        f"{_share(worst)} at worst (<code>{escape(key)}</code>)"
    )


def _cores(machine: Json) -> str:
    usable, logical = machine["cores_usable"], machine["cores_logical"]
    cores = f"{usable} of {logical} cores" if usable != logical else f"{logical} cores"
    return f"{cores}, {format_number(machine['memory_bytes'], 'B').text} of memory"


def _blas(blas: Json) -> str:
    core = f", {blas['core']} kernels" if blas["core"] else ""
    vectors = f" ({blas['vectors']})" if blas["vectors"] else ""
    return f"{blas_label(blas)}{core}{vectors}, {blas_threads_words(blas['threads'])}"


def _package(package: Json) -> str:
    changed = ", changed since" if package["changed"] else ""
    commit = f"; commit <code>{package['commit'][:10]}</code>{changed}" if package["commit"] else ""
    return (
        f"{escape(package['name'])} {escape(package['version'])}, "
        f"source hash <code>{package['sha256'][:16]}</code>{commit}"
    )


def time_html(when: str, shown: str) -> str:
    """Return the moment ``when``, in ISO 8601, as HTML; ``shown`` is a format of `strftime`."""
    moment = datetime.fromisoformat(when)
    return f'<time datetime="{moment.isoformat()}">{moment:{shown}}</time>'


def _made(page: PageRecords) -> str:
    text = time_html(page.provenance["when"], "%d %B %Y, %H:%M UTC")
    if page.duration is not None:
        text += f", in {format_number(page.duration, 's').text}"
    load = page.provenance["machine"]["load"]
    if load is not None:
        text += f"; load as it began {format_number(load, '1').text}"
    return text


def _counts(page: PageRecords) -> str:
    """Return how many records of what kind the page has."""
    named = {"measured": "measured", "counted": "counted", "derived": "derived", "modelled": "modelled"}
    total, absent = len(page.records) - 1, len(page.of_kind(ABSENT))
    parts = [f"{len(page.of_kind(kind))} {word}" for kind, word in named.items() if page.of_kind(kind)]
    numbers = f", numbers among them: {', '.join(parts)}" if parts else ""
    return f"{total} in all{numbers}" + (f"; {absent} not measured in this build" if absent else "")


def _rows(page: PageRecords) -> list[tuple[str, str]]:
    """Return what is known of where and how the page was measured: name and HTML."""
    where = page.provenance
    machine = where["machine"]
    vectors = f", vectors {machine['vectors']}" if machine["vectors"] else ""
    environment = ", ".join(f"<code>{escape(k)}={escape(v)}</code>" for k, v in steering_words(where["environment"]))
    noise = _noise(page)
    floor = page.records.get(NOISE_KEY)
    rows = [
        ("Machine", f"{escape(machine['cpu'])}{vectors}; {_cores(machine)}; {escape(machine['system'])}"),
        ("BLAS", "<br>".join(escape(_blas(blas)) for blas in where["blas"]) or "none loaded"),
        ("Variables", environment or "none that steer threads or kernels"),
        ("Code", f"{_package(where['package'])}; Python {escape(where['python'])}, NumPy {escape(where['numpy'])}"),
        ("Made", _made(page)),
    ]
    if noise is not None:
        rows.append(("Noise", noise))
    if floor is not None and floor["kind"] in NUMBER_KINDS:
        hidden = "A ratio nearer to 1 is shown as “cannot tell”."
        rows.append(("Noise floor", escape(f"{number_text(floor)}: {floor['what']}. {hidden}")))
    rows.append(("Records", _counts(page)))
    return rows


def card_text(page: PageRecords) -> str:
    """Return the card as plain text, a line for each fact, for a letter or an issue."""
    lines = ((name, unescape(_MARKUP.sub("", text.replace("<br>", "; ")))) for name, text in _rows(page))
    return "\n".join([*(f"{name}: {text}" for name, text in lines), *_cautions(page)])


def _cautions(page: PageRecords) -> list[str]:
    """Return what makes the page's numbers doubtful, a sentence each."""
    busy = disturbance.caution([number for record in page.records.values() for number in numbers_in(record)])
    return [*cautions(page.provenance), *([busy] if busy else [])]


def card_html(page: PageRecords, downloads: Sequence[Download]) -> str:
    """Return the card of ``page``, which offers ``downloads``."""
    caution = "".join(
        f'<p class="card-caution"><span class="icon" aria-hidden="true">!</span> {escape(said)}</p>\n'
        for said in _cautions(page)
    )
    rows = [*_rows(page), ("Downloads", downloads_html(downloads, page.docname))]
    listed = "\n".join(f"<div><dt>{name}</dt><dd>{text}</dd></div>" for name, text in rows)
    return f'<div class="measured-card">\n{caution}<dl>\n{listed}\n</dl>\n</div>'
