"""``{cluster-explorer}``: a cluster and a model of the reader's choice, how best to split one over the other.

What is shown is modelled: the grid that `tinytorch.chapters.distributed.explorer` computes is shown by a script, which
computes nothing. It is a script itself, fetched when a reader comes near, as it is a sixth of what its page would
hold. Without JavaScript the page's own table and figure of the first cluster stay.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from measured_book.machines.explorers import FOLDER, script
from measured_book.pages.elements import EXPLORER_SCRIPTS, EXPLORER_STYLES, LateHtml, load_files
from measured_book.state import split_reference, state_of
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

from tinytorch.chapters.distributed.explorer import ClusterPreset, grid
from tinytorch.perf.distributed.cluster_model.collective_costs import Cluster, GivenLink
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.report.records import ABSENT, NUMBER_KINDS, Json

LOGGER = logging.getLogger(__name__)
PLACE = 'class="cluster-explorer"'
STYLES = (*EXPLORER_STYLES, "cluster.css")
#: The grid's file in the site, a script that gives pages the global `GRID`.
FILE, GRID = f"{FOLDER}/clusters.js", "tinytorchClusters"
#: In the order in which they need each other.
SCRIPTS = (*EXPLORER_SCRIPTS, "cluster-drawing.js", "cluster.js")
#: What ``:machine:`` names, in this order: records of the page, with their units.
_MEASURED = (("alpha_s", "s"), ("beta_s_per_byte", "s/B"), ("flops_per_second", "FLOP/s"))


class ClusterExplorerNode(LateHtml):
    """The place of the explorer, which takes that of what the page shows without JavaScript."""

    of_all_pages = False

    def html(self, app: Sphinx, docname: str) -> str:
        """Return the place, and write its grid; the page's own machine comes last in it, if it was measured."""
        file = Path(app.outdir, FILE)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, grid_script(grid(self._own_machine(app, docname))))
        return explorer_html("../" * docname.count("/") + FILE, self["instead"])

    def _own_machine(self, app: Sphinx, docname: str) -> ClusterPreset | None:
        """Return the machine that built the page as a cluster; None if the page names none or did not measure it."""
        keys: list[str] = self["machine"]
        if not keys:
            return None
        state = state_of(app.env)
        values = {}
        for key, (name, unit) in zip(keys, _MEASURED, strict=True):
            record = state.find(key, docname, *NUMBER_KINDS, ABSENT)
            if record is None or record.get("unit", unit) != unit:
                LOGGER.warning("machine must name a record in %s, not %r [cluster]", unit, key, type="cluster")
                return None
            if record["kind"] == ABSENT:
                return None
            values[name] = record["value"]
        link = GivenLink(values["alpha_s"], values["beta_s_per_byte"])
        cores = state.records[docname].provenance["machine"]["cores_usable"]
        name = "the cores that built this page, linked alike everywhere"
        return ClusterPreset(name, Cluster(link, link, cores), values["flops_per_second"], None, ())


def grid_script(made: Json) -> str:
    """Return the script that gives pages the grid."""
    return script(GRID, made)


def explorer_html(address: str, instead: list[str]) -> str:
    """Return the place for the scripts, with the address of the grid that they show, and ids of what they replace."""
    return f'<div {PLACE} data-instead="{escape(" ".join(instead))}" data-grid="{escape(address)}"></div>'


class ClusterExplorerDirective(SphinxDirective):
    """``{cluster-explorer}``, with the ids of what it replaces, and records that describe the machine of the build."""

    option_spec: ClassVar[dict[str, Any]] = {
        "instead": directives.unchanged_required,
        "machine": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Return the place."""
        keys = self.options.get("machine", "").split()
        if keys and len(keys) != len(_MEASURED):
            names = ", ".join(f"{name} ({unit})" for name, unit in _MEASURED)
            LOGGER.warning(
                "machine must name %d records, of %s, not %d [cluster]",
                len(_MEASURED),
                names,
                len(keys),
                location=self.get_location(),
                type="cluster",
            )
            keys = []
        uses = state_of(self.env).of(self.env.docname).uses
        uses.update(split_reference(key, self.env.docname)[0] for key in keys)
        node = ClusterExplorerNode(instead=self.options.get("instead", "").split(), machine=keys)
        self.set_source_info(node)
        return [node]


def add_files(app: Sphinx, _: str, __: str, context: dict[str, Any], ___: nodes.document | None) -> None:
    """Load styles and scripts on the pages that have the place."""
    if PLACE in context.get("body", ""):
        load_files(app, STYLES, SCRIPTS)


def setup(app: Sphinx) -> None:
    """Register the directive and its files."""
    app.add_directive("cluster-explorer", ClusterExplorerDirective)
    app.connect("html-page-context", add_files)
