"""Loads the styles and scripts of a feature on the page that is being written."""

from __future__ import annotations

from collections.abc import Sequence

from sphinx.application import Sphinx

#: What all explorers of pages need before their own.
EXPLORER_STYLES = ("explorer.css",)
EXPLORER_SCRIPTS = ("your-machine-numbers.js", "your-machine-tables.js", "explorer.js", "roofline-model.js")


def load_files(app: Sphinx, styles: Sequence[str], scripts: Sequence[str], priority: int) -> None:
    """Load these files of ``_static`` in this order, behind those of a lower ``priority``; scripts when all is read."""
    for place, name in enumerate(styles):
        app.add_css_file(name, priority=priority + place)
    for place, name in enumerate(scripts):
        app.add_js_file(name, loading_method="defer", priority=priority + place)
