"""What a cell shows: a record for the book's build, and HTML and text for eyes, published once."""

from __future__ import annotations

import base64
import os
import sys
from dataclasses import dataclass
from typing import Any

from tinytorch.report.records import Record

#: The MIME type under which records stand in the outputs of an executed notebook.
RECORD_MIME = "application/vnd.tinytorch.record+json"
#: Set while the book is built: numbers and words then show nothing below their cell, prose takes them by key.
BUILDING = "TINYTORCH_BUILDING_BOOK"


def is_building() -> bool:
    """Return whether the cells run for the book's build, not for a reader."""
    return BUILDING in os.environ


@dataclass(frozen=True)
class Shown:
    """A record with its renderings.

    It is published when it is made, so that each of several in one cell arrives; as a cell's last expression
    it shows nothing a second time.

    Attributes:
        record: what is shown.
        text: for a terminal.
        html: for a reader's notebook.
        on_page: HTML for the place of the cell on the book's page; None for what only its prose shows.
        png: a figure as a bitmap, for places that show no other drawing.
    """

    record: Record
    text: str
    html: str
    on_page: str | None = None
    png: bytes | None = None

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:  # noqa: ARG002
        bundle: dict[str, Any] = {RECORD_MIME: self.record.to_json()}
        html = self.on_page if is_building() else self.html
        if html is not None:
            bundle |= {"text/html": html, "text/plain": self.text}
        if self.png is not None:
            bundle["image/png"] = base64.b64encode(self.png).decode("ascii")
        return bundle

    def _ipython_display_(self) -> None:
        """Show nothing: `publish` has shown it when it was made."""

    def publish(self) -> None:
        """Hand the record and its renderings to the notebook; does nothing outside of IPython."""
        ipython = sys.modules.get("IPython")
        if ipython is None or ipython.get_ipython() is None:
            return
        ipython.display.publish_display_data(self._repr_mimebundle_())

    def __str__(self) -> str:
        return self.text
