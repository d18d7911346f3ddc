"""Linting of the book's pages: the rules of their sources, ruff on each page as a notebook, mypy on all as modules.

Pages, and the studies that they call, are also searched for medians that lose their intervals: see `lint_medians`.
`book/_checks/sources.py` has the rules of sources.

What both say points at the line of the page. Cells are held to the rules of pyproject.toml for ``*.ipynb``. Types are
those of the whole repository, but for functions that a page defines without annotations.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from sources import Cell, check_file, read_source

from scripts import lint_medians

ROOT = Path(__file__).resolve().parent.parent
#: First lines of a page's module, where a page has its front matter.
_MYPY = (
    "# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-redefinition",
    "# mypy: disable-error-code=var-annotated",
)
_MYPY_LINE = re.compile(r"(?P<path>[^:\n]+\.py):(?P<said>\d+: .*)")

Page = Sequence[Cell]


def read_pages(paths: Sequence[Path]) -> dict[Path, Page]:
    """Return the code cells of each page that has any."""
    cells = {path: read_source(path.read_text("utf-8")).cells for path in paths}
    return {path: found for path, found in cells.items() if found}


def as_notebook(page: Page) -> str:
    """Return the text of a notebook of the cells alone."""
    cells = [nbformat.v4.new_code_cell(cell.python) for cell in page]
    return str(nbformat.writes(nbformat.v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})))


def as_module(page: Page) -> str:
    """Return the text of a module that has each line of code on the line where the page has it."""
    lines = [*_MYPY]
    for cell in page:
        lines += [""] * (cell.line - 1 - len(lines))
        lines += cell.python.splitlines()
    return "\n".join(lines) + "\n"


def ruff(pages: Mapping[Path, Page], folder: Path) -> Iterator[str]:
    """Yield a line for each fault that ruff finds."""
    notebooks = {}
    for path, page in pages.items():
        notebook = folder / f"{path.stem}.ipynb"
        notebook.write_text(as_notebook(page), "utf-8")
        notebooks[notebook.resolve()] = path
    command = [sys.executable, "-m", "ruff", "check", "--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    command += ["--output-format", "json", *map(str, notebooks)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if found.returncode not in (0, 1):
        raise RuntimeError(f"ruff could not read the pages' cells: {found.stderr.strip()}")
    for fault in json.loads(found.stdout):
        path = notebooks[Path(fault["filename"]).resolve()]
        line = pages[path][fault["cell"] - 1].line + fault["location"]["row"] - 1
        yield f"{path}:{line}:{fault['location']['column']}: {fault['code']} {fault['message']}"


def mypy(pages: Mapping[Path, Page], folder: Path) -> Iterator[str]:
    """Yield a line for each fault that mypy finds."""
    modules = {}
    for path, page in pages.items():
        module = folder / f"page_{path.stem}.py"
        module.write_text(as_module(page), "utf-8")
        modules[module.name] = path
    command = [sys.executable, "-m", "mypy", "--no-warn-unused-configs", "--no-error-summary"]
    command += [str(folder / name) for name in modules]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = found.stdout.splitlines()
    for line in said:
        match = _MYPY_LINE.fullmatch(line)
        page_path = modules.get(Path(match["path"]).name) if match else None
        yield f"{page_path}:{match['said']}" if match and page_path else line
    if found.returncode and not said:
        raise RuntimeError(f"mypy could not read the pages' cells: {found.stderr.strip()}")


def lint(paths: Sequence[Path]) -> list[str]:
    """Return a line for each fault of the pages' code, by page and tool."""
    pages = read_pages(paths)
    if not pages:
        return []
    medians = lint_medians.lint({path: as_module(page) for path, page in pages.items()})
    with TemporaryDirectory() as name:
        return [*ruff(pages, Path(name)), *mypy(pages, Path(name)), *medians]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is wrong with the pages and the studies that they call; return 1 if anything is."""
    parser = argparse.ArgumentParser(description="Lint the book's pages and the studies that they call.")
    parser.add_argument("pages", nargs="*", type=Path, default=sorted(ROOT.glob("book/*.md")))
    pages = [Path(os.path.relpath(path)) for path in parser.parse_args(arguments).pages]
    studies = [Path(os.path.relpath(path)) for path in sorted(ROOT.glob("tinytorch/chapters/**/*.py"))]
    faults = [f"{path}:{said.line}: {said.message}" for path in (*pages, *studies) for said in check_file(path)]
    faults += lint(pages)
    faults += lint_medians.lint({path: path.read_text("utf-8") for path in studies})
    print("\n".join(faults) if faults else "The pages have no faults.")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
