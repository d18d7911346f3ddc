"""A site in the book's own frame: what its pages load and say, with a known address and without one."""

import base64
import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import tinycss2  # type: ignore[import-untyped]
from bs4 import BeautifulSoup
from measured_book.elements import drawings
from measured_book.site.frame import DIGESTED, STYLE_FOLDER, STYLE_PARTS, digest, lighten, stylesheet
from measured_book.site.security import POLICY
from PIL import Image

from tests.book.small_book import one
from tests.book.sphinx_process import SphinxProcess
from tinytorch.report import flame_graph
from tinytorch.report.colors import HUES

BOOK = Path(__file__).resolve().parents[3] / "book"
ADDRESS = "https://example.org/book/"
DARK_SYSTEM = "prefers-color-scheme: dark"
CONFIGURATION = """
html_title = "Small book"
author, copyright, language = "Nobody", "2026", "en"
extensions = ["myst_nb", "sphinx_design", "measured_book"]
execution_packages = execution_key_paths = []
html_use_index = False
html_context = {"short_title": "Small", "subtitle": "book"}
html_static_path = ["_static"]
"""
CHAPTER = """
# Where does the time go?

It goes into products. The rest follows.

| a | b |
|---|---|
| 1 | 2 |

## First

```python
x = 1
```

## Second

````{tab-set}
```{tab-item} One
Text.
```
````
"""


@dataclass(frozen=True)
class Site:
    """A built site in its folder."""

    folder: Path

    def page(self, name: str) -> BeautifulSoup:
        """Return a page, parsed."""
        return BeautifulSoup((self.folder / f"{name}.html").read_text("utf-8"), "html.parser")


@dataclass(frozen=True)
class Sites:
    """One book, built where its address is known and where it is not."""

    known: Site
    unknown: Site


CHANGE = "// changed\n"


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory, sphinx: SphinxProcess) -> Sites:
    """Return the sites of two pages in the book's frame, of which one is built again after a script alone changed."""
    source, known, unknown = (tmp_path_factory.mktemp(name) for name in ("source", "known", "unknown"))
    for name in ("_static", STYLE_FOLDER, "_theme"):
        shutil.copytree(BOOK / name, source / name)
    index = "# Small book\n\nAll about time.\n\n```{toctree}\nchapter\n```\n"
    files = {"references.bib": "", "conf.py": CONFIGURATION, "index.md": index, "chapter.md": CHAPTER}
    for name, text in files.items():
        (source / name).write_text(text, "utf-8")

    def build(site: Path, address: str | None) -> None:
        code, said = sphinx.build(source, site, variables={"TINYTORCH_SITE_URL": address, "GITHUB_REPOSITORY": None})
        assert code == 0, said

    build(unknown, None)
    script = source / "_static" / "code.js"
    script.write_text(script.read_text("utf-8") + CHANGE, "utf-8")
    build(unknown, None)
    build(known, ADDRESS)
    return Sites(Site(known), Site(unknown))


@pytest.fixture(scope="module")
def known(sites: Sites) -> Site:
    return sites.known


@pytest.fixture(scope="module")
def unknown(sites: Sites) -> Site:
    return sites.unknown


@pytest.mark.parametrize("name", ["index", "chapter", "search"])
def test_a_page_loads_own_files_alone_which_are_there_and_keeps_its_policy(unknown: Site, name: str) -> None:
    page = unknown.page(name)
    links = [str(tag["href"]) for tag in page.select('link[rel="stylesheet"], link[rel="icon"]')]
    addresses = links + [str(tag["src"]) for tag in page.find_all(src=True)]
    files = {address.partition("?")[0] for address in addresses}
    assert all((unknown.folder / file).is_file() for file in files)
    assert {"_static/book.css", "_static/theme.js", "_static/navigation.js"} <= files
    assert not [file for file in files if re.search("pydata|bootstrap|fontawesome|sphinx-design|basic", file)]
    assert one(page, 'meta[http-equiv="Content-Security-Policy"]')["content"] == POLICY
    assert not page.select("style, [style], script:not([src]), [onclick]")


def test_a_changed_script_reaches_the_site_and_its_pages_though_no_page_changed(unknown: Site) -> None:
    script = (unknown.folder / "_static" / "code.js").read_bytes()
    assert script.endswith(CHANGE.encode())
    asked = [str(tag["src"]) for tag in unknown.page("chapter").find_all("script") if "code.js" in str(tag["src"])]
    assert asked == [f"_static/code.js?v={hashlib.sha256(script).hexdigest()[:8]}"]


def test_nothing_of_the_theme_stays_in_the_site(unknown: Site) -> None:
    files = [path for path in (unknown.folder / "_static").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 330_000
    fonts = {path.name: path.stat().st_size for path in files if path.suffix in (".map", ".woff", ".woff2", ".ttf")}
    assert set(fonts) == {"math.woff2", "text-italic.woff2", "text.woff2"}
    assert fonts["text-italic.woff2"] + fonts["text.woff2"] < 40_000


def test_the_frame_names_its_parts(unknown: Site) -> None:
    page = unknown.page("chapter")
    assert [link.get_text(strip=True) for link in page.select("#page-contents a")] == ["First", "Second"]
    assert one(page, "#site-contents a[aria-current]").get_text(strip=True) == "Where does the time go?"
    for button in page.select("button[popovertarget]"):
        assert page.find(id=str(button["popovertarget"])) is not None
        assert button.get("aria-label")
    assert one(page, "title").get_text() == "Where does the time go? – Small"
    assert len(page.select("main")) == len(page.select("h1")) == len(page.select('input[type="search"]')) == 1


def test_each_page_is_described_by_its_own_words(unknown: Site) -> None:
    index, chapter, search = (
        str(one(unknown.page(name), 'meta[name="description"]')["content"]) for name in ("index", "chapter", "search")
    )
    assert "All about time." in index
    assert "It goes into products. The rest follows." in chapter
    assert search not in (index, chapter)


def test_without_an_address_nothing_claims_one(unknown: Site) -> None:
    page = unknown.page("chapter")
    assert not page.select('link[rel="canonical"], meta[property^="og:"], meta[name^="twitter:"]')
    assert not (unknown.folder / "sitemap.xml").exists()
    assert not (unknown.folder / "robots.txt").exists()


def test_with_an_address_a_page_says_where_it_is_and_has_a_card(known: Site) -> None:
    page = known.page("chapter")
    said = {str(tag.get("property")): str(tag["content"]) for tag in page.select("meta[property]")}
    assert one(page, 'link[rel="canonical"]')["href"] == said["og:url"] == f"{ADDRESS}chapter.html"
    assert said["og:site_name"] == "Small book"
    assert said["og:title"] == "Where does the time go?"
    assert said["og:description"] == "It goes into products. The rest follows."
    with Image.open(known.folder / said["og:image"].removeprefix(ADDRESS)) as picture:
        assert picture.size == (1200, 630) == (int(said["og:image:width"]), int(said["og:image:height"]))
    assert page.select_one('meta[name="twitter:card"]') is not None


def test_the_sitemap_lists_the_pages_that_one_should_find(known: Site) -> None:
    space = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
    listed = [found.text for found in ET.parse(known.folder / "sitemap.xml").iter(f"{space}loc")]
    assert sorted(str(address) for address in listed) == [f"{ADDRESS}chapter.html", f"{ADDRESS}index.html"]
    assert f"Sitemap: {ADDRESS}sitemap.xml" in (known.folder / "robots.txt").read_text("utf-8")


def test_the_page_for_missing_addresses_works_at_any_depth(known: Site, unknown: Site) -> None:
    for site, root in ((known, ADDRESS), (unknown, "")):
        page = site.page("404")
        assert not page.select("[src], link[rel='stylesheet'], script")
        assert [str(link["href"]) for link in page.select("main a")] == [
            f"{root}{name}.html" for name in ("search", "index", "chapter")
        ]
        sha = base64.b64encode(hashlib.sha256(str(one(page, "style").string).encode()).digest()).decode()
        assert f"'sha256-{sha}'" in str(one(page, "meta[http-equiv]")["content"])


def rules_of(css: str) -> list[Any]:
    rules: list[Any] = tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True)
    return rules


@pytest.fixture(scope="module")
def styles() -> list[Any]:
    """Return the rules of the book's style sheet."""
    return rules_of(stylesheet(BOOK / STYLE_FOLDER))


def test_shortening_changes_no_rule(styles: list[Any]) -> None:
    def selectors(rules: list[Any]) -> list[str]:
        return [" ".join(tinycss2.serialize(rule.prelude).replace(",", ", ").split()) for rule in rules]

    parts = {part: (BOOK / STYLE_FOLDER / f"{part}.css").read_text("utf-8") for part in STYLE_PARTS}
    parts["figures"] += (BOOK / drawings.STYLE).read_text("utf-8") + flame_graph.STYLE
    kept = [name for name in selectors(styles) if ".highlight ." not in name and DARK_SYSTEM not in name]
    kept.remove("screen")  # the colours of drawings on dark pages
    assert kept == [name for text in parts.values() for name in selectors(rules_of(text))]


def test_drawings_have_their_other_shade_on_dark_screens_alone(styles: list[Any]) -> None:
    (dark,) = (
        rule for rule in styles if rule.type == "at-rule" and tinycss2.serialize(rule.prelude).strip() == "screen"
    )
    text = tinycss2.serialize(dark.content)
    for hue, (light, shade) in HUES.items():
        assert f'html[data-theme="dark"] .drawing .{hue}{{color: {shade}}}' in text
        assert f'html[data-theme="dark"] .measured-figure [fill="{light}"]{{fill: {shade}}}' in text
        assert f'html:not([data-theme]) .measured-figure [stroke="{light}"]{{stroke: {shade}}}' in text


def test_dark_systems_get_dark_pages_without_a_script(styles: list[Any]) -> None:
    system = "".join(
        tinycss2.serialize(rule.content)
        for rule in styles
        if rule.type == "at-rule" and DARK_SYSTEM in tinycss2.serialize(rule.prelude)
    )
    chosen = [text for rule in styles if 'html[data-theme="dark"]' in (text := tinycss2.serialize([rule]))]
    colours = [text for text in chosen if ".highlight" in text or "--book-background" in text]
    assert len(colours) > 10
    assert system == "".join(colours).replace('html[data-theme="dark"]', "html:not([data-theme])")


def test_colours_are_named_once() -> None:
    for part in set(STYLE_PARTS) - {"tokens", "print"}:
        text = (BOOK / STYLE_FOLDER / f"{part}.css").read_text("utf-8")
        assert not re.search(r"#[0-9a-f]{3,8}\b|\brgb\(", text), part


def test_a_byte_of_any_asset_changes_the_digest(tmp_path: Path) -> None:
    for name in DIGESTED:
        (tmp_path / name).mkdir()
    seen = {digest(tmp_path)}
    for name in DIGESTED:
        (tmp_path / name / "file").write_text(name, "utf-8")
        seen.add(digest(tmp_path))
    assert len(seen) == len(DIGESTED) + 1


@pytest.mark.parametrize(
    ("body", "light"),
    [
        ('<a class="headerlink" href="#a">#</a>', '<a class="headerlink" tabindex="-1" href="#a">#</a>'),
        ('<a class="reference" href="#a">A</a>', '<a class="reference" href="#a">A</a>'),
        ('<span class="n">x</span> <span class="o">=</span><span class="w"> </span>', 'x <span class="o">=</span> '),
        ('<span class="mi">1</span>', '<span class="mi">1</span>'),
    ],
)
def test_links_to_where_they_stand_are_no_stops_and_code_like_its_text_has_no_element(body: str, light: str) -> None:
    context = {"body": body}
    lighten(None, "", "", context, None)  # type: ignore[arg-type]
    assert context["body"] == light


def test_keyboard_stops_once_at_the_source_of_quoted_numbers() -> None:
    link = '<span class="quoted-source">(<a class="reference external" href="https://{}"{}>{}</a>)</span>'
    context = {"body": "".join(link.format(name, "", name) for name in ("a.org", "b.org", "a.org"))}
    lighten(None, "", "", context, None)  # type: ignore[arg-type]
    first, other, again = link.format("a.org", "", "a.org"), link.format("b.org", "", "b.org"), ' tabindex="-1"'
    assert context["body"] == first + other + link.format("a.org", again, "a.org")
