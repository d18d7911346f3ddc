"""``tinytorch measure``: run the book's pages on this machine, and keep what they measured in one small file."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

from tinytorch.cli.page_runs import IN_A_CLONE, ChapterError, checkout, expected_seconds, measuring_pages, run_page
from tinytorch.cli.usage import INTERRUPTED, Parser, UsageError, check_folder, progress
from tinytorch.perf.host.identity import identity
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.report.measurements import as_text, document, page_entry, problems, read_measurements
from tinytorch.report.numbers import format_number
from tinytorch.report.provenance import package_hash, package_provenance
from tinytorch.report.records import Json

#: What is measured unless told otherwise: ceilings, rooflines and the instruments.
QUICK = ("machine", "roofline", "your_machine")
#: Characters, as the schema has it.
LONGEST_LABEL, LONGEST_NOTE = 80, 300


def add(measure: Parser) -> None:
    """Add the command's options to its parser."""
    task = measure.add_mutually_exclusive_group(required=True)
    task.add_argument("--json", metavar="FILE", help="measure, and write the results to this file after each page")
    task.add_argument(
        "--check",
        metavar="FILE",
        nargs="+",
        help="check that these result files are valid for the page “Your machine”; measure nothing",
    )
    measure.add_argument(
        "--pages",
        metavar="NAME",
        nargs="+",
        default=list(QUICK),
        help=f"pages to run, or all (default {' '.join(QUICK)})",
    )
    measure.add_argument("--label", metavar="TEXT", help="name of this machine (default: the name of its CPU)")
    measure.add_argument("--note", metavar="TEXT", help="note for readers, for example that this is a virtual machine")
    measure.add_argument(
        "--resume",
        action="store_true",
        help="measure only the pages of the --json file that were measured with different code, or not at all",
    )
    measure.set_defaults(run=_run)


def _run(chosen: argparse.Namespace) -> int:
    try:
        if chosen.check:
            return _check([Path(name) for name in chosen.check])
        check_folder("json", chosen.json)
        return _measure(chosen, checkout())
    except ChapterError as error:
        raise UsageError(str(error)) from error
    except ModuleNotFoundError as error:  # of the packages that only the book needs
        raise UsageError(f"the package {error.name} is not installed: {IN_A_CLONE}") from error


def _check(paths: list[Path]) -> int:
    """Print for each file whether it can be used; return 0 if all can, else 1."""
    wrong = 0
    for path in paths:
        try:
            made = read_measurements(path)
        except (ValueError, OSError) as error:
            wrong += 1
            print(error)
        else:
            names, count = [page["page"] for page in made["pages"]], sum(len(page["records"]) for page in made["pages"])
            print(
                f"{path.name} can be used: {count} records of the pages {', '.join(names)}, measured on {made['label']}"
            )
    return 1 if wrong else 0


def _measure(chosen: argparse.Namespace, root: Path) -> int:
    names = _chosen_pages(chosen.pages, measuring_pages(root))
    label = (chosen.label or identity().cpu).strip()
    for option, text, most in (("label", label, LONGEST_LABEL), ("note", chosen.note or "", LONGEST_NOTE)):
        if len(text) > most:
            raise UsageError(f"--{option} must have at most {most} characters, not {len(text)}")
    path = Path(chosen.json)
    made = _kept(path, label) if chosen.resume else {}
    missing = [name for name in names if name not in made]

    def keep(page: Json) -> None:
        made[page["page"]] = page_entry(page)
        order = [*names, *sorted(made.keys() - set(names))]
        whole = document(label, [made[name] for name in order if name in made], note=chosen.note)
        problem = next(problems(whole), None)
        if problem is not None:
            raise UsageError(f"the numbers of page {page['page']} cannot be used: {problem}")
        write_whole(path, as_text(whole))

    if not _run_all(root, missing, keep):
        so_far = f"{path} holds {', '.join(made)}" if made else "no page was measured"
        print(f"Interrupted: {so_far}; --resume continues.", file=sys.stderr)
        return INTERRUPTED
    changed = " The package differs from its commit." if package_provenance()["changed"] else ""
    print(f"{path} has the pages {', '.join(made)}: drop it onto the page “Your machine” of the book.{changed}")
    return 0


def _chosen_pages(asked: list[str], known: list[str]) -> list[str]:
    if asked == ["all"]:
        return known
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise UsageError(f"--pages must be all or some of {', '.join(known)}, not {', '.join(unknown)}")
    return [name for name in known if name in asked]


def _kept(path: Path, label: str) -> dict[str, Json]:
    """Return the pages of an earlier file that were made by the same code, by name."""
    if not path.is_file():
        return {}
    earlier, code = read_measurements(path), package_hash(Path(__file__).resolve().parents[1])
    if earlier["label"] != label:
        raise UsageError(f"--resume needs a file of this machine, but {path} was measured on {earlier['label']}")
    return {page["page"]: page for page in earlier["pages"] if page["provenance"]["package"]["sha256"] == code}


def _run_all(root: Path, names: list[str], keep: Callable[[Json], None]) -> bool:
    """Run the pages one after the other; return False if the user interrupted it."""
    expected = expected_seconds(root, names)
    if names:
        about = (
            "it is not known how long this takes"
            if expected is None
            else f"{format_number(expected, 's')} on other machines, and longer if kernels must be compiled"
        )
        print(f"Measuring {', '.join(names)}: {about}. Do not use the machine in the meantime.", flush=True)
    began = perf_counter()
    # Else a user's own kernel of the same name would run the pages in another environment.
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    try:
        with _progress(names) as told:
            for place, name in enumerate(names, start=1):
                keep(run_page(root, name, lambda done, of, name=name: told(name, done, of)))  # type: ignore[misc]
                done, rest = (expected_seconds(root, pages) for pages in (names[:place], names[place:]))
                if done and rest:
                    left = (perf_counter() - began) * rest / done
                    print(f"{name} is measured: about {format_number(left, 's')} left on this machine.", flush=True)
    except KeyboardInterrupt:
        return False
    return True


@contextmanager
def _progress(names: list[str]) -> Iterator[Callable[[str, int, int], None]]:
    """Yield what is told how far a page is; a terminal sees a bar, drawn only between cells."""
    with progress() as shown:
        task = shown.add_task("", total=max(len(names), 1))

        def told(name: str, done: int, of: int) -> None:
            place = names.index(name)
            words = f"page {place + 1} of {len(names)}, {name}: cell {done + 1} of {of}"
            shown.update(task, description=words, completed=place + done / of, refresh=True)

        yield told
