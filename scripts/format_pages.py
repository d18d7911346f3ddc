"""What a program can mend: style of the pages' code cells, README's table of pages, and the schema of records."""

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from page_lists import page_table, read_book, with_table
from sources import read_source

from scripts.check_pages import ROOT, as_notebook
from tinytorch.perf.measuring.codec import conditions_schema

RECORDS = ROOT / "tinytorch" / "report" / "record.schema.json"
#: The line behind which the definitions stand, one a line.
_BEFORE = '  "$defs": {\n'


def with_conditions(text: str) -> str:
    """Return the schema of records, in which definitions of conditions are those of the types."""
    made = {f'    "{name}": ': json.dumps(schema) for name, schema in conditions_schema().items()}
    kept = [line for line in text.splitlines(keepends=True) if not line.startswith(tuple(made))]
    head, tail = "".join(kept).split(_BEFORE)
    return head + _BEFORE + "".join(f"{name}{schema},\n" for name, schema in made.items()) + tail


def mended(text: str) -> str:
    """Return the text of a page with its cells mended; a cell with a magic command stays as it is."""
    cells = read_source(text).cells
    with TemporaryDirectory() as folder:
        notebook = Path(folder, "page.ipynb")
        notebook.write_text(as_notebook(cells), "utf-8")
        command = [sys.executable, "-m", "ruff", "check", "--fix-only", "--quiet", "--no-cache"]
        subprocess.run([*command, "--config", str(ROOT / "pyproject.toml"), str(notebook)], cwd=ROOT, check=True)
        made = nbformat.read(notebook, as_version=4).cells
    lines = text.splitlines()
    for cell, new in reversed(list(zip(cells, made, strict=True))):
        span = slice(cell.line - 1, cell.line - 1 + len(cell.code))
        if new.source.rstrip() != cell.python.rstrip() and lines[span] == cell.python.splitlines():
            lines[span] = new.source.splitlines()
    return "\n".join(lines) + "\n"


def main() -> None:
    """Mend every page in its place, README's table of them, and the schema of records."""
    for path in sorted(ROOT.glob("book/*.md")):
        text = path.read_text("utf-8-sig")
        if (new := mended(text)) != text:
            path.write_text(new, "utf-8")
            print(f"{path.relative_to(ROOT)} mended")
    readme = ROOT / "README.md"
    table = page_table(ROOT, read_book(ROOT))
    for path, renewed in ((readme, lambda text: with_table(text, table)), (RECORDS, with_conditions)):
        text = path.read_text("utf-8")
        if (new := renewed(text)) != text:
            path.write_text(new, "utf-8")
            print(f"{path.relative_to(ROOT)} written anew")


if __name__ == "__main__":
    main()
