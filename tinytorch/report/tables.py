"""Tables: columns with units, cells with their intervals, as HTML for the page and as text for the terminal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from tinytorch.perf.measuring import Measurement, Modelled, Quoted, Unmeasured
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.judge import Judgement
from tinytorch.perf.measuring.text_table import aligned
from tinytorch.perf.measuring.values import Value, as_measurement
from tinytorch.report.numbers import (
    FRACTIONS,
    Formatted,
    Scale,
    checked_value,
    common_scale,
    format_measurement,
    format_number,
    interval_name,
    interval_of,
    is_exact,
    measurement_from_record,
    number_body,
    number_of_samples,
    unbroken,
)
from tinytorch.report.records import Json, checked_text
from tinytorch.report.rows import Rows as AnyRows
from tinytorch.report.rows import listed, value_at
from tinytorch.report.verdicts import called, tested, words_of

#: A column whose largest and smallest sizes are further apart than this keeps a unit in each cell.
_ONE_UNIT_UP_TO = 1e5
#: Units of columns that stand beside each other to be compared, and how far apart their sizes may be: 0.0014 ms beside
#: 13 ms reads worse than 1.4 µs.
_COMPARED = {"B": _ONE_UNIT_UP_TO, "FLOP": _ONE_UNIT_UP_TO, "s": 1e3}
#: A column of whole counts below this is shown exactly; above it, in prefixes.
_COUNTED_BELOW = 1e6
#: Units whose whole numbers are never shown exactly in a column.
_READ_IN_PREFIXES = frozenset({"B", "s"}) | FRACTIONS
Rows = Sequence[Mapping[str, Any]]
#: What a cell says of what was not measured.
_UNMEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: the ``key`` of its cells in the rows, its ``label``, and the base ``unit`` of bare counts.

    ``unit`` may be left out where cells are text or know their own.
    ``modelled`` says that the column looks as `Modelled` numbers do, which all of its numbers then are; ``quoted`` that
    others published them, as text or `Quoted`; ``judged`` that its cells are verdicts on their rows' numbers, as
    ``tinytorch.report.verdicts.Said``. ``total`` says that its numbers are factors, and is the key of the column that
    holds their product so far, in each row that has both.
    """

    key: str
    label: str
    unit: str | None = None
    modelled: bool = False
    quoted: bool = False
    judged: bool = False
    total: str | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell as it is shown: ``text`` for eyes, ``spread`` behind it, ``title`` on asking, ``value`` to sort by."""

    text: str
    spread: str = ""
    title: str = ""
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Laid:
    """A column with its cells as they are shown, and the unit in its header if one serves all."""

    column: Column
    numeric: bool
    unit: str
    cells: tuple[Cell, ...]


def declared(
    rows: AnyRows,
    headings: Mapping[str, str],
    key: str,
    *,
    quoted: Collection[str],
    totals: Mapping[str, str],
    words: Mapping[str, str] | None = None,
) -> tuple[list[Column], list[dict[str, Any]]]:
    """Return the columns of a table whose page names attributes of rows, and its cells; values say how a column looks.

    Raises:
        ValueError: if there are no rows, one lacks an attribute, or ``quoted`` or ``totals`` names no column.
    """
    if unknown := sorted({*quoted, *totals, *totals.values()} - headings.keys()):
        raise ValueError(f"quoted and totals must name columns of table {key!r}, not {', '.join(unknown)}")

    def shown(value: Any) -> Any:
        return called(_UNMEASURED if isinstance(value, Unmeasured) else value, words or {})

    cells = [{path: shown(value_at(row, path)) for path in headings} for row in listed(rows)]
    return [
        _column(path, label, [row[path] for row in cells], path in quoted, totals.get(path))
        for path, label in headings.items()
    ], cells


def _column(path: str, label: str, cells: Sequence[Any], quoted: bool, total: str | None) -> Column:
    known = [cell for cell in cells if _is_number(cell)]
    bare = [cell for cell in known if not isinstance(cell, Value)]
    return Column(
        path,
        label,
        "1" if bare else None,
        modelled=bool(known) and all(isinstance(cell, Modelled) for cell in known),
        quoted=quoted or (bool(known) and all(isinstance(cell, Quoted) for cell in known)),
        judged=any(_is_verdict(cell) for cell in cells),
        total=total,
    )


def checked_columns(columns: Sequence[Column | tuple[str, str] | tuple[str, str, str]], key: str) -> list[Column]:
    """Return ``columns`` as `Column` objects; tuples are (key, label) or (key, label, unit).

    Raises:
        ValueError: if there are none, two share a key, a label is empty, or a total is no column.
    """
    made = [column if isinstance(column, Column) else Column(*column) for column in columns]
    if not made:
        raise ValueError(f"columns of table {key!r} must name at least one column")
    keys = [column.key for column in made]
    if len(set(keys)) < len(keys):
        raise ValueError(f"columns of table {key!r} must have different keys, not {keys}")
    for column in made:
        checked_text(column.label, f"label of column {column.key!r}", key)
        if column.total is not None and column.total not in keys:
            raise ValueError(
                f"total of column {column.key!r} of table {key!r} must be one of {keys}, not {column.total!r}"
            )
    return made


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.integer | np.floating | Value) and not isinstance(value, bool)


def _is_verdict(value: Any) -> bool:
    return isinstance(value, Judgement | Comparison)


def _checked_cell(value: Any, column: Column, key: str) -> Any:
    """Return the cell's value if a table can hold it, or raise saying which cell is wrong."""
    where = f"cell {column.label!r} of table {key!r}"
    if column.quoted and not isinstance(value, str | Quoted):
        raise TypeError(f"{where} is quoted from elsewhere, so it must be text or Quoted, not {value!r}")
    if value is None or isinstance(value, str) or (column.judged and _is_verdict(value)):
        return value
    if not _is_number(value):
        raise TypeError(f"{where} must be text, a number, a Measurement or None, not {type(value).__name__}")
    own = isinstance(value, Value)
    if not own and not isinstance(value, float | np.floating) and column.unit is None:
        raise ValueError(f"{where} is a bare whole number: give its column the unit of what was counted, '1' for none")
    known = checked_value(where, value, unit=None if own else column.unit, what=None if own else column.label)
    looks = {Modelled: column.modelled, Quoted: column.quoted}
    if wrong := [kind.__name__ for kind, look in looks.items() if isinstance(known, kind) != look]:
        raise ValueError(
            f"{where} is a {type(known).__name__}, but a column with {wrong[0]} values holds nothing else: give "
            f"{wrong[0]} values a column of their own"
        )
    return known


def checked_rows(rows: Rows, columns: Sequence[Column], key: str) -> list[dict[str, Any]]:
    """Return the rows with exactly the columns' cells.

    Raises:
        ValueError: if there are no rows, a row lacks a column, or a number is not finite or has no unit.
        TypeError: if a cell is nothing that a table can hold.
    """
    if not rows:
        raise ValueError(f"rows of table {key!r} must not be empty")
    checked = []
    for row in rows:
        missing = [column.key for column in columns if column.key not in row]
        if missing:
            raise ValueError(f"a row of table {key!r} has no {', '.join(missing)}: it has {', '.join(map(str, row))}")
        checked.append({column.key: _checked_cell(row[column.key], column, key) for column in columns})
    return checked


def _base(value: Any) -> float:
    return value.median if isinstance(value, Measurement) else float(value)


def _size(value: Any) -> float:
    """Return the size that a cell's unit has to fit: of a measurement that of the farther end of its interval."""
    interval = interval_of(value) if isinstance(value, Measurement) else None
    return abs(_base(value)) if interval is None else max(abs(interval.low), abs(interval.high))


def _unit_of(value: Any, column: Column) -> str:
    return value.unit if isinstance(value, Measurement) else column.unit or ""


def _all_counted(values: Sequence[Any]) -> bool:
    return all(is_exact(value) if isinstance(value, Measurement) else isinstance(value, int) for value in values)


def _column_scale(values: Sequence[Any], column: Column, apart: float = _ONE_UNIT_UP_TO) -> Scale | None:
    """Return the scale that one unit in the header would have, or None where sizes are farther ``apart``."""
    units = {_unit_of(value, column) for value in values}
    if len(units) != 1:
        return None
    sizes = [size for value in values if (size := _size(value))]
    if _all_counted(values) and units.isdisjoint(_READ_IN_PREFIXES) and max(sizes, default=0) < _COUNTED_BELOW:
        unit = units.pop()
        return Scale(1.0, "" if unit == "1" else unit)
    if sizes and max(sizes) / min(sizes) > apart:
        return None
    return common_scale(sizes, units.pop())


def _formatted(value: Any, column: Column, scale: Scale | None) -> Formatted:
    if isinstance(value, Measurement):
        exact = is_exact(value) and (scale is None or scale.factor == 1.0)
        return format_measurement(value, scale=None if exact and value.unit != "B" else scale)
    whole = isinstance(value, int) and scale is not None and scale.factor == 1.0 and column.unit not in FRACTIONS
    return format_number(value, column.unit or "", scale=None if whole and column.unit != "B" else scale)


def _title(value: Any, shown: Formatted) -> str:
    """Return the interval in words."""
    if not isinstance(value, Measurement):
        return ""
    interval = interval_of(value)
    if interval is None:
        return ""
    return f"{interval_name(interval.confidence)} {shown.interval}{number_of_samples(value.n)}"


def _cell(value: Any, column: Column, scale: Scale | None) -> Cell:
    if value is None:
        return Cell("–")
    if isinstance(value, str) or _is_verdict(value):
        return Cell(words_of(value))
    shown = _formatted(value, column, scale)
    text = shown.cell if scale is not None else shown.cell_text
    return Cell(text, shown.beside, _title(value, shown), _base(value))


def laid_out(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> list[Laid]:
    """Return the columns, of which all of bytes have one unit, of FLOPs, and of times, where each cell can bear it."""
    rows = [
        {key: as_measurement(cell) if isinstance(cell, Value) else cell for key, cell in row.items()} for row in rows
    ]
    scales: dict[str, Scale | None] = {}
    numbers = {column.key: [row[column.key] for row in rows if _is_number(row[column.key])] for column in columns}
    for unit, apart in _COMPARED.items():
        alike = [one for one in columns if numbers[one.key] and {_unit_of(n, one) for n in numbers[one.key]} == {unit}]
        if len(alike) > 1 and all(_column_scale(numbers[one.key], one) for one in alike):
            shared = _column_scale([number for one in alike for number in numbers[one.key]], alike[0], apart)
            scales |= {one.key: shared for one in alike if shared}
    return [_laid(rows, column, scales.get(column.key)) for column in columns]


def _laid(rows: Sequence[Mapping[str, Any]], column: Column, shared: Scale | None = None) -> Laid:
    values = [row[column.key] for row in rows]
    numbers = [value for value in values if _is_number(value)]
    scale = shared or (_column_scale(numbers, column) if numbers else None)
    cells = tuple(_cell(value, column, scale) for value in values)
    symbol = scale.symbol if scale else ""
    says_it = column.label.lower() in (symbol.lower(), f"{symbol.lower()}s")
    return Laid(column, bool(numbers), "" if says_it else symbol, cells)


def _header_html(laid: Laid) -> str:
    unit = f' <span class="unit">({escape(laid.unit)})</span>' if laid.unit else ""
    classes = ' class="numeric"' if laid.numeric else ""
    tag = ' <span class="kind-tag">model</span>' if laid.column.modelled else ""
    label = f'<span class="label">{escape(laid.column.label)}</span>{unit}{tag}'
    return f'<th scope="col"{classes}>{label}</th>'


def _texts(laid: Sequence[Laid]) -> list[list[str]]:
    """Return headings and then the rows' cells as text."""
    heads = [one.column.label + (f" ({one.unit})" if one.unit else "") for one in laid]
    rows = zip(*(one.cells for one in laid), strict=True)
    return [heads, *([f"{cell.text} {cell.spread}".strip() for cell in row] for row in rows)]


def _cell_html(cell: Cell, laid: Laid, first: bool, detail: Sequence[str]) -> str:
    classes = [name for name, on in (("numeric", laid.numeric), ("modelled", laid.column.modelled)) if on]
    attributes = f' class="{" ".join(classes)}"' if classes else ""
    if cell.value is not None:
        attributes += f' data-value="{cell.value!r}"'
    if detail:
        attributes += f' data-detail="{escape(chr(10).join(detail)).replace(chr(10), "&#10;")}"'
    if cell.title:
        attributes += f' title="{escape(cell.title)}"'
    spread = f' <span class="spread">{escape(cell.spread)}</span>' if cell.spread else ""
    tag, scope = ("th", ' scope="row"') if first else ("td", "")
    text = f'<span class="quoted-value">{escape(cell.text)}</span>' if laid.column.quoted else escape(cell.text)
    return f"<{tag}{scope}{attributes}>{text}{spread}</{tag}>"


def to_html(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], *, caption: str, key: str) -> str:
    """Return the table as HTML: a caption, header cells with scope, in a region that scrolls when too wide."""
    return laid_html(laid_out(rows, columns), caption=caption, key=key)


def laid_html(
    laid: Sequence[Laid],
    *,
    caption: str,
    key: str,
    detail: Callable[[int, Column], Sequence[str]] = lambda _row, _column: (),
    number: str = "",
    page: str = "",
) -> str:
    """Return a table that is laid out as HTML.

    Args:
        laid: of `laid_out`.
        caption: what the table says.
        key: of its address.
        detail: what stands behind a cell, by the row's place and the column, a sentence each; none if empty.
        number: in words, before the caption: "Table 3.2".
        page: whose record it shows, if any.
    """
    head = "".join(_header_html(column) for column in laid)
    body = "\n".join(
        "<tr>"
        + "".join(_cell_html(one.cells[i], one, j == 0, detail(i, one.column)) for j, one in enumerate(laid))
        + "</tr>"
        for i in range(len(laid[0].cells))
    )
    shows = f' data-key="{page}:{key}"' if page else ""
    return (
        f'<div class="measured-table" id="table-{key}" role="region" tabindex="0" '
        f'aria-labelledby="table-{key}-caption"{shows}>\n'
        f'<table class="sortable">\n<caption id="table-{key}-caption">{number_html(number, f"table-{key}")}'
        f"{escape(unbroken(caption))}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def number_html(number: str, label: str) -> str:
    """Return what stands before a caption: a number in words, which leads to what has it; nothing without one."""
    return f'<a class="number" href="#{label}">{number}</a> ' if number else ""


def to_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], *, caption: str) -> str:
    """Return the table as text in a fixed-width font, numbers right-aligned, the caption below."""
    laid = laid_out(rows, columns)
    return f"{aligned(_texts(laid), [one.numeric for one in laid])}\n\n{caption}"


def to_markdown(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> str:
    """Return the table in GitHub's Markdown, numbers right-aligned, signs that Markdown reads escaped."""
    laid = laid_out(rows, columns)
    rule = ["---:" if one.numeric else "---" for one in laid]
    escaped = ([cell.replace("\\", "\\\\").replace("|", "\\|") for cell in line] for line in _texts(laid))
    lines = [f"| {' | '.join(line)} |" for line in escaped]
    return "\n".join([lines[0], f"| {' | '.join(rule)} |", *lines[1:]])


def to_body(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column], *, caption: str, key: str) -> Json:
    """Return the body of the table's record: caption, columns, and rows whose numbers keep their samples."""

    def described(column: Column) -> Json:
        marks = {name: mark for name in ("modelled", "quoted", "judged", "total") if (mark := getattr(column, name))}
        return {"key": column.key, "label": column.label, "unit": column.unit, **marks}

    def kept(value: Any, column: Column) -> Any:
        if column.judged and value is not None:
            return {"word": words_of(value), **tested(value)}
        return number_body(key, value) if isinstance(value, Value) else value

    return {
        "caption": caption,
        "columns": [*map(described, columns)],
        "rows": [{column.key: kept(row[column.key], column) for column in columns} for row in rows],
    }


def from_body(body: Json) -> tuple[list[dict[str, Any]], list[Column]]:
    """Return the rows and columns of which `to_body` made a record's body, with words for verdicts."""

    def again(cell: Any) -> Any:
        if not isinstance(cell, dict):
            return cell
        return cell["word"] if "word" in cell else measurement_from_record(cell)

    rows = [{key: again(cell) for key, cell in row.items()} for row in body["rows"]]
    return rows, [Column(**column) for column in body["columns"]]
