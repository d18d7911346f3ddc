"""``{cluster-explorer}``: a cluster and a model of the reader's choice, how best to split one over the other.

What is shown is modelled: the grid that `tinytorch.chapters.distributed.explorer` computes is shown by a script, which
computes nothing. It is a script itself, fetched when a reader comes near, as it is a sixth of what its page would
hold. Without JavaScript the page's own table and figure of the first cluster stay.
"""

from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from measured_book.elements.nodes import EXPLORER_SCRIPTS, EXPLORER_STYLES, LateHtml, load_where
from measured_book.machines.explorers import FOLDER, script
from tinytorch.chapters.distributed.explorer import grid
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.report.records import Json

PLACE = 'class="cluster-explorer"'
STYLES = (*EXPLORER_STYLES, "cluster.css")
#: The grid's file in the site, a script that gives pages the global `GRID`.
FILE, GRID = f"{FOLDER}/clusters.js", "tinytorchClusters"
#: In the order in which they need each other.
SCRIPTS = (*EXPLORER_SCRIPTS, "cluster-drawing.js", "cluster.js")


class ClusterExplorerNode(LateHtml):
    """The place of the explorer, which takes that of what the page shows without JavaScript."""

    def html(self, app: Sphinx, docname: str) -> str:
        """Return the place, and write its grid."""
        file = Path(app.outdir, FILE)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, grid_script(grid()))
        return explorer_html("../" * docname.count("/") + FILE, self["instead"])


def grid_script(made: Json) -> str:
    """Return the script that gives pages the grid."""
    return script(GRID, made)


def explorer_html(address: str, instead: list[str]) -> str:
    """Return the place for the scripts, with the address of the grid that they show, and ids of what they replace."""
    return f'<div {PLACE} data-instead="{escape(" ".join(instead))}" data-grid="{escape(address)}"></div>'


class ClusterExplorerDirective(SphinxDirective):
    """``{cluster-explorer}``, with the ids of what it replaces."""

    option_spec: ClassVar[dict[str, Any]] = {"instead": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        """Return the place."""
        node = ClusterExplorerNode(instead=self.options.get("instead", "").split())
        self.set_source_info(node)
        return [node]


def setup(app: Sphinx) -> None:
    """Register the directive and its files."""
    app.add_directive("cluster-explorer", ClusterExplorerDirective)
    load_where(app, (PLACE,), STYLES, SCRIPTS)
