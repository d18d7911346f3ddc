"""Agreement of numbers: calls that several pages time, and factors with their total.

A measured time whose conditions name a ``call``, such as "zoo MLP, batch 64, NumPy, forward", is compared with each of
the same call on another page. Where two intervals do not touch, at least one is too narrow, and nothing says which: the
build says so, and so do the cards of both pages. No page changes a number of another.
"""

from collections.abc import Iterator, Mapping

from sphinx.util import logging

from measured_book.state import Agreement, BookState, PageRecords, Place
from tinytorch.report.numbers import conditions_of_record, is_number, number_text
from tinytorch.report.records import NUMBER_KINDS, Json

LOGGER = logging.getLogger(__name__)


def timed_calls(page: PageRecords) -> Iterator[tuple[Place, Json, str]]:
    """Yield each time of a page whose call is named, and that name; other statistics than the median are none."""
    for key, record in page.records.items():
        found = [(Place(key), record)] if record["kind"] in NUMBER_KINDS else []
        for index, row in enumerate(record.get("rows", [])):
            found += [(Place(key, index, name), cell) for name, cell in row.items() if is_number(cell)]
        for place, number in found:
            conditions = conditions_of_record(number)
            if conditions.call and not conditions.statistic and number["interval"] and number["unit"] == "s":
                yield place, number, conditions.call


def _touch(one: Json, other: Json) -> bool:
    return bool(one["low"] <= other["high"] and other["low"] <= one["high"])


def compare_calls(pages: Mapping[str, PageRecords]) -> dict[str, Agreement]:
    """Return for each page how many of its times other pages took, too, and which of those contradict these."""
    calls: dict[str, list[tuple[str, Place, Json]]] = {}
    for docname, page in pages.items():
        for place, number, call in timed_calls(page):
            calls.setdefault(call, []).append((docname, place, number))
    found: dict[str, Agreement] = {}
    for docname in pages:
        repeated, apart = 0, {}
        for same in calls.values():
            others = [(name, number) for name, _, number in same if name != docname]
            for place, number in ((place, number) for name, place, number in same if name == docname and others):
                repeated += 1
                far = [(name, other) for name, other in others if not _touch(number["interval"], other["interval"])]
                if far:
                    said = dict.fromkeys(f"{number_text(other)} on the page “{name}”" for name, other in far)
                    apart[place] = f"{number_text(number)} here, {' and '.join(said)}"
        found[docname] = Agreement(repeated, apart)
    return found


def agree(state: BookState) -> set[str]:
    """Compare the calls of all pages anew, say which contradict one another, and return the pages that tell it anew."""
    changed = set()
    for docname, made in compare_calls(state.records).items():
        page = state.records[docname]
        if made != page.agreement:
            page.agreement = made
            changed.add(docname)
            for place, words in made.apart.items():
                LOGGER.info("%s: two measurements of one call disagree, %s: %s", docname, place.key, words)
    return changed & {*state.pages}


def unequal_products(table: Json) -> Iterator[str]:
    """Yield the rows of a table in which the factors so far do not multiply to their total within their intervals.

    They do if the product of all lower ends is not above the total's upper end, nor that of all upper ends below its
    lower end. Noise decides that, so it is no fault: a page's card counts the tables in which they do not.
    """
    for column in table.get("columns", []):
        product = (1.0, 1.0)
        for row in table["rows"] if "total" in column else ():
            factor, total = row[column["key"]], row[column["total"]]
            if not (isinstance(factor, dict) and isinstance(total, dict)):
                continue
            ends = _ends(factor)
            product = (product[0] * ends[0], product[1] * ends[1])
            low, high = _ends(total)
            if product[0] > high or product[1] < low:
                name = row[table["columns"][0]["key"]]
                made, told = f"{product[0]:.3g} to {product[1]:.3g}", f"{low:.3g} to {high:.3g}"
                yield f"factors of table {table['key']!r} multiply to {made} in the row {name!r}, their total is {told}"


def _ends(number: Json) -> tuple[float, float]:
    interval = number["interval"]
    return (interval["low"], interval["high"]) if interval else (number["value"], number["value"])
