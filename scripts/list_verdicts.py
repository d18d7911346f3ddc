"""List of the verdicts of a built book by what they come to: ``python -m scripts.list_verdicts [SITE]``.

Claims, comparisons, words and judged cells of tables, a line each, and the counts. What no measurement could turn is
listed apart, and is not in the share of those that are open.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from scripts.site_records import read_pages
from tinytorch.report.kinds import of_kind
from tinytorch.report.verdicts import OPEN, OUTCOMES

_SITE = Path("_build/html")


class Listed(NamedTuple):
    """A verdict of a page: where it stands, what kind of thing says it, what it comes to, and its words."""

    page: str
    key: str
    kind: str
    outcome: str
    fixed: bool
    words: str


def verdicts_of(site: Path) -> Iterator[Listed]:
    """Yield every verdict of the built pages below ``site``.

    Raises:
        ValueError: if there is no record of any page.
    """
    for page, content in read_pages(site).items():
        for record in content["records"]:
            for said in of_kind(record).verdicts():
                words = str(said.get("word") or said.get("verdict"))
                yield Listed(page, record["key"], record["kind"], said["outcome"], said["fixed"], words)


def counted(listed: list[Listed]) -> str:
    """Return the counts of the outcomes that measurements decide, and the share of them that is open."""
    free = [one for one in listed if not one.fixed]
    besides = f"Counted besides, in no share: {len(listed) - len(free)}."
    if not free:
        return f"No verdict that a measurement could turn. {besides}"
    counts = Counter(one.outcome for one in free)
    told = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
    return f"{len(free)} verdicts: {told}. Open: {counts[OPEN] / len(free):.1%}. {besides}"


def main(arguments: list[str]) -> int:
    """Print the list; return the exit code."""
    try:
        listed = list(verdicts_of(Path(arguments[0]) if arguments else _SITE))
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    table = Table(box=None)
    for name in ("page", "key", "kind", "outcome", "words"):
        table.add_column(name)
    for one in sorted(listed, key=lambda one: (one.fixed, one.outcome, one.page)):
        table.add_row(one.page, one.key, one.kind, "counted" if one.fixed else one.outcome, one.words)
    Console(width=180).print(table)
    print(counted(listed))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
