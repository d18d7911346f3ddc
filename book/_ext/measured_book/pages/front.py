"""What the first page is made of: cards of the chapters, commands, how to cite.

``{chapters}``: parts and chapters as cards, each with its first sentence and a drawing. ``{commands}``: what a reader
runs, with the line that clones the repository. ``{citation}``: what CITATION.cff says.
"""

import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from measured_book.elements.nodes import LateHtml, add_place
from measured_book.elements.numbering import sidebar
from measured_book.sources.repository import Repository
from measured_book.state import state_of
from tinytorch.report.colors import color

#: Relative to the book's sources.
CITATION = "../CITATION.cff"


def _svg(*parts: str) -> str:
    return f'<svg viewBox="0 0 96 48" aria-hidden="true" focusable="false">{"".join(parts)}</svg>'


def _box(x: float, y: float, width: float, height: float, hue: str | None = None, opacity: float = 0.3) -> str:
    fill = "none" if hue is None else color(hue)
    stroke = "currentColor" if hue is None else color(hue)
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="1.5" fill="{fill}" '
        f'fill-opacity="{opacity:g}" stroke="{stroke}" stroke-width="1.5"/>'
    )


def _path(path: str, hue: str | None = None, width: float = 2) -> str:
    stroke = "currentColor" if hue is None else color(hue)
    return f'<path d="{path}" fill="none" stroke="{stroke}" stroke-width="{width:g}"/>'


def _dot(x: float, y: float, hue: str) -> str:
    return f'<circle cx="{x:g}" cy="{y:g}" r="3" fill="{color(hue)}"/>'


def _grid(x: float, y: float, size: float, rows: int, columns: int, kept: Callable[[int, int], bool]) -> str:
    return "".join(
        _box(x + column * size, y + row * size, size, size, "numpy" if kept(row, column) else None, 0.5)
        for row in range(rows)
        for column in range(columns)
    )


def _thumbnails() -> dict[str, str]:
    """Return the drawing of each chapter's card: what its mechanism looks like from afar."""
    layers = [_box(x, 18, 14, 12, "numpy") for x in (6, 26, 46)]
    steps = [("baseline", 36), ("numpy", 28), ("numpy", 16), ("compiled", 4)]
    ladder = [_box(8 + 20 * place, top, 12, 44 - top, hue) for place, (hue, top) in enumerate(steps)]
    ranks = [_dot(x, y, "numpy") for x in (30, 66) for y in (12, 36)]
    codes = _path("M6 26h14v-8h14v10h14v-6h14v-6h14v6h14", "numpy")
    apart = [_path("M14 12h34M14 7v10M48 7v10", "baseline"), _path("M50 34h26M50 29v10M76 29v10", "numpy")]
    return {
        "machine": _svg(_path("M6 10h22v10h22v10h22v10h18", "numpy"), _path("M6 4v40h86")),
        "profiling": _svg(_box(6, 8, 56, 8, "compiled"), _box(6, 20, 30, 8, "numpy"), _box(6, 32, 14, 8, "cached")),
        "memory": _svg(_grid(8, 6, 5, 8, 10, lambda row, column: column == 0 or row == 2)),
        "roofline": _svg(_path("M6 42L46 12h44", "numpy", 2.5), _dot(28, 34, "compiled"), _dot(66, 20, "compiled")),
        "quantization": _svg(_path("M6 30C26 4 36 44 52 22S80 10 90 24"), codes),
        "better_rounding": _svg(
            _path("M6 42V6M6 42H92"),
            *(_dot(14 + 16 * at, 38 - 6 * at, "numpy") for at in range(5)),
            _path("M12 24h72", "compiled"),
        ),
        "compression": _svg(_grid(24, 4, 8, 5, 6, lambda row, column: (row * 5 + column * 3) % 4 == 0)),
        "acceleration": _svg(*ladder),
        "whole_model": _svg(*layers, _path("M64 24h8"), _box(76, 10, 14, 28, "compiled")),
        "memoization": _svg(_grid(24, 4, 8, 5, 5, lambda row, column: column < row), _box(70, 4, 8, 40, "compiled")),
        "serving": _svg(
            *(_box(8 + 22 * at, 4 + 14 * row, 18, 10, "compiled") for row in range(3) for at in range(row + 2))
        ),
        "noise": _svg(
            *(_dot(14 + 9 * at, 24 + 5 * up, "numpy") for at, up in enumerate((0, 2, -1, 1, -3, 0, 3, -2))),
            _path("M6 24h80"),
        ),
        "benchmarking": _svg(*apart, _dot(30, 12, "baseline"), _dot(62, 34, "numpy")),
        "your_model": _svg(_path("M20 6h18l8 8v28H20z"), _path("M54 24h14"), _box(74, 12, 16, 24, "compiled")),
        "distributed": _svg(_path("M30 12h36a12 12 0 0 1 0 24H30a12 12 0 0 1 0-24z"), *ranks),
        "capstone": _svg(_path("M8 42h16V32h18V22h18V12h18V4h12", "compiled", 2.5)),
    }


class Chapters(LateHtml):
    """Cards of all chapters, by part."""

    def html(self, app: Sphinx, docname: str) -> str:
        """Return a heading for each part with numbered chapters, and its cards."""
        parts = []
        for part in sidebar(app, docname):
            cards = [_card(app, page) for page in part["pages"] if page["number"]]
            if cards:
                inside = "\n".join(cards)
                parts.append(f'<p class="part">{escape(part["name"])}</p>\n<ol class="cards">\n{inside}\n</ol>')
        return "\n".join(parts)


def _card(app: Sphinx, page: dict[str, Any]) -> str:
    about = state_of(app.env).of(page["name"]).about
    drawing = _thumbnails().get(page["name"], _svg(_path("M6 42L46 12h44", "numpy")))
    return (
        f'<li class="card measured-figure">{drawing}<p class="card-title"><span class="chapter-number">{page["number"]}'
        f'</span> <a href="{escape(page["address"])}">{escape(page["title"])}</a></p><p>{escape(about)}</p></li>'
    )


def bibtex(cited: dict[str, Any]) -> str:
    """Return an entry for BibTeX of what a CITATION.cff holds."""
    names = " and ".join(
        f"{{{author['name']}}}" if "name" in author else f"{author['family-names']}, {author['given-names']}"
        for author in cited["authors"]
    )
    fields = {"author": names, "title": f"{{{cited['title']}}}", "note": f"Version {cited['version']}"}
    if "date-released" in cited:
        fields["year"] = str(cited["date-released"])[:4]
    for name in ("doi", "url", "repository-code"):
        if name in cited:
            fields[name.replace("repository-code", "howpublished")] = str(cited[name])
    inside = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"@misc{{measured,\n{inside}\n}}"


def written_by(cited: dict[str, Any]) -> str:
    """Return a sentence with the authors and the version that a CITATION.cff holds."""
    names = [author.get("name") or f"{author['given-names']} {author['family-names']}" for author in cited["authors"]]
    inside = ", ".join(re.sub("^The ", "the ", name) for name in names)
    return f"Written by {inside}; version {cited['version']}."


class CitationDirective(SphinxDirective):
    """``{citation}``: the authors, and an entry for BibTeX."""

    def run(self) -> list[nodes.Node]:
        """Return both; the page is read again when the file changes."""
        path = (Path(self.env.srcdir) / CITATION).resolve()
        self.env.note_dependency(str(path))
        cited = yaml.safe_load(path.read_text("utf-8"))
        said = nodes.paragraph("", f"{written_by(cited)} To cite it:")
        entry = bibtex(cited)
        return [said, nodes.literal_block(entry, entry, language="bibtex")]


def commands(repository: Repository | None, lines: Sequence[str]) -> str:
    """Return lines for a shell in a clone, after the line that makes the clone, if its address is known."""
    clone = [f"git clone {repository.url} && cd {repository.url.rpartition('/')[2]}"] if repository else []
    return "\n".join([*clone, *lines])


class CommandsDirective(SphinxDirective):
    """``{commands}``: what a reader runs, as its lines say."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the lines as code."""
        code = commands(self.config.book_repository, list(self.content))
        return [nodes.literal_block(code, code, language="bash")]


def setup(app: Sphinx) -> None:
    """Register the directives."""
    app.add_directive("commands", CommandsDirective)
    add_place(app, "chapters", Chapters)
    app.add_directive("citation", CitationDirective)
