"""Collector of the book's state: what is kept of a page when it was read, and what other pages then show."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.environment.collectors import EnvironmentCollector

from measured_book.elements.numbering import labels_in
from measured_book.execution.key import files_of
from measured_book.execution.results import executed_notebook
from measured_book.execution.runs import page_run
from measured_book.notebooks.package import source_of
from measured_book.pages.api import codes_in
from measured_book.pages.glossary import words_in
from measured_book.pages.references import sources_in
from measured_book.pages.uses import calls_of
from measured_book.records.agreement import agree
from measured_book.site.search import description_of
from measured_book.state import reading_order, state_of
from tinytorch import settings


class BookCollector(EnvironmentCollector):
    """Keeper of `BookState` as pages come and go.

    It merges nothing from other processes: the extension says that pages are read one after the other.
    """

    def clear_doc(self, app: Sphinx, env: BuildEnvironment, docname: str) -> None:  # noqa: ARG002
        """Forget a page before it is read again, or because it is gone."""
        state_of(env).forget(docname)

    def process_doc(self, app: Sphinx, doctree: nodes.document) -> None:
        """Keep what a page gave that was just read; its records were taken while it was."""
        docname, state = app.env.docname, state_of(app.env)
        page = state.of(docname)
        page.sources = sources_in(doctree)
        page.labels = labels_in(doctree)
        page.codes = codes_in(doctree)
        page.about = description_of(doctree)
        page.files |= files_of(app.env, app.env.dependencies[docname])
        page.words, page.headings = words_in(doctree), app.env.tocs[docname].astext()
        notebook = executed_notebook(app.env, docname)
        if notebook is not None:
            cells = [str(cell.source) for cell in notebook.cells if cell.cell_type == "code"]
            page.calls = calls_of(cells, app)
            page.run = page_run(notebook, page.records.provenance["when"] if page.records is not None else None)

    def get_updated_docs(self, app: Sphinx, env: BuildEnvironment) -> list[str]:  # noqa: ARG002
        """Return the pages to write again, now that all are read."""
        state, order = state_of(env), reading_order(env)
        # As they are after a build from nothing, whatever was read now.
        state.pages = dict(sorted(state.pages.items(), key=lambda item: order.get(item[0], len(order))))
        source = source_of(env)
        wheel = source.wheel if source is not None else None
        again = state.begin_writing(wheel, of_all=not settings.SETTINGS.build_pages) | agree(state)
        return sorted(again & env.found_docs)
