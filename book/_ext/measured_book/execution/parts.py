"""Parts of the time that the book takes: environment, training, compiling, starting Python, cells, Sphinx.

Each part is what it took when it was done last: what is kept from an earlier build counts with the time of that one.
"""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from sphinx.application import Sphinx

from measured_book.execution.events import succeeded
from measured_book.state import state_of
from tinytorch.perf.measuring.atomic_io import write_whole

#: The file of the parts, beside the site's folder.
PARTS_FILE = "parts.json"
_PREPARED = "prepared.json"
_STAMP = "made-from"


@dataclass(frozen=True)
class Part:
    """One part of the work: its name for a reader, what it holds, and its seconds; None where they were not kept."""

    name: str
    holds: str
    seconds: float | None


def environment_seconds(environment: Path) -> float | None:
    """Return how long making the environment took, as its stamp says; None if it has none that says so."""
    try:
        return float((environment / _STAMP).read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None


def prepared_seconds(folder: Path, work: str) -> tuple[int, float | None]:
    """Return how many steps of that work were prepared, and how many seconds they took on all cores together."""
    try:
        steps: dict[str, float] = json.loads((folder / _PREPARED).read_text("utf-8"))["steps"].get(work, {})
    except (OSError, ValueError, KeyError):
        return 0, None
    return len(steps), sum(steps.values())


def _sum(seconds: list[float | None]) -> float | None:
    known = [each for each in seconds if each is not None]
    return sum(known) if known and len(known) == len(seconds) else None


def parts_of(app: Sphinx) -> list[Part]:
    """Return the parts of the book's time in the order in which they come."""
    folder = Path(app.outdir).parent
    runs = [page.run for page in state_of(app.env).pages.values() if page.run is not None]
    trained, training = prepared_seconds(folder, "training")
    compiled, compiling = prepared_seconds(folder, "compiling")
    _, shared = prepared_seconds(folder, "measuring")
    first = _sum([run.cells[0].seconds for run in runs])
    others = _sum([cell.seconds for run in runs for cell in run.cells[1:]])
    return [
        Part("Environment", "packages found, checked and installed", environment_seconds(Path(sys.prefix))),
        Part("Training", f"{trained} steps that train models, added up over all cores", training),
        Part("Compiling", f"{compiled} steps that compile kernels, added up over all cores", compiling),
        Part("Starting Python", f"of {len(runs)} pages", _sum([run.start for run in runs])),
        Part("First cells", "what pages import and load", first),
        Part("Measuring", "the ceilings of one core, and all other cells", _sum([shared, others])),
        Part("Sphinx", "CPU time of its process in this build, up to this page", time.process_time()),
    ]


def _keep(app: Sphinx, exception: Exception | None) -> None:
    if succeeded(app, exception) and app.builder.format == "html":
        parts = {part.name: part.seconds for part in parts_of(app)}
        write_whole(Path(app.outdir).parent / PARTS_FILE, json.dumps(parts, indent=1) + "\n")


def setup(app: Sphinx) -> None:
    """Keep the parts of each build that succeeds."""
    app.connect("build-finished", _keep, priority=950)  # others before it may warn
