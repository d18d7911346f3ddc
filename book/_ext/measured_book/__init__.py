"""Sphinx extension of the book: executes its pages, puts their records into their text, and makes the site of them.

Each package imports only from packages below it, as `make lint` checks::

    site        the frame around pages, search, sections, and the collector of what pages gave
    machines    explorers and tables of other machines
    pages       directives of single pages: exercises, reference, glossary, lists
    records     what records say on a page: numbers, verdicts, claims, predictions, the card
    notebooks   files that a page offers for download
    elements    nodes that pages are made of, and how these are numbered
    execution   runs of pages, the cache of their results, the records in their notebooks
    state       what the environment keeps of each page
    sources     files of the book as they are written

It is listed last among the book's extensions: whatever others add to a page comes before what the site makes of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the exercises' notebooks are made where there is no Sphinx
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def setup(app: Sphinx) -> ExtensionMetadata:
    """Connect all parts in the order in which they work on a page."""
    setup_content(app)
    setup_site(app)
    return {
        "version": "1",
        "env_version": 16,
        # A page runs when it is read, and one that runs beside another disturbs its timing.
        "parallel_read_safe": False,
        "parallel_write_safe": False,  # what is written is noted: `BookState.written`
    }


def setup_content(app: Sphinx) -> None:
    """Connect what pages hold: records, their notebooks, elements that are made of them."""
    # Within the function, as are those below, so that who needs one part does not load all.
    from measured_book.elements import drawings, exhibits, nodes, numbering
    from measured_book.execution import cache, events, failures
    from measured_book.machines import cluster, explorers, repeated_builds, table
    from measured_book.notebooks import downloads
    from measured_book.pages import api, exercises, front, glossary, lists, opening, reading, references
    from measured_book.records import card, other_outcome, predictions, roles
    from measured_book.site.collector import BookCollector
    from measured_book.sources import repository

    app.setup_extension("myst_nb")
    repository.setup(app)
    events.setup(app)
    cache.setup(app)
    roles.setup(app)
    nodes.setup(app)
    drawings.setup(app)
    exercises.setup(app)
    app.add_env_collector(BookCollector)
    glossary.setup(app)
    predictions.setup(app)
    references.setup(app)
    lists.setup(app)
    api.setup(app)
    front.setup(app)
    opening.setup(app)
    exhibits.setup(app)
    numbering.setup(app)
    explorers.setup(app)
    cluster.setup(app)
    table.setup(app)
    repeated_builds.setup(app)
    card.setup(app)
    reading.setup(app)
    downloads.setup(app)
    failures.setup(app)
    other_outcome.setup(app)


def setup_site(app: Sphinx) -> None:
    """Connect what the site makes of pages: its address, formulas, drawings, assets and policy."""
    from measured_book.site import drawings, frame, math, publishing, search, sections, security

    math.setup(app)
    search.setup(app)
    sections.setup(app)
    drawings.setup(app)
    frame.setup(app)
    security.setup(app)
    publishing.setup(app)
