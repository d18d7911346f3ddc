"""Lists of pages agree with the heads of pages and `_toc.yml`; and linting of clocked floats that choose words."""

from collections.abc import Callable
from pathlib import Path

import page_lists
import pytest
from medians import faults

CONTENTS = """format: jb-book
root: index
parts:
  - caption: Basics
    chapters:
      - file: first
      - file: second
      - file: third
  - caption: Reference
    chapters:
      - file: reference/index
        sections:
          - file: reference/more
"""
PAGE = """(the-{0})=
# Title

{1}

## What comes next

Then {{ref}}`the-{2}`, and {{ref}}`the-first`.

## Sources
"""
Change = Callable[[str, str, str], None]


@pytest.fixture
def change(tmp_path: Path) -> Change:
    """Return what replaces a text in a file of a checkout whose lists are right."""
    (tmp_path / "book").mkdir()
    (tmp_path / "_toc.yml").write_text(CONTENTS)
    begins = "{ref}`Begin with the first chapter <the-first>`"
    pages = {"index": (begins, "second"), "first": ("", "second"), "second": ("", "third"), "third": ("", "first")}
    for name, (said, follows) in pages.items():
        (tmp_path / "book" / f"{name}.md").write_text(PAGE.format(name, said, follows))

    def replace(file: str, old: str, new: str) -> None:
        path = tmp_path / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))

    return replace


def said(root: Path, told_of: str | None = None) -> list[str]:
    return [f"{path}:{line}: {fault}" for path, line, fault in page_lists.faults(root, told_of)]


MEASURES = "# First: why?\n\n| You need | You get | Time |\n|---|---|---|\n"
MEASURES += "| nothing | {term}`rates <rate>` and {term}`peaks` | 5 minutes |\n"


@pytest.mark.usefixtures("change")
def test_table_of_pages_is_made_of_their_heads_and_what_is_not_current_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "book" / "first.md").write_text(MEASURES)
    book = page_lists.read_book(tmp_path)
    table = page_lists.page_table(tmp_path, book)
    assert table.splitlines()[2] == "| [First: why?](book/first.md) | rates and peaks | 5 minutes |"
    assert "[Title](book/second.md), [Title](book/third.md)" in table.splitlines()[-1]
    empty = f"# Book\n\n{page_lists.BEGIN}\n{page_lists.END}\n\nMore.\n"
    assert [line for line, _ in page_lists.table_faults(empty, table)] == [3]
    written = page_lists.with_table(empty, table)
    assert list(page_lists.table_faults(written, table)) == []
    assert written.endswith(f"{page_lists.END}\n\nMore.\n")
    assert list(page_lists.table_faults("# Book\n", table))


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        (("book/first.md", "`the-second`", "`the-third`"), "book/first.md:6: 'What comes next' must lead to `second`"),
        (("book/second.md", "{ref}`the-third`", "an end"), "book/second.md:6: 'What comes next' must lead to `third`"),
        (("book/index.md", "<the-first>", "<the-second>"), "book/index.md:4: `the-second` is not the first chapter"),
        (("book/third.md", "# Title", "# Title\n\nIn Chapter 3."), "book/third.md:4: 'Chapter 3' is typed"),
    ],
)
def test_each_that_went_stale_is_said_with_its_line(
    change: Change, tmp_path: Path, changed: tuple[str, str, str], fault: str
) -> None:
    assert said(tmp_path) == []
    change(*changed)
    assert said(tmp_path)[0].startswith(fault)


def test_a_new_chapter_has_to_be_named_once_it_is_no_draft(change: Change, tmp_path: Path) -> None:
    change("_toc.yml", "      - file: third\n", "      - file: new\n      - file: third\n")
    path = tmp_path / "book" / "new.md"
    draft = "---\ndraft: true\n---\n\n(the-new)=\n# New\n"
    path.write_text(draft)
    assert said(tmp_path) == []
    expected = ["book/second.md:6: 'What comes next' must lead to `new` first, which comes next in _toc.yml"]
    assert said(tmp_path, told_of="new") == expected
    path.write_text(page_lists.finished(draft))
    assert said(tmp_path) == expected


FAULTY = [
    'page.number("gain", Counted(a.median / b.median, "", "gain"))',
    'page.table("t", [{"gain": a.median / b.median}], [("gain", "Gain", "")], caption="c")',
    'word = "faster" if a.median / b.median > 2 else "slower"',
    "is_faster = a.median - b.median > 0",
    'page.test("slow", gain, above=a.median / b.median)',
    "def study(a):\n    if a.median > 1e-3:\n        return Row(a, 'slow')\n    return Row(a, 'fast')",
    "rows.append(Row(a, 'slow' if a.median > 1e-3 else 'fast'))",
    'began = perf_counter()\nrun()\ntook = perf_counter() - began\npage.number("t", took, unit="s", what="t")',
    'rows = []\nrows.append({"gain": round(a.median * 2)})\npage.table("t", rows, columns, caption="c")',
    "def study(a, b):\n    return SUPPORTED if max(a.median, 1.0) > 2 else REFUTED",
]
FINE = [
    'page.number("gain", ratio(a, b))',
    'page.number("law", Modelled(a.median / b.median, "", "gain", "a law"))',
    "ax.plot([one.median * 1e3 for one in series])",
    "shown = [one for one in shares if one.median > 0.01]",
    "best = min(times, key=lambda one: one.median)",
    "score = right.mean()",
    'SAID = "none" if level.capacity > 2 else "some"',
    "def one(a):\n    took = a.median * 2\n\ndef other(took):\n    page.number('t', took)",
]


@pytest.mark.parametrize("python", [*FAULTY, *FINE])
def test_a_clocked_float_is_found_where_it_reaches_a_page_or_chooses_a_word_and_no_other(python: str) -> None:
    found = faults(f"x = 1\n{python}")
    assert len(found) == (python in FAULTY)
    assert [line - 1 for line, _ in found] == [line for line, _ in faults(python)]
