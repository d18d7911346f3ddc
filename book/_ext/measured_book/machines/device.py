"""``{device} NAME``: an experiment of `device.js` that readers run on their own device; without JavaScript, nothing."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from measured_book.elements.nodes import load_where, raw_html

PLACE = '<div class="device" data-experiment='


class DeviceDirective(SphinxDirective):
    """``{device}``, with the name of the experiment."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the place, which the script fills."""
        return [raw_html(f'{PLACE}"{self.arguments[0]}"></div>')]


def setup(app: Sphinx) -> None:
    """Register the directive and its files."""
    app.add_directive("device", DeviceDirective)
    load_where(app, (PLACE,), ["device.css"], ["device.js"])
