"""Asks other hosts whether the links of the built pages still lead somewhere. Not part of `make check-site`.

It needs a network, and what it finds is no fault of a change, so a workflow runs it on a schedule. A DOI is looked up
where DOIs are kept, as publishers turn programs away. What was good is remembered for a while, in `--cache`.
"""

import argparse
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag, urlsplit

from bs4 import BeautifulSoup
from built_site import find_pages

from tinytorch.perf.measuring.atomic_io import write_whole

AGENT = "Mozilla/5.0 (compatible; link check of a book; asks each address once a week at most)"
#: How often an address is asked before its answer counts, and the seconds that each may take.
TIMES, TIMEOUT = 3, 30
#: Days for which a good answer is remembered.
REMEMBERED = 20
#: A program may not look, but something is there.
TURNED_AWAY = {401, 403, 405, 406, 418, 429, 451, 999}
WORKERS = 4
DAY = 24 * 60 * 60

Ask = Callable[[str], int]


def external_links(html: str) -> set[str]:
    """Return the addresses of other hosts that a page links to, without their fragments."""
    links = {str(link["href"]) for link in BeautifulSoup(html, "html.parser").find_all("a", href=True)}
    return {urldefrag(link).url for link in links if urlsplit(link).scheme in ("http", "https")}


def asked_address(link: str) -> str:
    """Return what is asked about a link: itself, or for a DOI its entry in the register."""
    parts = urlsplit(link)
    if parts.hostname in ("doi.org", "dx.doi.org"):
        return f"https://doi.org/api/handles/{quote(unquote(parts.path.lstrip('/')), safe='/')}"
    return link


def ask(address: str) -> int:
    """Return the status that a host answers with; OSError if none does."""
    request = urllib.request.Request(address, headers={"User-Agent": AGENT, "Accept": "*/*"})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def problem_with(link: str, ask: Ask = ask, pause: float = 5.0) -> str | None:
    """Return what is wrong with a link after asking up to `TIMES` times; None if it leads somewhere."""
    said = ""
    for attempt in range(TIMES):
        time.sleep(pause * attempt)
        try:
            status = ask(asked_address(link))
        except (OSError, ValueError) as error:  # no host, no answer, no address
            said = f"no answer: {error}"
            continue
        if status < 400 or status in TURNED_AWAY:
            return None
        said = f"answer {status}"
        if status in (404, 410):
            break  # certain
    return said


def read_cache(path: Path | None, now: float) -> dict[str, float]:
    """Return the links that were good not long ago, each with when; empty without a cache.

    Raises:
        ValueError: if the file is no cache.
    """
    if path is None or not path.is_file():
        return {}
    content = json.loads(path.read_text("utf-8"))
    if not isinstance(content, dict) or not all(isinstance(when, (int, float)) for when in content.values()):
        raise ValueError(f"--cache must name a file that this program wrote, not {path}: remove it")
    return {link: when for link, when in content.items() if now - when < REMEMBERED * DAY}


def check(
    links: Iterable[str], good: dict[str, float], now: float, problem: Callable[[str], str | None]
) -> dict[str, str]:
    """Return what is wrong with each broken link, and add the good ones to ``good`` with the time ``now``."""
    asked = sorted(set(links) - good.keys())
    with ThreadPoolExecutor(WORKERS) as pool:
        answers = dict(zip(asked, pool.map(problem, asked), strict=True))
    good |= {link: now for link, said in answers.items() if said is None}
    return {link: said for link, said in answers.items() if said is not None}


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the links of the site given on the command line; return 0 if all lead somewhere, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("site", type=Path, help="folder of the built site")
    parser.add_argument("--cache", type=Path, help="file that remembers good links")
    given = parser.parse_args(arguments)
    now = time.time()
    try:
        pages = {page: external_links((given.site / page).read_text("utf-8")) for page in find_pages(given.site)}
        good = read_cache(given.cache, now)
    except (FileNotFoundError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    broken = check(set().union(*pages.values()), good, now, problem_with)
    if given.cache is not None:
        write_whole(given.cache, json.dumps(good, indent=1, sort_keys=True) + "\n")
    for link, said in broken.items():
        print(f"{link}: {said} (on {', '.join(page for page, links in pages.items() if link in links)})")
    print(f"{len(good) + len(broken)} links to other hosts: {len(broken) or 'none'} broken.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
