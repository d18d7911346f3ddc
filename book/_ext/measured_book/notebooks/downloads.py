"""Downloads that a page offers: its source, its notebooks, its records, its figures; and the files themselves."""

import io
import json
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import nbformat
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

from measured_book.elements.drawings import drawing_alone, standing_alone
from measured_book.elements.exhibits import FIGURES_FOLDER
from measured_book.execution.results import executed_notebook
from measured_book.notebooks.exercises import notebook_name
from measured_book.notebooks.files import FOLDER as NOTEBOOKS_FOLDER
from measured_book.notebooks.files import notebook_files
from measured_book.notebooks.package import kept_wheel, source_of
from measured_book.state import PageRecords, state_of
from tinytorch import settings
from tinytorch.report.records import RECORD_MIME

RECORDS_FOLDER = "_records"
#: Beside the site: the package's wheel, kept until the package changes.
WHEEL_FOLDER = "wheel"
#: What two of the downloads are called, which stand above a page, too.
SOURCE, NOTEBOOK = "source, as Markdown", "notebook, empty"
SOURCES_FOLDER = "_sources"

_TAG = re.compile(r"<svg\b|</svg>")
#: Archives hold no date but the earliest that the format knows, so that equal figures make equal files.
_EARLIEST = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Download:
    """File that a page offers: its kind in words, and its address from the site's root."""

    name: str
    path: str


def downloads_of(env: BuildEnvironment, docname: str) -> list[Download]:
    """Return what the page offers; all of it is written by `write_downloads`, the source by Sphinx."""
    found = []
    if env.config.html_copy_source:
        suffix = Path(env.doc2path(docname)).suffix
        added = env.config.html_sourcelink_suffix
        source = docname + suffix + (added if added != suffix else "")
        found.append(Download(SOURCE, f"{SOURCES_FOLDER}/{source}"))
    state = state_of(env).of(docname)
    page = state.records
    if page is None:
        return found
    found += [
        Download("notebook, executed", f"{NOTEBOOKS_FOLDER}/{docname}.ipynb"),
        Download(NOTEBOOK, f"{NOTEBOOKS_FOLDER}/{docname}-empty.ipynb"),
        *_for_colab(env, docname),
        Download("records with raw samples, as JSON", f"{RECORDS_FOLDER}/{docname}.json"),
    ]
    if page.of_kind("figure") or state.drawings:
        found.append(Download("figures, as SVG in a ZIP", f"{FIGURES_FOLDER}/{docname}.zip"))
    return found


def _for_colab(env: BuildEnvironment, docname: str) -> Iterator[Download]:
    """Yield the notebook that brings the package along, and the package's file where that is what it brings."""
    source = source_of(env)
    if source is None:
        return
    yield Download("notebook, for Colab", f"{NOTEBOOKS_FOLDER}/{docname}-colab.ipynb")
    if source.wheel is not None:
        yield Download("package that it installs", f"{NOTEBOOKS_FOLDER}/{source.wheel}")


def downloads_html(downloads: Sequence[Download], docname: str) -> str:
    """Return a list of links to the files for the page ``docname``."""
    up = "../" * docname.count("/")
    links = (f'<a href="{escape(up + file.path)}" download>{escape(file.name)}</a>' for file in downloads)
    return '<ul class="downloads">' + "".join(f"<li>{link}</li>" for link in links) + "</ul>"


def figure_path(docname: str, key: str) -> str:
    """Return the address of a figure's file from the site's root."""
    return f"{FIGURES_FOLDER}/{docname}/{key}.svg"


def drawings_in(notebook: nbformat.NotebookNode) -> Iterator[tuple[str, str]]:
    """Yield key and drawing of each figure that the cells recorded, as an SVG file's text: of two the wide."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            record = data.get(RECORD_MIME, {})
            if record.get("kind") == "figure" and (found := _first_drawing(data.get("text/html", ""))):
                yield str(record["key"]), standing_alone(found)


def _first_drawing(html: str) -> str:
    """Return the first drawing in ``html`` with those in it; empty without one."""
    depth, start = 0, 0
    for tag in _TAG.finditer(html):
        if not depth:
            start = tag.start()
        depth += -1 if tag[0] == "</svg>" else 1
        if not depth:
            return html[start : tag.end()]
    return ""


def archive(files: dict[str, str]) -> bytes:
    """Return a ZIP of these files; the same files give the same bytes."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as target:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EARLIEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            target.writestr(entry, files[name])
    return packed.getvalue()


def _records_text(page: PageRecords) -> str:
    return json.dumps(page.as_file(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _files_of(app: Sphinx, page: PageRecords) -> Iterator[tuple[str, bytes]]:
    """Yield the address from the site's root, and the content, of each file of a page; the records last."""
    figures: dict[str, bytes] = {}
    for figure in page.of_kind("figure"):
        figures |= {f"{page.docname}/{name}": text.encode() for name, text in figure.get("files", {}).items()}
    notebook = executed_notebook(app.env, page.docname)
    if notebook is not None:
        for name, text in notebook_files(app.env, page.docname, notebook).items():
            yield f"{NOTEBOOKS_FOLDER}/{name}", text.encode()
        drawn = {key: drawing_alone(app.env, page.docname, key) for key in state_of(app.env).of(page.docname).drawings}
        drawings = {f"{key}.svg": drawing for key, drawing in [*drawn.items(), *drawings_in(notebook)]}
        if drawings:
            figures |= {f"{page.docname}/{name}": drawing.encode() for name, drawing in drawings.items()}
            figures[f"{page.docname}.zip"] = archive(drawings)
    for name, content in figures.items():
        yield f"{FIGURES_FOLDER}/{name}", content
    yield f"{RECORDS_FOLDER}/{page.docname}.json", _records_text(page).encode()


def write_downloads(app: Sphinx, exception: Exception | None) -> None:
    """Write the files of each page that was written since they were, and the package, whose name these pages have."""
    if exception is not None or app.builder.format != "html":
        return
    site, pages = Path(app.outdir), state_of(app.env).records
    source = source_of(app.env)
    wheel: dict[str, bytes] = {}
    if source is not None and source.wheel is not None:
        wheel[source.wheel] = kept_wheel(Path(app.srcdir).parent, site.parent / WHEEL_FOLDER)
    replace_wheel(site / NOTEBOOKS_FOLDER, wheel, keep=bool(settings.SETTINGS.build_pages))
    old = {path.relative_to(site / RECORDS_FOLDER).with_suffix("") for path in (site / RECORDS_FOLDER).rglob("*.json")}
    for docname in (path.as_posix() for path in old):
        if docname not in pages:
            drop_files(site, docname)
    for docname, page in pages.items():
        # The records are written last: where they are, all is.
        written = site / RECORDS_FOLDER / f"{docname}.json"
        if written.is_file() and docname not in state_of(app.env).written:
            continue
        drop_files(site, docname)
        for name, content in _files_of(app, page):
            path = site / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def replace_wheel(folder: Path, wheel: Mapping[str, bytes], *, keep: bool) -> None:
    """Put ``wheel``, by name, into ``folder``, without others unless pages that are left as they are link to these."""
    for path in () if keep else folder.glob("*.whl"):
        path.unlink()
    for name, content in wheel.items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def drop_files(site: Path, docname: str) -> None:
    """Remove what an earlier build wrote of a page: its records first, without which all is written anew."""
    (site / RECORDS_FOLDER / f"{docname}.json").unlink(missing_ok=True)
    names = (docname, f"{docname}-empty", f"{docname}-colab", notebook_name(docname, "*"))
    for path in (path for name in names for path in (site / NOTEBOOKS_FOLDER).glob(f"{name}.ipynb")):
        path.unlink()
    (site / FIGURES_FOLDER / f"{docname}.zip").unlink(missing_ok=True)
    for file in (site / FIGURES_FOLDER / docname).glob("*.*"):
        if file.suffix != ".zip":  # which is of a page below this one
            file.unlink()


def setup(app: Sphinx) -> None:
    """Note which pages are written, and write the files when all are."""
    app.connect("html-page-context", lambda _, name, *__: state_of(app.env).written.add(name))
    app.connect("build-finished", write_downloads)
