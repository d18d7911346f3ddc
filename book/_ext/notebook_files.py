"""The notebooks that a page offers for download: as it ran, and without results for a reader who runs it."""

from __future__ import annotations

import copy

import nbformat

FOLDER = "_notebooks"


def emptied(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return a copy of the notebook without outputs and counts of execution."""
    empty = copy.deepcopy(notebook)
    for cell in empty.cells:
        if cell.cell_type == "code":
            cell.outputs = []
            cell.execution_count = None
    return empty


def notebook_files(docname: str, executed: nbformat.NotebookNode) -> dict[str, str]:
    """Return the text of each notebook of a page by its file's name, relative to `FOLDER`."""
    return {
        f"{docname}.ipynb": nbformat.writes(executed),
        f"{docname}-empty.ipynb": nbformat.writes(emptied(executed)),
    }
