"""A byte of any file of the repository changes a key of what it feeds, or a list says why it feeds nothing."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measured_book.execution import key
from measured_book.execution.cache import PACKAGES, PATHS
from measured_book.notebooks import package
from measured_book.site import frame

from scripts import environment
from scripts.building.preparation import keys_of
from tinytorch.perf.engines.presence import available
from tinytorch.sources import package_files

ROOT = Path(__file__).resolve().parents[3]


def listed(*options: str) -> list[str]:
    command = ["git", "ls-files", "-z", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")[:-1]


TRACKED = listed()
#: Read by Sphinx as a page, or noted by one: compared by what they hold, see `Execution.outdated`.
READ = ("book/*.md", "book/references.bib", "book/_static/drawings/*", "CITATION.cff", "measurements/*")
FEEDS_NOTHING = {
    "tests/*": "holds what is built, and builds nothing",
    "peers/*": "compares in another environment, for no page",
    "benchmarks/*": "measures for no page",
    "book/_checks/*": "looks at built pages",
    "scripts/*": "starts builds: what of it reaches a page is in variables, which are in the key",
    "Makefile": "starts builds",
    "binder/*": "is read where a notebook is launched",
    "_config.yml": "Sphinx compares each of its settings",
    "_toc.yml": "Sphinx compares the order of pages",
    ".ci/*": "starts builds",
    ".g*": "is read by git, or starts builds",
    ".pre-commit-config.yaml": "is read by pre-commit",
    "C[HO]*.md": "is for readers of the repository",
    "LICENSE-TEXT": "is for readers of the repository",
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what git knows."""
    root = tmp_path_factory.mktemp("checkout")
    for name in TRACKED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, root / name)
    return root


def keys(root: Path) -> Iterator[str]:
    """Yield the keys, those first that are found soonest."""
    yield frame.digest(root / "book")
    yield from (environment.fingerprint(root / f"requirements{of}.lock", []) for of in ("", "-peers"))
    yield package._key(root)
    yield from keys_of(root, "").values()
    pages = "".join(path.read_text("utf-8") for path in sorted((root / "book").glob("*.md")))
    cells = re.findall(r"^```\{code-cell\}[^\n]*\n(?::[^\n]*\n)*(.*?)^```$", pages, re.DOTALL | re.MULTILINE)
    around = key.surroundings(root / "book", PACKAGES, PATHS)
    yield key.page_key(key.modules_of(cells, around), around)


def test_a_byte_of_any_file_is_seen(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key, "check_place", lambda _: None)
    monkeypatch.setattr(environment, "ROOT", checkout)
    facts, engines = key.machine_facts(), available()
    monkeypatch.setattr(key, "machine_facts", lambda: facts)
    monkeypatch.setattr(key, "available", lambda: engines)
    before = list(keys(checkout))

    fed = [name for name in TRACKED if not any(fnmatch(name, each) for each in (*READ, *FEEDS_NOTHING))]

    @settings(max_examples=25, database=None)
    @given(st.sampled_from(fed))
    def changes(name: str) -> None:
        path = checkout / name
        content = path.read_bytes()
        path.write_bytes(content + b"\n")
        try:
            assert any(now != then for now, then in zip(keys(checkout), before, strict=False))
        finally:
            path.write_bytes(content)

    changes()


def test_the_lists_name_what_is_there() -> None:
    for pattern in (*READ, *FEEDS_NOTHING):
        assert any(fnmatch(name, pattern) for name in TRACKED), pattern


def test_the_package_is_what_git_knows_of_it_and_what_the_wheel_holds() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in package_files(ROOT / "tinytorch")}
    assert found == {*listed("--cached", "--others", "--exclude-standard", "tinytorch")}
