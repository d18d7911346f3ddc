"""What plain Jupyter publishes is refused with page, line, cell and the call to use; what the book does is not."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from measured_book.records.outputs import HTML, NUMBER, PLOT, TABLE, faults

from tests.book.small_book import HEADER, Book
from tests.book.sphinx_process import SphinxProcess
from tinytorch.report.records import RECORD_MIME


def shown(data: dict[str, Any], kind: str = "display_data") -> nbformat.NotebookNode:
    return nbformat.v4.new_output(kind, data)


def result(text: str) -> nbformat.NotebookNode:
    return shown({"text/plain": text}, "execute_result")


def printed(text: str) -> nbformat.NotebookNode:
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def found(output: nbformat.NotebookNode, *tags: str, code: str = "show()") -> list[str]:
    return list(faults(nbformat.v4.new_code_cell(code, outputs=[output], metadata={"tags": list(tags)})))


PNG = shown({"image/png": "iVBO", "text/plain": "<Figure size 640x480 with 1 Axes>"})
FRAME = result("   a\n0  1") | {"data": {"text/html": '<div><table class="dataframe"></table></div>'}}


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        (PNG, PLOT),
        (shown({"image/svg+xml": "<svg/>"}), PLOT),
        (FRAME, TABLE),
        (shown({"text/html": '<b style="color: red">fast</b>'}), HTML),
        (printed("0.012345678901\n"), NUMBER),
        (result("1.2e-05"), NUMBER),
        (result("np.float64(0.123456)"), NUMBER),
    ],
)
def test_what_plain_jupyter_publishes_is_refused(output: nbformat.NotebookNode, fault: str) -> None:
    assert found(output) == found(output, "hide-output") == [fault]
    assert found(output, "remove-output") == [], "it is not published"


@pytest.mark.parametrize(
    "text",
    [
        "[<matplotlib.lines.Line2D object at 0x7f0c>]",
        "<function train at 0x7f0c>",
        "(<Figure size 640x480 with 1 Axes>, <Axes: >)",
    ],
)
def test_the_name_that_python_gives_an_object_is_refused(text: str) -> None:
    (fault,) = found(result(text))
    assert "as Python writes it, <" in fault
    assert found(printed(f"made {text}\n")) == [fault]


@pytest.mark.parametrize(
    "code",
    [
        'print(f"{1e3 * took:.2f} ms")',
        'print("It took", f"{took:.3g} s")',
        'print(f"{a / b:.1f}x faster")',
        'for x in xs:\n    print(f"{n / took:,.0f} images/s")',
    ],
)
def test_a_clocked_number_that_is_printed_with_its_unit_is_refused(code: str) -> None:
    assert found(printed("12.34 ms\n"), code=code) == [NUMBER]


@pytest.mark.parametrize(
    ("output", "code"),
    [
        (printed("rank 1 (process 31821) died\n"), "print(lost.message)"),
        (printed("between 5 % slower and 51 % faster\n"), "print(before.time / after.time)"),
        (printed("0.159, 0.373 MiB\n"), 'print(f"{tracker.peak_usage:.3f}, {needed:.3f} MiB")'),
        (printed("linear  12  40  1.3\n"), "p.print_top_operations(5)"),
        (result("(64, 128)"), "x.shape"),
        (result("'passed'"), "%time x"),
        (nbformat.v4.new_output("stream", name="stderr", text="0.123456"), "which MyST-NB tells"),
        (shown({RECORD_MIME: {}, "image/png": "", "text/html": "<table>", "text/plain": "0.123456"}), "page.figure()"),
    ],
)
def test_what_a_shown_cell_prints_on_purpose_and_what_page_made_stays(output: nbformat.NotebookNode, code: str) -> None:
    assert found(output, code=code) == []


@pytest.mark.parametrize(
    ("output", "tag", "code", "faulty"),
    [
        (printed("12 rows\n"), "remove-input", "show()", [NUMBER]),
        (printed("twelve rows\n"), "remove-input", "show()", []),
        (printed("12 rows\n"), "remove-input", "page.printed('k', printed_by(f))", []),
        (result("'f: passed. the ratio is 7.175000'"), "check", "show()", []),
        (printed("0.012345678\n"), "prints", "show()", []),
        (PNG, "prints", "show()", [PLOT]),
    ],
)
def test_what_a_cell_may_print_depends_on_its_tag(
    output: nbformat.NotebookNode, tag: str, code: str, faulty: list[str]
) -> None:
    assert found(output, tag, code=code) == faulty


PAGE = f"""{HEADER}
# Plain

```{{code-cell}} ipython3
:tags: [remove-cell]
from IPython.display import HTML
```

Text.

```{{code-cell}} ipython3
display({{"image/png": "iVBO", "text/plain": "a figure"}}, raw=True)
object()
```

```{{code-cell}} ipython3
:tags: [hide-input]
HTML("<table style='color: red'></table>")
```
"""


def test_the_build_says_page_line_and_cell_and_shows_nothing_of_it(tmp_path: Path, sphinx: SphinxProcess) -> None:
    book = Book(tmp_path, sphinx)
    book.write("index", PAGE)
    build = book.build()
    assert build.code == 1
    lines = [line.partition("/book/")[2] for line in build.output.splitlines() if "[outputs]" in line]
    sources = PAGE.splitlines()
    first, second = sources.index("object()"), sources.index(":tags: [hide-input]") + 1
    assert [line.partition(", <")[0] for line in lines] == [
        f"index.md:{first}: WARNING: cell 2: {PLOT} [outputs]",
        f"index.md:{first}: WARNING: cell 2: an object was published as Python writes it",
        f"index.md:{second}: WARNING: cell 3: {TABLE} [outputs]",
    ]
    page = build.pages["index.html"]
    assert "object object at" not in page
    assert "<table" not in page
