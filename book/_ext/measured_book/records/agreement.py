"""Agreement of numbers: calls that several pages time, and factors with their total.

A measured time whose conditions name a ``call``, such as "zoo MLP, batch 64, NumPy, forward", is compared with each of
the same call on another page. Where two intervals do not touch, at least one is too narrow, and nothing says which: the
build says so, and so do the cards of both pages. No page changes a number of another.
"""

from collections.abc import Iterator, Mapping

from sphinx.util import logging

from measured_book.state import Agreement, BookState, PageRecords
from tinytorch.report.kinds import of_kind
from tinytorch.report.numbers import conditions_of_record, number_text
from tinytorch.report.records import Json

LOGGER = logging.getLogger(__name__)


def timed_calls(page: PageRecords) -> Iterator[tuple[str, Json, str]]:
    """Yield each time of a page whose call is named, its record's key first; other statistics than medians are none."""
    for key, record in page.records.items():
        for number in of_kind(record).numbers() if record["kind"] != "figure" else ():
            conditions = conditions_of_record(number)
            if conditions.call and not conditions.statistic and number["interval"] and number["unit"] == "s":
                yield key, number, conditions.call


def _touch(one: Json, other: Json) -> bool:
    return bool(one["low"] <= other["high"] and other["low"] <= one["high"])


def compare_calls(pages: Mapping[str, PageRecords]) -> dict[str, Agreement]:
    """Return for each page how many of its times other pages took, too, and which of those contradict these."""
    calls: dict[str, list[tuple[str, str, Json]]] = {}
    for docname, page in pages.items():
        for key, number, call in timed_calls(page):
            calls.setdefault(call, []).append((docname, key, number))
    found = {docname: Agreement() for docname in pages}
    for same in calls.values():
        for docname, key, number in same:
            others = [(name, other) for name, _, other in same if name != docname]
            far = [(name, other) for name, other in others if not _touch(number["interval"], other["interval"])]
            repeated, apart = found[docname]
            if far:
                said = dict.fromkeys(f"{number_text(other)} on the page “{name}”" for name, other in far)
                apart = (*apart, f"{key}: {number_text(number)} here, {' and '.join(said)}")
            found[docname] = Agreement(repeated + bool(others), apart)
    return found


def agree(state: BookState) -> set[str]:
    """Compare the calls of all pages anew, say which contradict one another, and return the pages that tell it anew."""
    changed = set()
    for docname, made in compare_calls(state.records).items():
        page = state.records[docname]
        if made != page.agreement:
            page.agreement = made
            changed.add(docname)
            for words in made.apart:
                LOGGER.info("%s: two measurements of one call disagree, %s", docname, words)
    return changed


def multiplies(table: Json) -> bool:
    """Return whether the factors of a table multiply to their totals so far within their intervals.

    They do if the product of all lower ends is not above the total's upper end, nor that of all upper ends below its
    lower end. Noise decides that, so it is no fault: a page's card counts the tables in which they do not.
    """
    for column in table["columns"]:
        least, most = 1.0, 1.0
        for row in table["rows"] if "total" in column else ():
            factor, total = row[column["key"]], row[column["total"]]
            if isinstance(factor, dict) and isinstance(total, dict):
                low, high = _ends(factor)
                least, most = least * low, most * high
                low, high = _ends(total)
                if least > high or most < low:
                    return False
    return True


def _ends(number: Json) -> tuple[float, float]:
    interval = number["interval"]
    return (interval["low"], interval["high"]) if interval else (number["value"], number["value"])
