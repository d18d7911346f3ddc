"""Holds every page of a built site to all gates, and says what each found and how long it took.

The pages are read while browsers look at them; Lighthouse, which judges by time, is alone on the machine.
A gate that cannot run is an error: a check that did not run has not passed.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import built_pages
import gate_browser
import gate_html
import gate_lighthouse
import gate_spelling
from built_site import find_pages, serve

NODE = Path(__file__).resolve().parents[2] / ".node"
#: What a gate returns: the problems of each file that has any, a line each.
Problems = dict[str, list[str]]
Timed = tuple[Problems, float]


def counted(number: int, word: str) -> str:
    """Return a number with its word in the right form: `no problems`, `1 page`."""
    return f"{number or 'no'} {word}{'' if number == 1 else 's'}"


class Run(NamedTuple):
    """Some pages of a site, which each gate reads or looks at."""

    site: Path
    pages: list[str]

    def spelling(self) -> Problems:
        """Read words."""
        return gate_spelling.check({page: (self.site / page).read_text("utf-8") for page in self.pages})

    def browser(self) -> Problems:
        """Look at pages in a browser, and print the seconds of work that each part took."""
        looked = gate_browser.check(self.site, self.pages)
        seconds: Counter[str] = Counter()
        for seen in looked:
            seconds.update(seen.seconds)
        print(f"  seconds of work: {', '.join(f'{part} {took:.0f}' for part, took in seconds.items())}", flush=True)
        return {seen.address: seen.lines() for seen in looked}

    def lighthouse(self) -> Problems:
        """Look at some pages of each kind with Lighthouse."""
        with serve(self.site) as base:
            return gate_lighthouse.check(base, gate_lighthouse.chosen(self.site, self.pages), NODE)


GATES: dict[str, Callable[[Run], Problems]] = {
    "files": lambda run: built_pages.check_site(run.site, run.pages),
    "html": lambda run: gate_html.check(run.site, run.pages, NODE),
    "spelling": Run.spelling,
    "browser": Run.browser,
    "lighthouse": Run.lighthouse,
}


def timed(name: str, run: Run) -> Timed:
    """Run a gate; return what it finds and how many seconds it took."""
    start = time.monotonic()
    return GATES[name](run), time.monotonic() - start


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
    run = Run(site, [*pages] or [page for page in known if page not in left_out])
    names = [name for name in GATES if name in (gates or GATES)]
    by_page: dict[str, list[str]] = {}

    def keep(name: str, problems: Problems, seconds: float) -> None:
        for page, lines in problems.items():
            by_page.setdefault(page, []).extend(f"{name}: {line}" for line in lines)
        print(f"{name}: {counted(sum(map(len, problems.values())), 'problem')} ({seconds:.1f} s)", flush=True)

    with ThreadPoolExecutor(1) as beside:
        looking = [beside.submit(timed, name, run) for name in names if name == "browser"]
        for name in names:
            if name not in ("browser", "lighthouse"):
                keep(name, *timed(name, run))
        for looked in looking:
            keep("browser", *looked.result())
    if "lighthouse" in names:
        keep("lighthouse", *timed("lighthouse", run))
    for page, problems in sorted((page, problems) for page, problems in by_page.items() if problems):
        print(f"\n{page}: {counted(len(problems), 'problem')}")
        print("\n".join(f"  {problem}" for problem in problems))
    count = sum(map(len, by_page.values()))
    print(f"\n{counted(len(run.pages), 'page')}: {counted(count, 'problem')}.")
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
