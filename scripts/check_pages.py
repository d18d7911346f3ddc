"""Checking of pages and of their modules before anything of them runs: `make check`, and a part of `make lint`.

Rules of sources, of references and of spelling are in ``book/_checks``; ruff and codespell read the code as `make lint`
lets them, and cells by the rules of pyproject.toml for ``*.ipynb``; mypy takes each page as a module. Everything points
at the line of the file that an author has open. What holds of chapters alone is told of a draft as what it still lacks.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import keys
import medians
import page_lists
import spelling
import yaml
from measured_book.sources.names import meant
from pybtex.exceptions import PybtexError  # type: ignore[import-untyped]
from sources import Cell, check_module, check_source, is_draft, read_source

from scripts.building.jupyter_book import sentence
from scripts.building.preparation import needs_in
from tinytorch.chapters.preparation import NEEDS
from tinytorch.prose import Number, Outcome, parts

ROOT = Path(__file__).resolve().parent.parent
_PROGRAMS = Path(sys.executable).parent
#: Below the folder of built things: where mypy finds pages as modules, which it knows again if they did not change.
_MODULES = "page_modules"
#: First lines of a page's module, where a page has its head.
_MYPY = (
    "# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-redefinition",
    '# mypy: disable-error-code="var-annotated, used-before-def, has-type"',  # a text may name what is below it
)
_SAID = re.compile(r"(?P<path>[^:\n]+):(?P<line>\d+)(?P<said>:.*)")

Page = Sequence[Cell]


class NoPageError(ValueError):
    """Refusal of the name of a page that is not there."""


class Fault(NamedTuple):
    """What is wrong, in which file, relative to the checkout, and in which line."""

    path: str
    line: int
    said: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.said}"


def as_notebook(page: Page, named: Sequence[Number | Outcome] = ()) -> str:
    """Return the text of a notebook of the cells alone, and of one that names what the text names."""
    of_any: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    sources = [cell.python for cell in page]
    if named:
        sources.append("\n".join(f"_ = {one.expression}" for one in named))
    cells = [{**of_any, "id": f"cell-{number}", "source": source} for number, source in enumerate(sources)]
    about = {"language_info": {"name": "python"}}
    return json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5})


def as_module(page: Page, named: Sequence[Number | Outcome] = ()) -> str:
    """Return the text of a module that has each line of code, and each expression of the text, on the page's line."""
    by_line: dict[int, list[str]] = {}
    for cell in page:
        by_line |= {cell.line + index: [line] for index, line in enumerate(cell.python.splitlines())}
    for one in named:
        by_line.setdefault(one.line, []).append(f"_ = {one.expression}")
    lines = [*_MYPY]
    for number in sorted(by_line):
        lines += [""] * (number - 1 - len(lines))
        lines.append("; ".join(by_line[number]))
    return "\n".join(lines) + "\n"


def modules_of(root: Path, name: str = "") -> list[Path]:
    """Return the modules of a page's chapter, of all chapters without a name."""
    chapters = root / "tinytorch" / "chapters"
    alone = chapters / f"{name}.py"
    return [alone] if name and alone.is_file() else sorted((chapters / name).rglob("*.py"))


def _named(text: str, cells: Page) -> list[Number | Outcome]:
    """Return what a page's text names by expressions, without what cells record by a name that is a word."""
    recorded = re.findall(r"page\.\w+\(\s*\"(\w+)\"", "\n".join(cell.python for cell in cells))
    found = list(parts(text))
    recorded += [one.name for one in found if isinstance(one, Outcome)]
    return [one for one in found if one.expression not in recorded]


class Sources:
    """The pages of a checkout that are checked, by name, and the modules of their chapters, by path.

    Args:
        root: of the checkout.
        names: of the pages; if there are none, all of `_toc.yml` and all modules of chapters.

    Raises:
        NoPageError: if there is no page of a name.
    """

    def __init__(self, root: Path, names: Sequence[str] = ()) -> None:
        self.root, self.book = root, root / "book"
        paths = [path for folder in (self.book, self.book / "reference") for path in sorted(folder.glob("*.md"))]
        names_of = {path: path.relative_to(self.book).with_suffix("").as_posix() for path in paths}
        self.texts = {name: path.read_text("utf-8-sig") for path, name in names_of.items()}
        if unknown := [name for name in names if name not in self.texts]:
            raise NoPageError(
                f"PAGES must name pages, but there is no book/{unknown[0]}.md{meant(unknown[0], self.texts)}"
            )
        contents = page_lists.pages_in(page_lists.read_contents(root))
        self.names = [*names] or [name for name in contents if name in self.texts]
        self.modules = [path for name in names for path in modules_of(root, name)] if names else modules_of(root)
        self.cells = {name: found for name in self.names if (found := read_source(self.texts[name]).cells)}
        #: What the text of each page names by expressions.
        self.named = {name: _named(self.texts[name], self.cells[name]) for name in self.cells}

    def path(self, name: str) -> str:
        """Return where a page is, relative to the checkout."""
        return f"book/{name}.md"

    def below(self, path: Path) -> str:
        """Return a path relative to the checkout."""
        return path.relative_to(self.root).as_posix()


def by_rules(sources: Sources) -> Iterator[Fault]:
    """Yield what breaks the rules of pages, of references between them, of modules and of the lists that name pages."""
    pages = keys.Pages(sources.texts)
    book = page_lists.read_book(sources.root)
    readme = (sources.root / "README.md").read_text("utf-8")
    table = page_lists.page_table(sources.root, book)
    yield from (Fault("README.md", *fault) for fault in page_lists.table_faults(readme, table))
    for name in sources.names:
        text, page = sources.texts[name], sources.cells.get(name, ())
        found = [*keys.References(name, pages, sources.book).faults(), *medians.faults(as_module(page))]
        found += [*spelling.page_faults(pages.read(name)[0]), *page_lists.page_faults(name, text, book)]
        if "/" not in name:  # the reference explains, and measures nothing
            found += check_source(text)
        for need in sorted(needs_in(text) - NEEDS):
            line = next(number for number, each in enumerate(text.splitlines(), start=1) if each.startswith("needs:"))
            found.append((line, f"there is no need {need!r}{meant(need, NEEDS)}"))
        yield from (Fault(sources.path(name), *fault) for fault in found)
    for module in sources.modules:
        text = module.read_text("utf-8-sig")
        with suppress(SyntaxError):  # which ruff tells
            found = [*check_module(text), *spelling.module_faults(text), *medians.faults(text)]
            yield from (Fault(sources.below(module), *fault) for fault in found)


def by_ruff(sources: Sources) -> Iterator[Fault]:
    """Yield what ruff finds in cells and modules."""
    with TemporaryDirectory() as folder:
        notebooks = {}
        for number, (name, page) in enumerate(sources.cells.items()):
            notebook = Path(folder, f"page{number}.ipynb").resolve()
            notebook.write_text(as_notebook(page, sources.named[name]), "utf-8")
            notebooks[notebook] = name
        files = [*map(str, notebooks), *map(str, sources.modules)]
        command = [str(_PROGRAMS / "ruff"), "check", "--config", str(sources.root / "pyproject.toml")]
        found = _run(sources.root, [*command, "--no-cache", "--output-format", "json", *files]) if files else "[]"
    for fault in json.loads(found):
        file, place = Path(fault["filename"]), fault["location"]
        said = f"{fault['code'] or 'syntax'} {fault['message']}"
        if (of := notebooks.get(file.resolve())) is None:
            yield Fault(sources.below(file), place["row"], said)
        elif fault["cell"] <= len(sources.cells[of]):  # what the text names is mypy's
            yield Fault(sources.path(of), sources.cells[of][fault["cell"] - 1].line + place["row"] - 1, said)
    if sources.modules:
        unlike = _run(sources.root, [str(_PROGRAMS / "ruff"), "format", "--check", *map(str, sources.modules)])
        for path, line in re.findall(r"^ *--> (.+?):(\d+):\d+$", unlike, re.MULTILINE):
            yield Fault(path, int(line), "is not laid out as ruff does it: `make format` mends that")


def by_codespell(sources: Sources) -> Iterator[Fault]:
    """Yield what codespell finds, which knows common misspellings also in comments and code."""
    paths = [*map(sources.path, sources.names), *map(sources.below, sources.modules)]
    for line in _run(sources.root, [str(_PROGRAMS / "codespell"), *paths]).splitlines():
        if found := _SAID.fullmatch(line.removeprefix("./")):
            word, _, right = found["said"].removeprefix(":").partition("==>")
            yield Fault(found["path"], int(found["line"]), f"{word.strip()!r} is misspelled: {right.strip()}")


@contextmanager
def types(sources: Sources) -> Iterator[Iterator[Fault]]:
    """Start mypy on pages and modules, and yield what it finds, for which the body of the statement need not wait."""
    folder = sources.root / "_build" / _MODULES
    folder.mkdir(parents=True, exist_ok=True)
    pages = {}
    for name, page in sources.cells.items():
        module, text = folder / f"page_{name.replace('/', '_')}.py", as_module(page, sources.named[name])
        if not module.is_file() or module.read_text("utf-8") != text:
            module.write_text(text, "utf-8")
        pages[module.relative_to(sources.root).as_posix()] = sources.path(name)
    files = [*pages, *map(sources.below, sources.modules)]
    command = [str(_PROGRAMS / "mypy"), "--no-warn-unused-configs", "--no-error-summary", *files]
    with subprocess.Popen(command, cwd=sources.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        yield _type_faults(run, pages)


def _type_faults(run: subprocess.Popen[str], pages: Mapping[str, str]) -> Iterator[Fault]:
    said, error = run.communicate()
    if run.returncode not in (0, 1):
        raise RuntimeError(f"mypy could not read the pages: {(error or said).strip()}")
    for line in said.splitlines():
        if found := _SAID.fullmatch(line):
            path = pages.get(found["path"], found["path"])
            yield Fault(path, int(found["line"]), found["said"].removeprefix(":").strip())


def _run(root: Path, command: Sequence[str]) -> str:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 65):  # the last is codespell's for what it found
        raise RuntimeError(f"{Path(command[0]).name} could not read the pages: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def faults(sources: Sources, *, with_types: bool = True) -> list[Fault]:
    """Return all that is wrong with pages and modules, by file and line."""
    with types(sources) if with_types else nullcontext(()) as of_types:
        found = {*by_rules(sources), *by_ruff(sources)}
        told = {(fault.path, fault.line, fault.said.partition(" ")[0]) for fault in found}
        found |= {each for each in by_codespell(sources) if (each.path, each.line, each.said.split()[0]) not in told}
        return sorted(found.union(of_types))


def lacks(sources: Sources) -> list[Fault]:
    """Return what drafts still lack: faults that they will have when ``draft: true`` is taken out of their heads."""
    found: list[Fault] = []
    for name in sources.names:
        text = sources.texts[name]
        if not is_draft(text):
            continue
        path, finished = sources.path(name), page_lists.finished(text)
        known = {fault.message for fault in check_source(text)}
        found += [Fault(path, each.line, each.message) for each in check_source(finished) if each.message not in known]
        now = page_lists.faults(sources.root)
        found += [Fault(*fault) for fault in page_lists.faults(sources.root, told_of=name) if fault not in now]
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is wrong with pages and their modules, and what drafts lack; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="Check pages and their modules, running nothing of them.")
    parser.add_argument("pages", nargs="*", help="names of pages, such as memory (default: all pages and modules)")
    parser.add_argument("--without-types", action="store_true", help="leave out mypy")
    given = parser.parse_args(arguments)
    try:
        sources = Sources(ROOT, given.pages)
        found, missing = faults(sources, with_types=not given.without_types), lacks(sources)
    except NoPageError as error:
        print(error, file=sys.stderr)
        return 2
    except (UnicodeDecodeError, yaml.YAMLError, PybtexError) as error:
        print(sentence(error, ROOT))
        return 1
    print("\n".join(map(str, found)) or "No faults.")
    if missing and not given.without_types:
        print("Not wrong in a draft, but to be done before draft: true is taken out:")
        print("\n".join(f"  {fault}" for fault in missing))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
