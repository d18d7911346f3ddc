"""What each page's last execution depended on and how long it took, so that a build can say why a page runs again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from page_key import PageParts, differences
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)
_VERSION = 1
_FIRST = "it runs here for the first time"
_GONE = "its result is no longer in the cache"


class PageHistory:
    """The last execution of each page, in a file beside the cache. It informs; no result rests on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pages: dict[str, dict[str, Any]] = {}
        if path.is_file():
            try:
                content = json.loads(path.read_text("utf-8"))
                if content["version"] == _VERSION:
                    self._pages = dict(content["pages"])
            except (ValueError, KeyError, TypeError):
                LOGGER.info("%s cannot be read: reasons for executing pages are not known", path)

    def why(self, docname: str, parts: PageParts) -> str:
        """Return in words why a page without a result for ``parts`` runs."""
        last = self._pages.get(docname)
        if last is None:
            return _FIRST
        return differences(last["parts"], parts.to_json()) or _GONE

    def seconds(self, docname: str) -> float | None:
        """Return how long the page last took, in seconds; None if that is not known."""
        last = self._pages.get(docname)
        return None if last is None else last["seconds"]

    def remember(self, docname: str, parts: PageParts, seconds: float | None) -> None:
        """Write down an execution that just ended."""
        self._pages[docname] = {"seconds": seconds, "parts": parts.to_json()}
        aside = self.path.with_name(f"{self.path.name}.new")
        aside.write_text(json.dumps({"version": _VERSION, "pages": self._pages}), "utf-8")
        aside.replace(self.path)
