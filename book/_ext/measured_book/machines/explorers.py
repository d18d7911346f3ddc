"""Explorers of a reader's machine and of its roofline beside the book's, and the measurements that they compare with.

What is compared is written as scripts, since a page that was opened from a folder can load these and nothing else.
"""

import json
import shutil
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from measured_book.elements.nodes import EXPLORER_SCRIPTS, EXPLORER_STYLES, LateHtml, add_place, load_where
from measured_book.sources.names import split_reference
from measured_book.state import state_of
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.report import measurements
from tinytorch.report.numbers import format_record
from tinytorch.report.records import Json
from tinytorch.report.records import schema as record_schema

#: The folder of the site that holds files of measurements.
FOLDER = "_measurements"
#: The page whose tables are the roofs and points of the interactive roofline.
ROOFS_PAGE, ROOFS_TABLES = "your_machine", ("roofs", "ops")
#: Experiments of `device.js` that draw their result over a figure of the book.
DEVICE_CURVES = {"memory": "memory:staircase"}
#: In the order in which they need each other.
SCRIPTS = (*EXPLORER_SCRIPTS, "your-machine-check.js", "your-machine.js", "roofline-drawing.js", "roofline.js")
STYLES = ("your-machine.css", *EXPLORER_STYLES, "roofline.css")
#: Roofs of machines that the book did not measure, as their makers publish them, each with its source.
#: Peaks in operations a second without sparsity, 2 for each multiply-add, and bandwidths in B/s.
PUBLISHED: tuple[Json, ...] = (
    {
        "name": "NVIDIA A100, 40 GB",
        "short": "A100",
        "source": "NVIDIA A100 Tensor Core GPU Architecture, 2020",
        "address": "https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf",
        "peaks": [["FP32", 19.5e12], ["BF16", 312e12], ["INT8", 624e12]],
        "levels": [["memory", 1555e9]],
    },
    {
        "name": "Google TPU v5e",
        "short": "TPU v5e",
        "source": "Google Cloud, TPU v5e",
        "address": "https://cloud.google.com/tpu/docs/v5e",
        "peaks": [["BF16", 197e12], ["INT8", 393e12]],
        "levels": [["memory", 819e9]],
    },
)


class YourMachineNode(LateHtml):
    """Place where a file that `tinytorch measure` wrote is taken, and shown beside the book's."""

    def html(self, app: Sphinx, docname: str) -> str:  # noqa: ARG002 - others ask the application
        """Return the place, with what it holds for a browser without JavaScript."""
        up = "../" * docname.count("/")
        return (
            f'<div class="your-machine" data-book="{up}{FOLDER}/book.js">\n'
            "<p>A browser with JavaScript takes your file here, and sends it nowhere. Without, compare it with "
            f'<a href="{up}{FOLDER}/book.json" download>the file of the book’s machine</a> line by line: '
            "each record has a line of its own.</p>\n</div>\n"
        )


class RooflineExplorerNode(LateHtml):
    """Place of the interactive roofline, which takes that of the drawn one."""

    def html(self, app: Sphinx, docname: str) -> str:  # noqa: ARG002 - others ask the application
        """Return the place; the drawn figure above it stays where there is no JavaScript."""
        up = "../" * docname.count("/")
        return (
            f'<div class="roofline-explorer" data-instead="{escape(self["instead"])}"></div>\n'
            f'<script src="{up}{FOLDER}/roofs.js" defer></script>'
        )


class DeviceNode(LateHtml):
    """Place of an experiment. Attributes: ``experiment``, and ``curve``, the figure with the book's own results."""

    def html(self, app: Sphinx, docname: str) -> str:
        """Return the place, which the script fills, with the book's curve, if this build has it."""
        figure = state_of(app.env).find(self["curve"], docname, "figure") if self["curve"] else None
        data = {"experiment": self["experiment"]}
        if figure is not None:
            points = [
                [number["conditions"]["instrument"]["working_set_bytes"], round(1e9 * number["value"], 3)]
                for series in figure["series"]
                for number in series["numbers"]
            ]
            data |= {"key": self["curve"], "book": json.dumps(points)}
        attributes = "".join(f' data-{name}="{escape(value)}"' for name, value in data.items())
        return f'<div class="device"{attributes}></div>'


class DeviceDirective(SphinxDirective):
    """``{device} NAME``: an experiment of `device.js` on the reader's own device; without JavaScript, nothing."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the place; the page is written again when the book's curve changes."""
        experiment = self.arguments[0]
        curve = DEVICE_CURVES.get(experiment)
        if curve is not None:
            state_of(self.env).of(self.env.docname).uses.add(split_reference(curve, self.env.docname)[0])
        return [DeviceNode(experiment=experiment, curve=curve)]


def book_measurements(env: BuildEnvironment) -> Json | None:
    """Return the book's own file of measurements; None if no page measured anything."""
    entries = [measurements.page_entry(page.as_file()) for page in state_of(env).records.values()]
    return measurements.document("The machine that built the book", entries) if entries else None


def roofs_of(made: Json) -> Json:
    """Return of a file of measurements what the roofline is drawn from."""
    pages = [
        {**page, "records": [record for record in page["records"] if record["key"] in ROOFS_TABLES]}
        for page in made["pages"]
        if page["page"] == ROOFS_PAGE
    ]
    return {**made, "pages": pages}


def with_texts(made: Json) -> Json:
    """Return a file of measurements whose numbers also hold how pages show them, so that no script formats them."""
    records = (record for page in made["pages"] for record in page["records"])
    for number in (number for record in records for number in measurements.numbers_of(record)):
        shown = format_record(number)
        number["shown"] = {"cell": shown.cell_text, "beside": shown.beside, "text": shown.text}
    return made


def rules() -> Json:
    """Return what a browser checks a file by: both schemas, and the limits besides them."""
    return {
        "schema": measurements.schema(),
        "records": record_schema(),
        "limits": {
            "largest_bytes": measurements.LARGEST_BYTES,
            "longest_text": measurements.LONGEST_TEXT,
            "longest_list": measurements.LONGEST_LIST,
            "deepest": measurements.DEEPEST,
            "largest_number": measurements.LARGEST_NUMBER,
        },
    }


def script(name: str, value: Json) -> str:
    """Return a script that gives pages ``value`` as the global ``name``."""
    return f"globalThis.{name} = {json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(',', ':'))};\n"


def write_data(app: Sphinx, exception: Exception | None) -> None:
    """Write the book's measurements into the site: as a file to try, and as scripts to compare with and draw from."""
    if exception is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir, FOLDER)
    made = book_measurements(app.env)
    if made is None:
        shutil.rmtree(folder, ignore_errors=True)
        return
    titles = [[page["page"], app.env.titles[page["page"]].astext()] for page in made["pages"]]
    folder.mkdir(exist_ok=True)
    file = measurements.as_text(made)
    made = with_texts(made)
    for name, text in (
        ("book.json", file),
        ("book.js", script("tinytorchBook", {"measurements": made, "titles": titles, **rules()})),
        ("roofs.js", script("tinytorchRoofs", {"measurements": roofs_of(made), "published": list(PUBLISHED)})),
    ):
        write_whole(folder / name, text)


def setup(app: Sphinx) -> None:
    """Add the directives, their files, and the data that these read."""
    add_place(app, "your-machine", YourMachineNode)
    add_place(app, "roofline-explorer", RooflineExplorerNode, instead="figure-roofline")
    app.add_directive("device", DeviceDirective)
    load_where(app, ('class="device"',), ["device.css"], ["device.js"])
    load_where(app, ('class="your-machine"', 'class="roofline-explorer"'), STYLES, SCRIPTS)
    app.connect("build-finished", write_data)
