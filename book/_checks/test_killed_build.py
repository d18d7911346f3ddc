"""Builds that are killed at any moment leave nothing that a later one takes as good, wherever the book lies."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from scripts.compare_builds import compare_sites
from tests.book.small_book import FIRST, HEADER, INDEX, SECOND, Book
from tests.book.sphinx_process import OPTIONS, SphinxProcess

ROOT = Path(__file__).resolve().parents[2]
# In a process of its own, which can be killed.
SPHINX = f"""
import sys
sys.path.insert(0, {str(ROOT / "book" / "_ext")!r})
sys.modules["rfc3987_syntax"] = None
from sphinx.cmd.build import main
sys.exit(main())
"""
BUILD = f"""
import sys
from pathlib import Path
from scripts.build_book import build
def command(root, output):
    folders = ["-d", str(output / ".doctrees"), str(root / "book"), str(output / "html")]
    return [sys.executable, "-c", {SPHINX!r}, *{OPTIONS!r}, *folders]
sys.exit(build(Path(sys.argv[1]), command, lambda *_: []))
"""
#: Builds that are killed, each at a moment drawn from the whole time that one takes.
KILLED = 2
SEED = 20


def made(folder: Path, sphinx: SphinxProcess) -> Book:
    book = Book(folder, sphinx)
    book.write("index", INDEX)
    book.write("first", HEADER + FIRST)
    book.write("second", HEADER + SECOND)
    return book


def start(book: Book) -> subprocess.Popen[str]:
    """Start a build in a group of its own, so that all that it starts can be killed with it."""
    return subprocess.Popen(
        [sys.executable, "-c", BUILD, str(book.folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_after_killed_builds_the_next_is_what_a_clean_one_elsewhere_is(tmp_path: Path, sphinx: SphinxProcess) -> None:
    clean, killed = made(tmp_path / "clean", sphinx), made(tmp_path / "elsewhere" / "with a longer name", sphinx)
    began = time.monotonic()
    first = start(clean)
    said, _ = first.communicate()
    took = time.monotonic() - began
    assert first.returncode == 0, said
    drawn = random.Random(SEED)
    for _ in range(KILLED):
        build = start(killed)
        try:
            build.wait(timeout=drawn.uniform(0, took))
        except subprocess.TimeoutExpired:
            os.killpg(build.pid, signal.SIGKILL)
        build.communicate()
    last = start(killed)
    said, _ = last.communicate()
    assert last.returncode == 0, said
    assert list(compare_sites(clean.site, killed.site)) == []
    assert not (killed.folder / "_build" / "build-in-progress").exists()
    # One wrong number would be seen.
    page = killed.site / "second.html"
    page.write_text(page.read_text("utf-8").replace(">41<", ">42<"), "utf-8")
    assert [name for name, _ in compare_sites(clean.site, killed.site)] == ["second.html"]
