"""Checking of sources before a build: what `make check` tells, but for types, is told before anything runs.

What passed is remembered: a build for which nothing changed reads nothing again, and else pages that did not change pay
for their references alone, which lead to others.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

#: The rules, and what all pages are held to: files, and below folders those of these kinds.
_RULES = (
    "_toc.yml",
    "README.md",
    "pyproject.toml",
    "requirements.lock",
    "book/references.bib",
    "book/_checks/words.txt",
)
_RULE_FOLDERS = ("book/_checks", "book/_ext", "scripts")
#: What pages include and refer to besides.
_OTHERS = ("book", "tinytorch")
_KINDS = (".md", ".py", ".svg")
#: Tells what is wrong with the pages that are named behind it.
COMMAND = [sys.executable, "-m", "scripts.check_pages", "--without-types"]


def _below(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders.sort()
        yield from (Path(where, name) for name in sorted(names) if name.endswith(_KINDS))


def _digest(root: Path, paths: Iterable[Path]) -> str:
    made = hashlib.sha256(sys.version.encode())
    for path in paths:
        if path.is_file():
            made.update(f"\0{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return made.hexdigest()


def _digests(root: Path) -> dict[str, Any]:
    """Return hashes of all that decides what is wrong: of the rules, of each page with its modules, of everything."""
    rules = [*(root / name for name in _RULES), *(path for name in _RULE_FOLDERS for path in _below(root / name))]
    pages = {}
    for path in _below(root / "book"):
        name = path.relative_to(root / "book").with_suffix("").as_posix()
        if path.suffix == ".md" and not name.startswith("_"):
            chapter = root / "tinytorch" / "chapters" / name
            pages[name] = _digest(root, [path, chapter.with_suffix(".py"), *_below(chapter)])
    everything = _digest(root, [*rules, *(path for name in _OTHERS for path in _below(root / name))])
    return {"everything": everything, "rules": _digest(root, rules), "pages": pages}


def source_faults(root: Path, asked: Sequence[str]) -> list[str]:
    """Return what is wrong with these pages and their modules, with all if none is asked for, a line each.

    Raises:
        OSError: if what was found cannot be remembered in _build.
        ValueError: if a rule cannot be applied.
    """
    memory, now = root / "_build" / "checked.json", _digests(root)
    known = _remembered(memory)
    if known["everything"] == now["everything"] and ("" in known["asked"] or set(asked or [""]) <= {*known["asked"]}):
        return []
    is_known = known["rules"] == now["rules"]
    passed = {name: made for name, made in known["pages"].items() if is_known and now["pages"].get(name) == made}
    folders = (root / "book" / "_ext", root / "book" / "_checks")
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    command = [*COMMAND, *asked, "--passed", *passed]
    done = subprocess.run(command, cwd=root, env=settings, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        good = {name: now["pages"][name] for name in asked or now["pages"]}
        before = known["asked"] if known["everything"] == now["everything"] else []
        memory.parent.mkdir(exist_ok=True)
        memory.write_text(json.dumps({**now, "pages": passed | good, "asked": [*before, *(asked or [""])]}), "utf-8")
        return []
    if done.returncode != 1 or not done.stdout:
        said = done.stderr.strip().splitlines() or ["it ended without a word"]
        raise ValueError(f"the sources could not be checked: {said[-1]}")
    return done.stdout.splitlines()


def _remembered(memory: Path) -> dict[str, Any]:
    """Return what passed before, and what it was."""
    nothing: dict[str, Any] = {"everything": "", "rules": "", "pages": {}, "asked": []}
    try:
        return nothing | json.loads(memory.read_text("utf-8"))
    except (OSError, ValueError, TypeError):
        return nothing
