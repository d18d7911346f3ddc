"""Gate: the prose of each page is spelled as in British English with -ize, as CSpell and `words.txt` have it.

Read is what a reader reads: text, captions, titles, descriptions of pictures. Code, formulas and sources, which are
full of names, are left out. A name or term that the dictionary lacks goes into `words.txt`.
"""

import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from bs4 import BeautifulSoup

CONFIGURATION = Path(__file__).with_name("cspell.json")
_LEFT_OUT = (
    "pre, code, kbd, samp, script, style, math, template, .visually-hidden, "
    ".kind-tag, a.external, .quoted-source, .claim-source, .claim-quote, .reference-list, [translate=no], "
    # What a machine says of itself.
    "#how-this-was-measured, #table-identity"
)
#: Within these, text is one line of its own.
_BLOCKS = {
    *("h1", "h2", "h3", "h4", "h5", "h6", "p", "li", "dt", "dd", "td", "th", "caption", "figcaption", "summary"),
    *("label", "legend", "desc", "text", "button", "option", "div", "section"),
}
_SAID = ("alt", "title", "aria-label", "placeholder")
_SUGGESTION = re.compile(r"\((?P<word>[^()]+)\) Suggestions: \[(?P<better>.*)\]")
_WORD = re.compile(r"[A-Za-z]+")
#: Endings of verbs in -ise and of what is made of them.
_ISE = re.compile(r"(?P<stem>[A-Za-z]{3,}?)is(?P<end>e|es|ed|er|ers|ing|able|ation|ations|ational)", re.ASCII)


def read_aloud(html: str) -> list[str]:
    """Return what a page says in words, a line for each block."""
    page = BeautifulSoup(html, "html.parser")
    lines = [page.title.get_text(" ")] if page.title else []
    lines += [str(meta["content"]) for meta in page.select('meta[name="description"][content]')]
    body = page.find("main") or page.body or page
    for tag in body.select(_LEFT_OUT):
        tag.replace_with(" ")
    for line in body.select("br"):
        line.replace_with("\n")
    lines += [str(tag[name]) for name in _SAID for tag in body.select(f"[{name}]")]
    blocks: dict[int, list[str]] = {}
    for text in body.find_all(string=True):
        block = text.find_parent(lambda tag: tag.name in _BLOCKS) or body
        blocks.setdefault(id(block), []).append(str(text))
    lines += ["".join(pieces) for pieces in blocks.values()]
    return list(dict.fromkeys(" ".join(line.split()) for line in lines if line.strip()))


def with_ize(word: str) -> str | None:
    """Return the word with -ize for -ise; None if it does not end so."""
    found = _ISE.fullmatch(word)
    return f"{found['stem']}iz{found['end']}" if found else None


def _cspell(node: Path, lines: Iterable[str], *options: str) -> list[str]:
    """Return what CSpell prints about these lines, each word once.

    Raises:
        RuntimeError: if it does not run.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "text.txt").write_text("\n".join(lines) + "\n", "utf-8")
        command = [
            str(node / "node_modules/.bin/cspell"),
            "lint",
            "--config",
            str(CONFIGURATION),
            "--unique",
            "--no-color",
        ]
        command += ["--no-progress", "--no-summary", "--no-gitignore", *options, "text.txt"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or (done.returncode == 1 and not done.stdout.strip()):
        raise RuntimeError(f"CSpell does not run: {(done.stderr or done.stdout).strip()[:500]}")
    return done.stdout.splitlines()


def unknown_words(lines: Iterable[str], node: Path) -> list[str]:
    """Return the words in these lines that no dictionary has; RuntimeError if CSpell does not run."""
    return [word for line in _cspell(node, lines, "--words-only") if (word := line.strip())]


def suggestions(words: Sequence[str], node: Path) -> dict[str, str]:
    """Return unknown words, each with what would be right, if anything is near; RuntimeError if CSpell does not run."""
    lines = _cspell(node, words, "--show-suggestions") if words else []
    better = {said["word"]: said["better"] or "" for line in lines if (said := _SUGGESTION.search(line))}
    return {word: better.get(word, "") for word in words}


def check(pages: dict[str, str], node: Path) -> dict[str, list[str]]:
    """Return the misspelled words of each page that has any, a line for each.

    Args:
        pages: the HTML of each page, by its address.
        node: folder that CSpell is installed in.

    Raises:
        RuntimeError: if CSpell does not run.
    """
    said = {address: read_aloud(html) for address, html in pages.items()}
    lines = list(dict.fromkeys(line for page in said.values() for line in page))
    words = {word for line in lines for word in _WORD.findall(line)}
    with_z = {word: changed for word in sorted(words) if (changed := with_ize(word))}
    unknown = unknown_words([*lines, *with_z.values()], node)
    ise = {word: changed for word, changed in with_z.items() if changed not in unknown}
    only_asked = set(with_z.values()) - words
    right = suggestions([word for word in unknown if word not in only_asked], node)
    found: dict[str, list[str]] = {}
    for address, page in said.items():
        text = "\n".join(page)
        for word in [*right, *ise]:
            if not (at := re.search(rf"(?<![^\W\d_]){re.escape(word)}(?![^\W\d_])", text)):
                continue
            around = " ".join(text[max(0, at.start() - 30) : at.end() + 30].split())
            if word in ise:
                message = f"{word!r}: the book writes {ise[word]!r}"
            else:
                near = f"; near are {right[word]}" if right[word] else ""
                message = f"{word!r} is in no dictionary, nor in book/_checks/words.txt{near}"
            found.setdefault(address, []).append(f"{message} (... {around} ...)")
    return found
