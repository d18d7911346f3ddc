"""Write a chapter to begin with: python -m scripts.new_chapter batching. It builds, passes every gate and is a draft.

The page has one of everything, its module a study and a check; `_toc.yml` names it after the last of the chapters.
"""

import argparse
import re
import sys
from pathlib import Path

from sources import title_fault

from tinytorch.perf.measuring.atomic_io import write_whole

ROOT = Path(__file__).resolve().parent.parent
_TEMPLATE = Path(__file__).resolve().parent / "chapter"
#: The part of the table of contents that follows the chapters.
_REFERENCE = "  - caption: Reference\n"


def write_chapter(name: str, title: str, root: Path) -> list[Path]:
    """Write page and module of a new chapter, add it to the table of contents, and return what was written.

    Raises:
        ValueError: if the name is no module's, is taken, the title is too long, or the table of contents has no part
            for it.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(f"NAME must be lower-case words joined by underscores, such as NAME=batching, not {name!r}")
    if said := title_fault(title):
        raise ValueError(f"TITLE cannot be used: {said}")
    page, module, contents = root / f"book/{name}.md", root / f"tinytorch/chapters/{name}.py", root / "_toc.yml"
    for path in (page, module, module.with_suffix("")):
        if path.exists():
            raise ValueError(f"NAME must be new, but {path.relative_to(root)} is there already")
    text = contents.read_text("utf-8")
    if text.count(_REFERENCE) != 1:
        raise ValueError("_toc.yml must have one part with the caption Reference, before which the chapter goes")
    names = {"CHAPTER_NAME": name, "CHAPTER-LABEL": name.replace("_", "-"), "CHAPTER TITLE": title}
    made = (_TEMPLATE / "page.md").read_text("utf-8")
    for place, word in names.items():
        made = made.replace(place, word)
    write_whole(page, made)
    write_whole(module, (_TEMPLATE / "study.py").read_text("utf-8"))
    write_whole(contents, text.replace(_REFERENCE, f"      - file: {name}\n{_REFERENCE}"))
    return [page, module, contents]


def main(arguments: list[str] | None = None) -> int:
    """Write the chapter and say where; return 2 if it cannot be written."""
    parser = argparse.ArgumentParser(description="Write a chapter to begin with.")
    parser.add_argument("name", help="of page and module, such as batching")
    parser.add_argument("--title", help="of the page; the name in words if left out")
    given = parser.parse_args(arguments)
    title = given.title or given.name.replace("_", " ").capitalize()
    try:
        written = write_chapter(given.name, title, ROOT)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(f"{path.relative_to(ROOT)}" for path in written))
    print(f"Now: make live PAGES={given.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
