"""Compare built sites: python -m scripts.compare_builds SITE SITE [SITE ...]. They must differ in measured values only.

Prints where else they differ, and how far their intervals agree, pooled over all pairs of sites; --json FILE keeps the
latter with machine, date and version. Exit code 0 if only what was measured differs, 1 if anything else does, 2 if a
folder is no built site. --numbers prints instead, in Markdown, which numbers of the first two changed for real.

Compared are what records say besides values, the text of pages without what shows a record, which says so by its
``data-key``, and the code of notebooks. All other files must be the same, but for drawings and what is made of records.
"""

import argparse
import difflib
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup

from scripts.build_numbers import agreement_document, agreement_lines, changes_report, compared
from scripts.site_records import Json, read_site
from tinytorch.perf.measuring.atomic_io import write_whole

#: Lines of each difference that are shown, and characters of each line.
SHOWN, _LONGEST = 6, 300
#: Elements of a page that show what was measured: by a record, behind one, drawn, or printed by a cell.
_MEASURED_PARTS = "[data-key], [popover], svg, .cell_output pre"
_BETWEEN_SENTENCES = re.compile(r"(?<=[.?!:;]) ")
#: Kinds of numbers that differ from run to run.
_MEASURED_KINDS = ("measured", "derived", "modelled")
#: What a record says that no run changes, by its kind; of any other kind all.
_SAME = {
    **dict.fromkeys(_MEASURED_KINDS, ("unit", "model")),
    "verdict": ("fixed", "numbers"),
    "claim": ("statement", "source", "source_url", "quote", "fixed", "numbers"),
    "table": ("caption", "columns"),
    "figure": ("caption",),
}
#: What the row of a table is called that tells how busy the machine was.
_LOAD = "Load"
#: How the names of files begin that are made of records.
_MADE_OF_RECORDS = ("_figures/", "_measurements/book.", "_measurements/clusters.", "_measurements/roofs.")
#: How the names of notebooks end that hold nothing that was measured but what their text quotes.
_UNEXECUTED = ("-empty", "-colab")
_QUOTED = re.compile(r"\*\*[^*]+\*\*(?: \[[^\]]*\])? in the book")
#: Sphinx's note to its next build, of settings and where the packages are.
_NOTE = ".buildinfo"


def page_lines(html: str) -> list[str]:
    """Return the sentences of a page, with the key of a record for what shows it."""
    page = BeautifulSoup(html, "html.parser")
    for part in page.select(_MEASURED_PARTS):
        part.replace_with(f"[{part.get('data-key', '')}]")
    return _BETWEEN_SENTENCES.split(" ".join((page.find("main") or page).get_text().split()))


def record_lines(content: Json) -> list[str]:
    """Return what a page's records say besides what was measured: a line for each part, behind those of where it was.

    The package that a site was made of is one of its files.
    """
    where = {name: value for name, value in content["provenance"].items() if name not in ("when", "package")}
    where["machine"] = {name: value for name, value in where["machine"].items() if name != "load"}
    parts = [("", where), *((record["key"], _same_of(record)) for record in content["records"])]
    return [line for key, same in parts for name, value in same.items() for line in _said(f"{key} {name}", value)]


def _said(name: str, value: Any) -> Iterator[str]:
    """Yield a line for a value, or for each row of a table."""
    for item in value if name.endswith(" rows") else [value]:
        yield f"{name}: {json.dumps(item)}"


def _same_of(record: Json) -> Json:
    """Return what of a record no run changes."""
    kind = record["kind"]
    same = [name for name in record if name != "when"] if kind not in _SAME else ["kind", *_SAME[kind]]
    if kind in ("table", "figure") and not _is_measured(record):
        same += ["rows", "series"]
    if kind in ("verdict", "claim") and record["fixed"]:
        same += ["word", "verdict"]
    rows = [row for row in record.get("rows", ()) if _LOAD not in row.values()]
    return {name: value for name, value in {**record, "rows": rows}.items() if name in same}


def _is_measured(held: Any) -> bool:
    """Return whether something of a record holds a measured number, or a verdict that one may turn."""
    if isinstance(held, dict):
        mine = held.get("kind") in _MEASURED_KINDS or held.get("fixed") is False
        return mine or any(map(_is_measured, held.values()))
    return isinstance(held, list) and any(map(_is_measured, held))


def notebook_lines(text: str, *, executed: bool) -> list[str]:
    """Return the lines of a notebook's cells: of one that ran, whose text holds its numbers, those of code alone."""
    cells = json.loads(text)["cells"]
    sources = [cell["source"] for cell in cells if cell["cell_type"] == "code" or not executed]
    return _QUOTED.sub("[measured]", "\n".join("".join(source) for source in sources)).splitlines()


def _lines(path: Path, name: str) -> list[str] | None:
    """Return the lines of a site's file that must be the same in others; None if all of it must."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    if name.startswith(_MADE_OF_RECORDS):
        return []
    if path.suffix == ".html":
        return page_lines(path.read_text("utf-8"))
    if path.suffix == ".ipynb":
        return notebook_lines(path.read_text("utf-8"), executed=not path.stem.endswith(_UNEXECUTED))
    if name.startswith("_records"):
        return record_lines(json.loads(path.read_text("utf-8")))
    return None


def _files(site: Path) -> set[str]:
    return {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file() and path.name != _NOTE}


def _difference(first: list[str], second: list[str]) -> list[str]:
    lines = difflib.unified_diff(first, second, lineterm="", n=0)
    return [line[:_LONGEST] for line in lines if not line.startswith(("---", "+++", "@@"))][:SHOWN]


def compare_sites(first: Path, second: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each file in which two sites differ apart from what was measured, with the lines that differ.

    Files that are not in both come with the name of the folder that has them.
    """
    ours, theirs = _files(first), _files(second)
    for name in sorted(ours ^ theirs):
        yield name, [f"is only in {first if name in ours else second}"]
    for name in sorted(ours & theirs):
        paths = first / name, second / name
        if paths[0].read_bytes() == paths[1].read_bytes():
            continue
        one, other = (_lines(path, name) for path in paths)
        different = ["differs"] if one is None or other is None else _difference(one, other)
        if different:
            yield name, different


def _report_differences(first: Path, second: Path) -> bool:
    """Print where two sites differ apart from what was measured, and return whether they do."""
    found = list(compare_sites(first, second))
    for name, lines in found:
        print("\n    ".join([name, *lines]))
    total = len(_files(first) | _files(second))
    if found:
        print(f"{len(found)} of {total} files of {first} and {second} differ in more than what was measured.")
    else:
        print(f"{total} files are the same but for what was measured.")
    return bool(found)


def main(arguments: list[str] | None = None) -> int:
    """Compare the sites that the arguments name, print where they differ, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.compare_builds", description=__doc__)
    parser.add_argument("first", type=Path, help="folder of a built site, such as _build/html")
    parser.add_argument("others", nargs="+", type=Path, help="folders of others")
    parser.add_argument("--json", type=Path, help="file to keep the agreement of their intervals in")
    parser.add_argument("--numbers", action="store_true", help="say which numbers changed for real")
    chosen = parser.parse_args(arguments)
    try:
        sites = [read_site(folder) for folder in (chosen.first, *chosen.others)]
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if chosen.numbers:
        print(changes_report(*sites[:2]))
        return 0
    differ = [_report_differences(chosen.first, other) for other in chosen.others]
    numbers = compared(sites)
    if numbers:
        print("\n".join(agreement_lines(numbers)))
        if chosen.json is not None:
            write_whole(chosen.json, json.dumps(agreement_document(sites, numbers), indent=1) + "\n")
    return int(any(differ))


if __name__ == "__main__":
    sys.exit(main())
