"""Pages hold the longest and the shortest texts at every width, and the page of all elements looks as it was kept."""

import runpy
import sys
from pathlib import Path
from typing import Any

import appearance
import pytest
from appearance import MODES, PICTURES, SPECIMEN, build_sources, compare, with_few_colors, write_sources
from built_site import serve
from chromium import HEIGHT, Mode, opened
from gate_browser import OPEN_FOLDED_PARTS, PHONE, SCREEN, Seen, look
from PIL import Image, ImageDraw
from playwright.sync_api import Browser

EXTREMES = Path(__file__).with_name("extremes")
PAGES = ("chapter.html", "claims.html", "index.html")
#: How many claims there are of each length: enough for a ledger taller than any screen, and one.
CLAIMS = {"longest": 8, "shortest": 1}


def texts(length: str) -> Any:
    """Return the longest or the shortest texts."""
    sys.path.insert(0, str(SPECIMEN))
    try:
        return runpy.run_path(str(EXTREMES / "fixed_texts.py"))[length.upper()]
    finally:
        sys.path.remove(str(SPECIMEN))


def claim(number: int, said: Any) -> str:
    """Return a claim as a page has it."""
    words = f":source: {said.source}\n\n> {said.statement}\n\n{said.statement}\n\n{said.evidence}"
    return f"```{{claim}} claim-{number}\n{words}\n```"


@pytest.fixture(scope="module", params=sorted(CLAIMS))
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param) / "it"
    files = [file for file in EXTREMES.iterdir() if file.is_file() and file.name != "chapter.md"]
    write_sources(folder, [*files, SPECIMEN / "fixed_records.py", SPECIMEN / "references.bib"])
    claims = "\n\n".join(claim(number, texts(request.param)) for number in range(CLAIMS[request.param]))
    text = (
        (EXTREMES / "chapter.md").read_text("utf-8").replace("CLAIMS", claims).replace("LONGEST", request.param.upper())
    )
    (folder / "book" / "chapter.md").write_text(text, "utf-8")
    return build_sources(folder, EXTREMES / "_toc.yml")


@pytest.mark.parametrize("width", [PHONE, SCREEN])
@pytest.mark.parametrize("page", PAGES)
def test_texts_of_any_length_fit(browser: Browser, site: Path, page: str, width: int) -> None:
    seen = Seen(page)
    with serve(site) as base:
        look(browser, base, site, seen, (width,))
    assert seen.lines() == []


#: Where a table's header lies that has a button to press, and whether what can have the focus in it is seen whole.
SEEN_WHOLE = """() => {
  const button = document.activeElement, box = button.closest(".measured-table");
  if (!box || button === box) return null;
  const inner = button.getBoundingClientRect(), outer = box.getBoundingClientRect();
  return inner.left >= outer.left - 1 && inner.right <= outer.right + 1;
}"""


def test_the_focus_is_never_at_the_edge_of_a_wide_table(browser: Browser, site: Path) -> None:
    seen = set()
    with serve(site) as base, opened(browser, Mode(PHONE, "light")) as page:
        page.goto(f"{base}/chapter.html", wait_until="networkidle")
        page.evaluate(OPEN_FOLDED_PARTS)
        for width in range(320, 800, 32):
            page.set_viewport_size({"width": width, "height": HEIGHT})
            page.evaluate("document.querySelectorAll('.measured-table').forEach(box => box.scrollLeft = 0)")
            page.locator("#table-all").focus()
            for _ in range(6):
                page.keyboard.press("Tab")
                seen.add(page.evaluate(SEEN_WHOLE))
    assert seen - {None} == {True}  # None: behind the table


#: Scrolls until the label of a tab begins so many pixels above the lower edge, and puts the focus before the tab.
BEFORE_TAB = """above => {
  const tab = document.querySelector(".sd-tab-set > input"), link = tab.closest(".sd-tab-set").previousElementSibling;
  link.querySelector("a").focus({ preventScroll: true });
  window.scrollBy(0, tab.labels[0].getBoundingClientRect().top - innerHeight + above);
}"""
LABEL_SEEN_WHOLE = "document.activeElement.labels[0].getBoundingClientRect().bottom <= innerHeight"


def test_the_focus_of_a_tab_is_seen_on_its_whole_label(browser: Browser, site: Path) -> None:
    with serve(site) as base, opened(browser, Mode(PHONE, "light")) as page:
        page.goto(f"{base}/chapter.html", wait_until="networkidle")
        for above in range(2, 60, 4):
            page.evaluate(BEFORE_TAB, above)
            page.keyboard.press("Tab")
            assert page.evaluate(LABEL_SEEN_WHOLE), f"{above} px above the edge"


#: The sizes of what scripts find on a page and make more of: tables with buttons to sort by, and the header.
SIZES = """() => [...document.querySelectorAll("table.sortable, table.sortable :is(th, td), .site-header > *")]
  .map(element => [element.textContent.trim(), element.getBoundingClientRect()])
  .map(([text, box]) => [text, Math.round(box.left), Math.round(box.width), Math.round(box.height)])"""


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [412, 1280])
def test_scripts_move_no_table_and_no_header(browser: Browser, site: Path, page: str, width: int) -> None:
    sizes = []
    with serve(site) as base:
        for scripts in (False, True):
            context = browser.new_context(viewport={"width": width, "height": HEIGHT}, java_script_enabled=scripts)
            tab = context.new_page()
            tab.goto(f"{base}/{page}", wait_until="networkidle")
            sizes.append(tab.evaluate(SIZES))
            context.close()
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) > 3


NAMES = [f"{mode.width}-{mode.scheme}.png" for mode in MODES]


@pytest.fixture(scope="module")
def pictures(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Image.Image]:
    return appearance.take_pictures(browser, appearance.build_specimen(tmp_path_factory.mktemp("specimen") / "it"))


def test_the_page_of_all_elements_looks_as_before(pictures: dict[str, Image.Image]) -> None:
    assert list(pictures) == NAMES
    assert [said for name, picture in pictures.items() if (said := compare(name, picture))] == []


def kept(folder: Path) -> Image.Image:
    picture = Image.new("RGB", (400, 300), "white")
    ImageDraw.Draw(picture).text((10, 10), "A line of text", fill="black")
    with_few_colors(picture).save(folder / "a.png")
    return picture


def test_another_colour_another_size_and_a_missing_picture_are_told_and_shades_are_not(tmp_path: Path) -> None:
    picture = kept(tmp_path)
    assert compare("a.png", picture.point(lambda value: max(value - 20, 0)), tmp_path) is None
    assert "400 x 200 pixels, was 400 x 300" in str(compare("a.png", picture.crop((0, 0, 400, 200)), tmp_path))
    assert "there is no such picture" in str(compare("b.png", picture, tmp_path))
    ImageDraw.Draw(picture).text((10, 10), "A line of text", fill="teal")
    said = str(compare("a.png", picture, tmp_path))
    assert "looks different" in said
    assert "make pictures" in said


def test_the_kept_pictures_are_small() -> None:
    assert sorted(path.name for path in PICTURES.iterdir()) == sorted(NAMES)
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) < 1_500_000
