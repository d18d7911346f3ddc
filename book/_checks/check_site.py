"""Holds every page of a built site to all gates, and says what each found and how long it took.

The pages are read while browsers look at them; Lighthouse, which judges by time, is alone on the machine.
A gate that cannot run is an error: a check that did not run has not passed.
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import built_pages
import gate_browser
import gate_html
import gate_lighthouse
import gate_spelling
from built_site import find_pages, serve

NODE = Path(__file__).resolve().parents[2] / ".node"
#: What a gate returns: the problems of each file that has any, a line each.
Problems = dict[str, list[str]]


def counted(number: int, word: str) -> str:
    """Return a number with its word in the right form: `no problems`, `1 page`."""
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"


def _lighthouse(site: Path, pages: Sequence[str]) -> Problems:
    with serve(site) as base:
        return gate_lighthouse.check(base, gate_lighthouse.chosen(site, pages), NODE)


#: Each gate, which takes the folder of the site and its pages.
GATES: dict[str, Callable[[Path, Sequence[str]], Problems]] = {
    "files": built_pages.check_site,
    "html": lambda site, pages: gate_html.check(site, pages, NODE),
    "spelling": lambda site, pages: gate_spelling.check({page: (site / page).read_text("utf-8") for page in pages}),
    "browser": lambda site, pages: {seen.address: seen.lines() for seen in gate_browser.check(site, pages)},
    "lighthouse": _lighthouse,
}


def timed(name: str, site: Path, pages: Sequence[str]) -> tuple[Problems, float]:
    """Run a gate; return what it finds and how many seconds it took."""
    start = time.monotonic()
    return GATES[name](site, pages), time.monotonic() - start


def check(site: Path, gates: Sequence[str], pages: Sequence[str]) -> int:
    """Print what these gates find on these pages, all that were run if none is named; return the number of problems.

    Raises:
        FileNotFoundError: if there is no such page, the build left it out, there is no browser, or only what an
            unfinished build left.
        RuntimeError: if a gate cannot run.
    """
    known = find_pages(site)
    if unknown := sorted(set(pages) - set(known)):
        raise FileNotFoundError(f"--page must name pages of {site}, such as {known[0]}, not {', '.join(unknown)}")
    left_out = {page for page in known if built_pages.is_left_out(site / page)}
    if unrun := sorted(left_out.intersection(pages)):
        missing = " ".join(page.removesuffix(".html") for page in unrun)
        raise FileNotFoundError(f'The last build of {site} left out {missing}: run `make book PAGES="{missing}"`.')
    if left_out and not pages:
        print(f"{counted(len(left_out), 'page')} not looked at: PAGES left out {', '.join(sorted(left_out))}.")
    pages = pages or [page for page in known if page not in left_out]
    names = [name for name in GATES if name in (gates or GATES)]
    by_page: dict[str, list[str]] = {}

    def keep(name: str, problems: Problems, seconds: float) -> None:
        for page, lines in problems.items():
            by_page.setdefault(page, []).extend(f"{name}: {line}" for line in lines)
        print(f"{name}: {counted(sum(map(len, problems.values())), 'problem')} ({seconds:.1f} s)", flush=True)

    with ThreadPoolExecutor(1) as beside:
        looking = [beside.submit(timed, name, site, pages) for name in names if name == "browser"]
        for name in names:
            if name not in ("browser", "lighthouse"):
                keep(name, *timed(name, site, pages))
        for looked in looking:
            keep("browser", *looked.result())
    if "lighthouse" in names:
        keep("lighthouse", *timed("lighthouse", site, pages))
    for page, problems in sorted((page, problems) for page, problems in by_page.items() if problems):
        print(f"\n{page}: {counted(len(problems), 'problem')}")
        print("\n".join(f"  {problem}" for problem in problems))
    count = sum(map(len, by_page.values()))
    print(f"\n{counted(len(pages), 'page')}: {counted(count, 'problem')}.")
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the site given on the command line; return 0 if it is clean, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("site", type=Path, help="folder of the built site")
    parser.add_argument("--gate", choices=list(GATES), nargs="+", default=[], help="only these gates")
    parser.add_argument("--page", nargs="+", default=[], help="only these pages, such as index.html")
    given = parser.parse_args(arguments)
    try:
        return 1 if check(given.site, given.gate, given.page) else 0
    except (FileNotFoundError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
