"""Compare built sites: python -m scripts.compare_builds SITE SITE [SITE ...]. They must differ in measured values only.

Prints where else they differ, and how far their intervals agree, pooled over all pairs of sites; --json FILE keeps the
latter with machine, date and version. Exit code 0 if only what was measured differs, 1 if anything else does, 2 if a
folder is no built site.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from scripts.build_agreement import agreement_document, agreement_lines, compared
from scripts.masking import (
    MASK,
    Masked,
    mask_measurements,
    mask_notebook,
    mask_page,
    mask_quotations,
    mask_records,
)
from scripts.site_numbers import read_site
from tinytorch.perf.measuring.atomic_io import write_whole

#: Lines of each difference that are shown.
SHOWN = 6
#: How the names of notebooks end that hold nothing that was measured.
_UNEXECUTED = ("-empty", "-colab")
#: Files of measurements that the build makes; others were sent in.
_OF_THE_BOOK = ("book", "roofs")
#: The grid of the explorer of clusters, of which the build's machine is one.
CLUSTERS = "_measurements/clusters.js"
#: Sphinx's note to its next build, of settings and where the packages are.
_NOTE = ".buildinfo"


def _masker(name: str) -> Callable[[str], Masked] | None:
    """Return what takes measured values out of a file of the site; None if it must be the same as it is."""
    path = Path(name)
    if path.suffix == ".html":
        return mask_page
    if path.suffix == ".ipynb":
        return mask_quotations if path.stem.endswith(_UNEXECUTED) else mask_notebook
    if path.parts[0] == "_measurements" and path.stem in _OF_THE_BOOK:
        return mask_measurements
    if name == CLUSTERS:
        return lambda _: Masked(MASK, set())
    if path.parts[0] == "_records" and path.suffix == ".json":
        return mask_records
    if path.parts[0] == "_figures" and path.suffix == ".svg":
        return lambda _: Masked(MASK, set())
    return None


def _files(site: Path) -> set[str]:
    return {path.relative_to(site).as_posix() for path in site.rglob("*") if path.is_file() and path.name != _NOTE}


def _difference(first: str, second: str) -> list[str]:
    lines = difflib.unified_diff(first.splitlines(), second.splitlines(), lineterm="", n=0)
    return [line[:300] for line in lines if not line.startswith(("---", "+++", "@@"))][:SHOWN]


def _names_in(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()


def compare_sites(first: Path, second: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each file in which two sites differ apart from what was measured, with the lines that differ.

    Files that are not in both come with the name of the folder that has them.
    """
    ours, theirs = _files(first), _files(second)
    for name in sorted(ours ^ theirs):
        yield name, [f"is only in {first if name in ours else second}"]
    for name in sorted(ours & theirs):
        one, other = first / name, second / name
        masker = _masker(name)
        if one.read_bytes() == other.read_bytes() and masker is not mask_page:
            continue
        if name.endswith(".zip"):
            different = _difference("\n".join(_names_in(one)), "\n".join(_names_in(other)))
        elif masker is None:
            different = ["differs"]
        else:
            results = [masker(path.read_text("utf-8")) for path in (one, other)]
            different = _difference(*(result.text for result in results))
        if different:
            yield name, different


def _report_differences(first: Path, second: Path) -> bool:
    """Print where two sites differ apart from what was measured, and return whether they do."""
    found = list(compare_sites(first, second))
    for name, lines in found:
        print(name)
        for line in lines:
            print(f"    {line}")
    total = len(_files(first) | _files(second))
    if found:
        print(f"{len(found)} of {total} files of {first} and {second} differ in more than what was measured.")
    else:
        print(f"{total} files are the same but for what was measured.")
    return bool(found)


def main(arguments: list[str] | None = None) -> int:
    """Compare the sites that the arguments name, print where they differ, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m scripts.compare_builds", description=__doc__)
    parser.add_argument("site", nargs="+", type=Path, help="folders of built sites, such as _build/html")
    parser.add_argument("--json", type=Path, help="file to keep the agreement of their intervals in")
    chosen = parser.parse_args(arguments)
    for site in chosen.site:
        if not (site / "index.html").is_file():
            print(f"{site} must be the folder of a built site, but has no index.html.", file=sys.stderr)
            return 2
    if len(chosen.site) < 2:
        print("site must name at least two folders of built sites.", file=sys.stderr)
        return 2
    differ = [_report_differences(chosen.site[0], other) for other in chosen.site[1:]]
    sites = [read_site(site) for site in chosen.site]
    numbers = compared(sites)
    if numbers:
        print("\n".join(agreement_lines(numbers)))
        if chosen.json is not None:
            write_whole(chosen.json, json.dumps(agreement_document(sites, numbers), indent=1) + "\n")
    return 1 if any(differ) else 0


if __name__ == "__main__":
    sys.exit(main())
