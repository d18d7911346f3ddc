"""Notebooks that a page offers: as it ran, empty for a reader who runs it, and one that brings the package along.

Each reads whole by itself. Their text is plain Markdown: in the one that ran, the numbers stand in it; in the others
their names do, under which the cells print what they find.
"""

import copy
from collections.abc import Iterator
from typing import Any

import nbformat
from sphinx.environment import BuildEnvironment

from measured_book.notebooks.exercises import (
    CHECK,
    SOLUTION,
    exercise_skeleton,
    exercises_in,
    is_tagged,
    notebook_name,
)
from measured_book.notebooks.markdown import (
    ExerciseRenderer,
    ReaderRenderer,
    Renderer,
    plain_markdown,
    texts_of,
)
from measured_book.notebooks.package import install_cell, source_of
from measured_book.state import PageRecords, state_of
from tinytorch.prose import TAG, Outcome, code_of, is_of_text, parts
from tinytorch.report.kinds import of_kind
from tinytorch.report.records import NUMBER_KINDS, RECORD_MIME, Json

FOLDER = "_notebooks"
#: Cells that the page does not show; a notebook folds them.
_FOLDED = ("remove-cell", "remove-input", "hide-cell", "hide-input")
#: Lets a run of all cells go on behind a check of an exercise that nobody has written yet.
_MAY_FAIL = "raises-exception"
_AS_IT_RAN = (
    "*This is a page of a book, as it ran when the book was built; the last cell says where and when. "
    "Numbers in bold come from these cells, with their intervals in brackets.*"
)
_TO_RUN = (
    "*This is a page of a book, to run from top to bottom. Where its text holds a name, such as `{name}`, "
    "a cell prints a number or a word under that name: it is your machine's, and may be another than the book's.*"
)


def _bundle(record: Json, data: Json) -> Json:
    """Return what a notebook shows for an output that holds a record, by MIME type."""
    if record["kind"] == "figure" and "image/png" in data:
        return {"image/png": data["image/png"], "text/plain": record["alt"]}
    return {"text/html": of_kind(record).html(data.get("text/html")), "text/plain": of_kind(record).text()}


def _outputs(cell: nbformat.NotebookNode) -> Iterator[nbformat.NotebookNode]:
    """Yield a cell's outputs as any notebook shows them, without the records, which the site offers by themselves."""
    for output in cell.outputs:
        record = output.get("data", {}).get(RECORD_MIME)
        if record is None:
            yield output
            continue
        bundle = _bundle(record, output["data"])
        yield nbformat.v4.new_output("display_data", bundle)
        if "image/png" in bundle:  # the HTML of a figure has its caption
            yield nbformat.v4.new_output("display_data", {"text/markdown": record["caption"]})


def _tidy(cell: nbformat.NotebookNode) -> None:
    """Fold the code of cells that the page does not show: for JupyterLab, and for Colab."""
    tags = cell.metadata.get("tags", [])
    cell.metadata = nbformat.NotebookNode({"tags": list(tags)} if tags else {})
    if cell.cell_type == "code" and any(tag in tags for tag in _FOLDED):
        cell.metadata["jupyter"] = {"source_hidden": True}
        cell.metadata["cellView"] = "form"


def _with_cells(cells: list[nbformat.NotebookNode]) -> nbformat.NotebookNode:
    """Return a notebook of these cells, whose ids are the same in every build."""
    # Not what the kernel said of itself: a result that was taken from the cache no longer has it.
    kept = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    made = nbformat.v4.new_notebook(cells=cells, metadata=kept)
    for index, cell in enumerate(made.cells):
        cell["id"] = f"cell-{index}"
    return made


def _prepared(notebook: nbformat.NotebookNode, renderer: Renderer) -> list[nbformat.NotebookNode]:
    """Return copies of the cells, tidy and in plain Markdown, with their outputs shared; cells without text go."""
    cells, above = [copy.copy(cell) for cell in notebook.cells], ""
    for cell in cells:
        if is_of_text(cell):
            found = list(parts(above))
            told = {one: texts_of(one, renderer) for one in found if isinstance(one, Outcome)}
            above, cell.source = "", code_of(found, told) or cell.source
        _tidy(cell)
        if cell.cell_type == "markdown":
            above, cell.source = cell.source, plain_markdown(cell.source, renderer)
    return [cell for cell in cells if cell.source.strip()]


def _behind_title(cells: list[nbformat.NotebookNode], note: str) -> list[nbformat.NotebookNode]:
    return [*cells[:1], nbformat.v4.new_markdown_cell(note), *cells[1:]]


def _where(page: PageRecords) -> str:
    """Return where and when the page ran, as Markdown."""
    made = page.provenance
    package = made["package"]
    commit = f", commit {package['commit'][:10]}" if package["commit"] else ""
    changed = " and changed since" if package["changed"] else ""
    facts = [
        *of_kind(made).text().splitlines(),
        f"{made['when'][:16].replace('T', ', ')} UTC.",
        f"{package['name']} {package['version']}{commit}{changed}; Python {made['python']}, NumPy {made['numpy']}.",
    ]
    return "## Where and when this ran\n\n" + "\n".join(f"- {fact}" for fact in facts)


def as_it_ran(env: BuildEnvironment, docname: str, notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return the page's notebook with the book's results, in its text too, and with where they were made."""
    renderer = Renderer(env, docname)
    # Whose text has the numbers, so that no cell needs to print them.
    cells = [cell for cell in _prepared(notebook, renderer) if TAG not in cell.metadata.get("tags", ())]
    cells = _behind_title(cells, _AS_IT_RAN)
    for cell in cells:
        if cell.cell_type == "code":
            cell.outputs = list(_outputs(cell))
    page = state_of(env).of(docname).records
    if page is not None:
        cells.append(nbformat.v4.new_markdown_cell(_where(page)))
    return _with_cells(cells)


def emptied(env: BuildEnvironment, docname: str, notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return the page's notebook without results, its exercises as a reader begins with them."""
    cells = _prepared(notebook, ReaderRenderer(env, docname))
    for cell in cells:
        if cell.cell_type != "code":
            continue
        cell.outputs, cell.execution_count = [], None
        if is_tagged(cell.metadata, SOLUTION):
            cell.source = exercise_skeleton(cell.source).rstrip("\n")
            del cell.metadata["tags"]
        if is_tagged(cell.metadata, CHECK):
            cell.metadata["tags"] = [*cell.metadata["tags"], _MAY_FAIL]
    page = state_of(env).of(docname).records
    name = next((record["key"] for record in page.of_kind(*NUMBER_KINDS)), "latency") if page else "latency"
    return _with_cells(_behind_title(cells, _TO_RUN.format(name=name)))


def extra_of(notebook: nbformat.NotebookNode) -> str:
    """Return the extras of the package that the notebook's cells need: an MPI to start ranks, onnx to read files."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    needed = {"mpi": "tinytorch.perf.distributed", "onnx": "from_onnx"}
    extras = [extra for extra, word in needed.items() if any(word in source for source in code)]
    return f"[{','.join(extras)}]" if extras else ""


def self_contained(empty: nbformat.NotebookNode, install: str) -> nbformat.NotebookNode:
    """Return an empty notebook that installs the package first, for Colab and other places without a checkout."""
    note = "*The first cell installs the book's package. If it replaces a package that is in use, restart once.*"
    cells = [nbformat.v4.new_markdown_cell(note), nbformat.v4.new_code_cell(install), *copy.deepcopy(empty.cells)]
    made = _with_cells(cells)
    made.metadata["colab"] = {"provenance": []}
    return made


def _commit(env: BuildEnvironment, docname: str) -> str | None:
    """Return the commit that the page's package was of; None if it was changed since, or there is none."""
    page = state_of(env).of(docname).records
    package: dict[str, Any] = page.provenance["package"] if page is not None else {}
    return package.get("commit") if package.get("changed") is False else None


def notebook_files(env: BuildEnvironment, docname: str, executed: nbformat.NotebookNode) -> dict[str, str]:
    """Return the text of each notebook of a page by its file's name, relative to `FOLDER`."""
    empty = emptied(env, docname, executed)
    made = {f"{docname}.ipynb": as_it_ran(env, docname, executed)}
    begun = {docname: empty}
    cells = _prepared(executed, ExerciseRenderer(env, docname))
    for function, exercise in exercises_in(cells, env.titles[docname].astext()):
        begun[notebook_name(docname, function)] = _with_cells(exercise)
    source = source_of(env)
    for name, notebook in begun.items():
        made[f"{name}-empty.ipynb"] = notebook
        if source is not None:
            install = install_cell(source, _commit(env, docname), extra_of(notebook))
            made[f"{name}-colab.ipynb"] = self_contained(notebook, install)
    return {name: nbformat.writes(notebook) + "\n" for name, notebook in made.items()}
