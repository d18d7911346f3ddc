"""Frame of every page, which is the book's own theme: templates, contents and wide tables; styles and scripts.

The book's styles are one file; of scripts a page loads what it needs, and nothing of others. A feature has its own
``book/_static/NAME.css`` and ``NAME.js``, which its part adds to the pages that need them.
"""

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Any, cast

from docutils import nodes
from pygments.formatters import HtmlFormatter  # type: ignore[import-untyped]
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.config import Config
from sphinx.environment.adapters.toctree import TocTree
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

from measured_book.elements import drawings
from tinytorch import settings
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.report.colors import HUES
from tinytorch.report.flame_graph import SCRIPT, STYLE

LOGGER = logging.getLogger(__name__)
THEME = "measured"
#: The theme's templates, below the book's sources.
THEME_FOLDER = "_theme"
STYLESHEET = "book.css"
STYLE_FOLDER = "_style"
#: The parts of the style sheet in ``book/_style``; later ones hold over earlier ones.
STYLE_PARTS = (
    "tokens", "frame", "prose", "code", "numbers", "tables", "figures", "claims", "card", "page-line",
    "glossary", "landing", "print",
)  # fmt: skip
#: Pygments styles for code on light pages and on dark ones, whose contrast is that of WCAG AAA.
CODE_STYLES = ("a11y-high-contrast-light", "a11y-high-contrast-dark")
#: The script of flame graphs, which reports of programs hold, too.
BOXES = "boxes.js"
#: Scripts that only some pages need, with the texts in a page's HTML of which one tells.
SCRIPTS_FOR = {
    "tables.js": ("<table",),
    "figures.js": ("measured-figure", 'class="device"'),
    "code.js": ('class="highlight', '<details class="page-menu page-mismatch"'),
    "details.js": ("popovertarget=", "data-detail="),
    "ledger.js": ('class="measured-table ledger', 'class="claim-wall"'),
    BOXES: ('class="boxes"',),
}
#: Sections behind a chapter's text, which the contents set apart.
END_MATTER = (
    "What the course says", "Questions", "Exercises", "Further reading", "What comes next", "About this chapter",
    "How this was measured",
)  # fmt: skip
SCRIPT_FOR_ALL = "navigation.js"
#: What `make pdf` prints; relative to the site's root.
PDF = "measured.pdf"
#: Whatever a page is made of besides its text: pages are written again when a byte of it changes.
DIGESTED = ("_static", "_style", "_theme", "_ext")

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SPACE = re.compile(r"\s+")
_AROUND = re.compile(r"\s*([{};,])\s*")
#: Names, punctuation and space in code, which have the colour of the text around them: a third of a page's elements.
_PLAIN_CODE = re.compile(r'<span class="[npw]">([^<]*)</span>')
#: A link to where it stands, which the page's contents and the book's lists hold too: no stop of the keyboard.
_OWN_ADDRESS = re.compile(r'<a class="(?:headerlink|number|eqno|claim-label)"')
#: The link to the source of a quoted number; the keyboard stops at the first to each source.
_QUOTED_SOURCE = re.compile(r'(?<=<span class="quoted-source">\()<a class="reference external" href="([^"]*)"')
#: Says that the reader chose dark, or that theme.js found the system so.
_DARK = 'html[data-theme="dark"]'
_DARK_RULES = re.compile(rf"^{re.escape(_DARK)}[^{{]*\{{[^}}]*\}}", re.MULTILINE)


def contents_html(app: Sphinx, docname: str) -> str:
    """Return links to the sections of the page, in two levels; empty for one without sections."""
    contents = cast(nodes.bullet_list | None, TocTree(app.env).get_toc_for(docname, app.builder))
    if contents is not None and len(contents) == 1:  # the page's title, above its sections
        contents = next(iter(contents.findall(nodes.bullet_list, include_self=False)), None)
    if contents is None:
        return ""
    for item in contents.children:
        if item.astext().partition("\n")[0].strip() in END_MATTER and isinstance(item, nodes.Element):
            item["classes"] = ["end-matter"]
        for deeper in list(item.findall(nodes.bullet_list)):
            if isinstance(deeper.parent, nodes.list_item) and deeper.parent is not item:
                deeper.parent.remove(deeper)
    builder = cast(StandaloneHTMLBuilder, app.builder)
    return str(builder.render_partial(contents)["fragment"])


def add_frame(app: Sphinx, pagename: str, _: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Hand the templates what they need besides what Sphinx gives them."""
    is_page = doctree is not None
    context["author"] = app.config.author
    context["pdf"] = app.config.book_pdf
    context["contents"] = contents_html(app, pagename) if is_page else ""
    context["repository"] = app.config.book_repository
    context["edition"] = app.config.book_edition


def visit_table(self: HTML5Translator, node: nodes.table) -> None:
    """Begin a table in a box, in which it scrolls when it is wider than the page."""
    self.body.append('<div class="scrolled-table">')
    HTML5Translator.visit_table(self, node)


def depart_table(self: HTML5Translator, node: nodes.table) -> None:
    """End a table and its box."""
    HTML5Translator.depart_table(self, node)
    self.body.append("</div>\n")


def _pygments(style: str, prefix: str) -> str:
    """Return the rules that colour code in ``style``; its background is the book's."""
    lines = HtmlFormatter(style=style).get_style_defs(f"{prefix}.highlight").splitlines()
    tokens = [line for line in lines if re.match(rf"{re.escape(prefix)}\.highlight \.\w+ \{{", line)]
    return "\n".join(line for line in tokens if ".hll" not in line)


def _shortened(css: str) -> str:
    """Return the style sheet without comments and needless space."""
    return _AROUND.sub(r"\1", _SPACE.sub(" ", _COMMENT.sub("", css))).replace(";}", "}").strip()


def _also_without_script(css: str) -> str:
    """Return ``css`` and its dark rules once more, for systems that are dark where no script says so."""
    rules = "\n".join(_DARK_RULES.findall(css)).replace(_DARK, "html:not([data-theme])")
    return f"{css}\n@media screen and (prefers-color-scheme: dark) {{\n{rules}\n}}\n"


def _drawings_on_dark() -> str:
    """Return the rules that give the colours of drawings their other shade on dark pages; paper is light."""
    by_code = [
        f'{_DARK} .measured-figure [{what}="{light}"] {{ {what}: {dark} }}'
        for light, dark in HUES.values()
        for what in ("fill", "stroke")
    ]
    return "\n".join([*by_code, *(f"{_DARK} .drawing .{hue} {{ color: {dark} }}" for hue, (_, dark) in HUES.items())])


def stylesheet(folder: Path) -> str:
    """Return the book's style sheet, whose parts are in ``folder``."""
    parts = {name: (folder / f"{name}.css").read_text("utf-8") for name in STYLE_PARTS}
    light, dark = CODE_STYLES
    parts["code"] += _also_without_script(_pygments(light, "") + "\n" + _pygments(dark, f"{_DARK} "))
    parts["figures"] += f"@media screen {{\n{_also_without_script(_drawings_on_dark())}}}\n"
    parts["figures"] += (folder.parent / drawings.STYLE).read_text("utf-8") + STYLE
    parts["tokens"] = _also_without_script(parts["tokens"])
    return "\n".join(_shortened(text) for text in parts.values()) + "\n"


def digest(source: Path) -> str:
    """Return a hash of all that pages are made of besides their text and their drawings."""
    state = hashlib.sha256()
    for name in DIGESTED:
        for path in sorted((source / name).rglob("*")):
            drawn = path.suffix == ".svg" and path.is_relative_to(source / drawings.FOLDER)
            if path.is_file() and "__pycache__" not in path.parts and not drawn:
                state.update(f"{path.relative_to(source).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return state.hexdigest()


def prepare(app: Sphinx, config: Config) -> None:
    """Make this the theme, and note the digest, whose change makes Sphinx write all pages again."""
    # Jupyter Book's own would bring 2 MB of scripts, fonts and styles.
    config.html_theme, config.html_theme_options = THEME, {}
    config.site_digest = digest(Path(app.srcdir))
    config.book_pdf = PDF if settings.SETTINGS.pdf else ""
    # Jupyter Book lists every file of _static here, for all pages.
    config.html_css_files = []
    config.html_js_files = []


def write_stylesheet(app: Sphinx) -> None:
    """Write the style sheet and the script of flame graphs into the site, before pages ask for their checksums."""
    if app.builder.format != "html":
        return
    folder = Path(app.outdir, "_static")
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / STYLESHEET, stylesheet(Path(app.srcdir, STYLE_FOLDER)))
    write_whole(folder / BOXES, SCRIPT)


def _name(asset: Any) -> str:
    """Return an asset's file name below ``_static``; empty if it has no file."""
    return os.fspath(asset.filename or "").removeprefix("_static/")


def own_files(source: Path) -> set[str]:
    """Return the names of the static files that pages load, relative to their folder; they hold drawings themselves."""
    folder, drawn = source / "_static", source / drawings.FOLDER
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_relative_to(drawn))
    return {path.relative_to(folder).as_posix() for path in files}


def choose_files(app: Sphinx, pagename: str, _: str, context: dict[str, Any], __: nodes.document | None) -> None:
    """Drop styles and scripts of others from a page, and put the book's before those of the page's features."""
    own = own_files(Path(app.srcdir))
    styles = [asset for asset in context["css_files"] if _name(asset) in own]
    scripts = [asset for asset in context["script_files"] if _name(asset) in own]
    for asset in scripts:
        if not {"defer", "async"} & set(asset.attributes):
            LOGGER.warning(
                "script %s must be added with loading_method='defer' [site]",
                _name(asset),
                location=pagename,
                type="site",
            )
    body = context.get("body", "")
    common = [SCRIPT_FOR_ALL, *(name for name, marks in SCRIPTS_FOR.items() if any(mark in body for mark in marks))]
    context["css_files"].clear()
    context["script_files"].clear()
    app.add_css_file(STYLESHEET)
    for name in common:
        app.add_js_file(name, loading_method="defer")
    context["css_files"] += styles
    context["script_files"] += scripts


def lighten(_: Sphinx, __: str, ___: str, context: dict[str, Any], ____: nodes.document | None) -> None:
    """Take from a page the elements of code that looks like the text around it, and needless stops of the keyboard.

    Needless are links that lead to where they stand, and repeated links to the source of a quoted number.
    """
    if "body" not in context:
        return
    sources: set[str] = set()

    def stop_once(link: re.Match[str]) -> str:
        known = link[1] in sources
        sources.add(link[1])
        return f'{link[0]} tabindex="-1"' if known else link[0]

    body = _OWN_ADDRESS.sub(r'\g<0> tabindex="-1"', _PLAIN_CODE.sub(r"\1", context["body"]))
    context["body"] = _QUOTED_SOURCE.sub(stop_once, body)


def remove_unused(app: Sphinx, exception: Exception | None) -> None:
    """Remove from the site what Sphinx and other extensions copied there and no page loads."""
    if exception is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir, "_static")
    used = own_files(Path(app.srcdir)) | {STYLESHEET, BOXES}
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file() and path.relative_to(folder).as_posix() not in used:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            shutil.rmtree(path)


def setup(app: Sphinx) -> None:
    """Register the theme and connect to the events of a build."""
    app.add_html_theme(THEME, str(Path(app.srcdir, THEME_FOLDER)))
    app.add_node(nodes.table, override=True, html=(visit_table, depart_table))
    app.add_config_value("site_digest", "", "html", str)
    app.add_config_value("book_pdf", "", "html", str)
    app.connect("config-inited", prepare)
    app.connect("builder-inited", write_stylesheet)
    app.connect("html-page-context", add_frame)
    app.connect("html-page-context", choose_files)
    app.connect("html-page-context", lighten)
    app.connect("build-finished", remove_unused)
