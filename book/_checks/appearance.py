"""Builds the specimen, a page with every element of the book, and compares it with pictures of how it looked before.

The specimen is made with the book's own settings, styles, fonts and extensions, but its numbers are fixed. Code, for
which the book has no font, is drawn in one that comes with matplotlib, so that a picture depends on nothing but the
styles and the version of Chromium: another one may draw edges and shades a little differently, which the tolerance is
for. After a change of the looks that is meant, `make pictures` takes the pictures anew; a pull request then shows old
and new side by side.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import matplotlib as mpl
import yaml
from built_site import serve
from chromium import Mode, launched, opened
from PIL import Image, ImageChops
from playwright.sync_api import Browser

ROOT = Path(__file__).resolve().parents[2]
SPECIMEN = Path(__file__).with_name("specimen")
PICTURES = Path(__file__).with_name("reference")
PAGE = "elements.html"
MODES = tuple(Mode(width, scheme) for width in (390, 1280) for scheme in ("light", "dark"))
#: Runs Jupyter Book without a parser that takes a second to load, for a format of JSON schemas that nothing here has.
JUPYTER_BOOK = 'import sys; sys.modules["rfc3987_syntax"] = None; from jupyter_book.cli.main import main; main()'
#: What of the book the specimen is made with.
PARTS = ("_ext", "_static", "_style", "_theme")
#: A pixel counts as changed if a channel of it differs by more than this, of 255; edges of letters do by less.
CHANGED = 48
#: The share of changed pixels above which two pictures differ: that of a line of text on the whole page.
TOLERATED = 0.001
COLORS = 64
CODE_FONT = "DejaVuSansMono.ttf"
STYLE = """
@font-face {{ font-family: specimen-code; src: url({address}) }}
pre, code, pre *, code *, kbd, samp {{ font-family: specimen-code !important }}
"""
# How long the page's cells took stands behind the time at which it was made.
FORGET_DURATION = (
    "document.querySelectorAll('time').forEach(time => { time.parentElement.textContent = time.textContent })"
)


def write_sources(folder: Path, sources: Iterable[Path]) -> None:
    """Write into a folder what Jupyter Book makes a site of: these files, and the book's own settings and parts."""
    book = folder / "book"
    book.mkdir(parents=True)
    for source in sources:
        (book / source.name).symlink_to(source)
    for part in PARTS:
        (book / part).symlink_to(ROOT / "book" / part)
    settings = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    settings["sphinx"]["config"] |= {
        "execution_packages": [str(ROOT / "tinytorch")],
        "execution_key_paths": [str(ROOT / "requirements.lock")],
    }
    (folder / "_config.yml").write_text(yaml.safe_dump(settings), "utf-8")


def build_sources(folder: Path, toc: Path) -> Path:
    """Build what `write_sources` wrote into a folder, and return the folder of the site.

    Raises:
        RuntimeError: if it does not build.
    """
    command = [sys.executable, "-P", "-c", JUPYTER_BOOK, "build", str(folder / "book"), "--path-output", str(folder)]
    command += ["-W", "--keep-going", "-n", "--config", str(folder / "_config.yml"), "--toc", str(toc)]
    settings = {**os.environ, "JUPYTER_PREFER_ENV_PATH": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"The site was not built: {done.stdout[-3000:]}\n{done.stderr[:4000]}")
    return folder / "_build" / "html"


def build_specimen(folder: Path) -> Path:
    """Build the specimen in an empty folder and return the folder of its site; RuntimeError if it does not build."""
    write_sources(folder, (source for source in SPECIMEN.iterdir() if source.is_file()))
    return build_sources(folder, SPECIMEN / "_toc.yml")


@contextmanager
def served_with_font(site: Path) -> Iterator[str]:
    """Serve a site, in its folder matplotlib's font for code and a style sheet that names it; yield its address."""
    (site / CODE_FONT).write_bytes((Path(mpl.get_data_path()) / "fonts" / "ttf" / CODE_FONT).read_bytes())
    with serve(site) as base:
        (site / "specimen.css").write_text(STYLE.format(address=f"{base}/{CODE_FONT}"), "utf-8")
        yield base


def take_pictures(browser: Browser, site: Path) -> dict[str, Image.Image]:
    """Return a picture of the whole specimen in each mode, by the name of its file."""
    pictures = {}
    with served_with_font(site) as base:
        for mode in MODES:
            with opened(browser, mode) as page:
                page.goto(f"{base}/{PAGE}", wait_until="networkidle")
                page.add_style_tag(url=f"{base}/specimen.css")  # a file of the site's own, which its policy allows
                page.evaluate(FORGET_DURATION)
                page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
                page.evaluate("document.fonts.ready.then(() => true)")
                picture = Image.open(BytesIO(page.screenshot(full_page=True)))
                pictures[f"{mode.width}-{mode.scheme}.png"] = picture.convert("RGB")
    return pictures


def with_few_colors(picture: Image.Image) -> Image.Image:
    """Return the picture as it is kept: with a palette, which makes it several times smaller."""
    return picture.quantize(COLORS, dither=Image.Dither.NONE)


def changed_share(before: Image.Image, now: Image.Image) -> float:
    """Return the share of pixels that differ between two pictures of one size, both reduced to few colours."""
    channels = ImageChops.difference(before, with_few_colors(now).convert("RGB")).split()
    most = ImageChops.lighter(ImageChops.lighter(channels[0], channels[1]), channels[2])
    return sum(most.histogram()[CHANGED + 1 :]) / (now.width * now.height)


def compare(name: str, now: Image.Image, folder: Path = PICTURES) -> str | None:
    """Return how a picture differs from the one that is kept under its name; None if it does not."""
    kept = folder / name
    renew = "if that is meant, take the pictures anew with `make pictures`"
    if not kept.is_file():
        return f"{name}: there is no such picture in {folder.name}: {renew}"
    with Image.open(kept) as file:
        before = file.convert("RGB")
    if before.size != now.size:
        return f"{name}: the page is {now.width} x {now.height} pixels, was {before.width} x {before.height}: {renew}"
    share = changed_share(before, now)
    return (
        f"{name}: {share:.2%} of the page looks different, {TOLERATED:.2%} may: {renew}" if share > TOLERATED else None
    )


def renew() -> None:
    """Build the specimen and keep its pictures in a folder, in the place of those of before."""
    with tempfile.TemporaryDirectory() as temporary, launched() as browser:
        pictures = take_pictures(browser, build_specimen(Path(temporary, "specimen")))
    PICTURES.mkdir(exist_ok=True)
    for name, picture in pictures.items():
        aside = PICTURES / f"{name}.part"
        with_few_colors(picture).save(aside, format="PNG", optimize=True)
        aside.replace(PICTURES / name)


def main() -> int:
    """Take the pictures anew, and say so."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    try:
        renew()
    except (FileNotFoundError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    print(f"The pictures in {PICTURES.relative_to(ROOT)} are new: look at them before you commit them.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
