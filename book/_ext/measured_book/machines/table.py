"""Table of machines that ran the book: a row for each file in the folder of measurements, and one for this build.

The files come from strangers. Each is checked as the page "Your machine" checks it before anything of it is used, and
whatever is shown of it is escaped.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from html import escape
from pathlib import Path
from urllib.parse import quote

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from measured_book.elements.nodes import LateHtml, load_where, table_region
from measured_book.execution.key import files_of
from measured_book.machines.explorers import FOLDER, ROOFS_PAGE, book_measurements
from measured_book.state import state_of
from tinytorch.perf.measuring.judge import OF_CLAIMS
from tinytorch.report.measurements import read_measurements
from tinytorch.report.numbers import Scale, common_scale, format_record, is_number
from tinytorch.report.provenance import blas_label
from tinytorch.report.records import Json

LOGGER = logging.getLogger(__name__)
STYLE = "machines.css"
TABLE_CLASS = "measured-table machines"


@dataclass(frozen=True)
class Machine:
    """File of measurements, and its address in the site."""

    made: Json
    address: str

    def record(self, page: str, key: str) -> Json | None:
        """Return a record; None where the file has none of that name."""
        found = (record for entry in self.made["pages"] if entry["page"] == page for record in entry["records"])
        return next((record for record in found if record["key"] == key), None)

    def number(self, page: str, key: str) -> Json | None:
        """Return a record that holds a number; None where the file has none of that name."""
        record = self.record(page, key)
        return record if record is not None and "value" in record else None

    def roof(self, name: str, *, all_threads: bool) -> Json | None:
        """Return the rate of a roof for one thread or for most; None where it was not measured."""
        table = self.record(ROOFS_PAGE, "roofs")
        if table is None or table["kind"] != "table":
            return None
        keys = [column["key"] for column in table["columns"]]
        rows = [dict(zip(keys, row, strict=True)) for row in table["rows"]]
        fitting = [row for row in rows if row.get("roof") == name and is_number(row.get("threads"))]
        fitting.sort(key=lambda row: row["threads"]["value"])
        if not fitting or (all_threads and fitting[-1]["threads"]["value"] == 1):
            return None
        rate = fitting[-1 if all_threads else 0].get("rate")
        return rate if is_number(rate) else None


#: The columns of numbers: what they are called, and where the number is.
NUMBERS: tuple[tuple[str, Callable[[Machine], Json | None]], ...] = (
    ("FP32, one thread", lambda machine: machine.roof("FP32", all_threads=False)),
    ("FP32, all cores", lambda machine: machine.roof("FP32", all_threads=True)),
    ("INT8, one thread", lambda machine: machine.roof("INT8", all_threads=False)),
    ("Memory, one thread", lambda machine: machine.roof("memory", all_threads=False)),
    ("Memory, all cores", lambda machine: machine.roof("memory", all_threads=True)),
    ("INT8 over FP32", lambda machine: machine.number("machine", "int8-over-fp32")),
    ("Call of an empty function", lambda machine: machine.number("machine", "empty-call")),
    ("Ratio of the same code to itself", lambda machine: machine.number("machine", "same-code")),
)


def _scale(numbers: list[Json | None]) -> Scale | None:
    """Return the one scale of a column; None where its numbers have several units, as only a false file's do."""
    there = [number for number in numbers if number is not None]
    units = {number["unit"] for number in there}
    return common_scale((number["value"] for number in there), units.pop()) if len(units) == 1 else None


def _number_cell(number: Json | None, scale: Scale | None) -> str:
    if number is None:
        return '<td class="numeric">–</td>'
    shown = format_record(number, scale=scale)
    spread = f' <span class="spread">{escape(shown.beside)}</span>' if shown.beside else ""
    value = f'data-value="{float(number["value"])!r}"'
    return f'<td class="numeric" {value}>{escape(shown.cell if scale else shown.cell_text)}{spread}</td>'


def _claims(machine: Machine) -> str:
    verdicts = [
        record["verdict"] for entry in machine.made["pages"] for record in entry["records"] if "verdict" in record
    ]
    if not verdicts:
        return "no claims tested"
    return "claims: " + ", ".join(
        f"{verdicts.count(verdict)} {verdict}" for verdict in OF_CLAIMS if verdict in verdicts
    )


def _row(machine: Machine, scales: list[Scale | None]) -> str:
    where = machine.made["pages"][0]["provenance"]
    about = where["machine"]
    libraries = ", ".join(
        dict.fromkeys(f"{blas_label(one)} ({one['core'] or 'unknown'} kernels)" for one in where["blas"])
    )
    day = datetime.fromisoformat(where["when"])
    notes = (
        machine.made["note"],
        about["cpu"] if about["cpu"] != machine.made["label"] else "",
        f"{about['cores_usable']} of {about['cores_logical']} cores, {about['vectors'] or 'vectors unknown'}",
        libraries or "no BLAS",
        about["system"],
        _claims(machine),
    )
    below = "".join(f' <span class="machine-note">{escape(text)}</span>' for text in notes if text)
    made = f'<time class="machine-note" datetime="{day.isoformat()}">{day:%d %B %Y}</time>'
    name = f'<a href="{escape(machine.address)}" download>{escape(machine.made["label"])}</a>'
    return (
        f'<tr><th scope="row">{name}{below} {made}</th>'
        + "".join(_number_cell(find(machine), scale) for (_, find), scale in zip(NUMBERS, scales, strict=True))
        + "</tr>"
    )


def table_html(machines: list[Machine]) -> str:
    """Return the table of machines; a sentence if there is none."""
    if not machines:
        return "<p>Nobody has sent in a machine yet, and this build measured nothing.</p>"
    scales = [_scale([find(machine) for machine in machines]) for _, find in NUMBERS]
    units = [f" ({scale.symbol})" if scale and scale.symbol else "" for scale in scales]
    head = '<th scope="col">Machine</th>' + "".join(
        f'<th scope="col" class="numeric">{name}<span class="unit">{escape(unit)}</span></th>'
        for (name, _), unit in zip(NUMBERS, units, strict=True)
    )
    rows = "\n".join(_row(machine, scales) for machine in machines)
    caption = "Machines that ran the book, with their files: medians and their intervals"
    return table_region("machines", caption, head, rows, classes=TABLE_CLASS)


class MachinesNode(LateHtml):
    """Place of the table of machines."""

    def html(self, app: Sphinx, docname: str) -> str:
        """Return the table: this build's machine, then those sent in, by label."""
        up = "../" * docname.count("/")
        book = book_measurements(app.env)
        own = [Machine(book, f"{up}{FOLDER}/book.json")] if book else []
        sent = [Machine(made, f"{up}{FOLDER}/{quote(name)}") for name, made in sent_in(app).items()]
        return table_html([*own, *sorted(sent, key=lambda machine: machine.made["label"].casefold())])


class MachinesDirective(SphinxDirective):
    """``{machines-table}``: all machines of the folder of measurements."""

    def run(self) -> list[nodes.Node]:
        """Return the place of the table; the page is read again when a file comes, changes or goes."""
        folder = Path(self.env.srcdir, self.config.measurements_folder).resolve()
        state_of(self.env).of(self.env.docname).files |= files_of(self.env, [str(folder)])
        return [MachinesNode()]


def _files(app: Sphinx) -> list[Path]:
    return sorted(Path(app.srcdir, app.config.measurements_folder).resolve().glob("*.json"))


def sent_in(app: Sphinx) -> dict[str, Json]:
    """Return each file of the folder of measurements by name; one that cannot be used is a warning."""
    found: dict[str, Json] = {}
    for path in _files(app):
        try:
            found[path.name] = read_measurements(path)
        except ValueError as error:
            LOGGER.warning("measurements: %s [machines]", error, type="machines")
    return found


def copy_files(app: Sphinx, exception: Exception | None) -> None:
    """Put the files into the site, each where its row's link leads, unless they lie there."""
    if exception is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir, FOLDER)
    there = [path for path in _files(app) if _is_copied(path, folder / path.name)]
    sent = sent_in(app) if len(there) < len(_files(app)) else {}
    for path in _files(app):
        if path.name in sent:
            folder.mkdir(exist_ok=True)
            shutil.copyfile(path, folder / path.name)


def _is_copied(path: Path, copy: Path) -> bool:
    return copy.is_file() and copy.read_bytes() == path.read_bytes()


def setup(app: Sphinx) -> None:
    """Connect to the reading and writing of pages."""
    app.add_config_value("measurements_folder", "../measurements", "env", str)
    app.add_directive("machines-table", MachinesDirective)
    load_where(app, (TABLE_CLASS,), (STYLE,))
    app.connect("build-finished", copy_files)
