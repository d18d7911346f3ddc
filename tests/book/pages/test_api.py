"""The reference of the package: every entry's example runs, every tool of a chapter is one, and code leads to them."""

import ast
import doctest
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bs4 import Tag
from measured_book.pages.api import Names, Target, entries_in, parameters_of
from measured_book.state import BookState

from tests.book.small_book import Book, Build, one
from tests.book.sphinx_process import SphinxProcess
from tests.perf.made_ceilings import made_ceilings
from tinytorch import course
from tinytorch.perf import machine

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted((ROOT / "book" / "reference").glob("*.md"))
LISTED = [(page.stem, *entry) for page in PAGES for entry in entries_in(page.read_text("utf-8"))]
MEMBERS = {f"{module}.{name}": members for _, module, name, members in LISTED}
NAMES = [f"{module}.{name}" for _, module, name, _ in LISTED]
#: What calls `world` starts MPI in its process, which starts no other process any more: these run in one of their own.
ON_RANKS = [name for name in NAMES if name.startswith("tinytorch.perf.distributed.")]
PACKAGES = sorted(".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "tinytorch").rglob("__init__.py"))
EXPORTS = [
    f"{package}.{name}" for package in PACKAGES for name in getattr(importlib.import_module(package), "__all__", ())
]


def named(full: str) -> Any:
    """Return what a listed name stands for."""
    module, _, name = full.rpartition(".")
    return getattr(importlib.import_module(module), name)


NAMED = {full: named(full) for full in NAMES}


def failures(full: str) -> str:
    """Return what the example of an entry does otherwise than it says; empty if nothing."""
    entry, said = NAMED[full], list[str]()
    for what in (entry, *(getattr(entry, member) for member in MEMBERS[full])):
        test = doctest.DocTestParser().get_doctest(inspect.getdoc(what) or "", {}, full, None, 0)
        if what is entry:
            assert test.examples, f"{full} is an entry of the reference: its docstring needs a section `Examples:`"
        doctest.DocTestRunner(verbose=False).run(test, out=said.append)
    return "".join(said)


@pytest.mark.parametrize("full", [name for name in NAMES if name not in ON_RANKS])
def test_the_example_of_an_entry_does_what_it_says(
    full: str, monkeypatch: pytest.MonkeyPatch, made_machine: machine.Ceilings
) -> None:
    if full != "tinytorch.perf.machine.ceilings":  # whose own example measures nothing
        monkeypatch.setattr(machine, "ceilings", lambda threads=1: made_ceilings(threads=threads))
    assert failures(full) == ""


def test_the_examples_that_take_ranks_do_what_they_say() -> None:
    program = "import doctest as d, pydoc, sys; [d.run_docstring_examples(pydoc.locate(x), {}) for x in sys.argv[1:]]"
    names = [name for full in ON_RANKS for name in (full, *(f"{full}.{member}" for member in MEMBERS[full]))]
    command = [sys.executable, "-c", program, *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_no_example_is_left_out_of_the_tests_and_no_name_is_listed_twice() -> None:
    defined = {f"{what.__module__}.{what.__qualname__}" for what in NAMED.values()}
    found = set()
    for path in (ROOT / "tinytorch").rglob("*.py"):
        if ">>> " in (text := path.read_text("utf-8")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            owners = [one for one in ast.parse(text).body if isinstance(one, ast.FunctionDef | ast.ClassDef)]
            found |= {f"{module}.{one.name}" for one in owners if ">>> " in ast.unparse(one)}
    assert found == defined
    assert len(NAMED) == len(NAMES)


def test_each_exported_name_is_an_entry() -> None:
    """An entry's example is run above, and one without an example fails there."""
    listed = {id(what) for what in NAMED.values()}
    exported = [*EXPORTS, *(f"tinytorch.course.{name}" for name in course.__all__)]
    assert [full for full in exported if id(named(full)) not in listed] == [], "list them in book/reference/*.md"


def made_names() -> Names:
    """Return the names of the whole reference as the pages list them."""
    state = BookState()
    for page, module, name, members in LISTED:
        what = NAMED[f"{module}.{name}"]
        entries = state.of(f"reference/{page}").entries
        entries[f"{module}.{name}"] = (f"{module}.{name}", f"{what.__module__}.{what.__qualname__}")
        entries |= {f"{module}.{name}.{one}": (f"{module}.{name}.{one}",) for one in members}
    return Names(state)


def test_every_tool_of_a_chapter_leads_to_an_entry() -> None:
    names, missing = made_names(), []
    tools_of = re.compile(r"^## The (?:tools|instruments)\n.*?(?=^## )", re.MULTILINE | re.DOTALL)
    for path in sorted((ROOT / "book").glob("*.md")):
        table = tools_of.search(path.read_text("utf-8"))
        for row in re.findall(r"^\| (`.+?) \|", table[0] if table else "", re.MULTILINE):
            codes = re.findall(r"`([^`]+)`", row)
            first = names.find(codes[0], path.stem)
            tools = [code for code in codes if not code.startswith("tinytorch")]
            missing += [f"{path.stem}: {code}" for code in tools if names.find(code, path.stem, first) is None]
    assert missing == []


def test_docstrings_of_entries_name_entries_alone() -> None:
    """Code between single backticks is a name of this package: a reader of the reference must be able to follow it."""
    names, missing = made_names(), []
    for page, module, name, members in LISTED:
        what, own = NAMED[f"{module}.{name}"], Target(f"reference/{page}", f"{module}.{name}")
        for documented in (what, *(inspect.getattr_static(what, member) for member in members)):
            text = (inspect.getdoc(documented) or "").partition("Examples:")[0]
            for code in re.findall(r"(?<!`)`([^`\n]+)`(?!`)", text):
                if code not in (name, *members) and names.find(code, page, own) is None:
                    missing.append(f"{name}: {code}")
    assert missing == []


@pytest.mark.parametrize(
    ("code", "page", "anchor"),
    [
        ("Timer().measure(func, warmup=3)", "profiling", "perf.profiling.Timer.measure"),
        ("with MemoryTracker() as m:", "profiling", "perf.profiling.MemoryTracker"),
        ("@profile", "profiling", "perf.profiling.profile"),
        ("p.by_layer()", "roofline", "perf.profiling.Profiler.by_layer"),
        (".calibrate(batches)", "quantization", "perf.quantization.QuantizedLinear.calibrate"),
        ("products.tiled_matmul(a, b, tile_size)", "acceleration", "perf.acceleration.tiled_matmul"),
        ("quantize(x, Scheme(bits, symmetric))", "index", "perf.quantization.quantize"),
        ("count_attention", "profiling", "perf.profiling.FLOPCounter.count_attention"),
        *((code, "profiling", None) for code in ("np.mean(x)", "torch.matmul", "advance", "x @ w")),
        *((code, "profiling", None) for code in ("tinytorch profile", "{}", "--html")),
    ],
)
def test_code_as_readers_type_it_leads_to_its_entry_if_it_names_one(code: str, page: str, anchor: str | None) -> None:
    found = made_names().find(code, page)
    assert (found and found.anchor) == (anchor and f"tinytorch.{anchor}")


def test_of_two_entries_of_one_name_a_chapter_means_that_of_its_own_room() -> None:
    state = BookState()
    for page in ("a", "b"):
        state.of(f"reference/{page}").entries[f"tinytorch.{page}.plan"] = (f"tinytorch.{page}.plan",)
    names = Names(state)
    assert names.find("plan(model)", "b") == Target("reference/b", "tinytorch.b.plan")
    assert names.find("a.plan", "b") == Target("reference/a", "tinytorch.a.plan")
    assert names.find("plan(model)", "c") is None


def test_an_entry_is_used_by_who_calls_what_it_is_and_by_who_names_it() -> None:
    state = BookState()
    state.of("reference/a").entries["tinytorch.Timer"] = ("tinytorch.Timer", "tinytorch.perf.timer.Timer")
    state.of("calls").calls = frozenset({"tinytorch.perf.timer.Timer", "tinytorch.perf.other.Clock"})
    state.of("names").codes = frozenset({"Timer()"})
    state.of("other").calls = frozenset({"tinytorch.chapters.other.Timer"})
    assert Names(state).users() == {"tinytorch.Timer": {"calls", "names"}}


def test_a_signature_has_types_as_the_source_has_them() -> None:
    def function(a: int, /, b: list[str] | None = None, *, c: int = 1, d: Any = links) -> dict[str, float]:
        return {str(a): c}

    types = {"a": ": int", "/": "", "b": ": list[str] | None = None", "*": "", "c": ": int = 1", "d": ": Any = links"}
    assert parameters_of(function) == ([*types.items()], "dict[str, float]")
    assert parameters_of(int) is None, "what has no signature that can be looked at"
    assert parameters_of(property(lambda self: 1)) == ([], "")


CONFIGURATION = """
import measured_book
from measured_book.site import sections

def setup(app):
    measured_book.setup_content(app)
    app.connect("builder-inited", sections.no_other_search)

project = "Small book"
extensions = ["myst_nb"]
execution_packages = execution_key_paths = []
html_theme = "basic"
"""
REFERENCE = """
# Reference

```{api} tinytorch.core.layers
Dropout: forward
```

```{api} tinytorch.perf.profiling
Timer: elapsed
```
"""
CHAPTER = """
# Chapter

It is `Dropout(0.5)`, and once more `Dropout`; `forward` is a word.

| Tool | What |
|---|---|
| `Dropout`, `forward` | drops |

## With `Dropout`

A `t.elapsed` and an `np.elapsed`.
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, sphinx: SphinxProcess) -> Build:
    """Return a site with a chapter and a reference; warnings are errors."""
    book = Book(tmp_path_factory.mktemp("reference"), sphinx, CONFIGURATION)
    (book.source / "reference").mkdir()
    book.write("index", "# Book\n\n```{toctree}\nchapter\nreference/rooms\n```\n")
    book.write("chapter", CHAPTER)
    book.write("reference/rooms", REFERENCE)
    build = book.build()
    assert build.code == 0, build.output
    return build


def links(tag: Tag) -> list[tuple[str, str]]:
    return [(link.get_text(), str(link["href"]).rpartition(".")[2]) for link in tag.select("a:has(code)")]


def test_a_chapter_s_code_leads_to_entries_once_a_section_and_always_in_tables(site: Build) -> None:
    page = site.page("chapter.html")
    first = next(each for each in page.select("p") if each.get_text().startswith("It is"))
    assert links(first) == [("Dropout(0.5)", "Dropout")]
    assert links(one(page, "table")) == [("Dropout", "Dropout"), ("forward", "forward")]
    assert page.select("h2 a:has(code)") == []
    assert ("t.elapsed", "elapsed") in links(page)
    assert "np.elapsed" not in dict(links(page))


def test_an_entry_is_a_section_with_signature_fields_members_and_example(site: Build) -> None:
    page = site.page("reference/rooms.html")
    entry = one(page, "section[id='tinytorch.core.layers.Dropout']")
    assert one(entry, "h2").get_text().startswith("Dropout")
    assert one(entry, "dt").get_text() == "\nclass Dropout(p: float = 0.5, seed: Seed = None)"
    assert entry.find(id="tinytorch.core.layers.Dropout.forward") is not None
    assert ">>> " in entry.get_text()
    assert links(entry) == [], "neither its own parameters nor its own members"
    assert page.find(string=re.compile("Wall time of the body")) is not None
