"""Agreement of numbers: calls that several pages time, and factors with their total.

A measured time whose conditions name a ``call``, such as "zoo MLP, batch 64, NumPy, forward", is compared with each of
the same call on another page. Where two intervals do not touch, at least one is too narrow, and nothing says which:
both are shown so wide that they hold both, with the reason behind them. The records that readers download stay as they
were measured.
"""

from collections.abc import Iterator, Mapping

from measured_book.records.store import PageRecords, Place, Widened
from measured_book.state import BookState

from tinytorch.report.notebook_view import number_text
from tinytorch.report.records import NUMBER_KINDS, Json, conditions_of_record, is_number


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


def _hull(number: Json, others: list[tuple[str, Json]]) -> Widened:
    """Return the interval that holds the number's and those of ``others``, by the names of their pages."""
    intervals = [number["interval"], *(other["interval"] for _, other in others)]
    said = dict.fromkeys(f"{number_text(other)} on the page “{name}”" for name, other in others)
    because = f"to hold what the same call took elsewhere: {' and '.join(said)}"
    return Widened(min(each["low"] for each in intervals), max(each["high"] for each in intervals), because)


def compare_calls(pages: Mapping[str, PageRecords]) -> dict[str, tuple[int, dict[Place, Widened]]]:
    """Return for each page how many of its times other pages took, too, and those that contradict these, widened."""
    calls: dict[str, list[tuple[str, Place, Json]]] = {}
    for docname, page in pages.items():
        for place, number, call in timed_calls(page):
            calls.setdefault(call, []).append((docname, place, number))
    found: dict[str, tuple[int, dict[Place, Widened]]] = {}
    for docname in pages:
        repeated, wider = 0, {}
        for same in calls.values():
            others = [(name, number) for name, _, number in same if name != docname]
            for place, number in ((place, number) for name, place, number in same if name == docname and others):
                repeated += 1
                apart = [(name, other) for name, other in others if not _touch(number["interval"], other["interval"])]
                if apart:
                    wider[place] = _hull(number, apart)
        found[docname] = repeated, wider
    return found


def widen(state: BookState) -> set[str]:
    """Compare the calls of all pages anew, and return the pages that show other intervals, or counts, than before."""
    changed = set()
    for docname, made in compare_calls(state.records).items():
        page = state.records[docname]
        if made != (page.repeated, page.widened):
            page.repeated, page.widened = made
            changed.add(docname)
    return {
        name
        for name, page in state.pages.items()
        if name in changed or page.uses & changed or (page.has_ledger and changed)
    }


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
