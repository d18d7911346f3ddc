"""The page's table of instruments: each is called as it says, and used again where it says."""

import re
from pathlib import Path

import pytest

from tinytorch.perf import profiling

ROOT = Path(__file__).resolve().parents[3]
_ROW = re.compile(r"^\| (?P<calls>`.*?) \| (?P<returns>.*?) \| (?P<used>here|\{ref\}.*?) \|$", re.MULTILINE)


def rows() -> list[tuple[str, str]]:
    """Return the first and the last cell of each row of the table of instruments."""
    page = (ROOT / "book" / "profiling.md").read_text()
    section = page[page.index("## The instruments") : page.index("## The same in PyTorch")]
    return [(found["calls"], found["used"]) for found in _ROW.finditer(section)]


def names_in(calls: str) -> list[str]:
    """Return the names that are called in a cell, and those of decorators."""
    return re.findall(r"\b[A-Za-z_]\w+(?=\()|(?<=@)\w+", calls) + re.findall(r"(?<=, `)\w+(?=`)", calls)


def code_of(chapter: str) -> str:
    """Return the page, the module and the technique's own code of a chapter."""
    folders = [ROOT / "tinytorch" / "chapters" / chapter, ROOT / "tinytorch" / "perf" / chapter]
    files = [ROOT / "book" / f"{chapter}.md", *(path for folder in folders for path in folder.rglob("*.py"))]
    return "\n".join(path.read_text() for path in files)


def is_used(name: str, code: str) -> bool:
    """Return whether code imports a name from this package, or calls a method of an object by it."""
    imported = rf"from tinytorch[\w.]* import (?:\([^)]*|[^\n(]*)\b{name}\b"
    return re.search(rf"{imported}|\bprofiler\.{name}\(|\bProfiler\(\)\.{name}\(", code) is not None


def test_the_table_has_every_instrument() -> None:
    named = {name for calls, _ in rows() for name in names_in(calls)}
    exported = set(profiling.__all__) - {"LayerRow", "OpRow"}
    assert exported <= named
    methods = {name for name in named if hasattr(profiling.Profiler, name)}
    assert {"count_parameters", "measure_memory", "measure_latency", "profile_layer", "profile_forward_pass"} <= methods


@pytest.mark.parametrize(("calls", "used"), [row for row in rows() if row[1] != "here"])
def test_an_instrument_is_used_where_the_table_says(calls: str, used: str) -> None:
    name = names_in(calls)[-1] if calls.startswith("`Profiler()") else names_in(calls)[0]
    chapters = re.findall(r"\{ref\}`[^<`]+ <([\w-]+)>`", used)
    assert len(chapters) == used.count("{ref}")
    for chapter in chapters:
        assert is_used(name, code_of(chapter.replace("-", "_"))), f"{chapter} does not use {name}"
