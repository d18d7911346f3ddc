"""Sphinx extension of the book: executes its pages, puts their records into their text, and makes the site of them.

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
        "env_version": 14,
        # A page runs when it is read, and one that runs beside another disturbs its timing.
        "parallel_read_safe": False,
        "parallel_write_safe": False,  # what is written is noted: `BookState.written`
    }


def setup_content(app: Sphinx) -> None:
    """Connect what pages hold: records, their notebooks, elements that are made of them."""
    # Within the function, as are those below, so that who needs one part does not load all.
    from measured_book.collector import BookCollector
    from measured_book.execution import cache, events, failures, parts
    from measured_book.machines import cluster, device, explorers, repeated_builds, table
    from measured_book.notebooks import downloads
    from measured_book.pages import (
        api,
        drawings,
        elements,
        exercises,
        front,
        glossary,
        lists,
        numbering,
        reading,
        references,
    )
    from measured_book.records import card, exhibits, other_outcome, predictions, roles
    from measured_book.site import repository

    app.setup_extension("myst_nb")
    repository.setup(app)
    events.setup(app)
    cache.setup(app)
    roles.setup(app)
    elements.setup(app)
    drawings.setup(app)
    exercises.setup(app)
    app.add_env_collector(BookCollector)
    glossary.setup(app)
    predictions.setup(app)
    references.setup(app)
    lists.setup(app)
    api.setup(app)
    front.setup(app)
    exhibits.setup(app)
    numbering.setup(app)
    explorers.setup(app)
    cluster.setup(app)
    device.setup(app)
    table.setup(app)
    repeated_builds.setup(app)
    card.setup(app)
    reading.setup(app)
    downloads.setup(app)
    parts.setup(app)
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
