"""Asks other hosts whether the links of the built pages still lead somewhere. Not part of `make check-site`.

It needs a network, and what it finds is no fault of a change, so a workflow runs it on a schedule. A DOI is looked up
where DOIs are kept, as publishers turn programs away.
"""

import argparse
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, unquote, urldefrag, urlsplit

from bs4 import BeautifulSoup
from built_site import find_pages

AGENT = "Mozilla/5.0 (compatible; link check of a book; asks each address once a week at most)"
#: How often an address is asked before its answer counts, and the seconds that each may take.
TIMES, TIMEOUT = 3, 30
#: A program may not look, but something is there.
TURNED_AWAY = {401, 403, 405, 406, 418, 429, 451, 999}
WORKERS = 4

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


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the links of the site given on the command line; return 0 if all lead somewhere, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("site", type=Path, help="folder of the built site")
    given = parser.parse_args(arguments)
    try:
        pages = {page: external_links((given.site / page).read_text("utf-8")) for page in find_pages(given.site)}
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    links = sorted(set().union(*pages.values()))
    with ThreadPoolExecutor(WORKERS) as pool:
        problems = [*pool.map(problem_with, links)]
    for link, said in zip(links, problems, strict=True):
        if said is not None:
            print(f"{link}: {said} (on {', '.join(page for page, own in pages.items() if link in own)})")
    broken = len(links) - problems.count(None)
    print(f"{len(links)} links to other hosts: {broken or 'none'} broken.")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
