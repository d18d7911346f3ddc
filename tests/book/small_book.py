"""A small book, really executed and built, over several builds in a row."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

from bs4 import BeautifulSoup, Tag

from tests.book.sphinx_process import SphinxProcess

CONFIGURATION = """
import measured_book
from measured_book.site import math, sections

def setup(app):
    measured_book.setup_content(app)
    math.setup(app)
    app.connect("builder-inited", sections.no_other_search)

project = "Small book"
extensions = ["myst_nb"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = -1  # none: `SphinxProcess` ends a build that hangs
execution_packages = []
execution_key_paths = ["../package", "../requirements.lock"]
html_theme = "basic"
html_copy_source = False
"""

#: When files of records were written that builds leave as they are, in seconds since 1970.
LONG_AGO = 1e9

#: What the first page quotes.
REFERENCES = "@misc{someone2009, title = {A paper}, year = {2009}, url = {https://example.org/paper}}\n"

HEADER = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---
"""

FIRST = """
# First page

```{code-cell} ipython3
:tags: [remove-cell]
from tinytorch.perf.measuring import Derived, Measurement, Modelled, Unmeasured
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.statistics import Stated
from tinytorch.report import Page
page = Page("first")
samples = (1.0e-3, 1.1e-3, 1.2e-3, 1.05e-3, 1.15e-3, 1.3e-3, 1.12e-3)
conditions = Conditions(inner_loops=4, statistic="median")
run = Measurement("a run", samples, "s", conditions, law=Stated(1.12e-3, 1e-3, 1.3e-3))
page.number("latency", run)
wish = Modelled.by("half", run.scaled(0.5))
other = Unmeasured("The other engine is not here.")
mean = Derived(1.13e-3, "s", "mean of the runs", (run,), "it is a mean")
bottleneck = "memory-bound"
```

```{code-cell} ipython3
:tags: [remove-output]
page.number("parameters", 12345, unit="parameters", what="weights and biases")
```

```{code-cell} ipython3
page.test("slow", run, above=2)
page.test("other-wins", Unmeasured("The other <engine> is not here."), above=1)
page.test("fast", Measurement("wide", (1.0, 3.0, 1.1, 2.9, 1.5, 2.5), "s"), above=2)
page.table("engines", other, [("op", "Op")], caption="Engines")
called = Measurement("forward", run.samples, "s", Conditions(call="forward"))
page.number("forward", called)
slower = compare_paired([1.0, 1.01, 0.99] * 6, [2.0, 2.01, 1.99] * 6, matters=0.1)
rows = [{"op": "linear", "time": run}, {"op": "all", "time": called}]
page.table("ops", rows, [("op", "Op"), ("time", "Time")], caption="Where the time goes")
```

A run takes {measured}`run`, wished {measured}`wish`.
It has {measured}`parameters`, and the second page counted {measured}`second:total`.
What bounds it: {measured}`bottleneck`, where others say {quoted}`73 %|Someone 2009 <https://example.org/paper>`.
In the mean it took {measured}`mean`.

The time of the other: {measured}`other`.

::::{outcome} slower
:::faster
Sentence of the faster with {measured}`slower`.
:::
:::slower
Sentence of the slower with {measured}`run`.
:::
:::no-difference
Sentence of none.
:::
:::open
Sentence of the open.
:::
::::

::::{outcome} other
:::measured
Sentence with the other {measured}`other`.
:::
:::unmeasured
Sentence without the other.
:::
::::

A forward pass takes {measured}`forward`.

The formula is $I = \\frac{a}{b}$.

$$
y = x^2
$$ (square)

```{claim} slow
:source: Folklore of old

> It is so.

Slow.

It took {measured}`run`, not {measured}`second:total`.
```

```{claim} fast
:source: Folklore of old

> It is so.

Fast.

Its time: {measured}`other`.
```

## Race with the other

::::{outcome} other
:name: race

:::measured
It takes {measured}`other`.
:::
:::unmeasured
:::
::::

## Claim beside the other

```{claim} other-wins
:source: Folklore of old

> It is so.

The other wins.
```
"""

SECOND = """
# Second page

```{code-cell} ipython3
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.report import Page
from tinytorch.report.drawings import Drawing
page = Page("second")
```

:::{result} mechanism
The model does {measured}`total`.

- Operations: {measured}`total`
- A forward pass: {measured}`forward`
:::

What a model does.

:::{about}
**What you will learn.** To count.
:::

```{code-cell} ipython3
page.number("total", 41, unit="ops", what="operations of a model")
samples = tuple(9e-3 * times for times in (1.0, 1.1, 1.2, 1.05, 1.15, 1.3, 1.12))
page.number("forward", Measurement("forward", samples, "s", Conditions(call="forward")))
drawing = Drawing(40)
drawing.text(200, 20, "A mechanism")
page.drawing("mechanism", drawing, caption="How it works.", alt="Two words.")
```

As {numref}`first:table-ops` shows.
"""

INDEX = """
# Small book

```{toctree}
second
first
```

```{claim-wall}
```

```{claim-ledger}
```

```{listing} tables
```

```{executions}
```
"""


@dataclass
class Build:
    """What one build said, the site as it then was, and which files of records it wrote."""

    code: int
    output: str
    pages: dict[str, str] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)

    def page(self, name: str) -> BeautifulSoup:
        return BeautifulSoup(self.pages[name], "html.parser")

    def executed(self) -> list[str]:
        """Return the pages whose cells ran in this build, in that order."""
        lines = [line for line in self.output.splitlines() if "Executed notebook" in line]
        return [Path(line.split(".md")[0]).name for line in lines]


class Book:
    """A book in a folder of its own, with a package that it measures."""

    def __init__(self, folder: Path, sphinx: SphinxProcess, configuration: str = CONFIGURATION) -> None:
        self.folder = folder
        self.sphinx = sphinx
        self.source = folder / "book"
        self.site = folder / "_build" / "html"
        self.source.mkdir(parents=True)
        (folder / "package").mkdir()
        (folder / "package" / "module.py").write_text("x = 1\n", "utf-8")
        (folder / "requirements.lock").write_text("numpy==2\n", "utf-8")
        (self.source / "references.bib").write_text(REFERENCES, "utf-8")
        (self.source / "conf.py").write_text(configuration, "utf-8")

    def write(self, name: str, text: str) -> None:
        (self.source / f"{name}.md").write_text(text, "utf-8")

    def build(self, **variables: str) -> Build:
        """Build the book with all warnings as errors."""
        settings = {"JUPYTER_PREFER_ENV_PATH": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1", **variables}
        kept = ("-d", str(self.folder / "_build" / ".doctrees"))
        code, output = self.sphinx.build(self.source, self.site, *kept, variables=settings)
        pages = {str(p.relative_to(self.site)): p.read_text("utf-8") for p in self.site.rglob("*.html")}
        written = [path for path in self.site.glob("_records/*.json") if path.stat().st_mtime != LONG_AGO]
        for path in written:
            os.utime(path, (LONG_AGO, LONG_AGO))
        return Build(code, output, pages, {path.name for path in written})

    def forget(self) -> None:
        """Remove all that builds left, but for the execution cache."""
        for name in (".doctrees", "html", "jupyter_execute"):
            shutil.rmtree(self.folder / "_build" / name, ignore_errors=True)


def one(within: Tag, selector: str) -> Tag:
    """Return the element that a CSS selector finds first; it must find one."""
    found = within.select_one(selector)
    assert found is not None, selector
    return found


@dataclass
class Story:
    """The builds of one book, in the order in which they were made; each changes one thing."""

    book: Book
    fresh: Build
    unchanged: Build
    prose_changed: Build
    from_cache: Build
    number_changed: Build
    second_alone: Build
    first_alone: Build
    all_pages: Build


def tell(folder: Path, sphinx: SphinxProcess) -> Story:
    """Build the small book with its three pages in ``folder``, as a `Story` says."""
    book = Book(folder, sphinx)
    for name, source in (("index", INDEX), ("first", HEADER + FIRST), ("second", HEADER + SECOND)):
        book.write(name, source)
    fresh = book.build()
    unchanged = book.build()
    book.write("second", f"{HEADER}{SECOND}\nMore.\n")
    prose_changed = book.build()
    book.forget()
    from_cache = book.build()
    book.write("second", HEADER + SECOND.replace("41", "42").replace("9e-3", "1e-3"))
    number_changed = book.build()
    (book.folder / "package" / "module.py").write_text("x = 2\n", "utf-8")
    book.forget()
    second_alone = book.build(TINYTORCH_BUILD_PAGES="second")
    first_alone = book.build(TINYTORCH_BUILD_PAGES="first", TINYTORCH_BUILD_OUTCOME="other")
    all_pages = book.build()
    return Story(
        book, fresh, unchanged, prose_changed, from_cache, number_changed, second_alone, first_alone, all_pages
    )
