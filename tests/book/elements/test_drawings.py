"""The book's drawings are files that a hand can edit and a page shows; what is missing of one fails the build."""

import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from bs4 import BeautifulSoup
from measured_book.elements.drawings import FOLDER, STYLE, on_page, standing_alone
from measured_book.pages.lists import listed
from measured_book.sources.myst import fences
from measured_book.state import PageRecords, PageState

from tests.book.small_book import Book, Build, one
from tests.book.sphinx_process import SphinxProcess
from tinytorch.report.colors import HUES
from tinytorch.report.drawings import TEXT_SIZE, WIDTH, text_width

BOOK = Path(__file__).resolve().parents[3] / "book"
FILES = sorted((BOOK / FOLDER).glob("*/*.svg"))
SVG = "{http://www.w3.org/2000/svg}"
#: Attributes of shapes, which hold numbers; of words; and of any.
SHAPES = {"x", "y", "width", "height", "rx", "cx", "cy", "r", "points", "d", "viewBox"}
LOOK = {"class", "stroke-width", "stroke-dasharray", "text-anchor", "font-weight"}

RULER = (
    '<svg xmlns="http://www.w3.org/2000/svg" class="drawing" viewBox="0 0 480 40">\n'
    '  <style>@import url("../drawings.css");</style>\n  <text class="teal" x="240" y="20">ruler</text>\n</svg>\n'
)


def drawings(page: str) -> dict[str, tuple[str, str]]:
    """Return alt and caption of each drawing that the source of a page names, by the path of its file."""
    found = {}
    for fence in fences((BOOK / page).read_text("utf-8")):
        if fence.name == "drawing":
            path = f"{page.removesuffix('.md')}/{fence.argument}.svg"
            found[path] = (fence.options["alt"], "\n".join(fence.body))
    return found


def words(root: ET.Element) -> Iterator[tuple[str, float, float, float]]:
    """Yield each text of a drawing with its left edge, its right edge and its baseline."""
    for text in root.iter(f"{SVG}text"):
        said = text.text or ""
        width, x = text_width(said, bold="font-weight" in text.attrib), float(text.attrib["x"])
        left = x - {"start": 0.0, "middle": width / 2, "end": width}[text.get("text-anchor", "middle")]
        yield said, left, left + width, float(text.attrib["y"])


def test_pages_show_every_drawing_that_there_is() -> None:
    shown = [path for page in BOOK.glob("*.md") for path in drawings(page.name)]
    assert sorted(shown) == [path.relative_to(BOOK / FOLDER).as_posix() for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_drawing_can_be_edited_and_takes_its_colours_from_classes(path: Path) -> None:
    text = path.read_text("utf-8")
    root = ET.fromstring(text)
    assert root.get("class") == "drawing"
    assert root[0].text == '@import url("../drawings.css");'
    parts = root[1:]
    assert len(text.splitlines()) == len(parts) + 3, "an element a line"
    for part in parts:
        assert set(part.attrib) <= SHAPES | LOOK, "neither ids nor colours nor styles"
        assert set((part.get("class") or "").split()) <= {*HUES, "tint"}
        numbers = " ".join(value for name, value in part.attrib.items() if name in SHAPES)
        assert not re.search(r"\.\d{3}", numbers), "two decimals at most"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_words_of_a_drawing_fit(path: Path) -> None:
    root = ET.fromstring(path.read_text("utf-8"))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    assert width == WIDTH
    boxes = [
        tuple(float(box.attrib[name]) for name in ("x", "y", "width", "height")) for box in root.iter(f"{SVG}rect")
    ]
    for said, left, right, baseline in words(root):
        assert left >= 0, said
        assert right <= WIDTH, said
        assert TEXT_SIZE * 0.7 <= baseline <= height, said
        around = [
            wide
            for x, y, wide, high in boxes
            if abs(x + wide / 2 - (left + right) / 2) < 1 and y < baseline - TEXT_SIZE * 0.35 < y + high
        ]
        assert not around or right - left <= min(around), said


def test_each_class_has_the_hue_that_plots_have() -> None:
    rules = dict(re.findall(r"\.drawing \.(\w+) \{ color: (#\w+); \}", (BOOK / STYLE).read_text("utf-8")))
    assert rules == {name: light for name, (light, _) in HUES.items()}


def directive(key: str = "ruler", alt: str = ":alt: A ruler that *is* short.", body: str = "A short $x$ ruler.") -> str:
    return f"# Page\n\nSee {{numref}}`figure-ruler`.\n\n:::{{drawing}} {key}\n{alt}\n\n{body}\n:::\n"


def draw(book: Book, page: str, text: str, drawing: str = RULER) -> Path:
    """Write a page and its drawing, and return the file of that."""
    book.write(page, text)
    file = book.source / FOLDER / page / "ruler.svg"
    file.parent.mkdir(parents=True)
    file.write_text(drawing, "utf-8")
    (book.source / STYLE).write_text(".drawing .teal { color: #076375; }", "utf-8")
    return file


def test_a_drawing_is_a_numbered_figure_with_words_for_it(tmp_path: Path, sphinx: SphinxProcess) -> None:
    book = Book(tmp_path, sphinx)
    file = draw(book, "index", directive())
    build = book.build()
    assert build.code == 0, build.output
    figure = one(build.page("index.html"), "figure.measured-figure#figure-ruler")
    caption, drawing = one(figure, "figcaption"), one(figure, "svg[role=img]")
    assert caption.get_text().startswith("Figure\u00a01 A short ")
    assert caption.find("math") is not None
    assert one(drawing, f"[id='{drawing['aria-labelledby']}']").get_text() == "A ruler that *is* short."
    assert figure.find("style") is None
    assert build.page("index.html").select_one("p a[href='#figure-ruler']") is not None
    # Who edits the file sees it on the page.
    file.write_text(RULER.replace(">ruler<", ">longer<"), "utf-8")
    assert ">longer<" in book.build().pages["index.html"]


FAULTY = {
    "dumb": (directive(alt=""), RULER, "needs an :alt:"),
    "twice": (directive(alt=":alt: A short ruler.", body="A short ruler."), RULER, "needs an :alt: that says more"),
    "bare": (directive(body=""), RULER, "needs a caption"),
    "long": (directive(body="One.\n\nTwo."), RULER, "needs a caption of one paragraph"),
    "misspelt": (directive(key="rule"), RULER, "has no file _static/drawings/misspelt/rule.svg"),
    "cut": (directive(), "<svg>", "cannot be read: it is not XML"),
    "other": (directive(), "<svg/>", "cannot be read: its root is no <svg>"),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory, sphinx: SphinxProcess) -> Build:
    """Return the build of a book whose every page but the first lacks something."""
    book = Book(tmp_path_factory.mktemp("faulty"), sphinx)
    book.write("index", "# Index\n\n```{toctree}\n" + "\n".join(FAULTY) + "\n```\n")
    for page, (text, drawing, _) in FAULTY.items():
        draw(book, page, text, drawing)
    return book.build()


@pytest.mark.parametrize(("page", "why"), [(page, why) for page, (_, _, why) in FAULTY.items()])
def test_what_is_missing_fails_the_build_and_names_its_line(faulty: Build, page: str, why: str) -> None:
    assert faulty.code != 0
    assert re.search(rf"/{page}\.md:5: .*drawing 'rule.?' .*{re.escape(why)}", faulty.output)


def test_a_file_for_a_reader_brings_its_colours_along() -> None:
    root = ET.fromstring(standing_alone(RULER, ".drawing .teal { color: #076375; }").encode())
    assert "#076375" in (root[0].text or "")
    assert "background" in root.attrib["style"]


def test_a_page_holds_neither_style_nor_the_space_of_the_file() -> None:
    shown = on_page(RULER, key="ruler", alt="A <ruler>.")
    assert "style" not in shown
    assert "\n" not in shown
    assert BeautifulSoup(shown, "html.parser").get_text() == "A <ruler>.ruler"


def test_drawings_are_listed_among_the_figures_that_code_made_in_the_page_s_order() -> None:
    recorded = {key: {"key": key, "kind": "figure", "caption": f"{key}, recorded"} for key in ("last", "first")}
    state = PageState(
        records=PageRecords("page", recorded),
        drawings={"ruler": "ruler, drawn"},
        labels=("figure-first", "table-ops", "figure-ruler", "figure-last"),
    )
    assert [key for key, _ in listed(state, "figure")] == ["first", "ruler", "last"]
    assert listed(state, "table") == []
