"""Cards: the picture with which other sites show a link to a page: a question of the page, and what was measured."""

import hashlib
import io
import re
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.patches import Rectangle
from sphinx.application import Sphinx
from sphinxext import opengraph  # type: ignore[import-untyped]

from measured_book.elements.numbering import chapter_number
from measured_book.records.predictions import Prediction
from measured_book.state import BookState, state_of
from tinytorch.report.colors import HUES
from tinytorch.report.numbers import format_record
from tinytorch.report.records import NUMBER_KINDS

#: Relative to the site's root.
FOLDER = "_images/cards"
#: Pixels, as social networks show a picture without cutting it.
WIDTH, HEIGHT = 1200, 630
_DOTS = 100  # an inch
_TEAL, _INK, _MUTED = HUES["teal"][0], "#1b1f24", "#57606a"
#: Stands beside the extension, so that a card is the same on every machine.
_FONT = FontProperties(fname=str(Path(opengraph.__file__).parent / "_static" / "Roboto-Flex.ttf"))
#: Letters of a question that a card has room for, and of a line of it.
_LONGEST, _LINE = 150, 56
#: What a question may consist of besides words, which a picture shows as they are.
_PLAIN = (nodes.Text, nodes.emphasis, nodes.strong, nodes.inline, nodes.literal, nodes.reference)
_ASIDE = re.compile(r"\s*\([^)]*\)")


class Finding(NamedTuple):
    """A number with the question that it answers, or the sentence that it begins."""

    value: str
    words: str


def _question(prediction: Prediction) -> str:
    """Return the question without what stands in brackets; empty if it holds more than words."""
    paragraphs = [part for part in prediction.children if isinstance(part, nodes.paragraph)]
    found = [part for paragraph in paragraphs for part in paragraph.findall() if part is not paragraph]
    if not all(isinstance(part, (*_PLAIN, nodes.paragraph)) for part in found):
        return ""
    return _ASIDE.sub("", " ".join(" ".join(each.astext() for each in paragraphs).split()))


def finding_of(state: BookState, docname: str, doctree: nodes.document) -> Finding | None:
    """Return the first question of a page that fits its card, with the measured value; None if there is none."""
    for prediction in doctree.findall(Prediction):
        record = state.find(prediction["reference"], docname, *NUMBER_KINDS)
        words = _question(prediction)
        if record is not None and 0 < len(words) <= _LONGEST and format_record(record).digits:
            return Finding(format_record(record).text, words)
    return None


def claims_of(state: BookState) -> Finding | None:
    """Return how many claims of the whole book did not hold; None if it tests none."""
    claims = [record for page in state.records.values() for record in page.of_kind("claim")]
    refuted = sum(record["verdict"] == "refuted" for record in claims)
    words = "statements about the performance of machine learning did not hold when this book tested them."
    return Finding(f"{refuted} of {len(claims)}", words) if claims else None


def draw(book: str, title: str, finding: Finding | None) -> bytes:
    """Return the card of a page as PNG."""
    figure = Figure(figsize=(WIDTH / _DOTS, HEIGHT / _DOTS), dpi=_DOTS, facecolor="white")
    figure.add_artist(Rectangle((0, 0), 0.018, 1, color=_TEAL))

    def write(height: float, words: str, size: float, color: str) -> None:
        look: dict[str, Any] = {"fontproperties": _FONT, "fontsize": size, "va": "top", "linespacing": 1.3}
        figure.text(0.07, height, words, color=color, **look)

    write(0.92, book, 20, _MUTED)
    write(0.83, textwrap.fill(title, 40), 34, _INK)
    if finding:
        write(0.55, finding.value, 74, _TEAL)
        write(0.29, textwrap.fill(finding.words, _LINE), 25, _INK)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", metadata={"Software": None})
    return drawn.getvalue()


def tags_of(app: Sphinx, docname: str, doctree: nodes.document) -> dict[str, Any]:
    """Return what a page says of its card, which is drawn unless the site has it: its name tells what is on it."""
    state, title = state_of(app.env), app.env.titles[docname].astext()
    number = chapter_number(app.env, docname)
    is_front = docname == app.config.root_doc
    finding = claims_of(state) if is_front else finding_of(state, docname, doctree)
    book = "" if is_front else str(app.config.html_title)
    on_it = (book, title if number is None else f"{number}. {title}", finding)
    source = Path(__file__).read_bytes()
    path = Path(FOLDER, hashlib.sha256(repr(on_it).encode() + source).hexdigest()[:16] + ".png")
    if not (file := Path(app.outdir, path)).is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        part.write_bytes(draw(*on_it))
        part.replace(file)  # whole or not there
    said = f"{title}: {finding.words} {finding.value}" if finding else title
    size = {"og:image:width": str(WIDTH), "og:image:height": str(HEIGHT)}
    return {"og:image": path.as_posix(), "og:image:alt": said, **size}
