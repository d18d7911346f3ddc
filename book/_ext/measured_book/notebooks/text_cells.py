"""Notebooks of pages, with a hidden cell behind each text that names numbers or outcomes: see `tinytorch.prose`.

These cells are the notebook's like any other: their code is part of the page's key, so that a new expression runs the
page and an edit of other words does not. They are left out where a reader or an author counts cells: of the list of
executions, and of errors, which name a cell by its number.
"""

from pathlib import Path
from typing import Any

import nbformat
from myst_nb.core.read import create_nb_reader, read_myst_markdown_notebook

from tinytorch.prose import with_cells

#: How MyST-NB finds `with_text_cells`.
READER = f"{__name__}.with_text_cells"
_SOURCE_MAP = "source_map"


def with_text_cells(text: str, path: str, config: Any) -> nbformat.NotebookNode:
    """Return a page as a notebook with the cells of its texts.

    Raises:
        ValueError: if the texts of an outcome are not written as they must be; the message begins with the line.
    """
    notebook = read_myst_markdown_notebook(text, config=config, add_source_map=True, path=path)
    notebook.cells, lines = with_cells(notebook.cells, notebook.metadata[_SOURCE_MAP])
    notebook.metadata[_SOURCE_MAP] = lines
    return notebook


def page_notebook(path: Path, content: str, config: Any, settings: Any) -> nbformat.NotebookNode | None:
    """Return the page as the notebook that MyST-NB would execute, without outputs; None if it has no cells.

    Args:
        path: of the page.
        content: its text.
        config: of MyST.
        settings: of MyST-NB, without a reader of ours.

    Raises:
        ValueError: as `with_text_cells`.
    """
    if create_nb_reader(str(path), config, settings, content) is None:
        return None
    return with_text_cells(content, str(path), config)
